"""Cuts, and the convex hulls in all pairs of dimensions from which they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .polygons import draw_line, draw_line_in_gap, find_gap, find_hull, perimeter


@dataclass(frozen=True, eq=False)
class Cut:
    """The paper's C = {c, (d1, d2), θ, u}: the hyperplane of all x with ``x[dims] @ normal == offset``.

    ``time`` is measured from the start of the process, the paper's cost c from the previous cut. With absolute times,
    inserting a node between two others changes neither of them.
    """

    time: float
    dims: tuple[int, ...]
    normal: np.ndarray
    offset: float

    def heights(self, points: np.ndarray) -> np.ndarray:
        """Return the signed distance of each point from the cut."""
        return points[..., list(self.dims)] @ self.normal - self.offset

    def goes_right(self, points: np.ndarray) -> np.ndarray:
        """Return whether each point lies to the right of the cut."""
        return self.heights(points) > 0

    @property
    def angle(self) -> float:
        """The paper's θ: the angle of the normal in the plane of the two dimensions; 0 for a cut in one dimension."""
        return float(np.arctan2(self.normal[1], self.normal[0])) if len(self.dims) == 2 else 0.0


class PairHulls:
    """The convex hulls of a set of points, or of the vertices of a block, in all pairs of dimensions.

    They determine what Algorithms 2, 4, 5 and 6 need to know about a block □ or hull ◇: the rate at which cuts arrive,
    and the distribution of the next cut. The rate is *half* the sum of the perimeters, as in the paper's experiments
    (Section 5) and everywhere in this library.

    Attributes
    ----------
    polygons : dict
        The hull Π(□) in each pair of dimensions (i, j), a polygon as in `bspforest.reference.polygons`.
    """

    def __init__(self, points: np.ndarray) -> None:
        d = points.shape[1]
        if d < 2:
            raise ValueError(f"PairHulls needs two dimensions or more, got {d}; with one, use bspforest.reference.Box")
        self.polygons = {pair: find_hull(points[:, pair]) for pair in combinations(range(d), 2)}

    def extended(self, x: np.ndarray) -> PairHulls:
        """Return the hulls of these points and x (Algorithm 4, line 1)."""
        hulls = object.__new__(PairHulls)
        hulls.polygons = {p: find_hull(np.vstack([polygon, x[list(p)]])) for p, polygon in self.polygons.items()}
        return hulls

    def rate(self) -> float:
        """Return the rate at which cuts arrive (Algorithm 2, line 1; Algorithm 5, line 5)."""
        return 0.5 * sum(perimeter(polygon) for polygon in self.polygons.values())

    def draw_cut(self, time: float, rng: np.random.Generator) -> Cut:
        """Draw a cut that crosses the hulls (Algorithm 2, lines 3-4; Algorithm 5, lines 7-8)."""
        weights = [perimeter(polygon) for polygon in self.polygons.values()]
        pair = _choose_pair(list(self.polygons), weights, rng)
        line = draw_line(self.polygons[pair], rng)
        return Cut(time, pair, line.normal, line.offset)

    def rate_beyond(self, inner: PairHulls) -> float:
        """Return the rate of cuts that cross these hulls and miss the smaller hulls ``inner`` (Algorithm 4, line 7)."""
        return 0.5 * sum(find_gap(self.polygons[p], inner.polygons[p]).weights().sum() for p in self.polygons)

    def draw_cut_beyond(self, inner: PairHulls, time: float, rng: np.random.Generator) -> Cut:
        """Draw a cut that crosses these hulls and misses ``inner`` (Algorithm 6)."""
        gaps = {p: find_gap(self.polygons[p], inner.polygons[p]) for p in self.polygons}
        pair = _choose_pair(list(gaps), [gap.weights().sum() for gap in gaps.values()], rng)
        line = draw_line_in_gap(gaps[pair], rng)
        return Cut(time, pair, line.normal, line.offset)


def _choose_pair(pairs: list, weights: list, rng: np.random.Generator) -> tuple[int, int]:
    return pairs[rng.choice(len(pairs), p=np.array(weights) / sum(weights))]
