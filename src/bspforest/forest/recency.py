"""How far back a stream should look: rows weigh half as much for each half-life that they are older.

The half-life is chosen by replaying the latest rows, as the stream does: each is predicted from the rows before it, and then learned.
Neighbours in time are often alike, so what a model can do a hundred rows ahead says little about the next row.
"""

from __future__ import annotations

import numpy as np

from .calibration import COARSE, expand, find_calibration
from .columns import average, find_recency
from .held_out import ROUGH, ShiftedRun
from .solver import MAX_PRODUCTS, MIN_DIAGONAL, KernelMatrix
from .stepping import SHARES, find_similarities, replay
from .steps import Steps

# The shortest half-life that is tried.
MIN_HALF_LIFE = 60.0

# Rows that are replayed, in blocks: a share of those since the last change, but at least and at most so many.
REPLAYED_SHARE, MIN_REPLAYED, MAX_REPLAYED = 0.25, 40, 400
N_BLOCKS = 2

# Standard errors of the paired differences by which a shorter half-life must be better than a longer one, and than the one in use: rows
# that leave do not come back. (Friedman's function without drift: RMSE 1.422 with 2, 1.440 with 1; rotating hyperplane: 83.5 and 82.7 %.)
CLEARLY, SHORTENING = 1.0, 2.0


def list_half_lives(n: int, used: float) -> np.ndarray:
    """Return the half-lives to try with n rows, the longest first: infinity, n / 2, n / 4, ..., and the one in use."""
    n_halvings = max(0, int(np.log2(max(n, 1) / MIN_HALF_LIFE)))
    return np.unique([np.inf, used, *n / 2.0 ** np.arange(1, n_halvings + 1)])[::-1]


def choose_half_life(
    matrix: KernelMatrix,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    ridge: float,
    *,
    n_classes: int,
    n_since: int,
    used: float,
) -> Steps[float]:
    """Return the longest half-life whose loss on the latest rows is not clearly larger than the best.

    Parameters
    ----------
    matrix : KernelMatrix
        Of rows in slots from 0 on, oldest first, with a bandwidth.
    rows : tuple of ndarray
        Label columns, weights, and times of arrival, in rows.
    ridge : float
    n_classes : int
        0 in regression.
    n_since : int
        Rows since the last change.
    used : float
        The half-life in use.
    """
    y, w, times = rows
    weighted = np.flatnonzero(w > 0)
    n_replayed = int(np.clip(REPLAYED_SHARE * n_since, MIN_REPLAYED, MAX_REPLAYED))
    half_lives = list_half_lives(len(weighted), used)
    if len(half_lives) < 2 or len(weighted) < 2 * n_replayed:
        return used
    blocks = np.array_split(weighted[-n_replayed:], N_BLOCKS)
    before = np.stack(
        [
            np.where(np.arange(len(w)) < block[0], w * find_recency(times[block[0]] - times, half_life), 0.0)
            for block in blocks
            for half_life in half_lives
        ]
    )
    gaps = yield from _predict_blocks(matrix, y, before, blocks, ridge)
    losses = []
    similar = []
    for block in blocks:
        similar.append((yield from find_similarities(matrix, block)))
    for k in range(len(half_lives)):
        best = None
        for share in SHARES:
            replayed = [
                replay(gaps[b * len(half_lives) + k], similar[b], share / (1.0 + ridge / w[block]))
                for b, block in enumerate(blocks)
            ]
            residuals = np.concatenate(replayed)
            error = float(np.sum(residuals**2))
            if best is None or error < best[0]:
                best = error, residuals
        assert best is not None
        losses.append(_find_losses(y[np.concatenate(blocks)], best[1], n_classes))
    return float(half_lives[pick(np.stack(losses), int(np.flatnonzero(half_lives == used)[0]))])


def pick(losses: np.ndarray, used: int) -> int:
    """Return the longest half-life that is not clearly worse than the best, by number; the one in use rather than a shorter one.

    Losses are by half-life, the longest first, and row.
    """
    losses = losses / (losses.max() or 1.0)  # squared errors are squared again, and labels may be 1e100
    gaps = losses - losses[losses.mean(axis=1).argmin()]
    errors = gaps.std(axis=1) / np.sqrt(losses.shape[1])
    longest = int(np.argmax(gaps.mean(axis=1) <= CLEARLY * errors))
    return used if longest > used and gaps[used].mean() <= SHORTENING * errors[used] else longest


def _predict_blocks(
    matrix: KernelMatrix, y: np.ndarray, before: np.ndarray, blocks: list[np.ndarray], ridge: float
) -> Steps[list[np.ndarray]]:
    """Return labels less predictions of the rows of blocks, by block and half-life, from the rows that have weight ``before``."""
    n_columns, n_systems = y.shape[1], len(before)
    roots = np.repeat(np.sqrt(before).T, n_columns, axis=1)
    means = np.concatenate([average(y, w) for w in before])
    goals = roots * (np.tile(y, n_systems) - means)
    run = ShiftedRun(goals, np.array([max(ridge, MIN_DIAGONAL)]), ROUGH)
    of_system = [blocks[s // (n_systems // len(blocks))] for s in range(n_systems)]
    own = [slice(s * n_columns, (s + 1) * n_columns) for s in range(n_systems)]
    predicted = [np.zeros((len(block), n_columns)) for block in of_system]
    for _ in range(MAX_PRODUCTS):
        if run.is_solved.all():
            break
        yield matrix.count_work(roots.shape[1])
        full = matrix.multiply(roots * run.p)
        run.advance(roots * full)
        for s, block in enumerate(of_system):
            predicted[s] += run.alphas[0, own[s]] * full[block, own[s]]
    return [y[block] - means[own[s]] - predicted[s] for s, block in enumerate(of_system)]


def _find_losses(y: np.ndarray, residuals: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the loss of each row: the squared error, or the log loss of calibrated scores."""
    if n_classes < 2:
        return np.sum(residuals**2, axis=1)
    scores, labels = expand(y - residuals, n_classes), expand(y, n_classes)
    return find_calibration(scores, labels, np.ones(len(y)), COARSE)[1]
