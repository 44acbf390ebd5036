"""What `save` writes, and what it refuses to write."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import hostile
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.engine.arrays import CUT
from bspforest.persistence import Saver, save
from bspforest.persistence.writer import PER_TREE


def make_stream(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.integers(0, 3, n)


@pytest.mark.parametrize("scaling", ["minmax", None])
def test_forgotten_rows_leave_no_trace(scaling, tmp_path):
    X, y = make_stream(300)
    y = y.astype(float)
    X[7], y[7] = [-0.123456789, 0.987654321, 55.55555555], 12345.678  # two of them alone at the ends of their ranges
    forest = BSPForestRegressor(5, scaling=scaling, random_state=0).fit(X, y)
    path = tmp_path / "m"
    secrets = [np.float64(v).tobytes() for v in (*X[7], y[7])] + [np.float32(12345.678).tobytes()]
    forest.save(path)
    assert all(s in path.read_bytes() for s in secrets[:4])
    forest.forget([7]).save(path)
    assert not any(s in path.read_bytes() for s in secrets)


def assert_refused(tmp_path, forest, error, match, **kw):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    with pytest.raises(error, match=match):
        save(forest, path, **kw)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


def test_what_cannot_be_saved_is_refused_before_writing(tmp_path):
    X, y = make_stream(30)
    forest = BSPForestRegressor(2).fit(X, y)
    assert_refused(tmp_path, BSPForestRegressor(), NotFittedError, "not fitted")
    assert_refused(tmp_path, BSPForestRegressor(2, budget=np.sqrt).fit(X, y), ValueError, "budget is a function")
    changed = BSPForestRegressor(2, budget=np.sqrt).fit(X, y).set_params(budget="minimax")
    assert_refused(tmp_path, changed, ValueError, "budget is a function")
    assert_refused(tmp_path, forest, ValueError, "JSON", extra={"a": np.arange(3)})
    assert_refused(tmp_path, forest, ValueError, "JSON", extra={"a": float("nan")})
    assert_refused(tmp_path, forest, ValueError, "unchanged", extra={1: "a"})
    assert_refused(tmp_path, forest, TypeError, "dict", extra=[1])
    assert_refused(tmp_path, forest, FileExistsError, "exists", overwrite=False)
    dates = BSPForestClassifier(2).fit(X, y)
    dates.classes_ = np.array(["2020", "2021", "2022"], dtype="M8[Y]")
    assert_refused(tmp_path, dates, ValueError, "classes_ is an array of")
    assert_refused(tmp_path, type("Mine", (BSPForestRegressor,), {})(2).fit(X, y), TypeError, "Mine")


def wipe_naively(forest, m):
    """Return the block of tree ``m`` as it must be written, with plain loops over the lists of free records."""
    arrays = forest.trees.arrays
    state, free = arrays.state[m], forest.rows.export_slots(forest.rows.n_slots)[1]
    block = [
        getattr(arrays, name)[m, : forest.rows.n_slots if count is None else state[count]].copy()
        for name, count in PER_TREE.items()
    ]
    cuts, boxes, leaves, values, _, links = block
    v, k = state["free_cut"], state["free_leaf"]
    while v >= 0:
        following = cuts[v]["left"]
        cuts[v], boxes[v] = np.zeros((), CUT), 0.0
        cuts[v]["left"] = v = following
    while k >= 0:
        leaves[k]["n_points"], leaves[k]["due"], values[k] = 0, -1, 0.0
        k = leaves[k]["last"]
    links[free] = 0
    return block


@pytest.mark.parametrize("kind", hostile.KINDS, ids=str)
@pytest.mark.parametrize("most_copied", [0, 2**24])
def test_saving_does_not_write_to_the_forest(kind, most_copied, tmp_path, monkeypatch):
    """Unused records and rows are wiped in copies, with the same bytes in the file as wiping in place gave."""
    monkeypatch.setattr("bspforest.persistence.writer.MOST_COPIED", most_copied)
    forest = hostile.make_forest(*kind)
    inner = forest._forest
    free = inner.rows.export_slots(inner.rows.n_slots)[1]
    assert len(free) and inner.trees.arrays.rows[free].any() and (inner.trees.arrays.state["free_cut"] >= 0).any()
    before = [array.tobytes() for array in inner.trees.arrays if isinstance(array, np.ndarray)]
    expected = [wipe_naively(inner, m) for m in range(inner.trees.n_trees)]
    rows, labels = (getattr(inner.trees.arrays, name)[: inner.rows.n_slots].copy() for name in ("rows", "labels"))
    rows[free] = labels[free] = 0.0
    save(forest, tmp_path / "plain")
    with Saver(tmp_path / "background") as saver:
        saver.save(forest)
    assert [array.tobytes() for array in inner.trees.arrays if isinstance(array, np.ndarray)] == before
    data = rows.tobytes() + labels.tobytes() + np.stack(inner.range).tobytes()
    data += b"".join(array.tobytes() for block in expected for array in block)
    for name in ("plain", "background"):
        assert (tmp_path / name).read_bytes().endswith(data)
        assert hostile.same(bspforest.load(tmp_path / name, check="fully"), forest)


def test_saving_a_large_forest_in_chunks(tmp_path, monkeypatch):
    """Rows are wiped and written a few at a time, with the same bytes as in one piece."""
    X, y = make_stream(5000, d=5)
    forest = BSPForestRegressor(2, random_state=0).fit(X, y).forget(np.arange(0, 5000, 3))
    save(forest, tmp_path / "whole", extra={})
    monkeypatch.setattr("bspforest.persistence.writer.MOST_COPIED", 10_000)
    save(forest, tmp_path / "chunks", extra={})
    whole, chunks = ((tmp_path / name).read_bytes() for name in ("whole", "chunks"))
    start = 64 + int.from_bytes(whole[16:24], "little")
    assert whole[start:] == chunks[start:]


MEMORY_OF_SAVING = """
import resource, sys
import numpy as np
from bspforest import BSPForestRegressor

def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

rng = np.random.default_rng(0)
X = rng.random((100_000, 100))
forest = BSPForestRegressor(2, budget=0.001, random_state=0).fit(X, X[:, 0]).forget(np.arange(0, 100_000, 7))
forest.save(sys.argv[1])  # compiles, if need be
resource.setrlimit(resource.RLIMIT_AS, (used() + 40 * 2**20, resource.RLIM_INFINITY))
forest.save(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_saving_copies_little_at_a_time(tmp_path):
    """The rows of this forest, 80 MB, are much larger than its trees. They are not copied as a whole."""
    subprocess.run([sys.executable, "-c", MEMORY_OF_SAVING, str(tmp_path / "m")], check=True, timeout=120)


def test_saving_while_other_threads_predict_and_save(tmp_path):
    """Predictions are the same throughout, and all files are complete and equal."""
    X, y = make_stream(3000)
    forest = BSPForestRegressor(20, random_state=0).fit(X, y).forget(np.arange(0, 3000, 2))
    expected = forest.predict(X)
    done = threading.Event()
    failures = []

    def predict():
        while not done.is_set():
            if not np.array_equal(forest.predict(X), expected):
                failures.append("predictions changed")

    def save_some(name):
        for _ in range(10):
            save(forest, tmp_path / name, extra={})

    readers = [threading.Thread(target=predict) for _ in range(2)]
    writers = [threading.Thread(target=save_some, args=(str(k),)) for k in range(3)]
    for thread in [*readers, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not failures
    assert all(hostile.same(bspforest.load(tmp_path / str(k)), forest) for k in range(3))
