"""Polygons in the plane, and lines drawn at random that hit them.

A line is {z : z·n = p} with a unit normal n = (cos θ, sin θ). Lines have one measure that shifts and rotations leave
alone, dθ dp. By it the lines that hit a convex polygon weigh as much as its perimeter, and the paper's "angle θ with
density |l(θ)|, position u uniform on l(θ)" (Algorithm 2, line 4) is a line that hits the polygon, drawn uniformly:
l(θ) is the polygon's shadow in the direction n.

A polygon is an array of vertices, one a row, counterclockwise. Two vertices are a segment, one is a point: the lines
are the same, and so is the code, with a segment's perimeter counting it there and back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, QhullError


class Line(NamedTuple):
    """The line of all z with ``z @ normal == offset``."""

    normal: np.ndarray
    offset: float


def find_hull(points: np.ndarray) -> np.ndarray:
    """The convex hull of points in the plane (Algorithm 5, line 3). Its vertices are among the points.

    >>> find_hull(np.array([[0, 0], [4, 0], [1, 1], [0, 3]])).tolist()
    [[0, 0], [4, 0], [0, 3]]
    >>> find_hull(np.array([[0, 0], [2, 2], [1, 1]])).tolist()
    [[2, 2], [0, 0]]
    """
    try:
        corners = ConvexHull(points).vertices if len(points) > 2 else None
    except QhullError:
        corners = None
    if corners is None:  # too few points, or all on one line
        one = points[np.argmax(np.linalg.norm(points - points[0], axis=1))]
        other = points[np.argmax(np.linalg.norm(points - one, axis=1))]
        return np.stack([one, other]) if (one != other).any() else one[None]
    first = np.argmin(corners)  # so that nothing depends on where Qhull starts
    return points[np.concatenate([corners[first:], corners[:first]])]


def edges(polygon: np.ndarray) -> np.ndarray:
    """From each vertex to the next. A segment has two, there and back; a point has one, of length 0."""
    return np.concatenate([polygon[1:], polygon[:1]]) - polygon


def perimeter(polygon: np.ndarray) -> float:
    """L(□), how much the lines weigh that hit the polygon.

    >>> float(perimeter(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])))
    12.0
    """
    return np.linalg.norm(edges(polygon), axis=1).sum()


def draw_line(polygon: np.ndarray, rng: np.random.Generator) -> Line:
    """A uniform line among those that hit the polygon (Algorithm 2, line 4; Algorithm 5, line 8).

    The shadow's length is |l(θ)| = ½ Σ |e·n| over the edges e. So the angle is drawn without rejection: an edge with
    probability proportional to its length, then an angle to it with density |cos|.
    """
    edge = edges(polygon)
    lengths = np.linalg.norm(edge, axis=1)
    e = edge[rng.choice(len(edge), p=lengths / lengths.sum())]
    angle = np.arctan2(e[1], e[0]) + np.arcsin(rng.uniform(-1, 1))
    normal = np.array([np.cos(angle), np.sin(angle)])
    shadow = polygon @ normal
    return Line(normal, rng.uniform(shadow.min(), shadow.max()))


class Gap(NamedTuple):
    """The lines that hit one polygon and miss another inside it, by the angle of the normal that points outwards.

    For angles in arc k, from ``start[k]`` to ``end[k]``, the outer polygon's farthest vertex is ``far[k]``, the inner
    one's is ``near[k]``, and the offsets of the lines fill the interval from ``near[k] @ n`` to ``far[k] @ n``.
    """

    start: np.ndarray
    end: np.ndarray
    near: np.ndarray
    far: np.ndarray

    def sines(self) -> tuple[np.ndarray, np.ndarray]:
        """For each arc, the sines of its ends' angles from ``far - near``, between -1 and 1."""
        reach = self.far - self.near
        direction = np.arctan2(reach[:, 1], reach[:, 0])
        middle = (self.start + self.end) / 2
        half = (self.end - self.start) / 2
        middle = (middle - direction + np.pi) % (2 * np.pi) - np.pi
        low, high = np.clip([middle - half, middle + half], -np.pi / 2, np.pi / 2)
        return np.sin(low), np.sin(high)

    def weights(self) -> np.ndarray:
        """How much the lines of each arc weigh: the integral of |far - near| cos(angle) over it."""
        low, high = self.sines()
        return np.linalg.norm(self.far - self.near, axis=1) * (high - low)


def find_gap(outer: np.ndarray, inner: np.ndarray) -> Gap:
    """The lines that hit ``outer`` and miss ``inner``, which must lie in it. Together they weigh L(outer) - L(inner).

    The farthest vertex changes only where the normal passes that of an edge, so the normals of all edges are the ends
    of the arcs. Where ``outer`` is ``inner`` and one point x more, only the arcs between the two tangents from x have
    weight: there ``far`` is x, and ``near`` goes through the vertices of ``inner`` that x sees.
    """
    edge = np.concatenate([edges(outer), edges(inner)])
    edge = edge[(edge != 0).any(axis=1)]
    start = np.sort(np.arctan2(-edge[:, 0], edge[:, 1]))
    if len(start) == 0:
        start = np.zeros(1)
    end = np.append(start[1:], start[0] + 2 * np.pi)
    middle = (start + end) / 2
    normals = np.stack([np.cos(middle), np.sin(middle)])
    return Gap(start, end, inner[np.argmax(inner @ normals, axis=0)], outer[np.argmax(outer @ normals, axis=0)])


def draw_line_in_gap(gap: Gap, rng: np.random.Generator) -> Line:
    """A uniform line among those that hit the outer polygon and miss the inner one (Algorithm 6, lines 2-3).

    Exact and without rejection. Line 2 asks for an angle with density |l'(θ)| - |l(θ)|. In an arc this is |far - near|
    cos(angle from far - near): so the arc is drawn by its weight, and in it the sine of that angle is uniform.
    """
    weights = gap.weights()
    k = rng.choice(len(weights), p=weights / weights.sum())
    low, high = gap.sines()
    reach = gap.far[k] - gap.near[k]
    angle = np.arctan2(reach[1], reach[0]) + np.arcsin(rng.uniform(low[k], high[k]))
    normal = np.array([np.cos(angle), np.sin(angle)])
    return Line(normal, rng.uniform(gap.near[k] @ normal, gap.far[k] @ normal))
