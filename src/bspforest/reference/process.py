"""The BSP-Tree process on a convex polytope (Algorithms 1 and 2), and what Theorem 1 and Lemma 1 ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .hulls import Cut, PairHulls
from .polytopes import Polytope


@dataclass(eq=False)
class Block:
    """A block □ of the partition, with its cut and the two blocks it is cut into: the paper's {□, C, B', B''}.

    Attributes
    ----------
    polytope : Polytope
    born : float
        When it was made: its parent's cut's time, or 0.
    parent : Block or None
    cut : Cut or None
        None if the block is not cut before the budget is spent.
    section : ndarray of shape (k, d) or None
        The part of the cut that lies in the block, by its vertices: the ends of a segment in two dimensions; in three,
        a polygon, which `bspforest.reference.order_polygon` puts in order.
    children : tuple of Block
        The parts left and right of the cut; empty if there is none.
    """

    polytope: Polytope
    born: float = 0.0
    parent: Block | None = None
    cut: Cut | None = None
    section: np.ndarray | None = None
    children: tuple[Block, ...] = ()

    def walk(self) -> Iterator[Block]:
        """This block and all blocks in it, each before its parts, the left ones first."""
        stack = [self]
        while stack:
            block = stack.pop()
            yield block
            stack += block.children[::-1]

    def cut_blocks(self) -> list[Block]:
        """The blocks that are cut, in the order of time."""
        return sorted((block for block in self.walk() if block.children), key=lambda block: block.children[0].born)

    def leaves(self, time: float = np.inf) -> list[Block]:
        """The blocks that are not cut: together, the partition. With a ``time``, as it was then."""
        return [b for b in self.walk() if b.born <= time and (b.cut is None or b.cut.time > time)]

    def find(self, x: np.ndarray) -> Block:
        """The block of the partition that holds the point x."""
        block = self
        while block.cut is not None:
            block = block.children[int(block.cut.goes_right(x))]
        return block


def draw_partition(domain: Polytope, budget: float, random_state=None, *, shape: Callable = PairHulls) -> Block:
    """Algorithm 1, BSP(□, τ): a realisation of the process, as the block that is the whole domain.

    Parameters
    ----------
    domain : Polytope
    budget : float
        The paper's τ. A square of side 1 is cut 2τ + πτ²/4 times in the mean.
    random_state : int, numpy.random.Generator or None
    shape : {PairHulls, Box}
        Oblique cuts, or those of a Mondrian process.

    Examples
    --------
    >>> from bspforest.reference import draw_partition, make_box
    >>> square = draw_partition(make_box([0, 0], [1, 1]), 2.0, random_state=1)
    >>> len(square.leaves())
    8
    >>> round(sum(block.polytope.volume for block in square.leaves()), 12)
    1.0
    >>> first = square.cut_blocks()[0]
    >>> first is square, first.cut.dims, first.section.shape
    (True, (0, 1), (2, 2))
    """
    if not 0 <= budget < np.inf:
        raise ValueError(f"budget must be a finite number, 0 or more, got {budget!r}")
    root = Block(domain)
    cut_block(root, budget, np.random.default_rng(random_state), shape)
    return root


def cut_block(block: Block, budget: float, rng: np.random.Generator, shape: Callable = PairHulls) -> None:
    """Algorithm 2, BlockCut(□, τ): cut the block, and its parts, until the budget is spent."""
    hulls = shape(block.polytope.vertices)
    time = block.born + rng.exponential() / hulls.rate()  # line 1
    if time >= budget:  # lines 2, 8-9
        return
    part_block(block, hulls.draw_cut(time, rng))  # lines 3-5
    for part in block.children:  # line 6
        cut_block(part, budget, rng, shape)


def part_block(block: Block, cut: Cut) -> None:
    """Cut the block in two (Algorithm 2, line 5)."""
    left, right, block.section = block.polytope.split(cut)
    block.cut = cut
    block.children = (Block(left, cut.time, block), Block(right, cut.time, block))


def restrict(block: Block, domain: Polytope) -> Block:
    """The restriction of a partition to a convex set inside it (Theorem 1): cuts that miss it are left out."""
    root = Block(domain)
    _restrict(block, root)
    return root


def _restrict(block: Block, inner: Block) -> None:
    if block.cut is None:
        return
    if inner.polytope.is_crossed(block.cut):
        part_block(inner, block.cut)
        for whole, part in zip(block.children, inner.children, strict=True):
            _restrict(whole, part)
    else:
        right = block.cut.goes_right(inner.polytope.vertices[0])
        _restrict(block.children[int(right)], inner)


def slice_line(block: Block, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Where the segment from ``start`` to ``end`` meets the cuts, in parts of its length, sorted (Lemma 1).

    The number of these points is Poisson with mean τ Σ |v_(i,j)| over pairs of dimensions, v = end - start and v_(i,j)
    its shadow in dimensions i and j; given their number, they are uniform. In two dimensions the sum is |v|: the
    paper's 2τ a unit of length, halved as all rates are. In more dimensions it depends on the direction, which the
    paper's Lemma 1 leaves out: in three, a unit of length along an axis is met by 2τ cuts, one along the cube's
    diagonal by √6 τ.

    >>> from bspforest.reference import draw_partition, make_box
    >>> square = draw_partition(make_box([0, 0], [1, 1]), 2.0, random_state=1)
    >>> slice_line(square, np.array([0.0, 0.0]), np.array([1.0, 1.0])).round(3)
    array([0.312, 0.421, 0.435])
    """
    if block.cut is None:
        return np.empty(0)
    low, high = block.cut.heights(np.stack([start, end]))
    first, last = block.children[int(low > 0)], block.children[int(high > 0)]
    if first is last:
        return slice_line(first, start, end)
    at = low / (low - high)
    middle = (1 - at) * start + at * end
    before = at * slice_line(first, start, middle)
    after = at + (1 - at) * slice_line(last, middle, end)
    return np.concatenate([before, [at], after])
