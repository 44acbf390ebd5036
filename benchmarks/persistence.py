"""Time to load model files relative to plain reading, and to learn with checkpoints relative to learning without.

``python benchmarks/persistence.py load 1000000 100`` (rows, trees) and ``... checkpoints 100000 100``. Files are read both
from disk, as by a process on a machine that has just started, and from the page cache.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import joblib
import numpy as np

import bspforest
from bspforest import BSPForestRegressor
from bspforest.files import Saver


def draw_uniform(n: int, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Draw uniform rows and labels."""
    rng = np.random.default_rng(0)
    return rng.random((n, d)), rng.random(n)


def read_file(path: Path) -> None:
    """Read all bytes of a file into an array."""
    data = np.empty(os.path.getsize(path), dtype=np.uint8)
    with open(path, "rb", buffering=0) as file:
        n_read = 0
        while n_read < len(data):
            n_read += file.readinto(data[n_read : n_read + 2**30])  # type: ignore[operator]


def drop_from_cache(path: Path) -> None:
    """Evict a file from the page cache, so that it is next read from disk."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def bench_load(n: int, n_trees: int, path: Path, rounds: int = 4) -> None:
    """Compare load, with each kind of check, to plain reading."""
    X, y = draw_uniform(n)
    warm = BSPForestRegressor(2, random_state=0, prediction="mean").fit(X[:100], y[:100])
    warm.save(path)
    bspforest.load(path)
    forest = BSPForestRegressor(n_trees, random_state=0, n_jobs=-1, prediction="mean").fit(X, y)
    started = time.perf_counter()
    forest.save(path)
    size = os.path.getsize(path)
    print(
        f"{n:,} rows, {n_trees} trees: {size / 1e9:.2f} GB, saved and synced in {time.perf_counter() - started:.2f} s"
    )
    del forest
    calls = {
        "plain reading": read_file,
        "load": bspforest.load,
        "load with the full check": lambda path: bspforest.load(path, check="fully"),
        "load without check": lambda path: bspforest.load(path, check=False),
    }
    for place in ("disk", "page cache"):
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                if place == "disk":
                    drop_from_cache(path)
                started = time.perf_counter()
                call(path)
                times[name].append(time.perf_counter() - started)
            print(f"  {place}: " + ", ".join(f"{name} {found[-1]:.2f} s" for name, found in times.items()), flush=True)
        # The speed of a shared disk varies, so the median is more meaningful than the best time.
        base = np.median(times.pop("plain reading"))
        for name, found in times.items():
            print(
                f"{name} from the {place} takes {np.median(found) / base:.2f} times as long as plain reading "
                f"(medians of {rounds}, {joblib.cpu_count()} threads against one); target: at most 2",
                flush=True,
            )


def bench_checkpoints(n: int, n_trees: int, path: Path, every: int = 10_000, rounds: int = 2) -> None:
    """Compare learning in chunks without checkpoints, with plain saves, and with saves in the background.

    The model is saved at the end in any case, as by `bspforest learn`.
    """
    X, y = draw_uniform(n)
    chunk = 1_000

    def learn(how: str) -> tuple[float, float]:
        """Return the wall time and the CPU time of the learning thread."""
        forest = BSPForestRegressor(n_trees, random_state=0, prediction="mean")
        started, computed = time.perf_counter(), time.thread_time()
        with Saver(path) as saver:
            for start in range(0, n, chunk):
                forest.partial_fit(X[start : start + chunk], y[start : start + chunk])
                if (start + chunk) % every == 0 and how == "plain":
                    forest.save(path)
                elif (start + chunk) % every == 0 and how == "background":
                    saver.save(forest)
            if how == "none":
                forest.save(path)
        return time.perf_counter() - started, time.thread_time() - computed

    learn_small = BSPForestRegressor(2, random_state=0, prediction="mean").fit(X[:100], y[:100])
    learn_small.partial_fit(X[:10], y[:10]).save(path)
    best: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        for how in ("none", "background", "plain"):
            found = np.array(learn(how))
            best[how] = np.minimum(best.get(how, np.inf), found)
            print(f"  checkpoints: {how}: {found[0]:.1f} s, CPU time of this thread {found[1]:.1f} s", flush=True)
    for how in ("background", "plain"):
        wall, cpu = best[how] / best["none"] - 1
        print(
            f"checkpoints every {every:,} of {n:,} rows, {n_trees} trees, {how}: {wall:+.1%} wall time, "
            f"{cpu:+.1%} CPU time of the learning thread; target: at most +10%"
        )


if __name__ == "__main__":
    what, rows, trees = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        {"load": bench_load, "checkpoints": bench_checkpoints}[what](rows, trees, Path(folder) / "model.bsp")
