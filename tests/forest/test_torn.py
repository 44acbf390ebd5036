"""Raise an exception at any line of a change: the next call answers as a forest of the rows that are stored.

Failed with ``torn`` set to False before the values were up to date (stale duals), with rows replaced before they were written,
and with slots of rows that leave a window used again at once.
"""

from __future__ import annotations

import copy
import sys
import threading
from contextlib import contextmanager

import dense
import invariants
import numpy as np
import pytest
from grids import grid
from recount import check_sums

from bspforest import BSPForestClassifier, BSPForestRegressor

rng = np.random.default_rng(0)
X = rng.random((1300, 3))
y = np.sin(5 * X[:, 0]) + X[:, 1]
NEW = np.random.default_rng(1).random((6, 3))

GIVEN = {
    "bandwidth": 5.0,
    "ridge": 0.1,
    "feature_weights": None,
    "scaling": "minmax",
    "half_life": None,
    "cuts": "pairs",
}
KINDS = {"given": GIVEN, "chosen": {}, "mean": {"prediction": "mean"}, "window": {**GIVEN, "window": 45}}


def make(kind: str) -> BSPForestRegressor:
    return BSPForestRegressor(4, min_samples_split=2, random_state=0, **KINDS[kind])


class Raised(BaseException):
    """What is raised."""


@contextmanager
def raise_at(k: int):
    """Raise at the k-th line that is run in the package; yield a list with the number of lines run."""
    count = [0]

    def trace(frame, event, arg):
        if "bspforest" not in frame.f_code.co_filename or "locking" in frame.f_code.co_filename:
            return None
        if event == "line":
            count[0] += 1
            if count[0] == k:
                raise Raised
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def list_moments(call, n: int = 25) -> list[int]:
    """Return lines at which to raise in a call, spread evenly."""
    with raise_at(0) as count:
        call()
    return sorted(set(np.linspace(1, count[0], n).astype(int).tolist()))


def check(forest) -> None:
    """Check trees, sums, and that predictions follow from the rows stored."""
    predicted = forest.predict(NEW)  # first: makes the forest whole
    inner = forest._forest
    assert not inner.torn and not inner.stale
    invariants.check(inner)
    assert {tree.n_points[0] for tree in forest.trees_} == {forest.n_samples_}
    if forest.prediction == "mean":
        return
    check_sums(inner)
    every = dense.DenseForest(forest)
    expected = every.predict(NEW, inner.prediction.mean, dense.duals_of(forest), forest.bandwidth_)
    dense.check_predictions(predicted, expected)


def check_solved(forest) -> None:
    """Check that duals solve for the labels: they are not those of other rows or trees."""
    held = forest.held_rows()
    every = dense.DenseForest(forest)
    mean, duals = every.solve(held.y[:, None], forest.bandwidth_, forest.ridge_)
    predicted = every.predict(NEW, mean, duals, forest.bandwidth_)[:, 0]
    sure = np.isfinite(predicted)
    np.testing.assert_allclose(forest.predict(NEW)[sure], predicted[sure], atol=0.1)


CHANGES = {
    "one row": lambda forest: forest.partial_fit(X[40:41], y[40:41], keys=["new"]),
    "several rows": lambda forest: forest.partial_fit(X[40:60], y[40:60]),
    "another range": lambda forest: forest.partial_fit(3 * X[40:60], y[40:60]),
    "forget": lambda forest: forest.forget([38, 37, 39]),
}


@grid(1, kind=list(KINDS), name=list(CHANGES))
def test_a_change_happens_wholly_or_not_at_all(kind, name):
    change = CHANGES[name]
    begun = make(kind).fit(X[:40], y[:40], keys=[f"k{k}" for k in range(40)])
    begun.predict(NEW)
    after = change(copy.deepcopy(begun))
    ids = {"before": begun.held_rows().ids.tolist(), "after": after.held_rows().ids.tolist()}
    keys = {"before": begun.held_keys(), "after": after.held_keys()}
    seen = set()
    spare = copy.deepcopy(begun)
    for k in list_moments(lambda: change(spare)):
        forest = copy.deepcopy(begun)
        with pytest.raises(Raised), raise_at(k):
            change(forest)
        found = forest.held_rows().ids.tolist()
        state = "before" if found == ids["before"] else "after"
        assert found == ids[state] and forest.held_keys() == keys[state]
        seen.add(state)
        check(forest)
        if kind == "given" and name != "one row":
            check_solved(forest)
        forest.partial_fit(X[100:101], y[100:101])
        check(forest)
        if state == "before":  # a retry learns each row once
            change(forest)
            assert len(forest.held_rows().ids) == len(set(forest.held_rows().ids.tolist()))
    assert seen == {"before", "after"}


@pytest.mark.parametrize("kind", KINDS)
def test_making_it_whole_can_be_interrupted(kind):
    begun = make(kind).fit(X[:40], y[:40])
    begun.forget([1, 5])
    begun._forest.torn = True
    plain = copy.copy(begun._forest)
    for k in list_moments(lambda: begun.predict(NEW), 12):
        forest = make(kind).fit(X[:40], y[:40]).forget([1, 5])
        forest._forest.torn = True
        with pytest.raises(Raised), raise_at(k):
            forest.predict(NEW)
        assert forest.n_samples_ == plain.n_held
        check(forest)


@pytest.mark.long
def test_a_large_chunk():
    begun = make("given").fit(X[:300], y[:300])
    seen = set()
    spare = copy.deepcopy(begun)
    for k in list_moments(lambda: spare.partial_fit(X[300:], y[300:]), 12):
        forest = copy.deepcopy(begun)
        with pytest.raises(Raised), raise_at(k):
            forest.partial_fit(X[300:], y[300:])
        seen.add(forest.n_samples_)
        predicted = forest.predict(X[: forest.n_samples_])
        assert np.corrcoef(predicted, y[: forest.n_samples_])[0, 1] > 0.99
        invariants.check(forest._forest)
    assert seen == {300, 1300}


def test_new_classes():
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [0.4, 0.8])]
    begun = BSPForestClassifier(4, random_state=0).fit(X[:40], labels[:40])
    places = np.array([0, 2, 3])
    add = lambda forest: forest._add_classes(np.array(["a", "aa", "b", "c"]), places, X[40:42], ["aa", "c"])  # noqa: E731
    spare = copy.deepcopy(begun)
    for k in list_moments(lambda: add(spare)):
        forest = copy.deepcopy(begun)
        with pytest.raises(Raised), raise_at(k):
            add(forest)
        share = (forest.predict(X[:40]) == labels[:40]).mean()
        assert share > 0.9, k
        assert forest.predict_proba(X[:2]).shape == (2, len(forest.classes_))
        assert forest.held_rows().y[:40].tolist() == labels[:40].tolist()


def test_fit_keeps_the_old_forest():
    forest = make("chosen").fit(X[:30], y[:30])
    predicted = forest.predict(NEW)
    spare = make("chosen")
    for k in list_moments(lambda: spare.fit(X[:50], y[:50]), 12):
        with pytest.raises(Raised), raise_at(k):
            forest.fit(X[:50], y[:50])
        assert forest.n_samples_ in (30, 50)
        if forest.n_samples_ == 30:
            assert np.array_equal(forest.predict(NEW), predicted)


def test_a_forest_out_of_memory_can_forget(monkeypatch):
    """Rows are stored or not, the message says which, and forgetting needs no memory. Failed with trees built beside others."""
    forest = make("given").fit(X[:200], y[:200])
    inner = forest._forest

    def refuse(*args, **options):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(inner.trees), "make_room", refuse)
        with pytest.raises(MemoryError, match="10 rows of this call were not learned"):
            forest.partial_fit(X[200:210], y[200:210])
    assert forest.n_samples_ == 200
    with monkeypatch.context() as patch:
        patch.setattr(type(inner.trees), "insert", refuse)
        patch.setattr(type(inner.trees), "build", refuse)
        with pytest.raises(MemoryError, match="they are learned"):
            forest.partial_fit(X[200:210], y[200:210])
        assert forest.n_samples_ == 210
        with pytest.raises(MemoryError):
            forest.predict(NEW)
        forest.forget(np.arange(100))
        assert forest.n_samples_ == 110
    check(forest)
    check_solved(forest)


def test_reading_in_another_thread_after_forgetting():
    """`apply` and `trees_` make the forest whole first. Failed with an IndexError, and by waiting for each other."""
    forest = make("chosen").fit(X[:80], y[:80]).forget(np.arange(20))
    found: list = []

    def read() -> None:
        found.append(forest.apply(NEW))
        found.append(forest.trees_[0].n_points[0])

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive() and found[1] == 60
    assert np.array_equal(found[0], forest.apply(NEW))
