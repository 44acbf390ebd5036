"""Bandwidth and ridge of joint values, chosen by held-out squared error.

The trees know no labels, so holding rows out means that their duals are 0: nothing is built again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .kernel_matrix import KernelMatrix, solve

# Multiples of the median time of the roots' cuts, and ridges, that are tried.
BANDWIDTHS = 2.5 * 2.0 ** np.arange(9)
RIDGES = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
FIRST = (3, 4)  # 20 and 0.3

# Five folds up to so many rows; for more, one fold of a fifth, of at most so many.
FEW_ROWS = 2_000
MOST_HELD_OUT = 4_000


class Choice(NamedTuple):
    """What was chosen: the bandwidth, the ridge, and the mean held-out squared error with them."""

    bandwidth: float
    ridge: float
    error: float


class HeldOut:
    """Held-out squared errors of joint values, for any bandwidth and ridge.

    Parameters
    ----------
    matrix : KernelMatrix
    slots : ndarray of int
        The rows of the matrix, oldest first.
    y, w : ndarray
        Labels and weights by slot.
    latest : bool
        Hold out the latest rows: a stream has a direction. Else random ones.
    rng : numpy.random.Generator
    poll : callable
        Called now and then; may raise.
    """

    def __init__(
        self,
        matrix: KernelMatrix,
        slots: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        *,
        latest: bool,
        rng: np.random.Generator,
        poll: Callable[[], None] = lambda: None,
    ) -> None:
        self.matrix, self.y, self.w = matrix, y, w
        self._poll = poll
        self._folds = list(self._make_folds(slots[w[slots] > 0], latest, rng))
        self._rows = np.concatenate(self._folds)
        self._known: dict[tuple[float, float], np.ndarray] = {}

    @staticmethod
    def _make_folds(slots: np.ndarray, latest: bool, rng: np.random.Generator) -> Iterator[np.ndarray]:
        n = len(slots)
        order = slots if latest else rng.permutation(slots)
        if n <= FEW_ROWS and not latest:
            yield from np.array_split(order, min(5, n))
        else:
            yield order[n - max(1, min(n // 5, MOST_HELD_OUT)) :]

    def errors(self, bandwidth: float, ridge: float) -> np.ndarray:
        """Return the squared error of each held-out row, summed over columns, times its weight over the mean weight."""
        key = bandwidth, ridge
        if key not in self._known:
            self.matrix.set_bandwidth(bandwidth)
            self._known[key] = np.concatenate([self._errors_of_fold(fold, ridge) for fold in self._folds])
        return self._known[key]

    def _errors_of_fold(self, fold: np.ndarray, ridge: float) -> np.ndarray:
        w = self.w.copy()
        w[fold] = 0.0
        mean, centred, diagonal = prepare(self.y, w, ridge)
        predicted = mean + self.matrix.multiply(solve(self.matrix, centred, diagonal, poll=self._poll))[fold]
        squares = np.sum((self.y[fold] - predicted) ** 2, axis=1)
        return squares * (self.w[fold] / self.w[self._rows].mean())


def prepare(y: np.ndarray, w: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weighted mean label, centred labels, and the diagonal to be added to the kernel, by slot."""
    total = w.sum()
    mean = (w @ y) / total if total > 0 else np.zeros(y.shape[1])
    with np.errstate(divide="ignore", over="ignore"):
        diagonal = np.where(w > 0, ridge / w, np.inf)
    return mean, y - mean, diagonal


def choose(
    held_out: HeldOut, unit: float, *, bandwidth: float | None, ridge: float | None, last: Choice | None = None
) -> Choice:
    """Search bandwidth and ridge, one at a time, from the last choice on. A number that is given is kept.

    ``unit`` is the median time of the roots' cuts. Of the ridges whose error is within one standard error of the best, in
    paired differences, the largest is taken: steadier.
    """
    bandwidths = BANDWIDTHS * unit if bandwidth is None else np.array([bandwidth])
    ridges = RIDGES if ridge is None else np.array([ridge])
    at = [0 if bandwidth is not None else FIRST[0], 0 if ridge is not None else FIRST[1]]
    if last is not None:
        at = [
            int(np.abs(np.log(bandwidths / last.bandwidth)).argmin()),
            int(np.abs(np.log(ridges / last.ridge)).argmin()),
        ]

    def error(place: list[int]) -> float:
        return float(held_out.errors(bandwidths[place[0]], ridges[place[1]]).mean())

    moved = True
    while moved:
        moved = False
        for axis, size in ((0, len(bandwidths)), (1, len(ridges))):
            for step in (1, -1):
                while 0 <= at[axis] + step < size:
                    further = [*at]
                    further[axis] += step
                    if not error(further) < error(at):
                        break
                    at, moved = further, True
    best = held_out.errors(bandwidths[at[0]], ridges[at[1]])
    while at[1] + 1 < len(ridges):
        gaps = held_out.errors(bandwidths[at[0]], ridges[at[1] + 1]) - best
        if gaps.mean() > gaps.std() / np.sqrt(len(gaps)):
            break
        at[1] += 1
    return Choice(float(bandwidths[at[0]]), float(ridges[at[1]]), error(at))
