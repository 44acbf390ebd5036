"""Test coordinates: distribution functions of features against numpy, and what forests do with them.

Each test was seen to fail; its docstring says how the code was broken for that.
"""

from __future__ import annotations

import numpy as np
import pytest
from invariants import check
from revisions import settle

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.trees.coordinates import MAX_KNOTS, Coordinates

rng = np.random.default_rng(0)


def fit_ranks(X: np.ndarray) -> Coordinates:
    """Return the ranks of all rows."""
    return Coordinates.fit("quantile", np.ascontiguousarray(X), np.arange(len(X)))


def rank(column: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the distribution function of a column, ties in the middle, linear between values, constant outside."""
    values = np.unique(column)
    middle = [np.mean(column < v) + 0.5 * np.mean(column == v) for v in values]
    return np.interp(x, values, middle)


def make_rows(n: int, seed: int = 0) -> np.ndarray:
    """Make rows with ties in all features but one: few values, a constant, two values, many."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 9, n) ** 2.0, np.full(n, 3.5), rng.random(n) < 0.1, np.exp(3 * rng.normal(size=n))]
    return np.stack(columns, axis=1).astype(float)


def test_ranks_equal_those_of_numpy():
    """At the rows, between them and outside. Failed with ties at their lower end, and with a step in place of a line."""
    X = make_rows(200)
    asked = np.concatenate([X, X + 0.3, X - 1e6, X + 1e6, rng.normal(size=(50, 4))])
    placed = fit_ranks(X).place(asked)
    for k in range(4):
        np.testing.assert_allclose(placed[:, k], rank(X[:, k], asked[:, k]), rtol=0, atol=1e-15)
    assert (placed[:, 1] == 0.5).all(), "a constant feature says nothing"


def test_ranks_of_few_rows():
    """One row, and none: everything is at the middle. Failed with the ranks of no rows at 0."""
    asked = np.array([[-1.0, 0.0], [0.0, 1.0], [7.0, 2.0]])
    assert (fit_ranks(np.ones((1, 2))).place(asked) == 0.5).all()
    assert (Coordinates.fit("quantile", np.ones((3, 2)), np.empty(0, np.int32)).place(asked) == 0.5).all()


@pytest.mark.parametrize("n", [MAX_KNOTS, MAX_KNOTS + 1, 5000])
def test_number_of_knots(n):
    """At most 256, of which the ends are two: ranks are then off by at most half the gap of two knots, and monotone.

    Failed with one knot more, and without the largest value.
    """
    X = make_rows(n)
    coordinates = fit_ranks(X)
    assert coordinates.knots.shape == (4, min(n, MAX_KNOTS)) == coordinates.ranks.shape
    assert (np.diff(coordinates.knots, axis=1) >= 0).all() and (np.diff(coordinates.ranks, axis=1) >= 0).all()
    assert np.array_equal(coordinates.knots[:, 0], X.min(axis=0))
    assert np.array_equal(coordinates.knots[:, -1], X.max(axis=0))
    placed = coordinates.place(X)
    for k in range(4):
        gaps = np.abs(placed[:, k] - rank(X[:, k], X[:, k]))
        assert gaps.max() < (1e-12 if n <= MAX_KNOTS or k < 3 else 1 / (MAX_KNOTS - 1))


def test_knots_of_many_rows_come_from_evenly_spaced_ones(monkeypatch):
    """Of a sorted feature, not only the beginning is looked at. Failed with the first rows alone."""
    monkeypatch.setattr("bspforest.trees.coordinates.MAX_RANKED", 1000)
    X = np.arange(2500.0)[:, None]
    placed = fit_ranks(X).place(X)
    np.testing.assert_allclose(placed[:, 0], X[:, 0] / 2500, atol=0.005)


def test_close_coordinates():
    """Which may stay when rows have come: of the same kind, hardly moved, whatever the weights.

    Failed with the allowed movement doubled, and with the kind not compared.
    """
    X = make_rows(500)
    ranks, range_ = fit_ranks(X), Coordinates.from_range(np.zeros(2), np.array([1.0, 20.0]))
    assert ranks.is_close(ranks.weigh(np.arange(4.0))) and range_.is_close(range_.weigh(np.ones(2)))
    assert ranks.is_equal(fit_ranks(X)) and not ranks.is_equal(ranks.weigh(np.arange(4.0)))
    assert not ranks.is_close(Coordinates.fit("minmax", X, np.arange(500)))
    assert not Coordinates.fit("minmax", X, np.arange(500)).is_close(ranks)
    for moved, is_close in (([0.0, 1.9], True), ([0.0, 2.1], False), ([0.09, 0.0], True), ([-0.11, 0.0], False)):
        other = Coordinates.from_range(np.array(moved), np.array([1.0, 20.0]))
        assert range_.is_close(other) == is_close
    assert ranks.is_close(fit_ranks(make_rows(480))), "the same rows, some fewer"
    uniform = np.linspace(0, 1, 200)[:, None]
    assert not fit_ranks(uniform).is_close(Coordinates.unscaled(1)), "almost the same map, but of another kind"
    for shift, is_close in ((0.04, True), (0.06, False)):
        assert fit_ranks(uniform).is_close(fit_ranks(uniform + shift)) == is_close


# ---------------------------------------------------------------------------------------------------------------------
# Forests


def make(kind: str, **parameters):
    """Make a forest of a kind: values and labels."""
    values, labels = kind.split()
    parameters = {"n_estimators": 10, "random_state": 0, "scaling": "quantile", "prediction": values, **parameters}
    return (BSPForestRegressor if labels == "numbers" else BSPForestClassifier)(**parameters)


def make_labels(kind: str, X: np.ndarray) -> np.ndarray:
    """Make labels."""
    y = np.sqrt(X[:, 0]) + 2 * X[:, 2]
    return y if kind.endswith("numbers") else np.digitize(y, [3, 6])


def ask(forest, X: np.ndarray) -> np.ndarray:
    """Return predictions, probabilities if there are."""
    return forest.predict_proba(X) if isinstance(forest, BSPForestClassifier) else forest.predict(X)


KINDS = ["ridge numbers", "ridge classes", "mean numbers", "mean classes"]


@pytest.mark.parametrize("kind", KINDS)
def test_monotone_transforms_change_nothing(kind):
    """At the rows, where few values are all knots: ranks stay, so all trees do, bit for bit. Failed with ranks of values themselves."""
    X = np.round(make_rows(150), 1)
    y = make_labels(kind, X)
    stretched = np.sinh(X / X.max(axis=0) * [20, 1, 5, 30]) - 7
    one, other = make(kind).fit(X, y), make(kind).fit(stretched, y)
    assert np.array_equal(ask(one, X), ask(other, stretched))
    assert np.array_equal(one.feature_importances_, other.feature_importances_)
    assert not np.array_equal(
        ask(make(kind, scaling="minmax").fit(X, y), X), ask(make(kind, scaling="minmax").fit(stretched, y), stretched)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_rows_held_are_given_back(kind):
    """As they were given, through every way to learn: in a batch, row by row, with knots revised, after forgetting.

    Failed with ranks returned in place of rows.
    """
    X = make_rows(160)
    X[80:] *= 3.0
    y = make_labels(kind, X)
    forest = make(kind, feature_weights=None).fit(X[:60], y[:60])
    assert set(np.unique(y)) == set(np.unique(y[:60])) or kind.endswith("numbers")
    for k in range(60, 150):
        forest.partial_fit(X[k : k + 1], y[k : k + 1])
    forest.partial_fit(X[150:], y[150:]).forget([3, 70, 159])
    ask(forest, X[:2])
    left = np.setdiff1d(np.arange(160), [3, 70, 159])
    assert np.array_equal(forest.held_rows().X, X[left])
    trees = forest._forest.trees
    held = trees.arrays.rows[forest._forest.rows.held_slots()]
    assert np.array_equal(held, trees.coordinates.place(X[left])), "trees hold ranks"
    check(forest._forest)


@pytest.mark.parametrize("kind", KINDS)
def test_stream_revises_knots(kind):
    """A feature that moves has other knots in the end. Failed with rows of ranks taken for the rows given."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(130, 3)) + np.repeat([0.0, 5.0], [40, 90])[:, None]
    y = make_labels(kind, np.abs(X))
    y[:3] = np.arange(3)  # all classes at the beginning
    forest = make(kind, feature_weights=None).fit(X[:10], y[:10])
    first = forest._forest.trees.coordinates
    for k in range(10, 130):
        forest.partial_fit(X[k : k + 1], y[k : k + 1])
    settle(forest)
    used = forest._forest.trees.coordinates
    assert used.uses_ranks and not first.is_close(used)
    if kind.startswith("ridge"):
        assert all(revision.scaling == "quantile" for revision in forest.revisions_)
    assert np.ptp(used.place(X[40:]), axis=0).min() > 0.3, "new rows differ in rank"
    assert np.ptp(first.place(X[40:] + 3), axis=0).max() == 0.0, "they did not at the beginning"
    check(forest._forest)


@pytest.mark.parametrize("kind", KINDS)
def test_forgotten_rows_leave_no_knots(kind):
    """Knots are those of the rows left, as of a forest that never saw the others. Failed with knots that stayed."""
    X = make_rows(120, seed=4)
    y = make_labels(kind, X)
    gone = np.concatenate([np.arange(40, 60), [int(X[:, 3].argmax())]])
    left = np.setdiff1d(np.arange(120), gone)
    forest = make(kind, feature_weights=None, cuts="pairs").fit(X, y).forget(np.unique(gone))
    never = make(kind, feature_weights=None, cuts="pairs").fit(X[left], y[left])
    ask(forest, X[:1])
    assert forest._forest.trees.coordinates.is_equal(never._forest.trees.coordinates)
    assert not forest._forest.trees.coordinates.is_equal(fit_ranks(X))
    check(forest._forest)
