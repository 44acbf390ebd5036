"""Labels near a row: those of the smallest node around it, in each tree, that has a number of rows."""

from __future__ import annotations

import numpy as np

from ..engine.arrays import LABEL_WEIGHT
from ..engine.forest import OnlineForest
from ..engine.kernels.intervals import find_hosts
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
        n_trees, n_slots = forest.trees.n_trees, forest.rows.n_slots
        self._y = np.zeros((n_slots, targets.shape[1]))
        self._w = np.zeros(n_slots)
        self._y[slots] = targets
        self._w[slots] = forest.trees.arrays.labels[slots, LABEL_WEIGHT]
        matrix = KernelMatrix(forest.trees, len(slots), 1.0)
        self._order = matrix.slots
        self._hosts = np.zeros((n_trees, n_slots, 2), np.int32)  # of each row: its host as an interval of the order
        stack = np.empty(len(slots) + 1, np.int64)
        find_hosts(matrix.slots, matrix.starts, matrix.ends, matrix.counts, 0, n_trees, LEAST_ROWS, self._hosts, stack)

    def _find_hosts(self, forest: OnlineForest, X: np.ndarray) -> np.ndarray:
        """Return the hosts of rows, by row and tree: those of the newest point in their leaf."""
        trees = np.arange(len(self._order))
        newest = forest.trees.arrays.leaves["last"][trees, forest.trees.find_leaves(X)]
        return self._hosts[trees, newest]

    def stds(self, forest: OnlineForest, X: np.ndarray) -> np.ndarray:
        """Return the standard deviation of each output, by the law of total variance over trees and their nodes.

        Nodes without weight are left out. Where all are, the rows held answer all together.
        """
        hosts = self._find_hosts(forest, X)
        if not self._w.any():
            return np.full((len(X), self._y.shape[1]), np.nan)
        gaps = self._y - np.average(self._y, axis=0, weights=self._w)  # sums of squares of large labels would cancel
        scale = np.abs(gaps[self._w > 0]).max() or 1.0
        gaps /= scale
        n_speak, first, second, within = np.zeros((4, len(X), self._y.shape[1]))
        for m, order in enumerate(self._order):
            w, y = self._w[order][:, None], gaps[order]
            weight, total, squares = (
                np.concatenate([np.zeros((1, a.shape[1])), np.cumsum(a, axis=0)]) for a in (w, w * y, w * y * y)
            )
            start, end = hosts[:, m].T
            around = weight[end] - weight[start]
            share = np.divide(1.0, around, out=np.zeros_like(around), where=around > 0)
            mean = (total[end] - total[start]) * share
            within += np.maximum((squares[end] - squares[start]) * share - mean**2, 0.0)
            n_speak += around > 0
            first += mean
            second += mean**2
        silent = n_speak == 0
        n_speak[silent] = 1.0
        between = np.maximum(second / n_speak - (first / n_speak) ** 2, 0.0)
        variance = within / n_speak + between
        return scale * np.sqrt(np.where(silent, np.average(gaps**2, axis=0, weights=self._w), variance))

    def centred_quantiles(self, forest: OnlineForest, X: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return quantiles of the first output about its mean, each tree with a weight of 1.

        Where no label has weight, the rows held answer all together.
        """
        hosts = self._find_hosts(forest, X)
        out = np.empty((len(X), len(q)))
        for row in range(len(X)):
            slots = [self._order[m, start:end] for m, (start, end) in enumerate(hosts[row])]
            shares = [self._w[part] / max(self._w[part].sum(), 1e-300) for part in slots]
            labels, weights = self._y[np.concatenate(slots), 0], np.concatenate(shares)
            if not weights.any():
                labels, weights = self._y[:, 0], self._w
            if not weights.any():
                out[row] = np.nan
                continue
            out[row] = weighted_quantiles(labels, weights, q) - np.average(labels, weights=weights)
        return out
