"""The intersection of a partition with a line (Lemma 1; the paper's supplement, figure of the slice, right)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..reference import Block, slice_line
from .polygons import clip_line
from .process import check_block, draw_domain
from .style import CLASS_COLOURS, HIGHLIGHT, background_colour, draw_lines, fade, make_axes, text_colour


class SliceDisplay:
    """A partition of the plane, a line across it, and the points where the line meets the cuts.

    The points form a Poisson process with rate τ, the budget, per unit of length.

    Create it with `from_partition`.

    Parameters
    ----------
    block : Block
        The partition.
    start, end : ndarray of shape (2,)
        The ends of the line.
    points : ndarray of shape (n, 2)
        Intersections of the line with the cuts, from start to end.
    budget : float or None
        The budget of the partition, for the title.

    Attributes
    ----------
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
        """Create a display of the line from ``start`` to ``end`` in a partition.

        Parameters
        ----------
        block : bspforest.reference.Block
            A partition in two dimensions, from `bspforest.reference.draw_partition`.
        start, end : array-like of shape (2,) or None, default=None
            Two points of the domain. By default, an oblique line across the domain.
        budget : float or None, default=None
            The budget of the partition; if given, the title shows the expected number of points.

        Returns
        -------
        SliceDisplay
        """
        block = check_block(block)
        d = block.polytope.vertices.shape[1]
        if d != 2:
            raise ValueError(
                f"a slice is drawn in two dimensions, this partition has {d}; bspforest.reference.slice_line returns the points"
            )
        if start is None and end is None:
            ends = _choose_line(block)
        else:
            ends = [np.asarray(point, dtype=float) for point in (start, end)]
        for name, point in zip(("start", "end"), ends, strict=True):
            if point.shape != (2,) or not np.isfinite(point).all():
                raise ValueError(f"{name} must be a point in the plane, two finite numbers, got {point}")
            if not _contains(block.polytope.faces()[0], point):
                raise ValueError(f"{name} must lie in the domain of the partition, got {point.tolist()}")
        first, last = ends
        along = slice_line(block, first, last)
        return cls(block, first, last, first + along[:, None] * (last - first), budget)

    def plot(self, ax: Any = None) -> Self:
        """Draw the slice.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            None creates a figure.

        Returns
        -------
        self
        """
        self.figure_, (self.ax_,) = make_axes("SliceDisplay", ax)
        cuts = [b.section for b in self.block.cut_blocks() if b.section is not None]
        draw_lines(self.ax_, cuts, color=fade(text_colour(), 0.75), linewidth=1.0)
        draw_lines(self.ax_, [np.stack([self.start, self.end])], color=HIGHLIGHT, linewidth=2.2, zorder=3)
        self.points_ = self.ax_.scatter(
            *self.points.T, s=55, color=CLASS_COLOURS[0], edgecolors=[background_colour()], linewidths=1.0, zorder=4
        )
        draw_domain(self.ax_, self.block)
        n = len(self.points)
        length = np.linalg.norm(self.end - self.start)
        expected = "" if self.budget is None else f", {self.budget * length:.1f} expected"
        self.ax_.set_title(f"{n} point{'s' * (n != 1)} on the line{expected}")
        return self


def _choose_line(block: Block) -> list[np.ndarray]:
    """Return the ends of an oblique line through the middle of the domain."""
    polygon = block.polytope.faces()[0]
    normal = np.array([-0.6, 1.0])
    ends = clip_line(polygon, normal, float(polygon.mean(axis=0) @ normal))
    return list(ends[np.argsort(ends[:, 0])])


def _contains(polygon: np.ndarray, point: np.ndarray) -> bool:
    """Return whether a convex polygon contains a point, up to rounding."""
    side = np.roll(polygon, -1, axis=0) - polygon
    gap = point - polygon
    turn = side[:, 0] * gap[:, 1] - side[:, 1] * gap[:, 0]
    slack = 1e-9 * np.ptp(polygon, axis=0).max() ** 2
    return bool((turn >= -slack).all() or (turn <= slack).all())
