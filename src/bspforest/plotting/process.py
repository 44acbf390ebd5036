"""A realisation of the BSP-Tree process in two or three dimensions (the paper's Figure 1, left)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..reference import Block, order_polygon
from .solids import check_solid_axes, draw_faces, draw_frame, fit_cube, set_title, shade
from .style import MEANS, NEW, draw_cells, draw_lines, fit_frame, ink, mix, need_matplotlib


def check_block(block: Any) -> Block:
    """The partition, if it is one; else an error that says where to get one."""
    if not isinstance(block, Block):
        raise TypeError(
            f"expected a partition from bspforest.reference.draw_partition, got {type(block).__name__}; "
            "for a tree of a forest use PartitionDisplay"
        )
    return block


class ProcessDisplay:
    """A partition drawn by the process itself, on a convex domain in two or three dimensions.

    In the plane, cells are coloured by the time at which they were cut off, and early cuts are thick. In space, each cut is a
    polygon, coloured by its time; or, with ``explode``, the cells are drawn as solids, moved apart.

    Use `from_partition`.

    Attributes
    ----------
    block : Block
        The partition, from `bspforest.reference.draw_partition`.
    ax_, figure_ : matplotlib axes and figure
    axes_ : list of matplotlib axes
        Of `plot_times`.
    polygons_ : list of ndarray
        The polygons drawn by `plot`: cells in the plane; cuts, or faces of cells, in space.
    cells_ : matplotlib collection
        The same as drawn.

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
        """Look at a partition.

        Parameters
        ----------
        block : bspforest.reference.Block
            From `bspforest.reference.draw_partition`, of two or three dimensions.

        Returns
        -------
        ProcessDisplay
        """
        block = check_block(block)
        d = block.polytope.vertices.shape[1]
        if d > 3:
            raise ValueError(
                f"this partition has {d} dimensions, and only two or three can be drawn: draw_partition of a box of 3"
            )
        return cls(block)

    @property
    def _solid(self) -> bool:
        return self.block.polytope.vertices.shape[1] == 3

    def _end(self) -> float:
        return max((b.cut.time for b in self.block.cut_blocks() if b.cut is not None), default=1.0)

    def plot(self, ax: Any = None, *, time: float | None = None, explode: float = 0.0, legend: bool = True) -> Self:
        """Draw the partition.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            None makes a figure. A partition of three dimensions needs axes with ``projection="3d"``.
        time : float or None, default=None
            Draw the partition as it was then; None is the end.
        explode : float, default=0.0
            Three dimensions only: draw the cells as solids, moved apart by this share of the domain's size.
        legend : bool, default=True
            A scale for the colours.

        Returns
        -------
        self
        """
        if explode < 0 or (explode > 0 and not self._solid):
            raise ValueError(f"explode must be 0, or in three dimensions a positive number, got {explode!r}")
        plt = need_matplotlib("ProcessDisplay")
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        if ax is None:
            _, ax = plt.subplots(
                figsize=(6.0, 5.0), layout="constrained", subplot_kw={"projection": "3d"} if self._solid else {}
            )
        elif self._solid:
            check_solid_axes(ax)
        self.ax_, self.figure_ = ax, ax.figure
        scale = ScalarMappable(Normalize(0.0, self._end()), MEANS)
        until = np.inf if time is None else time
        if self._solid:
            self._plot_solid(until, explode, scale)
        else:
            self._plot_plane(until, scale)
        if legend:
            what = "time of the cut" if self._solid and not explode else "time at which a cell was cut off"
            self.figure_.colorbar(scale, ax=ax, label=what, shrink=0.8 if self._solid else 1.0)
        self._entitle(ax, until)
        return self

    def _entitle(self, ax: Any, until: float) -> None:
        n = len(self.block.leaves(until))
        title = f"{n} cell{'s' * (n > 1)}" + (f" at time {until:.2g}" if np.isfinite(until) else "")
        if self._solid:
            set_title(ax, title)
        else:
            ax.set_title(title)

    def _cuts(self, until: float) -> list[Block]:
        return [b for b in self.block.cut_blocks() if b.cut is not None and b.cut.time <= until]

    def _plot_plane(self, until: float, scale: Any) -> None:
        text, _ = ink()
        leaves = self.block.leaves(until)
        fills = scale.to_rgba([leaf.born for leaf in leaves])[:, :3]
        self.polygons_ = [leaf.polytope.faces()[0] for leaf in leaves]
        self.cells_ = draw_cells(self.ax_, self.polygons_, mix(fills, 0.75))
        cuts = self._cuts(until)
        widths = [0.6 + 2.4 * (1 - b.cut.time / self._end()) for b in cuts if b.cut is not None]
        draw_lines(self.ax_, [b.section for b in cuts if b.section is not None], color=text, linewidths=widths)
        draw_domain(self.ax_, self.block)

    def _plot_solid(self, until: float, explode: float, scale: Any) -> None:
        corners = self.block.polytope.vertices
        if not explode:
            fit_cube(self.ax_, corners)
            draw_frame(self.ax_, self.block.polytope)
            cuts = self._cuts(until)
            colours = scale.to_rgba([b.cut.time for b in cuts if b.cut is not None])[:, :3]
            self.polygons_ = [order_polygon(b.section) for b in cuts if b.section is not None]
            self.cells_ = draw_faces(self.ax_, self.polygons_, colours, alpha=0.55)
            return
        self.polygons_, colours = [], []
        middle = corners.mean(axis=0)
        fit_cube(self.ax_, middle + (1 + explode) * (corners - middle))
        for leaf in self.block.leaves(until):
            centre = leaf.polytope.vertices.mean(axis=0)
            for face in leaf.polytope.faces():
                self.polygons_.append(face + explode * (centre - middle))
                colours.append(shade(face, centre, np.array(scale.to_rgba(leaf.born)[:3])))
        self.cells_ = draw_faces(self.ax_, self.polygons_, np.array(colours))

    def plot_times(self, times: Sequence[float]) -> Self:
        """Draw the partition as it was at several times, side by side: cuts since the time before are highlighted.

        Parameters
        ----------
        times : sequence of float
            Increasing.

        Returns
        -------
        self
        """
        times = [float(time) for time in times]
        if not times or times != sorted(times) or times[0] < 0:
            raise ValueError(f"times must be numbers of at least 0, increasing, got {times}")
        plt = need_matplotlib("ProcessDisplay")
        options = {"projection": "3d"} if self._solid else {}
        size = (3.4 * len(times), 3.7)
        self.figure_, axes = plt.subplots(
            1, len(times), figsize=size, layout="constrained", squeeze=False, subplot_kw=options
        )
        self.axes_ = list(axes[0])
        before = -1.0
        for ax, time in zip(self.axes_, times, strict=True):
            cuts = self._cuts(time)
            new = np.array([b.cut.time > before for b in cuts if b.cut is not None], dtype=bool)
            sections = [order_polygon(b.section) for b in cuts if b.section is not None]
            self._draw_cuts(ax, sections, new)
            self._entitle(ax, time)
            before = time
        return self

    def _draw_cuts(self, ax: Any, sections: list[np.ndarray], new: np.ndarray) -> None:
        from matplotlib.colors import to_rgb

        text, _ = ink()
        if self._solid:
            fit_cube(ax, self.block.polytope.vertices)
            draw_frame(ax, self.block.polytope)
            colours = np.where(new[:, None], to_rgb(NEW), mix(text, 0.5))
            draw_faces(ax, sections, colours, alpha=np.where(new, 0.45, 0.12), edges=colours)
            return
        for fresh, colour, width in ((False, text, 1.2), (True, NEW, 2.0)):
            draw_lines(ax, [sections[k] for k in np.flatnonzero(new == fresh)], color=colour, linewidth=width)
        draw_domain(ax, self.block)


def draw_domain(ax: Any, block: Block) -> None:
    """The outline of a domain in the plane, with room around it."""
    corners = block.polytope.faces()[0]
    draw_lines(ax, [np.concatenate([corners, corners[:1]])], color=ink()[0], linewidth=1.5)
    low, high = corners.min(axis=0), corners.max(axis=0)
    pad = 0.03 * (high - low)
    fit_frame(ax, np.stack([low - pad, high + pad]), ("$x_1$", "$x_2$"))
    ax.set_aspect("equal")
