"""Accuracy, log loss and intervals with default parameters, beside batch forests and boosting in the same run.

``python benchmarks/accuracy.py`` runs everything, ``python benchmarks/accuracy.py friedman small --seeds 1`` some of it. Datasets are
read from the folder named by BSPFOREST_DATA; what needs one is skipped, with a notice, if it is not there. Random forests and extra trees
have the better of two values of max_features, by the score that is shown. Scores are means over seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import generated
import numpy as np
import sklearn.datasets
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from bspforest import BSPForestClassifier, BSPForestRegressor, datasets

Row = tuple[str, str, str, str]  # quantity, measured value, peers, target

OFFICIAL = {"dna": 0.945, "satimage": 0.911, "letter": 0.966, "usps": 0.936}
SMALL = ("diabetes", "breast_cancer", "digits", "wine", "iris")


def describe(values: list[float], digits: int = 3) -> str:
    """Return the mean and the values it is of."""
    return f"{np.mean(values):.{digits}f} ({', '.join(f'{value:.{digits}f}' for value in values)})"


def make_peers(classify: bool, seed: int = 0) -> dict[str, list[Any]]:
    """Return batch models by name, several where the best one counts. LightGBM is left out if it is not installed."""
    kinds = (RandomForestClassifier, ExtraTreesClassifier) if classify else (RandomForestRegressor, ExtraTreesRegressor)
    shares = ("sqrt", 0.33) if classify else (0.33, 1.0)
    peers: dict[str, list[Any]] = {
        name: [kind(100, max_features=share, n_jobs=-1, random_state=seed) for share in shares]
        for name, kind in zip(("random forest", "extra trees"), kinds, strict=True)
    }
    try:
        import lightgbm
    except ImportError:
        return peers
    kind = lightgbm.LGBMClassifier if classify else lightgbm.LGBMRegressor
    return {**peers, "LightGBM": [kind(n_estimators=200, learning_rate=0.08, random_state=seed, n_jobs=-1, verbose=-1)]}


def score_peers(X: np.ndarray, y: np.ndarray, score: Callable[[Any], float], *, classify: bool, best: Callable) -> str:
    """Return the scores of batch models after a fit."""
    found = []
    for name, models in make_peers(classify).items():
        found.append(f"{name} {best(score(model.fit(X, y)) for model in models):.3f}")
    return ", ".join(found)


def measure_loss(y: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the log loss of shares of votes: those of 0, which would cost infinity, count as 0.001."""
    clipped = np.maximum(probabilities, 1e-3)
    return float(log_loss(y, clipped / clipped.sum(axis=1, keepdims=True)))


def measure_rmse(model: Any, X: np.ndarray, truth: np.ndarray) -> float:
    """Return the root mean squared error of predictions."""
    return float(np.sqrt(np.mean((model.predict(X) - truth) ** 2)))


def bench_friedman(seeds: range) -> Iterator[Row]:
    """Measure the error on Friedman's function, 5,000 rows with noise."""
    for d, target in ((5, "at most 0.66"), (10, "at most 0.70, and LightGBM + 10 %")):
        errors, peers = [], ""
        for seed in seeds:
            X, y, _ = datasets.make_friedman(5000, d, random_state=seed)
            new, _, truth = datasets.make_friedman(5000, d, random_state=1000 + seed)
            errors.append(measure_rmse(BSPForestRegressor(random_state=seed, n_jobs=-1).fit(X, y), new, truth))
            if seed == 0:
                peers = score_peers(
                    X, y, lambda model, X=new, t=truth: measure_rmse(model, X, t), classify=False, best=min
                )
        yield f"Friedman's function, {d} features, RMSE to the truth", describe(errors), peers, target


def bench_classes(seeds: range) -> Iterator[Row]:
    """Measure accuracy and log loss on the paper's datasets, official splits, all features."""
    for name, target in OFFICIAL.items():
        data = getattr(datasets, f"load_{name}")()
        X, y, n = data.data, data.target, data.n_train
        scores, losses = [], []
        for seed in seeds:
            forest = BSPForestClassifier(random_state=seed, n_jobs=-1).fit(X[:n], y[:n])
            probabilities = forest.predict_proba(X[n:])
            scores.append(float(np.mean(forest.classes_[probabilities.argmax(axis=1)] == y[n:])))
            losses.append(float(log_loss(y[n:], probabilities)))
        test = X[n:], y[n:]
        peers = score_peers(X[:n], y[:n], lambda model, t=test: model.score(*t), classify=True, best=max)
        yield f"{name}, accuracy", describe(scores, 4), peers, f"at least {target}"
        extra = [model.fit(X[:n], y[:n]).predict_proba(X[n:]) for model in make_peers(True)["extra trees"]]
        loss = min(measure_loss(y[n:], p) for p in extra)
        goal = "below extra trees" if name == "dna" else "at most 1.1 times extra trees"
        yield f"{name}, log loss", describe(losses), f"extra trees {loss:.3f}", goal


def bench_components(seeds: range) -> Iterator[Row]:
    """Measure the accuracy on four principal components of the paper's datasets, beside that of leaf means."""
    for name in OFFICIAL:
        data = getattr(datasets, f"load_{name}")()
        n, y = data.n_train, data.target
        Z = PCA(4, svd_solver="covariance_eigh").fit(data.data[:n]).transform(data.data)
        kinds: list[dict[str, Any]] = [{}, {"prediction": "mean", "budget_scale": 3.0}]
        own, means = (
            [
                float(BSPForestClassifier(random_state=k, n_jobs=-1, **more).fit(Z[:n], y[:n]).score(Z[n:], y[n:]))
                for k in seeds
            ]
            for more in kinds
        )
        peer = f"prediction='mean', budget_scale=3 {np.mean(means):.3f}"
        yield f"{name}, four components, accuracy", describe(own, 4), peer, "at most 0.01 below"


def bench_digits(seeds: range) -> Iterator[Row]:
    """Measure the log loss on four principal components of digits, half of the rows held out."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    losses, peers = [], []
    for seed in seeds:
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed)
        pca = PCA(4).fit(X_train)
        train, test = pca.transform(X_train), pca.transform(X_test)
        forest = BSPForestClassifier(random_state=seed, n_jobs=-1).fit(train, y_train)
        losses.append(float(log_loss(y_test, forest.predict_proba(test))))
        extra = [model.fit(train, y_train).predict_proba(test) for model in make_peers(True, seed)["extra trees"]]
        peers.append(min(measure_loss(y_test, p) for p in extra))
    yield (
        "digits, four components, log loss",
        describe(losses),
        f"extra trees {np.mean(peers):.3f}",
        "below extra trees",
    )


def measure_intervals(forest: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Return the share of labels in 90 % intervals, and the mean negative log-likelihood with stds and with one for all rows.

    The one is the root mean squared error on these very rows, the best there is.
    """
    mean, std = forest.predict(X, return_std=True)
    low, high = forest.predict_quantiles(X, [0.05, 0.95]).T
    gaps = y - mean
    own = np.mean(np.log(std) + 0.5 * (gaps / std) ** 2)
    return float(np.mean((low <= y) & (y <= high))), float(own), float(0.5 * np.log(np.mean(gaps**2)) + 0.5)


def bench_flights(seeds: range) -> Iterator[Row]:
    """Measure error and intervals on the 100,000 flights that follow the first 100,000, in time order."""
    data = datasets.load_airline()
    n = 100_000
    X, y, new, labels = data.data[:n], data.target[:n], data.data[n : 2 * n], data.target[n : 2 * n]
    errors, intervals = [], []
    for seed in seeds:
        forest = BSPForestRegressor(random_state=seed, n_jobs=-1).fit(X, y)
        errors.append(measure_rmse(forest, new, labels))
        intervals.append(measure_intervals(forest, new, labels))
    peers = score_peers(X, y, lambda model: measure_rmse(model, new, labels), classify=False, best=min)
    yield "flights, 100,000 in time order, RMSE", describe(errors, 2), peers, "at most 34.7"
    yield from describe_intervals("flights", intervals)


def describe_intervals(name: str, intervals: list[tuple[float, float, float]]) -> Iterator[Row]:
    """Describe 90 % intervals and likelihoods."""
    covered, own, plain = (list(values) for values in zip(*intervals, strict=True))
    yield f"{name}, labels in 90 % intervals", describe(covered), "", "0.87 to 0.95"
    yield (
        f"{name}, negative log-likelihood",
        describe(own),
        f"one global std {np.mean(plain):.3f}",
        "below one global std",
    )


def bench_prices(seeds: range) -> Iterator[Row]:
    """Measure intervals on house prices: 20,000 rows, 20,000 others to test."""
    data = datasets.load_uk_prices()
    intervals = []
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(data.data))[:40_000]
        train, test = order[:20_000], order[20_000:]
        forest = BSPForestRegressor(random_state=seed, n_jobs=-1).fit(data.data[train], data.target[train])
        intervals.append(measure_intervals(forest, data.data[test], data.target[test]))
    yield from describe_intervals("house prices", intervals)


def bench_small(seeds: range) -> Iterator[Row]:
    """Measure scikit-learn's small datasets in five folds."""
    for name in SMALL:
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        classify = name != "diabetes"
        kind: Any = BSPForestClassifier if classify else BSPForestRegressor
        own, theirs, intervals = [], [], []
        for seed in seeds:
            folds = list((StratifiedKFold if classify else KFold)(5, shuffle=True, random_state=seed).split(X, y))

            def score(model: Any, X=X, y=y, folds=folds, classify=classify) -> float:
                fits = ((model.fit(X[a], y[a]), X[b], y[b]) for a, b in folds)
                return float(np.mean([m.score(x, t) if classify else measure_rmse(m, x, t) for m, x, t in fits]))

            own.append(score(kind(random_state=seed, n_jobs=-1)))
            best = max if classify else min
            peers = make_peers(classify, seed)
            theirs.append([best(score(model) for model in peers[name]) for name in ("random forest", "extra trees")])
            if not classify:
                fits = [(kind(random_state=seed, n_jobs=-1).fit(X[a], y[a]), X[b], y[b]) for a, b in folds]
                intervals.append(tuple(np.mean([measure_intervals(*fit) for fit in fits], axis=0)))
        rf, et = np.mean(theirs, axis=0)
        goal = "at most 0.005 below the better" if classify else "below both"
        yield f"{name}, five folds", describe(own), f"random forest {rf:.3f}, extra trees {et:.3f}", goal
        if intervals:
            yield from describe_intervals(name, intervals)


def bench_spread(_: range) -> Iterator[Row]:
    """Measure how test errors differ between ten seeds: the worst over the best, on at most 5,000 rows."""
    flights, satimage = datasets.load_airline(), datasets.load_satimage()
    rng = np.random.default_rng(0)
    shuffled, few = rng.permutation(len(flights.data))[:5000], rng.permutation(442)
    diabetes = sklearn.datasets.load_diabetes(return_X_y=True)
    friedman = datasets.make_friedman(5000, 10, random_state=0)
    tables = {
        "bike rentals, generated, in time order": (*generated.draw_bikes(5000), 3500),
        "houses, generated": (*generated.draw_houses(5000), 3500),
        "diabetes": (diabetes[0][few], diabetes[1][few], 300),
        "Friedman 10": (friedman[0], np.concatenate([friedman[1][:2500], friedman[2][2500:]]), 2500),
        "flights, shuffled": (flights.data[shuffled], flights.target[shuffled], 3500),
    }
    errors = {}
    for name, (X, y, n) in tables.items():
        forests = (BSPForestRegressor(random_state=seed, n_jobs=-1).fit(X[:n], y[:n]) for seed in range(10))
        errors[name] = [measure_rmse(forest, X[n:], y[n:]) for forest in forests]
    X, y, n = satimage.data, satimage.target, satimage.n_train
    classifiers = (BSPForestClassifier(random_state=seed, n_jobs=-1).fit(X[:n], y[:n]) for seed in range(10))
    errors["satimage"] = [1.0 - forest.score(X[n:], y[n:]) for forest in classifiers]
    for name, found in errors.items():
        yield f"{name}, error over ten seeds, worst / best", f"{max(found) / min(found):.3f}", "", "at most 1.08"


BENCHMARKS: dict[str, Callable[[range], Iterator[Row]]] = {
    "friedman": bench_friedman,
    "small": bench_small,
    "digits": bench_digits,
    "prices": bench_prices,
    "flights": bench_flights,
    "classes": bench_classes,
    "components": bench_components,
    "spread": bench_spread,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="benchmarks to run; default: all")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds; default: 3")
    given = parser.parse_args()
    print("| quantity | measured | peers | target |\n|---|---|---|---|")
    for name in given.names or BENCHMARKS:
        try:
            for row in BENCHMARKS[name](range(given.seeds)):
                print(f"| {' | '.join(row)} |", flush=True)
        except OSError as error:
            print(f"{name} skipped: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
