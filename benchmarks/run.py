"""Benchmarks: ratios to other libraries measured in the same run, with one thread unless stated otherwise.

Timings are noisy, so each is the best of several, with the competitors taking turns. ``make bench`` runs all benchmarks and
prints the table of benchmarks/README.md; ``python benchmarks/run.py fit predict`` runs some of them.
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
import sklearn
from river.forest import AMFRegressor
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from bspforest import BSPForestRegressor

Row = tuple[str, str, str]  # quantity, measured value, target


def draw_uniform(n: int, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw uniform rows and labels."""
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.random(n)


def measure_seconds(call: Callable[[], object]) -> float:
    """Return the wall time of a call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def find_best_times(calls: dict[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """Return the best time of each call; the calls take turns, so that a slow phase of the machine affects all of them.

    Each call runs twice in a row: a virtual machine reclaims unused memory after some seconds, and getting it back costs
    up to 0.2 s.
    """
    times: dict[str, float] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name] = min(times.get(name, np.inf), measure_seconds(call), measure_seconds(call))
    return times


def learn_in_chunks(X: np.ndarray, y: np.ndarray, size: int, forest: BSPForestRegressor) -> BSPForestRegressor:
    """Call partial_fit with chunks of ``size`` rows."""
    for start in range(0, len(X), size):
        forest.partial_fit(X[start : start + size], y[start : start + size])
    return forest


def bench_fit() -> Iterator[Row]:
    """Time fit and partial_fit on 100,000 x 8, 10 trees."""
    X, y = draw_uniform(100_000)
    kw: dict[str, Any] = {"n_estimators": 10, "random_state": 0}
    t = find_best_times(
        {
            "extra": lambda: ExtraTreesRegressor(max_features=1 / 3, n_jobs=1, **kw).fit(X, y),
            "random": lambda: RandomForestRegressor(max_features=1 / 3, n_jobs=1, **kw).fit(X, y),
            "fit": lambda: BSPForestRegressor(prediction="mean", **kw).fit(X, y),
            "chunks": lambda: learn_in_chunks(X, y, 1000, BSPForestRegressor(prediction="mean", **kw)),
        }
    )
    cost = t["fit"]  # seconds for a million pairs of row and tree, so microseconds per pair
    yield f"fit ({cost:.2f} µs per row and tree), speed relative to ExtraTrees.fit", f"{t['extra'] / t['fit']:.1f}", "4"
    yield "fit, speed relative to RandomForest.fit", f"{t['random'] / t['fit']:.1f}", "12"
    cost = t["chunks"]
    yield (
        f"partial_fit, chunks of 1,000 ({cost:.2f} µs per row and tree), speed relative to ExtraTrees.fit",
        f"{t['extra'] / t['chunks']:.2f}",
        "1.2",
    )


def bench_predict() -> Iterator[Row]:
    """Time predict on 100,000 rows with 10 trees of 100,000 rows."""
    X, y = draw_uniform(100_000)
    new, _ = draw_uniform(100_000, seed=1)
    peer = ExtraTreesRegressor(10, max_features=1 / 3, random_state=0).fit(X, y)
    forest = BSPForestRegressor(10, random_state=0, prediction="mean").fit(X, y)
    t = find_best_times({"peer": lambda: peer.predict(new), "forest": lambda: forest.predict(new)}, rounds=7)
    yield "predict, speed relative to ExtraTrees.predict", f"{t['peer'] / t['forest']:.2f}", "1"


def prepare_sorting(
    forest: BSPForestRegressor, X: np.ndarray, y: np.ndarray, q: np.ndarray
) -> Callable[[], np.ndarray]:
    """Return a call that finds what `predict_quantiles` does, by sorting the labels, of equal weight, in the leaves of each row."""
    leaves = forest.apply(X)
    held = [forest.trees_.held_leaves(m) for m in range(len(forest.trees_))]
    orders = [np.argsort(nodes, kind="stable") for nodes in held]
    ordered = [nodes[order] for nodes, order in zip(held, orders, strict=True)]

    def sort_labels() -> np.ndarray:
        out = np.empty((len(X), len(q)))
        for row in range(len(X)):
            ends = [np.searchsorted(nodes, [v, v + 1]) for nodes, v in zip(ordered, leaves[row], strict=True)]
            labels = np.concatenate([y[order[a:b]] for order, (a, b) in zip(orders, ends, strict=True)])
            weights = np.concatenate([np.full(b - a, 1 / (b - a)) for a, b in ends])
            order = np.argsort(labels)
            total = np.cumsum(weights[order])
            out[row] = labels[order[np.searchsorted(total, (q - 1e-12) * total[-1])]]
        return out

    return sort_labels


def bench_quantiles() -> Iterator[Row]:
    """Time predict_quantiles on 200 rows with 100 trees of 50,000 rows and two features, whose leaves are large."""
    X, y = draw_uniform(50_000, 2)
    new, _ = draw_uniform(200, 2, seed=1)
    q = np.array([0.05, 0.5, 0.95])
    forest = BSPForestRegressor(100, random_state=0, prediction="mean").fit(X, y)
    sort_labels = prepare_sorting(forest, new, y, q)
    np.testing.assert_array_equal(forest.predict_quantiles(new, q), sort_labels())
    peer = measure_seconds(sort_labels)
    own = find_best_times({"own": lambda: forest.predict_quantiles(new, q)}, rounds=5)["own"]
    yield (
        "predict_quantiles of 200 rows, 100 trees of 50,000 rows, leaves of a thousand "
        f"({own * 1e3:.0f} ms), speed relative to sorting the labels of each row",
        f"{peer / own:.0f}",
        "3",
    )


def bench_single() -> Iterator[Row]:
    """Time partial_fit with one row per call, 100 trees, 10,000 rows held."""
    X, y = draw_uniform(16_000)
    forests = [BSPForestRegressor(100, random_state=0, prediction="mean").fit(X[:10_000], y[:10_000]) for _ in range(2)]
    single, chunked = [], []
    for k in range(5):
        chunk = slice(10_000 + 1000 * k, 11_000 + 1000 * k)
        few = slice(chunk.start, chunk.start + 300)
        single.append(measure_seconds(lambda few=few: learn_in_chunks(X[few], y[few], 1, forests[0])) / 300)
        chunked.append(
            measure_seconds(lambda chunk=chunk: learn_in_chunks(X[chunk], y[chunk], 1000, forests[1])) / 1000
        )
    one, many = float(np.median(single)), float(np.median(chunked))
    yield (
        f"one row per call ({one * 1e6:.0f} µs), cost per row relative to chunks of 1,000",
        f"{one / many:.2f}",
        "at most 2",
    )
    peer = AMFRegressor(n_estimators=100, seed=0)
    names = [f"x{k}" for k in range(8)]
    rows = [
        (dict(zip(names, x, strict=True)), t) for x, t in zip(X[:10_200].tolist(), y[:10_200].tolist(), strict=True)
    ]
    print("training river's forest on 10,000 rows, which takes some minutes ...", file=sys.stderr)
    for x, t in rows[:10_000]:
        peer.learn_one(x, t)
    theirs = measure_seconds(lambda: [peer.learn_one(x, t) for x, t in rows[10_000:]]) / 200
    yield (
        f"one row per call, speed relative to river's AMFRegressor.learn_one ({theirs * 1e3:.1f} ms)",
        f"{theirs / one:.0f}",
        "40",
    )


def bench_dimensions() -> Iterator[Row]:
    """Compare the cost per row at d = 64 and d = 8."""
    times = {}
    data = {d: draw_uniform(20_000, d) for d in (8, 64)}
    for name, size in (("fit", 20_000), ("partial_fit in chunks of 1,000", 1000)):
        for d, (X, y) in data.items():
            times[d] = min(
                measure_seconds(
                    lambda X=X, y=y, size=size: learn_in_chunks(X, y, size, BSPForestRegressor(10, prediction="mean"))
                )
                for _ in range(3)
            )
        yield f"cost per row at d = 64 relative to d = 8, {name}", f"{times[64] / times[8]:.1f}", "at most 10"


def bench_rows() -> Iterator[Row]:
    """Compare the cost per row of partial_fit at 1,000,000 and 10,000 rows, and measure memory."""
    X, y = draw_uniform(1_020_000)
    cost = {}
    for n in (10_000, 1_000_000):
        forest = BSPForestRegressor(10, random_state=0, prediction="mean").fit(X[:n], y[:n])
        if n == 1_000_000:
            rows = forest.held_rows()
            trees_nbytes = forest.nbytes_ - rows.X.nbytes - rows.y.nbytes - rows.sample_weight.nbytes
            yield (
                "memory of a forest of 1,000,000 rows without the rows, bytes per row and tree",
                f"{trees_nbytes / n / 10:.0f}",
                "at most 110",
            )
        times = [
            measure_seconds(lambda a=a, f=forest: f.partial_fit(X[a : a + 1000], y[a : a + 1000]))
            for a in range(n, n + 20_000, 1000)
        ]
        cost[n] = float(np.median(times))
    yield (
        "cost per row of partial_fit at 1,000,000 rows relative to 10,000",
        f"{cost[1_000_000] / cost[10_000]:.1f}",
        "at most 4",
    )


def bench_threads() -> Iterator[Row]:
    """Compare two threads with one."""
    X, y = draw_uniform(100_000)
    fits: dict[str, Callable[[], object]] = {
        str(n): lambda n=n: BSPForestRegressor(10, n_jobs=n, random_state=0, prediction="mean").fit(X, y)
        for n in (1, 2)  # type: ignore[misc]
    }
    t = find_best_times(fits, rounds=15)
    yield f"fit with n_jobs=2, speed relative to n_jobs=1 ({os.cpu_count()} cores)", f"{t['1'] / t['2']:.2f}", "1.7"


def draw_smooth(n: int, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw uniform rows with labels that depend on four features, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.sin(5 * X[:, 0]) + 4 * X[:, 1] * X[:, 2] + X[:, 3] + 0.3 * rng.normal(size=n)


def bench_ridge() -> Iterator[Row]:
    """Time ridge prediction with default parameters, two threads, 100,000 rows, and measure the memory of its trees."""
    X, y = draw_smooth(100_000)
    new, _ = draw_smooth(100_000, seed=1)
    forest, peer = (
        BSPForestRegressor(n_jobs=2, random_state=0),
        RandomForestRegressor(100, max_features=1 / 3, n_jobs=2),
    )
    t = find_best_times({"forest": lambda: forest.fit(X, y), "peer": lambda: peer.fit(X, y)}, rounds=1)
    yield (
        f"ridge: fit of 100,000 x 8, two threads ({t['forest']:.1f} s), speed relative to RandomForest.fit",
        f"{t['peer'] / t['forest']:.2f}",
        "at least 1.5",
    )
    extra = ExtraTreesRegressor(100, n_jobs=2).fit(X, y)
    t = find_best_times({"forest": lambda: forest.predict(new), "peer": lambda: extra.predict(new)})
    yield (
        "ridge: predict of 100,000 rows, speed relative to ExtraTrees.predict",
        f"{t['peer'] / t['forest']:.2f}",
        "at least 1",
    )
    yield "ridge: memory at 8 features, bytes per row", f"{forest.nbytes_ / len(X):.0f}", "at most 6,000"
    X, y = draw_smooth(12_000)
    seconds = {}
    for prediction in ("mean", "ridge"):
        one = BSPForestRegressor(100, prediction=prediction, random_state=0).fit(X[:10_000], y[:10_000])
        started = time.process_time()
        for k in range(10_000, 12_000):
            one.predict(X[k : k + 1])
            one.partial_fit(X[k : k + 1], y[k : k + 1])
        seconds[prediction] = (time.process_time() - started) / 2000
    yield (
        f"ridge: one row predicted and learned, 10,000 stored, 100 trees ({seconds['ridge'] * 1e6:.0f} µs), cost relative to "
        "prediction='mean'",
        f"{seconds['ridge'] / seconds['mean']:.2f}",
        "at most 2",
    )
    X, y = draw_smooth(500, 10)
    yield "ridge: fit of 500 x 10, seconds", f"{measure_seconds(lambda: forest.fit(X, y)):.2f}", "below 1"


def bench_start() -> Iterator[Row]:
    """Time the import with a warm cache, and compilation with a cold one."""
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
f = BSPForestRegressor(2, prediction="mean").fit(X, X[:, 0]).partial_fit(X, X[:, 0]).partial_fit(X[:1], X[:1, 0]).forget([0, 1])
f.predict(X); f.predict_quantiles(X, [0.5]); f.apply(X); f.trees_[0]
f.save({model!r}); bspforest.load({model!r})
"""
        compiling = [sys.executable, "-m", "bspforest.cli", "compile"]
        ahead = measure_seconds(lambda: subprocess.run(compiling, env=environment, capture_output=True, check=True))
        yield (
            f"bspforest compile with a cold cache, all kernels, seconds ({os.cpu_count()} cores)",
            f"{ahead:.0f}",
            "at most 25",
        )
        yield "first call of everything after that, seconds", f"{run(everything):.1f}", ""
        environment["NUMBA_CACHE_DIR"] = os.path.join(cache, "other")
        yield "the same without bspforest compile, seconds", f"{run(everything):.0f}", ""
        peers = min(run("import sklearn.ensemble") for _ in range(5))
        ours = min(run("from bspforest import BSPForestRegressor") for _ in range(5))
        yield "import bspforest in addition to sklearn.ensemble, seconds", f"{ours - peers:.2f}", "at most 0.5"


BENCHMARKS = {name[6:]: call for name, call in list(globals().items()) if name.startswith("bench_")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(BENCHMARKS)} (default: all)")
    names = parser.parse_args().names or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"unknown benchmark {name!r}: choose from {', '.join(BENCHMARKS)}")
    X, y = draw_uniform(200)
    BSPForestRegressor(2, prediction="mean").fit(X, y).partial_fit(X, y).predict(X)  # compile
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"scikit-learn {sklearn.__version__}, commit {commit.strip() or 'unknown'}\n"
    )
    print("| quantity | measured | target |\n|---|---|---|")
    for name in names:
        for row in BENCHMARKS[name]():
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
