"""Ranges of axes and colours that outliers do not stretch, and the part of a plane that rows cover."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

# Outliers are farther from the values without a twentieth at each end than half the range of these.
TAIL, WIDENING = 0.05, 0.5
# If showing everything makes the range at most this much longer, everything is shown: uniform values always, and up to some
# ten thousand normal ones.
MAX_STRETCH = 1.25
# Axes extend beyond the rows by this fraction of their range.
MARGIN = 0.05
# From this fraction on, an edge is taken for covered.
FULL = 0.9
# Among fewer values, none is called an outlier.
MIN_VALUES = 10
# A place is covered if a row is within this multiple of the spacing of rows, the distance to the nearest other row that 95 % of
# rows stay below. In 40 uniform samples each of 30 to 3,000 rows, the whole square was covered; with twice the spacing, up to 6 %
# of it were not.
REACH, SPACING_QUANTILE = 3.0, 0.95
# At least two of 200 pixels, so that single rows can be seen where rows are dense.
MIN_REACH = 0.01


def find_range(values: np.ndarray) -> tuple[float, float]:
    """Return a range that outliers do not stretch; that of all finite values, if there are no outliers.

    >>> find_range(np.arange(101.0))
    (0.0, 100.0)
    >>> find_range(np.append(np.arange(101.0), [120.0, 500.0, -1e9]))
    (0.0, 120.0)
    """
    values = np.sort(values[np.isfinite(values)], axis=None)
    if not len(values):
        return 0.0, 1.0
    low, high = float(values[0]), float(values[-1])
    if len(values) < MIN_VALUES:
        return low, high
    k = int(np.ceil(TAIL * (len(values) - 1)))
    first, last = float(values[k]), float(values[-1 - k])
    if first == last:  # nearly all values are the same, which says nothing about the others
        distinct = np.unique(values)
        return (low, high) if len(distinct) == len(values) else find_range(distinct)
    wide = WIDENING * (last - first)
    inner = values[np.searchsorted(values, first - wide) : np.searchsorted(values, last + wide, side="right")]
    all_fit = high - low <= MAX_STRETCH * (inner[-1] - inner[0])
    return (low, high) if all_fit else (float(inner[0]), float(inner[-1]))


def find_limits(points: np.ndarray, extent: Any, *, robust: bool = False) -> np.ndarray:
    """Return the lower left and upper right corner of the axes: from ``extent``, or around the points with a margin.

    If ``robust``, outliers may lie outside.
    """
    if extent is not None:
        ends = np.array(extent, dtype=float)
        if ends.shape != (4,) or not np.isfinite(ends).all() or np.any(ends[[0, 2]] >= ends[[1, 3]]):
            raise ValueError(f"extent must be (left, right, bottom, top), finite and increasing, got {extent!r}")
        return np.stack([ends[[0, 2]], ends[[1, 3]]])
    if robust:
        low, high = np.array([find_range(points[:, k]) for k in range(2)]).T
    else:
        low, high = points.min(axis=0), points.max(axis=0)
    size = np.where(high > low, high - low, 1.0)
    return np.stack([low - MARGIN * size, high + MARGIN * size])


def lie_inside(points: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return whether each point lies inside the limits."""
    return ((points >= limits[0]) & (points <= limits[1])).all(axis=1)


def find_reach(points: np.ndarray, limits: np.ndarray) -> float:
    """Return how far from the nearest point a place may be and still be covered, as a fraction of the size of the axes.

    It is three times the usual distance from a point to its nearest neighbour. Points in the same place count once, and
    points outside the limits do not count.
    """
    inside = np.unique(points[lie_inside(points, limits)], axis=0) / (limits[1] - limits[0])
    if len(inside) < 2:
        return np.inf
    distances = cKDTree(inside).query(inside, k=2)[0][:, 1]
    return max(MIN_REACH, REACH * float(np.quantile(distances, SPACING_QUANTILE)))


def find_covered(places: np.ndarray, points: np.ndarray, limits: np.ndarray, reach: float) -> np.ndarray:
    """Return whether each place is within ``reach`` of a point, as a fraction of the size of the axes."""
    size = limits[1] - limits[0]
    return cKDTree(points / size).query(places / size)[0] <= reach


def close_gaps(places: np.ndarray, points: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Move places to the nearest value of each feature, by at most half the usual gap between its values.

    Between the values of a feature that has only a few, such as years, there are no rows however many are held. Features
    with many values have gaps of nearly 0, and their places stay.
    """
    moved = places.copy()
    inside = points[lie_inside(points, limits)]
    for k in range(places.shape[1]):
        known = np.unique(inside[:, k])
        if len(known) < 2:
            continue
        half = np.median(np.diff(known)) / 2
        above = np.clip(np.searchsorted(known, places[:, k]), 1, len(known) - 1)
        below = known[above - 1]
        nearest = np.where(places[:, k] - below <= known[above] - places[:, k], below, known[above])
        # A little more than half, for places halfway between two values that are not exactly evenly spaced.
        moved[:, k] -= np.clip(places[:, k] - nearest, -1.001 * half, 1.001 * half)
    return moved


def fill_margins(shown: np.ndarray) -> None:
    """Cover the margins of an image in place, where the line of pixels beside them is covered almost completely.

    Where rows fill the axes, blank specks along their edges would say nothing.
    """
    width = int(np.ceil(len(shown) * MARGIN / (1 + 2 * MARGIN)))
    for side in (shown, shown[::-1], shown.T, shown.T[::-1]):
        if side[width].mean() >= FULL:
            side[:width] |= side[width]
