"""What must hold of every tree after any mixture of learning, forgetting, windows and growing budgets."""

from __future__ import annotations

import laws
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bspforest.engine.arrays import ISOTROPIC, NOTHING


def heights(arrays, m, v, Z):
    cut = arrays.cuts[m, v]
    if arrays.family == ISOTROPIC:
        return Z @ arrays.boxes[m, v, 2].astype(float)
    return cut["a"] * Z[:, cut["i"]] + cut["b"] * Z[:, cut["j"]]


def leaf_slots(arrays, m, k):
    slots, slot = [], arrays.leaves[m, k]["last"]
    for _ in range(arrays.leaves[m, k]["n_points"]):
        slot = arrays.links[m, slot]
        slots.append(int(slot))
    return slots


def check_values(arrays, m, k, slots):
    """Statistics equal a recount."""
    y, w = arrays.labels[slots].T
    if arrays.n_classes:
        expected = np.bincount(y.astype(int), w, minlength=arrays.n_classes)
    else:
        mean = np.average(y, weights=w) if w.sum() else 0.0
        expected = np.array([w.sum(), mean, (w * (y - mean) ** 2).sum()])
    np.testing.assert_allclose(arrays.values[m, k], expected, rtol=1e-9, atol=1e-9)


def check_tree(forest, m):
    """Check tree m; how many cut records and leaves it uses."""
    arrays = forest.arrays
    cuts, least = arrays.cuts[m], arrays.min_split
    with np.errstate(all="ignore"):  # places that hold no row may hold anything
        Z = np.clip((arrays.rows - arrays.scaling[0]) * arrays.scaling[1], -1e30, 1e30)
    used_cuts, used_leaves, due = [], [], []

    def leaf(k):
        slots = leaf_slots(arrays, m, k)
        used_leaves.append(k)
        check_values(arrays, m, k, slots)
        return slots

    def node(v, time):
        if v < 0:
            slots = leaf(~v)
            assert 0 < len(slots) < least
            return slots
        used_cuts.append(v)
        assert cuts[v]["time"] >= time, "times increase downwards"
        if cuts[v]["right"] == NOTHING:
            k = ~cuts[v]["left"]
            slots = leaf(k)
            assert len(slots) >= least
            assert cuts[v]["time"] > forest.budget or np.isinf(cuts[v]["time"])
            if np.isinf(cuts[v]["time"]):
                assert arrays.leaves[m, k]["due"] < 0
                if not arrays.redraw:
                    assert np.ptp(Z[slots], axis=0).max() < 1e-12, "distinct points have a next cut"
            else:
                right = heights(arrays, m, v, Z[slots]) > cuts[v]["p"]
                assert right.any() and not right.all(), "a pending cut parts its leaf"
                place = arrays.leaves[m, k]["due"]
                assert arrays.queue[m, place]["cut"] == v
                due.append(place)
        else:
            assert cuts[v]["time"] <= forest.budget
            left, right = node(cuts[v]["left"], cuts[v]["time"]), node(cuts[v]["right"], cuts[v]["time"])
            assert (heights(arrays, m, v, Z[left]) <= cuts[v]["p"] + 1e-9).all(), "children partition their parent"
            assert (heights(arrays, m, v, Z[right]) > cuts[v]["p"] - 1e-9).all()
            slots = left + right
            assert len(slots) >= least
        low, high = arrays.boxes[m, v, :2]
        assert (low <= Z[slots].min(axis=0)).all() and (high >= Z[slots].max(axis=0)).all(), "boxes cover"
        np.testing.assert_allclose(low, Z[slots].min(axis=0), rtol=4e-7, err_msg="boxes are tight")
        np.testing.assert_allclose(high, Z[slots].max(axis=0), rtol=4e-7)
        i, j = cuts[v]["i"], cuts[v]["j"]
        assert tuple(cuts[v][["low_i", "high_i", "low_j", "high_j"]]) == (low[i], high[i], low[j], high[j])
        return slots

    root = arrays.state[m]["root"]
    slots = [] if root == NOTHING else node(root, 0.0)
    assert sorted(slots) == sorted(forest.table.held_slots().tolist())
    assert sorted(due) == list(range(arrays.state[m]["n_due"]))
    times = arrays.queue[m, : len(due)]["time"]
    assert all(times[(k - 1) // 2] <= times[k] for k in range(1, len(due))), "the queue is a heap"
    # Records are in use or in the free list, once.
    for used, head, count, table, name in (
        (used_cuts, "free_cut", "n_cuts", cuts, "left"),
        (used_leaves, "free_leaf", "n_leaves", arrays.leaves[m], "last"),
    ):
        records, free = list(used), arrays.state[m][head]
        while free >= 0:
            records.append(free)
            free = table[free][name]
        assert sorted(records) == list(range(arrays.state[m][count]))


def check(forest):
    for m in range(forest.n_trees):
        check_tree(forest, m)


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
    redraw=st.booleans(),
    n_classes=st.sampled_from([0, 3]),
    scaling=st.sampled_from([None, "minmax"]),
    seed=st.integers(0, 10**6),
)
def test_any_mixture(steps, cuts, d, min_split, window, grid, scale, redraw, n_classes, scaling, seed):
    rng = np.random.default_rng(seed)
    forest = laws.make(
        np.empty((0, d)),
        3,
        cuts=cuts,
        budget=lambda n: scale * n**0.3,
        min_split=min_split,
        redraw=redraw,
        window=window,
        scaling=scaling,
        seed=seed,
        n_classes=n_classes,
    )
    for step, n in steps:
        held = forest.table.held_ids()
        if step in ("learn", "one"):
            n = 1 if step == "one" else n
            X = rng.integers(0, grid, (n, d)) / grid + (rng.random() < 0.1) * 10.0  # ties, and now and then far away
            y = rng.integers(0, n_classes or 5, n).astype(float)
            forest.learn(X, y, rng.integers(0, 3, n).astype(float))
        elif step == "forget" and len(held):
            forest.forget(rng.choice(held, min(n, len(held)), replace=False))
        elif step == "oldest":
            forest.forget_oldest(min(n, len(held)))
        check(forest)
        assert forest.n_held == len(forest.table.held_ids())


@pytest.mark.parametrize("cuts", laws.FAMILIES)
def test_a_longer_stream(cuts):
    X = np.random.default_rng(0).normal(size=(1500, 5)) ** 3
    forest = laws.make(X, 2, cuts=cuts, budget=lambda n: 3 * n ** (1 / 7), min_split=4, scaling="minmax", window=600)
    for start in range(0, 1500, 100):
        laws.learn(forest, X[start : start + 100])
        check(forest)
    for x in X[:50]:
        laws.learn(forest, x[None])
    check(forest)


@pytest.mark.parametrize("cuts", laws.FAMILIES)
def test_a_large_batch(cuts):
    X = np.random.default_rng(1).normal(size=(3000, 4)) ** 3
    forest = laws.make(X, 2, cuts=cuts, budget=6.0, min_split=4, scaling="minmax")
    check(laws.learn(forest, X))


def test_duplicates_by_the_thousand():
    X = np.repeat(np.random.default_rng(0).random((3, 2)), 2000, axis=0)
    forest = laws.make(X, 3, budget=np.inf, min_split=4)
    laws.learn(forest, X[::2])
    laws.learn(forest, X[1::2])
    laws.learn(forest, X[:1])
    check(forest)
    assert forest.arrays.state["n_leaves"].max() == 3
    forest.forget(np.arange(0, 6001, 2))
    check(forest)


def test_points_that_rounding_cannot_part():
    """Neighbouring floats beside a large coordinate: the engine gives up in finite time and stays consistent."""
    X = np.array([[1e-17 * k, 1.0] for k in range(8)])
    forest = laws.make(X, 5, budget=np.inf, min_split=2)
    for x in X:
        laws.learn(forest, x[None])
    laws.learn(forest, X)
    assert forest.n_held == 16
    forest.forget(np.arange(10))
    assert forest.n_held == 6


def test_points_that_boxes_cannot_part():
    """Differences far below the rounding of float32 boxes: candidates fall into the rounding, for ever if nobody gave up."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(600), 1e-14 * rng.random((600, 2))])
    forest = laws.make(X, 2, budget=lambda n: 0.3 * n**0.2, min_split=3)
    laws.learn(forest, X[:8])
    laws.learn(forest, X[8:300])
    laws.learn(forest, X[300:])
    assert forest.n_held == 600
    check(forest)


def test_forgetting_labels_of_any_size_and_no_weight():
    """Statistics of a large leaf stay those of a recount where subtracting would cancel, or divide nothing by nothing."""
    X = np.repeat([[0.5, 0.5]], 80, axis=0)
    forest = laws.make(X, 2, budget=1.0)
    y = np.arange(80.0)
    y[7] = 1e200
    w = np.ones(80)
    forest.learn(X, y, w)
    forest.forget(np.array([7]))
    check(forest)
    weightless = laws.make(X, 2, budget=1.0)
    weightless.learn(X, y, np.zeros(80))
    weightless.forget(np.array([3, 7]))
    check(weightless)
    assert np.isfinite(weightless.arrays.values[:, 0]).all()
