"""Ranges of features, and the map from features to scaled coordinates."""

from __future__ import annotations

import numpy as np

# Rows whose range is looked at together.
RANGE_BLOCK = 65_536


def spread(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return shift and scale that map [low, high] to [0, 1], and a column without spread to 0."""
    size = high - low
    with np.errstate(divide="ignore", over="ignore"):
        scale = np.where(size > 0, np.minimum(1.0 / size, np.finfo(float).max), 0.0)
    return np.stack([low, scale])


def find_range(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest value of each column.

    Several rows are compared side by side: numpy takes ten times as long for narrow arrays.
    """
    d = X.shape[1]
    k = 1024 // d
    if k < 2 or len(X) <= k or not X.flags.c_contiguous:
        return X.min(axis=0), X.max(axis=0)
    n = len(X) // k * k
    wide, rest = X[:n].reshape(-1, k * d), X[n:]
    low, high = wide.min(axis=0).reshape(k, d), wide.max(axis=0).reshape(k, d)
    return np.vstack([low, rest]).min(axis=0), np.vstack([high, rest]).max(axis=0)


def find_range_of(rows: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of some rows; zeros if there are none."""
    low = high = rows[slots[0]].copy() if len(slots) else np.zeros(rows.shape[1])
    for start in range(0, len(slots), RANGE_BLOCK):
        lowest, highest = find_range(rows[slots[start : start + RANGE_BLOCK]])
        low, high = np.minimum(low, lowest), np.maximum(high, highest)
    return low, high


def reaches_ends(
    rows: np.ndarray, slots: np.ndarray, columns: np.ndarray, low_high: tuple[np.ndarray, np.ndarray]
) -> bool:
    """Return whether some rows reach both ends of a range, in these columns. Mostly few rows tell."""
    low, high = low_high
    for some in (slots[:1000], slots):
        X = rows[np.ix_(some, columns)]
        reached = (low[columns] == X).any(axis=0) & (high[columns] == X).any(axis=0)
        columns = columns[~reached]
    return len(columns) == 0


def coincide_in_float32(Z: np.ndarray) -> bool:
    """Return whether three quarters of the distinct rows are no longer distinct in float32."""
    return 4 * len(np.unique(Z.astype(np.float32), axis=0)) < len(np.unique(Z, axis=0))
