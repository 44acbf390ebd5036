"""Model files: what is loaded is what was saved, and goes on as it would have; whatever else is in a file is refused."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import resource
import stat
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

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
from sklearn.exceptions import NotFittedError

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor, ModelFileError
from bspforest.persistence import Saver, load_with_extra, read_header, save

SUPPORT = Path(__file__).parents[1] / "support"


def stream(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.integers(0, 3, n)


def round_trip(forest, tmp_path):
    forest.save(tmp_path / "model.bsp")
    return bspforest.load(tmp_path / "model.bsp")


def assert_same(a, b):
    assert same(a, b)
    assert a._forest.budget == b._forest.budget
    assert a._forest.rows.held_ids().tolist() == b._forest.rows.held_ids().tolist()


# ----------------------------------------------------------------------------------------------------------------------
# What is loaded is what was saved

steps = st.lists(
    st.tuples(st.sampled_from(["learn", "learn", "one", "forget"]), st.integers(1, 25)), min_size=1, max_size=5
)


@settings(max_examples=60, deadline=None)
@given(
    before=steps,
    after=steps,
    cuts=st.sampled_from(["pairs", "axes", "isotropic"]),
    d=st.integers(1, 3),
    refinement=st.sampled_from(["exact", "exact", "redraw"]),
    classes=st.booleans(),
    window=st.sampled_from([None, 12]),
    scaling=st.sampled_from(["minmax", None, (-1.0, 2.0)]),
    budget=st.sampled_from(["minimax", 3.0, float("inf")]),
    grid=st.sampled_from([3, 10**6]),
    seed=st.integers(0, 10**6),
)
def test_load_and_continue_equals_continue(
    tmp_path_factory, before, after, cuts, d, refinement, classes, window, scaling, budget, grid, seed
):
    rng = np.random.default_rng(seed)
    kind = BSPForestClassifier if classes else BSPForestRegressor
    forest = kind(
        3,
        cuts=cuts,
        refinement=refinement,
        window=window,
        scaling=scaling,
        budget=budget,
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
    loaded = round_trip(forest, tmp_path_factory.mktemp("model"))
    assert_same(forest, loaded)
    state = rng.bit_generator.state
    run(forest, after, rng)
    rng.bit_generator.state = state
    run(loaded, after, rng)
    assert_same(forest, loaded)
    check(loaded._forest)


@pytest.mark.parametrize("chunk", [1, 100, 1000])
def test_a_longer_stream_grows_alike(tmp_path, chunk):
    X, y = stream(3000, d=5)
    forest = BSPForestRegressor(4, window=1500, random_state=0).fit(X[:1000], y[:1000])
    other = round_trip(forest, tmp_path)
    for start in range(1000, 1000 + 2 * max(chunk, 500), chunk):
        part = slice(start, start + chunk)
        forest.partial_fit(X[part] * 1.5, y[part])
        other.partial_fit(X[part] * 1.5, y[part])
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
    X, y = stream(60)
    forest = BSPForestClassifier(3, random_state=0).fit(X, labels[y])
    loaded = round_trip(forest, tmp_path)
    assert loaded.classes_.dtype == forest.classes_.dtype
    assert loaded.classes_.tolist() == forest.classes_.tolist()
    assert loaded.predict(X).tolist() == forest.predict(X).tolist()
    loaded.partial_fit(X, labels[y])


def test_parameters_features_and_extra(tmp_path):
    X, y = stream(60)
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
    assert set(header["versions"]) == {"python", "numpy", "numba", "scikit-learn"}


def test_a_forest_that_holds_nothing(tmp_path):
    X, y = stream(20)
    forest = BSPForestRegressor(3, random_state=0).fit(X, y).forget(range(20))
    loaded = round_trip(forest, tmp_path)
    assert (loaded.n_samples_, loaded.n_samples_seen_) == (0, 20)
    assert_same(forest.partial_fit(X, y), loaded.partial_fit(X, y))


@pytest.mark.parametrize("scaling", ["minmax", None])
def test_forgotten_rows_leave_no_trace(scaling, tmp_path):
    X, y = stream(300)
    y = y.astype(float)
    X[7], y[7] = [-0.123456789, 0.987654321, 55.55555555], 12345.678  # two of them alone at the ends of their ranges
    forest = BSPForestRegressor(5, scaling=scaling, random_state=0).fit(X, y)
    path = tmp_path / "m"
    secrets = [np.float64(v).tobytes() for v in (*X[7], y[7])] + [np.float32(12345.678).tobytes()]
    forest.save(path)
    assert all(s in path.read_bytes() for s in secrets[:4])
    forest.forget([7]).save(path)
    assert not any(s in path.read_bytes() for s in secrets)


@pytest.mark.parametrize("kind", hostile.KINDS, ids=str)
def test_pickle_and_skops(kind):
    skops = pytest.importorskip("skops.io")
    forest = make_forest(*kind)
    data = skops.dumps(forest)
    trusted = skops.get_untrusted_types(data=data)
    assert all(name.startswith("bspforest.") for name in trusted), trusted
    X, y = stream(50)
    copies = [pickle.loads(pickle.dumps(forest)), skops.loads(data, trusted=trusted)]
    forest.partial_fit(X, y)
    for copy in copies:
        # Other types would have numba compile every kernel again.
        for ours, theirs in zip(forest._forest.trees.arrays, copy._forest.trees.arrays, strict=True):
            assert numba.typeof(ours) == numba.typeof(theirs)
        assert_same(copy.partial_fit(X, y), forest)


def test_a_forest_mapped_into_memory_goes_on(tmp_path):
    """Arrays of a mapped file cannot be written to; they were once, halfway through forgetting, and crashed."""
    X, y = stream(80)
    forest = BSPForestRegressor(3, window=50, random_state=0).fit(X, y)
    joblib.dump(forest, tmp_path / "forest")
    mapped = joblib.load(tmp_path / "forest", mmap_mode="r")
    for row in range(60):
        for f in (forest, mapped):
            f.partial_fit(X[row : row + 1], y[row : row + 1])
    assert_same(mapped, forest)
    check(mapped._forest)


# ----------------------------------------------------------------------------------------------------------------------
# What cannot be saved


def refuses(tmp_path, forest, error, match, **kw):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    with pytest.raises(error, match=match):
        save(forest, path, **kw)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


def test_what_cannot_be_saved_is_said_before_writing(tmp_path):
    X, y = stream(30)
    forest = BSPForestRegressor(2).fit(X, y)
    refuses(tmp_path, BSPForestRegressor(), NotFittedError, "not fitted")
    refuses(tmp_path, BSPForestRegressor(2, budget=np.sqrt).fit(X, y), ValueError, "budget is a function")
    changed = BSPForestRegressor(2, budget=np.sqrt).fit(X, y).set_params(budget="minimax")
    refuses(tmp_path, changed, ValueError, "budget is a function")
    refuses(tmp_path, forest, ValueError, "JSON", extra={"a": np.arange(3)})
    refuses(tmp_path, forest, ValueError, "JSON", extra={"a": float("nan")})
    refuses(tmp_path, forest, ValueError, "unchanged", extra={1: "a"})
    refuses(tmp_path, forest, TypeError, "dict", extra=[1])
    refuses(tmp_path, forest, FileExistsError, "exists", overwrite=False)
    dates = BSPForestClassifier(2).fit(X, y)
    dates.classes_ = np.array(["2020", "2021", "2022"], dtype="M8[Y]")
    refuses(tmp_path, dates, ValueError, "classes_ is an array of")
    refuses(tmp_path, type("Mine", (BSPForestRegressor,), {})(2).fit(X, y), TypeError, "Mine")


def test_paths(tmp_path):
    X, y = stream(30)
    forest = BSPForestRegressor(2, random_state=0).fit(X, y)
    forest.save(str(tmp_path / "a"), overwrite=False)
    with pytest.raises(FileExistsError):
        forest.save(tmp_path / "a", overwrite=False)
    os.chmod(tmp_path / "a", 0o640)
    (tmp_path / "link").symlink_to("a")
    forest.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    with pytest.raises(FileNotFoundError):
        forest.save(tmp_path / "missing" / "a")
    with pytest.raises(FileNotFoundError):
        bspforest.load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        forest.save(tmp_path)
    (tmp_path / "text").write_text("not a model\n" * 20)
    with pytest.raises(ModelFileError, match="not a bspforest model file"):
        bspforest.load(tmp_path / "text")
    assert sorted(os.listdir(tmp_path)) == ["a", "link", "text"]


# ----------------------------------------------------------------------------------------------------------------------
# Saving while disks fill up, processes die and others save too


def save_for_ever(path, seed):
    X = np.random.default_rng(0).random((2000, 3))
    forests = [BSPForestRegressor(5, random_state=seed).fit(X[:n], X[:n, 0]) for n in (1000, 2000)]
    for k in count():
        save(forests[k % 2], path, extra={"k": k, "n": forests[k % 2].n_samples_})


def start_saver(path, seed):
    """A process that saves two forests in turn."""
    process = multiprocessing.get_context("fork").Process(target=save_for_ever, args=(path, seed))
    process.start()
    return process


def load_whole(path):
    forest, extra = load_with_extra(path)
    assert forest.n_samples_ == extra["n"]
    return extra["k"]


def test_killed_while_saving(tmp_path):
    """SIGKILL at any moment leaves a whole file; what is left beside it, the next save removes."""
    path, rng = tmp_path / "m", np.random.default_rng(0)
    deadline = time.monotonic() + 120
    rounds = left = 0
    make_forest(*hostile.KINDS[0]).save(path, extra={"k": -1, "n": 80})
    while rounds < 20 or not left:  # some must be killed while they write
        before = set(os.listdir(tmp_path))
        process = start_saver(path, 0)
        while set(os.listdir(tmp_path)) <= before:  # until it writes a file beside
            assert process.is_alive() and time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(0.01 * rng.random())
        process.kill()
        process.join()
        load_whole(path)
        rounds += 1
        left += len(os.listdir(tmp_path)) - 1
    make_forest(*hostile.KINDS[0]).save(path)
    assert os.listdir(tmp_path) == ["m"]


def test_two_processes_save_while_a_third_loads(tmp_path):
    path = tmp_path / "m"
    deadline = time.monotonic() + 120
    savers = [start_saver(path, seed) for seed in (0, 1)]
    seen, loads = set(), 0
    try:
        while loads < 60 or len(seen) < 4:
            assert all(process.is_alive() for process in savers) and time.monotonic() < deadline
            if path.exists():
                seen.add(load_whole(path))
                loads += 1
    finally:
        for process in savers:
            process.kill()
            process.join()


def test_a_full_disk(tmp_path):
    """A file that may not grow on: as on a full disk, the old file stays and nothing is left beside it."""
    X, y = stream(3000)
    forest = BSPForestRegressor(5, random_state=0).fit(X[:300], y[:300])
    forest.save(tmp_path / "m")
    old = (tmp_path / "m").read_bytes()
    forest.partial_fit(X, y)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (10, 5000, 100_000):
        with Saver(tmp_path / "m") as saver:
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
                with pytest.raises(OSError, match="File too large") as caught:
                    forest.save(tmp_path / "m")
                saver.save(forest)
                with pytest.raises(OSError, match="File too large"):
                    saver.save(forest)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.errno == errno.EFBIG
        assert (tmp_path / "m").read_bytes() == old
        assert os.listdir(tmp_path) == ["m"]


def test_a_small_disk(tmp_path):
    """The real thing, where one may mount a small file system."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system is not allowed here")
    try:
        X, y = stream(3000)
        forest = BSPForestRegressor(5, random_state=0).fit(X[:100], y[:100])
        forest.save(disk / "m")
        old = (disk / "m").read_bytes()
        forest.partial_fit(X, y)
        with pytest.raises(OSError) as caught:  # noqa: PT011
            forest.save(disk / "m")
        assert caught.value.errno == errno.ENOSPC
        assert (disk / "m").read_bytes() == old and os.listdir(disk) == ["m"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_saver_keeps_what_was_when_it_was_asked(tmp_path):
    X, y = stream(2000)
    forest = BSPForestRegressor(5, random_state=0).fit(X[:500], y[:500])
    path = tmp_path / "m"
    with Saver(path, overwrite=False) as saver:
        for k in range(500, 2000, 500):
            saver.save(forest, extra={"row": k})
            expected = pickle.dumps(forest)
            forest.partial_fit(X[k : k + 500], y[k : k + 500])
            saver.wait()
            loaded, extra = load_with_extra(path)
            assert extra == {"row": k}
            assert_same(loaded, pickle.loads(expected))
    with pytest.raises(FileExistsError):
        Saver(path, overwrite=False).save(forest)
    assert threading.active_count() == 1 and os.listdir(tmp_path) == ["m"]


def test_clone_of_a_loaded_forest_is_new(tmp_path):
    loaded = round_trip(make_forest(*hostile.KINDS[0]), tmp_path)
    assert not hasattr(clone(loaded), "_forest")


def test_import_is_lazy():
    code = "import sys, bspforest; assert 'bspforest.persistence' not in sys.modules; bspforest.load; bspforest.ModelFileError"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_points_beside_a_large_coordinate(tmp_path):
    """Boxes are rounded to float32, which makes these points look further apart than they are; their times are late."""
    X = 1e-20 * np.random.default_rng(0).random((200, 3)) + [1.0, 0.0, 0.0]
    forest = BSPForestRegressor(3, budget=np.inf, scaling=None, random_state=0).fit(X, X[:, 1])
    assert max(tree.time[np.isfinite(tree.time)].max(initial=0.0) for tree in forest.trees_) > 1e15
    assert_same(round_trip(forest, tmp_path), forest)
