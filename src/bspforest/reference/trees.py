"""Online BSP trees on data (Algorithms 3, 4 and 5), with explicit convex hulls in all pairs of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from .hulls import Cut, PairHulls


@dataclass(eq=False)
class Node:
    """A node of a tree: the paper's {◇, C, V_left, V_right}.

    Attributes
    ----------
    points : ndarray of shape (n, d)
        The rows in the node, oldest first.
    hulls : PairHulls or Box
        The paper's ◇, the hulls of these rows.
    cut : Cut or None
        For a leaf, its *pending* cut, which is applied once the budget reaches its time. None if the leaf has too few
        rows to be cut, or only identical ones.
    children : tuple of Node
        The nodes to the left and right of the cut; empty for a leaf.
    """

    points: np.ndarray
    hulls: PairHulls
    cut: Cut | None = None
    children: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Iterate over this node and its descendants in preorder, left before right."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children[::-1]

    def leaves(self) -> list[Node]:
        """Return the leaves of the subtree, from left to right."""
        return [node for node in self.walk() if not node.children]

    def find(self, x: np.ndarray) -> Node:
        """Return the leaf that the point x falls into."""
        node = self
        while node.cut is not None and node.children:
            node = node.children[int(node.cut.goes_right(x))]
        return node


class Tree:
    """One tree of an online BSP forest, as described in the paper.

    Parameters
    ----------
    budget : float or callable
        The paper's τ_n: a number, or a nondecreasing function of the number of rows.
    min_samples_split : int, default=4
        A node with fewer rows is not cut (Algorithm 4, line 2, "≤ 3 datapoints").
    refinement : {"exact", "redraw"}, default="exact"
        What happens to a leaf when a row arrives in it.

        ``"redraw"`` is Algorithm 4 as printed. Line 5 passes the leaf to HullCut, which redraws the cost of its next cut,
        starting from the time of its parent's cut. The leaf has already survived until τ, but with each arrival it must
        survive the same time again. As a result the tree depends on the order of the rows and has far more leaves than
        under the law of the paper's theorems, which is the law of HullCut on all rows at once. Leaves in which no row
        arrives are never refined as τ increases.

        ``"exact"`` is a correction under which the paper's claim holds: online trees have the law of a tree grown on all
        the data. The next cut of a leaf is drawn once and kept *pending* until the budget reaches it. A row that arrives
        in the leaf may bring an earlier cut, by lines 7 to 10 as in any other node.

        The table shows the number of leaves (mean and standard error over 100 trees) for uniform rows in the unit square
        and τ_n = n^(1/4), learned online with ``"exact"``, in a batch, and online with ``"redraw"``:

        ====  ==========  ==========  ==========
        rows  exact       batch       redraw
        ====  ==========  ==========  ==========
        100   10.0 ± 0.4  10.5 ± 0.4  25.7 ± 0.3
        400   19.3 ± 0.6  19.1 ± 0.6  84.7 ± 0.6
        ====  ==========  ==========  ==========

    shape : {PairHulls, Box}
        PairHulls for oblique cuts, Box for a Mondrian tree.
    random_state : int, numpy.random.Generator or None

    Attributes
    ----------
    root : Node or None
    tau : float
        The budget for the rows learned so far.

    Examples
    --------
    >>> X = np.random.default_rng(0).random((30, 2))
    >>> tree = Tree(budget=lambda n: n**0.25, random_state=0)
    >>> for x in X:
    ...     tree.learn(x)
    >>> len(tree.root.points), len(tree.root.leaves())
    (30, 7)
    >>> all(leaf.cut is None or leaf.cut.time > tree.tau for leaf in tree.root.leaves())
    True
    """

    def __init__(
        self,
        budget: float | Callable[[int], float],
        *,
        min_samples_split: int = 4,
        refinement: str = "exact",
        shape: Callable = PairHulls,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        if refinement not in ("exact", "redraw"):
            raise ValueError(f'refinement must be "exact" or "redraw", got {refinement!r}')
        if min_samples_split < 2:
            raise ValueError(f"min_samples_split must be 2 or more, got {min_samples_split!r}")
        self.budget = budget
        self.min_samples_split = min_samples_split
        self.refinement = refinement
        self.shape = shape
        self.rng = np.random.default_rng(random_state)
        self.root: Node | None = None
        self.tau = 0.0

    def learn(self, x: np.ndarray) -> None:
        """Learn one row (Algorithm 3, line 3)."""
        x = _check_array(x, "d" if self.root is None else str(self.root.points.shape[1]))
        self._set_tau(1 if self.root is None else len(self.root.points) + 1)
        if self.root is None:
            self.root = Node(x[None], self.shape(x[None]))
            return
        self.root = self.extend(self.root, x, 0.0)
        if self.refinement == "exact":
            self.refine()

    def build(self, X: np.ndarray) -> Self:
        """Replace the tree by one grown on these rows at once (Algorithm 5 from the root)."""
        if self.refinement == "redraw":
            raise ValueError(
                'build needs refinement="exact": with "redraw" trees depend on the order of the rows; use learn'
            )
        X = _check_array(X, "n, d")
        self.tau = 0.0
        self._set_tau(len(X))
        self.root = self.cut_hull(X, 0.0)
        return self

    def extend(self, node: Node, x: np.ndarray, start: float) -> Node:
        """Add the row x to a node whose parent was cut at time ``start`` (Algorithm 4, cBSP(V, x, τ)), and return the node."""
        points = np.vstack([node.points, x])
        hulls = node.hulls.extended(x)  # line 1
        if len(points) < self.min_samples_split:  # lines 2-3
            return Node(points, hulls)
        if node.cut is None or (self.refinement == "redraw" and not node.children):  # lines 4-5
            return self.cut_hull(points, start)
        time = self._draw_time(start, hulls.rate_beyond(node.hulls))  # line 7
        if time < node.cut.time:  # line 8
            cut = hulls.draw_cut_beyond(node.hulls, time, self.rng)  # line 9
            above = Node(points, hulls, cut)
            if time < self.tau:  # line 10; otherwise the node is a leaf, and this becomes its pending cut
                alone = Node(x[None], self.shape(x[None]))
                above.children = (node, alone) if cut.goes_right(x) else (alone, node)
            return above
        node.points, node.hulls = points, hulls  # line 13
        if node.children:  # line 15
            side = int(node.cut.goes_right(x))
            child = self.extend(node.children[side], x, node.cut.time)
            node.children = (node.children[0], child) if side else (child, node.children[1])
        return node

    def cut_hull(self, points: np.ndarray, start: float) -> Node:
        """Grow a subtree on these rows with cuts after time ``start`` (Algorithm 5, HullCut(◇, τ))."""
        node = Node(points, self.shape(points))  # lines 1-4
        if len(points) < self.min_samples_split:
            return node
        time = self._draw_time(start, node.hulls.rate())  # line 5
        if time < np.inf:
            node.cut = self._draw_cut(node, time)  # lines 7-8; pending if the test in line 6 fails
            if time < self.tau:  # line 6
                self._split(node, node.cut)  # lines 9-10
        return node

    def refine(self) -> None:
        """Apply the pending cuts that the budget has reached, the correction to line 5 of Algorithm 4."""
        for leaf in self.root.leaves() if self.root is not None else ():
            if leaf.cut is not None and leaf.cut.time < self.tau:
                self._split(leaf, leaf.cut)

    def _split(self, node: Node, cut: Cut) -> None:
        right = cut.goes_right(node.points)
        node.children = tuple(self.cut_hull(node.points[side], cut.time) for side in (~right, right))

    def _draw_time(self, start: float, rate: float) -> float:
        return start + self.rng.exponential() / rate if rate > 0 else np.inf

    def _draw_cut(self, node: Node, time: float) -> Cut:
        while True:  # repeats only if rounding puts rows that are very close on the same side
            cut = node.hulls.draw_cut(time, self.rng)
            right = cut.goes_right(node.points)
            if right.any() and not right.all():
                return cut

    def _set_tau(self, n: int) -> None:
        tau = float(self.budget(n) if callable(self.budget) else self.budget)
        if not tau >= self.tau:
            raise ValueError(f"budget must be 0 or more and not decrease, got {tau!r} for {n} rows after {self.tau!r}")
        self.tau = tau


def _check_array(x: np.ndarray, shape: str) -> np.ndarray:
    """Return ``x`` as an array, or raise an error if its shape is not "d", "n, d" or a given number of entries."""
    x = np.asarray(x, dtype=float)
    if x.ndim != len(shape.split(",")) or x.size == 0 or (shape.isdigit() and len(x) != int(shape)):
        raise ValueError(f"expected an array of shape ({shape}), got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("rows must be finite")
    return x


def grow_forest(
    X: np.ndarray, budget: float | Callable[[int], float], n_trees: int, random_state=None, **kw
) -> list[Tree]:
    """Grow trees from the rows of X one by one (Algorithm 3, oBSP(x_1:N, τ_1:N)). Other arguments are those of `Tree`.

    >>> forest = grow_forest(np.random.default_rng(0).random((20, 3)), 1.0, n_trees=5, random_state=0)
    >>> [len(tree.root.leaves()) for tree in forest]
    [3, 6, 5, 6, 7]
    """
    rngs = np.random.default_rng(random_state).spawn(n_trees)
    trees = [Tree(budget, random_state=rng, **kw) for rng in rngs]  # line 1
    for x in np.asarray(X, dtype=float):  # line 2
        for tree in trees:  # line 3
            tree.learn(x)
    return trees
