"""Closed forms of the law, routes to grow a forest, and statistics of many trees."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from scipy.spatial import ConvexHull

from bspforest.forest.config import ForestConfig
from bspforest.forest.forest import OnlineForest
from bspforest.forest.leaf_means import sum_leaves
from bspforest.forest.means import MeanPrediction
from bspforest.trees.layout import NOTHING

FAMILIES = ("pairs", "axes", "isotropic")


def segment_rate(cuts: str, v: np.ndarray) -> float:
    """Return the rate of cuts that separate two points whose difference is v."""
    if cuts == "axes" or len(v) == 1:
        return float(np.abs(v).sum())
    if cuts == "isotropic":
        return float(np.linalg.norm(v))
    return sum(float(np.hypot(v[i], v[j])) for i, j in combinations(range(len(v)), 2))


def root_rate(X: np.ndarray) -> float:
    """Return half the sum of the perimeters of the convex hulls in all pairs of dimensions."""
    # In two dimensions scipy calls the perimeter ``area``.
    return 0.5 * sum(ConvexHull(X[:, pair]).area for pair in combinations(range(X.shape[1]), 2))


class Steps:
    """A budget given by a table: ``values[n]`` for n rows, the last value beyond."""

    def __init__(self, values):
        self.values = np.asarray(values, dtype=float)

    def __call__(self, n: int) -> float:
        return float(self.values[min(n, len(self.values) - 1)])


def make(
    X,
    n_trees,
    *,
    cuts="pairs",
    budget=np.inf,
    min_split=2,
    seed=0,
    window=None,
    scaling=None,
    n_classes=0,
):
    """Make an empty forest for rows like X."""
    config = ForestConfig(
        n_trees=n_trees,
        n_features=X.shape[1],
        n_classes=n_classes,
        cuts=cuts,
        budget=budget if callable(budget) else Steps([budget]),
        min_samples_split=min_split,
        scaling=scaling,
        window=window,
    )
    return OnlineForest(config, np.random.SeedSequence(seed), MeanPrediction())


def sum_of_leaves(forest: OnlineForest, X: np.ndarray, *, hard: bool = False) -> np.ndarray:
    """Return the sums over trees of what leaves predict."""
    return sum_leaves(forest.trees, X, forest.config.n_classes, hard=hard)


def learn(forest: OnlineForest, X: np.ndarray) -> OnlineForest:
    """Learn rows with their sums as labels; return the forest."""
    forest.learn(np.ascontiguousarray(X), X.sum(axis=1), np.ones(len(X)))
    return forest


def others(X: np.ndarray, n: int) -> np.ndarray:
    """Make rows to learn and forget: some inside the range of X, some far outside, one a copy."""
    extra = np.random.default_rng(99).normal(0.5, 0.6, size=(n, X.shape[1]))
    extra[0] = X[0]
    return extra


ROUTES = ("batch", "single", "chunks", "reversed", "growing", "forget", "window")


def grow(route: str, X: np.ndarray, n_trees: int, *, budget: float, seed: int, **kw) -> OnlineForest:
    """Grow a forest that holds the rows X with this budget, by one of `ROUTES`."""
    n = len(X)
    if route == "growing":  # rows arrive while the budget grows from almost nothing
        return grow("single", X, n_trees, budget=Steps(budget * np.linspace(0, 1, n + 1) ** 2), seed=seed, **kw)
    if route == "window":
        forest = make(X, n_trees, budget=budget, seed=seed, window=n, **kw)
        stream = np.concatenate([others(X, 7), X])
        for start in range(0, len(stream), 3):
            learn(forest, stream[start : start + 3])
        return forest
    forest = make(X, n_trees, budget=budget, seed=seed, **kw)
    if route == "batch":
        return learn(forest, X)
    if route in ("single", "reversed"):
        for x in X[::-1] if route == "reversed" else X:
            learn(forest, x[None])
        return forest
    if route == "chunks":
        ends = [0, 2, 3, n // 2 + 1, n]
        for a, b in pairwise(ends):
            learn(forest, X[a:b])
        return forest
    assert route == "forget"
    extra = others(X, 8)
    learn(forest, np.concatenate([extra[:3], X[: n // 2], extra[3:5]]))
    for x in np.concatenate([X[n // 2 :], extra[5:]]):
        learn(forest, x[None])
    forest.forget(np.flatnonzero(~np.isin(np.arange(n + 8), range_of_rows(n))))
    return forest


def range_of_rows(n: int) -> np.ndarray:
    """Return the ids of the rows of X in the route "forget"."""
    return np.concatenate([3 + np.arange(n // 2), 5 + np.arange(n // 2, n)])


def root_times(forest: OnlineForest) -> np.ndarray:
    """Return the time of the root's cut in each tree."""
    roots = forest.trees.arrays.state["root"]
    assert (roots >= 0).all()
    return forest.trees.arrays.cuts["time"][np.arange(len(roots)), roots]


def together(forest: OnlineForest, X: np.ndarray) -> np.ndarray:
    """Return how often each pair of rows shares a leaf."""
    leaves = forest.trees.find_leaves(np.ascontiguousarray(X))
    return (leaves[:, None, :] == leaves[None, :, :]).mean(axis=2)


def shapes(forest: OnlineForest) -> dict[str, np.ndarray]:
    """Return, per tree, the number of leaves, depth, largest leaf, and number of leaves with one point."""
    table: dict[str, list] = {"leaves": [], "depth": [], "largest": [], "single": []}
    for m in range(forest.trees.n_trees):
        nodes, _, depths = forest.trees.number_nodes(m)
        cuts = forest.trees.arrays.cuts[m]
        pending = nodes[(nodes >= 0) & (cuts["right"][np.maximum(nodes, 0)] == NOTHING)]
        leaves = np.concatenate([~nodes[nodes < 0], ~cuts["left"][pending]]).astype(int)
        sizes = forest.trees.arrays.leaves[m]["n_points"][leaves]
        table["leaves"].append(len(leaves))
        table["depth"].append(depths.max())
        table["largest"].append(sizes.max())
        table["single"].append((sizes == 1).sum())
    return {name: np.array(values) for name, values in table.items()}
