"""Convex polytopes in any dimension, given by their vertices, and how a cut splits them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import pdist

from .hulls import Cut


@dataclass(frozen=True, eq=False)
class Polytope:
    """A convex polytope in d ≥ 2 dimensions. Create it with `make_polytope` or `make_box`.

    Attributes
    ----------
    vertices : ndarray of shape (n, d)
    facets : ndarray of bool of shape (n, n_facets)
        Which vertices lie on which facets. Clipping needs nothing else: two vertices are joined by an edge if no third
        one lies on all facets that they share. Coordinates are compared only when the first polytope is made, so thin
        slivers are split as exactly as cubes.
    """

    vertices: np.ndarray
    facets: np.ndarray

    @property
    def diameter(self) -> float:
        """The largest distance between two points."""
        return float(pdist(self.vertices).max())

    @property
    def volume(self) -> float:
        """The volume; in two dimensions, the area."""
        return float(ConvexHull(self.vertices).volume)

    def faces(self) -> list[np.ndarray]:
        """Return the bounding polygons in three dimensions, or the polygon itself in two, with vertices in order."""
        d = self.vertices.shape[1]
        if d == 2:
            return [order_polygon(self.vertices)]
        if d == 3:
            return [order_polygon(self.vertices[on]) for on in self.facets.T]
        raise ValueError(f"faces are polygons in two and three dimensions only, this polytope has {d}")

    def is_crossed(self, cut: Cut) -> bool:
        """Return whether there are vertices on both sides of the cut."""
        right = cut.goes_right(self.vertices)
        return bool(right.any() and not right.all())

    def split(self, cut: Cut) -> tuple[Polytope, Polytope, np.ndarray]:
        """Return the polytopes to the left and right of a cut that crosses this one, and the vertices of the section.

        The section has one vertex on each edge that the cut crosses; both polytopes have these and the vertices on their
        side.
        """
        heights = cut.heights(self.vertices)
        right = heights > 0
        if right.all() or not right.any():
            raise ValueError("this cut does not cross the polytope; check with is_crossed first")
        v, w = (side.ravel() for side in np.meshgrid(np.flatnonzero(~right), np.flatnonzero(right)))
        shared = self.facets[v] & self.facets[w]
        on_all_shared = shared.astype(int) @ self.facets.T == shared.sum(axis=1)[:, None]
        is_edge = on_all_shared.sum(axis=1) == 2
        v, w, shared = v[is_edge], w[is_edge], shared[is_edge]
        along = (heights[v] / (heights[v] - heights[w]))[:, None]
        section = (1 - along) * self.vertices[v] + along * self.vertices[w]
        return self._clip(~right, section, shared), self._clip(right, section, shared), section

    def _clip(self, kept: np.ndarray, section: np.ndarray, shared: np.ndarray) -> Polytope:
        vertices = np.vstack([self.vertices[kept], section])
        facets = np.vstack([self.facets[kept], shared])
        on_cut = np.arange(len(vertices)) >= kept.sum()
        return Polytope(vertices, np.column_stack([facets[:, facets.any(axis=0)], on_cut]))


def make_polytope(points: np.ndarray) -> Polytope:
    """Return the convex hull of points that span all d dimensions.

    >>> triangle = make_polytope(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> triangle.volume, triangle.facets.shape
    (0.5, (3, 3))
    """
    points = np.asarray(points, dtype=float)
    if points.ndim != 2 or points.shape[1] < 2:
        raise ValueError(f"points must be an array of shape (n, d) with d at least 2, got shape {points.shape}")
    if not np.isfinite(points).all():
        raise ValueError("points must be finite")
    try:
        hull = ConvexHull(points)
    except QhullError as error:
        raise ValueError(
            f"{len(points)} points do not span {points.shape[1]} dimensions, or only up to rounding"
        ) from error
    vertices = points[np.sort(hull.vertices)]
    beyond = vertices @ hull.equations[:, :-1].T + hull.equations[:, -1]
    on = np.abs(beyond) <= 1e-10 * np.ptp(vertices, axis=0).max()
    return Polytope(vertices, np.unique(on, axis=1))  # Qhull returns a square facet as two triangles


def make_box(low: np.ndarray, high: np.ndarray) -> Polytope:
    """Return the box between two opposite corners.

    >>> cube = make_box(np.zeros(3), np.ones(3))
    >>> len(cube.vertices), cube.facets.shape[1], len(cube.faces()[0])
    (8, 6, 4)
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    if low.ndim != 1 or low.shape != high.shape or len(low) < 2 or not (low < high).all():
        raise ValueError(f"low must be below high in each of two dimensions or more, got {low} and {high}")
    above = np.array(list(product([False, True], repeat=len(low))))
    return Polytope(np.where(above, high, low), np.column_stack([above, ~above]))


def order_polygon(points: np.ndarray) -> np.ndarray:
    """Sort the vertices of a convex polygon, in a space of any dimension, around its centre; a segment stays as it is."""
    centred = points - points.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    if len(points) < 3:
        return points
    x, y = axes @ centred.T
    return points[np.argsort(np.arctan2(y, x))]
