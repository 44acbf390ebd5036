"""Sums of the numbers of columns, by whose means gaps are filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sums:
    """How many numbers of each column were learned, and their sum. They are never changed in place.

    Examples
    --------
    >>> numbers = np.array([[np.nan], [4.0], [6.0], [np.nan]])
    >>> sums, firsts = Sums.empty(1).fill(numbers)
    >>> numbers.ravel().tolist(), sums.means.tolist(), firsts
    ([4.0, 4.0, 6.0, 5.0], [5.0], {0: 4.0})
    """

    counts: np.ndarray
    totals: np.ndarray

    @classmethod
    def empty(cls, n_columns: int) -> Sums:
        """Return the sums of no numbers."""
        return cls(np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns))

    def append(self, counts: Sequence[int]) -> Sums:
        """Return the sums with further columns, of 0 in so many rows each."""
        return Sums(
            np.append(self.counts, np.array(counts, dtype=np.int64)), np.append(self.totals, np.zeros(len(counts)))
        )

    def drop(self, k: int) -> Sums:
        """Return the sums without column k."""
        return Sums(np.delete(self.counts, k), np.delete(self.totals, k))

    @property
    def means(self) -> np.ndarray:
        """The mean of each column; 0 where there are no numbers."""
        return self.totals / np.maximum(self.counts, 1)

    def fill(self, numbers: np.ndarray) -> tuple[Sums, dict[int, float]]:
        """Fill gaps, NaN, in place by the mean of the numbers above and before; return the sums with these numbers.

        Gaps before the first number of a column are filled by it, or by 0 if there is none. Also returns the first numbers of columns
        that had none before. Sums are cumulated in order, so that chunks of any size give the same ones, bit for bit.
        """
        if not numbers.size:
            return self, {}
        missing = np.isnan(numbers)
        totals = np.cumsum(np.vstack([self.totals, np.where(missing, 0.0, numbers)]), axis=0)[1:]
        counts = self.counts + np.cumsum(~missing, axis=0)
        fresh = np.flatnonzero((self.counts == 0) & ~missing.all(axis=0)).tolist()
        firsts = {k: float(numbers[np.argmin(missing[:, k]), k]) for k in fresh}
        if missing.any():
            before_any = np.array([firsts.get(k, 0.0) for k in range(numbers.shape[1])])
            numbers[missing] = np.where(counts > 0, totals / np.maximum(counts, 1), before_any)[missing]
        return Sums(counts[-1], totals[-1]), firsts
