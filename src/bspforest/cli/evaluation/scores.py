"""Scores along a stream in constant memory: each chunk adds a vector of sums, from which the scores are computed."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

MAX_POINTS = 1_000  # of a curve; every other point is dropped when there are more


class Scores:
    """Scores of a model over all rows, over the latest ``window`` rows, and as a curve along the stream."""

    columns: tuple[str, ...]
    main: str
    is_root = False  # whether the main score is the square root of a mean, not a mean

    def __init__(self, window: int) -> None:
        self.window = window
        self.curve: list[tuple[int, float]] = []
        self._total: np.ndarray | None = None
        self._recent: deque[np.ndarray] = deque()
        self._n_recent = 0.0
        self._chunks_per_point = 1  # of the curve
        self._n_chunks = 0
        self._pieces: list[np.ndarray] = []  # rows and sum of the main score, of as many chunks each
        self._piece = np.zeros(2)

    def _add(self, sums: np.ndarray) -> None:
        self._total = sums if self._total is None else self._total + sums
        self._recent.append(sums)
        self._n_recent += sums[0]
        while self._n_recent - self._recent[0][0] >= self.window:
            self._n_recent -= self._recent.popleft()[0]
        self._n_chunks += 1
        self._piece = self._piece + sums[:2]
        if self._n_chunks % self._chunks_per_point == 0:
            self.curve.append((self.n_rows, self.recent()[self.main]))
            self._pieces.append(self._piece)
            self._piece = np.zeros(2)
            if len(self.curve) > MAX_POINTS:
                # Their number is odd: the last piece waits for its second half.
                pairs = zip(self._pieces[0:-1:2], self._pieces[1::2], strict=True)
                self._piece = self._pieces[-1]
                self._pieces = [first + second for first, second in pairs]
                self.curve = self.curve[1::2]
                self._chunks_per_point *= 2

    def draw_over(self, window: int) -> list[tuple[int, float]]:
        """Return the curve as it would be with a shorter window: rows, and the main score over the latest ones.

        Exact up to the rows between two points, a thousandth of the stream or a chunk.
        """
        if window >= self.window:
            return self.curve
        points: list[tuple[int, float]] = []
        latest: deque[np.ndarray] = deque()
        n_rows = n_latest = 0.0
        for piece in self._pieces:
            latest.append(piece)
            n_rows, n_latest = n_rows + piece[0], n_latest + piece[0]
            while n_latest - latest[0][0] >= window:
                n_latest -= latest.popleft()[0]
            n, total = np.sum(latest, axis=0)  # not by differences of sums: one of them may be infinite
            points.append((int(n_rows), math.sqrt(total / n) if self.is_root else float(total / n)))
        return points

    @property
    def n_rows(self) -> int:
        """Return the number of rows scored."""
        return 0 if self._total is None else int(self._total[0])

    def overall(self) -> dict[str, float]:
        """Return the scores over all rows."""
        return self._scores(self._total) if self._total is not None else dict.fromkeys(self.columns, math.nan)

    def recent(self) -> dict[str, float]:
        """Return the scores over the latest chunks that together have at least ``window`` rows."""
        return self._scores(np.sum(self._recent, axis=0)) if self._recent else self.overall()

    def _scores(self, sums: np.ndarray) -> dict[str, float]:
        raise NotImplementedError


class ClassScores(Scores):
    """Accuracy, log loss and Cohen's kappa.

    >>> scores = ClassScores(window=2, n_classes=2)
    >>> scores.add(np.array([0, 1, 1]), np.array([0, 1, 0]), np.array([[1.0, 0.0], [0.5, 0.5], [0.8, 0.2]]))
    >>> {name: round(value, 2) for name, value in scores.overall().items()}
    {'accuracy': 0.67, 'log loss': 0.77, 'kappa': 0.4}
    """

    columns = ("accuracy", "log loss", "kappa")
    main = "accuracy"

    def __init__(self, window: int, n_classes: int) -> None:
        super().__init__(window)
        self._n_classes = n_classes

    def add(self, truth: np.ndarray, predicted: np.ndarray, probabilities: np.ndarray | None) -> None:
        """Add a chunk: true classes, predicted classes, and the probability of each class (None: no log loss).

        A true class may be new: it has no probability.
        """
        self._widen(max(self._n_classes, int(truth.max()) + 1))
        loss = math.nan
        if probabilities is not None:
            least = np.finfo(float).eps  # as in scikit-learn's log_loss
            columns = np.pad(probabilities, ((0, 0), (0, self._n_classes - probabilities.shape[1])))
            given = columns[np.arange(len(truth)), truth] / np.maximum(probabilities.sum(axis=1), least)
            loss = -float(np.log(np.clip(given, least, 1.0)).sum())
        counts = [np.bincount(classes, minlength=self._n_classes) for classes in (truth, predicted)]
        self._add(np.concatenate([[len(truth), np.sum(truth == predicted), loss], *counts]))

    def _widen(self, n_classes: int) -> None:
        """Make room for the counts of more classes."""
        before, n_more = self._n_classes, n_classes - self._n_classes
        if n_more and self._total is not None:

            def widen(sums: np.ndarray) -> np.ndarray:
                return np.insert(sums, [3 + before] * n_more + [len(sums)] * n_more, 0.0)

            self._total = widen(self._total)
            self._recent = deque(map(widen, self._recent))
        self._n_classes = n_classes

    def _scores(self, sums: np.ndarray) -> dict[str, float]:
        n, right, loss = sums[:3]
        truth, predicted = sums[3 : 3 + self._n_classes], sums[3 + self._n_classes :]
        chance = float(truth @ predicted) / n**2
        kappa = (right / n - chance) / (1 - chance) if chance < 1 else math.nan
        return {"accuracy": float(right / n), "log loss": float(loss / n), "kappa": float(kappa)}


class NumberScores(Scores):
    """Root mean squared error, mean absolute error and R².

    >>> scores = NumberScores(window=2)
    >>> scores.add(np.array([1.0, 2.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    >>> {name: round(value, 2) for name, value in scores.overall().items()}
    {'RMSE': 1.73, 'MAE': 1.0, 'R²': 0.36}
    """

    columns = ("RMSE", "MAE", "R²")
    main = "RMSE"
    is_root = True
    _shift: float | None = None  # near the mean of the labels, against cancellation in the sum of squares

    def add(self, truth: np.ndarray, predicted: np.ndarray) -> None:
        """Add a chunk of true and predicted numbers."""
        if self._shift is None:
            self._shift = float(truth.mean())
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # squares of huge labels are infinite, and so are their scores
            error, moved = predicted - truth, truth - self._shift
            sums = [len(truth), (error**2).sum(), np.abs(error).sum(), moved.sum(), (moved**2).sum()]
        self._add(np.array(sums))

    def _scores(self, sums: np.ndarray) -> dict[str, float]:
        n, squares, absolute, total, total_squares = map(float, sums)
        spread = total_squares - total * total / n  # total**2 would raise an error where this is infinite
        r2 = 1 - squares / spread if spread > 1e-12 * total_squares and math.isfinite(squares + spread) else math.nan
        return {"RMSE": math.sqrt(squares / n), "MAE": absolute / n, "R²": r2}
