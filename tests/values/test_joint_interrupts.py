"""Test that Ctrl-C during a solve leaves the forest as it was before the solve."""

from __future__ import annotations

import copy
import os
import signal
import threading
from contextlib import contextmanager

import dense
import invariants
import numpy as np
import pytest
from recount import check_sums

from bspforest import BSPForestRegressor
from bspforest.engine import interrupts
from bspforest.values import kernel_matrix
from bspforest.values.kernel_matrix import KernelMatrix

X = np.random.default_rng(0).random((60, 3))
y = np.sin(5 * X[:, 0]) + X[:, 1]
NEW = np.random.default_rng(1).random((6, 3))


def make(**parameters) -> BSPForestRegressor:
    """Make a small forest."""
    return BSPForestRegressor(**{"n_estimators": 4, "values": "joint", "random_state": 0, **parameters})


GIVEN = {"bandwidth": 5.0, "ridge": 0.1}


@contextmanager
def interrupt_at(k: int):
    """Press Ctrl-C right before the k-th time that a protected change, such as a solve, could stop; yield a list of these times."""
    poll, times = interrupts._DeferredSignals.poll, []

    def counted(self):
        times.append(len(times) + 1)
        if times[-1] == k:
            signal.raise_signal(signal.SIGINT)
        poll(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interrupts._DeferredSignals, "poll", counted)
        yield times


def find_moments(call) -> list[int]:
    """Return at which chances to interrupt ``call``: the last ones, which are those of the solve, the first, and some between."""
    with interrupt_at(0) as times:
        call()
    assert len(times) > 2
    return sorted({*times[:3], *times[4 : -9 : max(1, len(times) // 4)], *times[-9:]})


def was_interrupted(k: int, call) -> bool:
    """Return whether ``call`` was interrupted at the k-th chance, or else had fewer."""
    try:
        with interrupt_at(k):
            call()
    except KeyboardInterrupt:
        return True
    return False


def state_of(forest) -> list[np.ndarray]:
    """Return all that joint values are made of: duals, residuals, sums, mean, choice, and the rows."""
    inner = forest._forest
    sums = [inner.trees.arrays.sums[m, v] for m in range(inner.trees.n_trees) for v in used_cuts(inner, m)]
    choice = np.array(inner.values.choice or [])
    ids = forest.held_rows().ids
    return [dense.duals_of(forest), dense.residuals_of(forest), np.array(sums), inner.values.mean.copy(), choice, ids]


def used_cuts(inner, m: int) -> np.ndarray:
    """Return the cut nodes of a tree."""
    nodes = inner.trees.number_nodes(m)[0]
    return nodes[nodes >= 0]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Return whether two states are the same, bit for bit."""
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def check(forest) -> None:
    """Check trees, sums, and that predictions follow from duals and trees as they are."""
    inner = forest._forest
    invariants.check(inner)
    check_sums(inner)
    predicted = forest.predict(NEW)  # first: solves, if the duals are those of other trees
    assert {tree.n_points[0] for tree in forest.trees_} == {forest.n_samples_}
    expected = dense.DenseForest(forest).predict(NEW, inner.values.mean, dense.duals_of(forest), forest.bandwidth_)
    dense.check_predictions(predicted, expected)


@pytest.mark.parametrize("parameters", [GIVEN, {}])
def test_solve_after_forgetting(parameters):
    """Failed with duals written, or the forest taken as up to date, before the solve was over."""
    reference = make(**parameters).fit(X, y).forget([1, 5])
    moments = find_moments(lambda: reference.predict(NEW))
    expected = reference.predict(NEW)
    for k in moments:
        forest = make(**parameters).fit(X, y).forget([1, 5])
        before = state_of(forest)
        assert was_interrupted(k, lambda: forest.predict(NEW))  # noqa: B023
        if forest._forest.values.is_stale:
            assert same(state_of(forest), before)
        else:  # interrupted when all was done
            assert same(state_of(forest), state_of(reference))
        assert np.array_equal(forest.predict(NEW), expected)
        assert same(state_of(forest), state_of(reference))


def learn_interrupted(begun, rows, labels, *, then=1):
    """Yield a copy of a forest for each moment at which learning rows can be interrupted, if it then holds them.

    Before that, check the forest that was interrupted; after it, that it goes on.
    """
    done, seen_after = copy.deepcopy(begun), 0
    for k in find_moments(lambda: done.partial_fit(rows, labels)):
        forest = copy.deepcopy(begun)
        before = state_of(forest)
        assert was_interrupted(k, lambda: forest.partial_fit(rows, labels))  # noqa: B023
        held = forest.n_samples_
        assert held in (begun.n_samples_, done.n_samples_)
        if held == begun.n_samples_:
            assert same(state_of(forest), before)
        else:
            seen_after += 1
            check(forest)
            yield forest, before, same(state_of(forest), state_of(done))
        forest.partial_fit(X[:then] * 0.9, y[:then])
        check(forest)
    assert seen_after > 2


@pytest.mark.parametrize("many", [True, False])
def test_learning_with_given_numbers(many):
    """New rows are held with duals of zero, and the others are as they were. Failed with duals written before the solve was over."""
    begun = make(**GIVEN).fit(X[:40], y[:40])
    if not many:
        for k in range(40, 43):  # the next row brings a solve
            begun.partial_fit(X[k : k + 1], y[k : k + 1])
    held = begun.n_samples_
    rows = slice(held, 60 if many else held + 1)
    for forest, before, is_done in learn_interrupted(begun, X[rows], y[rows]):
        state = state_of(forest)
        if not is_done:
            assert np.array_equal(state[0][:held], before[0])
            assert not many or not state[0][held:].any()
            assert same(state[3:5], before[3:5])
        if many and not is_done:
            np.testing.assert_allclose(forest.predict(X[:held]), begun.predict(X[:held]), rtol=0, atol=1e-9)


def test_learning_with_chosen_numbers():
    """When rows have doubled, bandwidth and ridge are chosen again: they change with the duals, or not at all.

    Whatever was interrupted is made up for with the next rows. Failed with the choice replaced before the solve was over, and
    with the rows at the last choice counted before there was one.
    """
    begun = make().fit(X[:25], y[:25])
    for forest, before, is_done in learn_interrupted(begun, X[25:55], y[25:55]):
        if not is_done:
            assert same(state_of(forest)[3:5], before[3:5])
            assert np.array_equal(state_of(forest)[0][:25], before[0])
            after = copy.deepcopy(forest)
            for _ in range(100):  # the revision is spread over rows
                after.partial_fit(X[55:56], y[55:56])
            assert after.validation_error_ != begun.validation_error_


@pytest.mark.parametrize("parameters", [GIVEN, {}])
def test_learning_with_a_revised_range(parameters):
    """Trees are replaced together with their duals, or not at all. Failed with duals of other trees that nothing marks as such."""
    begun = make(**parameters).fit(X[:20], y[:20])
    for forest, _, _ in learn_interrupted(begun, 3 * X[20:45], y[20:45], then=30):
        assert not forest._forest.values.is_stale


@pytest.mark.parametrize("parameters", [GIVEN, {}])
def test_first_rows_of_an_empty_forest(parameters):
    """A forest that holds no rows yet is kept, so it is kept whole. Failed with rows held, and nothing to predict with."""
    empty = make(**parameters).partial_fit(X[:0], y[:0])
    for k in find_moments(lambda: copy.deepcopy(empty).partial_fit(X, y)):
        forest = copy.deepcopy(empty)
        assert was_interrupted(k, lambda: forest.partial_fit(X, y))  # noqa: B023
        if forest.n_samples_:
            assert np.isfinite(forest.predict(NEW)).all()
        forest.partial_fit(X[:5], y[:5])
        check(forest)


@pytest.mark.parametrize("parameters", [GIVEN, {}])
def test_forgetting_all_rows_and_learning_others(parameters):
    """Nothing of the labels that were forgotten comes back. Failed as the test above."""
    begun = make(**parameters).fit(X[:20], y[:20] + 1000.0).forget(range(20))
    begun.partial_fit(X[:0], y[:0])
    for k in find_moments(lambda: copy.deepcopy(begun).partial_fit(X[20:], y[20:])):
        forest = copy.deepcopy(begun)
        assert was_interrupted(k, lambda: forest.partial_fit(X[20:], y[20:]))  # noqa: B023
        if forest.n_samples_:
            assert np.abs(forest.predict(NEW)).max() < 10.0
        forest.partial_fit(X[:5], y[:5])
        check(forest)


def test_fit_keeps_the_old_forest(monkeypatch):
    """A fit that is interrupted at any product leaves the estimator as it was. Failed with the new forest taken over at once."""
    forest = make().fit(X[:30], y[:30])
    before, predicted = state_of(forest), forest.predict(NEW)
    multiply, count = KernelMatrix.multiply, 0

    def counted(self, p):
        nonlocal count
        count += 1
        if count == stop:
            signal.raise_signal(signal.SIGINT)
        return multiply(self, p)

    monkeypatch.setattr(KernelMatrix, "multiply", counted)
    for stop in (1, 2, 7, 20):  # noqa: B007
        count = 0
        with pytest.raises(KeyboardInterrupt):
            forest.fit(X, y)
        assert same(state_of(forest), before) and np.array_equal(forest.predict(NEW), predicted)


def test_ctrl_c_from_outside(monkeypatch):
    """A signal that comes at any time ends a solve, which without it would not end here.

    Failed (by not ending) with a solve that does not poll.
    """
    rows = np.random.default_rng(2).random((700, 3))
    labels = np.random.default_rng(3).normal(size=700)
    forest = make(**GIVEN).fit(rows[:300], labels[:300])
    before, at_held = state_of(forest), forest.predict(rows[:300])
    with monkeypatch.context() as patch:
        patch.setattr(kernel_matrix, "MOST_PRODUCTS", 10**9)
        patch.setattr(kernel_matrix, "TOLERANCE", -1.0)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            timer.start()
            forest.partial_fit(rows[300:], labels[300:])
    assert forest.n_samples_ == forest.n_samples_seen_ == 700
    state = state_of(forest)
    assert np.array_equal(state[0][:300], before[0]) and not state[0][300:].any()
    np.testing.assert_allclose(forest.predict(rows[:300]), at_held, rtol=0, atol=1e-9)
    forest.partial_fit(rows[:1], labels[:1])
    assert dense.duals_of(forest)[300:].all()
    invariants.check(forest._forest)
    check_sums(forest._forest)


def test_ctrl_c_while_and_after_building_afresh():
    """A chunk is learned as a whole or not at all. Duals of other trees are not used: the next prediction solves.

    Failed with the slots of the rows not given back, and without marking the duals as stale.
    """
    rows = np.random.default_rng(2).random((1500, 3))
    labels = np.random.default_rng(3).normal(size=1500)
    begun = make(**GIVEN).fit(rows[:300], labels[:300])
    held = set()
    for k in find_moments(lambda: copy.deepcopy(begun).partial_fit(rows[300:], labels[300:])):
        forest = copy.deepcopy(begun)
        before = state_of(forest), forest.predict(NEW)
        assert was_interrupted(k, lambda: forest.partial_fit(rows[300:], labels[300:]))  # noqa: B023
        held.add(forest.n_samples_)
        if forest.n_samples_ == 300:
            assert same(state_of(forest), before[0]) and np.array_equal(forest.predict(NEW), before[1])
        else:
            predicted = forest.predict(rows)
            assert np.corrcoef(predicted[300:], labels[300:])[0, 1] > 0.5
        check(forest)
        forest.partial_fit(rows[300:400], labels[300:400])
        check(forest)
    assert held == {300, 1500}
