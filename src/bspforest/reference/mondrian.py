"""Mondrian processes and trees, for comparison: Algorithms 1 to 5 with boxes instead of hulls.

Daniel Roy, Yee Whye Teh. The Mondrian process. NIPS 2009.
Balaji Lakshminarayanan, Daniel Roy, Yee Whye Teh. Mondrian forests: efficient online random forests. NIPS 2014.

A Mondrian cut is a threshold in one dimension. Everything else is as for oblique cuts, so `Box` has the methods of
`bspforest.reference.PairHulls` and can be passed in its place to `draw_partition` and `Tree`:

>>> from bspforest.reference import draw_partition, make_box
>>> square = draw_partition(make_box([0, 0], [1, 1]), 2.0, random_state=1, shape=Box)
>>> sorted({len(block.polytope.vertices) for block in square.leaves()})
[4]
"""

from __future__ import annotations

import numpy as np

from .hulls import Cut


class Box:
    """The bounding box of a set of points.

    Attributes
    ----------
    low, high : ndarray of shape (d,)
        The lower and upper ends in each dimension.
    """

    def __init__(self, points: np.ndarray) -> None:
        self.low, self.high = points.min(axis=0), points.max(axis=0)

    def extended(self, x: np.ndarray) -> Box:
        """Return the box of these points and x."""
        return Box(np.stack([self.low, self.high, x]))

    def rate(self) -> float:
        """Return the rate at which cuts arrive, the sum of the side lengths."""
        return float((self.high - self.low).sum())

    def draw_cut(self, time: float, rng: np.random.Generator) -> Cut:
        """Draw a dimension with probability proportional to its side length, and a uniform threshold."""
        sides = self.high - self.low
        k = int(rng.choice(len(sides), p=sides / sides.sum()))
        return Cut(time, (k,), np.ones(1), rng.uniform(self.low[k], self.high[k]))

    def rate_beyond(self, inner: Box) -> float:
        """Return the rate of cuts that cross this box and miss ``inner``, a box inside it."""
        return float((inner.low - self.low).sum() + (self.high - inner.high).sum())

    def draw_cut_beyond(self, inner: Box, time: float, rng: np.random.Generator) -> Cut:
        """Draw a uniform cut that crosses this box and misses ``inner``."""
        low = np.concatenate([self.low, inner.high])
        high = np.concatenate([inner.low, self.high])
        k = int(rng.choice(len(low), p=(high - low) / (high - low).sum()))
        return Cut(time, (k % len(self.low),), np.ones(1), rng.uniform(low[k], high[k]))
