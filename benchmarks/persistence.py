"""How long model files take: loading against plain reading of the same bytes, and learning with checkpoints against without.

``python benchmarks/persistence.py load 1000000 100`` (rows, trees) and ``... checkpoints 100000 100``. Files are read from the disk,
as a process that has just started on a machine does, and again from the page cache, where the system keeps what was read.
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
from bspforest.persistence import Saver


def uniform(n: int, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((n, d)), rng.random(n)


def read_plainly(path: Path) -> None:
    data = np.empty(os.path.getsize(path), dtype=np.uint8)
    with open(path, "rb", buffering=0) as file:
        at = 0
        while at < len(data):
            at += file.readinto(data[at : at + 2**30])  # type: ignore[operator]


def drop_from_cache(path: Path) -> None:
    """Have the next read of a file, which is on disk, come from the disk."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def bench_load(n: int, n_trees: int, path: Path, rounds: int = 4) -> None:
    X, y = uniform(n)
    warm = BSPForestRegressor(2, random_state=0).fit(X[:100], y[:100])
    warm.save(path)
    bspforest.load(path)
    forest = BSPForestRegressor(n_trees, random_state=0, n_jobs=-1).fit(X, y)
    begun = time.perf_counter()
    forest.save(path)
    size = os.path.getsize(path)
    print(f"{n:,} rows, {n_trees} trees: {size / 1e9:.2f} GB, saved and synced in {time.perf_counter() - begun:.2f} s")
    del forest
    calls = {
        "plain reading": read_plainly,
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
                begun = time.perf_counter()
                call(path)
                times[name].append(time.perf_counter() - begun)
            print(f"  {place}: " + ", ".join(f"{name} {found[-1]:.2f} s" for name, found in times.items()), flush=True)
        # A disk that others use too is now fast, now slow: the middle says more than the best.
        base = np.median(times.pop("plain reading"))
        for name, found in times.items():
            print(
                f"{name} from the {place} takes {np.median(found) / base:.2f} times as long as plain reading "
                f"(medians of {rounds}, {joblib.cpu_count()} threads against one); at most 2 is asked",
                flush=True,
            )


def bench_checkpoints(n: int, n_trees: int, path: Path, every: int = 10_000, rounds: int = 2) -> None:
    """A stream in chunks with a checkpoint every so many rows: none, plain saves, and saves in the background.

    The model is saved at the end in any case, as `bspforest learn` does.
    """
    X, y = uniform(n)
    chunk = 1_000

    def learn(how: str) -> tuple[float, float]:
        """Seconds by the clock, and of computing in the thread that learns."""
        forest = BSPForestRegressor(n_trees, random_state=0)
        begun, computed = time.perf_counter(), time.thread_time()
        with Saver(path) as saver:
            for start in range(0, n, chunk):
                forest.partial_fit(X[start : start + chunk], y[start : start + chunk])
                if (start + chunk) % every == 0 and how == "plain":
                    forest.save(path)
                elif (start + chunk) % every == 0 and how == "background":
                    saver.save(forest)
            if how == "none":
                forest.save(path)
        return time.perf_counter() - begun, time.thread_time() - computed

    learn_small = BSPForestRegressor(2, random_state=0).fit(X[:100], y[:100])
    learn_small.partial_fit(X[:10], y[:10]).save(path)
    best: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        for how in ("none", "background", "plain"):
            found = np.array(learn(how))
            best[how] = np.minimum(best.get(how, np.inf), found)
            print(
                f"  checkpoints: {how}: {found[0]:.1f} s, {found[1]:.1f} s of them computing in this thread", flush=True
            )
    for how in ("background", "plain"):
        clock, computing = best[how] / best["none"] - 1
        print(
            f"checkpoints every {every:,} of {n:,} rows, {n_trees} trees, {how}: {clock:+.1%} by the clock, "
            f"{computing:+.1%} computing in the thread that learns; at most +10% is asked"
        )


if __name__ == "__main__":
    what, rows, trees = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        {"load": bench_load, "checkpoints": bench_checkpoints}[what](rows, trees, Path(folder) / "model.bsp")
