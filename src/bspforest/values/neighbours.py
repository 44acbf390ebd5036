"""Labels near a row: those of the smallest node around it, in each tree, that has a number of rows."""

from __future__ import annotations

import numpy as np

from ..engine.arrays import LABEL_WEIGHT
from ..engine.forest import OnlineForest
from ..engine.kernels.joint import find_hosts
from .kernel_matrix import KernelMatrix
from .mean import weighted_quantiles

# Rows that a node must have for its labels to be taken as a sample.
LEAST_ROWS = 10


class NeighbourLabels:
    """The labels in the smallest nodes of at least `LEAST_ROWS` rows, as they are when this is made.

    Parameters
    ----------
    forest : OnlineForest
    targets : ndarray of shape (rows, outputs)
        Labels of the rows held, oldest first.
    """

    def __init__(self, forest: OnlineForest, targets: np.ndarray) -> None:
        slots = forest.rows.held_slots()
        n_leaves = forest.trees.arrays.leaves.shape[1]
        n_trees = forest.trees.n_trees
        self._y = np.zeros((forest.rows.n_slots, targets.shape[1]))
        self._w = np.zeros(forest.rows.n_slots)
        self._y[slots] = targets
        self._w[slots] = forest.trees.arrays.labels[slots, LABEL_WEIGHT]
        self._order = np.empty((n_trees, len(slots)), np.int32)
        self._hosts = np.zeros((n_trees, n_leaves, 2), np.int32)  # of each leaf: its host as an interval of the order
        for m, tree in enumerate(KernelMatrix(forest.trees, len(slots)).trees):
            self._order[m] = tree.slots
            stack = np.empty(len(tree.starts), np.int64)
            find_hosts(forest.trees.arrays, m, tree.starts, tree.ends, tree.nodes, LEAST_ROWS, self._hosts[m], stack)

    def stds(self, forest: OnlineForest, X: np.ndarray) -> np.ndarray:
        """Return the standard deviation of each output, by the law of total variance over trees and their nodes."""
        leaves = forest.trees.find_leaves(X)
        n_trees = len(self._order)
        scale = np.abs(self._y).max() or 1.0
        first, second = np.zeros((2, len(X), self._y.shape[1]))
        within = np.zeros_like(first)
        for m in range(n_trees):
            w = self._w[self._order[m]][:, None]
            y = self._y[self._order[m]] / scale
            weight, total, squares = (
                np.concatenate([np.zeros((1, a.shape[1])), np.cumsum(a, axis=0)]) for a in (w, w * y, w * y * y)
            )
            start, end = self._hosts[m, leaves[:, m]].T
            around = np.maximum(weight[end] - weight[start], 1e-300)
            mean = (total[end] - total[start]) / around
            within += np.maximum((squares[end] - squares[start]) / around - mean**2, 0.0)
            first += mean
            second += mean**2
        between = np.maximum(second / n_trees - (first / n_trees) ** 2, 0.0)
        return scale * np.sqrt(within / n_trees + between)

    def centred_quantiles(self, forest: OnlineForest, X: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return quantiles of the first output about its mean, each tree with a weight of 1."""
        leaves = forest.trees.find_leaves(X)
        out = np.empty((len(X), len(q)))
        for row in range(len(X)):
            intervals = self._hosts[np.arange(len(self._order)), leaves[row]]
            slots = [self._order[m, start:end] for m, (start, end) in enumerate(intervals)]
            shares = [self._w[part] / max(self._w[part].sum(), 1e-300) for part in slots]
            labels, weights = self._y[np.concatenate(slots), 0], np.concatenate(shares)
            if not weights.any():
                out[row] = np.nan
                continue
            out[row] = weighted_quantiles(labels, weights, q) - np.average(labels, weights=weights)
        return out
