"""Predict, then learn: one model along a stream, with its scores and its time."""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np

from .scores import ClassScores, NumberScores


class Model(Protocol):
    """What a `Runner` runs. It is given tables of pyarrow, or rows of numbers.

    For classification, labels are codes of classes, and predictions are probabilities of shape (rows, classes). A class that has
    not been learned has no column.
    """

    def learn(self, X: Any, y: np.ndarray) -> None:
        """Learn a chunk of rows."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict a chunk of rows."""


class Runner:
    """A model, its scores and the time it took.

    Parameters
    ----------
    name : str
        Name in tables and pictures.
    model : Model
    n_classes : int
        0 for regression.
    window : int
        Number of rows of the running score.
    gives_probabilities : bool
        Whether the predicted probabilities are meant as such. If not, they have no log loss.
    is_trivial : bool
        Whether the model looks at no feature: its curve may lie beyond those of others.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        n_classes: int,
        window: int,
        *,
        gives_probabilities: bool = True,
        is_trivial: bool = False,
    ) -> None:
        self.name, self.model, self.is_trivial = name, model, is_trivial
        self.scores: ClassScores | NumberScores
        self.scores = ClassScores(window, n_classes) if n_classes else NumberScores(window)
        self.seconds = 0.0
        self._gives_probabilities = gives_probabilities

    def step(self, X: Any, y: np.ndarray, *, first: bool) -> np.ndarray | None:
        """Predict a chunk, then learn and score it, and return the predictions. The first chunk is only learned."""
        predicted = self.run(X, y, first=first)
        if predicted is not None:
            self.score(y, predicted)
        return predicted

    def run(self, X: Any, y: np.ndarray, *, first: bool) -> np.ndarray | None:
        """Predict a chunk, then learn it, and return the predictions, which are not scored yet."""
        begun = time.perf_counter()
        predicted = None if first else self.model.predict(X)
        self.model.learn(X, y)
        self.seconds += time.perf_counter() - begun
        return predicted

    def score(self, y: np.ndarray, predicted: np.ndarray) -> None:
        """Score the predictions of a chunk."""
        if isinstance(self.scores, ClassScores):
            self.scores.add(y, predicted.argmax(axis=1), predicted if self._gives_probabilities else None)
        else:
            self.scores.add(y, predicted)
