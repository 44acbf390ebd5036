"""How large a step to take for a row that arrives, until all duals are solved again.

The dual of a new row is a share of its residual. The whole residual follows a stream that drifts, but spreads the noise of each row over
its surroundings; where nothing drifts, a small share is better. So the share is chosen by replaying the latest rows.
(Friedman's function with ten features, RMSE of rows 4,000 to 8,000: 1.45 with the whole residual, 1.33 with half, 1.28 with a fifth;
Electricity, first 8,000 rows: 0.922, 0.916, 0.883 right.)
"""

from __future__ import annotations

import numpy as np

from . import solver
from .held_out import ROUGH, center
from .solver import KernelMatrix, solve_in_steps
from .steps import Steps

# Shares of the residual that are tried.
SHARES = np.array([1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05])

# Rows that are replayed: a tenth of them, as many as come between two solves, but at most so many; and at least, to choose at all.
REPLAYED_SHARE, MAX_REPLAYED, MIN_REPLAYED = 0.1, 128, 8

# Columns of the kernel that are found in one step.
COLUMNS_PER_STEP = 16


def choose_step(matrix: KernelMatrix, y: np.ndarray, w: np.ndarray, bandwidth: float, ridge: float) -> Steps[float]:
    """Return the share of the residual that predicts the latest rows best, one after another.

    Parameters
    ----------
    matrix : KernelMatrix
        Of rows in slots from 0 on, oldest first.
    y, w : ndarray
        Label columns and weights by slot.
    bandwidth, ridge : float
    """
    n = len(y)
    weighted = np.flatnonzero(w > 0)
    latest = weighted[len(weighted) - min(int(REPLAYED_SHARE * len(weighted)), MAX_REPLAYED) :]
    if len(latest) < MIN_REPLAYED:
        return 1.0
    matrix.set_bandwidth(bandwidth)
    before = np.where(np.arange(n) < latest[0], w, 0.0)
    _, centred, diagonal = center(y, before, ridge)
    duals = yield from solve_in_steps(matrix, centred, diagonal, tolerance=ROUGH * solver.TOLERANCE)
    gaps = (centred - matrix.multiply(duals))[latest]
    similar = yield from find_similarities(matrix, latest)
    errors = [replay(gaps, similar, share / (1.0 + ridge / w[latest])) for share in SHARES]
    losses = [float(w[latest] @ np.sum(error**2, axis=1)) for error in errors]
    return float(SHARES[int(np.argmin(losses))])


def find_similarities(matrix: KernelMatrix, some: np.ndarray) -> Steps[np.ndarray]:
    """Return the kernel of some rows."""
    similar = np.zeros((len(some), len(some)))
    for first in range(0, len(some), COLUMNS_PER_STEP):
        columns = some[first : first + COLUMNS_PER_STEP]
        units = np.zeros((matrix.n_rows, len(columns)))
        units[columns, np.arange(len(columns))] = 1.0
        yield matrix.count_work(len(columns))
        similar[:, first : first + len(columns)] = matrix.multiply(units)[some]
    return similar


def replay(gaps: np.ndarray, similar: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the residuals of rows that are learned one after another, given those without any of them."""
    residuals = np.empty_like(gaps)
    duals = np.zeros_like(gaps)
    for k in range(len(gaps)):
        residuals[k] = gaps[k] - similar[k, :k] @ duals[:k]
        duals[k] = shares[k] * residuals[k]
    return residuals
