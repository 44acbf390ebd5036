"""Only nodes of many points have a box. Each test says how it was seen to fail."""

from __future__ import annotations

import laws
import numpy as np
import pytest
from invariants import check, next_box

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.engine.arrays import (
    BY_SLOT,
    LARGEST_THRESHOLD,
    MOST_FEATURES,
    NOTHING,
    PAIRS,
    allocate,
    find_box_threshold,
)
from bspforest.engine.kernels.build import CLIP_BOX_FROM


def count_free_boxes(arrays, m):
    """Return the length of the list of free boxes."""
    n, box = 0, arrays.state[m]["free_box"]
    while box >= 0:
        n += 1
        box = next_box(arrays.boxes[m], box)
    return n


@pytest.mark.parametrize("cuts", ["pairs", "axes"])
@pytest.mark.parametrize("together", [1, 3, 40])
def test_nodes_get_a_box_at_the_threshold_and_keep_it(cuts, together):
    """Fails if a node that gets a box leaves the bounds in its record as they were, or if forgetting does not count."""
    X = np.random.default_rng(0).random((40, 3))
    forest = laws.make(X, 5, cuts=cuts, budget=np.inf, min_split=2)
    arrays = forest.trees.arrays
    threshold = arrays.box_from
    for start in range(0, 40, together):
        laws.learn(forest, X[start : start + together])
        check(forest)
        roots = forest.trees.arrays.cuts[np.arange(5), np.maximum(forest.trees.arrays.state["root"], 0)]
        if forest.n_held >= 2:
            assert (roots["box"] >= 0).all() == (forest.n_held >= threshold)
    for k in range(38):
        forest.forget(np.array([k]))
        check(forest)
    arrays = forest.trees.arrays
    roots = arrays.cuts[np.arange(5), arrays.state["root"]]
    assert (roots["right"] != NOTHING).all()
    assert arrays.state["n_boxes"].max() < 40


def test_free_boxes_are_used_again():
    """Fails if a node that is freed keeps its box: the pool then grows for ever."""
    X = np.random.default_rng(1).random((3000, 3))
    forest = laws.make(X, 2, budget=np.inf, min_split=2, window=60)
    for start in range(0, 3000, 20):
        laws.learn(forest, X[start : start + 20])
    check(forest)
    arrays = forest.trees.arrays
    assert arrays.state["n_boxes"].max() <= 60
    laws.learn(forest, X[:1])
    forest.forget(forest.rows.held_ids()[:-5])
    before = [count_free_boxes(forest.trees.arrays, m) for m in range(2)]
    used = forest.trees.arrays.state["n_boxes"].copy()
    assert min(before) > 3
    laws.learn(forest, X[100:130])
    assert all(count_free_boxes(forest.trees.arrays, m) < before[m] for m in range(2))
    np.testing.assert_array_equal(forest.trees.arrays.state["n_boxes"], used)
    check(forest)


def test_numbers_of_free_boxes_are_exact():
    """Numbers of more than 24 bits do not fit one float32."""
    from bspforest.engine.kernels import nodes

    boxes = np.zeros((1, 2, 1), np.float32)
    for following in (-1, 0, 65_534, 65_535, 2**24 + 1, 2**31 - 2):
        get, put = (getattr(f, "py_func", f) for f in (nodes.get_next_box, nodes.set_next_box))
        put(boxes, 0, following)
        assert get(boxes, 0) == following == next_box(boxes, 0)


def test_pending_leaves_follow_the_same_rule():
    """Leaves that wait for a larger budget. Fails if a leaf that can no longer be cut keeps its box."""
    X = np.random.default_rng(2).random((60, 2))
    forest = laws.make(X, 3, budget=0.5, min_split=2)
    for x in X:
        laws.learn(forest, x[None])
        check(forest)
    for k in range(55):
        forest.forget(np.array([k]))
        check(forest)


def test_thresholds_are_within_the_scratch_space():
    """Sets cut in a loose box always have a box, and the points of a node without one fit their scratch space."""
    for d in (1, 2, 8, 64, 1000, MOST_FEATURES):
        assert 2 <= find_box_threshold(PAIRS, d) <= min(LARGEST_THRESHOLD, CLIP_BOX_FROM)


@pytest.mark.parametrize("kind", [BSPForestRegressor, BSPForestClassifier])
def test_too_many_features(kind):
    X = np.zeros((2, MOST_FEATURES + 1))
    with pytest.raises(ValueError, match="65,536 features; a forest can have at most 65,535"):
        kind(1).fit(X, [0, 1])
    streams = np.ones((1, 4), np.uint64)
    allocate(family=PAIRS, min_split=2, redraw=False, n_classes=0, n_features=MOST_FEATURES, streams=streams)


@pytest.mark.parametrize(("n", "d", "most"), [(20_000, 8, 125), (12_000, 64, 200)])
def test_memory_of_trees_grown_to_single_points(n, d, most):
    """Bytes per row and tree of joint values, sums of one column included. Fails with a box for every node."""
    X = np.random.default_rng(0).random((n, d))
    forest = BSPForestRegressor(20, values="joint", bandwidth=1.0, ridge=1.0, random_state=0).fit(X, X[:, 0])
    arrays = forest._forest.trees.arrays
    assert arrays.min_split == 2 and arrays.sums.shape[2] == 1
    held = sum(getattr(arrays, name).nbytes for name in BY_SLOT)
    assert (forest.nbytes_ - held) / (n * 20) <= most


@pytest.mark.parametrize("classify", [False, True])
def test_values_of_nodes_of_joint_forests(classify):
    """Joint values keep no label statistics; `trees_` has them nevertheless."""
    rng = np.random.default_rng(0)
    X, w = rng.random((200, 3)), rng.random(200)
    y = rng.integers(0, 3, 200) if classify else rng.normal(size=200)
    kind = BSPForestClassifier if classify else BSPForestRegressor
    settings = {"budget": np.inf, "min_samples_split": 2, "random_state": 0}
    joint, mean = (kind(3, values=v, **settings).fit(X, y, sample_weight=w) for v in ("joint", "mean"))
    assert joint._forest.trees.arrays.values.shape[2] == 0
    for one, other in zip(joint.trees_, mean.trees_, strict=True):
        np.testing.assert_array_equal(one.n_points, other.n_points)
        np.testing.assert_allclose(one.value, other.value, rtol=1e-12)
