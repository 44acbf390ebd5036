"""Cuts, and the convex hulls in every pair of dimensions that they are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .polygons import Line, draw_line, draw_line_in_gap, find_gap, find_hull, perimeter


@dataclass(frozen=True, eq=False)
class Cut:
    """The paper's C = {c, (d1, d2), θ, u}: the hyperplane of all x with ``x[dims] @ normal == offset``.

    ``time`` is counted from the start of the process, where the paper's cost c is counted from the cut before: then
    a new node between two others changes no number in either.
    """

    time: float
    dims: tuple[int, ...]
    normal: np.ndarray
    offset: float

    def heights(self, points: np.ndarray) -> np.ndarray:
        """How far each point is above the cut."""
        return points[..., list(self.dims)] @ self.normal - self.offset

    def goes_right(self, points: np.ndarray) -> np.ndarray:
        """Is each point right of the cut, or left of it?"""
        return self.heights(points) > 0

    @property
    def angle(self) -> float:
        """The paper's θ: the normal's angle in the plane of the two dimensions; 0 for a cut in one dimension."""
        return float(np.arctan2(self.normal[1], self.normal[0])) if len(self.dims) == 2 else 0.0


class PairHulls:
    """The convex hulls of a set of points, or of the vertices of a block, in every pair of dimensions.

    All that Algorithms 2, 4, 5 and 6 ask of a block □ or hull ◇: how fast cuts come, and where the next one falls. The
    rate is *half* the sum of the perimeters, as in the paper's experiments (Section 5), everywhere in this library.

    Attributes
    ----------
    polygons : dict
        The hull Π(□) of each pair (i, j), as `bspforest.reference.polygons` writes them.
    """

    def __init__(self, points: np.ndarray) -> None:
        d = points.shape[1]
        if d < 2:
            raise ValueError(
                f"pairs of dimensions need two dimensions or more, got {d}; with one, use bspforest.reference.Box"
            )
        self.polygons = {pair: find_hull(points[:, pair]) for pair in combinations(range(d), 2)}

    def extended(self, x: np.ndarray) -> PairHulls:
        """The hulls of these points and x (Algorithm 4, line 1)."""
        hulls = object.__new__(PairHulls)
        hulls.polygons = {p: find_hull(np.vstack([polygon, x[list(p)]])) for p, polygon in self.polygons.items()}
        return hulls

    def rate(self) -> float:
        """How many cuts come in a unit of time (Algorithm 2, line 1; Algorithm 5, line 5)."""
        return 0.5 * sum(perimeter(polygon) for polygon in self.polygons.values())

    def draw_cut(self, time: float, rng: np.random.Generator) -> Cut:
        """A cut that crosses the hulls (Algorithm 2, lines 3-4; Algorithm 5, lines 7-8)."""
        weights = [perimeter(polygon) for polygon in self.polygons.values()]
        pair = _choose(list(self.polygons), weights, rng)
        return _cut(time, pair, draw_line(self.polygons[pair], rng))

    def rate_beyond(self, inner: PairHulls) -> float:
        """How many of the cuts that cross these hulls miss ``inner``, smaller ones (Algorithm 4, line 7)."""
        return 0.5 * sum(find_gap(self.polygons[p], inner.polygons[p]).weights().sum() for p in self.polygons)

    def draw_cut_beyond(self, inner: PairHulls, time: float, rng: np.random.Generator) -> Cut:
        """A cut that crosses these hulls and misses ``inner`` (Algorithm 6)."""
        gaps = {p: find_gap(self.polygons[p], inner.polygons[p]) for p in self.polygons}
        pair = _choose(list(gaps), [gap.weights().sum() for gap in gaps.values()], rng)
        return _cut(time, pair, draw_line_in_gap(gaps[pair], rng))


def _choose(pairs: list, weights: list, rng: np.random.Generator) -> tuple[int, int]:
    return pairs[rng.choice(len(pairs), p=np.array(weights) / sum(weights))]


def _cut(time: float, pair: tuple[int, int], line: Line) -> Cut:
    return Cut(time, pair, line.normal, line.offset)
