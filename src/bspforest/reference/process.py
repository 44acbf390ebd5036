"""The BSP-Tree process on a convex polytope (Algorithms 1 and 2), its restriction (Theorem 1) and slices (Lemma 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .hulls import Cut, PairHulls
from .polytopes import Polytope


@dataclass(eq=False)
class Block:
    """A block □ of a partition, with its cut and its two children: the paper's {□, C, B', B''}.

    Attributes
    ----------
    polytope : Polytope
    birth_time : float
        The time of the parent's cut; 0 for the root.
    parent : Block or None
    cut : Cut or None
        None if the block is not cut within the budget.
    section : ndarray of shape (k, d) or None
        The vertices of the intersection of the cut with the block: the ends of a segment in two dimensions, an
        unordered polygon in three (see `bspforest.reference.order_polygon`).
    children : tuple of Block
        The blocks to the left and right of the cut; empty if there is no cut.
    """

    polytope: Polytope
    birth_time: float = 0.0
    parent: Block | None = None
    cut: Cut | None = None
    section: np.ndarray | None = None
    children: tuple[Block, ...] = ()

    def walk(self) -> Iterator[Block]:
        """Iterate over this block and its descendants in preorder, left before right."""
        stack = [self]
        while stack:
            block = stack.pop()
            yield block
            stack += block.children[::-1]

    def cut_blocks(self) -> list[Block]:
        """Return the blocks that have a cut, in order of the time of the cut."""
        return sorted(
            (block for block in self.walk() if block.children), key=lambda block: block.children[0].birth_time
        )

    def leaves(self, time: float = np.inf) -> list[Block]:
        """Return the blocks without a cut, which form the partition; with ``time``, the partition as of that time."""
        return [b for b in self.walk() if b.birth_time <= time and (b.cut is None or b.cut.time > time)]

    def find(self, x: np.ndarray) -> Block:
        """Return the block of the partition that contains the point x."""
        block = self
        while block.cut is not None:
            block = block.children[int(block.cut.goes_right(x))]
        return block


def draw_partition(domain: Polytope, budget: float, random_state=None, *, shape: Callable = PairHulls) -> Block:
    """Draw a realisation of the process (Algorithm 1, BSP(□, τ)) and return the root block.

    Parameters
    ----------
    domain : Polytope
    budget : float
        The paper's τ. The expected number of cuts of the unit square is 2τ + πτ²/4.
    random_state : int, numpy.random.Generator or None
    shape : {PairHulls, Box}
        PairHulls for oblique cuts, Box for a Mondrian process.

    Returns
    -------
    Block
        The whole domain, with its cut and its children.

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
    """Cut the block and its children until the budget is spent (Algorithm 2, BlockCut(□, τ))."""
    hulls = shape(block.polytope.vertices)
    time = block.birth_time + rng.exponential() / hulls.rate()  # line 1
    if time >= budget:  # lines 2, 8-9
        return
    split_block(block, hulls.draw_cut(time, rng))  # lines 3-5
    for child in block.children:  # line 6
        cut_block(child, budget, rng, shape)


def split_block(block: Block, cut: Cut) -> None:
    """Split the block in two (Algorithm 2, line 5)."""
    left, right, block.section = block.polytope.split(cut)
    block.cut = cut
    block.children = (Block(left, cut.time, block), Block(right, cut.time, block))


def restrict(block: Block, domain: Polytope) -> Block:
    """Restrict a partition to a convex set inside its domain (Theorem 1), dropping the cuts that miss the set."""
    root = Block(domain)
    _restrict(block, root)
    return root


def _restrict(block: Block, inner: Block) -> None:
    if block.cut is None:
        return
    if inner.polytope.is_crossed(block.cut):
        split_block(inner, block.cut)
        for child, inner_child in zip(block.children, inner.children, strict=True):
            _restrict(child, inner_child)
    else:
        right = block.cut.goes_right(inner.polytope.vertices[0])
        _restrict(block.children[int(right)], inner)


def slice_line(block: Block, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return where the segment from ``start`` to ``end`` meets the cuts, as sorted fractions of its length (Lemma 1).

    Let v = end - start, and v_(i,j) its projection on dimensions i and j. The number of intersections is Poisson with
    mean τ Σ |v_(i,j)| over pairs of dimensions; given their number, they are uniform. In two dimensions the sum is |v|,
    which is the paper's 2τ per unit of length, halved like all rates. In more dimensions it depends on the direction,
    which the paper's Lemma 1 omits: in three dimensions the mean per unit of length is 2τ along an axis and √6 τ along
    the diagonal of the cube.

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
