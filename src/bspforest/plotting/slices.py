"""Where a line meets the cuts of a partition (Lemma 1; the paper's supplement, figure of the slice, right)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..reference import Block, slice_line
from .polygons import cross
from .process import check_block, draw_domain
from .style import CLASS_COLOURS, NEW, draw_lines, ink, make_axes, mix


class SliceDisplay:
    """A partition of the plane, a line across it, and the points where it meets the cuts.

    The points form a Poisson process along the line, of rate τ a unit of length: τ is the budget.

    Use `from_partition`.

    Attributes
    ----------
    block : Block
        The partition.
    start, end : ndarray of shape (2,)
    points : ndarray of shape (n, 2)
        Where the line meets the cuts, from start to end.
    ax_, figure_ : matplotlib axes and figure
    points_ : matplotlib collection

    Examples
    --------
    >>> from bspforest.plotting import SliceDisplay
    >>> from bspforest.reference import draw_partition, make_box
    >>> square = draw_partition(make_box([0, 0], [1, 1]), 2.0, random_state=1)
    >>> SliceDisplay.from_partition(square, [0, 0], [1, 1]).points.round(2).tolist()
    [[0.31, 0.31], [0.42, 0.42], [0.43, 0.43]]
    """

    def __init__(
        self, block: Block, start: np.ndarray, end: np.ndarray, points: np.ndarray, budget: float | None
    ) -> None:
        self.block = block
        self.start = start
        self.end = end
        self.points = points
        self.budget = budget

    @classmethod
    def from_partition(cls, block: Any, start: Any = None, end: Any = None, *, budget: float | None = None) -> Self:
        """Slice a partition by the line from ``start`` to ``end``.

        Parameters
        ----------
        block : bspforest.reference.Block
            From `bspforest.reference.draw_partition`, of two dimensions.
        start, end : array-like of shape (2,) or None, default=None
            Two places in the domain. None is an oblique line across it.
        budget : float or None, default=None
            The budget of the partition, to say how many points to expect.

        Returns
        -------
        SliceDisplay
        """
        block = check_block(block)
        d = block.polytope.vertices.shape[1]
        if d != 2:
            raise ValueError(
                f"a slice is drawn in two dimensions, this partition has {d}; bspforest.reference.slice_line gives the points"
            )
        ends = (
            _long_line(block) if start is None and end is None else [np.asarray(e, dtype=float) for e in (start, end)]
        )
        for name, place in zip(("start", "end"), ends, strict=True):
            if place.shape != (2,) or not np.isfinite(place).all():
                raise ValueError(f"{name} must be a place in the plane, two finite numbers, got {place}")
            if not _holds(block.polytope.faces()[0], place):
                raise ValueError(f"{name} must lie in the domain of the partition, got {place.tolist()}")
        first, last = ends
        along = slice_line(block, first, last)
        return cls(block, first, last, first + along[:, None] * (last - first), budget)

    def plot(self, ax: Any = None) -> Self:
        """Draw the slice.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            None makes a figure.

        Returns
        -------
        self
        """
        self.figure_, (self.ax_,) = make_axes("SliceDisplay", ax)
        text, ground = ink()
        cuts = [b.section for b in self.block.cut_blocks() if b.section is not None]
        draw_lines(self.ax_, cuts, color=mix(text, 0.75), linewidth=1.0)
        draw_lines(self.ax_, [np.stack([self.start, self.end])], color=NEW, linewidth=2.2, zorder=3)
        self.points_ = self.ax_.scatter(
            *self.points.T, s=55, color=CLASS_COLOURS[0], edgecolors=[ground], linewidths=1.0, zorder=4
        )
        draw_domain(self.ax_, self.block)
        n = len(self.points)
        expected = (
            "" if self.budget is None else f", {self.budget * np.linalg.norm(self.end - self.start):.1f} expected"
        )
        self.ax_.set_title(f"{n} point{'s' * (n != 1)} on the line{expected}")
        return self


def _long_line(block: Block) -> list[np.ndarray]:
    """An oblique line through the middle of the domain, from side to side."""
    polygon = block.polytope.faces()[0]
    normal = np.array([-0.6, 1.0])
    ends = cross(polygon, normal, float(polygon.mean(axis=0) @ normal))
    return list(ends[np.argsort(ends[:, 0])])


def _holds(polygon: np.ndarray, place: np.ndarray) -> bool:
    """Is a place in a convex polygon, or within a rounding error of it?"""
    side = np.roll(polygon, -1, axis=0) - polygon
    gap = place - polygon
    turn = side[:, 0] * gap[:, 1] - side[:, 1] * gap[:, 0]
    slack = 1e-9 * np.ptp(polygon, axis=0).max() ** 2
    return bool((turn >= -slack).all() or (turn <= slack).all())
