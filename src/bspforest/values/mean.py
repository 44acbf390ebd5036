"""What the leaves of all trees said of rows, as answers.

The sums are those of `OnlineForest.sum_leaves`. Where no leaf had any weight, the rows held answer all together.
"""

from __future__ import annotations

import math

import numpy as np

from ..engine.forest import OnlineForest


def mean_of_all(forest: OnlineForest) -> float:
    """The mean label of the rows held; 0 if they have no weight."""
    labels = forest.held_labels()
    return float(np.average(labels[:, 0], weights=labels[:, 1])) if labels[:, 1].any() else 0.0


def means(forest: OnlineForest, sums: np.ndarray) -> np.ndarray:
    """Regression: the mean over trees of the mean label in the leaf."""
    mean = sums[:, 4] + sums[:, 0] / np.maximum(sums[:, 3], 1.0)
    silent = sums[:, 3] == 0
    if silent.any():
        mean[silent] = mean_of_all(forest)
    return mean


def weighted_quantiles(labels: np.ndarray, weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """For each share in ``q``, the smallest label at which the sum of the weights reaches that share, up to rounding."""
    order = np.argsort(labels)
    order = order[weights[order] > 0]
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, (q - 1e-12) * total[-1])
    return labels[order[np.minimum(at, len(order) - 1)]]


def quantiles_of_all(forest: OnlineForest, q: np.ndarray) -> np.ndarray:
    """Quantiles of the labels held; NaN if they have no weight."""
    labels = forest.held_labels()
    return weighted_quantiles(labels[:, 0], labels[:, 1], q) if labels[:, 1].any() else np.full(len(q), math.nan)


def std_of_all(forest: OnlineForest) -> float:
    """The standard deviation of the labels of the rows held; NaN if they have no weight: nothing is known."""
    labels = forest.held_labels()
    if not labels[:, 1].any():
        return math.nan
    return math.sqrt(np.average((labels[:, 0] - mean_of_all(forest)) ** 2, weights=labels[:, 1]))


def stds(forest: OnlineForest, sums: np.ndarray) -> np.ndarray:
    """Regression: the standard deviation of the label, by the law of total variance over trees and leaves."""
    trees = np.maximum(sums[:, 3], 1.0)
    within = sums[:, 1] / trees
    between = np.maximum(sums[:, 2] / trees - (sums[:, 0] / trees) ** 2, 0.0)
    std = np.sqrt(within + between)
    silent = sums[:, 3] == 0
    if silent.any():
        std[silent] = std_of_all(forest)
    return std


def all_shares(forest: OnlineForest) -> np.ndarray:
    """The share of each class among the rows held; equal ones if they have no weight."""
    labels = forest.held_labels()
    totals = np.bincount(labels[:, 0].astype(int), labels[:, 1], minlength=forest.trees.n_classes)
    return totals / totals.sum() if totals.any() else np.full(forest.trees.n_classes, 1 / forest.trees.n_classes)


def shares(forest: OnlineForest, sums: np.ndarray) -> np.ndarray:
    """Classification: the mean over trees of what the leaf says of each class."""
    silent = sums[:, -1] == 0
    if silent.any():
        sums[silent, :-1] = all_shares(forest)
        sums[silent, -1] = 1.0
    return sums[:, :-1] / sums[:, -1:]
