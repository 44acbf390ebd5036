"""Quantiles of the labels in leaves, compared with sorting all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bspforest import BSPForestRegressor
from bspforest.forest import leaf_quantiles

SHARES = np.array([0.5, 0.0, 0.05, 1.0, 0.37, 0.95, 0.5, 1e-9])


def sort_all_labels(forest, X, q):
    """Return quantiles of the labels in the leaves of each row by sorting them: slow, and obvious."""
    engine = forest._forest
    y, w = engine.held_labels()
    y = y[:, 0]
    leaves_of_held = (
        engine.trees.find_leaves(engine.held_rows()) if engine.n_held else np.empty((0, engine.trees.n_trees))
    )
    out = np.full((len(X), len(q)), np.nan)
    for row in range(len(X)):
        in_leaf = (leaves_of_held == engine.trees.find_leaves(X[row : row + 1])) * w[:, None]
        with np.errstate(invalid="ignore"):
            shares = np.nan_to_num(in_leaf / in_leaf.sum(axis=0)).sum(axis=1)
        shares = shares if shares.any() else w
        order = np.argsort(y)
        order = order[shares[order] > 0]
        if len(order):
            total = np.cumsum(shares[order])
            at = np.searchsorted(total, (q - 1e-12) * total[-1])
            out[row] = y[order[np.minimum(at, len(order) - 1)]]
    return out


def draw(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=n), rng


def regressor(n_trees=12, **kw):
    return BSPForestRegressor(n_trees, **{"prediction": "mean", "random_state": 0, **kw})


def get_sizes(forest):
    """Return the number of points in each leaf of all trees."""
    return np.concatenate([tree.n_points[tree.children_left < 0] for tree in forest.trees_])


def check(forest, X):
    expected = sort_all_labels(forest, X, SHARES)
    for n_jobs in (1, 2):
        forest.set_params(n_jobs=n_jobs)
        np.testing.assert_array_equal(forest.predict_quantiles(X, SHARES), expected)
    np.testing.assert_array_equal(forest.predict_quantiles(X[:1], SHARES), expected[:1])
    return expected


@pytest.mark.parametrize("weights", ["equal", "different", "some zero", "most zero"])
@pytest.mark.parametrize("leaves", ["small", "of one row", "large"])
def test_quantiles_of_leaves(leaves, weights):
    """Failed with shares not relative to their leaf, and with labels without weight found for the share 0."""
    parameters = {
        "small": {},
        "of one row": {"budget": math.inf, "min_samples_split": 2},
        "large": {"budget": 1.0},
    }[leaves]
    X, y, rng = draw(1500)
    w = {
        "equal": np.full(1500, 2.5),
        "different": rng.random(1500),
        "some zero": rng.integers(0, 3, 1500),
        "most zero": rng.random(1500) < 0.02,
    }[weights]
    forest = regressor(**parameters).fit(X[:1000], y[:1000], sample_weight=w[:1000])
    sizes = get_sizes(forest)
    assert {"small": 1 < sizes.mean() < 32, "of one row": sizes.max() == 1, "large": sizes.max() > 128}[leaves]
    check(forest, X[1000:1200])
    forest.partial_fit(X[1000:1100], y[1000:1100], sample_weight=w[1000:1100]).forget(np.arange(0, 1000, 3))
    check(forest, X[1200:])


@pytest.mark.parametrize("weights", ["equal", "different"])
@pytest.mark.parametrize("labels", ["different", "ties", "one"])
def test_quantiles_of_one_giant_leaf(labels, weights):
    X, y, rng = draw(20_011)
    y = {"different": y, "ties": np.round(y, 1), "one": np.full(len(y), 0.1)}[labels]
    w = np.ones(len(y)) if weights == "equal" else rng.integers(0, 5, len(y))
    forest = regressor(20, budget=1e-9).fit(X, y, sample_weight=w)
    assert get_sizes(forest).tolist() == [20_011] * 20
    check(forest, X[:3])


def test_quantiles_of_giant_leaves_that_differ():
    X, y, rng = draw(30_011, 2)
    forest = regressor(40, budget=0.3).fit(X, y, sample_weight=rng.integers(0, 5, len(y)))
    assert get_sizes(forest).max() > 20_000 and np.unique(get_sizes(forest)).size > 20
    check(forest, X[:12])


def test_labels_with_next_to_no_share():
    """A label without a share in its leaf, because that rounds to zero, is left out; one with a tiny share is the first.

    Failed with all labels of positive weight kept, whatever their share.
    """
    X = np.zeros((4, 1))
    tiny = regressor(3).fit(X, [0.0, 1.0, 2.0, 3.0], sample_weight=[1e-300, 1.0, 1.0, 1e-30])
    assert check(tiny, X[:1])[0, :2].tolist() == [1.0, 0.0]
    none = regressor(3).fit(X, [0.0, 1.0, 2.0, 3.0], sample_weight=[5e-324, 1e10, 1.0, 1.0])
    assert check(none, X[:1])[0, :2].tolist() == [1.0, 1.0]


def test_quantiles_where_no_label_has_weight():
    """Failed with NaN left where no leaf of a row has weight."""
    X, y, _ = draw(200)
    w = (X[:, 0] < 0.1).astype(float)
    forest = regressor(3, budget=math.inf, min_samples_split=2).fit(X, y, sample_weight=w)
    assert np.isfinite(check(forest, X)).all()
    forest.forget(np.flatnonzero(w > 0))
    assert np.isnan(check(forest, X)).all()


def test_blocks_do_not_change_quantiles(monkeypatch):
    """Failed with lists of rows split in two that were all written to the first of them."""
    X, y, rng = draw(2000)
    forest = regressor(budget=2.0).fit(X, y, sample_weight=rng.integers(0, 3, len(y)))
    expected = forest.predict_quantiles(X, SHARES)
    monkeypatch.setattr(leaf_quantiles, "POINTS_AT_ONCE", 3000)
    monkeypatch.setattr(leaf_quantiles, "PAIRS_AT_ONCE", 5000)  # 12 trees
    np.testing.assert_array_equal(forest.predict_quantiles(X, SHARES), expected)
