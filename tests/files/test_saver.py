"""`Saver` saves in the background what the forest was when it was asked to."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import resumable
from hostile import same

from bspforest import BSPForestRegressor
from bspforest.files import Saver, load_with_extra


def test_saver_saves_the_forest_as_it_was(tmp_path):
    threads = set(threading.enumerate())
    rng = np.random.default_rng(0)
    X, y = rng.random((2000, 3)), rng.integers(0, 3, 2000)
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
            assert same(loaded, pickle.loads(expected))
    with pytest.raises(FileExistsError):
        Saver(path, overwrite=False).save(forest)
    assert set(threading.enumerate()) <= threads and sorted(os.listdir(tmp_path)) == [".m.lock", "m"]


def assert_equal(forest, other, X):
    """Check that two forests hold the same, and predict the same whether one row is asked or many."""
    assert same(forest, other)
    assert (forest.bandwidth_, forest.ridge_) == (other.bandwidth_, other.ridge_)
    np.testing.assert_array_equal(forest.validation_error_, other.validation_error_)
    for rows in (X[:1], X[:5], X):
        for predict in ("predict", "predict_proba"):
            if hasattr(forest, predict):
                np.testing.assert_array_equal(getattr(forest, predict)(rows), getattr(other, predict)(rows))


@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("kind", resumable.KINDS)
def test_joint_values_resume_bit_for_bit(kind, window, tmp_path):
    """Forests are saved between two solves, after a solve and after forgetting; each goes on from its file, and all are equal."""
    X, _ = resumable.make_stream(kind)
    forest = resumable.start(kind, window)
    resumed, since_solve = [], set()
    for k in range(resumable.FIRST, resumable.LAST):
        if k % 33 == 0 or k in (81, 120):
            if k == 120:  # the save comes between forgetting and learning, in the other forests it does not
                forest.forget(forest.held_rows().ids[3:6])
            with Saver(tmp_path / "m") as saver:
                saver.save(forest)
            resumed.append(load_with_extra(tmp_path / "m")[0])
            since_solve.add(forest.n_samples_seen_ - forest._forest.prediction.solved.n_seen)
            assert_equal(forest, resumed[-1], X)
            if k == 120:
                for each in resumed[:-1]:
                    each.forget(each.held_rows().ids[3:6])
        for each in (forest, *resumed):
            resumable.step(each, kind, k)
    assert len(since_solve) >= 3 and 0 in since_solve
    for each in resumed:
        assert_equal(each, forest, X)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_joint_values_resume_after_a_kill(tmp_path):
    """A process that saves after each row is killed; what it left goes on as if nothing had happened."""
    kind, window, path = "two outputs", 100, tmp_path / "m"
    arguments = [sys.executable, resumable.__file__, str(path), kind, str(window)]
    process = subprocess.Popen(arguments)
    try:
        until = time.monotonic() + 120
        while not path.exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.3)
    finally:
        process.kill()
        process.wait()
    forest, extra = load_with_extra(path)
    expected = resumable.start(kind, window)
    for k in range(resumable.FIRST, resumable.LAST):
        resumable.step(expected, kind, k)
        if k >= extra["next"]:
            resumable.step(forest, kind, k)
    assert_equal(forest, expected, resumable.make_stream(kind)[0])


def test_saving_while_another_thread_forgets(tmp_path):
    """Whatever a save finds, nothing in the file is stale: solving what was loaded afresh changes nothing."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 3))
    forest = BSPForestRegressor(5, prediction="ridge", random_state=0).fit(X, X[:, 0])
    done = threading.Event()

    def forget():
        for k in range(200):
            forest.forget([k])
        done.set()

    thread = threading.Thread(target=forget)
    thread.start()
    saves = 0
    while not done.is_set() or not saves:
        with Saver(tmp_path / "m") as saver:
            saver.save(forest)
        loaded, _ = load_with_extra(tmp_path / "m")
        again = pickle.loads(pickle.dumps(loaded))
        inner = again._forest
        inner.prediction, inner.stale = inner.prediction.forget(0, inner.n_held, strict=False), True
        assert same(again, loaded)
        saves += 1
    thread.join()
