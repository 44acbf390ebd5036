"""The forest behind the interfaces: short ways lead where the long ones do, classes may be added."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from bspforest._threads import SILENT
from bspforest.core import OnlineForest

rng = np.random.default_rng(0)
X = rng.random((300, 4))
y = rng.random(300)
w = rng.random(300)


def root(n: int) -> float:
    return n**0.5


def make_forest(**kw) -> OnlineForest:
    settings = {
        "n_trees": 5,
        "n_classes": 0,
        "cuts": "pairs",
        "budget": root,
        "min_samples_split": 4,
        "redraw": False,
        "scaling": "minmax",
        "window": None,
        "seed": np.random.SeedSequence(1),
    }
    return OnlineForest(4, **{**settings, **kw})


def learn_the_long_way(forest: OnlineForest, k: int) -> None:
    held = forest.n_held
    (budgets,) = forest._budgets(held, [1])
    forest._learn_block(X[k : k + 1], y[k : k + 1], w[k : k + 1], budgets, SILENT)


@pytest.mark.parametrize("kw", [{}, {"window": 40}, {"window": 1}, {"redraw": True}, {"scaling": None}])
def test_a_row_by_the_short_way_is_a_row_by_the_long_way(kw):
    short, long = make_forest(**kw), make_forest(**kw)
    for k in range(120):
        short.learn_row(X[k], y[k], w[k])
        learn_the_long_way(long, k)
    assert short.n_seen == long.n_seen == 120
    assert short.n_held == long.n_held
    assert short.budget == long.budget
    np.testing.assert_array_equal(short.held_labels(), long.held_labels())
    np.testing.assert_array_equal(short.sum_leaves(X), long.sum_leaves(X))
    alone = np.concatenate([short.sum_leaves(X[k : k + 1]) for k in range(len(X))])
    np.testing.assert_allclose(alone, long.sum_leaves(X), rtol=1e-12)


def test_a_budget_that_decreases_is_refused_for_a_single_row_too():
    forest = make_forest(budget=lambda n: 1.0 if n < 10 else 0.5)
    for k in range(9):
        forest.learn_row(X[k], y[k], w[k])
    with pytest.raises(ValueError, match="budget must not decrease"):
        forest.learn_row(X[9], y[9], w[9])
    assert forest.n_held == 9


def test_classes_can_be_added():
    codes = np.digitize(y, [0.3, 0.6]).astype(float)
    whole, grown = make_forest(n_classes=3), make_forest(n_classes=1)
    for k in range(200):
        if codes[k] >= grown.n_classes:
            grown.add_classes(int(codes[k]) + 1 - grown.n_classes)
        grown.learn_row(X[k], codes[k], w[k])
        whole.learn_row(X[k], codes[k], w[k])
    assert grown.n_classes == 3
    np.testing.assert_array_equal(grown.sum_leaves(X), whole.sum_leaves(X))


def test_rows_of_any_layout_are_read_alike():
    # Compiled versions are called without a look at the types: a row in another layout must not reach them.
    forest = make_forest()
    forest.learn(X, y, w)
    expected = forest.sum_leaves(X)
    turned = np.asfortranarray(X)
    for k in range(20):
        np.testing.assert_allclose(forest.sum_leaves(X[k : k + 1])[0], expected[k], rtol=1e-12)
        assert not turned[k : k + 1].flags.c_contiguous
        np.testing.assert_allclose(forest.sum_leaves(turned[k : k + 1])[0], expected[k], rtol=1e-12)


def test_a_pickled_forest_learns_on():
    forest = make_forest(window=100)
    for k in range(150):
        forest.learn_row(X[k], y[k], w[k])
    other = pickle.loads(pickle.dumps(forest))
    for k in range(150, 300):
        forest.learn_row(X[k], y[k], w[k])
        other.learn_row(X[k], y[k], w[k])
    np.testing.assert_array_equal(forest.sum_leaves(X), other.sum_leaves(X))
