"""The forest behind the interfaces: short ways lead where the long ones do, classes may be added and inserted."""

from __future__ import annotations

import pickle

import laws
import numpy as np
import pytest
from invariants import check
from recount import check_sums

from bspforest import BSPForestRegressor
from bspforest.forest.config import ForestConfig
from bspforest.forest.forest import OnlineForest
from bspforest.forest.means import MeanPrediction
from bspforest.trees.scaling import find_range
from bspforest.trees.trees import TreeEnsemble

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
        "scaling": "minmax",
        "window": None,
    }
    return OnlineForest(ForestConfig(n_features=4, **{**settings, **kw}), np.random.SeedSequence(1), MeanPrediction())


def test_a_budget_that_decreases_is_refused_for_a_single_row_too():
    forest = make_forest(budget=lambda n: 1.0 if n < 10 else 0.5)
    for k in range(9):
        forest.learn(X[[k]], y[[k]], w[[k]])
    with pytest.raises(ValueError, match="budget must not decrease"):
        forest.learn(X[[9]], y[[9]], w[[9]])
    assert forest.n_held == 9


def test_classes_can_be_added():
    codes = np.digitize(y, [0.3, 0.6]).astype(float)
    whole, grown = make_forest(n_classes=3), make_forest(n_classes=1)
    for k in range(200):
        if codes[k] >= grown.config.n_classes:
            grown.add_classes(int(codes[k]) + 1 - grown.config.n_classes)
        grown.learn(X[[k]], codes[[k]], w[[k]])
        whole.learn(X[[k]], codes[[k]], w[[k]])
    assert grown.config.n_classes == 3
    np.testing.assert_array_equal(laws.sum_of_leaves(grown, X), laws.sum_of_leaves(whole, X))


@pytest.mark.parametrize(("known", "n"), [([0], 2), ([1], 2), ([1, 3], 4), ([0, 2, 3], 6), ([2], 3)])
def test_classes_can_be_inserted(known, n):
    """The forest is, bit for bit, one that had all classes from the beginning: before and after rows of new ones come."""
    codes = np.arange(300) % len(known)
    whole, grown = make_forest(n_classes=n, window=150), make_forest(n_classes=len(known), window=150)
    places = np.array(known)
    for rows in (slice(0, 90), slice(90, 180)):
        grown.learn(X[rows], codes[rows].astype(float), w[rows])
        whole.learn(X[rows], places[codes[rows]].astype(float), w[rows])
    grown.insert_classes(places, n)
    assert grown.config.n_classes == grown.config.n_classes == n
    for own, others in zip(grown.held_labels(), whole.held_labels(), strict=True):
        np.testing.assert_array_equal(own, others)
    np.testing.assert_array_equal(laws.sum_of_leaves(grown, X), laws.sum_of_leaves(whole, X))
    check(grown)
    for forest in (grown, whole):
        forest.learn(X[180:], (np.arange(120) % n).astype(float), w[180:])
    check(grown)
    np.testing.assert_array_equal(laws.sum_of_leaves(grown, X), laws.sum_of_leaves(whole, X))


def test_classes_that_do_not_fit_the_memory(monkeypatch):
    forest = make_forest(n_classes=2)
    forest.learn(X, (y > 0.5).astype(float), w)
    before, sums = forest.trees.arrays, laws.sum_of_leaves(forest, X)

    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr("bspforest.trees.layout.copy_array", fail)
    with pytest.raises(MemoryError):
        forest.insert_classes(np.array([1, 2]), 3)
    assert forest.torn and forest.trees.arrays is before and forest.config.n_classes == 2
    np.testing.assert_array_equal(laws.sum_of_leaves(forest, X), sums)


def test_rows_of_any_layout_are_read_alike():
    # Compiled versions are called without a look at the types: a row in another layout must not reach them.
    forest = make_forest()
    forest.learn(X, y, w)
    expected = laws.sum_of_leaves(forest, X)
    turned = np.asfortranarray(X)
    for k in range(20):
        np.testing.assert_allclose(laws.sum_of_leaves(forest, X[k : k + 1])[0], expected[k], rtol=1e-12)
        assert not turned[k : k + 1].flags.c_contiguous
        np.testing.assert_allclose(laws.sum_of_leaves(forest, turned[k : k + 1])[0], expected[k], rtol=1e-12)


def test_a_pickled_forest_learns_on():
    forest = make_forest(window=100)
    for k in range(150):
        forest.learn(X[[k]], y[[k]], w[[k]])
    other = pickle.loads(pickle.dumps(forest))
    for k in range(150, 300):
        forest.learn(X[[k]], y[[k]], w[[k]])
        other.learn(X[[k]], y[[k]], w[[k]])
    np.testing.assert_array_equal(laws.sum_of_leaves(forest, X), laws.sum_of_leaves(other, X))


def held_range(forest: OnlineForest) -> np.ndarray:
    rows = forest.held_rows()
    return np.stack([rows.min(axis=0), rows.max(axis=0)])


def test_a_forgotten_row_takes_its_range_with_it():
    """With a row a thousand times as far out, trees have hardly a cut; without it again, as many as if it had never been."""
    far = np.concatenate([X, [[1000.0] * 4]])
    forest, never = (make_forest(n_trees=100, budget=lambda n: 1.5) for _ in range(2))
    never.learn(X, y, w)
    forest.learn(far, np.append(y, 0.0), np.append(w, 1.0))
    few = np.mean([leaves_of(forest, m) for m in range(100)])
    forest.forget(np.array([300]))
    np.testing.assert_array_equal(forest.range, never.range)
    np.testing.assert_array_equal(forest.trees.arrays.scaling, never.trees.arrays.scaling)
    check(forest)
    leaves = [np.mean([leaves_of(f, m) for m in range(100)]) for f in (forest, never)]
    assert few < 0.5 * leaves[1]
    assert leaves[0] == pytest.approx(leaves[1], rel=0.1)


def leaves_of(forest: OnlineForest, m: int) -> int:
    nodes, _, _ = forest.trees.number_nodes(m)
    return (len(nodes) + 1) // 2


def test_trees_are_built_afresh_only_if_the_range_is_another(monkeypatch):
    whole = np.round(X)  # every value is at an end, and many rows are there
    forest = make_forest()
    forest.learn(whole, y, w)
    monkeypatch.setattr(forest.trees, "build", None)
    forest.forget(np.arange(250))
    assert forest.n_held == 50
    monkeypatch.undo()
    forest.forget(250 + np.flatnonzero(whole[250:, 2] == 1.0))
    np.testing.assert_array_equal(forest.range, held_range(forest))
    check(forest)


def test_the_range_of_nothing():
    forest = make_forest()
    forest.learn(X, y, w)
    forest.forget(np.arange(300))
    np.testing.assert_array_equal(forest.range, 0.0)
    forest.learn(X[:40] + 7.0, y[:40], w[:40])
    np.testing.assert_array_equal(forest.range, held_range(forest))
    check(forest)


def test_the_range_of_a_constant():
    forest = make_forest()
    forest.learn(np.full((3, 4), 5.0), y[:3], w[:3])
    forest.learn(np.full((1, 4), 7.0), y[:1], w[:1])
    forest.forget(np.arange(3))
    np.testing.assert_array_equal(forest.range, 7.0)
    forest.forget(np.array([3]))
    np.testing.assert_array_equal(forest.range, 0.0)


@pytest.mark.parametrize("d", [1, 3, 8, 600, 1025])
@pytest.mark.parametrize("n", [1, 300, 1024, 2061])
def test_find_range(n, d):
    """The smallest and largest of each column, wherever they are. Shown to fail: without the rows that are left over."""
    data = np.random.default_rng(n * d).random((n, d))
    for rows in (data, np.asfortranarray(data), data[::2]):
        low, high = find_range(rows)
        np.testing.assert_array_equal(low, rows.min(axis=0))
        np.testing.assert_array_equal(high, rows.max(axis=0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 1023, 2047, 2060])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_one_bad_number_among_many(d, row, value):
    data = np.random.default_rng(d).random((2061, d))
    forest = BSPForestRegressor(1).fit(data, data[:, 0])
    data[row, d - 1] = value
    for call in (lambda: forest.partial_fit(data, data[::-1, 0]), lambda: forest.predict(data)):
        with pytest.raises(ValueError, match=f"X contains infinity in column {d - 1}, row {row};"):
            call()
    assert forest.n_samples_ == len(data)


@pytest.mark.parametrize("scaling", ["minmax", None])
def test_rows_closer_than_boxes_can_tell_are_built_afresh(scaling, monkeypatch):
    """Inserting them one by one takes twenty times as long."""
    rng = np.random.default_rng(0)
    close = 0.5 + 1e-9 * rng.random((4_000, 4))
    close[0] = 0.0
    built = []
    build = TreeEnsemble.build
    monkeypatch.setattr(TreeEnsemble, "build", lambda self, *args: built.append(1) or build(self, *args))
    forest = make_forest(scaling=scaling)
    labels, weights = rng.random(4_000), np.ones(4_000)
    forest.learn(close[:1000], labels[:1000], weights[:1000])
    forest.learn(close[1000:], labels[1000:], weights[1000:])
    assert len(built) == 2 and forest.n_held == 4_000
    check(forest)
    spread = make_forest(scaling=scaling)
    X = rng.random((4_000, 4))
    spread.learn(X[:1000], labels[:1000], weights[:1000])
    spread.learn(X[1000:1900], labels[1000:1900], weights[1000:1900])
    assert len(built) == 3, "ordinary rows are inserted"


@pytest.mark.parametrize("window", [None, 1_500])
def test_large_chunks_of_joint_forests_are_built_afresh(window, monkeypatch):
    """A seventh of the rows held or more. Failed with chunks cut into blocks before they are compared with the rows held."""
    rng = np.random.default_rng(0)
    X = rng.random((3_000, 3))
    labels = X[:, 0] + np.arange(3_000)
    forest = BSPForestRegressor(4, bandwidth=1.0, ridge=0.1, min_samples_split=2, window=window, random_state=0)
    forest.set_params(half_life=None, cuts="pairs", feature_weights=None, scaling="minmax").fit(
        X[:1_000], labels[:1_000]
    )
    before = forest.trees_[0].time[0]
    monkeypatch.setattr(TreeEnsemble, "insert", None)
    monkeypatch.setattr(TreeEnsemble, "remove", None)
    monkeypatch.setattr("bspforest.forest.forest.BLOCK", 4 * 256)
    forest.partial_fit(X[1_000:2_200], labels[1_000:2_200])
    oldest = 0 if window is None else 745  # rows leave in blocks
    assert forest.trees_[0].time[0] != before
    ids, rows, held, _ = forest.held_rows()
    assert np.array_equal(ids, np.arange(oldest, 2_200))
    assert np.array_equal(rows, X[oldest:2_200]) and np.array_equal(held, labels[oldest:2_200])
    check(forest._forest)
    check_sums(forest._forest)
    assert forest.score(X[oldest:2_200], labels[oldest:2_200]) > 0.5
    monkeypatch.undo()
    root = forest.trees_[0].time[0]
    forest.partial_fit(X[2_200:2_300], labels[2_200:2_300])  # inserted
    assert window is not None or forest.trees_[0].time[0] <= root
    check(forest._forest)
    check_sums(forest._forest)


def test_boxes_cover_rows_far_from_zero():
    """Rounded boxes of children may be wider than those of their parents. Fails if a box counts as covering unrounded."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        far = 1.7e9 + rng.random((150, 4)) * 10.0 ** rng.integers(-6, 6, (150, 1))
        forest = make_forest(n_trees=20, cuts="axes", scaling=None, min_samples_split=2, budget=lambda n: np.inf)
        forest.learn(far[:75], y[:75], w[:75])
        forest.learn(far[75:150], y[75:150], w[75:150])
        check(forest)
