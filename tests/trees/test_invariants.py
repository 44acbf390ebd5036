"""Check the invariants of all trees after mixtures of learning, forgetting, windows and growing budgets."""

from __future__ import annotations

import laws
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import check

steps = st.lists(
    st.tuples(st.sampled_from(["learn", "learn", "one", "forget", "oldest"]), st.integers(1, 12)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=120, deadline=None)
@given(
    steps=steps,
    cuts=st.sampled_from(laws.FAMILIES),
    d=st.integers(1, 4),
    min_split=st.integers(2, 5),
    window=st.sampled_from([None, None, 10]),
    grid=st.sampled_from([2, 6, 10**6]),
    scale=st.sampled_from([0.05, 1.0, 4.0, np.inf]),
    n_classes=st.sampled_from([0, 3]),
    scaling=st.sampled_from([None, "minmax"]),
    seed=st.integers(0, 10**6),
)
def test_mixtures_of_operations(steps, cuts, d, min_split, window, grid, scale, n_classes, scaling, seed):
    rng = np.random.default_rng(seed)
    forest = laws.make(
        np.empty((0, d)),
        3,
        cuts=cuts,
        budget=lambda n: scale * n**0.3,
        min_split=min_split,
        window=window,
        scaling=scaling,
        seed=seed,
        n_classes=n_classes,
    )
    for step, n in steps:
        held = forest.rows.held_ids()
        if step in ("learn", "one"):
            n = 1 if step == "one" else n
            X = rng.integers(0, grid, (n, d)) / grid + (rng.random() < 0.1) * 10.0  # ties, and sometimes far away
            y = rng.integers(0, n_classes or 5, n).astype(float)
            forest.learn(X, y, rng.integers(0, 3, n).astype(float))
        elif step == "forget" and len(held):
            forest.forget(rng.choice(held, min(n, len(held)), replace=False))
        elif step == "oldest":
            forest.forget(forest.rows.oldest(min(n, len(held))))
        check(forest)
        assert forest.n_held == len(forest.rows.held_ids())


@pytest.mark.parametrize("cuts", laws.FAMILIES)
def test_longer_stream(cuts):
    X = np.random.default_rng(0).normal(size=(1500, 5)) ** 3
    forest = laws.make(X, 2, cuts=cuts, budget=lambda n: 3 * n ** (1 / 7), min_split=4, scaling="minmax", window=600)
    for start in range(0, 1500, 100):
        laws.learn(forest, X[start : start + 100])
        check(forest)
    for x in X[:50]:
        laws.learn(forest, x[None])
    check(forest)


@pytest.mark.parametrize("cuts", laws.FAMILIES)
def test_large_batch(cuts):
    X = np.random.default_rng(1).normal(size=(3000, 4)) ** 3
    forest = laws.make(X, 2, cuts=cuts, budget=6.0, min_split=4, scaling="minmax")
    check(laws.learn(forest, X))


def test_thousands_of_duplicates():
    X = np.repeat(np.random.default_rng(0).random((3, 2)), 2000, axis=0)
    forest = laws.make(X, 3, budget=np.inf, min_split=4)
    laws.learn(forest, X[::2])
    laws.learn(forest, X[1::2])
    laws.learn(forest, X[:1])
    check(forest)
    assert forest.trees.arrays.state["n_leaves"].max() == 3
    forest.forget(np.arange(0, 6001, 2))
    check(forest)


def test_points_closer_than_float64_can_separate():
    """With neighbouring floats beside a large coordinate, the engine gives up in finite time and stays consistent."""
    X = np.array([[1e-17 * k, 1.0] for k in range(8)])
    forest = laws.make(X, 5, budget=np.inf, min_split=2)
    for x in X:
        laws.learn(forest, x[None])
    laws.learn(forest, X)
    assert forest.n_held == 16
    forest.forget(np.arange(10))
    assert forest.n_held == 6


def test_points_closer_than_float32_boxes_can_separate():
    """With differences far below the rounding of boxes, nearly all candidates fall into the rounding; the search gives up."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(600), 1e-14 * rng.random((600, 2))])
    forest = laws.make(X, 2, budget=lambda n: 0.3 * n**0.2, min_split=3)
    laws.learn(forest, X[:8])
    laws.learn(forest, X[8:300])
    laws.learn(forest, X[300:])
    assert forest.n_held == 600
    check(forest)


def test_forgetting_huge_labels_and_zero_weights():
    """Statistics of a large leaf equal a recount where subtracting would cancel, or divide zero by zero."""
    X = np.repeat([[0.5, 0.5]], 80, axis=0)
    forest = laws.make(X, 2, budget=1.0)
    y = np.arange(80.0)
    y[7] = 1e100
    w = np.ones(80)
    forest.learn(X, y, w)
    forest.forget(np.array([7]))
    check(forest)
    weightless = laws.make(X, 2, budget=1.0)
    weightless.learn(X, y, np.zeros(80))
    weightless.forget(np.array([3, 7]))
    check(weightless)
    assert np.isfinite(weightless.trees.arrays.leaf_sums[:, 0]).all()
