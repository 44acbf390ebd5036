"""Check the invariants of trees node by node, in plain Python."""

from __future__ import annotations

import numpy as np

from bspforest.trees.layout import ISOTROPIC, NORMAL, NOTHING


def heights(arrays, m, v, Z):
    """Return the normal component of points at a cut: they lie right of it if this exceeds its offset."""
    cut = arrays.cuts[m, v]
    if arrays.family == ISOTROPIC:
        return Z @ arrays.boxes[m, v, NORMAL].astype(float)
    return cut["a"] * Z[:, cut["i"]] + cut["b"] * Z[:, cut["j"]]


def leaf_slots(arrays, m, k):
    """Return the slots of the points of a leaf, oldest first."""
    slots, slot = [], arrays.leaves[m, k]["last"]
    for _ in range(arrays.leaves[m, k]["n_points"]):
        slot = arrays.links[m, slot]
        slots.append(int(slot))
    return slots


def check_terms(forest):
    """Check that the terms of rows are their leaf statistics, if leaf means predict."""
    rule, slots = forest.prediction, forest.rows.held_slots()
    if rule.is_ridge:
        return
    terms = forest.trees.arrays.terms[slots]
    y, w = forest.y[slots, 0], forest.weights[slots]
    if forest.config.n_classes:
        expected = np.eye(forest.config.n_classes)[y.astype(int)] * w[:, None]
    else:
        gap = y - rule.centre
        expected = np.stack([w, w * gap, w * gap * gap], axis=1)
    np.testing.assert_array_equal(terms, expected)


def check_box(arrays, m, v, Z):
    """Check that the box of a node is tight around its points ``Z``."""
    cut = arrays.cuts[m, v]
    dims = [cut["i"], cut["j"]]
    bounds = np.array([[cut["low_i"], cut["low_j"]], [cut["high_i"], cut["high_j"]]])
    low, high = arrays.boxes[m, v, :2]
    np.testing.assert_array_equal(bounds, [low[dims], high[dims]])
    assert (low <= Z.min(axis=0)).all() and (high >= Z.max(axis=0)).all(), "boxes cover"
    np.testing.assert_allclose(low, Z.min(axis=0), rtol=4e-7, err_msg="boxes are tight")
    np.testing.assert_allclose(high, Z.max(axis=0), rtol=4e-7)


def check_tree(forest, m):
    """Check tree m."""
    arrays = forest.trees.arrays
    cuts, least = arrays.cuts[m], arrays.min_split
    with np.errstate(all="ignore"):  # slots without a row may contain anything
        Z = np.clip((arrays.rows - arrays.scaling[0]) * arrays.scaling[1], -1e30, 1e30)
    used_cuts, used_leaves, due = [], [], []

    def leaf(k):
        slots = leaf_slots(arrays, m, k)
        used_leaves.append(k)
        np.testing.assert_allclose(arrays.leaf_sums[m, k], arrays.terms[slots].sum(axis=0), rtol=1e-9, atol=1e-9)
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
                assert np.ptp(Z[slots], axis=0).max() < 1e-12, "distinct points have a next cut"
            else:
                right = heights(arrays, m, v, Z[slots]) > cuts[v]["p"]
                assert right.any() and not right.all(), "a pending cut separates its leaf"
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
        check_box(arrays, m, v, Z[slots])
        return slots

    root = arrays.state[m]["root"]
    slots = [] if root == NOTHING else node(root, 0.0)
    assert sorted(slots) == sorted(forest.rows.held_slots().tolist())
    assert sorted(due) == list(range(arrays.state[m]["n_due"]))
    times = arrays.queue[m, : len(due)]["time"]
    assert all(times[(k - 1) // 2] <= times[k] for k in range(1, len(due))), "the queue is a heap"
    # Each record is in use or in the free list, once.
    for used, head, count, following in (
        (used_cuts, "free_cut", "n_cuts", lambda v: cuts[v]["left"]),
        (used_leaves, "free_leaf", "n_leaves", lambda k: arrays.leaves[m, k]["last"]),
    ):
        records, free = list(used), arrays.state[m][head]
        while free >= 0:
            records.append(free)
            free = following(free)
        assert sorted(records) == list(range(arrays.state[m][count]))


def check(forest):
    """Check all trees, and the terms of rows."""
    check_terms(forest)
    for m in range(forest.trees.n_trees):
        check_tree(forest, m)
