"""Test half-lives: how they are chosen, that rows leave, and that nothing depends on when a forest is looked at.

A docstring says how the code was broken where the test was seen to fail.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from invariants import check
from recount import check_sums

from bspforest import BSPForestClassifier, BSPForestRegressor, load
from bspforest.forest.recency import list_half_lives, pick

N = 1_500
rng = np.random.default_rng(0)
X = rng.random((N, 4))
OLD, NEW = X[:, 0] + X[:, 1] ** 2, 1.0 - X[:, 3] + X[:, 2] ** 2
STEADY = OLD + 0.05 * rng.normal(size=N)
CHANGED = np.where(np.arange(N) < N // 2, OLD, NEW) + 0.05 * rng.normal(size=N)
KINDS = ["regression", "two outputs", "classes"]


def make(kind: str = "regression", **parameters):
    """Make a small forest."""
    make_forest = BSPForestClassifier if kind == "classes" else BSPForestRegressor
    return make_forest(**{"n_estimators": 8, "random_state": 0, **parameters})


def make_labels(kind: str, y: np.ndarray) -> np.ndarray:
    """Return labels of a kind that follow y."""
    if kind == "regression":
        return y
    return np.stack([y, -3.0 * y], axis=1) if kind == "two outputs" else np.where(y > 0.8, "high", "low")


def learn(forest, y: np.ndarray, first: int = 0, last: int = N, n: int = 5):
    """Learn rows, a few at a time."""
    for k in range(first, last, n):
        some = slice(k, min(k + n, last))
        more = {"classes": ["high", "low"]} if isinstance(forest, BSPForestClassifier) else {}
        forest.partial_fit(X[some], y[some], **more)
    return forest


def measure(forest, kind: str, y: np.ndarray) -> float:
    """Return the mean loss for the rows of the stream, as if they were new."""
    predicted = forest.predict(X)
    return np.mean(predicted != y) if kind == "classes" else np.mean((predicted - y) ** 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_followed(kind):
    """Rows from before an abrupt change leave, and the forest is as good as before."""
    y, new = make_labels(kind, CHANGED), make_labels(kind, NEW)
    forest = learn(make(kind), y)
    assert forest.n_samples_ <= N // 2 + 40 and forest.held_rows().ids[0] >= N // 2 - 40
    assert [r.half_life for r in forest.revisions_ if N // 2 < r.n_samples_seen < N // 2 + 100], "soon after it"
    blind = learn(make(kind, half_life=None), y)
    assert blind.half_life_ == np.inf and blind.n_samples_ == N
    assert measure(forest, kind, new) < 0.5 * measure(blind, kind, new)
    check(forest._forest)
    check_sums(forest._forest)


def test_without_drift_all_rows_count():
    """A half-life is shortened for a reason only."""
    forest = learn(make(), STEADY)
    assert forest.half_life_ == np.inf and forest.n_samples_ == N


def test_a_given_half_life_is_kept():
    """Rows that weigh less than 2^-8 leave, in blocks. Failed with half as many half-lives."""
    forest = learn(make(half_life=40.0), STEADY)
    assert forest.half_life_ == 40.0 and all(revision.half_life == 40.0 for revision in forest.revisions_)
    assert 0.96 * 320 <= forest.n_samples_ <= 320
    assert np.array_equal(forest.held_rows().ids, np.arange(N - forest.n_samples_, N))


def test_half_lives_multiply_weights():
    """Duals solve for weights that halve with age: the same as sample weights that do. Failed with rows that all weigh the same."""
    given = {"bandwidth": 2.0, "feature_weights": None, "scaling": "minmax", "cuts": "pairs"}
    y, w = CHANGED[:60], 0.5 ** (np.arange(60)[::-1] / 20.0)
    forest = make(half_life=20.0, ridge=0.1, **given).partial_fit(X[:60], y)
    weighted = make(half_life=None, ridge=0.1 / w.mean(), **given)  # only sample weights are relative to their mean
    weighted.partial_fit(X[:60], y, sample_weight=w)
    np.testing.assert_allclose(forest.predict(X), weighted.predict(X), atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_go_on_alike(kind, tmp_path):
    """Just before and just after an alarm, copies and files go on bit for bit."""
    y = make_labels(kind, CHANGED)
    for at in (N // 2 + 5, N // 2 + 60):
        forest = learn(make(kind), y, last=at)
        forest.save(tmp_path / "forest.bsp")
        twins = [copy.deepcopy(forest), load(tmp_path / "forest.bsp"), forest]
        answers = [learn(twin, y, at, at + 200).predict(X) for twin in twins]
        assert np.array_equal(answers[0], answers[2]) and np.array_equal(answers[1], answers[2])
        assert twins[1].half_life_ == forest.half_life_ and twins[1].revisions_ == forest.revisions_


def test_forgotten_rows_leave_no_trace_in_the_half_life():
    """Twins differ in labels that are forgotten, wild enough for an alarm."""
    twins = []
    for shift in (0.0, 50.0):
        y = STEADY.copy()
        y[400:440] += shift
        forest = learn(make(), y, last=500)
        forest.forget(np.arange(400, 440), strict=True)
        twins.append(learn(forest, y, 500, 700))
    assert twins[0].half_life_ == twins[1].half_life_
    assert np.array_equal(twins[0].predict(X), twins[1].predict(X))


def test_a_class_that_comes_late():
    """New classes are learned while rows leave."""
    labels = np.where(CHANGED > 1.0, 1, 0)
    labels[N // 2 + 200 :][X[N // 2 + 200 :, 2] > 0.8] = 2
    forest = BSPForestClassifier(8, random_state=0, half_life=100.0).partial_fit(X[:5], labels[:5], classes=[0, 1, 2])
    for k in range(5, N, 5):
        forest.partial_fit(X[k : k + 5], labels[k : k + 5])
    assert np.mean(forest.predict(X[-200:]) == labels[-200:]) > 0.9


def test_pick():
    """The longest half-life that is not clearly worse, or the one in use. Failed with the best."""
    noise = np.random.default_rng(1).normal(size=400)
    noise -= noise.mean()
    base = np.ones(400)
    assert pick(np.stack([base + 0.01 * noise + 0.0002, base, base]), 1) == 0
    close = np.stack([base + 0.5 + noise, base + 0.01 * noise + 0.0007, base])  # by 1.4 standard errors
    assert (pick(close, 0), pick(close, 1), pick(close, 2)) == (2, 1, 2)
    assert pick(np.stack([base + 1.0, base + 0.5, base]), 0) == 2
    assert pick(1e200 * np.stack([base + 1.0, base]), 0) == 1


def test_half_lives_that_are_tried():
    """Infinity, the one in use, and n / 2, n / 4, ... above the shortest. Failed without the one in use."""
    assert list_half_lives(1_000, 333.0).tolist() == [np.inf, 500.0, 333.0, 250.0, 125.0, 62.5]
    assert list_half_lives(50, np.inf).tolist() == [np.inf]
