"""Compare a forest on a Dask cluster of this machine with threads: ``python benchmarks/cluster.py --rows 1000000``.

Workers have one thread each, and the forest of this process as many threads as there are workers, measured in the same run. Ratios are the
time with threads over the time on the cluster: above 1, the cluster is faster.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import psutil
from distributed import Client, LocalCluster

from bspforest import BSPForestRegressor
from bspforest.dask import DaskBSPForestRegressor


def measure(call: Callable[[], object]) -> float:
    """Return how many seconds a call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def describe(name: str, threads: float, cluster: float, moved: tuple[int, int], n: int) -> None:
    """Print a line: times, their ratio, and bytes moved per row."""
    sent, received = (part / n for part in moved)
    print(
        f"{name:28s} threads {threads:8.2f} s   cluster {cluster:8.2f} s   ratio {threads / cluster:5.2f}   "
        f"bytes per row: sent {sent:8.0f}, received {received:8.0f}",
        flush=True,
    )


def run(values: str, options: argparse.Namespace, client: Client) -> None:
    """Measure fit, prediction and chunks."""
    rng = np.random.default_rng(0)
    n, chunk = options.rows, options.chunk
    X = rng.random((n + options.chunks * chunk + options.asked, options.features))
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    parameters = {"n_estimators": options.trees, "prediction": values, "random_state": 0}
    local = BSPForestRegressor(n_jobs=options.workers, **parameters)
    remote = DaskBSPForestRegressor(n_jobs=options.workers, client=client, **parameters)
    for forest in (local, remote):  # load the compiled kernels
        forest.fit(X[:2000], y[:2000]).partial_fit(X[2000:2010], y[2000:2010]).predict(X[:3000])

    def compare(name: str, call: Callable[[BSPForestRegressor], object], n: int) -> None:
        threads = measure(lambda: call(local))
        before = moved(remote) if name != "fit" else (0, 0)
        cluster = measure(lambda: call(remote))
        after = moved(remote)
        describe(f"{values} {name}", threads, cluster, (after[0] - before[0], after[1] - before[1]), n)

    compare("fit", lambda forest: forest.fit(X[:n], y[:n]), n)
    asked = X[-options.asked :]
    compare("predict", lambda forest: forest.predict(asked), len(asked))
    for k in range(options.chunks):
        rows = slice(n + k * chunk, n + (k + 1) * chunk)
        compare(f"chunk {k + 1} of {chunk:,}", lambda forest, rows=rows: forest.partial_fit(X[rows], y[rows]), chunk)
    assert np.array_equal(local.predict(asked[:1000]), remote.predict(asked[:1000]))
    used = client.run(lambda: psutil.Process(os.getpid()).memory_info().rss)
    shards = remote._forest.trees.shards.parts
    print(
        f"trees per worker {[part.n_trees for part in shards]}, memory {[f'{size / 1e6:,.0f} MB' for size in used.values()]}"
    )
    print(f"forest of this process: {local.nbytes_ / 1e6:,.0f} MB")


def moved(forest: DaskBSPForestRegressor) -> tuple[int, int]:
    """Return the bytes of arrays sent to workers and received from them."""
    shards = forest._forest.trees.shards
    return shards.sent, shards.received


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--trees", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=3)
    parser.add_argument("--asked", type=int, default=100_000)
    parser.add_argument("--prediction", nargs="+", default=["mean", "joint"])
    options = parser.parse_args()
    with (
        LocalCluster(
            processes=True, n_workers=options.workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        for values in options.values:
            run(values, options, client)


if __name__ == "__main__":
    main()
