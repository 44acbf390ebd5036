"""Forests under threads and signals, for the stress tests and for `tests/soak.py`. Each function returns what it counted."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from invariants import check

from bspforest import BSPForestClassifier, BSPForestRegressor, load
from bspforest.trees.check_trees import check_trees

# Seconds after which an exception was lost: Python ignores those that are raised in a finalizer.
LOST = 30

SIGNALS = (signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1)


class Interrupted(Exception):
    """Raised by a signal handler, or injected into a thread."""


def _constant_stream(forest, size: int, stop: threading.Event, counts: Counter, lock: threading.Lock, number: list):
    """Replace all rows of a windowed forest again and again; in each state all labels are the same whole number."""
    rng = np.random.default_rng(threading.get_ident() % 2**32)
    while not stop.is_set():
        with lock:
            number[0] += 1
            label = number[0]
        X = rng.normal(size=(size, 2)) * (1 + label % 7) + label % 5  # the range drifts
        forest.partial_fit(X, np.full(size, float(label)))
        counts["learned"] += 1


def _assert_one_state(answer: np.ndarray) -> None:
    # Joint values round; the labels of two states differ by 1 at least.
    assert (np.abs(answer - round(answer.flat[0])) < 1e-9).all(), answer


def _read_constant(forest, stop: threading.Event, counts: Counter, kind: str, path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    while not stop.is_set():
        if kind == "predict":
            _assert_one_state(forest.predict(X))
        elif kind == "predict_one":
            _assert_one_state(forest.predict(X[:1]))
        elif kind == "std":
            mean, std = forest.predict(X, return_std=True)
            _assert_one_state(mean)
            assert (std == 0).all()
        elif kind == "quantiles":
            _assert_one_state(forest.predict_quantiles(X[:5]))
        elif kind == "apply":
            forest.apply(X[:3])
        elif kind == "trees":
            tree = forest.trees_[0]
            _assert_one_state(tree.value[tree.children_left < 0])
        elif kind == "held":
            _assert_one_state(forest.held_rows().y)
        elif kind == "save":
            forest.save(path)
            _assert_one_state(load(path).predict(X))
        else:
            copy = pickle.loads(pickle.dumps(forest))
            check(copy._forest)
            _assert_one_state(copy.predict(X))
        counts[kind] += 1


READS = ("predict", "predict_one", "std", "quantiles", "apply", "trees", "held", "save", "pickle")


def run_threads(
    seconds: float, folder: Path, *, n_writers: int = 2, values: str = "ridge", n_jobs: int = 1, seed: int = 0
) -> Counter:
    """Let threads learn and read one forest. Every answer must be that of a state between two calls."""
    size = 64
    forest = BSPForestRegressor(5, window=size, budget=np.inf, prediction=values, n_jobs=n_jobs, random_state=seed)
    forest.partial_fit(np.random.default_rng(seed).normal(size=(size, 2)), np.zeros(size))
    stop, counts, failures = threading.Event(), Counter(), []
    lock, number = threading.Lock(), [0]

    def run(target, *args):
        try:
            target(*args)
        except BaseException as error:
            failures.append(error)
            stop.set()

    writers = [(_constant_stream, forest, size, stop, counts, lock, number)] * n_writers
    readers = [(_read_constant, forest, stop, counts, kind, folder / f"{kind}.bsp") for kind in READS]
    threads = [threading.Thread(target=run, args=job, daemon=True) for job in [*writers, *readers]]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if failures:
        raise failures[0]
    forest._read(lambda: check(forest._forest))
    return counts


def _change_at_random(forest, rng: np.random.Generator, classify: bool, known: np.ndarray) -> None:
    what = rng.integers(4)
    if what == 0 and forest.n_samples_ > 20:
        held = forest.held_rows().ids
        forest.forget(rng.choice(held, size=min(len(held) - 5, int(rng.integers(1, 40))), replace=False))
        return
    n = 1 if what == 1 else int(rng.integers(2, 400))
    X = rng.normal(size=(n, 3)) * rng.choice([1.0, 1.0, 9.0])
    y = rng.integers(3, size=n) if classify else X.sum(axis=1)
    forest.partial_fit(X, y, **({"classes": known} if classify else {}))


def _check_whole(forest) -> None:
    """Check the trees that a read would see: those of a forest that was interrupted are built again first."""
    inner = forest._forest
    forest._read(lambda: check_trees(inner.trees, inner.rows.held_slots(), inner.budget))


def _assert_consistent(forest, path: Path) -> None:
    forest._read(lambda: check(forest._forest))
    assert len(forest.held_rows().ids) == forest.n_samples_
    forest.save(path)
    assert load(path).n_samples_ == forest.n_samples_


def _make_forest(seed: int):
    rng = np.random.default_rng(seed)
    classify = bool(rng.integers(2))
    known = np.arange(3)
    forest = (BSPForestClassifier if classify else BSPForestRegressor)(
        int(rng.integers(2, 8)), window=int(rng.choice([150, 600])), budget=np.inf, random_state=seed
    )
    X = rng.normal(size=(60, 3))
    forest.partial_fit(X, rng.integers(3, size=60) if classify else X[:, 0], **({"classes": known} if classify else {}))
    return forest, rng, classify, known


def _load_kernels() -> None:
    """Load whatever changes need: an exception in the middle of that is taken for a damaged file."""
    for seed in range(4):
        forest, rng, classify, known = _make_forest(seed)
        for _ in range(10):
            _change_at_random(forest, rng, classify, known)
        _check_whole(forest)


def run_signals(moments: int, folder: Path, *, seed: int = 0) -> Counter:
    """Interrupt learning and forgetting in the main thread by handlers that raise, at random moments."""
    counts: Counter = Counter()
    _load_kernels()

    def handler(number, frame):
        counts[signal.Signals(number).name] += 1
        raise Interrupted(number)

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    forest, rng, classify, known = _make_forest(seed)
    try:
        while counts["raised"] < moments:
            number = SIGNALS[int(rng.integers(len(SIGNALS)))]
            delay = float(rng.uniform(1e-5, 3e-3))

            def send(number=number, delay=delay):
                time.sleep(delay)
                os.kill(os.getpid(), number)

            thread = threading.Thread(target=send)
            try:
                if number == signal.SIGALRM:
                    signal.setitimer(signal.ITIMER_REAL, delay)
                else:
                    thread.start()
                end = time.monotonic() + LOST
                while time.monotonic() < end:
                    _change_at_random(forest, rng, classify, known)
                counts["lost"] += 1
            except Interrupted:
                counts["raised"] += 1
            if thread.ident is not None:
                thread.join()
            if counts["raised"] % 50 == 0:
                _assert_consistent(forest, folder / "signals.bsp")
            else:
                _check_whole(forest)
            if counts["raised"] % 100 == 0:
                forest, rng, classify, known = _make_forest(seed + counts["raised"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, former in before.items():
            signal.signal(number, former)
    return counts


def run_injected(moments: int, folder: Path, *, seed: int = 0) -> Counter:
    """Inject exceptions into a thread that learns and forgets, as task queues do for their soft limits."""
    counts: Counter = Counter()
    _load_kernels()
    forest, rng, classify, known = _make_forest(seed)
    inject = ctypes.pythonapi.PyThreadState_SetAsyncExc
    failures: list[BaseException] = []

    def learn():
        try:
            while True:
                _change_at_random(forest, rng, classify, known)
        except Interrupted:
            counts["raised"] += 1
        except BaseException as error:
            failures.append(error)

    wait = np.random.default_rng(seed + 1)
    for moment in range(moments):
        thread = threading.Thread(target=learn)
        thread.start()
        time.sleep(float(wait.uniform(1e-5, 3e-3)))
        while thread.is_alive():
            inject(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted))
            thread.join(0.2)
        if failures:
            raise failures[0]
        if moment % 50 == 0:
            _assert_consistent(forest, folder / "injected.bsp")
        else:
            _check_whole(forest)
    return counts
