"""The paper's Algorithm 4 as printed, as a regressor: trees of `bspforest.reference`, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from bspforest.reference import Box, Node, PairHulls, grow_forest


class MeanTree(NamedTuple):
    """A tree of the reference, and the mean label of the training rows in each of its leaves."""

    root: Node
    means: dict[Node, float]

    @property
    def n_leaves(self) -> int:
        return len(self.means)


class PrintedForest:
    """A forest of means whose trees redraw the next cut of a leaf with each row (``refinement="redraw"``).

    Its parameters are those of the library's forest of means: features are scaled to [0, 1] by the range of the training
    rows, the budget is ``budget_scale`` times n^(1/(d+2)), and nodes of fewer than four rows are not cut. A row takes 0.6 ms
    per tree with boxes; with hulls in pairs of dimensions 4 ms for d = 2, 40 ms for d = 5, and more as rows accumulate.
    """

    def __init__(self, n_trees: int, cuts: str, budget_scale: float, seed: int) -> None:
        self.n_trees, self.shape, self.budget_scale, self.seed = n_trees, SHAPES[cuts], budget_scale, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.low = X.min(axis=0)
        self.width = np.where(np.ptp(X, axis=0) > 0, np.ptp(X, axis=0), 1.0)
        rows = self._scale(X)
        rate = 1 / (X.shape[1] + 2)
        trees = grow_forest(
            rows, lambda n: self.budget_scale * n**rate, self.n_trees, self.seed, refinement="redraw", shape=self.shape
        )
        self.trees_ = [
            MeanTree(tree.root, {leaf: float(y[index].mean()) for leaf, index in find_leaves(tree.root, rows)})
            for tree in trees
            if tree.root is not None
        ]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        rows, total = self._scale(X), np.zeros(len(X))
        for tree in self.trees_:
            for leaf, index in find_leaves(tree.root, rows):
                total[index] += tree.means[leaf]
        return total / len(self.trees_)

    def _scale(self, X: np.ndarray) -> np.ndarray:
        return (X - self.low) / self.width


SHAPES = {"pairs": PairHulls, "axes": Box}


def find_leaves(root: Node, rows: np.ndarray) -> Iterator[tuple[Node, np.ndarray]]:
    """Iterate over the leaves that rows fall into, and the indices of these rows."""
    stack = [(root, np.arange(len(rows)))]
    while stack:
        node, index = stack.pop()
        if node.children and node.cut is not None:
            right = node.cut.goes_right(rows[index])
            stack += [(node.children[0], index[~right]), (node.children[1], index[right])]
        elif len(index):
            yield node, index
