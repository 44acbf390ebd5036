"""Errors of rows that are held out. The trees know no labels, so that only takes other duals: nothing is built again.

For one bandwidth, all ridges are tried in one run of conjugate gradients: with weights W, the systems W½ K W½ + λ I for different λ
have the same Krylov spaces, so their solutions are recurrences along the same directions (Jegerlehner, hep-lat/9612014). Only the
predictions at the rows held out are carried along.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from . import solver
from .calibration import COARSE, expand, find_calibration
from .columns import average
from .solver import MIN_DIAGONAL, KernelMatrix
from .steps import Steps

# How the rows came: in any order; in order of time, all at once; or as a stream.
Order = Literal["any", "time", "stream"]

# Five folds up to so many rows. For more, folds of a fifth, of at most so many rows: four for one label column, which are multiplied
# together, and two for more.
FEW_ROWS = 2_000
MAX_FOLD = 2_000
FOLDS, MANY_FOLDS = 5, (4, 2)

# Standard errors of the paired differences by which the error may grow for a larger ridge.
ALLOWED = 1.0

# Tolerance of solutions that are only compared, relative to others.
ROUGH = 3.0


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
    n_classes : int
        Of the label columns; 0 in regression.
    order : {"any", "time", "stream"}
        In order of time, blocks of neighbours are held out, the latest ones: the rows to predict later have no neighbours yet. Of a stream,
        some of the latest rows are, drawn at random: with the latest fifth as a whole, held-out rows are further from the others than the
        next row of a stream will be, and too large ridges are chosen. (Electricity, first 20,000: 0.912 instead of 0.899.)
    rng : numpy.random.Generator
    few_rows, n_folds, most : int or None
        Five folds up to so many rows; else so many folds of at most so many rows. None: as the constants say.
    """

    def __init__(
        self,
        slots: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        *,
        n_classes: int,
        order: Order,
        rng: np.random.Generator,
        few_rows: int | None = None,
        n_folds: int | None = None,
        most: int | None = None,
    ) -> None:
        slots = slots[w[slots] > 0]
        n_columns = y.shape[1]
        few_rows = FEW_ROWS if few_rows is None else few_rows
        n_folds = MANY_FOLDS[n_columns > 1] if n_folds is None else n_folds
        folds = make_folds(slots, order, rng, few_rows, n_folds, MAX_FOLD if most is None else most)
        self._n_classes = n_classes
        # Classes without rows have no part in probabilities: a forest that has just met a class decides as one that knew it.
        self._has_rows = expand(y[slots], n_classes).any(axis=0)
        # Standard errors of squared errors take the fourth power of labels, which may be 1e100.
        self.scale = 1.0 if n_classes else float(np.abs(y[slots]).max(initial=0.0)) or 1.0
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

    def errors(self, matrix: KernelMatrix, ridges: np.ndarray, rough: float) -> Steps[np.ndarray]:
        """Return the errors of the rows held out, for each ridge, in increasing order, and each row.

        They are squared errors, in units of ``scale`` squared and summed over columns, or log losses, times the row's weight over the mean
        weight. Small ridges take the most products. They are not tried, and have infinite errors, if the error rises before: a solution
        that is not reached yet is like one with a larger ridge. ``rough`` is their tolerance, relative to that of other solutions.
        """
        errors, _ = yield from self._predict(matrix, ridges, rough)
        return errors

    def errors_and_residuals(self, matrix: KernelMatrix, ridges: np.ndarray) -> Steps[tuple[np.ndarray, np.ndarray]]:
        """Return errors, as above, and for each ridge labels less predictions, in units of the labels."""
        errors, predicted = yield from self._predict(matrix, ridges, ROUGH)
        return errors, (self._y - self._means[self._columns] - predicted) * self.scale

    def _predict(self, matrix: KernelMatrix, ridges: np.ndarray, rough: float) -> Steps[tuple[np.ndarray, np.ndarray]]:
        run = ShiftedRun(self._goals, np.maximum(ridges / self._heaviest, MIN_DIAGONAL), rough)
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

    def find_error_of_mean(self) -> float:
        """Return the mean error of predicting the mean label, in units of the labels."""
        return self.average(self._lose(np.zeros_like(self._y)))

    def _lose(self, predicted: np.ndarray) -> np.ndarray:
        """Return the loss of each row, times its weight."""
        gaps = self._y - self._means[self._columns] - predicted
        if self._n_classes < 2:
            return np.sum(gaps**2, axis=1) * self.weights
        scores, y = (expand(columns, self._n_classes)[:, self._has_rows] for columns in (self._y - gaps, self._y))
        return find_calibration(scores, y, self.weights, COARSE)[1] * self.weights

    def _settle(self, solved: np.ndarray, predicted: np.ndarray, errors: np.ndarray) -> bool:
        """Note the errors of systems that are newly solved; return whether to stop."""
        for k in np.flatnonzero(solved & np.isinf(errors[:, 0])):
            errors[k] = self._lose(predicted[k])
        known = np.flatnonzero(np.isfinite(errors[:, 0]))
        if not len(known):
            return False
        by_ridge = errors[known].mean(axis=1)
        return bool(known[0] == 0 or by_ridge[0] > by_ridge.min())


def make_folds(
    slots: np.ndarray, order: Order, rng: np.random.Generator, few_rows: int, n_folds: int, most: int
) -> list[np.ndarray]:
    """Return rows that are held out together, all rows in folds, or some: drawn at random, or neighbours in time."""
    if len(slots) <= few_rows:
        return np.array_split(slots if order == "time" else rng.permutation(slots), min(FOLDS, len(slots)))
    size = min(len(slots) // FOLDS, most)
    if order != "any":
        slots = slots[-FOLDS * size :]
    drawn = slots[::-1] if order == "time" else rng.permutation(slots)
    return [drawn[k * size : (k + 1) * size] for k in range(n_folds)]


def pick_ridge(errors: np.ndarray, allowed: float = ALLOWED) -> int:
    """Return the number of the largest ridge whose error is not clearly larger than the best: steadier.

    ``errors`` are by ridge, in increasing order, and row. Clearly is by so many standard errors of the paired differences.
    """
    known = np.flatnonzero(np.isfinite(errors).all(axis=1))
    best = errors[known[errors[known].mean(axis=1).argmin()]]
    gaps = errors[known] - best
    standard_errors = gaps.std(axis=1) / np.sqrt(errors.shape[1])
    return int(known[gaps.mean(axis=1) <= allowed * standard_errors][-1])


class ShiftedRun:
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
