"""Convex polygons in the plane: arrays of corners, counterclockwise, shape (n, 2)."""

from __future__ import annotations

import numpy as np


def rectangle(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The four corners of a box."""
    return np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]], dtype=float)


def find_hull(points: np.ndarray) -> np.ndarray:
    """The convex hull, by a walk along the lower and the upper side.

    Unlike Qhull it takes what is flat (a single point gives one corner, points on a line give two), and equal sets of points
    give equal corners in equal order, by which a growing tree's pictures tell what is new.
    """
    sorted_points = np.unique(points, axis=0)
    if len(sorted_points) < 3:
        return sorted_points
    sides = []
    for way in (sorted_points, sorted_points[::-1]):
        side: list[np.ndarray] = []
        for point in way:
            while len(side) > 1 and _turn(side[-2], side[-1], point) <= 0:
                side.pop()
            side.append(point)
        sides += side[:-1]
    return np.array(sides)


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """Positive if the way from a through b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def measure_area(polygon: np.ndarray) -> float:
    x, y = polygon[:, 0], polygon[:, 1]
    return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2


def clip(polygon: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """The part of a polygon where ``normal @ x <= offset``; no corners if there is none."""
    side = polygon @ normal - offset
    corners = []
    for k in range(len(polygon)):
        here, there = side[k - 1], side[k]
        if (here < 0 < there) or (there < 0 < here):
            corners.append(polygon[k - 1] + here / (here - there) * (polygon[k] - polygon[k - 1]))
        if there <= 0:
            corners.append(polygon[k])
    return np.array(corners).reshape(-1, 2)


def cross(polygon: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """The segment of the line ``normal @ x = offset`` inside a polygon; no ends if the line misses it."""
    side = polygon @ normal - offset
    ends = []
    for k in range(len(polygon)):
        here, there = side[k - 1], side[k]
        if (here <= 0 < there) or (there <= 0 < here):
            ends.append(polygon[k - 1] + here / (here - there) * (polygon[k] - polygon[k - 1]))
    return np.array(ends).reshape(-1, 2)
