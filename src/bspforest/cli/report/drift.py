"""Find rises of the error along a stream, in logarithmic memory.

As in ADWIN (Bifet and Gavaldà, 2007), the errors since the last change are kept in buckets that get coarser with age, and at every
place between two buckets the mean before is compared with the mean after. Three things differ:

- Errors are averaged over blocks of rows, and the test uses the spread of these blocks and how much neighbouring ones resemble each
  other. A test for independent rows would find changes everywhere, since errors come in spells.
- The test uses square roots of absolute errors: outliers count less, and wrong predictions of classes, 0 or 1, stay as they are.
- Only a rise is marked. A fall, as while a model still learns, starts a new comparison and is not reported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK_ROWS = 32
BUCKETS_PER_SIZE = 8  # before two are merged into one of twice the size
MIN_BEFORE, MIN_AFTER = 10, 4  # blocks

# A variance known from n blocks counts as 1 + UNKNOWN / n times as large, so that few blocks do not seem certain by chance.
UNKNOWN = 10
# In standard errors. Measured on stationary errors: no mark in 36 million independent rows (classes that are wrong in 1, 10 and 40 %,
# normal errors, heavy tails) and in 6 million with a correlation of neighbours of 0.5; one in 6 million with 0.9, and one in 430,000
# of classes that are wrong in spells of some 20 rows. After 10,000 rows,
# a rise from 8 to 31 % is certain within 140 rows, one from 10 to 20 % within 500 (medians).
MIN_RISE = 5.0
MIN_RATIO = 1.2  # of the mean errors: a smaller rise may be certain, but matters little

# Columns of a bucket: sums over its blocks.
N, MEANS, SQUARED_MEANS, PRODUCTS, ERRORS = range(5)


class Drift(NamedTuple):
    """A rise of the error."""

    row: int  # the first row, counted from 1, after the rise
    noticed: int  # the row at which it was certain
    before: float  # mean absolute error, or share of wrong predictions, since the change before this one
    after: float  # the same from the rise until it was noticed


class DriftDetector:
    """Finds rises of the error.

    Attributes
    ----------
    drifts : list of Drift

    Examples
    --------
    >>> detector = DriftDetector()
    >>> rng = np.random.default_rng(0)
    >>> detector.add(rng.random(2000) < 0.1)
    >>> detector.add(rng.random(500) < 0.4)
    >>> [(drift.row, drift.noticed) for drift in detector.drifts]
    [(1985, 2112)]
    """

    def __init__(self) -> None:
        self.drifts: list[Drift] = []
        self._pending = np.empty(0)
        self._buckets = np.empty((0, 5))  # oldest first
        self._last_mean: float | None = None
        self._n_rows = 0  # in blocks

    def add(self, errors: np.ndarray) -> None:
        """Add errors of rows in order: differences of numbers, or whether a class was wrong."""
        pending = np.concatenate([self._pending, np.abs(np.asarray(errors, dtype=float))])
        n_blocks = len(pending) // BLOCK_ROWS
        blocks, self._pending = np.split(pending, [n_blocks * BLOCK_ROWS])
        for block in blocks.reshape(n_blocks, BLOCK_ROWS):
            self._add_block(block)

    def _add_block(self, errors: np.ndarray) -> None:
        roots = np.sqrt(errors)
        mean = roots.mean()
        last = mean if self._last_mean is None else self._last_mean
        block = [1.0, mean, mean**2, mean * last, errors.mean()]
        self._buckets, self._last_mean = np.vstack([self._buckets, block]), mean
        self._n_rows += BLOCK_ROWS
        self._merge()
        while (cut := self._find_cut()) is not None:
            place, has_risen = cut
            before, after = self._buckets[:place].sum(axis=0), self._buckets[place:].sum(axis=0)
            self._buckets = self._buckets[place:]
            if has_risen:
                first = self._n_rows - int(after[N]) * BLOCK_ROWS + 1
                levels = [float(side[ERRORS] / side[N]) for side in (before, after)]
                self.drifts.append(Drift(first, self._n_rows, *levels))

    def _merge(self) -> None:
        """Merge the two oldest buckets of a size, smallest size first, if there are too many of it."""
        size = 1.0
        while len(same := np.flatnonzero(self._buckets[:, N] == size)) > BUCKETS_PER_SIZE:
            first = same[0]
            self._buckets[first] += self._buckets[first + 1]
            self._buckets = np.delete(self._buckets, first + 1, axis=0)
            size *= 2

    def _find_cut(self) -> tuple[int, bool] | None:
        """Return the place with the clearest change, if it is certain, and whether it is a rise."""
        before = self._buckets.cumsum(axis=0)
        after = before[-1] - before
        places = np.flatnonzero((before[:, N] >= MIN_BEFORE) & (after[:, N] >= MIN_AFTER))
        if not len(places):
            return None
        before, after, total = before[places], after[places], before[-1]
        rises = after[:, MEANS] / after[:, N] - before[:, MEANS] / before[:, N]
        spread = _find_variance(before) * _find_persistence(before)
        calm = np.maximum(spread, _find_row_variance(total[None])) * (1 + UNKNOWN / before[:, N])
        # Of few rows after a cut, the spread may be small by chance; where errors are rare, it grows with their mean.
        new = np.maximum.reduce([calm, _find_variance(after), _find_row_variance(after)])
        scales = np.sqrt(calm / before[:, N] + new / after[:, N])
        sizes = np.divide(rises, scales, out=np.zeros_like(rises), where=scales > 1e-12 * np.abs(rises))
        # A rise that matters little is waited with: it may be the beginning of a slow one.
        levels = [side[:, ERRORS] / side[:, N] for side in (before, after)]
        sizes[(rises > 0) & (levels[1] < MIN_RATIO * levels[0])] = 0.0
        best = int(np.argmax(np.abs(sizes)))
        return (int(places[best]) + 1, bool(rises[best] > 0)) if abs(sizes[best]) > MIN_RISE else None


def _find_variance(sums: np.ndarray) -> np.ndarray:
    """Return the variance of the means of blocks."""
    n = sums[:, N]
    return np.maximum(sums[:, SQUARED_MEANS] - sums[:, MEANS] ** 2 / n, 0.0) / (n - 1)


def _find_row_variance(sums: np.ndarray) -> np.ndarray:
    """Return the variance that the means of blocks would have if rows were independent. (Errors are the squares of their roots.)"""
    n = sums[:, N]
    return np.maximum(sums[:, ERRORS] / n - (sums[:, MEANS] / n) ** 2, 0.0) / BLOCK_ROWS


def _find_persistence(sums: np.ndarray) -> np.ndarray:
    """Return the factor by which the variance of long means exceeds that of independent blocks.

    It is (1 + ρ) / (1 - ρ) for a correlation ρ of neighbouring blocks, less what it could be by chance.
    """
    n = sums[:, N]
    variance = sums[:, SQUARED_MEANS] / n - (sums[:, MEANS] / n) ** 2
    product = sums[:, PRODUCTS] / n - (sums[:, MEANS] / n) ** 2
    correlation = np.divide(product, variance, out=np.zeros_like(n), where=variance > 0) - 1 / np.sqrt(n)
    correlation = np.clip(correlation, 0.0, 0.8)
    return (1 + correlation) / (1 - correlation)
