"""Test joint values against a dense oracle: the kernel by brute force from `trees_`, solved by numpy.

Each test was seen to fail; its docstring says how the code was broken for that.
"""

from __future__ import annotations

import dense
import laws
import numpy as np
import pytest

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.forest import node_sums
from bspforest.forest import ridge as joint

THETA, RIDGE = 7.0, 0.2


def make_rows(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    """Make rows in units that differ by feature, every fifth a copy of another."""
    X = np.random.default_rng(seed).random((n, d)) * [1.0, 30.0, 0.2, 5.0][:d]
    X[4::5] = X[: len(X[4::5])]
    return X


def make(kind: str = "regression", **parameters):
    """Make a forest with joint values."""
    given = {
        "bandwidth": THETA,
        "ridge": RIDGE,
        "feature_weights": None,
        "scaling": "minmax",
        "half_life": None,
        "cuts": "pairs",
    }
    parameters = {"n_estimators": 7, "random_state": 3, **given, **parameters}
    make_forest = BSPForestClassifier if kind.endswith("classes") else BSPForestRegressor
    return make_forest(prediction="ridge", **parameters)


def make_labels(kind: str, X: np.ndarray) -> tuple[np.ndarray, int]:
    """Return labels of a kind, and the number of classes."""
    noise = np.random.default_rng(8).normal(size=(len(X), 2))
    if kind == "regression":
        return np.sin(X @ [2.0, 0.1, 9.0]) + 0.1 * noise[:, 0], 0
    if kind == "two outputs":
        return np.stack([X[:, 0] + noise[:, 0], 100.0 * X[:, 2] - X[:, 1]], axis=1), 0
    n_classes = int(kind.split()[0])
    return (np.argsort(np.argsort(X[:, 0] + 0.2 * noise[:, 0])) * n_classes // len(X)), n_classes


def ask(forest, X: np.ndarray) -> np.ndarray:
    """Return all label columns that a forest predicts, before they are made probabilities."""
    if isinstance(forest, BSPForestClassifier):
        forest.predict(X[:1])  # removes what forgotten labels have left
        return forest._forest.prediction.predict(forest._forest, X)
    return np.reshape(forest.predict(X), (len(X), -1))


def check_against_dense(forest, y: np.ndarray, n_classes: int = 0) -> None:
    """Check duals, and predictions for rows held and new ones; ``y`` is by id."""
    new = make_rows(25, seed=77) * 1.2 - 0.1  # some of it outside the range of the rows held
    predicted = [ask(forest, X) for X in (forest.held_rows().X, new)]
    oracle = dense.DenseForest(forest)
    columns = dense.columns_of(y, n_classes)[oracle.ids]
    mean, duals = oracle.solve(columns, forest.bandwidth_, forest.ridge_)
    scale = np.abs(columns).max()
    np.testing.assert_allclose(dense.duals_of(forest), duals, rtol=0, atol=1e-8 * scale)
    np.testing.assert_allclose(forest._forest.prediction.mean, mean, rtol=1e-12, atol=1e-12 * scale)
    at_held = mean + oracle.kernel(forest.bandwidth_) @ duals
    np.testing.assert_allclose(predicted[0], at_held, rtol=0, atol=1e-8 * scale)
    dense.check_predictions(predicted[1], oracle.predict(new, mean, duals, forest.bandwidth_), 1e-8 * scale)


# ---------------------------------------------------------------------------------------------------------------------
# Solving


@pytest.mark.parametrize("cuts", laws.FAMILIES)
@pytest.mark.parametrize("kind", ["regression", "two outputs", "2 classes", "3 classes"])
def test_fit_equals_a_dense_solution(kind, cuts, tight):
    """Failed with F(t) = t / (t + 1.001 θ) in the kernels, and with the box of a row that is asked ignored."""
    X = make_rows(40)
    y, n_classes = make_labels(kind, X)
    w = np.random.default_rng(1).random(40) + 0.1
    w[7] = 0.0
    forest = make(kind, cuts=cuts).fit(X, y, sample_weight=w)
    check_against_dense(forest, y, n_classes)
    assert not dense.duals_of(forest)[7].any(), "a row without weight has no say"


@pytest.mark.parametrize("scaling", ["minmax", "quantile", None, ([0.0, -5.0, 0.0], [1.0, 40.0, 1.0])])
def test_any_scaling_equals_a_dense_solution(scaling, tight):
    """Failed with the first column of the scaling shifted by 0.01 where rows are scaled for prediction."""
    X = make_rows(30)
    y, _ = make_labels("regression", X)
    check_against_dense(make(scaling=scaling, bandwidth=3.0).fit(X, y), y)


@pytest.mark.parametrize("parameters", [{"budget": 0.3}, {"min_samples_split": 6}, {"n_estimators": 1}])
def test_larger_leaves_equal_a_dense_solution(parameters, tight):
    """F is 1 for a leaf, whatever the time of its next cut. Failed with the time of the pending cut instead."""
    X = make_rows(30)
    y, _ = make_labels("regression", X)
    check_against_dense(make(**parameters).fit(X, y), y)


@pytest.mark.parametrize("cuts", laws.FAMILIES)
def test_stream_equals_a_dense_solution(cuts, tight):
    """Rows come one by one, in chunks, from outside the range, and leave by a window; the last chunk ends with a solve.

    Failed with a warm start whose residual was not computed.
    """
    X = make_rows(70)
    X[40:] *= 1.7  # the range is revised
    y, _ = make_labels("regression", X)
    w = 0.5 + np.arange(70) % 3
    forest = make(cuts=cuts, window=50)
    for a, b in ((0, 20), (20, 21), (21, 22), (22, 45), (45, 46), (46, 70)):
        forest.partial_fit(X[a:b], y[a:b], sample_weight=w[a:b])
    check_against_dense(forest, y)


# ---------------------------------------------------------------------------------------------------------------------
# Forgetting


@pytest.mark.parametrize("kind", ["regression", "two outputs", "3 classes"])
def test_forgetting_equals_never_having_learned(kind, tight):
    """On the trees that are left, the duals are those of the rows left.

    Failed with the mean label left as it was, and with duals not solved afresh.
    """
    X = make_rows(40)
    y, n_classes = make_labels(kind, X)
    forest = make(kind).fit(X, y)
    forest.forget([3, 4, 17]).forget(30)
    check_against_dense(forest, y, n_classes)


def make_twins(kind: str = "regression", **parameters):
    """Return two forests that differed only in the labels of rows that they have forgotten."""
    X = make_rows(60, seed=5)
    y, n_classes = make_labels(kind, X)
    others = y.copy()
    others[[11, 50, 55]] = y[[11, 50, 55]] * 3 + 40 if not n_classes else (y[[11, 50, 55]] + 1) % n_classes
    twins = []
    for labels in (y, others):
        forest = make(kind, **parameters).fit(X[:45], labels[:45])
        for k in range(45, 60):
            forest.partial_fit(X[k : k + 1], labels[k : k + 1])
        twins.append(forest)
    new = make_rows(20, seed=6)
    assert not np.array_equal(ask(twins[0], new), ask(twins[1], new)), "until now the labels have a say"
    for forest in twins:
        forest.forget([50, 11]).forget(55, strict=True)
    return twins, new


@pytest.mark.parametrize("kind", ["regression", "two outputs", "3 classes"])
def test_forgotten_labels_leave_no_trace(kind):
    """Bit for bit, with the usual tolerance, in predictions, duals and sums. Failed with the solve started from the old duals."""
    (one, other), new = make_twins(kind)
    assert np.array_equal(ask(one, new), ask(other, new))
    assert np.array_equal(dense.duals_of(one), dense.duals_of(other))
    assert np.array_equal(one._forest.prediction.mean, other._forest.prediction.mean)
    more = make_labels(kind, new)[0]
    assert np.array_equal(ask(one.partial_fit(new, more), new), ask(other.partial_fit(new, more), new))


@pytest.mark.parametrize(
    "more", [{}, {"feature_weights": "learned"}, {"feature_weights": "learned", "scaling": "auto"}]
)
def test_forgotten_labels_leave_no_trace_in_the_choice(more):
    """Whatever is chosen is chosen afresh without the forgotten labels, and trees in chosen coordinates are drawn afresh.

    Failed with the choice kept, and with random streams that went on where they were.
    """
    (one, other), new = make_twins(bandwidth="auto", ridge="auto", **more)
    assert np.array_equal(one.predict(new), other.predict(new))
    assert np.array_equal(one.predict(new, return_std=True)[1], other.predict(new, return_std=True)[1])
    assert np.array_equal(one.feature_weights_, other.feature_weights_)
    assert one.revisions_ == other.revisions_
    assert (one.bandwidth_, one.ridge_, one.validation_error_) == (
        other.bandwidth_,
        other.ridge_,
        other.validation_error_,
    )


def test_honest_residuals_of_forgotten_rows_are_wiped():
    """No number made from the labels of a forgotten row stays in any array.

    Failed with residuals not wiped.
    """
    X = make_rows(30)
    y, _ = make_labels("regression", X)
    forest = make().fit(X[:25], y[:25])
    for k in range(25, 30):
        forest.partial_fit(X[k : k + 1], y[k : k + 1])
    inner = forest._forest
    slots = inner.rows.slots_of(np.array([26, 3]))
    assert np.isfinite(inner.residuals[slots]).all() and inner.duals[slots].all() and inner.y[slots].all()
    forest.forget([26, 3])
    assert np.isnan(inner.residuals[slots]).all() and np.isnan(inner.stds[slots]).all()
    assert not inner.duals[slots].any() and not inner.y[slots].any() and not inner.weights[slots].any()


# ---------------------------------------------------------------------------------------------------------------------
# Order


def test_order_of_labels_does_not_matter_after_a_solve(tight):
    """The same rows come in two orders through the same trees: places come twice, and the two labels of a place change turns.

    Failed with a warm start whose residual was not computed.
    """
    X = np.tile(make_rows(24, seed=2)[:, ::-1], (2, 1))
    y = np.random.default_rng(0).normal(size=48)
    w = 1.0 + np.arange(48) % 4
    swapped = np.concatenate([np.arange(24, 48), np.arange(24)])
    forests, one_by_one = [], []
    for order in (np.arange(48), swapped):
        forest = make().fit(X[order[:30]], y[order[:30]], sample_weight=w[order[:30]])
        for k in order[30:32]:  # too few for a solve
            forest.partial_fit(X[k : k + 1], y[k : k + 1], sample_weight=w[k : k + 1])
        one_by_one.append(dense.duals_of(forest)[[30, 31]])
        forest.partial_fit(X[order[32:]], y[order[32:]], sample_weight=w[order[32:]])
        forests.append(forest)
    for m in range(7):
        assert np.array_equal(forests[0].trees_[m].time, forests[1].trees_[m].time), "labels do not change trees"
    assert np.abs(one_by_one[0] - one_by_one[1]).min() > 1e-3, "before the solve order does matter"
    first, second = (dense.duals_of(forest) for forest in forests)
    np.testing.assert_allclose(second, first[swapped], rtol=0, atol=1e-8)
    new = make_rows(20, seed=6)
    np.testing.assert_allclose(forests[0].predict(new), forests[1].predict(new), rtol=0, atol=1e-8)


def test_any_order_of_rows_ends_in_the_dense_solution(tight):
    """However rows were learned, a solve leaves nothing of the way. Failed as the test above."""
    X = make_rows(40)
    y, _ = make_labels("regression", X)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(40)
        forest = make(n_estimators=4)
        for k in order[:30]:
            forest.partial_fit(X[k : k + 1], y[k : k + 1])
        forest.partial_fit(X[order[30:]], y[order[30:]])
        check_against_dense(forest, y[order])


# ---------------------------------------------------------------------------------------------------------------------
# One row


@pytest.mark.parametrize("kind", ["regression", "two outputs", "2 classes"])
@pytest.mark.parametrize("weights", [[1.0], [0.3], [2.0, 0.0, 0.7]])
def test_step_of_one_row(kind, weights, monkeypatch):
    """The honest residual is the label less the prediction with a dual of zero; only this row's dual moves.

    A few rows take such steps one after another. Failed with the ridge not divided by the weight, and with the dual left out of the
    sum of the root.
    """
    monkeypatch.setattr(joint, "GROWTH_BY_CHUNK", 0.1)
    X = make_rows(80 + len(weights), seed=4)
    y, _ = make_labels(kind, X)
    forest = make(kind).fit(X[:80], y[:80])
    duals = dense.duals_of(forest)
    forest.partial_fit(X[80:], y[80:], sample_weight=weights)
    oracle = dense.DenseForest(forest)
    K, mean = oracle.kernel(THETA), forest._forest.prediction.mean
    residuals = []
    for k, weight in enumerate(weights, start=80):
        residuals.append(dense.columns_of(y)[k] - mean - K[k, :k] @ duals)
        duals = np.vstack([duals, residuals[-1] / (1.0 + RIDGE / weight) if weight else 0.0 * residuals[-1]])
    np.testing.assert_allclose(dense.residuals_of(forest)[80:], residuals, rtol=0, atol=1e-9)
    np.testing.assert_allclose(dense.duals_of(forest)[80:], duals[80:], rtol=0, atol=1e-9)
    assert np.array_equal(dense.duals_of(forest)[:80], duals[:80])
    np.testing.assert_allclose(ask(forest, X[:80]), mean + K[:80] @ duals, rtol=0, atol=1e-9)
    new = make_rows(25, seed=7)
    expected = oracle.predict(new, mean, duals, THETA)
    dense.check_predictions(ask(forest, new), expected)  # from totals
    dense.check_predictions(np.concatenate([ask(forest, x[None]) for x in new]), expected)


@pytest.mark.parametrize("noted", [63, 1])
@pytest.mark.parametrize("kind", ["regression", "two outputs"])
def test_steps_of_rows_that_are_learned_together(kind, noted, monkeypatch):
    """The residuals of a few rows are found together, by their similarities. Failed without these, and with those of deep trees cut short."""
    monkeypatch.setattr(node_sums, "ROWS_TOGETHER", 3)
    monkeypatch.setattr(node_sums, "NOTED_DEPTH", noted)
    test_step_of_one_row(kind, [1.0, 0.5, 2.0, 0.0, 1.5, 1.0, 0.3], monkeypatch)


def test_step_of_one_row_in_deep_trees(monkeypatch):
    """Only the upper part of a path is noted on the way down. Failed with the sums below it left as they were."""
    monkeypatch.setattr(node_sums, "NOTED_DEPTH", 1)
    test_step_of_one_row("regression", [2.0, 0.0, 0.7], monkeypatch)


def test_one_row_is_read_as_many_are():
    """A row alone is walked, many are read from totals of leaves: the same up to rounding. Failed with a leaf's weight off."""
    X = make_rows(60)
    y, _ = make_labels("regression", X)
    forest = make().fit(X, y).partial_fit(X[:1] * 0.9, y[:1])
    new = make_rows(60, seed=9)
    alone = [forest.predict(x[None])[0] for x in new]
    np.testing.assert_allclose(alone, forest.predict(new), rtol=0, atol=1e-12)
