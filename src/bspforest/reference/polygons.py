"""Polygons in the plane, and random lines that hit them.

A line is {z : z·n = p} with a unit normal n = (cos θ, sin θ). The measure dθ dp on lines is, up to a factor, the only one
that is invariant under translations and rotations. Under it, the lines that hit a convex polygon have a measure equal to
its perimeter. The paper's "angle θ with density |l(θ)|, position u uniform on l(θ)" (Algorithm 2, line 4) is a uniform
line among those that hit the polygon; l(θ) is the projection of the polygon on direction n.

A polygon is an array of vertices, one per row, in counterclockwise order. Two vertices are a segment, one vertex is a
point. The code is the same for them; the perimeter of a segment is twice its length.
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
    """Return the convex hull of points in the plane (Algorithm 5, line 3).

    >>> find_hull(np.array([[0, 0], [4, 0], [1, 1], [0, 3]])).tolist()
    [[0, 0], [4, 0], [0, 3]]
    >>> find_hull(np.array([[0, 0], [2, 2], [1, 1]])).tolist()
    [[2, 2], [0, 0]]
    """
    try:
        corners = ConvexHull(points).vertices if len(points) > 2 else None
    except QhullError:
        corners = None
    if corners is None:  # too few points, or all of them collinear
        one = points[np.argmax(np.linalg.norm(points - points[0], axis=1))]
        other = points[np.argmax(np.linalg.norm(points - one, axis=1))]
        return np.stack([one, other]) if (one != other).any() else one[None]
    first = np.argmin(corners)  # makes the result independent of where Qhull starts
    return points[np.concatenate([corners[first:], corners[:first]])]


def find_edges(polygon: np.ndarray) -> np.ndarray:
    """Return the vectors from each vertex to the next: two for a segment, a zero vector for a point."""
    return np.concatenate([polygon[1:], polygon[:1]]) - polygon


def perimeter(polygon: np.ndarray) -> float:
    """Return L(□), the perimeter, which is the measure of the lines that hit the polygon.

    >>> float(perimeter(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])))
    12.0
    """
    return np.linalg.norm(find_edges(polygon), axis=1).sum()


def draw_line(polygon: np.ndarray, rng: np.random.Generator) -> Line:
    """Draw a uniform line among those that hit the polygon (Algorithm 2, line 4; Algorithm 5, line 8).

    The length of the projection is |l(θ)| = ½ Σ |e·n| over the edges e. The angle can therefore be drawn without
    rejection: draw an edge with probability proportional to its length, then an angle to it with density ∝ |cos|.
    """
    edge = find_edges(polygon)
    lengths = np.linalg.norm(edge, axis=1)
    e = edge[rng.choice(len(edge), p=lengths / lengths.sum())]
    angle = np.arctan2(e[1], e[0]) + np.arcsin(rng.uniform(-1, 1))
    normal = np.array([np.cos(angle), np.sin(angle)])
    projection = polygon @ normal
    return Line(normal, rng.uniform(projection.min(), projection.max()))


class Gap(NamedTuple):
    """The lines that hit one polygon and miss another inside it, by the angle of their outward normal n.

    For angles in arc k, from ``start[k]`` to ``end[k]``, the farthest vertex in direction n is ``far[k]`` for the outer
    polygon and ``near[k]`` for the inner one; the offsets of the lines range from ``near[k] @ n`` to ``far[k] @ n``.
    """

    start: np.ndarray
    end: np.ndarray
    near: np.ndarray
    far: np.ndarray

    def sines(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sines of the angles between ``far - near`` and the two ends of each arc."""
        reach = self.far - self.near
        direction = np.arctan2(reach[:, 1], reach[:, 0])
        middle = (self.start + self.end) / 2
        half = (self.end - self.start) / 2
        middle = (middle - direction + np.pi) % (2 * np.pi) - np.pi
        low, high = np.clip([middle - half, middle + half], -np.pi / 2, np.pi / 2)
        return np.sin(low), np.sin(high)

    def weights(self) -> np.ndarray:
        """Return the measure of the lines of each arc, the integral of |far - near| cos(angle) over it."""
        low, high = self.sines()
        return np.linalg.norm(self.far - self.near, axis=1) * (high - low)


def find_gap(outer: np.ndarray, inner: np.ndarray) -> Gap:
    """Find the lines that hit ``outer`` and miss ``inner``, which must lie in it; their measure is L(outer) - L(inner).

    The farthest vertex changes only where the normal passes the normal of an edge, so the arcs end at the normals of all
    edges. If ``outer`` is the hull of ``inner`` and one more point x, only the arcs between the two tangents from x have
    positive measure: there ``far`` is x, and ``near`` runs through the vertices of ``inner`` visible from x.
    """
    edge = np.concatenate([find_edges(outer), find_edges(inner)])
    edge = edge[(edge != 0).any(axis=1)]
    start = np.sort(np.arctan2(-edge[:, 0], edge[:, 1]))
    if len(start) == 0:
        start = np.zeros(1)
    end = np.append(start[1:], start[0] + 2 * np.pi)
    middle = (start + end) / 2
    normals = np.stack([np.cos(middle), np.sin(middle)])
    return Gap(start, end, inner[np.argmax(inner @ normals, axis=0)], outer[np.argmax(outer @ normals, axis=0)])


def draw_line_in_gap(gap: Gap, rng: np.random.Generator) -> Line:
    """Draw a uniform line among those that hit the outer polygon and miss the inner one (Algorithm 6, lines 2-3).

    This is exact and needs no rejection. Line 2 asks for an angle with density ∝ |l'(θ)| - |l(θ)|, which within an arc is
    |far - near| cos(angle to far - near). So an arc is drawn with probability proportional to its measure, and the sine
    of the angle is uniform within it.
    """
    weights = gap.weights()
    k = rng.choice(len(weights), p=weights / weights.sum())
    low, high = gap.sines()
    reach = gap.far[k] - gap.near[k]
    angle = np.arctan2(reach[1], reach[0]) + np.arcsin(rng.uniform(low[k], high[k]))
    normal = np.array([np.cos(angle), np.sin(angle)])
    return Line(normal, rng.uniform(gap.near[k] @ normal, gap.far[k] @ normal))
