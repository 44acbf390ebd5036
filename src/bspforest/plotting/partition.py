"""The partition of the plane by one tree, with its rows (the paper's supplement, figure of the hulls, left)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from .labels import Palette
from .numerals import NUMBER
from .ranges import find_limits
from .sections import Section, check_forest, choose_plane, get_feature_names, make_section
from .style import collect_edges, draw_cells, draw_lines, draw_points, fade, make_axes, set_limits, text_colour

TREE_NAMES = {"pairs": "BSP tree", "axes": "Mondrian tree", "isotropic": "isotropic BSP tree"}


class PartitionDisplay:
    """The partition of one tree of a forest, coloured by label.

    With two features, the display shows the cells, the nested convex hulls of all nodes (dashed), the cuts across the
    hulls (solid), their continuation outside the hulls (thin), and the rows. In a Mondrian tree (``cuts="axes"``) the
    bounding boxes of the nodes replace the hulls. A cell has the colour of its mean label or most frequent class (paler
    if less frequent), faint outside the hull of the leaf and stronger inside.

    Cells are bounded by the cuts alone. Far from the rows, predictions may differ from the colour of the cell, because
    prediction replaces a point at each node by the nearest point in the box of the node.

    With more features, the display shows the section of the partition by a plane: two features vary, the others are
    fixed. All cells that meet the plane are drawn, but no rows and hulls, since these do not lie in the plane.

    Create it with `from_estimator`.

    Parameters
    ----------
    section : Section
        The geometry, with one entry per node of the tree.
    labels : ndarray
        Labels of the rows drawn; empty in a section.
    palette : Palette
        Colours of labels.
    names : sequence of str
        Names of the two features.
    title : str, default=""
        Title of the axes.
    kinds : tuple of str
        What the values of the two features are, for their ticks.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    cells_, lines_, hulls_, cuts_, points_ : matplotlib collections
        What was drawn; None for what was not.

    Examples
    --------
    >>> from bspforest import BSPForestClassifier
    >>> from bspforest.plotting import PartitionDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> forest = BSPForestClassifier(10, budget_scale=2, random_state=0, prediction="mean").fit(X, y)
    >>> display = PartitionDisplay.from_estimator(forest, tree=3)
    >>> len(display.section.leaf_nodes) == forest.trees_[3].n_leaves
    True
    >>> display.plot().ax_.get_title()
    'BSP tree, 15 leaves'
    """

    def __init__(
        self,
        section: Section,
        labels: np.ndarray,
        palette: Palette,
        names: Sequence[str],
        title: str = "",
        kinds: tuple[str, ...] = (NUMBER, NUMBER),
    ) -> None:
        self.section = section
        self.labels = labels
        self.palette = palette
        self.names = names
        self.title = title
        self.kinds = kinds

    @classmethod
    def from_estimator(
        cls,
        forest: Any,
        *,
        tree: int = 0,
        dims: Any = None,
        values: Any = None,
        extent: Sequence[float] | None = None,
    ) -> Self:
        """Create a display of one tree of a fitted forest.

        Parameters
        ----------
        forest : BSPForestClassifier or BSPForestRegressor
        tree : int, default=0
            Number of the tree, counted from 0.
        dims : pair of int or str, default=None
            The features to show, by number or name. Required if there are more than two.
        values : dict or None, default=None
            Values of the other features, by number or name. Those not given are fixed at the median of the rows held.
        extent : (left, right, bottom, top) or None, default=None
            Limits of the axes; by default all rows held, with a margin. Where features are scaled by ranks, the axes are ranks.

        Returns
        -------
        PartitionDisplay
        """
        forest = check_forest(forest)
        if not isinstance(tree, (int, np.integer)) or not 0 <= tree < len(forest.trees_):
            raise ValueError(f"tree must be a whole number from 0 to {len(forest.trees_) - 1}, got {tree!r}")
        held = forest.held_rows()
        plane = choose_plane(forest, held.X, dims, values)
        names, X = get_feature_names(forest), held.X
        view = forest.trees_[tree]
        if view.uses_ranks:  # in which cuts are straight
            kinds = (NUMBER,) * len(names)
            X, plane = view.place(X), replace(plane, row=view.place(plane.row[None])[0], kinds=kinds)
            names = [f"rank of {name}" for name in names]
        section = make_section(forest, tree, plane, X, find_limits(plane.project(X), extent))
        title = f"{TREE_NAMES[forest.cuts_]}, {section.tree.n_leaves} leaves"
        if plane.is_section:
            title = f"{title}, {len(section.leaf_nodes)} in the section\n{plane.describe(names)}"
        labels = held.y[:0] if plane.is_section else held.y
        palette = Palette.from_labels(forest, held.y)
        i, j = plane.dims
        return cls(section, labels, palette, [names[i], names[j]], title, (plane.kinds[i], plane.kinds[j]))

    def plot(self, ax: Any = None, *, hulls: str | None = "nested", points: bool = True, legend: bool = True) -> Self:
        """Draw the partition.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            None creates a figure.
        hulls : {"nested", "leaves"} or None, default="nested"
            Draw the hulls of all nodes, of the leaves only, or none.
        points : bool, default=True
            Draw the rows held.
        legend : bool, default=True
            Add a legend or a colour bar.

        Returns
        -------
        self
        """
        if hulls not in ("nested", "leaves", None):
            raise ValueError(f"hulls must be 'nested', 'leaves' or None, got {hulls!r}")
        self.figure_, (self.ax_,) = make_axes("PartitionDisplay", ax, size=(6.0, 5.0))
        section = self.section
        text = text_colour()
        leaves = section.leaf_nodes
        fills = self.palette.colour_values(section.tree.value[leaves])
        has_rows = len(section.points) > 0
        thin = min(1.0, (60 / len(leaves)) ** 0.5)  # keeps the lines of a large tree from covering its cells
        cells = [section.cells[v] for v in leaves]
        self.cells_ = draw_cells(self.ax_, cells, fade(fills, 0.3) if has_rows else fills)
        line_colour = fade(text, 0.5) if has_rows else text
        self.lines_ = draw_lines(self.ax_, section.lines, color=line_colour, linewidth=0.7 * thin)
        self.hulls_ = self.cuts_ = self.points_ = None
        if hulls and has_rows:
            self._draw_hulls(leaves, fills, nested=hulls == "nested", linewidth=0.8 * thin)
        if has_rows:
            self.cuts_ = draw_lines(self.ax_, section.cuts, color=text, linewidth=1.4 * thin, zorder=3)
        if points and has_rows:
            self.points_ = draw_points(self.ax_, section.points, self.palette.colour_labels(self.labels))
        if legend:
            self.palette.add_legend(self.ax_)
        set_limits(self.ax_, section.limits, self.names, self.kinds)
        self.ax_.set_title(self.title)
        return self

    def _draw_hulls(self, leaves: np.ndarray, fills: np.ndarray, *, nested: bool, linewidth: float) -> None:
        hulls = self.section.hulls
        filled = [k for k, v in enumerate(leaves) if len(hulls[v]) > 2]
        draw_cells(self.ax_, [hulls[leaves[k]] for k in filled], fade(fills[filled], 0.65))
        edges = collect_edges(hulls if nested else [hulls[v] for v in leaves])
        self.hulls_ = draw_lines(self.ax_, edges, color=fade(text_colour(), 0.75), linewidth=linewidth, linestyle="--")
