"""The benchmarks: ratios against peers measured in the same run, one thread unless it says otherwise.

Machines are noisy, so each time is the best of a few, peers and forest in turn. ``make bench`` runs all of them and prints the
table of benchmarks/README.md; ``python benchmarks/run.py fit predict`` runs some.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from bspforest import BSPForestRegressor

Row = tuple[str, str, str]  # what, measured, asked


def uniform(n: int, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.random(n)


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def best(calls: dict[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """The best time of each call; they take turns, so that a slow spell of the machine hits all.

    Each is made twice in a row: a virtual machine gives memory back after some seconds, and getting it again costs up to 0.2 s.
    """
    times: dict[str, float] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name] = min(times.get(name, np.inf), seconds(call), seconds(call))
    return times


def chunks(X: np.ndarray, y: np.ndarray, size: int, forest: BSPForestRegressor) -> BSPForestRegressor:
    for start in range(0, len(X), size):
        forest.partial_fit(X[start : start + size], y[start : start + size])
    return forest


def bench_fit() -> Iterator[Row]:
    """fit and partial_fit of 100,000 x 8, 10 trees."""
    X, y = uniform(100_000)
    kw: dict[str, Any] = {"n_estimators": 10, "random_state": 0}
    t = best(
        {
            "extra": lambda: ExtraTreesRegressor(max_features=1 / 3, n_jobs=1, **kw).fit(X, y),
            "random": lambda: RandomForestRegressor(max_features=1 / 3, n_jobs=1, **kw).fit(X, y),
            "fit": lambda: BSPForestRegressor(**kw).fit(X, y),
            "chunks": lambda: chunks(X, y, 1000, BSPForestRegressor(**kw)),
        }
    )
    cost = t["fit"]  # seconds for a million (row, tree) pairs: microseconds for one
    yield f"fit ({cost:.2f} µs a row and tree), times as fast as ExtraTrees.fit", f"{t['extra'] / t['fit']:.1f}", "4"
    yield "fit, times as fast as RandomForest.fit", f"{t['random'] / t['fit']:.1f}", "12"
    cost = t["chunks"]
    yield (
        f"partial_fit, chunks of 1,000 ({cost:.2f} µs a row and tree), times as fast as ExtraTrees.fit",
        f"{t['extra'] / t['chunks']:.2f}",
        "1.2",
    )


def bench_predict() -> Iterator[Row]:
    """predict for 100,000 rows, 10 trees of 100,000."""
    X, y = uniform(100_000)
    new, _ = uniform(100_000, seed=1)
    peer = ExtraTreesRegressor(10, max_features=1 / 3, random_state=0).fit(X, y)
    forest = BSPForestRegressor(10, random_state=0).fit(X, y)
    t = best({"peer": lambda: peer.predict(new), "forest": lambda: forest.predict(new)}, rounds=7)
    yield "predict, times as fast as ExtraTrees.predict", f"{t['peer'] / t['forest']:.2f}", "1"


def bench_single() -> Iterator[Row]:
    """One row a call, 100 trees, 10,000 rows held."""
    from river.forest import AMFRegressor

    X, y = uniform(16_000)
    forests = [BSPForestRegressor(100, random_state=0).fit(X[:10_000], y[:10_000]) for _ in range(2)]
    single, chunk = [], []
    for k in range(5):
        part = slice(10_000 + 1000 * k, 11_000 + 1000 * k)
        few = slice(part.start, part.start + 300)
        single.append(seconds(lambda few=few: chunks(X[few], y[few], 1, forests[0])) / 300)
        chunk.append(seconds(lambda part=part: chunks(X[part], y[part], 1000, forests[1])) / 1000)
    one, many = float(np.median(single)), float(np.median(chunk))
    yield (
        f"one row a call ({one * 1e6:.0f} µs), times the cost a row of chunks of 1,000",
        f"{one / many:.2f}",
        "at most 2",
    )
    peer = AMFRegressor(n_estimators=100, seed=0)
    names = [f"x{k}" for k in range(8)]
    rows = [
        (dict(zip(names, x, strict=True)), t) for x, t in zip(X[:10_200].tolist(), y[:10_200].tolist(), strict=True)
    ]
    print("river's forest learns 10,000 rows: some minutes ...", file=sys.stderr)
    for x, t in rows[:10_000]:
        peer.learn_one(x, t)
    theirs = seconds(lambda: [peer.learn_one(x, t) for x, t in rows[10_000:]]) / 200
    yield (
        f"one row a call, times as fast as river's AMFRegressor.learn_one ({theirs * 1e3:.1f} ms)",
        f"{theirs / one:.0f}",
        "40",
    )


def bench_dimensions() -> Iterator[Row]:
    """Cost a row at d = 64 against d = 8."""
    times = {}
    data = {d: uniform(20_000, d) for d in (8, 64)}
    for name, size in (("fit", 20_000), ("partial_fit in chunks of 1,000", 1000)):
        for d, (X, y) in data.items():
            times[d] = min(
                seconds(lambda X=X, y=y, size=size: chunks(X, y, size, BSPForestRegressor(10))) for _ in range(3)
            )
        yield f"cost a row at d = 64 against d = 8, {name}", f"{times[64] / times[8]:.1f}", "at most 10"


def bench_rows() -> Iterator[Row]:
    """Cost a row of partial_fit at 1,000,000 rows against 10,000; memory."""
    X, y = uniform(1_020_000)
    cost = {}
    for n in (10_000, 1_000_000):
        forest = BSPForestRegressor(10, random_state=0).fit(X[:n], y[:n])
        if n == 1_000_000:
            arrays = forest._forest.trees.arrays
            held = arrays.rows.nbytes + arrays.labels.nbytes
            each = (forest._forest.trees.nbytes - held) / n / 10
            yield (
                "memory of a forest of 1,000,000 rows beyond the rows, bytes a row and tree",
                f"{each:.0f}",
                "at most 110",
            )
        times = [
            seconds(lambda a=a, f=forest: f.partial_fit(X[a : a + 1000], y[a : a + 1000]))
            for a in range(n, n + 20_000, 1000)
        ]
        cost[n] = float(np.median(times))
    yield (
        "cost a row of partial_fit at 1,000,000 rows against 10,000",
        f"{cost[1_000_000] / cost[10_000]:.1f}",
        "at most 4",
    )


def bench_threads() -> Iterator[Row]:
    """Two threads against one."""
    X, y = uniform(100_000)
    fits: dict[str, Callable[[], object]] = {
        str(n): lambda n=n: BSPForestRegressor(10, n_jobs=n, random_state=0).fit(X, y)
        for n in (1, 2)  # type: ignore[misc]
    }
    t = best(fits, rounds=15)
    yield f"fit with n_jobs=2, times as fast ({os.cpu_count()} cores)", f"{t['1'] / t['2']:.2f}", "1.7"


def bench_start() -> Iterator[Row]:
    """Time to import with a warm cache, and to compile with a cold one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        model = os.path.join(cache, "model.bsp")

        def run(code: str) -> float:
            program = f"import time; a = time.perf_counter()\n{code}\nprint(time.perf_counter() - a)"
            shown = subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
            )
            return float(shown.stdout)

        everything = f"""
import numpy as np, bspforest
from bspforest import BSPForestRegressor
X = np.random.default_rng(0).random((40, 3))
a = time.perf_counter()
f = BSPForestRegressor(2).fit(X, X[:, 0]).partial_fit(X, X[:, 0]).partial_fit(X[:1], X[:1, 0]).forget([0, 1])
f.predict(X); f.predict_quantiles(X, [0.5]); f.apply(X); f.trees_[0]
f.save({model!r}); bspforest.load({model!r})
"""
        compiling = [sys.executable, "-m", "bspforest.cli", "compile"]
        ahead = seconds(lambda: subprocess.run(compiling, env=environment, capture_output=True, check=True))
        yield f"bspforest compile: all kernels, cold, seconds ({os.cpu_count()} cores)", f"{ahead:.0f}", "at most 25"
        yield "everything for the first time after that, seconds", f"{run(everything):.1f}", ""
        environment["NUMBA_CACHE_DIR"] = os.path.join(cache, "other")
        yield "the same without it: kernels compiled one after the other, seconds", f"{run(everything):.0f}", ""
        peers = min(run("import sklearn.ensemble") for _ in range(5))
        ours = min(run("from bspforest import BSPForestRegressor") for _ in range(5))
        yield "import bspforest beyond import sklearn.ensemble, seconds", f"{ours - peers:.2f}", "at most 0.5"


BENCHMARKS = {name[6:]: call for name, call in list(globals().items()) if name.startswith("bench_")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(BENCHMARKS)}; all if none is given")
    names = parser.parse_args().names or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"unknown benchmark {name!r}: choose from {', '.join(BENCHMARKS)}")
    X, y = uniform(200)
    BSPForestRegressor(2).fit(X, y).partial_fit(X, y).predict(X)  # compile
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    import sklearn

    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"scikit-learn {sklearn.__version__}, commit {commit.strip() or 'unknown'}\n"
    )
    print("| what | measured | asked |\n|---|---|---|")
    for name in names:
        for row in BENCHMARKS[name]():
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
