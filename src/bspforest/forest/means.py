"""Predictions from the labels in leaves: the forest of the paper.

Each tree has a weight of 1, and spreads it over the labels in its leaf. Where no leaf has any weight, all stored rows predict together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..trees.coordinates import Coordinates
from .forest import OnlineForest
from .held_out import Order
from .kernels.means import FIRST, N_TREES, SECOND, SUM_MEAN, SUM_MEAN_SQUARED, SUM_VARIANCE, WEIGHT
from .leaf_means import count_terms, insert_classes, shift_terms
from .leaf_quantiles import find_leaf_quantiles
from .tree_operations import LOCAL_OPERATIONS, TreeOperations


def weighted_quantiles(labels: np.ndarray, weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return for each share in ``q`` the smallest label at which the sum of the weights reaches it, up to rounding."""
    order = np.argsort(labels)
    order = order[weights[order] > 0]
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, (q - 1e-12) * total[-1])
    return labels[order[np.minimum(at, len(order) - 1)]]


class MeanPrediction:
    """Predictions from the labels in leaves. Nothing is tuned or solved for.

    Attributes
    ----------
    centre : float
        In regression, labels are summed relative to it.
    """

    is_ridge = False
    order: Order = "stream"
    seed = 0
    verbose = False
    half_life = np.inf
    settings = None
    n_forgotten = 0
    revisions: tuple[()] = ()

    def __init__(self, operations: TreeOperations = LOCAL_OPERATIONS, centre: float = 0.0) -> None:
        self.operations = operations
        self.centre = centre

    @property
    def remembers_labels(self) -> bool:
        """Whether labels have left a trace beside the trees."""
        return self.centre != 0.0

    def export_state(self) -> dict[str, Any]:
        """Return what is kept beside the trees, as JSON can hold it."""
        return {"centre": self.centre}

    def forget(self, n: int, n_left: int, *, strict: bool) -> MeanPrediction:
        """Return the prediction once n rows are forgotten, and so many left: `recentre` does the rest."""
        return self if n_left else MeanPrediction(self.operations)

    # ------------------------------------------------------------------------------------------------------------------
    # Terms

    def prepare(self, forest: OnlineForest, *, order: Order) -> tuple[Coordinates, None]:
        """Let the stored rows carry their terms; return coordinates for trees of them."""
        slots = forest.rows.held_slots()
        self.centre = 0.0 if forest.config.n_classes else self._find_mean(forest)
        self.carry(forest, slots)
        return forest.fit_coordinates(slots), None

    def recentre(self, forest: OnlineForest) -> None:
        """Sum labels relative to the mean of those that are stored now."""
        centre = self._find_mean(forest)
        forest.trees.map_terms(partial(shift_terms, shift=self.centre - centre))
        self.centre = centre
        self.carry(forest, forest.rows.held_slots())

    def solve(self, forest: OnlineForest, decided: Any) -> None:
        """Do nothing once trees are built."""

    def learn(self, forest: OnlineForest, slots: np.ndarray, *, n_leaving: int) -> None:
        """Do nothing once rows are inserted."""

    def find_max_rows(self, n_seen: int) -> None:
        """Rows are only limited by the window."""

    def revise(self, forest: OnlineForest, n: int, *, must_solve: bool) -> None:
        """Do nothing once rows are learned."""

    def insert_classes(self, places: np.ndarray, n_after: int) -> None:
        """Do nothing once there are more classes."""

    def carry(self, forest: OnlineForest, slots: np.ndarray) -> None:
        """Let rows carry the terms whose sums over leaves predict."""
        y, w, k = forest.y[slots, 0], forest.weights[slots], forest.config.n_classes
        terms = np.zeros((len(slots), count_terms(k)))
        if k:
            terms[np.arange(len(slots)), y.astype(np.intp)] = w
        else:
            gap = y - self.centre
            terms[:, WEIGHT], terms[:, FIRST], terms[:, SECOND] = w, w * gap, w * gap * gap
        forest.trees.write_terms(slots, terms)

    def widen(self, places: np.ndarray, n_after: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that adds columns for more classes to terms or their sums; class k becomes ``places[k]``."""
        return partial(insert_classes, places=places, n_after=n_after)

    # ------------------------------------------------------------------------------------------------------------------
    # Predicting

    def predict_labels(
        self, forest: OnlineForest, X: np.ndarray, *, return_std: bool, q: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return the mean label of each row, and, if asked, the standard deviation of the label and its quantiles at ``q``."""
        sums = self.operations.sum_leaves(forest.trees, X, 0)
        n_trees = np.maximum(sums[:, N_TREES], 1.0)
        silent = sums[:, N_TREES] == 0
        mean = sums[:, SUM_MEAN] / n_trees
        second = (sums[:, SUM_VARIANCE] + sums[:, SUM_MEAN_SQUARED]) / n_trees
        std = np.sqrt(np.maximum(second - mean**2, 0.0))  # over trees and leaves
        mean += self.centre
        quantiles = None if q is None else find_leaf_quantiles(forest, X, q)
        if silent.any():
            y, w = forest.held_labels()
            mean[silent] = self._find_mean(forest)
            std[silent] = math.sqrt(np.average((y[:, 0] - mean[silent][0]) ** 2, weights=w)) if w.any() else math.nan
            if q is not None and quantiles is not None:
                quantiles[silent] = weighted_quantiles(y[:, 0], w, q) if w.any() else math.nan
        return mean, std if return_std else None, quantiles

    def predict_proba(self, forest: OnlineForest, X: np.ndarray, *, hard: bool = False) -> np.ndarray:
        """Return the mean over trees of the class frequencies in the leaf, or, if ``hard``, of votes."""
        k = forest.config.n_classes
        sums = self.operations.sum_leaves(forest.trees, X, k, hard=hard)
        silent = sums[:, -1] == 0
        if silent.any():
            y, w = forest.held_labels()
            totals = np.bincount(y[:, 0].astype(np.intp), w, minlength=k)
            sums[silent, :-1] = totals / totals.sum() if totals.any() else 1 / k
            sums[silent, -1] = 1.0
        return sums[:, :-1] / sums[:, -1:]

    @staticmethod
    def _find_mean(forest: OnlineForest) -> float:
        """Return the mean label of the stored rows; 0 if they have no weight."""
        y, w = forest.held_labels()
        return float(np.average(y[:, 0], weights=w)) if w.any() else 0.0
