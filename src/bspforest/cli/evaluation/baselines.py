"""What `evaluate` runs along the stream: the forest, and baselines. All see a chunk before its labels."""

from __future__ import annotations

import math
import re
import time
from typing import Any, Protocol

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from ... import BSPForestClassifier, BSPForestRegressor
from ..errors import CommandError, UsageError
from .scores import ClassScores, NumberScores, Scores

NAMES = ("mondrian", "river-arf", "hoeffding", "batch-rf-every-N", "no-change", "majority")


class Model(Protocol):
    """Learns chunks. For classification, labels are indices of classes, and predictions probabilities (n, classes)."""

    def learn(self, X: np.ndarray, y: np.ndarray) -> None: ...

    def predict(self, X: np.ndarray) -> np.ndarray: ...


class Forest:
    """A BSP forest."""

    def __init__(self, n_classes: int, **parameters: Any) -> None:
        self._n_classes = n_classes
        self.forest: Any = (BSPForestClassifier if n_classes else BSPForestRegressor)(**parameters)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        if self._n_classes and not hasattr(self.forest, "classes_"):
            self.forest.partial_fit(X, y, classes=np.arange(self._n_classes))
        else:
            self.forest.partial_fit(X, y)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.forest.predict_proba(X) if self._n_classes else self.forest.predict(X)


class Batch:
    """scikit-learn's random forest, fitted again on all rows so far every so many rows. It keeps all rows."""

    def __init__(self, n_classes: int, every: int, trees: int, seed: int, jobs: int | None) -> None:
        self._n_classes = n_classes
        kind = RandomForestClassifier if n_classes else RandomForestRegressor
        self._make = lambda: kind(n_estimators=trees, random_state=seed, n_jobs=jobs)
        self._every = every
        self._rows: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = math.inf

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        self._rows.append((X, y))
        self._waiting += len(X)
        if self._waiting >= self._every:
            self._waiting = 0
            self._model = self._make().fit(
                np.concatenate([X for X, _ in self._rows]), np.concatenate([y for _, y in self._rows])
            )

    def predict(self, X: np.ndarray) -> np.ndarray:
        if not self._n_classes:
            return self._model.predict(X)
        shares = np.zeros((len(X), self._n_classes))
        shares[:, self._model.classes_] = self._model.predict_proba(X)
        return shares


class River:
    """A model of river, which learns row by row."""

    def __init__(self, n_classes: int, kind: str, seed: int, trees: int) -> None:
        try:
            from river import forest, tree
        except ImportError as error:
            raise CommandError(f"--against {kind} needs river ({error}): pip install 'bspforest[river]'") from None
        self._n_classes = n_classes
        self._model: Any
        if kind == "river-arf":
            self._model = (forest.ARFClassifier if n_classes else forest.ARFRegressor)(n_models=trees, seed=seed)
        else:
            self._model = tree.HoeffdingTreeClassifier() if n_classes else tree.HoeffdingTreeRegressor()

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            self._model.learn_one(dict(enumerate(row)), label)

    def predict(self, X: np.ndarray) -> np.ndarray:
        rows = (dict(enumerate(row)) for row in X.tolist())
        if not self._n_classes:
            return np.array([self._model.predict_one(row) for row in rows], dtype=float)
        shares = np.zeros((len(X), self._n_classes))
        for k, row in enumerate(rows):
            for label, share in self._model.predict_proba_one(row).items():
                shares[k, label] = share
        return shares


class NoChange:
    """The last label it was told."""

    def __init__(self, n_classes: int) -> None:
        self._n_classes = n_classes

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        self._last = y[-1]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (
            np.tile(np.eye(self._n_classes)[self._last], (len(X), 1))
            if self._n_classes
            else np.full(len(X), self._last)
        )


class Majority:
    """The most frequent class so far, with the frequencies as probabilities; for numbers, their mean."""

    def __init__(self, n_classes: int) -> None:
        self._n_classes = n_classes
        self._sums = np.zeros(max(n_classes, 2))

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        self._sums += np.bincount(y, minlength=self._n_classes) if self._n_classes else [y.sum(), len(y)]

    def predict(self, X: np.ndarray) -> np.ndarray:
        if self._n_classes:
            return np.tile(self._sums / self._sums.sum(), (len(X), 1))
        return np.full(len(X), self._sums[0] / self._sums[1])


class Runner:
    """A model, its scores and the time it took."""

    def __init__(self, name: str, model: Model, n_classes: int, window: int) -> None:
        self.name, self.model = name, model
        self._n_classes = n_classes
        self.scores: Scores = ClassScores(window, n_classes) if n_classes else NumberScores(window)
        self.seconds = 0.0

    def step(self, X: np.ndarray, y: np.ndarray, *, first: bool) -> None:
        """Predict a chunk, then learn it. The first is only learned."""
        begun = time.perf_counter()
        said = None if first else self.model.predict(X)
        self.model.learn(X, y)
        self.seconds += time.perf_counter() - begun
        if said is None:
            return
        if isinstance(self.scores, ClassScores):
            best = said.argmax(axis=1)
            self.scores.add(y, best, None if isinstance(self.model, NoChange) else said)
        elif isinstance(self.scores, NumberScores):
            self.scores.add(y, said)


def make_baseline(name: str, n_classes: int, n_features: int, forest: dict[str, Any]) -> tuple[str, Model]:
    """A baseline by the name it has in ``--against``, and the name it has in the table."""
    trees, seed, jobs = forest["n_estimators"], forest["random_state"], forest["n_jobs"]
    if name == "mondrian":
        # Cuts in pairs of features come d - 1 times as often as along axes; so both forests have about as many leaves.
        scale = forest["budget_scale"] * max(n_features - 1, 1)
        return "Mondrian forest", Forest(n_classes, **{**forest, "cuts": "axes", "budget_scale": scale})
    if name in ("river-arf", "hoeffding"):
        shown = "river's adaptive random forest, 10 trees" if name == "river-arf" else "river's Hoeffding tree"
        return shown, River(n_classes, name, seed, 10)
    if name == "no-change":
        return "no change", NoChange(n_classes)
    if name == "majority":
        return "majority" if n_classes else "mean", Majority(n_classes)
    if found := re.fullmatch(r"batch-rf-every-([1-9]\d*)", name):
        every = int(found[1])
        return f"random forest, refitted every {every:,} rows", Batch(n_classes, every, trees, seed, jobs)
    raise UsageError(f"--against {name}: choose from {', '.join(NAMES)} (with a number for N)")
