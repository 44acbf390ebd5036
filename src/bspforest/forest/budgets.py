"""What a forest says at an earlier budget: predictions from the nodes that are alive at a time."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from ..trees.layout import NOTHING
from .forest import OnlineForest
from .kernels.budgets import find_nodes_at, sum_paths_until
from .ridge import RidgePrediction


class Answers(NamedTuple):
    """Predictions for some rows: probabilities of classes, or means and standard deviations of labels."""

    values: np.ndarray  # (n, classes), or (n,) in regression
    stds: np.ndarray  # (n,), empty in classification, and if they were not asked for


def list_cut_times(forest: OnlineForest) -> list[np.ndarray]:
    """Return the times of the cuts of each tree, sorted. At time t, a tree has one leaf more than cuts up to t."""
    times = []
    for m in range(forest.trees.n_trees):
        nodes = forest.trees.number_nodes(m)[0]
        cuts = forest.trees.arrays.cuts[m][nodes[nodes >= 0]]
        times.append(np.sort(cuts["time"][cuts["right"] != NOTHING]))
    return times


def answer_at(
    forest: OnlineForest, X: np.ndarray, time: float, tree: int | None = None, *, with_stds: bool = True
) -> Answers:
    """Return what a forest that holds rows, or one of its trees, says of rows at a time.

    With means, the labels in the node alive at that time answer. With ridge predictions, the sum along the path ends there: it
    is what the forest has said by that time, with the duals it has. How far off that is was learned for whole trees, so
    the standard deviation is that of the forest at any time.

    At an infinite time these are the predictions of the forest, but for rounding.
    """
    trees = (0, forest.trees.n_trees) if tree is None else (tree, tree + 1)
    X = np.ascontiguousarray(X, float)
    if forest.prediction.is_ridge:
        scores = _sum_paths(forest, cast(RidgePrediction, forest.prediction), X, time, trees)
        if forest.config.n_classes:
            return Answers(
                cast(RidgePrediction, forest.prediction).calibration.apply(scores, forest.config.n_classes), np.empty(0)
            )
        stds = forest.prediction.predict_labels(forest, X, return_std=True, q=None)[1] if with_stds else None
        return Answers(scores[:, 0], np.empty(0) if stds is None else stds)
    return _average_nodes(forest, X, time, trees)


def _sum_paths(
    forest: OnlineForest, prediction: RidgePrediction, X: np.ndarray, time: float, trees: tuple[int, int]
) -> np.ndarray:
    """Return the score of each label column."""
    assert prediction.settings is not None
    placed, out = forest.trees.place(X), np.zeros((len(X), len(prediction.mean)))
    scratch = np.empty((1, forest.trees.n_features))
    bandwidth = float(prediction.settings.bandwidth)
    forest.trees.call(sum_paths_until, forest.trees.arrays, *trees, placed, bandwidth, float(time), out, scratch)
    return out / (trees[1] - trees[0]) + prediction.mean


def _average_nodes(forest: OnlineForest, X: np.ndarray, time: float, trees: tuple[int, int]) -> Answers:
    """Return averages over trees of the labels in nodes, counted from the rows held: trees keep those of leaves only."""
    y, w = forest.held_labels()
    y = y[:, 0]
    found = [_find_nodes(forest, rows, time, trees) for rows in (forest.held_rows(), X)]
    numbers, index = np.unique(np.concatenate([part.ravel() for part in found]), return_inverse=True)
    held = index[: found[0].size].reshape(found[0].shape)
    asked = index[found[0].size :].reshape(found[1].shape)
    n, k, n_trees = len(numbers), forest.config.n_classes, trees[1] - trees[0]

    def add_up(weights: np.ndarray) -> np.ndarray:
        return np.bincount(held.ravel(), np.repeat(weights, n_trees), n)

    total = np.maximum(add_up(w), np.finfo(float).tiny)
    if k:
        shares = np.stack([add_up(w * (y == c)) / total for c in range(k)], axis=1)
        return Answers(shares[asked].mean(axis=1), np.empty(0))
    means = add_up(w * y) / total
    gaps = (y[:, None] - means[held]) ** 2 * w[:, None]
    within = np.bincount(held.ravel(), gaps.ravel(), n) / total
    # The law of total variance over trees and nodes.
    return Answers(means[asked].mean(axis=1), np.sqrt(within[asked].mean(axis=1) + means[asked].var(axis=1)))


def _find_nodes(forest: OnlineForest, X: np.ndarray, time: float, trees: tuple[int, int]) -> np.ndarray:
    """Return numbers of the nodes of rows at a time, of shape (rows, trees); those of different trees differ."""
    nodes = np.empty((len(X), trees[1] - trees[0]), np.int64)
    scratch = np.empty((1, forest.trees.n_features))
    placed = forest.trees.place(np.ascontiguousarray(X, float))
    forest.trees.call(find_nodes_at, forest.trees.arrays, *trees, placed, float(time), nodes, scratch)
    return nodes + np.arange(nodes.shape[1]) * 2**33
