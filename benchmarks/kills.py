"""Kill workers at random moments of a stream: ``python benchmarks/kills.py --rows 200000 --kills 10``.

Workers that hold trees are killed with SIGKILL, and restarted by their nannies. At the end, all rows must be held, all trees valid, and any
two rows must share leaves as often as the law of the paper says: exp(-budget * rate), tested for pairs of rows over all trees, with a fixed
budget. Prints how long the stream took with and without kills.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

import bspforest
from bspforest.dask import DaskBSPForestRegressor

BUDGET = 0.5


def make_stream(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 3))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2]


def kill_some(client: Client, forest: DaskBSPForestRegressor, seconds: float, n: int, done: threading.Event) -> list:
    """Kill n workers that hold trees, spread at random over a time; return the moments."""
    rng = np.random.default_rng(1)
    killed: list[float] = []
    while len(killed) < n and not done.wait(float(rng.exponential(seconds / n))):
        with suppress(KeyError, ProcessLookupError):  # it is being replaced: try again later
            parts = forest._forest.trees.shards.parts
            address = parts[rng.integers(len(parts))].address
            pids = {nanny.worker_address: nanny.pid for nanny in client.cluster.workers.values() if nanny.pid}
            os.kill(pids[address], signal.SIGKILL)
            killed.append(time.monotonic())
    return killed


def run_stream(
    client: Client, values: str, X: np.ndarray, y: np.ndarray, options: argparse.Namespace, seconds: float | None
) -> tuple[DaskBSPForestRegressor, float, int]:
    """Learn a stream in chunks, killing workers if its time is known; return the forest, the time and the number of kills."""
    fixed = {"budget": BUDGET, "min_samples_split": 2, "scaling": ([0.0] * 3, [1.0] * 3)} if values == "mean" else {}
    n_trees = options.trees if values == "mean" else 48
    chunk = options.chunk if values == "mean" else 5 * options.chunk
    forest = DaskBSPForestRegressor(n_trees, client=client, prediction=values, random_state=0, **fixed)
    forest.partial_fit(X[:chunk], y[:chunk])
    done, killed = threading.Event(), []
    thread = threading.Thread(
        target=lambda: killed.extend(kill_some(client, forest, 0.7 * (seconds or 0), options.kills, done))
    )
    if seconds:
        thread.start()
    begun = time.perf_counter()
    try:
        for first in range(chunk, len(X), chunk):
            forest.partial_fit(X[first : first + chunk], y[first : first + chunk])
    finally:
        done.set()
        if seconds:
            thread.join()
    return forest, time.perf_counter() - begun, len(killed)


def test_pairs(forest: DaskBSPForestRegressor, X: np.ndarray) -> tuple[float, float]:
    """Return the largest and the mean standardised deviation of the shares of trees in which pairs of rows share a leaf."""
    some = X[np.random.default_rng(2).choice(len(X), 40, replace=False)]
    leaves = forest.apply(some)
    a, b = np.triu_indices(len(some), 1)
    seen = (leaves[a] == leaves[b]).mean(axis=1)
    gaps = np.abs(some[a] - some[b])
    rate = sum(np.hypot(gaps[:, i], gaps[:, j]) for i in range(3) for j in range(i + 1, 3))
    expected = np.exp(-BUDGET * rate)
    z = (seen - expected) / np.sqrt(expected * (1 - expected) / leaves.shape[1])
    return float(np.abs(z).max()), float(z.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--trees", type=int, default=400, help="trees of the forest of means")
    parser.add_argument("--chunk", type=int, default=2_000, help="five times as many with joint values")
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    X, y = make_stream(options.rows)
    for values in ("mean", "ridge"):
        seconds: float | None = None
        for _ in range(2):
            with (
                LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                forest, seconds, n_killed = run_stream(client, values, X, y, options, seconds)
                held = forest.held_rows()
                assert np.array_equal(held.X, X) and np.array_equal(held.y, y), "rows are lost"
                with tempfile.TemporaryDirectory() as folder:
                    forest.save(Path(folder) / "model.bsp")
                    bspforest.load(Path(folder) / "model.bsp", check="fully")
                law = "pairs of rows: largest deviation {:.1f}, mean {:+.2f} standard errors".format(
                    *test_pairs(forest, X)
                )
                print(
                    f"{values:5s} {len(X):,} rows, {n_killed} workers killed, {forest.n_shards_lost_} shards drawn afresh: {seconds:.0f} s; all rows "
                    f"held, all trees valid{'; ' + law if values == 'mean' else ''}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
