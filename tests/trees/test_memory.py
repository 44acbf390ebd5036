"""Test memory that runs out: no row is learned by some trees only, and nothing is lost that can be kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import laws
import numpy as np
import pytest
from invariants import check

import bspforest
from bspforest import BSPForestRegressor
from bspforest.files import Saver
from bspforest.trees import layout, memory, trees
from bspforest.trees.parallel import WORTH_THREADS, run_parts


@pytest.mark.long
def test_building_with_too_little_room(monkeypatch):
    """If trees need more room than was estimated, they get more, and are the same. Fails if a random stream goes on meanwhile."""
    X = np.random.default_rng(6).random((9_000, 2))
    for n_threads in (1, 3):
        forests = [laws.make(X, 4, budget=100.0) for _ in range(2)]
        for forest, share in zip(forests, (1.1, 0.2), strict=True):
            forest.trees.n_threads = n_threads
            monkeypatch.setattr(trees, "SPARE_NODES", share)
            laws.learn(forest, X)
        monkeypatch.undo()
        check(forests[1])
        np.testing.assert_array_equal(laws.sum_of_leaves(forests[0], X), laws.sum_of_leaves(forests[1], X))


@pytest.mark.parametrize("failing", [1, 2, 5])
def test_building_without_memory(monkeypatch, failing):
    """A forest for whose trees there is no memory keeps its rows, and can be built later."""
    X = np.random.default_rng(6).random((3_000, 2))
    forest, resize, calls = laws.make(X, 4, budget=100.0), layout.resize, []

    def fail(*args, **kwargs):
        calls.append(1)
        if len(calls) >= failing:
            raise MemoryError
        return resize(*args, **kwargs)

    monkeypatch.setattr(trees, "SPARE_NODES", 0.2)
    monkeypatch.setattr(layout, "resize", fail)
    with pytest.raises(MemoryError):
        laws.learn(forest, X)
    monkeypatch.undo()
    assert forest.torn == (forest.n_held == len(X))
    if forest.n_held:
        forest.make_whole()
        check(forest)


@pytest.mark.parametrize("capacity", [3, 40, 41, 80])
def test_resize_trees(capacity):
    array = memory.empty((5, 40, 3), np.float64)
    array[:] = np.arange(array.size).reshape(array.shape)
    other = memory.resize_trees(array, capacity)
    assert other.shape == (5, capacity, 3) and memory.is_from_empty(other)
    assert other.ctypes.data % memory.CACHE_LINE == 0
    kept = min(capacity, 40)
    np.testing.assert_array_equal(other[:, :kept], array[:, :kept])


# With a limit that only Linux enforces.
SHORT_OF_MEMORY = """
import gc
import pickle
import resource
import sys
import numpy as np
from bspforest import BSPForestRegressor
from bspforest.trees.check_trees import check_trees
X = np.random.default_rng(0).random((160_000, 8))
values, step = sys.argv[1], int(sys.argv[2])
forest = BSPForestRegressor(2, prediction=values, random_state=0).fit(X[:150_000], X[:150_000, 0])
saved = pickle.dumps(forest)
forest.partial_fit(X[150_000:], X[150_000:, 0]).forget([0])  # load the kernels
limits, failed = resource.getrlimit(resource.RLIMIT_AS), 0
for spare in range(0, 30):
    del forest
    gc.collect()
    forest = pickle.loads(saved)
    gc.collect()
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + spare * step * 2**20, limits[1]))
    try:
        forest.partial_fit(X[150_000:], X[150_000:, 0])
    except MemoryError:
        failed += 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    forest.predict(X[:1])  # builds the trees again, where memory ran out
    for array in forest._forest.trees.arrays:
        if isinstance(array, np.ndarray):
            start, owner = array.ctypes.data, array.base
            assert owner.ctypes.data <= start and start + array.nbytes <= owner.ctypes.data + owner.nbytes
    check_trees(forest._forest.trees, forest._forest.rows.held_slots(), forest._forest.budget)
print(failed)
assert 10 < failed < 30
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
@pytest.mark.parametrize(("values", "step"), [("mean", 3), ("ridge", 3)])
def test_forest_is_whole_after_memory_ran_out(values, step):
    """Grow the large arrays of a forest with a little more memory each time: it is whole after each failure.

    Fails if an array is given up before the larger one is there.
    """
    # Return freed memory to the system, and give threads no memory of their own.
    settings = {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", SHORT_OF_MEMORY, values, str(step)]
    subprocess.run(command, env={**os.environ, **settings}, check=True, timeout=1200)


def test_without_threads(monkeypatch):
    """If the system has no thread left, the calling thread does all the work."""
    X = np.random.default_rng(5).random((6_000, 2))
    forests = [laws.make(X, 8, budget=2.0) for _ in range(2)]
    start, left = threading.Thread.start, [2]

    def fail_later(thread):
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    for forest, fails in zip(forests, (False, True), strict=True):
        forest.trees.n_threads = 4
        if fails:
            monkeypatch.setattr(threading.Thread, "start", fail_later)
        laws.learn(forest, X[:4_000])
        laws.learn(forest, X[4_000:])
    monkeypatch.undo()
    assert left[0] < 0
    np.testing.assert_array_equal(laws.sum_of_leaves(forests[0], X), laws.sum_of_leaves(forests[1], X))
    check(forests[1])


@pytest.mark.parametrize("where", [0, 1, 2])
def test_failure_in_a_thread_stops_the_others(where):
    """A failure in this thread or another is raised after all have ended."""
    stop, ended = threading.Event(), []

    def call(a, b):
        if a == where:
            raise KeyboardInterrupt("as from Ctrl-C")
        assert stop.wait(10)
        ended.append(a)

    with pytest.raises(KeyboardInterrupt, match="as from"):
        run_parts(call, 3, 3, WORTH_THREADS, stop)
    assert sorted(ended) == sorted({0, 1, 2} - {where})


def test_saving_without_threads(tmp_path, monkeypatch):
    forest = BSPForestRegressor(2, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 2])

    def fail(thread):
        raise RuntimeError("can't start new thread")

    with Saver(tmp_path / "m") as saver:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            saver.save(forest)
        assert bspforest.load(tmp_path / "m").n_samples_ == 3
        saver.save(forest.partial_fit([[3.0]], [3]))
    assert bspforest.load(tmp_path / "m").n_samples_ == 4
