"""A loaded forest equals the saved one, and learns on exactly as the saved one would have."""

from __future__ import annotations

import pickle
import subprocess
import sys

import hostile
import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from hostile import make_forest, same
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import check
from sklearn.base import clone

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.files import load_with_extra, read_header, save


def make_stream(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.integers(0, 3, n)


def round_trip(forest, tmp_path, compress=False):
    forest.save(tmp_path / "model.bsp", compress=compress)
    return bspforest.load(tmp_path / "model.bsp")


def assert_same(a, b):
    assert same(a, b)
    assert a._forest.budget == b._forest.budget
    assert a._forest.rows.held_ids().tolist() == b._forest.rows.held_ids().tolist()


steps = st.lists(
    st.tuples(st.sampled_from(["learn", "learn", "one", "forget"]), st.integers(1, 25)), min_size=1, max_size=5
)


@settings(max_examples=60, deadline=None)
@given(
    before=steps,
    after=steps,
    cuts=st.sampled_from(["pairs", "axes", "isotropic"]),
    d=st.integers(1, 3),
    classes=st.booleans(),
    window=st.sampled_from([None, 12]),
    scaling=st.sampled_from(["minmax", None, (-1.0, 2.0)]),
    budget=st.sampled_from(["minimax", 3.0, float("inf")]),
    values=st.sampled_from(["mean", "ridge"]),
    grid=st.sampled_from([3, 10**6]),
    compress=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_load_and_continue_equals_continue(
    tmp_path_factory, before, after, cuts, d, classes, window, scaling, budget, values, grid, compress, seed
):
    rng = np.random.default_rng(seed)
    kind = BSPForestClassifier if classes else BSPForestRegressor
    forest = kind(
        3,
        cuts=cuts,
        window=window,
        scaling=scaling,
        budget=budget,
        prediction=values,
        random_state=seed,
        min_samples_split=3,
    )

    def run(forest, steps, rng):
        for step, n in steps:
            if step == "forget":
                held = forest._forest.rows.held_ids()
                forest.forget(rng.choice(held, min(n, len(held)), replace=False))
                continue
            n = 1 if step == "one" else n
            X = rng.integers(0, grid, (n, d)) / grid + (rng.random() < 0.1) * 3.0
            more = {"classes": range(4)} if classes else {}
            w = rng.integers(0, 3, n) + (np.arange(n) == 0)
            forest.partial_fit(X, rng.integers(0, 4, n), sample_weight=w, **more)

    run(forest, [("learn", 9), *before], rng)
    loaded = round_trip(forest, tmp_path_factory.mktemp("model"), compress)
    assert_same(forest, loaded)
    state = rng.bit_generator.state
    run(forest, after, rng)
    rng.bit_generator.state = state
    run(loaded, after, rng)
    assert_same(forest, loaded)
    check(loaded._forest)


@pytest.mark.parametrize("chunk", [1, 100, 1000])
def test_a_longer_stream_continues_the_same(tmp_path, chunk):
    X, y = make_stream(3000, d=5)
    forest = BSPForestRegressor(4, window=1500, random_state=0).fit(X[:1000], y[:1000])
    other = round_trip(forest, tmp_path)
    for start in range(1000, 1000 + 2 * max(chunk, 500), chunk):
        rows = slice(start, start + chunk)
        forest.partial_fit(X[rows] * 1.5, y[rows])
        other.partial_fit(X[rows] * 1.5, y[rows])
    assert_same(forest, other)
    np.testing.assert_array_equal(forest.predict(X), other.predict(X))


LABELS = [
    np.array([3, -1, 7]),
    np.array([3, 1, 7], dtype=np.uint8),
    np.array([1.0, 2.0, -3.0]),
    np.array([1.0, 2.0, -3.0], dtype=np.float32),
    np.array([False, True, True]),
    np.array(["a", "ß", "long label"]),
    np.array(["b", "\ud800 half", "c"], dtype=object),
]


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: str(labels.dtype))
def test_labels_of_any_type(tmp_path, labels):
    X, y = make_stream(60)
    forest = BSPForestClassifier(3, random_state=0).fit(X, labels[y])
    loaded = round_trip(forest, tmp_path)
    assert loaded.classes_.dtype == forest.classes_.dtype
    assert loaded.classes_.tolist() == forest.classes_.tolist()
    assert loaded.predict(X).tolist() == forest.predict(X).tolist()
    loaded.partial_fit(X, labels[y])


def test_parameters_feature_names_and_extra(tmp_path):
    X, y = make_stream(60)
    parameters = {
        "n_estimators": np.int64(2),
        "budget": np.float64(np.inf),
        "scaling": ([0.0, 0.0, 0.5], np.ones(3)),
        "n_jobs": -1,
        "random_state": np.random.RandomState(5),
        "voting": "hard",
    }
    forest = BSPForestClassifier(**parameters).fit(pd.DataFrame(X, columns=["a", "b", "ü"]), y)
    extra = {"columns": ["a", 1.5, None, {"x": True}]}
    save(forest, tmp_path / "m", extra=extra)
    loaded, found = load_with_extra(tmp_path / "m")
    assert found == extra
    assert loaded.feature_names_in_.tolist() == ["a", "b", "ü"]
    assert {k: str(v) for k, v in loaded.get_params().items() if k != "random_state"} == {
        k: str(v) for k, v in forest.get_params().items() if k != "random_state"
    }
    # A later fit draws from the random state where it was left.
    again = [f.set_params(scaling="minmax").fit(X, y) for f in (forest, loaded)]
    assert_same(*again)
    header = read_header(tmp_path / "m")
    assert header["format"] == 1 and header["estimator"] == "BSPForestClassifier" and header["extra"] == extra
    assert header["forest"]["n_seen"] == 60 and header["forest"]["n_features"] == 3
    assert header["versions"].keys() == {"python", "numpy", "numba", "scikit-learn"}
    assert header["versions"]["numba"] == numba.__version__


def test_a_forest_without_rows(tmp_path):
    X, y = make_stream(20)
    forest = BSPForestRegressor(3, random_state=0).fit(X, y).forget(range(20))
    loaded = round_trip(forest, tmp_path)
    assert (loaded.n_samples_, loaded.n_samples_seen_) == (0, 20)
    assert_same(forest.partial_fit(X, y), loaded.partial_fit(X, y))


def test_points_next_to_a_large_coordinate(tmp_path):
    """Boxes are rounded to float32, which makes these points look further apart than they are; their times are late."""
    X = 1e-20 * np.random.default_rng(0).random((200, 3)) + [1.0, 0.0, 0.0]
    forest = BSPForestRegressor(3, budget=np.inf, scaling=None, random_state=0).fit(X, X[:, 1])
    assert max(tree.time[np.isfinite(tree.time)].max(initial=0.0) for tree in forest.trees_) > 1e15
    assert_same(round_trip(forest, tmp_path), forest)


@pytest.mark.parametrize("kind", hostile.KINDS, ids=str)
def test_pickle_and_skops(kind, tmp_path):
    skops = pytest.importorskip("skops.io")
    made = make_forest(*kind)
    X, y = make_stream(50)
    for forest in (made, round_trip(made, tmp_path)):
        data = skops.dumps(forest)
        trusted = skops.get_untrusted_types(data=data)
        assert all(name.startswith("bspforest.") for name in trusted), trusted
        copies = [pickle.loads(pickle.dumps(forest)), skops.loads(data, trusted=trusted)]
        forest.partial_fit(X, y)
        for copy in copies:
            # Other types would make numba compile every kernel again.
            for ours, theirs in zip(forest._forest.trees.arrays, copy._forest.trees.arrays, strict=True):
                assert numba.typeof(ours) == numba.typeof(theirs)
            assert_same(copy.partial_fit(X, y), forest)


def test_a_memory_mapped_forest_keeps_learning(tmp_path):
    """The arrays of a mapped file are read-only. Writing to them once crashed in the middle of forgetting."""
    X, y = make_stream(80)
    forest = BSPForestRegressor(3, window=50, random_state=0).fit(X, y)
    joblib.dump(forest, tmp_path / "forest")
    mapped = joblib.load(tmp_path / "forest", mmap_mode="r")
    for row in range(60):
        for f in (forest, mapped):
            f.partial_fit(X[row : row + 1], y[row : row + 1])
    assert_same(mapped, forest)
    check(mapped._forest)


def test_clone_of_a_loaded_forest_is_not_fitted(tmp_path):
    loaded = round_trip(make_forest(*hostile.KINDS[0]), tmp_path)
    assert not hasattr(clone(loaded), "_forest")


def test_import_is_lazy():
    code = (
        "import sys, bspforest; assert 'bspforest.files' not in sys.modules; bspforest.load; bspforest.ModelFileError"
    )
    subprocess.run([sys.executable, "-c", code])
