"""One forest used by several threads and interrupted at random moments, as in a service. `tests/soak.py` does it for longer.

Each test was seen to fail without what it tests: `run_threads` within half a second without the lock (torn answers, then a
crash), `run_signals` and `run_injected` within a hundred moments without deferring.
"""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import stress
from invariants import check
from own_process import in_own_process

from bspforest import BSPForestRegressor
from bspforest.forest.locking import ReadWriteLock, lock_of

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals and fork of POSIX are what it tests")


@pytest.mark.parametrize(
    ("values", "n_jobs"),
    [pytest.param("ridge", 1, marks=pytest.mark.long), ("ridge", 2), pytest.param("mean", 2, marks=pytest.mark.long)],
)
def test_threads_see_states_between_two_calls(tmp_path, values, n_jobs):
    counts = stress.run_threads(4.0, tmp_path, values=values, n_jobs=n_jobs)
    assert min(counts[kind] for kind in (*stress.READS, "learned")) > 0, f"somebody starved: {counts}"


@in_own_process
def test_handlers_that_raise(tmp_path):
    counts = stress.run_signals(200, tmp_path)
    assert all(counts[signal.Signals(number).name] > 20 for number in stress.SIGNALS)


def test_exceptions_injected_into_threads(tmp_path):
    assert stress.run_injected(100, tmp_path)["raised"] == 100


@contextmanager
def alarm_after(seconds: float, handler: Callable[..., None]) -> Iterator[None]:
    """Call a handler after some time. On a busy machine this is at the start: what catches its exceptions must enclose the block."""
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def learn_for_ever(forest, rng) -> None:
    while True:
        forest.partial_fit(rng.random((2_000, 3)), rng.random(2_000))


@in_own_process
def test_a_handler_may_save_the_forest_it_interrupts(tmp_path):
    """The usual way to stop a service: SIGTERM saves and exits."""
    rng = np.random.default_rng(0)
    forest = BSPForestRegressor(3, random_state=0).fit(rng.random((500, 3)), rng.random(500))

    def handler(number, frame):
        forest.save(tmp_path / "model.bsp")
        raise SystemExit

    with pytest.raises(SystemExit), alarm_after(0.05, handler):
        learn_for_ever(forest, rng)
    check(forest._forest)


@in_own_process
def test_a_handler_that_returns_does_not_stop_learning():
    calls = []
    rng = np.random.default_rng(0)
    forest = BSPForestRegressor(100, random_state=0).fit(rng.random((10, 3)), rng.random(10))
    with alarm_after(0.02, lambda number, frame: calls.append(number)):
        forest.partial_fit(rng.random((5_000, 3)), rng.random(5_000))
    assert calls and forest.n_samples_ == 5_010


@pytest.mark.parametrize("values", ["mean", "ridge"])
@in_own_process
def test_a_long_change_reacts_within_about_a_second(values):
    """The chunk is learned wholly or not at all."""
    rng = np.random.default_rng(0)
    forest = BSPForestRegressor(100, prediction=values, random_state=0).fit(rng.random((10, 8)), rng.random(10))
    X, y = rng.random((400_000, 8)), rng.random(400_000)

    def handler(number, frame):
        raise stress.Interrupted

    start = time.monotonic()
    with pytest.raises(stress.Interrupted), alarm_after(0.1, handler):
        forest.partial_fit(X, y)
    assert time.monotonic() - start < 15  # about a second on an idle machine
    assert forest.n_samples_ in (10, 400_010)
    check_few(forest)


def check_few(forest) -> None:
    assert len(forest.held_rows().ids) == forest.n_samples_
    assert np.isfinite(forest.predict(forest.held_rows().X[:100])).all()


def test_the_lock_is_not_copied():
    forest = BSPForestRegressor(2, random_state=0).fit([[0.0], [1.0]], [0, 1])
    lock = lock_of(forest)
    for other in (copy.copy(forest), copy.deepcopy(forest), pickle.loads(pickle.dumps(forest))):
        assert "_lock" not in other.__dict__ and lock_of(other) is not lock
        assert other._forest.trees.arrays.rows is not forest._forest.trees.arrays.rows


def test_the_lock_is_not_inherited_by_a_forked_child():
    forest = BSPForestRegressor(2, random_state=0).fit([[0.0], [1.0]], [0, 1])
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with lock_of(forest).changing, lock_of(forest).readers_out():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        forest.partial_fit([[2.0]], [2])
        os._exit(0 if forest.n_samples_ == 3 else 1)
    _, status = os.waitpid(child, 0)
    leave.set()
    thread.join()
    assert status == 0


def test_neither_readers_nor_writers_starve():
    """Threads that do nothing but read, and threads that do nothing but change, share a lock."""
    lock, stop = ReadWriteLock(), threading.Event()
    counts = dict.fromkeys(range(6), 0)

    def count(k):
        counts[k] += 1
        time.sleep(1e-4)

    def run(k):
        while not stop.is_set():
            if k < 3:
                lock.read(lambda: count(k))
            else:
                with lock.changing, lock.readers_out():
                    count(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in counts]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    while min(counts.values()) <= 20 and time.monotonic() < end:
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert min(counts.values()) > 20, counts


def test_a_door_left_closed_is_opened():
    """As by an exception in the end of a change. Failed, with a deadlock, while readers' locks were held during changes."""
    lock = ReadWriteLock()
    thread = threading.Thread(target=lambda: lock.readers_out().__enter__())
    thread.start()
    thread.join()
    found = []
    reader = threading.Thread(target=lambda: found.append(lock.read(lambda: 1)))
    reader.start()
    reader.join(10)
    assert found == [1]


def test_a_change_in_vain_leaves_the_lock_free():
    forest = BSPForestRegressor(2, random_state=0).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="unknown id"):
        forest.forget(7)
    with pytest.raises(ValueError, match="infinity"):
        forest.partial_fit([[np.inf]], [1])
    thread = threading.Thread(target=forest.partial_fit, args=([[2.0]], [2]))
    thread.start()
    thread.join(10)
    assert forest.n_samples_ == 3
