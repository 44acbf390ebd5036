"""Training and test rows of the experiments."""

from __future__ import annotations

import time
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from bspforest import datasets

from .methods import count_leaves
from .runner import make_seed

LOADERS = {
    "satimage": datasets.load_satimage,
    "letter": datasets.load_letter,
    "dna": datasets.load_dna,
    "usps": datasets.load_usps,
    "airline": datasets.load_airline,
    "uk_prices": datasets.load_uk_prices,
}

CALENDAR = ("day_of_week", "day_of_month", "month")


class Split(NamedTuple):
    """Training rows and test rows."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@cache
def load(name: str, data_home: str | None) -> Any:
    """Load a dataset, once per process."""
    return LOADERS[name](data_home=data_home)


def reduce_features(split: Split, features: int | str) -> Split:
    """Replace features by their first principal components, fitted on the training rows; with "all", keep them."""
    if features == "all":
        return split
    components = PCA(int(features), svd_solver="covariance_eigh").fit(split.X)
    return split._replace(X=components.transform(split.X), X_test=components.transform(split.X_test))


def split_classes(name: str, share: float | str, features: int | str, seed: int, data_home: str | None) -> Split:
    """Split a dataset at random with a given training fraction, or by the official split."""
    data = load(name, data_home)
    n = len(data.data)
    if share == "official":
        if data.n_train is None:
            raise ValueError(f"this copy of {name} is not in the official order, so its official split is unknown")
        order, n_train = np.arange(n), data.n_train
    else:
        order, n_train = np.random.default_rng(seed).permutation(n), round(float(share) * n)
    train, test = order[:n_train], order[n_train:]
    return reduce_features(Split(data.data[train], data.target[train], data.data[test], data.target[test]), features)


def split_airline(n: int, n_test: int, order: str, seed: int, data_home: str | None) -> Split:
    """Use the first n flights for training and the following ones as test rows; optionally shuffle them first."""
    data = load("airline", data_home)
    X, y = data.data[: n + n_test], data.target[: n + n_test]
    if len(X) < n + n_test:
        raise ValueError(f"the airline data has {len(X):,} rows; {n + n_test:,} are needed")
    if order == "shuffled":
        shuffled = np.random.default_rng(seed).permutation(len(X))
        X, y = X[shuffled], y[shuffled]
    elif order == "no calendar":
        X = X[:, [name not in CALENDAR for name in data.feature_names]]
    return Split(X[:n], y[:n], X[n:], y[n:])


def split_prices(share: float, seed: int, data_home: str | None) -> Split:
    """Split the prices at random with a given training fraction."""
    data = load("uk_prices", data_home)
    order = np.random.default_rng(seed).permutation(len(data.data))
    n = round(share * len(order))
    train, test = order[:n], order[n:]
    return Split(data.data[train], data.target[train], data.data[test], data.target[test])


def make_friedman(n: int, d: int, n_test: int, seed: int) -> Split:
    """Simulate training rows with noise and test rows without."""
    X, y, _ = datasets.make_friedman(n, d, random_state=seed)
    X_test, _, truth = datasets.make_friedman(n_test, d, random_state=make_seed(seed, "test"))
    return Split(X, y, X_test, truth)


def make_oblique_sine(n: int, n_test: int, seed: int) -> Split:
    """Simulate training rows with noise and test rows without."""
    X, y, _ = datasets.make_oblique_sine(n, random_state=seed)
    X_test, _, truth = datasets.make_oblique_sine(n_test, random_state=make_seed(seed, "test"))
    return Split(X, y, X_test, truth)


MEASURES = ("rmse", "leaves", "fit_cpu_s", "predict_cpu_s")


def measure_regression(forest: Any, split: Split) -> dict[str, float]:
    """Fit a forest on one core and measure it; times are thread times, which do not include other jobs."""
    started = time.thread_time()
    forest.fit(split.X, split.y)
    fitted_at = time.thread_time()
    error = forest.predict(split.X_test) - split.y_test
    predicted_at = time.thread_time()
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "leaves": float(count_leaves(forest)),
        "fit_cpu_s": fitted_at - started,
        "predict_cpu_s": predicted_at - fitted_at,
    }
