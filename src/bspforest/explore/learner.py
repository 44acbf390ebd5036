"""A forest that learns the rows of a session, with the errors of predictions made before each row was learned."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..estimators import BSPForestClassifier, BSPForestRegressor
from ..forest.budgets import Answers, answer_at, list_cut_times

# Rows of the running error.
ERROR_ROWS = 100


class Row(NamedTuple):
    """A row of the plane. In classification, the label is the number of a class."""

    x: float
    y: float
    label: float


class Model(NamedTuple):
    """What a panel shows: a kind of cuts, and a prediction rule."""

    title: str
    cuts: str
    prediction: str


MODELS = {
    "bsp-ridge": Model("BSP forest, ridge", "pairs", "ridge"),
    "bsp-mean": Model("BSP forest, means", "pairs", "mean"),
    "mondrian-ridge": Model("Mondrian forest, ridge", "axes", "ridge"),
    "mondrian-mean": Model("Mondrian forest, means", "axes", "mean"),
}


@dataclass
class HonestErrors:
    """The running error of one model: of each row as it was predicted before it was learned.

    Attributes
    ----------
    curve : list of (int, float)
        Rows arrived, and the error over the latest `ERROR_ROWS` predictions by then.
    """

    is_classifier: bool
    curve: list[tuple[int, float]] = field(default_factory=list)
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=ERROR_ROWS))

    def add(self, predicted: float, label: float, n_arrived: int) -> None:
        """Note a prediction and the label that came: the ``n_arrived``-th row."""
        self.recent.append(float(predicted != label) if self.is_classifier else (predicted - label) ** 2)
        self.curve.append((n_arrived, self.latest))

    @property
    def latest(self) -> float:
        """The error rate, or the root mean squared error, of the latest predictions; NaN if there are none."""
        if not self.recent:
            return math.nan
        mean = math.fsum(self.recent) / len(self.recent)
        return mean if self.is_classifier else math.sqrt(mean)


class Learner:
    """A forest in the plane, and its errors.

    Parameters
    ----------
    model : Model
    classes : int
        Number of classes; 0 in regression.
    errors : HonestErrors
        Continued, if the model was shown before.
    n_trees, seed, window
        As for the estimators.
    """

    def __init__(
        self, model: Model, classes: int, errors: HonestErrors, *, n_trees: int, seed: int, window: int | None
    ) -> None:
        # Rows leave by the window alone. Scaled by ranges, cuts are straight in the units of the features; by ranks, they would be bent.
        parameters: dict[str, Any] = {"cuts": model.cuts, "prediction": model.prediction, "scaling": "minmax"}
        parameters |= {"random_state": seed, "window": window, "n_jobs": -1, "half_life": None}
        if model.prediction == "ridge":
            parameters["min_samples_split"] = 2  # with few rows on a page, every cut is to be seen
        self.model = model
        self.errors = errors
        self.classes = np.arange(classes)
        estimator = BSPForestClassifier if classes else BSPForestRegressor
        self.forest: Any = estimator(n_trees, **parameters)
        self._times: list[np.ndarray] | None = None

    @property
    def n_held(self) -> int:
        return self.forest.n_samples_ if hasattr(self.forest, "_forest") else 0

    def learn(self, rows: Sequence[Row], ids: Sequence[int]) -> None:
        """Learn rows, with their numbers in the session as keys."""
        if not rows:
            return
        self._times = None
        table = np.array(rows)
        more = {"classes": self.classes} if len(self.classes) else {}
        labels = table[:, 2].astype(int) if len(self.classes) else table[:, 2]
        self.forest.partial_fit(table[:, :2], labels, keys=list(ids), **more)

    def predict_then_learn(self, row: Row, number: int, n_arrived: int) -> None:
        """Predict a row, note the error, and learn it. A forest without rows predicts nothing."""
        if self.n_held:
            self.errors.add(float(self.forest.predict([row[:2]])[0]), row.label, n_arrived)
        self.learn([row], [number])

    def forget(self, number: int) -> None:
        """Forget the row of this number in the session."""
        self._times = None
        self.forest.forget(keys=number)

    def answer(self, X: np.ndarray, time: float, tree: int | None = None, *, with_stds: bool = True) -> Answers:
        """Return what the forest, or one of its trees, says of places at a budget; at an infinite one, what it predicts."""
        forest = self.forest
        if tree is not None or math.isfinite(time):
            return forest._read(lambda: answer_at(forest._forest, X, time, tree, with_stds=with_stds))
        if len(self.classes):
            return Answers(forest.predict_proba(X), np.empty(0))
        if with_stds:
            return Answers(*forest.predict(X, return_std=True))
        return Answers(forest.predict(X), np.empty(0))

    @property
    def cut_times(self) -> list[np.ndarray]:
        """The times of the cuts of each tree, sorted."""
        if not self.n_held:
            return []
        if self._times is None:
            forest = self.forest
            self._times = forest._read(lambda: list_cut_times(forest._forest))
        return self._times

    def count_leaves(self, time: float, tree: int | None = None) -> float:
        """Return the leaves of a tree, or the mean number over trees, at a budget."""
        times = self.cut_times if tree is None else self.cut_times[tree : tree + 1]
        counts = [1 + int(np.searchsorted(cuts, time, side="right")) for cuts in times]
        return sum(counts) / len(counts) if counts else 0.0
