"""The models of an evaluation: the forest and its baselines."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from ... import BSPForestClassifier, BSPForestRegressor
from ...tables import TableEncoder, read_table
from ..errors import CommandError, UsageError
from ..formatting import format_count
from .runner import Model, Runner

NAMES = ("mondrian", "river-arf", "hoeffding", "batch-rf-every-N", "no-change", "majority")


def count_classes(known: int, y: np.ndarray) -> int:
    """Return the number of classes known once rows with these labels are learned; 0 for regression."""
    return max(known, int(y.max()) + 1) if known else 0


class ForestModel:
    """A BSP forest.

    Parameters
    ----------
    n_classes : int
        0 for regression.
    quantiles : sequence of float or None
        Quantiles of the labels that are predicted as well, in regression.
    **parameters
        Of the forest.

    Attributes
    ----------
    latest_quantiles : ndarray of shape (rows, quantiles) or None
        Those of the chunk predicted last.
    """

    def __init__(self, n_classes: int, *, quantiles: Sequence[float] | None = None, **parameters: Any) -> None:
        self._n_classes = n_classes
        self._quantiles = None if quantiles is None or n_classes else np.array(quantiles)
        self.latest_quantiles: np.ndarray | None = None
        self.forest: Any = (BSPForestClassifier if n_classes else BSPForestRegressor)(**parameters)

    def learn(self, X: Any, y: np.ndarray) -> None:
        before, self._n_classes = self._n_classes, count_classes(self._n_classes, y)
        if self._n_classes and not hasattr(self.forest, "classes_"):
            self.forest.partial_fit(X, y, classes=np.arange(self._n_classes))
        elif before < self._n_classes:
            self.forest._add_classes(np.arange(self._n_classes), np.arange(before), X, y)
        else:
            self.forest.partial_fit(X, y)

    def predict(self, X: Any) -> np.ndarray:
        if self._n_classes:
            return self.forest.predict_proba(X)
        if self._quantiles is None:
            return self.forest.predict(X)
        predicted, _, self.latest_quantiles = self.forest._predict_labels(X, False, self._quantiles)
        return predicted


class Encoding:
    """Encodes tables for models that need rows of numbers, as many in each: categories that come later have no feature."""

    def __init__(self) -> None:
        self._encoder: TableEncoder | None = None

    def encode(self, X: Any) -> np.ndarray:
        """Return the rows of a table; the first one is learned. Rows of numbers stay as they are."""
        if isinstance(X, np.ndarray):
            return X
        table = read_table(X)
        if self._encoder is None:
            self._encoder, rows = TableEncoder.begin(table, X.column_names).learn(table)
            return rows
        return self._encoder.transform(table)


class RefittedForest(Encoding):
    """scikit-learn's random forest, refitted from time to time on all rows so far, which it keeps in memory."""

    def __init__(self, n_classes: int, every: int, trees: int, seed: int, jobs: int | None) -> None:
        super().__init__()
        self._n_classes = n_classes
        kind = RandomForestClassifier if n_classes else RandomForestRegressor
        self._make = lambda: kind(n_estimators=trees, random_state=seed, n_jobs=jobs)
        self._every = every
        self._rows: list[tuple[np.ndarray, np.ndarray]] = []
        self._unfitted = math.inf  # rows since the last fit

    def learn(self, X: Any, y: np.ndarray) -> None:
        self._n_classes = count_classes(self._n_classes, y)
        self._rows.append((self.encode(X), y))
        self._unfitted += len(y)
        if self._unfitted >= self._every:
            self._unfitted = 0
            self._model = self._make().fit(*map(np.concatenate, zip(*self._rows, strict=True)))

    def predict(self, X: Any) -> np.ndarray:
        X = self.encode(X)
        if not self._n_classes:
            return self._model.predict(X)
        probabilities = np.zeros((len(X), self._n_classes))
        probabilities[:, self._model.classes_] = self._model.predict_proba(X)
        return probabilities


class RiverModel(Encoding):
    """A model from river, which learns row by row."""

    def __init__(self, n_classes: int, kind: str, seed: int, trees: int) -> None:
        super().__init__()
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

    def learn(self, X: Any, y: np.ndarray) -> None:
        self._n_classes = count_classes(self._n_classes, y)
        for row, label in zip(self.encode(X).tolist(), y.tolist(), strict=True):
            self._model.learn_one(dict(enumerate(row)), label)

    def predict(self, X: Any) -> np.ndarray:
        rows = [dict(enumerate(row)) for row in self.encode(X).tolist()]
        if not self._n_classes:
            return np.array([self._model.predict_one(row) for row in rows], dtype=float)
        probabilities = np.zeros((len(rows), self._n_classes))
        for k, row in enumerate(rows):
            for label, probability in self._model.predict_proba_one(row).items():
                probabilities[k, label] = probability
        return probabilities


class NoChange:
    """Predict the last label seen."""

    def __init__(self, n_classes: int) -> None:
        self._n_classes = n_classes

    def learn(self, X: Any, y: np.ndarray) -> None:
        self._n_classes = count_classes(self._n_classes, y)
        self._last = y[-1]

    def predict(self, X: Any) -> np.ndarray:
        if self._n_classes:
            return np.tile(np.eye(self._n_classes)[self._last], (len(X), 1))
        return np.full(len(X), self._last)


class Majority:
    """Predict the frequencies of the classes so far, or the mean of the numbers so far."""

    def __init__(self, n_classes: int) -> None:
        self._n_classes = n_classes
        self._sums = np.zeros(max(n_classes, 2))

    def learn(self, X: Any, y: np.ndarray) -> None:
        before, self._n_classes = self._n_classes, count_classes(self._n_classes, y)
        self._sums = np.pad(self._sums, (0, max(0, self._n_classes - max(before, 2))))
        self._sums += np.bincount(y, minlength=len(self._sums)) if self._n_classes else [y.sum(), len(y)]

    def predict(self, X: Any) -> np.ndarray:
        if self._n_classes:
            return np.tile(self._sums[: self._n_classes] / self._sums.sum(), (len(X), 1))
        return np.full(len(X), self._sums[0] / self._sums[1])


def make_baseline(name: str, n_classes: int, n_features: int, forest: dict[str, Any], window: int) -> Runner:
    """Return the runner of a baseline.

    Parameters
    ----------
    name : str
        One of `NAMES`, as in ``--against``.
    n_classes : int
        0 for regression.
    n_features : int
    forest : dict
        Parameters of the forest it is compared with.
    window : int
        Number of rows of the running score.
    """
    trees, seed, jobs = forest["n_estimators"], forest["random_state"], forest["n_jobs"]
    if name == "mondrian":
        # Mean values, as Mondrian forests have them. Cuts in pairs of features are d - 1 times as frequent as along axes: this
        # gives a BSP forest of means about as many leaves.
        scale = forest["budget_scale"] * max(n_features - 1, 1)
        model: Model = ForestModel(n_classes, **{**forest, "prediction": "mean", "cuts": "axes", "budget_scale": scale})
        return Runner("Mondrian forest", model, n_classes, window)
    if name in ("river-arf", "hoeffding"):
        shown = "river's adaptive random forest, 10 trees" if name == "river-arf" else "river's Hoeffding tree"
        return Runner(shown, RiverModel(n_classes, name, seed, 10), n_classes, window)
    if name == "no-change":
        return Runner("no change", NoChange(n_classes), n_classes, window, gives_probabilities=False, is_trivial=True)
    if name == "majority":
        return Runner("majority" if n_classes else "mean", Majority(n_classes), n_classes, window, is_trivial=True)
    if found := re.fullmatch(r"batch-rf-every-([1-9]\d*)", name):
        every = int(found[1])
        model = RefittedForest(n_classes, every, trees, seed, jobs)
        return Runner(f"random forest, refitted every {format_count(every, 'row')}", model, n_classes, window)
    raise UsageError(f"--against {name}: choose from {', '.join(NAMES)} (with a number for N)")
