"""How a cut is drawn (the paper's Figure 1, right): Algorithm 2, lines 3 to 6, in four steps."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..reference import Block, order_polygon
from ..reference.hulls import PairHulls
from .polygons import clip_line
from .process import check_block
from .solids import AXIS_NAMES, check_3d_axes, draw_faces, draw_wireframe, set_3d_limits, set_3d_title
from .style import (
    CLASS_COLOURS,
    HIGHLIGHT,
    background_colour,
    draw_cells,
    draw_lines,
    fade,
    need_matplotlib,
    text_colour,
    to_rgb,
)


class CutDisplay:
    """A block in three dimensions and how its cut is drawn, in four steps.

    (a) The block. (b) Two dimensions are chosen, with probability proportional to the perimeter of the projection of the
    block on them. (c) In this projection, a direction θ is drawn with a density proportional to the length of l(θ), where l(θ) is the projection on a
    line in direction θ, and a position u uniformly on l(θ). (d) The cut is the plane through u that is orthogonal to l(θ)
    and parallel to the third dimension.

    Create it with `from_block`.

    Parameters
    ----------
    block : Block
        A block with a cut.
    projection : ndarray of shape (n, 2)
        The projection of the block on the two dimensions of the cut.
    line : ndarray of shape (2, 2)
        The ends of l(θ) in (c), drawn next to the projection.
    position : ndarray of shape (2,)
        The point u in (c).

    Attributes
    ----------
    axes_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> from bspforest.plotting import CutDisplay
    >>> from bspforest.reference import draw_partition, make_box
    >>> cube = draw_partition(make_box([0, 0, 0], [1, 1, 1]), 1.0, random_state=0)
    >>> CutDisplay.from_block(cube).projection.shape
    (4, 2)
    """

    def __init__(self, block: Block, projection: np.ndarray, line: np.ndarray, position: np.ndarray) -> None:
        self.block = block
        self.projection = projection
        self.line = line
        self.position = position

    @classmethod
    def from_block(cls, block: Any) -> Self:
        """Create a display of how a block was cut.

        Parameters
        ----------
        block : bspforest.reference.Block
            A block in three dimensions with an oblique cut: a partition from `bspforest.reference.draw_partition`, or
            one of its ``cut_blocks()``.

        Returns
        -------
        CutDisplay
        """
        block = check_block(block)
        d = block.polytope.vertices.shape[1]
        if d != 3:
            raise ValueError(f"cuts are drawn in three dimensions, this block has {d}")
        if block.cut is None:
            raise ValueError("this block has no cut: choose one of partition.cut_blocks(), or increase the budget")
        if len(block.cut.dims) != 2:
            raise ValueError("expected an oblique cut in two dimensions, got a Mondrian cut in one")
        projection = PairHulls(block.polytope.vertices).polygons[block.cut.dims]
        normal, offset = block.cut.normal, block.cut.offset
        along = projection @ normal
        direction = np.array([-normal[1], normal[0]])
        beside = (projection @ direction).min() - 0.12 * np.ptp(projection, axis=0).max()
        line = np.stack([along.min() * normal, along.max() * normal]) + beside * direction
        return cls(block, projection, line, offset * normal + beside * direction)

    def plot(self, axes: Any = None) -> Self:
        """Draw the four steps.

        Parameters
        ----------
        axes : four matplotlib axes or None, default=None
            All but the third with ``projection="3d"``. None creates a figure.

        Returns
        -------
        self
        """
        mpl = need_matplotlib("CutDisplay")
        if axes is None:
            figure = mpl.pyplot.figure(figsize=(13.5, 3.9), layout="constrained")
            figure.get_layout_engine().set(wspace=0.06)
            axes = [figure.add_subplot(1, 4, k + 1, projection=None if k == 2 else "3d") for k in range(4)]
        self.axes_ = list(np.ravel(axes))
        if len(self.axes_) != 4:
            raise ValueError(f"CutDisplay draws four plots: axes must be four axes, got {len(self.axes_)}")
        for k in (0, 1, 3):
            check_3d_axes(self.axes_[k])
        self.figure_ = self.axes_[0].figure
        self._draw_block(self.axes_[0])
        self._draw_pair(self.axes_[1])
        self._draw_line(self.axes_[2])
        self._draw_cut(self.axes_[3])
        return self

    def _draw_block(self, ax: Any) -> None:
        set_3d_limits(ax, self.block.polytope.vertices)
        faces = self.block.polytope.faces()
        colours = np.tile(fade(to_rgb(CLASS_COLOURS[0]), 0.7), (len(faces), 1))
        draw_faces(ax, faces, colours, alpha=0.3)
        set_3d_title(ax, "(a) a block")

    def _draw_pair(self, ax: Any) -> None:
        """Draw the block above its projection."""
        corners = self.block.polytope.vertices
        i, j, k = self._dims()
        low, high = corners[:, k].min(), corners[:, k].max()
        floor = np.zeros((len(self.projection), 3))
        floor[:, [i, j]] = self.projection
        floor[:, k] = low - 0.35 * (high - low)
        set_3d_limits(ax, np.concatenate([corners, floor]))
        draw_wireframe(ax, self.block.polytope)
        draw_faces(ax, [floor], to_rgb(CLASS_COLOURS[0])[None], alpha=0.6)
        for corner in corners:
            foot = corner.copy()
            foot[k] = floor[0, k]
            ax.plot(*np.stack([corner, foot]).T, color=fade(text_colour(), 0.5), linewidth=0.7, linestyle=":")
        set_3d_title(ax, f"(b) its projection on {AXIS_NAMES[i]}, {AXIS_NAMES[j]}")

    def _draw_line(self, ax: Any) -> None:
        text = text_colour()
        i, j, _ = self._dims()
        assert self.block.cut is not None
        draw_cells(ax, [self.projection], fade(to_rgb(CLASS_COLOURS[0]), 0.6)[None])
        hit = clip_line(self.projection, self.block.cut.normal, self.block.cut.offset)
        along = self.projection @ self.block.cut.normal
        for corner, end in ((along.argmin(), 0), (along.argmax(), 1)):
            draw_lines(
                ax,
                [np.stack([self.projection[corner], self.line[end]])],
                color=fade(text, 0.5),
                linewidth=0.8,
                linestyle=":",
            )
        draw_lines(
            ax,
            [np.concatenate([hit, self.position[None]])],
            color=fade(to_rgb(HIGHLIGHT), 0.6),
            linewidth=1.0,
            linestyle=":",
        )
        draw_lines(ax, [hit], color=HIGHLIGHT, linewidth=2.2, zorder=3)
        draw_lines(ax, [self.line], color=text, linewidth=1.8, zorder=3)
        ax.scatter(*self.position, s=60, color=HIGHLIGHT, edgecolors=[background_colour()], zorder=5)
        ax.annotate("$u$", self.position, xytext=(6, -12), textcoords="offset points", color=HIGHLIGHT, fontsize=13)
        ax.annotate("$l(\\theta)$", self.line[1], xytext=(4, -12), textcoords="offset points", fontsize=12)
        ax.set(
            xlabel=AXIS_NAMES[i], ylabel=AXIS_NAMES[j], xticks=[], yticks=[], title="(c) a direction θ and a position u"
        )
        ax.set_aspect("equal")
        ax.margins(0.12)
        ax.autoscale_view()
        ax.spines[:].set_visible(False)

    def _draw_cut(self, ax: Any) -> None:
        assert self.block.section is not None
        set_3d_limits(ax, self.block.polytope.vertices)
        faces, colours = [], []
        for child, colour in zip(self.block.children, (CLASS_COLOURS[0], CLASS_COLOURS[1]), strict=True):
            faces += child.polytope.faces()
            colours += [to_rgb(colour)] * len(child.polytope.faces())
        alpha = np.append(np.full(len(faces), 0.25), 0.9)  # one collection, so that faces in front cover the cut
        draw_faces(
            ax, [*faces, order_polygon(self.block.section)], np.array([*colours, to_rgb(HIGHLIGHT)]), alpha=alpha
        )
        set_3d_title(ax, "(d) the cut")

    def _dims(self) -> tuple[int, int, int]:
        """Return the two dimensions of the cut, and the third one."""
        assert self.block.cut is not None
        i, j = self.block.cut.dims
        return i, j, 3 - i - j
