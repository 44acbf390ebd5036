"""Mean values: predictions from the label statistics of leaves.

``sums`` are those of `TreeEnsemble.sum_leaves`. Where no leaf had any weight, the rows held answer all together.
"""

from __future__ import annotations

import math

import numpy as np

from ..engine.arrays import LABEL
from ..engine.forest import OnlineForest
from ..engine.kernels.predict import N_SUMS, N_TREES, REFERENCE, SUM_MEAN, SUM_MEAN_SQUARED, SUM_VARIANCE
from .leaf_quantiles import find_leaf_quantiles, split_rows

# Labels between these have squares that neither overflow nor vanish.
TAME = (1e-140, 1e140)


def mean_of_held(forest: OnlineForest) -> float:
    """Return the mean label of the rows held; 0 if they have no weight."""
    labels = forest.held_labels()
    return float(np.average(labels[:, 0], weights=labels[:, 1])) if labels[:, 1].any() else 0.0


def means(forest: OnlineForest, sums: np.ndarray) -> np.ndarray:
    """Return the mean over trees of the mean label in the leaf."""
    n_trees = sums[:, N_TREES]
    mean = sums[:, REFERENCE] + sums[:, SUM_MEAN] / np.maximum(n_trees, 1.0)
    silent = n_trees == 0
    if silent.any():
        mean[silent] = mean_of_held(forest)
    return mean


def mean_of_row(forest: OnlineForest, sums: list[float]) -> float:
    """Return `means` for one row whose sums are a list: a fifth of the time."""
    n_trees = sums[N_TREES]
    return sums[REFERENCE] + sums[SUM_MEAN] / n_trees if n_trees else mean_of_held(forest)


def std_of_held(forest: OnlineForest) -> float:
    """Return the standard deviation of the labels held; NaN if they have no weight."""
    labels = forest.held_labels()
    if not labels[:, 1].any():
        return math.nan
    gaps = labels[:, 0] - mean_of_held(forest)
    scale = float(np.abs(gaps).max()) or 1.0
    return math.sqrt(np.average((gaps / scale) ** 2, weights=labels[:, 1])) * scale


def stds(forest: OnlineForest, X: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the label, by the law of total variance over trees and leaves.

    Squares of labels beyond 1e154 overflow, and those of labels below 1e-154 vanish: such rows are computed from the labels in
    their leaves, scaled down or up.
    """
    n_trees = np.maximum(sums[:, N_TREES], 1.0)
    within = sums[:, SUM_VARIANCE] / n_trees
    with np.errstate(over="ignore", invalid="ignore"):
        between = np.maximum(sums[:, SUM_MEAN_SQUARED] / n_trees - (sums[:, SUM_MEAN] / n_trees) ** 2, 0.0)
    std = np.sqrt(within + between)
    suspect = np.flatnonzero(~((std > TAME[0]) & (std < TAME[1])))
    if len(suspect) and not TAME[0] < np.abs(forest.held_labels()[:, 0]).max() < TAME[1]:
        std[suspect] = _scaled_stds(forest, X[suspect])
    silent = sums[:, N_TREES] == 0
    if silent.any():
        std[silent] = std_of_held(forest)
    return std


def _scaled_stds(forest: OnlineForest, X: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the labels in the leaves of each row, each tree with a weight of 1."""
    labels = forest.trees.arrays.labels[:, LABEL]
    scale = float(np.abs(forest.held_labels()[:, 0]).max()) or 1.0
    out = np.zeros(len(X))
    for row, (slots, weights) in enumerate(forest.trees.leaf_points(forest.trees.find_leaves(X))):
        if weights.any():
            y = labels[slots] / scale
            mean = np.average(y, weights=weights)
            out[row] = math.sqrt(np.average((y - mean) ** 2, weights=weights)) * scale
    return out


def shares_of_held(forest: OnlineForest) -> np.ndarray:
    """Return the share of each class among the rows held; equal ones if they have no weight."""
    labels = forest.held_labels()
    n_classes = forest.trees.n_classes
    totals = np.bincount(labels[:, 0].astype(int), labels[:, 1], minlength=n_classes)
    return totals / totals.sum() if totals.any() else np.full(n_classes, 1 / n_classes)


def shares(forest: OnlineForest, sums: np.ndarray) -> np.ndarray:
    """Return the mean over trees of the class frequencies in the leaf. The last column of ``sums`` counts trees."""
    silent = sums[:, -1] == 0
    if silent.any():
        sums[silent, :-1] = shares_of_held(forest)
        sums[silent, -1] = 1.0
    return sums[:, :-1] / sums[:, -1:]


def weighted_quantiles(labels: np.ndarray, weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return for each share in ``q`` the smallest label at which the sum of the weights reaches it, up to rounding."""
    order = np.argsort(labels)
    order = order[weights[order] > 0]
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, (q - 1e-12) * total[-1])
    return labels[order[np.minimum(at, len(order) - 1)]]


def quantiles_of_held(forest: OnlineForest, q: np.ndarray) -> np.ndarray:
    """Return quantiles of the labels held; NaN if they have no weight."""
    labels = forest.held_labels()
    return weighted_quantiles(labels[:, 0], labels[:, 1], q) if labels[:, 1].any() else np.full(len(q), math.nan)


def predict_labels(
    forest: OnlineForest, X: np.ndarray, *, return_std: bool, q: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return the mean label of each row, and, if asked, the standard deviation of the label and its quantiles at ``q``.

    Each tree has a weight of 1, and spreads it over the labels in its leaf. With quantiles, sums are read from the leaves found for
    these: walking down the trees takes longer than the rest.
    """
    if q is None:
        quantiles = None
        sums = forest.trees.sum_leaves(X)
    else:
        quantiles, sums = np.empty((len(X), len(q))), np.zeros((len(X), N_SUMS))
        for block in split_rows(forest, len(X)):
            leaves = forest.trees.find_leaves(X[block])
            forest.trees.sum_found_leaves(leaves, sums[block])
            find_leaf_quantiles(forest, leaves, q, quantiles[block])
        silent = np.isnan(quantiles).any(axis=1)
        if silent.any():
            quantiles[silent] = quantiles_of_held(forest, q)
    return means(forest, sums), stds(forest, X, sums) if return_std else None, quantiles
