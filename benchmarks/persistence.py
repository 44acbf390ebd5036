"""How long model files take: loading against plain reading of the same bytes, and learning with checkpoints against without.

``python benchmarks/persistence.py load 1000000 20`` (rows, trees) and ``... checkpoints 100000 100``. All files are read from the
page cache, where they have just been written: a disk would only make reading slower, and the ratio smaller.
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


def bench_load(n: int, n_trees: int, path: Path, rounds: int = 5) -> None:
    X, y = uniform(n)
    warm = BSPForestRegressor(2, random_state=0).fit(X[:100], y[:100])
    warm.save(path)
    bspforest.load(path)
    forest = BSPForestRegressor(n_trees, random_state=0).fit(X, y)
    begun = time.perf_counter()
    forest.save(path)
    size = os.path.getsize(path)
    print(f"{n:,} rows, {n_trees} trees: {size / 1e9:.2f} GB, saved and synced in {time.perf_counter() - begun:.2f} s")
    del forest
    plain, load = [], []
    for _ in range(rounds):
        for call, times in ((read_plainly, plain), (bspforest.load, load)):
            begun = time.perf_counter()
            call(path)
            times.append(time.perf_counter() - begun)
        print(f"  plain reading {plain[-1]:.2f} s, load {load[-1]:.2f} s")
    print(
        f"load takes {min(load) / min(plain):.2f} times as long as plain reading (best of {rounds} each, "
        f"{joblib.cpu_count()} threads against one, warm page cache); at most 2 is asked"
    )


def bench_checkpoints(n: int, n_trees: int, path: Path, every: int = 10_000, chunk: int = 1_000) -> None:
    """A stream in chunks with a checkpoint every so many rows: none, plain saves, and saves in the background."""
    X, y = uniform(n)

    def learn(how: str) -> float:
        forest = BSPForestRegressor(n_trees, random_state=0)
        begun = time.perf_counter()
        with Saver(path) as saver:
            for start in range(0, n, chunk):
                forest.partial_fit(X[start : start + chunk], y[start : start + chunk])
                if (start + chunk) % every == 0 and how == "plain":
                    forest.save(path)
                elif (start + chunk) % every == 0 and how == "background":
                    saver.save(forest)
        return time.perf_counter() - begun

    learn_small = BSPForestRegressor(2, random_state=0).fit(X[:100], y[:100])
    learn_small.partial_fit(X[:10], y[:10]).save(path)
    times: dict[str, list[float]] = {"none": [], "background": [], "plain": []}
    for _ in range(2):
        for how, found in times.items():
            found.append(learn(how))
            print(f"  checkpoints: {how}: {found[-1]:.1f} s", flush=True)
    base = min(times["none"])
    for how in ("background", "plain"):
        slower = min(times[how]) / base - 1
        print(f"checkpoints every {every:,} of {n:,} rows, {n_trees} trees, {how}: {slower:+.1%}; at most +10% is asked")


if __name__ == "__main__":
    what, rows, trees = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        {"load": bench_load, "checkpoints": bench_checkpoints}[what](rows, trees, Path(folder) / "model.bsp")
