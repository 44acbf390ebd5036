"""Test classes that come after others: the forest is as if it had known them from the beginning.

Each test was seen to fail; its docstring says how the code was broken for that.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from grids import grid
from hostile import same
from invariants import check
from recount import check_sums
from revisions import settle

from bspforest import BSPForestClassifier, load
from bspforest.forest.calibration import expand
from bspforest.forest.columns import insert_columns

rng = np.random.default_rng(0)
X = rng.random((300, 3))
ROUND = (X[:, 0] * 30).astype(int)
NAMES = np.array(list("abcdef"))

# Classes known at first, and those that come.
CASES = [("b", "a"), ("b", "c"), ("b", "ac"), ("bc", "a"), ("ac", "b"), ("bd", "ace"), ("abd", "c"), ("bcd", "ae")]


def make(**parameters) -> BSPForestClassifier:
    """Return a forest whose trees depend on nothing but rows and seed."""
    fixed = {"bandwidth": 5.0, "ridge": 0.1, "feature_weights": None, "scaling": "minmax"} if not parameters else {}
    return BSPForestClassifier(4, random_state=0, **fixed, **parameters)


def add(forest, new, rows, y):
    """Learn rows, among them of new classes."""
    classes = np.array(sorted([*forest.classes_, *new]))
    return forest._add_classes(classes, np.searchsorted(classes, forest.classes_), rows, y)


def get_scores(forest, rows) -> np.ndarray:
    """Return the score of each class."""
    inner = forest._forest
    return expand(inner.prediction.predict(inner, rows), inner.config.n_classes)


@pytest.mark.parametrize(("known", "new"), CASES)
def test_scores_are_those_of_a_forest_that_knew_all_classes(known, new, tight):
    """Failed with columns not put in their places, and with the mean of a single class left at its place."""
    y = np.array(list(known))[ROUND % len(known)]
    classes = np.array(sorted(known + new))
    grown = make().partial_fit(X[:150], y[:150], classes=list(known))
    whole = make().partial_fit(X[:150], y[:150], classes=classes)
    for forest in (grown, whole):
        for k in range(150, 153):  # with duals of their own, and honest residuals
            forest.partial_fit(X[k : k + 1], y[k : k + 1])
    before = get_scores(grown, X[200:])
    add(grown, new, X[:0], y[:0])
    assert grown.classes_.tolist() == classes.tolist()
    assert grown.held_rows().y.tolist() == whole.held_rows().y.tolist() == y[:153].tolist()
    places = np.searchsorted(classes, list(known))
    scores = get_scores(grown, X[200:])
    np.testing.assert_allclose(scores[:, places], before, atol=1e-12)
    np.testing.assert_allclose(np.delete(scores, places, axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(scores, get_scores(whole, X[200:]), atol=1e-8)
    if len(known) > 1:
        inner = [forest._forest.residuals[:153] for forest in (grown, whole)]
        np.testing.assert_allclose(*inner, atol=1e-8)
    assert (grown.predict(X[200:]) == whole.predict(X[200:])).all()
    check(grown._forest)
    check_sums(grown._forest)


@grid(1, case=CASES, at=[0, 7, 19])
def test_rows_of_new_classes_are_learned(case, at, tight):
    """Wherever they are in their chunk. Failed with labels held that kept their codes."""
    known, new = case
    every = sorted(known + new)
    y = np.array(list(known))[ROUND % len(known)]
    y[150 + at], y[180:] = new[0], np.array(every)[ROUND[180:] % len(every)]
    grown = add(make().partial_fit(X[:150], y[:150], classes=list(known)), new, X[150:170], y[150:170])
    whole = make().partial_fit(X[:150], y[:150], classes=every).partial_fit(X[150:170], y[150:170])
    for forest in (grown, whole):
        forest.partial_fit(X[170:290], y[170:290])
        check(forest._forest)
        check_sums(forest._forest)
    np.testing.assert_allclose(get_scores(grown, X), get_scores(whole, X), atol=1e-8)


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_files_with_classes_that_came_late(values, tmp_path):
    """Saving, right after a class came or later, changes nothing. Failed with a configuration of fewer columns."""
    y = NAMES[1 + ROUND % 2]
    forest = make(prediction=values).partial_fit(X[:100], y[:100], classes=["b", "c"])
    y[100], y[130] = "a", "d"
    for first, last, new in ((100, 120, "a"), (120, 140, "d"), (140, 300, "")):
        settle(forest)
        forest.save(tmp_path / "m.bsp")
        loaded = load(tmp_path / "m.bsp")
        for one in (forest, loaded):
            if new:
                add(one, new, X[first:last], y[first:last])
            else:
                one.partial_fit(X[first:last], y[first:last])
            settle(one)
        assert same(forest, loaded)
    assert forest.classes_.tolist() == list("abcd") and forest.n_samples_ == 300


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_refused_rows_bring_no_class(values):
    """Failed with the classes added before the rows were checked."""
    y = NAMES[1 + ROUND % 2]
    forest = make(prediction=values).partial_fit(X[:100], y[:100], classes=["b", "c"])
    before = copy.deepcopy(forest)
    for rows, labels in (([[np.inf, 0, 0]], ["a"]), ([[0, 0, 0], [-1e101, 0, 0]], ["a", "b"]), (X[:1], ["x"])):
        with pytest.raises(ValueError, match=r"infinity|but numbers of at most|not among"):
            add(forest, "a", np.array(rows), np.array(labels))
        assert forest.classes_.tolist() == ["b", "c"] and same(forest, before)
    with pytest.raises(ValueError, match="which is not among the classes"):
        forest.partial_fit(X[:1], ["a"])


def test_unknown_residuals_stay_unknown():
    """In the first column, too, which tells whether they are known. Failed with 0 in the columns of new classes."""
    old = np.array([[0.25, -0.5, 0.25], [np.nan] * 3])
    found = insert_columns(old, np.array([1, 2, 4]), 5)
    np.testing.assert_array_equal(found, [[0.0, 0.25, -0.5, 0.0, 0.25], [np.nan] * 5])
    np.testing.assert_array_equal(insert_columns(old[:, :1], np.array([1, 2]), 3), [[0.0, -0.25, 0.25], [np.nan] * 3])
