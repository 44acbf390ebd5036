"""The streams of `streams.py`: real ones, and simulated ones that drift in known ways, the same in every run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import datasets
from river.datasets import synth

from bspforest.datasets import make_friedman

SEED = 0


class Stream(NamedTuple):
    """Rows in the order in which they are predicted and learned."""

    name: str
    X: np.ndarray
    y: np.ndarray  # numbers, or classes from 0 on
    n_classes: int  # 0 in regression


# ----------------------------------------------------------------------------------------------------------------------
# Real streams


def read_archive(name: str, file: str) -> Callable[[int], Stream | None]:
    """Return a function that reads classes from the folder named by BSPFOREST_DATA; it returns None if there is no such file."""

    def read(n: int) -> Stream | None:
        path = Path(os.environ.get("BSPFOREST_DATA", ".")) / file
        if not path.exists():
            print(f"{name} skipped: BSPFOREST_DATA names no folder with {file}", file=sys.stderr)
            return None
        with np.load(path, allow_pickle=False) as data:
            return make_classes(name, data["X"][:n], data["y"][:n])

    return read


def make_classes(name: str, X: Any, y: Any) -> Stream:
    """Make a stream of classes, which are numbered."""
    classes, numbers = np.unique(y, return_inverse=True)
    return Stream(name, np.ascontiguousarray(X, dtype=float), numbers, len(classes))


def make_numbers(name: str, X: Any, y: Any) -> Stream:
    """Make a stream of numbers to predict."""
    return Stream(name, np.ascontiguousarray(X, dtype=float), np.asarray(y, dtype=float), 0)


def list_numbers(x: dict) -> list[float]:
    """Return the features of a row; a time becomes three numbers: days since 1970, month, hour."""
    numbers: list[float] = []
    for value in x.values():
        if isinstance(value, datetime):
            days = value.replace(tzinfo=None) - datetime(1970, 1, 1)
            numbers += [days.total_seconds() / 86_400, value.month, value.hour]
        else:
            numbers.append(value)
    return numbers


def find_shipped() -> dict[str, Callable[[int], Stream | None]]:
    """Return a function for each numeric dataset with a single output inside the package of river that reads it."""
    makers: dict[Any, Callable] = {datasets.base.BINARY_CLF: make_classes, datasets.base.MULTI_CLF: make_classes}
    makers[datasets.base.REG] = make_numbers
    found: dict[str, Callable[[int], Stream | None]] = {}
    for name, kind in sorted(vars(datasets).items()):
        if not isinstance(kind, type) or not issubclass(kind, datasets.base.FileDataset):
            continue
        if issubclass(kind, datasets.base.RemoteDataset) or (data := kind()).task not in makers:
            continue
        x, _ = next(iter(data))
        if all(isinstance(value, int | float) for value in list_numbers(x)):
            found[name] = lambda n, name=name, data=data: take(makers[data.task], name, data, n)
    return found


def take(make: Callable, name: str, rows: Any, n: int) -> Stream:
    """Make a stream of the first rows of a dataset of river."""
    X, y = zip(*((list_numbers(x), label) for x, label in islice(rows, n)), strict=True)
    return make(name, X, y)


# ----------------------------------------------------------------------------------------------------------------------
# Simulated streams


def rotate_hyperplane(name: str, turn: float, n: int) -> Stream:
    """The label is the side of a plane in ten features, which turns evenly, by ``turn`` radians in all; 5 % are wrong."""
    rng = np.random.default_rng(SEED)
    X = rng.random((n, 10))
    first, second = np.linalg.qr(rng.normal(size=(10, 2)))[0].T
    angles = np.linspace(0, turn, n)
    normals = np.cos(angles)[:, None] * first + np.sin(angles)[:, None] * second
    sides = np.sum((X - 0.5) * normals, axis=1) > 0
    return make_classes(name, X, sides ^ (rng.random(n) < 0.05))


def simulate_sea(n: int) -> Stream:
    """SEA: whether two of three features are together below a threshold, which jumps at each quarter; 10 % are wrong."""
    rng = np.random.default_rng(SEED)
    X = rng.uniform(0, 10, (n, 3))
    below = X[:, 0] + X[:, 1] <= np.array([8.0, 9.0, 7.0, 9.5])[np.arange(n) * 4 // n]
    return make_classes("SEA", X, below ^ (rng.random(n) < 0.1))


def move_centroids(n: int) -> Stream:
    """Five classes around 50 centroids, all of which move all the time."""
    rows = synth.RandomRBFDrift(SEED, SEED, n_classes=5, n_features=10, n_centroids=50, change_speed=0.001)
    return take(make_classes, "moving RBF", rows, n)


def chain(name: str, parts: list, n: int) -> Stream:
    """Make a stream of generators of river, one after another."""
    streams = [
        take(make_numbers, name, part, len(rows)) for part, rows in zip(parts, split(n, len(parts)), strict=True)
    ]
    return make_classes(name, np.vstack([part.X for part in streams]), np.concatenate([part.y for part in streams]))


def split(n: int, n_parts: int) -> list[np.ndarray]:
    """Return the rows of parts of equal length."""
    return np.array_split(np.arange(n), n_parts)


def drift_leds(n: int) -> Stream:
    """Read digits from seven of 24 lights, 10 % of them wrong; at each quarter, more of them change places with lights that say nothing."""
    parts = [
        synth.LEDDrift(SEED + k, noise_percentage=0.1, irrelevant_features=True, n_drift_features=drifting)
        for k, drifting in enumerate((0, 3, 5, 7))
    ]
    return chain("LED", parts, n)


def change_loans(n: int) -> Stream:
    """Agrawal's loan applications, with another rule in each quarter; 5 % noise."""
    parts = [synth.Agrawal(classification_function=k, seed=SEED + k, perturbation=0.05) for k in range(4)]
    return chain("Agrawal", parts, n)


def drift_friedman(kind: str, n: int) -> Stream:
    """Friedman's function: changes in parts of space at each quarter (lea), of all at each third (gra), of all by and by (gsg)."""
    n_parts = 4 if kind == "lea" else 3
    position = tuple(int(part[0]) for part in split(n, n_parts)[1:])
    return take(make_numbers, f"Friedman {kind}", synth.FriedmanDrift(kind, position, n // 10, seed=SEED), n)


def simulate_friedman(n: int) -> Stream:
    """Friedman's function of ten features, of which five matter, without drift."""
    X, y, _ = make_friedman(n, 10, random_state=SEED)
    return make_numbers("Friedman", X, y)


def invert_label(n: int) -> Stream:
    """The label is the side of a wave in two of six features, and the other side from halfway on."""
    X = np.random.default_rng(SEED).random((n, 6))
    above = X[:, 1] > 0.5 + 0.3 * np.sin(2 * np.pi * X[:, 0])
    return make_classes("inverted label", X, above ^ (np.arange(n) >= n // 2))


def change_feature(n: int) -> Stream:
    """One of ten features decides, and another one from halfway on."""
    X = np.random.default_rng(SEED).random((n, 10))
    return make_classes("deciding feature", X, np.where(np.arange(n) < n // 2, X[:, 0], X[:, 1]) > 0.5)


STREAMS: dict[str, Callable[[int], Stream | None]] = {
    "Electricity": read_archive("Electricity", "stream_elec.npz"),
    "covtype": read_archive("covtype", "covtype.npz"),
    **find_shipped(),
    "hyperplane slow": lambda n: rotate_hyperplane("hyperplane slow", np.pi / 8, n),
    "hyperplane fast": lambda n: rotate_hyperplane("hyperplane fast", np.pi, n),
    "SEA": simulate_sea,
    "moving RBF": move_centroids,
    "LED": drift_leds,
    "Agrawal": change_loans,
    "inverted label": invert_label,
    "deciding feature": change_feature,
    "Friedman": simulate_friedman,
    **{f"Friedman {kind}": lambda n, kind=kind: drift_friedman(kind, n) for kind in ("lea", "gra", "gsg")},
}
