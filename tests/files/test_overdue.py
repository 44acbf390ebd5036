"""Forests with overdue pending cuts are saved, loaded and used.

Pending cuts are overdue if they are not later than the budget, as in a forged file. They are carried out when the next row is learned.
"""

from __future__ import annotations

import hostile
import numpy as np
import pytest
from hostile import Content, make_forest, same
from invariants import check

import bspforest


def learn_one(forest, X, y):
    forest.partial_fit(X[:1], y[:1])


def learn_many(forest, X, y):
    forest.partial_fit(X, y)


def forget_and_learn(forest, X, y):
    forest.forget(forest._forest.rows.held_ids()[::2])
    forest.partial_fit(X[:1], y[:1])


@pytest.mark.parametrize("change", [learn_one, learn_many, forget_and_learn])
@pytest.mark.parametrize("kind", hostile.KINDS, ids=str)
def test_many_overdue_cuts(kind, change, tmp_path):
    """With a budget three times as large in the header, most pending cuts are overdue."""
    forest = make_forest(*kind)
    budget = 3 * forest.budget_
    arrays = forest._forest.trees.arrays
    overdue = [(arrays.queue[m, :n]["time"] <= budget).sum() for m, n in enumerate(arrays.state["n_due"])]
    assert sum(overdue) > 5
    content = Content(forest)
    content.header["forest"]["budget"] = budget
    content.write(tmp_path / "m")
    X = np.random.default_rng(0).random((60, 3))
    y = np.arange(60) % 3
    loaded = bspforest.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X), forest.predict(X))
    forest._forest.budget = budget
    for each in (loaded, forest):
        change(each, X, y)
    assert same(loaded, forest)
    check(loaded._forest)
