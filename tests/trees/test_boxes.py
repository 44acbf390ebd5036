"""Boxes of cut nodes, and the pool of records. Each test says how it was seen to fail."""

from __future__ import annotations

import laws
import numpy as np
import pytest
from grids import grid
from invariants import check

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.trees.layout import NOTHING


@grid(1, cuts=laws.FAMILIES, together=[1, 3, 40])
def test_boxes_are_tight_after_every_change(cuts, together):
    """Fails if the bounds in a record stay as they were when its box grows, or if forgetting leaves boxes as they are."""
    X = np.random.default_rng(0).random((40, 3))
    forest = laws.make(X, 5, cuts=cuts, budget=np.inf, min_split=2)
    for start in range(0, 40, together):
        laws.learn(forest, X[start : start + together])
        check(forest)
    for k in range(38):
        forest.forget(np.array([k]))
        check(forest)
    arrays = forest.trees.arrays
    roots = arrays.cuts[np.arange(5), arrays.state["root"]]
    assert (roots["right"] != NOTHING).all()


def test_free_nodes_are_used_again():
    """Fails if a node that is freed is not put on the list: the pool then grows for ever."""
    X = np.random.default_rng(1).random((3000, 3))
    forest = laws.make(X, 2, budget=np.inf, min_split=2, window=60)
    for start in range(0, 3000, 20):
        laws.learn(forest, X[start : start + 20])
    check(forest)
    assert forest.trees.arrays.state["n_cuts"].max() <= 80
    forest.forget(forest.rows.held_ids()[:-5])
    used = forest.trees.arrays.state["n_cuts"].copy()
    laws.learn(forest, X[100:130])
    np.testing.assert_array_equal(forest.trees.arrays.state["n_cuts"], used)
    check(forest)


def test_pending_leaves_follow_the_same_rule():
    """Leaves that wait for a larger budget. Fails if a leaf that can no longer be cut keeps its cut node."""
    X = np.random.default_rng(2).random((60, 2))
    forest = laws.make(X, 3, budget=0.5, min_split=2)
    for x in X:
        laws.learn(forest, x[None])
        check(forest)
    for k in range(55):
        forest.forget(np.array([k]))
        check(forest)


@pytest.mark.parametrize(("n", "d", "most"), [(20_000, 8, 35), (12_000, 64, 135)])
def test_memory_of_trees_with_small_leaves(n, d, most):
    """Bytes per row and tree of ridge predictions, sums of one column included. Fails with leaves of single rows."""
    X = np.random.default_rng(0).random((n, d))
    forest = BSPForestRegressor(20, min_samples_split=16, bandwidth=1.0, ridge=1.0, random_state=0).fit(X, X[:, 0])
    arrays = forest._forest.trees.arrays
    assert arrays.sums.shape[2] == 1
    assert forest._forest.trees.nbytes / (n * 20) <= most + 8 * (d + 1) / 20


@pytest.mark.parametrize("classify", [False, True])
def test_values_of_nodes_of_ridge_forests(classify):
    """`trees_` shows labels, whatever trees keep sums of."""
    rng = np.random.default_rng(0)
    X, w = rng.random((200, 3)), rng.random(200)
    y = rng.integers(0, 3, 200) if classify else rng.normal(size=200)
    kind = BSPForestClassifier if classify else BSPForestRegressor
    settings = {"budget": np.inf, "min_samples_split": 2, "random_state": 0}
    ridge, mean = (
        kind(3, prediction=v, feature_weights=None, scaling="minmax", **settings).fit(X, y, sample_weight=w)
        for v in ("ridge", "mean")
    )
    for one, other in zip(ridge.trees_, mean.trees_, strict=True):
        np.testing.assert_array_equal(one.n_points, other.n_points)
        np.testing.assert_allclose(one.value, other.value, rtol=1e-12)
