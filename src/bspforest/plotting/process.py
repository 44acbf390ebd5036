"""A realisation of the BSP-Tree process in two or three dimensions (the paper's Figure 1, left)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..reference import Block, order_polygon
from .solids import (
    AXIS_NAMES,
    check_3d_axes,
    draw_faces,
    draw_wireframe,
    set_3d_limits,
    set_3d_title,
    shade_face,
)
from .style import (
    HIGHLIGHT,
    draw_cells,
    draw_lines,
    fade,
    make_scale,
    need_matplotlib,
    set_limits,
    text_colour,
    to_rgb,
)


def check_block(block: Any) -> Block:
    """Return the partition, or raise an error if it is something else."""
    if not isinstance(block, Block):
        raise TypeError(
            f"expected a partition from bspforest.reference.draw_partition, got {type(block).__name__}; "
            "for a tree of a forest use PartitionDisplay"
        )
    return block


class ProcessDisplay:
    """A realisation of the process on a convex domain in two or three dimensions.

    In two dimensions, cells are coloured by the time at which they were created, and earlier cuts are thicker. In three
    dimensions, each cut is a polygon coloured by its time; with ``explode``, the cells are drawn as solids, moved apart.

    Create it with `from_partition`.

    Parameters
    ----------
    block : Block
        The partition, from `bspforest.reference.draw_partition`.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    axes_ : list of matplotlib axes
        The axes of `plot_times`.
    polygons_ : list of ndarray
        The polygons drawn by `plot`: cells in two dimensions; cuts, or the faces of cells, in three.
    cells_ : matplotlib collection
        The collection of these polygons.

    Examples
    --------
    >>> from bspforest.plotting import ProcessDisplay
    >>> from bspforest.reference import draw_partition, make_box
    >>> cube = draw_partition(make_box([0, 0, 0], [1, 1, 1]), 1.0, random_state=0)
    >>> display = ProcessDisplay.from_partition(cube)
    >>> display.plot(explode=0.3).ax_.get_title()
    '14 cells'
    """

    def __init__(self, block: Block) -> None:
        self.block = block

    @classmethod
    def from_partition(cls, block: Any) -> Self:
        """Create a display of a partition.

        Parameters
        ----------
        block : bspforest.reference.Block
            A partition in two or three dimensions, from `bspforest.reference.draw_partition`.

        Returns
        -------
        ProcessDisplay
        """
        block = check_block(block)
        d = block.polytope.vertices.shape[1]
        if d > 3:
            raise ValueError(f"only partitions in two or three dimensions can be drawn, this one has {d}")
        return cls(block)

    @property
    def _is_3d(self) -> bool:
        return self.block.polytope.vertices.shape[1] == 3

    def _last_time(self) -> float:
        return max((b.cut.time for b in self.block.cut_blocks() if b.cut is not None), default=1.0)

    def plot(self, ax: Any = None, *, time: float | None = None, explode: float = 0.0, legend: bool = True) -> Self:
        """Draw the partition.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            None creates a figure. A partition in three dimensions needs axes with ``projection="3d"``.
        time : float or None, default=None
            Draw the partition as of this time; by default, the final one.
        explode : float, default=0.0
            In three dimensions, draw the cells as solids, moved apart by this fraction of the size of the domain.
        legend : bool, default=True
            Add a colour bar.

        Returns
        -------
        self
        """
        if explode < 0 or (explode > 0 and not self._is_3d):
            raise ValueError(f"explode must be 0, or in three dimensions a positive number, got {explode!r}")
        mpl = need_matplotlib("ProcessDisplay")
        if ax is None:
            _, ax = mpl.pyplot.subplots(
                figsize=(6.0, 5.0), layout="constrained", subplot_kw={"projection": "3d"} if self._is_3d else {}
            )
        elif self._is_3d:
            check_3d_axes(ax)
        self.ax_, self.figure_ = ax, ax.figure
        scale = make_scale(0.0, self._last_time())
        until = np.inf if time is None else time
        if self._is_3d:
            self._draw_3d(until, explode, scale)
        else:
            self._draw_2d(until, scale)
        if legend:
            label = "time of the cut" if self._is_3d and not explode else "time at which the cell was created"
            self.figure_.colorbar(scale, ax=ax, label=label, shrink=0.8 if self._is_3d else 1.0)
        self._set_title(ax, until)
        return self

    def _set_title(self, ax: Any, until: float) -> None:
        n = len(self.block.leaves(until))
        title = f"{n} cell{'s' * (n > 1)}" + (f" at time {until:.2g}" if np.isfinite(until) else "")
        if self._is_3d:
            set_3d_title(ax, title)
        else:
            ax.set_title(title)

    def _blocks_cut_by(self, until: float) -> list[Block]:
        return [b for b in self.block.cut_blocks() if b.cut is not None and b.cut.time <= until]

    def _draw_2d(self, until: float, scale: Any) -> None:
        text = text_colour()
        leaves = self.block.leaves(until)
        fills = scale.to_rgba([leaf.birth_time for leaf in leaves])[:, :3]
        self.polygons_ = [leaf.polytope.faces()[0] for leaf in leaves]
        self.cells_ = draw_cells(self.ax_, self.polygons_, fade(fills, 0.75))
        cuts = self._blocks_cut_by(until)
        widths = [0.6 + 2.4 * (1 - b.cut.time / self._last_time()) for b in cuts if b.cut is not None]
        draw_lines(self.ax_, [b.section for b in cuts if b.section is not None], color=text, linewidths=widths)
        draw_domain(self.ax_, self.block)

    def _draw_3d(self, until: float, explode: float, scale: Any) -> None:
        corners = self.block.polytope.vertices
        if not explode:
            set_3d_limits(self.ax_, corners)
            draw_wireframe(self.ax_, self.block.polytope)
            cuts = self._blocks_cut_by(until)
            colours = scale.to_rgba([b.cut.time for b in cuts if b.cut is not None])[:, :3]
            self.polygons_ = [order_polygon(b.section) for b in cuts if b.section is not None]
            self.cells_ = draw_faces(self.ax_, self.polygons_, colours, alpha=0.55)
            return
        self.polygons_, colours = [], []
        middle = corners.mean(axis=0)
        set_3d_limits(self.ax_, middle + (1 + explode) * (corners - middle))
        for leaf in self.block.leaves(until):
            centre = leaf.polytope.vertices.mean(axis=0)
            for face in leaf.polytope.faces():
                self.polygons_.append(face + explode * (centre - middle))
                colours.append(shade_face(face, centre, np.array(scale.to_rgba(leaf.birth_time)[:3])))
        self.cells_ = draw_faces(self.ax_, self.polygons_, np.array(colours))

    def plot_times(self, times: Sequence[float]) -> Self:
        """Draw the partition at several times, side by side, with the cuts since the previous time highlighted.

        Parameters
        ----------
        times : sequence of float
            In increasing order.

        Returns
        -------
        self
        """
        times = [float(time) for time in times]
        if not times or times != sorted(times) or times[0] < 0:
            raise ValueError(f"times must be numbers of at least 0, increasing, got {times}")
        mpl = need_matplotlib("ProcessDisplay")
        options = {"projection": "3d"} if self._is_3d else {}
        size = (3.4 * len(times), 3.7)
        self.figure_, axes = mpl.pyplot.subplots(
            1, len(times), figsize=size, layout="constrained", squeeze=False, subplot_kw=options
        )
        self.axes_ = list(axes[0])
        before = -1.0
        for ax, time in zip(self.axes_, times, strict=True):
            cuts = self._blocks_cut_by(time)
            new = np.array([b.cut.time > before for b in cuts if b.cut is not None], dtype=bool)
            sections = [order_polygon(b.section) for b in cuts if b.section is not None]
            self._draw_cuts(ax, sections, new)
            self._set_title(ax, time)
            before = time
        return self

    def _draw_cuts(self, ax: Any, sections: list[np.ndarray], new: np.ndarray) -> None:
        text = text_colour()
        if self._is_3d:
            set_3d_limits(ax, self.block.polytope.vertices)
            draw_wireframe(ax, self.block.polytope)
            colours = np.where(new[:, None], to_rgb(HIGHLIGHT), fade(text, 0.5))
            draw_faces(ax, sections, colours, alpha=np.where(new, 0.45, 0.12), edges=colours)
            return
        for is_new, colour, width in ((False, text, 1.2), (True, HIGHLIGHT, 2.0)):
            draw_lines(ax, [sections[k] for k in np.flatnonzero(new == is_new)], color=colour, linewidth=width)
        draw_domain(ax, self.block)


def draw_domain(ax: Any, block: Block) -> None:
    """Draw the outline of a domain in the plane and set the limits of the axes."""
    corners = block.polytope.faces()[0]
    draw_lines(ax, [np.concatenate([corners, corners[:1]])], color=text_colour(), linewidth=1.5)
    low, high = corners.min(axis=0), corners.max(axis=0)
    pad = 0.03 * (high - low)
    set_limits(ax, np.stack([low - pad, high + pad]), AXIS_NAMES[:2])
    ax.set_aspect("equal")
