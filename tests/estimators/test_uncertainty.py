"""Standard deviations and quantiles, with means and with joint values."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.trees.trees import TreeEnsemble

X, y = make_friedman1(1200, n_features=5, random_state=0)
labels = np.array(["low", "mid", "high"])[np.digitize(y, [12, 16])]


def regressor(**kw):
    return BSPForestRegressor(**{"n_estimators": 20, "random_state": 0, **kw})


def classifier(**kw):
    return BSPForestClassifier(**{"n_estimators": 20, "random_state": 0, **kw})


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_uncertainty(values):
    forest = regressor(n_estimators=100, prediction=values).fit(X[:1000], y[:1000])
    mean, std = forest.predict(X[1000:], return_std=True)
    np.testing.assert_array_equal(mean, forest.predict(X[1000:]))
    assert 0.9 < np.mean(np.abs(mean - y[1000:]) < 1.96 * std) <= 1
    q = forest.predict_quantiles(X[1000:], [0.05, 0.5, 0.95])
    assert (np.diff(q, axis=1) >= 0).all()
    assert 0.85 < np.mean((q[:, 0] <= y[1000:]) & (y[1000:] <= q[:, 2])) <= 1
    assert np.isin(q, y[:1000]).all() == (values == "mean"), "quantiles are labels"


@pytest.mark.parametrize(("values", "n_walks"), [("ridge", 1), ("mean", 2)])
def test_everything_is_predicted_in_one_walk(values, n_walks, monkeypatch):
    """Means, standard deviations and quantiles together are those asked for one by one. Quantiles of leaves take a second walk."""
    forest = regressor(prediction=values).fit(X[:1000], y[:1000])
    expected = *forest.predict(X, return_std=True), forest.predict_quantiles(X, [0.1, 0.9])
    walks = []
    read_rows = TreeEnsemble.read_rows
    monkeypatch.setattr(TreeEnsemble, "read_rows", lambda *args: walks.append(1) or read_rows(*args))
    for given, found in zip(expected, forest._predict_labels(X, True, np.array([0.1, 0.9])), strict=True):
        np.testing.assert_array_equal(found, given)
    assert len(walks) == n_walks
    assert forest._predict_labels(X, False, None)[1:] == (None, None)


def test_std_and_quantiles_of_joint_values_by_hand():
    """The standard deviation is the mean over trees of that of the row in the same leaf; quantiles are those of residuals over it.

    Failed with the variances averaged instead, and with residuals not divided by their standard deviation.
    """
    forest = regressor(n_estimators=7, min_samples_split=2).fit(X[:100], y[:100])
    inner = forest._forest
    slots = inner.rows.held_slots()
    stds, residuals = inner.stds[slots, 0], inner.residuals[slots, 0]
    assert np.isfinite(residuals).all() and (stds > 0).all(), "few rows are all held out in turn"
    train, test = forest.apply(X[:100]), forest.apply(X[100:110])
    mean, std = forest.predict(X[100:110], return_std=True)
    expected = [np.mean([stds[np.argmax(train[:, m] == test[row, m])] for m in range(7)]) for row in range(10)]
    np.testing.assert_allclose(std, expected)
    share = np.sort(residuals / stds)
    quantiles = forest.predict_quantiles(X[100:110], [0.05, 0.5])
    np.testing.assert_allclose(quantiles, mean[:, None] + std[:, None] * share[[4, 49]])


def test_residuals_are_honest():
    """A label says nothing of its own residual but by itself: changed by some amount, the residual changes by it.

    Failed with residuals of predictions that had learned the row.
    """
    changed = y[:60].copy()
    changed[7] += 0.5
    given = {"bandwidth": 1.0, "ridge": 0.5, "feature_weights": None, "scaling": "minmax"}
    forests = [regressor(n_estimators=5, **given).fit(X[:60], labels) for labels in (y[:60], changed)]
    before, after = (forest._forest.residuals[7, 0] for forest in forests)
    assert after - before == pytest.approx(0.5, abs=0.05)  # the tolerance of a solve


def test_std_and_quantiles_by_hand():
    forest = regressor(n_estimators=7, prediction="mean", budget=2.0).fit(
        X[:60], y[:60], sample_weight=np.arange(60) % 4
    )
    w = np.arange(60) % 4
    train, test = forest.apply(X[:60]), forest.apply(X[60:70])
    mean, std = forest.predict(X[60:70], return_std=True)
    quantile = forest.predict_quantiles(X[60:70], [0.3])[:, 0]
    for row in range(10):
        means, variances, pool = [], [], np.zeros(60)
        for m in range(7):
            here = (train[:, m] == test[row, m]) & (w > 0)
            if not here.any():
                continue
            means.append(np.average(y[:60][here], weights=w[here]))
            variances.append(np.average((y[:60][here] - means[-1]) ** 2, weights=w[here]))
            pool[here] += w[here] / w[here].sum()
        assert mean[row] == pytest.approx(np.mean(means))
        assert std[row] == pytest.approx(np.sqrt(np.mean(variances) + np.var(means)))
        order = np.argsort(y[:60])
        share = np.cumsum(pool[order]) / pool.sum()
        assert quantile[row] == y[:60][order][np.argmax(share >= 0.3 - 1e-12)]


def test_std_where_no_leaf_has_weight():
    """The rows held answer all together: their mean, and their standard deviation, not 0."""
    rows, target = np.arange(10.0)[:, None], np.array([0.0, 1.0, 3.0, *[99.0] * 7])
    weight = np.array([1.0, 2.0, 1.0, *[0.0] * 7])
    forest = regressor(prediction="mean", budget=math.inf, min_samples_split=2).fit(rows, target, sample_weight=weight)
    mean, std = forest.predict(rows, return_std=True)
    np.testing.assert_allclose(mean, [0.0, 1.0, 3.0, *[1.25] * 7])
    np.testing.assert_allclose(std, [0.0, 0.0, 0.0, *[np.sqrt(np.mean([1.5625, 0.0625, 0.0625, 3.0625]))] * 7])
    mean, std = forest.forget([0, 1, 2]).predict(rows, return_std=True)
    assert (mean == 0).all() and np.isnan(std).all()  # no row with weight is left


def test_std_of_joint_values_without_weight():
    """Without weights nothing is known of errors, nor of labels."""
    rows = np.concatenate([np.linspace(0, 1e-3, 20), [1.0, 1.0, 1.0]])[:, None]
    target = np.array([*[99.0] * 20, 0.0, 1.0, 3.0])
    weight = np.array([*[0.0] * 20, 1.0, 2.0, 1.0])
    forest = regressor().fit(rows, target, sample_weight=weight)
    assert 0.5 < forest.predict(rows[:1], return_std=True)[1][0] < 3.0
    mean, std = forest.forget([20, 21, 22]).predict(rows, return_std=True)
    assert (mean == 0).all() and np.isnan(std).all()  # no row with weight is left


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_std_does_not_cancel(values):
    """With bandwidth and ridge given: two ridges are so close here that rounding may decide between them."""
    given = {"prediction": values, "bandwidth": 0.1, "ridge": 0.01} if values == "ridge" else {"prediction": values}
    far = regressor(**given).fit(X[:500], y[:500] + 1e9)
    near = regressor(**given).fit(X[:500], y[:500])
    np.testing.assert_allclose(
        far.predict(X[500:], return_std=True)[1], near.predict(X[500:], return_std=True)[1], rtol=1e-4
    )


def test_quantiles_do_not_depend_on_the_rows_beside():
    """Ten labels in one leaf: sums of tenths reach the shares asked for, however many rows are asked at once."""
    X = np.zeros((10, 2))
    forest = BSPForestRegressor(100, prediction="mean", random_state=0).fit(X, np.arange(10.0))
    q = forest.predict_quantiles(np.zeros((1500, 2)), [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
    assert (q == [0, 0, 2, 4, 6, 8, 9]).all()


def test_quantiles_of_large_leaves_need_little_memory():
    rng = np.random.default_rng(0)
    X, y = rng.random((20_000, 2)), rng.random(20_000)
    forest = BSPForestRegressor(20, prediction="mean", budget=0.05, random_state=0).fit(X, y)
    assert forest.trees_[0].n_leaves < 4
    few = forest.predict_quantiles(X[:2], [0.5])
    tracemalloc.start()
    many = forest.predict_quantiles(X[:100], [0.5])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e8, "100 rows in 20 leaves of nearly 20,000 would be 700 MB at once"
    np.testing.assert_array_equal(many[:2], few)


def test_quantiles_where_nothing_has_weight():
    X = np.concatenate([np.zeros((10, 1)), np.ones((10, 1))])
    forest = BSPForestRegressor(20, prediction="mean", random_state=0, budget=50.0).fit(
        X, np.arange(20.0), sample_weight=np.repeat([0.0, 1.0], 10)
    )
    assert forest.predict_quantiles([[0.0]], [0.1, 0.5, 1.0]).tolist() == [[10, 14, 19]]


@pytest.mark.parametrize("scale", [2.0**330, 2.0**-330])  # which round alike: about 1e99 and 1e-99
@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_stds_of_labels_of_any_size(scale, values):
    rng = np.random.default_rng(0)
    X = rng.random((200, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    plain = BSPForestRegressor(10, prediction=values, random_state=0).fit(X, y)
    scaled = BSPForestRegressor(10, prediction=values, random_state=0).fit(X, y * scale)
    mean, std = plain.predict(X[:20], return_std=True)
    scaled_mean, scaled_std = scaled.predict(X[:20], return_std=True)
    np.testing.assert_allclose(scaled_mean / scale, mean, rtol=1e-9)
    np.testing.assert_allclose(scaled_std / scale, std, rtol=1e-9)
