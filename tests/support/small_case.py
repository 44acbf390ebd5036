"""Learn, forget and predict a small stream that reaches all kernels. As a program, print the predictions: see test_jit.py."""

from __future__ import annotations

import sys

import laws
import numpy as np
from invariants import check

from bspforest.forest.budgets import answer_at
from bspforest.forest.leaf_quantiles import find_leaf_quantiles


def run(cuts: str, n_classes: int) -> np.ndarray:
    """Return all that a forest predicts after the stream."""
    rng = np.random.default_rng(7)
    X = np.round(rng.random((70, 3)), 2)
    y = rng.integers(0, n_classes or 9, 70).astype(float)
    forest = laws.make(X, 2, cuts=cuts, budget=lambda n: n**0.4, min_split=3, scaling="minmax", n_classes=n_classes)
    for a, b in ((0, 20), (20, 21), (21, 22), (22, 60), (60, 61)):
        forest.learn(X[a:b], y[a:b], 1.0 + np.arange(a, b) % 2)
    forest.forget(np.array([3, 60, 17, 18, 19, 20, 44]))
    forest.learn(X[61:] * 3, y[61:], np.ones(9))
    check(forest)
    sums = [laws.sum_of_leaves(forest, X, hard=hard) for hard in (False, True)]
    leaves = forest.trees.find_leaves(X)
    points = forest.trees.list_points(np.array([0, 1, 0, 1]), leaves[:2].ravel())
    quantiles = find_leaf_quantiles(forest, X, np.array([0.0, 0.4, 1.0]))
    earlier = answer_at(forest, X, 0.7)
    return np.concatenate([np.ravel(part) for part in (*sums, leaves, *points, quantiles, *earlier)])


if __name__ == "__main__":
    with np.errstate(over="ignore"):  # the random stream wraps around by design
        for case in (("pairs", 0), ("axes", 2), ("isotropic", 0), ("pairs", 3)):
            print(" ".join(f"{value:.9g}" for value in run(*case)), file=sys.stdout)
