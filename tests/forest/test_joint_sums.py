"""Test that sums of duals equal a recount, whatever was learned and forgotten."""

from __future__ import annotations

import dense
import invariants
import laws
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recount import check_sums

from bspforest import BSPForestClassifier, BSPForestRegressor

steps = st.lists(
    st.tuples(st.sampled_from(["learn", "learn", "one", "one", "far", "forget", "ask"]), st.integers(1, 14)),
    min_size=1,
    max_size=14,
)


def check(forest) -> None:
    """Check sums, and that what the forest predicts from them follows from duals and trees alone."""
    inner = forest._forest
    check_sums(inner)
    if not inner.n_held or inner.stale:
        return
    X = np.vstack([forest.held_rows().X[:3], forest.held_rows().X.mean(axis=0, keepdims=True) + 0.01])
    expected = dense.DenseForest(forest).predict(X, inner.prediction.mean, dense.duals_of(forest), forest.bandwidth_)
    for alone in (True, False):
        found = [inner.prediction.predict(inner, part) for part in (X[:, None] if alone else [np.vstack([X] * 20)])]
        found, sure = np.concatenate(found)[: len(X)], np.isfinite(expected).all(axis=1)
        np.testing.assert_allclose(found[sure], expected[sure], rtol=0, atol=1e-8)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    steps=steps,
    cuts=st.sampled_from(laws.FAMILIES),
    d=st.integers(1, 3),
    window=st.sampled_from([None, None, 10, 25]),
    grid=st.sampled_from([2, 5, 10**6]),
    leaves=st.sampled_from([{}, {}, {"budget": 0.7}, {"min_samples_split": 4, "budget": 1.0, "budget_scale": 2.0}]),
    growing=st.booleans(),
    n_classes=st.sampled_from([0, 0, 2, 3]),
    chosen=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_mixtures_of_operations(steps, cuts, d, window, grid, leaves, growing, n_classes, chosen, seed):
    """Failed, each alone, without the sums of a node over which a row puts another, without the duals that forgetting takes out
    along its path, without those of a leaf that is built afresh, and with sums not set by a solve.
    """
    rng = np.random.default_rng(seed)
    parameters = {"prediction": "ridge", "cuts": cuts, "window": window, "random_state": seed, **leaves}
    if growing:
        parameters["budget"] = grow_budget
    if not chosen:
        parameters |= {"bandwidth": 2.0, "ridge": 0.3}
    forest = (BSPForestClassifier if n_classes else BSPForestRegressor)(3, **parameters)
    for step, n in steps:
        held = forest.held_rows().ids if hasattr(forest, "_forest") else []
        if step in ("learn", "one", "far"):
            n = 1 if step == "one" else n
            X = rng.integers(0, grid, (n, d)) / grid + (step == "far") * 10.0  # ties; far away, the range is revised
            y = rng.integers(0, n_classes or 5, n).astype(float)
            w = rng.integers(0, 3, n) + (np.arange(n) == 0)
            forest.partial_fit(X, y, **({"classes": range(n_classes)} if n_classes else {}), sample_weight=w)
        elif step == "forget" and len(held):
            forest.forget(rng.choice(held, min(n, len(held)), replace=False))
        elif step == "ask" and len(held):
            forest.predict(rng.random((2, d)))
        if hasattr(forest, "_forest"):
            forest.trees_[0]  # makes the forest whole
            invariants.check(forest._forest)
            check(forest)


def grow_budget(n: int) -> float:
    """Return a budget that carries out pending cuts as rows arrive."""
    return 0.3 * n**0.5


@pytest.mark.parametrize("cuts", laws.FAMILIES)
def test_long_stream_through_a_window(cuts):
    """Rounding does not add up: sums are taken from duals at each solve. Failed as the test above."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1200, 3)) ** 3
    y = X[:, 0] + np.sin(X[:, 1])
    forest = BSPForestRegressor(4, prediction="ridge", cuts=cuts, window=300, random_state=0, bandwidth=3.0, ridge=0.1)
    forest.partial_fit(X[:100], y[:100])
    for start in range(100, 1000, 90):
        forest.partial_fit(X[start : start + 60], y[start : start + 60])
        for k in range(start + 60, start + 90):
            forest.partial_fit(X[k : k + 1], y[k : k + 1])
        check_sums(forest._forest)
    forest.forget(forest.held_rows().ids[::7])
    forest.trees_[0]
    check_sums(forest._forest)
    forest.partial_fit(X[1000:], y[1000:])
    check_sums(forest._forest)
