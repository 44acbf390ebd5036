"""Compare the speed of two versions of the package: processor time of the second relative to the first.

    python benchmarks/compare.py ../before/src src

Both get the same parameters, whatever their defaults are: nothing is tuned. Processes of both versions take turns, so that a machine that is busy for a while slows down both. The figure is the ratio of the
smallest times. Kernels are compiled beforehand.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

N, D = 20_000, 8
PREDICTIONS = ("ridge", "mean")


def measure(prediction: str, trees: int) -> dict[str, float]:
    """Return the processor time of each task in seconds."""
    import bspforest
    from bspforest import BSPForestRegressor

    rng = np.random.default_rng(0)
    X = rng.random((N + 12_000, D))
    y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    same = {"cuts": "pairs", "scaling": "minmax", "bandwidth": 20.0, "ridge": 0.3, "random_state": 0}
    same["min_samples_split"] = 16 if prediction == "ridge" else 4
    known = BSPForestRegressor().get_params()
    if "prediction" in known:
        same |= {"prediction": prediction, "feature_weights": None}
    else:  # before parameters were renamed
        same |= {"values": {"ridge": "joint"}.get(prediction, prediction), "metric": None}
    if "half_life" in known:
        same["half_life"] = None
    forest = BSPForestRegressor(trees, **same)
    found: dict[str, float] = {}

    def clock(task: str, call: Callable[[], Any]) -> None:
        start = time.process_time()
        call()
        found[f"{prediction}: {task}"] = time.process_time() - start

    def learn(size: int, first: int, n: int) -> None:
        for k in range(first, first + n * size, size):
            forest.partial_fit(X[k : k + size], y[k : k + size])

    forest.fit(X[:2000], y[:2000]).partial_fit(X[:1], y[:1]).predict(X[:1])
    clock("fit", lambda: forest.fit(X[:N], y[:N]))
    clock("predict", lambda: forest.predict(X[N : N + 10_000]))
    clock("predict one row, 300 times", lambda: [forest.predict(X[k : k + 1]) for k in range(300)])
    clock("learn one row, 500 times", lambda: learn(1, N, 500))
    clock("chunks of 1,000, 5 times", lambda: learn(1000, N + 1000, 5))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        clock("save", lambda: forest.save(path))
        clock("load", lambda: bspforest.load(path))
    clock("forget 1,000 rows", lambda: forest.forget(range(1000)))
    clock("the next prediction", lambda: forest.predict(X[:1]))
    return found


def main() -> None:
    """Run both versions in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps({k: v for name in PREDICTIONS for k, v in measure(name, arguments.trees).items()}))
        return
    best: list[dict[str, float]] = [{}, {}]
    for _ in range(arguments.rounds):
        for times, source in zip(best, (arguments.before, arguments.after), strict=True):
            command = [sys.executable, __file__, "", "", "--run", "--trees", str(arguments.trees)]
            environment = {**os.environ, "PYTHONPATH": str(Path(source).resolve())}
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            for task, seconds in json.loads(done.stdout).items():
                times[task] = min(seconds, times.get(task, np.inf))
    for task, seconds in best[1].items():
        print(f"{task:40} {best[0][task]:9.3f} {seconds:9.3f} s   {seconds / best[0][task]:.2f}")


if __name__ == "__main__":
    main()
