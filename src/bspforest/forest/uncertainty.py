"""How far off predictions are, learned from out-of-sample residuals: standard deviations, quantiles, calibrated probabilities.

An out-of-sample residual is a label less what was predicted without it: when the row arrived in a stream, or held out in a batch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .columns import average, find_columns, find_weights
from .held_out import ROUGH, HeldOut, Order, pick_ridge
from .means import weighted_quantiles
from .solver import TOLERANCE, KernelMatrix, solve_in_steps
from .steps import Steps

if TYPE_CHECKING:
    from .forest import OnlineForest
    from .ridge import RidgePrediction

# The ridge for squared residuals, which are noisier than labels: so many times that of the labels, and at least this.
RIDGE_FACTOR, MIN_RIDGE = 10.0, 10.0

# No variance is less than this share of their mean.
MIN_VARIANCE = 0.05

# Five folds up to so many rows times label columns; for more, one fold of a fifth, of at most so many rows.
FEW_ENTRIES = 10_000
MAX_HELD_OUT = 20_000

# Trees that predict rows held out, and that smooth squared residuals.
HOLDING_TREES = 50
SMOOTHING_TREES = 32

# Residuals that must be known, as a share of the rows, for none to be found by holding rows out.
KNOWN_SHARE = 0.2

# Rows, the latest, that probabilities are calibrated with.
MAX_CALIBRATED = 5_000

# In a stream, standard deviations are scaled so that the interval of this level holds so many labels: with each label outside the
# logarithm of the scale grows by RATE times LEVEL, with each one inside it shrinks by RATE times the rest.
LEVEL, RATE = 0.9, 0.02
TAILS = np.array([0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
MIN_SCALE, MAX_SCALE = 0.01, 100.0


def hold_out(
    matrix: KernelMatrix,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    ridges: np.ndarray,
    *,
    n_classes: int,
    order: Order,
    seed: list[int],
) -> Steps[tuple[int, float, np.ndarray, np.ndarray]]:
    """Return which ridge to take, its error, the rows that were held out to find that, and their residuals with that ridge.

    ``rows`` are slots, label columns and weights.
    """
    slots, y, w = rows
    rng = np.random.default_rng(seed)
    held_out = HeldOut(
        slots,
        y,
        w,
        n_classes=n_classes,
        order=order,
        rng=rng,
        few_rows=FEW_ENTRIES // y.shape[1],
        n_folds=1,
        most=MAX_HELD_OUT,
    )
    errors, residuals = yield from held_out.errors_and_residuals(matrix.first(HOLDING_TREES), ridges)
    k = pick_ridge(errors)
    return k, held_out.average(errors[k]), held_out.rows, residuals[k]


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


def follow_scale(scale: float, standardised: np.ndarray, bounds: np.ndarray) -> float:
    """Return the scale of standard deviations after rows with these standardised residuals, one by one.

    ``bounds`` are those of the interval of `LEVEL` before it is scaled. Its coverage tends to that level whatever the rows are
    (adaptive conformal inference: Gibbs and Candès, 2021).
    """
    low, high = bounds.tolist()
    if not low < high:
        return scale
    inside = math.exp(-RATE * (1.0 - LEVEL))
    outside = math.exp(RATE * LEVEL)
    for value in standardised.tolist():
        scale *= inside if low * scale <= value <= high * scale else outside
        scale = min(max(scale, MIN_SCALE), MAX_SCALE)
    return scale


def average_stds(forest: OnlineForest, rule: RidgePrediction, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return standard deviations from their sums over trees, and counts; that of all rows where no tree knows one."""
    unknown = np.tile(find_overall_std(forest, rule), (len(sums), 1)) if (counts == 0).any() else sums
    return np.divide(sums, counts, out=unknown, where=counts > 0)


def find_overall_std(forest: OnlineForest, rule: RidgePrediction) -> np.ndarray:
    """Return the root mean square of out-of-sample residuals, or of centred labels if none is known; NaN without weights."""
    slots = forest.rows.held_slots()
    w = find_weights(forest, rule.half_life)
    gaps = forest.residuals[slots]
    known = np.isfinite(gaps).all(axis=1) & (w > 0)
    if not known.any():
        gaps, known = find_columns(forest, slots) - rule.mean, w > 0
    if not known.any():
        return np.full(len(rule.mean), np.nan)
    return np.sqrt(np.average(gaps[known] ** 2, axis=0, weights=w[known]))
