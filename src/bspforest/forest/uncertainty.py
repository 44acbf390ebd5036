"""How far off predictions are, learned from out-of-sample residuals: standard deviations, quantiles, calibrated probabilities.

An out-of-sample residual is a label less what was predicted without it: when the row arrived in a stream, or held out in a batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .columns import average
from .held_out import ROUGH, HeldOut
from .means import weighted_quantiles
from .solver import TOLERANCE, KernelMatrix, solve_in_steps
from .steps import Steps

# The ridge for squared residuals, which are noisier than labels: so many times that of the labels, and at least this.
RIDGE_FACTOR, MIN_RIDGE = 10.0, 10.0

# No variance is less than this share of their mean.
MIN_VARIANCE = 0.05

# Five folds up to so many rows times label columns; for more, one fold of a fifth, of at most so many rows.
FEW_ENTRIES = 10_000
MAX_HELD_OUT = 20_000

# Trees that predict rows held out, and that smooth squared residuals.
HONEST_TREES = 50
SMOOTHING_TREES = 32

# Residuals that must be known, as a share of the rows, for none to be found by holding rows out.
KNOWN_SHARE = 0.2

# Rows, the latest, that probabilities are calibrated with.
MAX_CALIBRATED = 5_000

TEMPERATURES = np.geomspace(0.2, 2.0, 24)
MIN_SCORES = np.array([0.001, 0.003, 0.01, 0.03, 0.1])


class Calibration(NamedTuple):
    """How scores of least squares become probabilities: proportional to max(score, least) to the power of 1 / temperature."""

    temperature: float = 1.0
    least: float = 0.001

    def apply(self, scores: np.ndarray, n_classes: int) -> np.ndarray:
        """Return class probabilities."""
        if n_classes == 1:
            return np.ones((len(scores), 1))
        scores = expand(scores, n_classes)
        raised = np.maximum(scores, self.least) / np.maximum(scores.max(axis=1, keepdims=True), self.least)
        raised **= 1.0 / self.temperature
        return raised / raised.sum(axis=1, keepdims=True)


def expand(scores: np.ndarray, n_classes: int) -> np.ndarray:
    """Return one score per class; of two classes there is only that of the second."""
    return np.concatenate([1.0 - scores, scores], axis=1) if n_classes == 2 else scores


def calibrate(scores: np.ndarray, y: np.ndarray, w: np.ndarray, n_classes: int) -> Calibration:
    """Return the calibration with the least log loss for out-of-sample scores of rows, given their label columns.

    Few rows tell little of temperatures far from 1, so there is a penalty on their logarithm, worth two rows.
    """
    if n_classes < 2 or not w.sum() > 0:
        return Calibration()
    scores, codes = expand(scores, n_classes), expand(y, n_classes).argmax(axis=1)
    rows, total = np.arange(len(scores)), w.sum()
    best, found = np.inf, Calibration()
    for least in MIN_SCORES:
        logs = np.log(np.maximum(scores, least))
        logs -= logs.max(axis=1, keepdims=True)
        for temperature in TEMPERATURES:
            heights = logs / temperature
            loss = w @ (np.log(np.exp(heights).sum(axis=1)) - heights[rows, codes]) / total
            loss += 2.0 * np.log(temperature) ** 2 / len(scores)
            if loss < best:
                best, found = loss, Calibration(float(temperature), float(least))
    return found


def find_residuals(
    matrix: KernelMatrix,
    slots: np.ndarray,
    y: np.ndarray,
    w: np.ndarray,
    ridge: float,
    *,
    latest: bool,
    seed: list[int],
) -> Steps[tuple[np.ndarray, np.ndarray]]:
    """Return slots of rows, and their residuals with these rows held out, in folds."""
    few = FEW_ENTRIES // y.shape[1]
    rng = np.random.default_rng(seed)
    held_out = HeldOut(slots, y, w, latest=latest, rng=rng, few_rows=few, most=MAX_HELD_OUT)
    residuals = yield from held_out.residuals(matrix.first(HONEST_TREES), ridge)
    return held_out.rows, residuals


def find_stds(matrix: KernelMatrix, residuals: np.ndarray, w: np.ndarray, ridge: float) -> Steps[np.ndarray]:
    """Return the root of the expected squared residual near each row, by slot and column: squares are smoothed by the forest.

    Residuals are by slot, NaN where they are not known; NaN is returned if too few are.
    """
    known = np.isfinite(residuals).all(axis=1) & (w > 0)
    if known.sum() < 2:
        return np.full(residuals.shape, np.nan)
    scale = float(np.abs(residuals[known]).max()) or 1.0
    squares = np.where(known[:, None], (residuals / scale) ** 2, 0.0)
    mean = average(squares, np.where(known, w, 0.0))
    with np.errstate(divide="ignore", over="ignore"):
        diagonal = np.where(known, max(RIDGE_FACTOR * ridge, MIN_RIDGE) / w, np.inf)
    some = matrix.first(SMOOTHING_TREES)
    duals = yield from solve_in_steps(some, squares - mean, diagonal, tolerance=ROUGH * TOLERANCE)
    return np.sqrt(np.maximum(mean + some.multiply(duals), MIN_VARIANCE * mean)) * scale


def standardise(residuals: np.ndarray, stds: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return residuals over their standard deviations, where both are known, and weights."""
    known = np.isfinite(residuals) & np.isfinite(stds) & (stds > 0) & (w > 0)
    return residuals[known] / stds[known], w[known]


def find_quantiles(standardised: tuple[np.ndarray, np.ndarray], q: np.ndarray) -> np.ndarray:
    """Return quantiles of standardised residuals; 0 without any."""
    values, weights = standardised
    return weighted_quantiles(values, weights, q) if len(values) else np.zeros(len(q))
