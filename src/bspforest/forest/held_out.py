"""Errors of rows that are held out. The trees know no labels, so that only takes other duals: nothing is built again.

For one bandwidth, all ridges are tried in one run of conjugate gradients: with weights W, the systems W½ K W½ + λ I for different λ
have the same Krylov spaces, so their solutions are recurrences along the same directions (Jegerlehner, hep-lat/9612014). Only the
predictions at the rows held out are carried along.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import solver
from .columns import average
from .solver import MIN_DIAGONAL, KernelMatrix, solve_in_steps
from .steps import Steps

# Five folds up to so many rows; for more, one fold of a fifth, of at most so many.
FEW_ROWS = 2_000
MAX_HELD_OUT = 4_000

# Label columns that are tried; more are projected to so many. (Five bandwidths with the 26 classes of letter took 30 s.)
MAX_COLUMNS = 8

# Standard errors by which the error may grow for a larger ridge: in a batch, and in a stream, whose next rows are like the latest.
# (In a batch, one: flights in time order 35.9, dna with four components 0.900. Three: 35.2, 0.904; Friedman's function and the other
# sets as before. One standard error of the errors themselves is far more: Friedman's function with ten features 1.13 instead of 1.09,
# satimage 0.906 instead of 0.911. In a stream, one: Electricity 0.912. Three: 0.901.)
ALLOWED, ALLOWED_IN_STREAM = 3.0, 1.0

# Tolerance of solutions that are only compared, relative to others.
ROUGH = 3.0


def project(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return at most `MAX_COLUMNS` columns whose squared errors add up, in the mean, to those of all columns: random signed sums.

    Predictions are linear in the labels, so the error of a sum is the sum of the errors.
    """
    if y.shape[1] <= MAX_COLUMNS:
        return y
    signs = rng.choice([-1.0, 1.0], size=(y.shape[1], MAX_COLUMNS))
    return y @ (signs / np.sqrt(MAX_COLUMNS))


def center(y: np.ndarray, w: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weighted mean label, centred labels, and the diagonal to be added to the kernel, by slot."""
    mean = average(y, w)
    with np.errstate(divide="ignore", over="ignore"):
        diagonal = np.where(w > 0, np.maximum(ridge / w, MIN_DIAGONAL), np.inf)
    return mean, y - mean, diagonal


class HeldOut:
    """Rows that are held out in turn, fold by fold, and what the others predict for them.

    Parameters
    ----------
    slots : ndarray of int
        The rows to learn from and to hold out, oldest first.
    y, w : ndarray
        Labels and weights by slot.
    latest : bool
        Hold out some of the latest rows: a stream has a direction. They are drawn at random, as from the others: with the latest fifth
        as a whole, held-out rows are further from the others than the next row of a stream will be, and too large ridges are chosen.
        (Electricity, first 20,000: 0.912 instead of 0.899.)
    rng : numpy.random.Generator
    few_rows : int or None
        Five folds up to so many rows; None: `FEW_ROWS`.
    most : int or None
        Rows held out, at most, if there is one fold; None: `MAX_HELD_OUT`.
    """

    def __init__(
        self,
        slots: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        *,
        latest: bool,
        rng: np.random.Generator,
        few_rows: int | None = None,
        most: int | None = None,
    ) -> None:
        self._allowed = ALLOWED_IN_STREAM if latest else ALLOWED
        slots = slots[w[slots] > 0]
        few_rows = FEW_ROWS if few_rows is None else few_rows
        folds = list(self._make_folds(slots, latest, rng, few_rows, MAX_HELD_OUT if most is None else most))
        n_columns = y.shape[1]
        # Standard errors of squared errors take the fourth power of labels, which may be 1e100.
        self.scale = float(np.abs(y[slots]).max(initial=0.0)) or 1.0
        self._heaviest = float(w[slots].max())
        y, w = y / self.scale, w / self._heaviest
        self.rows = np.concatenate(folds)
        self.weights = w[self.rows] / w[self.rows].mean()
        self._y = y[self.rows]
        # One system per fold and column. Rows that take no part have a root of 0.
        self._columns = np.repeat(np.arange(len(folds)), [len(fold) for fold in folds])[:, None] * n_columns
        self._columns = self._columns + np.arange(n_columns)
        self._roots = np.zeros((len(w), len(folds) * n_columns))
        self._goals = np.zeros_like(self._roots)
        self._means = np.zeros(len(folds) * n_columns)
        for f, fold in enumerate(folds):
            inside = np.zeros(len(w))
            inside[slots] = w[slots]
            inside[fold] = 0.0
            own = slice(f * n_columns, (f + 1) * n_columns)
            self._means[own] = average(y, inside)
            self._roots[:, own] = np.sqrt(inside)[:, None]
            self._goals[:, own] = self._roots[:, own] * (y - self._means[own])

    @staticmethod
    def _make_folds(
        slots: np.ndarray, latest: bool, rng: np.random.Generator, few_rows: int, most: int
    ) -> Iterator[np.ndarray]:
        if latest:
            slots = slots[-5 * most :]
        order, n = rng.permutation(slots), len(slots)
        if n <= few_rows:
            yield from np.array_split(order, min(5, n))
        else:
            yield order[: min(n // 5, most)]

    def errors(self, matrix: KernelMatrix, ridges: np.ndarray) -> Steps[np.ndarray]:
        """Return the squared errors of the rows held out, for each ridge, in increasing order, and each row.

        They are in units of ``scale`` squared, summed over columns, and times the row's weight over the mean weight. Small ridges
        take the most products. They are not tried, and have infinite errors, if the error rises before: a solution that is not
        reached yet is like one with a larger ridge.
        """
        errors, _ = yield from self._predict(matrix, ridges)
        return errors

    def residuals(self, matrix: KernelMatrix, ridge: float) -> Steps[np.ndarray]:
        """Return the labels of the rows held out less their predictions, in units of the labels."""
        _, predicted = yield from self._predict(matrix, np.array([ridge]), ROUGH)
        return (self._y - self._means[self._columns] - predicted[0]) * self.scale

    def _predict(
        self, matrix: KernelMatrix, ridges: np.ndarray, rough: float = 1.0
    ) -> Steps[tuple[np.ndarray, np.ndarray]]:
        run = _ShiftedRun(self._goals, np.maximum(ridges / self._heaviest, MIN_DIAGONAL), rough)
        predicted = np.zeros((len(ridges), *self._y.shape))
        ahead = np.zeros_like(predicted)  # what the next step would add
        product = last = np.zeros_like(self._y)
        errors = np.full((len(ridges), len(self.rows)), np.inf)
        for _ in range(solver.MAX_PRODUCTS):
            if self._settle(run.is_solved, predicted, errors):
                break
            yield matrix.count_work(self._roots.shape[1])
            full = matrix.multiply(self._roots * run.p)
            last, product = product, full[self.rows[:, None], self._columns]
            # The directions of the shifted systems are combinations of residuals, so their products are, too.
            of_residual = product - run.beta[self._columns] * last
            ahead = run.zeta[:, self._columns] * of_residual + run.betas[:, self._columns] * ahead
            run.advance(self._roots * full)
            predicted += run.alphas[:, self._columns] * ahead
        else:
            self._settle(np.ones(len(ridges), bool), predicted, errors)
        return errors, predicted

    def average(self, errors: np.ndarray) -> float:
        """Return the mean of errors in units of the labels."""
        return float(errors.mean()) * self.scale**2

    def errors_of(
        self, matrix: KernelMatrix, ridge: float, start: np.ndarray | None
    ) -> Steps[tuple[np.ndarray, np.ndarray]]:
        """Return the errors for one ridge, with a single fold, and the duals, searched from ``start`` on."""
        n_columns = self._y.shape[1]
        roots = self._roots[:, 0]
        with np.errstate(divide="ignore"):
            diagonal = np.where(roots > 0, np.maximum(ridge / self._heaviest / roots**2, MIN_DIAGONAL), np.inf)
        y = np.divide(self._goals, self._roots, out=np.zeros_like(self._goals), where=self._roots > 0)[:, :n_columns]
        tolerance = ROUGH * solver.TOLERANCE
        duals = yield from solve_in_steps(matrix, y, diagonal, start=start, tolerance=tolerance)
        predicted = self._means[:n_columns] + matrix.multiply(duals)[self.rows]
        return np.sum((self._y - predicted) ** 2, axis=1) * self.weights, duals

    def pick_ridge(self, errors: np.ndarray) -> int:
        """Return the largest ridge whose error is not clearly larger than the best: steadier.

        ``errors`` are by ridge, in increasing order, and row. Clearly is by so many standard errors of the paired differences.
        """
        known = np.flatnonzero(np.isfinite(errors).all(axis=1))
        best = errors[known[errors[known].mean(axis=1).argmin()]]
        gaps = errors[known] - best
        standard_errors = gaps.std(axis=1) / np.sqrt(errors.shape[1])
        return int(known[gaps.mean(axis=1) <= self._allowed * standard_errors][-1])

    def _settle(self, solved: np.ndarray, predicted: np.ndarray, errors: np.ndarray) -> bool:
        """Note the errors of systems that are newly solved; return whether to stop."""
        means = self._means[self._columns]
        for k in np.flatnonzero(solved & np.isinf(errors[:, 0])):
            errors[k] = np.sum((self._y - means - predicted[k]) ** 2, axis=1) * self.weights
        known = np.flatnonzero(np.isfinite(errors[:, 0]))
        if not len(known):
            return False
        by_ridge = errors[known].mean(axis=1)
        return bool(known[0] == 0 or by_ridge[0] > by_ridge.min())


class _ShiftedRun:
    """Conjugate gradients for A + λ with the smallest λ, and the coefficients of those for all λ.

    Attributes
    ----------
    p : ndarray of shape (slots, systems)
        The direction whose product with A is wanted.
    beta, betas, zeta, alphas : ndarray
        Coefficients by system, all but the first also by λ: the direction is the residual (times zeta) plus beta times the last one,
        and the step along it alpha.
    """

    def __init__(self, goals: np.ndarray, ridges: np.ndarray, rough: float) -> None:
        self._ridge = ridges[0]
        self._shifts = (ridges - ridges[0])[:, None]
        self._residual = goals.copy()
        self.p = goals.copy()
        n = goals.shape[1]
        self._rho = np.sum(goals**2, axis=0)
        self._goal = rough * solver.TOLERANCE * np.sqrt(self._rho)
        self.beta, self.betas = np.zeros(n), np.zeros((len(ridges), n))
        self.zeta, self._before = np.ones((len(ridges), n)), np.ones((len(ridges), n))
        self.alphas = np.zeros((len(ridges), n))
        self._alpha = np.ones(n)

    @property
    def is_solved(self) -> np.ndarray:
        """Whether the systems of each λ are solved."""
        return (np.abs(self.zeta) * np.sqrt(self._rho) <= self._goal).all(axis=1)

    def advance(self, product: np.ndarray) -> None:
        """Take a step, given the product of A with ``p``."""
        q = product + self._ridge * self.p
        curvature = np.sum(self.p * q, axis=0)
        alpha = _divide(self._rho, curvature)
        bottom = alpha * self.beta * (self._before - self.zeta) + self._before * self._alpha * (
            1.0 + self._shifts * alpha
        )
        zeta = _divide(self.zeta * self._before * self._alpha, bottom)
        growth = _divide(zeta, self.zeta)
        self.alphas = alpha * growth
        self._residual -= alpha * q
        rho = np.sum(self._residual**2, axis=0)
        self.beta = _divide(rho, self._rho)
        self.betas = self.beta * growth**2
        self._before, self.zeta = self.zeta, zeta
        self._alpha, self._rho = alpha, rho
        self.p = self._residual + self.beta * self.p


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, and 0 where b is 0 or too small to matter: systems that are solved stay as they are."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape)), where=np.abs(b) > 1e-200)
