"""Joint values: accuracy, speed and memory with default parameters, beside batch forests and river measured in the same run.

``python benchmarks/joint.py`` runs everything, ``python benchmarks/joint.py friedman time`` some of it. Datasets are read from the
folder named by BSPFOREST_DATA; what needs one is skipped, with a notice, if it is not there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

from bspforest import BSPForestClassifier, BSPForestRegressor, datasets
from bspforest.trees import forest as engine

Row = tuple[str, str, str]  # quantity, measured value, target

SEEDS = range(3)
OFFICIAL = {"dna": 0.905, "satimage": 0.905, "letter": 0.960, "usps": 0.933}


def score_rmse(model: Any, X: np.ndarray, truth: np.ndarray) -> float:
    """Return the root mean squared error of predictions."""
    return float(np.sqrt(np.mean((model.predict(X) - truth) ** 2)))


def describe(values: list[float], digits: int = 3) -> str:
    """Return the mean and the values it is of."""
    return f"{np.mean(values):.{digits}f} ({', '.join(f'{value:.{digits}f}' for value in values)})"


def fit_peers(X: np.ndarray, y: np.ndarray, score: Callable[[Any], float], *, classify: bool, best: Callable) -> str:
    """Return the scores of random forests and extra trees, each with the better of two values of max_features."""
    kinds = (RandomForestClassifier, ExtraTreesClassifier) if classify else (RandomForestRegressor, ExtraTreesRegressor)
    scores = []
    for kind in kinds:
        tried = ("sqrt", 0.33) if classify else (0.33, 1.0)
        models = [kind(100, max_features=share, n_jobs=-1, random_state=0).fit(X, y) for share in tried]
        scores.append(f"{best(score(model) for model in models):.3f}")
    return f"random forest {scores[0]}, extra trees {scores[1]}"


def bench_friedman() -> Iterator[Row]:
    """Measure the error on Friedman's function, 5,000 rows with noise."""
    for d, target in ((5, 0.66), (10, 1.12)):
        errors, peers = [], ""
        for seed in SEEDS:
            X, y, _ = datasets.make_friedman(5000, d, random_state=seed)
            X_test, _, truth = datasets.make_friedman(5000, d, random_state=1000 + seed)
            errors.append(score_rmse(BSPForestRegressor(random_state=seed, n_jobs=-1).fit(X, y), X_test, truth))
            if seed == 0:
                peers = fit_peers(
                    X, y, lambda model, X=X_test, t=truth: score_rmse(model, X, t), classify=False, best=min
                )
        yield f"Friedman's function, {d} features, RMSE to the truth ({peers})", describe(errors), f"at most {target}"


def bench_classes() -> Iterator[Row]:
    """Measure the accuracy on the paper's datasets, official splits, with all features and with four components."""
    for name, target in OFFICIAL.items():
        data = getattr(datasets, f"load_{name}")()
        X, y, n = data.data, data.target, data.n_train
        scores = [
            BSPForestClassifier(random_state=seed, n_jobs=-1).fit(X[:n], y[:n]).score(X[n:], y[n:]) for seed in SEEDS
        ]
        peers = fit_peers(X[:n], y[:n], lambda model, X=X[n:], y=y[n:]: model.score(X, y), classify=True, best=max)
        yield f"{name}, all features, accuracy ({peers})", describe(scores), f"at least {target}"
        Z = PCA(4, svd_solver="covariance_eigh").fit(X[:n]).transform(X)
        by_values = {}
        for values, more in (("ridge", {}), ("mean", {"budget_scale": 3.0})):
            by_values[values] = [
                BSPForestClassifier(prediction=values, random_state=seed, n_jobs=-1, **more)
                .fit(Z[:n], y[:n])
                .score(Z[n:], y[n:])
                for seed in SEEDS
            ]
        floor = np.mean(by_values["mean"]) - 0.01
        yield (
            f"{name}, four components, accuracy (prediction='mean', budget_scale=3: {np.mean(by_values['mean']):.3f})",
            describe(by_values["joint"]),
            f"at least {floor:.3f}",
        )


def bench_flights() -> Iterator[Row]:
    """Measure the error on the 100,000 flights that follow the first 100,000, in time order."""
    data = datasets.load_airline()
    X, y = data.data[:200_000], data.target[:200_000]
    n = 100_000
    forest = BSPForestRegressor(random_state=0, n_jobs=-1).fit(X[:n], y[:n])
    yield "flights, 100,000 in time order, RMSE", f"{score_rmse(forest, X[n:], y[n:]):.2f}", "at most 35.6"


def bench_electricity() -> Iterator[Row]:
    """Predict, then learn, each of the first 20,000 rows of Electricity, with 50 trees; river's forest beside."""
    from river.forest import ARFClassifier

    path = Path(os.environ.get("BSPFOREST_DATA", ".")) / "stream_elec.npz"
    if not path.exists():
        raise FileNotFoundError(f"no file {path.name} in the folder named by BSPFOREST_DATA")
    with np.load(path, allow_pickle=False) as archive:
        X, y = archive["X"][:20_000].astype(float), archive["y"][:20_000]
    started = time.process_time()
    forest = BSPForestClassifier(50, random_state=0)
    right = 0
    for k in range(len(X)):
        right += k > 0 and forest.predict(X[k : k + 1])[0] == y[k]
        forest.partial_fit(X[k : k + 1], y[k : k + 1], classes=np.unique(y) if k == 0 else None)
    own_time = time.process_time() - started
    started = time.process_time()
    peer = ARFClassifier(50, seed=0)
    theirs = 0
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        row = dict(enumerate(x))
        theirs += peer.predict_one(row) == label
        peer.learn_one(row, label)
    ratio = (time.process_time() - started) / own_time
    no_change = np.mean(y[1:] == y[:-1])
    yield (
        f"Electricity, first 20,000, accuracy (no change {no_change:.3f}, river's ARF {theirs / len(X):.3f}, which takes "
        f"{ratio:.1f} times as long)",
        f"{right / len(X):.3f}",
        "at least 0.90",
    )


def draw_smooth(n: int, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw uniform rows with labels that depend on four features, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.sin(5 * X[:, 0]) + 4 * X[:, 1] * X[:, 2] + X[:, 3] + 0.3 * rng.normal(size=n)


def find_best(calls: dict[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """Return the best wall time of each call; they take turns."""
    times: dict[str, float] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            times[name] = min(times.get(name, np.inf), time.perf_counter() - started)
    return times


def bench_time() -> Iterator[Row]:
    """Time fit and predict with 100,000 rows of 8 features, 100 trees and two threads, beside scikit-learn's forests."""
    X, y = draw_smooth(100_000)
    new, _ = draw_smooth(100_000, seed=1)
    forest, peer = (
        BSPForestRegressor(n_jobs=2, random_state=0),
        RandomForestRegressor(100, max_features=1 / 3, n_jobs=2),
    )
    t = find_best({"forest": lambda: forest.fit(X, y), "peer": lambda: peer.fit(X, y)}, rounds=2)
    yield (
        f"fit of 100,000 x 8, 100 trees, two threads ({t['forest']:.1f} s), speed relative to RandomForest.fit",
        f"{t['peer'] / t['forest']:.2f}",
        "at least 2",
    )
    extra = ExtraTreesRegressor(100, n_jobs=2).fit(X, y)
    t = find_best({"forest": lambda: forest.predict(new), "peer": lambda: extra.predict(new)}, rounds=5)
    yield (
        "predict of 100,000 rows, speed relative to ExtraTrees.predict",
        f"{t['peer'] / t['forest']:.2f}",
        "at least 1",
    )


def bench_rows() -> Iterator[Row]:
    """Time a row that is predicted and learned, 10,000 held, 100 trees, over the next 2,000 rows, solves included."""
    X, y = draw_smooth(12_000)
    seconds = {}
    for values in ("mean", "ridge"):
        forest = BSPForestRegressor(prediction=values, random_state=0).fit(X[:10_000], y[:10_000])
        started = time.process_time()
        for k in range(10_000, 12_000):
            forest.predict(X[k : k + 1])
            forest.partial_fit(X[k : k + 1], y[k : k + 1])
        seconds[values] = (time.process_time() - started) / 2000
    yield (
        f"one row predicted and learned, 10,000 held ({seconds['joint'] * 1e6:.0f} µs), cost relative to prediction='mean'",
        f"{seconds['joint'] / seconds['mean']:.2f}",
        "at most 2",
    )


def bench_chunk() -> Iterator[Row]:
    """Time doubling a forest of 100,000 rows by one chunk, built afresh and inserted; solving is left out by a large ridge."""
    X, y = draw_smooth(200_000)
    n = 100_000
    cost = {}
    share = engine.REBUILD_SHARE
    for name, changed in (("built", share), ("inserted", 0)):
        forest = BSPForestRegressor(20, bandwidth=1.0, ridge=1e6, random_state=0, n_jobs=2).fit(X[:n], y[:n])
        engine.REBUILD_SHARE = changed
        started = time.perf_counter()
        forest.partial_fit(X[n:], y[n:])
        cost[name] = (time.perf_counter() - started) / n
    engine.REBUILD_SHARE = share
    yield (
        f"doubling 100,000 rows by one chunk, 20 trees ({cost['built'] * 1e6:.1f} µs per row), cost per row relative to inserting",
        f"1/{cost['inserted'] / cost['built']:.1f}",
        "at most 1/3",
    )


def bench_memory() -> Iterator[Row]:
    """Measure the memory of trees grown to single points, and of the whole process for a million rows."""
    for d, n, target in ((8, 100_000, 125), (64, 20_000, 200)):
        X, y = draw_smooth(n, d)
        forest = BSPForestRegressor(20, bandwidth=1.0, ridge=0.3, random_state=0, n_jobs=-1).fit(X, y)
        rows = X.nbytes + 40 * n
        yield (
            f"memory at {d} features without the rows, bytes per row and tree",
            f"{(forest.nbytes_ - rows) / n / 20:.0f}",
            f"at most {target}",
        )
    code = (
        "import resource, sys; sys.path.insert(0, 'benchmarks'); from joint import *; X, y = draw_smooth(1_000_000); "
        "BSPForestRegressor(random_state=0, n_jobs=-1).fit(X, y); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    yield "fit of 1,000,000 x 8, 100 trees, peak memory of the process, GB", f"{float(done.stdout):.1f}", "at most 16"


BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "friedman": bench_friedman,
    "classes": bench_classes,
    "flights": bench_flights,
    "electricity": bench_electricity,
    "time": bench_time,
    "rows": bench_rows,
    "chunk": bench_chunk,
    "memory": bench_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="benchmarks to run; default: all")
    names = parser.parse_args().names or list(BENCHMARKS)
    print("| quantity | measured | target |\n|---|---|---|")
    for name in names:
        try:
            for quantity, measured, target in BENCHMARKS[name]():
                print(f"| {quantity} | {measured} | {target} |", flush=True)
        except FileNotFoundError as error:
            print(f"{name} skipped: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
