"""Strange but legal input: features, labels and weights up to 1e100, tiny ranges, constant columns, any number of features."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bspforest import BSPForestClassifier, BSPForestRegressor, load

rng = np.random.default_rng(0)
X = rng.random((60, 3))
y = rng.random(60)


def regressor(**kw):
    return BSPForestRegressor(**{"n_estimators": 8, "random_state": 0, **kw})


@pytest.mark.parametrize("cuts", ["pairs", "axes", "isotropic"])
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-30, 1e30, 1e99])
def test_columns_of_any_range(cuts, scale):
    rows = X.copy()
    rows[:, 1] *= scale
    forest = regressor(cuts=cuts, n_estimators=30).fit(rows[:40], y[:40]).partial_fit(rows[40:], y[40:])
    assert np.isfinite(forest.predict(rows)).all()
    if scale > 1e-308:  # the range does not matter
        np.testing.assert_allclose(forest._forest.trees.arrays.scaling[1] * np.ptp(rows[:40], axis=0), 1)
    far = rows.copy()
    far[:, 1] = -1e100  # beyond all that was seen
    assert np.isfinite(forest.partial_fit(far, y).predict(far)).all()


@pytest.mark.parametrize("cuts", ["pairs", "axes", "isotropic"])
@pytest.mark.parametrize("d", [1, 2, 500])
def test_any_number_of_features(cuts, d):
    rows = rng.random((80, d))
    forest = regressor(cuts=cuts, prediction="mean", budget=math.inf, min_samples_split=2).fit(rows[:50], y[:50])
    forest.partial_fit(rows[50:60], y[50:60]).partial_fit(rows[60:61], y[:1]).forget([0, 55])
    assert forest.trees_[0].n_leaves == 59
    assert forest.score(rows[1:50], y[1:50]) == pytest.approx(1.0)


def test_isotropic_cuts_in_very_many_dimensions():
    """One candidate in 300 parts the two points. Shown to fail: with the second tree, if 1,000 candidates are enough to give up."""
    rows = np.random.default_rng(0).random((2, 60_000))
    forest = BSPForestRegressor(2, cuts="isotropic", budget=math.inf, min_samples_split=2, random_state=20)
    assert [tree.n_leaves for tree in forest.fit(rows, [0, 1]).trees_] == [2, 2]


def test_constant_columns():
    rows = np.column_stack([X, np.full(60, 7.0)])
    plain = regressor(n_estimators=200, cuts="axes").fit(X, y)
    constant = regressor(n_estimators=200, cuts="axes", budget=plain.budget_).fit(rows, y)
    np.testing.assert_array_equal(constant.apply(rows), plain.apply(X))  # no cut falls there, and no other moves
    only = regressor().fit(np.ones((50, 2)), y[:50])
    np.testing.assert_allclose(only.predict(np.ones((1, 2))), y[:50].mean())


@pytest.mark.parametrize("values", ["ridge", "mean"])
@pytest.mark.parametrize("weight", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_the_largest_labels_and_weights(tmp_path, values, weight, scale):
    """Everything is finite, in units of the labels, in a batch, row by row, after forgetting and from a file."""
    weights = np.full(60, weight)
    forest = regressor(prediction=values).fit(X[:40], np.where(y > 0.5, scale, -scale)[:40], sample_weight=weights[:40])
    forest.partial_fit(X[40:41], [scale], sample_weight=weights[:1]).partial_fit(X[41:], scale * y[41:], weights[41:])
    forest.forget([0, 40]).save(tmp_path / "m")
    for one in (forest, load(tmp_path / "m")):
        mean, std = one.predict(X, return_std=True)
        quantiles = one.predict_quantiles(X)
        for found in (mean, std, quantiles):
            assert np.isfinite(found).all() and 0.01 * scale < np.abs(found).max() < 10 * scale


def test_the_largest_features():
    rows = np.where(X > 0.5, 1e100, -1e100)
    forest = BSPForestClassifier(8, random_state=0).fit(rows, y > 0.5)
    assert np.isfinite(forest.predict_proba(rows)).all() and forest.trees_[0].n_leaves > 1


def test_given_ranges_of_any_size():
    """From the smallest to the largest; see test_bad_input.py for those beyond."""
    forest = regressor(scaling=([0.0, -1e100, 0.0], [1e-300, 1e100, 1e100])).fit(X, y)
    assert np.isfinite(forest.partial_fit(X[:1], y[:1]).predict(X)).all()
