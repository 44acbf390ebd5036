"""What a report needs of a stream, noted chunk by chunk in constant memory. All of it is about predictions made before learning."""

from __future__ import annotations

import math

import numpy as np

from .drift import DriftDetector

BINS = 20  # of the probability of the predicted class
LEVELS = (0.5, 0.8, 0.9)  # of central intervals
QUANTILES = tuple(sorted(round(0.5 + sign * level / 2, 6) for level in LEVELS for sign in (-1, 1)))
MAX_PERIODS = 64
SAMPLE_ROWS = 10_000


class ClassNotes:
    """Notes on the classification of a stream.

    Attributes
    ----------
    confusion : ndarray of int of shape (n_classes, n_classes)
        Rows by true class, then by predicted class, both by code.
    bins : ndarray of shape (BINS, 3)
        Rows, the sum of the probabilities of the predicted classes, and correct predictions, by that probability.
    detector : DriftDetector
    n_first : int
        Rows at the beginning that were learned without being predicted.
    """

    def __init__(self) -> None:
        self.n_first = 0
        self.confusion = np.zeros((0, 0), dtype=np.int64)
        self.bins = np.zeros((BINS, 3))
        self.detector = DriftDetector()

    def add(self, truth: np.ndarray, probabilities: np.ndarray) -> None:
        """Add a chunk: true classes, and the probability of each class. A true class may be new and have none."""
        predicted = probabilities.argmax(axis=1)
        n = max(len(self.confusion), probabilities.shape[1], int(truth.max()) + 1)
        self.confusion = np.pad(self.confusion, (0, n - len(self.confusion)))
        np.add.at(self.confusion, (truth, predicted), 1)
        sureness = probabilities.max(axis=1)
        places = np.clip((sureness * BINS).astype(int), 0, BINS - 1)
        is_right = truth == predicted
        np.add.at(self.bins, places, np.column_stack([np.ones(len(truth)), sureness, is_right]))
        self.detector.add(~is_right)

    @property
    def calibration_error(self) -> float:
        """Return how far stated probabilities are from shares of correct predictions: the mean over rows of their bins' gaps."""
        return float(np.abs(self.bins[:, 1] - self.bins[:, 2]).sum() / self.bins[:, 0].sum())

    @property
    def chance_error(self) -> float:
        """Return the calibration error that true probabilities would have, about, since bins have few rows."""
        n, sure = self.bins[self.bins[:, 0] > 0, :2].T
        return float(np.sqrt(2 / math.pi * np.maximum(sure - sure**2 / n, 0.0)).sum() / n.sum())

    @property
    def majority(self) -> tuple[int, float]:
        """Return the code and the share of the most frequent class."""
        counts = self.confusion.sum(axis=1)
        return int(counts.argmax()), float(counts.max() / counts.sum())


class NumberNotes:
    """Notes on the regression of a stream.

    Attributes
    ----------
    coverage : Periods
        Rows in the intervals of each of LEVELS, and the width of the widest, over time.
    sample : Sample
        Labels and predictions.
    detector : DriftDetector
    n_first : int
        Rows at the beginning that were learned without being predicted.
    """

    def __init__(self) -> None:
        self.n_first = 0
        self.coverage = Periods(len(LEVELS) + 1)
        self.sample = Sample()
        self.detector = DriftDetector()
        self._n_rows, self._surplus = 0, 0.0

    def add(self, truth: np.ndarray, predicted: np.ndarray, quantiles: np.ndarray) -> None:
        """Add a chunk: labels, predictions, and quantiles at QUANTILES."""
        columns = []
        for k in reversed(range(len(LEVELS))):  # the innermost interval first, as in LEVELS
            columns.append((quantiles[:, k] <= truth) & (truth <= quantiles[:, -1 - k]))
        self.coverage.add(np.column_stack([*columns, quantiles[:, -1] - quantiles[:, 0]]))
        self.sample.add(np.column_stack([truth, predicted]))
        self.detector.add(predicted - truth)
        self._n_rows += len(truth)
        self._surplus += float((predicted - truth).sum())

    @property
    def bias(self) -> float:
        """Return the mean of prediction minus label."""
        return self._surplus / self._n_rows if self._n_rows else math.nan


class Periods:
    """Means over periods of a stream, all of the same number of rows, which doubles when there are too many.

    >>> periods = Periods(1)
    >>> periods.add(np.arange(100.0)[:, None])
    >>> periods.width, periods.list_means()[0], periods.list_means()[-1]
    (2, (2, array([0.5])), (100, array([98.5])))
    """

    def __init__(self, n_columns: int) -> None:
        self.width = 1  # rows of a period
        self._sums = np.zeros((MAX_PERIODS, n_columns))
        self._n_rows = 0

    def add(self, values: np.ndarray) -> None:
        """Add rows of numbers."""
        while self._n_rows + len(values) > self.width * MAX_PERIODS:
            pairs = self._sums.reshape(MAX_PERIODS // 2, 2, -1).sum(axis=1)
            self._sums = np.concatenate([pairs, np.zeros_like(pairs)])
            self.width *= 2
        np.add.at(self._sums, (self._n_rows + np.arange(len(values))) // self.width, values)
        self._n_rows += len(values)

    def list_means(self) -> list[tuple[int, np.ndarray]]:
        """Return the last row, counted from 1, and the means of each period."""
        ends = [min((k + 1) * self.width, self._n_rows) for k in range(-(-self._n_rows // self.width))]
        return [(end, self._sums[k] / (end - k * self.width)) for k, end in enumerate(ends)]

    @property
    def mean(self) -> np.ndarray:
        """Return the means over all rows."""
        return self._sums.sum(axis=0) / max(self._n_rows, 1)


class Sample:
    """A uniform sample of rows, at most SAMPLE_ROWS: those with the smallest of random keys, which are the same in every run."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._keys, self._rows = np.empty(0), np.empty((0, 2))
        self._limit = math.inf  # larger keys are no longer among the smallest
        self.n_seen = 0

    def add(self, rows: np.ndarray) -> None:
        """Add rows of two numbers."""
        self.n_seen += len(rows)
        keys = self._rng.random(len(rows))
        chosen = keys < self._limit
        if chosen.any():
            self._keys = np.concatenate([self._keys, keys[chosen]])
            self._rows = np.concatenate([self._rows, rows[chosen]])
        if len(self._keys) > 2 * SAMPLE_ROWS:
            self._shrink()

    def _shrink(self) -> None:
        kept = np.sort(np.argpartition(self._keys, SAMPLE_ROWS)[:SAMPLE_ROWS])
        self._keys, self._rows = self._keys[kept], self._rows[kept]
        self._limit = float(self._keys.max())

    @property
    def rows(self) -> np.ndarray:
        """Return the sample, in the order of the stream."""
        if len(self._keys) > SAMPLE_ROWS:
            self._shrink()
        return self._rows
