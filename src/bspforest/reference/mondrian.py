"""Mondrian processes and trees, for comparison: Algorithms 1 to 5 with boxes in the place of hulls.

Daniel Roy, Yee Whye Teh. The Mondrian process. NIPS 2009.
Balaji Lakshminarayanan, Daniel Roy, Yee Whye Teh. Mondrian forests: efficient online random forests. NIPS 2014.

A Mondrian cut is a threshold in one dimension. All else is as for oblique cuts, so `Box` answers the questions that
`bspforest.reference.PairHulls` answers, and stands in for it in `draw_partition` and `Tree`:

>>> from bspforest.reference import draw_partition, make_box
>>> square = draw_partition(make_box([0, 0], [1, 1]), 2.0, random_state=1, shape=Box)
>>> sorted({len(block.polytope.vertices) for block in square.leaves()})
[4]
"""

from __future__ import annotations

import numpy as np

from .hulls import Cut


class Box:
    """The smallest box that holds a set of points.

    Attributes
    ----------
    low, high : ndarray of shape (d,)
        Its corners.
    """

    def __init__(self, points: np.ndarray) -> None:
        self.low, self.high = points.min(axis=0), points.max(axis=0)

    def extended(self, x: np.ndarray) -> Box:
        """The box of these points and x."""
        return Box(np.stack([self.low, self.high, x]))

    def rate(self) -> float:
        """The sum of its sides: the number of cuts in a unit of time."""
        return float((self.high - self.low).sum())

    def draw_cut(self, time: float, rng: np.random.Generator) -> Cut:
        """A dimension in proportion to the sides, and a uniform threshold."""
        sides = self.high - self.low
        k = int(rng.choice(len(sides), p=sides / sides.sum()))
        return Cut(time, (k,), np.ones(1), rng.uniform(self.low[k], self.high[k]))

    def rate_beyond(self, inner: Box) -> float:
        """How much longer its sides are than those of ``inner``, a box inside it."""
        return float((inner.low - self.low).sum() + (self.high - inner.high).sum())

    def draw_cut_beyond(self, inner: Box, time: float, rng: np.random.Generator) -> Cut:
        """A uniform cut that crosses this box and misses ``inner``."""
        low = np.concatenate([self.low, inner.high])
        high = np.concatenate([inner.low, self.high])
        k = int(rng.choice(len(low), p=(high - low) / (high - low).sum()))
        return Cut(time, (k % len(self.low),), np.ones(1), rng.uniform(low[k], high[k]))
