"""What `save` writes, and what it refuses to write."""

from __future__ import annotations

import copy
import os
import pickle
import threading

import hostile
import numpy as np
import pytest
from invariants import leaf_slots
from sklearn.exceptions import NotFittedError

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.files import Saver, save
from bspforest.trees.layout import NOTHING


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


@pytest.mark.parametrize("how", ["save", "files.save", "Saver", "pickle", "copy"])
def test_forgotten_labels_leave_no_trace_in_joint_values(how, tmp_path):
    """Neither label, dual nor residual of a forgotten row is left, nor any sum or mean that they were a part of."""
    X, y = make_stream(300)
    y = y.astype(float)
    y[7], y[290] = 4567.891, 12345.678
    forest = BSPForestRegressor(5, prediction="ridge", budget="minimax", min_samples_split=4, random_state=0)
    forest.fit(X[:280], y[:280])
    for k in range(280, 300):
        forest.partial_fit(X[k : k + 1], y[k : k + 1])
    inner, path = forest._forest, tmp_path / "m"

    def take():
        """Return the bytes that are given away."""
        if how == "save":
            forest.save(path)
        elif how == "files.save":
            save(forest, path)
        elif how == "Saver":
            with Saver(path) as saver:
                saver.save(forest)
        else:
            return pickle.dumps(forest if how == "pickle" else copy.deepcopy(forest))
        return path.read_bytes()

    arrays, (first, second) = inner.trees.arrays, inner.rows.slots_of(np.array([7, 290])).tolist()
    secrets = [*inner.y[[first, second], 0], *inner.duals[[first, second], 0], inner.residuals[second, 0]]
    secrets += [arrays.sums[m, v, 0] for m in range(5) for v in find_path(inner, m, first)]
    secrets = [value.tobytes() for value in secrets]
    mean = inner.prediction.mean[0]
    secrets.append(mean.tobytes() if how in ("pickle", "copy") else repr(float(mean)).encode())
    before = take()
    assert len(secrets) > 20 and all(secret in before for secret in secrets)
    forest.forget([7, 290])
    after = take()
    assert not any(secret in after for secret in secrets)


def find_path(forest, m, slot):
    """Return the cut nodes of a tree that contain a row."""
    nodes, parents, _ = forest.trees.number_nodes(m)
    arrays, path = forest.trees.arrays, []
    for k, ref in enumerate(nodes.tolist()):
        is_leaf = ref < 0 or arrays.cuts[m, ref]["right"] == NOTHING
        if is_leaf and slot in leaf_slots(arrays, m, ~ref if ref < 0 else ~int(arrays.cuts[m, ref]["left"])):
            while k >= 0:
                path += [int(nodes[k])] if nodes[k] >= 0 else []
                k = int(parents[k])
            return path
    raise AssertionError("the row is in no leaf")


def test_what_is_not_in_use_is_wiped(tmp_path):
    """Rows that a window drops leave free records and slots behind: whatever is there, it is neither saved nor copied."""
    X, y = make_stream(200)
    forest = BSPForestRegressor(5, prediction="ridge", window=200, random_state=0).fit(X, y)
    inner = forest._forest
    leaving = inner.rows.oldest(30)
    slots, inner.rows = inner.rows.slots_of(leaving), inner.rows.remove(leaving)
    inner.keys.wipe(leaving)
    inner._remove(slots)  # as a window does when rows come
    inner.trees.wipe_rows(slots)
    inner.labels.wipe(slots)
    arrays = forest._forest.trees.arrays
    free = [(m, v) for m in range(5) for v in free_cuts(arrays, m)]
    unused = arrays.sums[0, arrays.state["n_cuts"][0] :]
    assert len(free) > 5 and len(unused) and not any(arrays.sums[m, v].any() for m, v in free)
    assert not any(arrays.boxes[m, v].any() or arrays.cuts[m, v]["p"] for m, v in free)
    secret = np.float64(0.123456789)
    slot = forest._forest.rows.export_slots(forest._forest.rows.n_slots)[1][0]
    for values in (unused, arrays.terms[slot], inner.residuals[slot], inner.y[slot]):
        values[:] = secret
        forest.save(tmp_path / "m")
        for data in ((tmp_path / "m").read_bytes(), pickle.dumps(forest)):
            assert secret.tobytes() not in data


def free_cuts(arrays, m):
    """Return the free cut records of a tree."""
    found, v = [], int(arrays.state["free_cut"][m])
    while v >= 0:
        found.append(v)
        v = int(arrays.cuts[m, v]["left"])
    return found


def assert_refused(tmp_path, forest, error, match, **kw):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    with pytest.raises(error, match=match):
        save(forest, path, **kw)
    assert path.read_bytes() == b"old"
    assert set(os.listdir(tmp_path)) <= {"m", ".m.lock"}


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
