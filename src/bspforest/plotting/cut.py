"""How one cut is made (the paper's Figure 1, right): Algorithm 2, lines 3 to 6, in four pictures."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..reference import Block, order_polygon
from ..reference.hulls import PairHulls
from .polygons import cross
from .process import check_block
from .solids import check_solid_axes, draw_faces, draw_frame, fit_cube, set_title
from .style import CLASS_COLOURS, NEW, draw_cells, draw_lines, ink, mix, need_matplotlib, rgb

NAMES = ("$x_1$", "$x_2$", "$x_3$")


class CutDisplay:
    """A block of three dimensions and its cut, in four steps.

    (a) The block. (b) A pair of dimensions is chosen, with probability in proportion to the perimeter of the block's
    shadow in it. (c) In this shadow, a direction θ is drawn with density |l(θ)|, l(θ) being the shadow of the shadow on a line
    in this direction, and a place u uniformly on it. (d) The cut: a plane through u, at right angles to l(θ) and parallel to
    the third dimension.

    Use `from_block`.

    Attributes
    ----------
    block : Block
    shadow : ndarray of shape (n, 2)
        The block's projection on the two dimensions of the cut.
    line : ndarray of shape (2, 2)
        The ends of l(θ) in (c), drawn beside the shadow.
    place : ndarray of shape (2,)
        u in (c).
    axes_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> from bspforest.plotting import CutDisplay
    >>> from bspforest.reference import draw_partition, make_box
    >>> cube = draw_partition(make_box([0, 0, 0], [1, 1, 1]), 1.0, random_state=0)
    >>> CutDisplay.from_block(cube).shadow.shape
    (4, 2)
    """

    def __init__(self, block: Block, shadow: np.ndarray, line: np.ndarray, place: np.ndarray) -> None:
        self.block = block
        self.shadow = shadow
        self.line = line
        self.place = place

    @classmethod
    def from_block(cls, block: Any) -> Self:
        """Look at how a block was cut.

        Parameters
        ----------
        block : bspforest.reference.Block
            A block of three dimensions with an oblique cut: from `bspforest.reference.draw_partition`, the whole or one of
            its ``cut_blocks()``.

        Returns
        -------
        CutDisplay
        """
        block = check_block(block)
        d = block.polytope.vertices.shape[1]
        if d != 3:
            raise ValueError(f"how a cut is made is drawn in three dimensions, this block has {d}")
        if block.cut is None:
            raise ValueError("this block is not cut: choose one of partition.cut_blocks(), or a larger budget")
        if len(block.cut.dims) != 2:
            raise ValueError("this is a Mondrian cut, of one dimension; expected an oblique one, of two")
        shadow = PairHulls(block.polytope.vertices).polygons[block.cut.dims]
        normal, offset = block.cut.normal, block.cut.offset
        along = shadow @ normal
        side = np.array([-normal[1], normal[0]])
        beside = (shadow @ side).min() - 0.12 * np.ptp(shadow, axis=0).max()
        line = np.stack([along.min() * normal, along.max() * normal]) + beside * side
        return cls(block, shadow, line, offset * normal + beside * side)

    def plot(self, axes: Any = None) -> Self:
        """Draw the four steps.

        Parameters
        ----------
        axes : four matplotlib axes or None, default=None
            All but the third with ``projection="3d"``. None makes a figure.

        Returns
        -------
        self
        """
        plt = need_matplotlib("CutDisplay")
        if axes is None:
            figure = plt.figure(figsize=(13.5, 3.9), layout="constrained")
            figure.get_layout_engine().set(wspace=0.06)
            axes = [figure.add_subplot(1, 4, k + 1, projection=None if k == 2 else "3d") for k in range(4)]
        self.axes_ = list(np.ravel(axes))
        if len(self.axes_) != 4:
            raise ValueError(f"CutDisplay draws four pictures: axes must be four axes, got {len(self.axes_)}")
        for k in (0, 1, 3):
            check_solid_axes(self.axes_[k])
        self.figure_ = self.axes_[0].figure
        self._draw_block(self.axes_[0])
        self._draw_pair(self.axes_[1])
        self._draw_line(self.axes_[2])
        self._draw_cut(self.axes_[3])
        return self

    def _draw_block(self, ax: Any) -> None:
        fit_cube(ax, self.block.polytope.vertices)
        faces = self.block.polytope.faces()
        colours = np.tile(mix(rgb(CLASS_COLOURS[0]), 0.7), (len(faces), 1))
        draw_faces(ax, faces, colours, alpha=0.3)
        set_title(ax, "(a) a block")

    def _draw_pair(self, ax: Any) -> None:
        """The block over its shadow, at the foot of the third dimension."""
        corners = self.block.polytope.vertices
        i, j, k = self._dims()
        low, high = corners[:, k].min(), corners[:, k].max()
        floor = np.zeros((len(self.shadow), 3))
        floor[:, [i, j]] = self.shadow
        floor[:, k] = low - 0.35 * (high - low)
        fit_cube(ax, np.concatenate([corners, floor]))
        draw_frame(ax, self.block.polytope)
        draw_faces(ax, [floor], rgb(CLASS_COLOURS[0])[None], alpha=0.6)
        for corner in corners:
            foot = corner.copy()
            foot[k] = floor[0, k]
            ax.plot(*np.stack([corner, foot]).T, color=mix(ink()[0], 0.5), linewidth=0.7, linestyle=":")
        set_title(ax, f"(b) its shadow in {NAMES[i]}, {NAMES[j]}")

    def _draw_line(self, ax: Any) -> None:
        text, ground = ink()
        i, j, _ = self._dims()
        assert self.block.cut is not None
        draw_cells(ax, [self.shadow], mix(rgb(CLASS_COLOURS[0]), 0.6)[None])
        hit = cross(self.shadow, self.block.cut.normal, self.block.cut.offset)
        along = self.shadow @ self.block.cut.normal
        for corner, end in ((along.argmin(), 0), (along.argmax(), 1)):
            draw_lines(
                ax,
                [np.stack([self.shadow[corner], self.line[end]])],
                color=mix(text, 0.5),
                linewidth=0.8,
                linestyle=":",
            )
        draw_lines(
            ax, [np.concatenate([hit, self.place[None]])], color=mix(rgb(NEW), 0.6), linewidth=1.0, linestyle=":"
        )
        draw_lines(ax, [hit], color=NEW, linewidth=2.2, zorder=3)
        draw_lines(ax, [self.line], color=text, linewidth=1.8, zorder=3)
        ax.scatter(*self.place, s=60, color=NEW, edgecolors=[ground], zorder=5)
        ax.annotate("$u$", self.place, xytext=(6, -12), textcoords="offset points", color=NEW, fontsize=13)
        ax.annotate("$l(\\theta)$", self.line[1], xytext=(4, -12), textcoords="offset points", fontsize=12)
        ax.set(xlabel=NAMES[i], ylabel=NAMES[j], xticks=[], yticks=[], title="(c) a direction θ and a place u")
        ax.set_aspect("equal")
        ax.margins(0.12)
        ax.autoscale_view()
        ax.spines[:].set_visible(False)

    def _draw_cut(self, ax: Any) -> None:
        assert self.block.section is not None
        fit_cube(ax, self.block.polytope.vertices)
        faces, colours = [], []
        for part, colour in zip(self.block.children, (CLASS_COLOURS[0], CLASS_COLOURS[1]), strict=True):
            faces += part.polytope.faces()
            colours += [rgb(colour)] * len(part.polytope.faces())
        alpha = np.append(np.full(len(faces), 0.25), 0.9)  # one collection, so that nearer faces are drawn over the cut
        draw_faces(ax, [*faces, order_polygon(self.block.section)], np.array([*colours, rgb(NEW)]), alpha=alpha)
        set_title(ax, "(d) the cut")

    def _dims(self) -> tuple[int, int, int]:
        """The two dimensions of the cut, and the other."""
        assert self.block.cut is not None
        i, j = self.block.cut.dims
        return i, j, 3 - i - j
