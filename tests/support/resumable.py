"""Streams with joint values that can be resumed at any row. Run as a program, which saves after every row until it is killed."""

from __future__ import annotations

import sys
from itertools import cycle

import numpy as np

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.files import Saver

KINDS = ("regression", "two outputs", "two classes", "three classes")
FIRST, LAST = 60, 260


def make_stream(kind: str):
    """Return rows and labels."""
    rng = np.random.default_rng(5)
    X = rng.random((LAST, 3))
    y = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=LAST)
    if kind == "two outputs":
        return X, np.stack([y, 10.0 * X[:, 2]], axis=1)
    if kind == "regression":
        return X, y
    return X, np.digitize(y, [0.8] if kind == "two classes" else [0.5, 1.0])


def start(kind: str, window: int | None):
    """Return a forest that has learned the first rows."""
    X, y = make_stream(kind)
    estimator = BSPForestClassifier if "classes" in kind else BSPForestRegressor
    forest = estimator(10, prediction="ridge", window=window, random_state=2)
    return forest.partial_fit(X[:FIRST], y[:FIRST], **({"classes": np.unique(y)} if "classes" in kind else {}))


def step(forest, kind: str, k: int) -> None:
    """Learn row k, and now and then forget some rows before."""
    X, y = make_stream(kind)
    if k % 40 == 0:
        forest.forget(forest.held_rows().ids[3:6])
    forest.partial_fit(X[k : k + 1], y[k : k + 1])


def main() -> None:
    path, kind, window = sys.argv[1], sys.argv[2], int(sys.argv[3]) or None
    with Saver(path) as saver:
        for _ in cycle([0]):  # until killed
            forest = start(kind, window)
            for k in range(FIRST, LAST):
                step(forest, kind, k)
                saver.save(forest, {"next": k + 1})


if __name__ == "__main__":
    main()
