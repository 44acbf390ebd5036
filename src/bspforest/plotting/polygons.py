"""Convex polygons in the plane: arrays of corners in counterclockwise order, of shape (n, 2)."""

from __future__ import annotations

import numpy as np


def make_rectangle(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the rectangle between a lower left and an upper right corner."""
    return np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]], dtype=float)


def find_hull(points: np.ndarray) -> np.ndarray:
    """Return the convex hull of points, by Andrew's monotone chain algorithm.

    Unlike Qhull it accepts degenerate input (one point gives one corner, collinear points give two), and the corners do
    not depend on the order of the points. `GrowthDisplay` compares hulls by their corners to find those that changed.
    """
    sorted_points = np.unique(points, axis=0)
    if len(sorted_points) < 3:
        return sorted_points
    corners = []
    for ordered in (sorted_points, sorted_points[::-1]):
        chain: list[np.ndarray] = []
        for point in ordered:
            while len(chain) > 1 and _cross_product(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        corners += chain[:-1]
    return np.array(corners)


def _cross_product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """Return the cross product of b - a and c - a: positive if the path from a through b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def measure_area(polygon: np.ndarray) -> float:
    """Return the area of a polygon; negative if its corners are in clockwise order."""
    x, y = polygon[:, 0], polygon[:, 1]
    return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2


def clip_polygon(polygon: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """Return the part of a polygon where ``normal @ x <= offset``; without corners if it is empty."""
    side = polygon @ normal - offset
    corners = []
    for k in range(len(polygon)):
        here, there = side[k - 1], side[k]
        if (here < 0 < there) or (there < 0 < here):
            corners.append(polygon[k - 1] + here / (here - there) * (polygon[k] - polygon[k - 1]))
        if there <= 0:
            corners.append(polygon[k])
    return np.array(corners).reshape(-1, 2)


def clip_line(polygon: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """Return the ends of the part of the line ``normal @ x = offset`` inside a polygon; empty if they do not meet."""
    side = polygon @ normal - offset
    ends = []
    for k in range(len(polygon)):
        here, there = side[k - 1], side[k]
        if (here <= 0 < there) or (there <= 0 < here):
            ends.append(polygon[k - 1] + here / (here - there) * (polygon[k] - polygon[k - 1]))
    return np.array(ends).reshape(-1, 2)
