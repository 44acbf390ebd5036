"""A tree's partition of the plane, over its points (the paper's supplement, figure of the hulls, left)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..engine.arrays import AXES, ISOTROPIC, PAIRS
from .labels import Palette
from .sections import Section, check_forest, choose_plane, describe_plane, feature_names, frame, see_tree
from .style import collect_edges, draw_cells, draw_lines, draw_points, fit_frame, ink, make_axes, mix

KINDS = {PAIRS: "BSP tree", AXES: "Mondrian tree", ISOTROPIC: "isotropic BSP tree"}


class PartitionDisplay:
    """One tree of a forest as a partition, coloured by label.

    With two features: the cells; over them the hulls of all nodes, one inside the other (dashed), each crossed by its cut
    (solid), which goes on outside the hull as a thin line; and the points. In a Mondrian tree (``cuts="axes"``) a node is
    known by the box around its points, which is drawn in place of the hull. Cells are bounded by the cuts alone: where there
    are no points nearby, prediction reads a place at its nearest in the box of each node, and may say something else. A cell
    has the colour of its mean label or most frequent class (paler the less frequent), faint, stronger in its hull.

    With more features: the section of the partition by the plane of two chosen features, the others held at a value.
    Every cell that the plane meets is drawn; points and hulls are not, since they do not lie in the plane.

    Use `from_estimator`.

    Attributes
    ----------
    section : Section
        The geometry, one entry a node of the tree.
    labels : ndarray
        Labels of the points: class indices, or numbers.
    ax_, figure_ : matplotlib axes and figure
    cells_, lines_, hulls_, cuts_, points_ : matplotlib collections
        What was drawn; None for what was not.

    Examples
    --------
    >>> from bspforest import BSPForestClassifier
    >>> from bspforest.plotting import PartitionDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> forest = BSPForestClassifier(10, budget_scale=2, random_state=0).fit(X, y)
    >>> display = PartitionDisplay.from_estimator(forest, tree=3)
    >>> len(display.section.leaf_nodes) == forest.trees_[3].n_leaves
    True
    >>> display.plot().ax_.get_title()
    'BSP tree, 15 leaves'
    """

    def __init__(
        self, section: Section, labels: np.ndarray, palette: Palette, names: Sequence[str], title: str = ""
    ) -> None:
        self.section = section
        self.labels = labels
        self.palette = palette
        self.names = names
        self.title = title

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
        """Look at a tree of a fitted forest.

        Parameters
        ----------
        forest : BSPForestClassifier or BSPForestRegressor
        tree : int, default=0
            Which one, counted from 0.
        dims : two features by number or name, default=None
            Needed if there are more than two.
        values : dict or None, default=None
            Where the plane lies: a value for a feature, by number or name. Others are at their median.
        extent : (left, right, bottom, top) or None, default=None
            The part of the plane to show; by default all rows held, with a margin.

        Returns
        -------
        PartitionDisplay
        """
        forest = check_forest(forest)
        if not isinstance(tree, (int, np.integer)) or not 0 <= tree < len(forest.trees_):
            raise ValueError(f"tree must be a whole number from 0 to {len(forest.trees_) - 1}, got {tree!r}")
        plane, row = choose_plane(forest, dims, values)
        corners = frame(forest._forest.held_rows()[:, list(plane)], extent)
        section = see_tree(forest, tree, plane, row, corners)
        names = feature_names(forest)
        kind = KINDS[forest._forest.trees.arrays.family]
        title = f"{kind}, {section.tree.n_leaves} leaves"
        if len(row) > 2:
            title = f"{title}, {len(section.leaf_nodes)} in the section\n{describe_plane(forest, plane, row)}"
        labels = forest._forest.held_labels()[:, 0] if len(row) == 2 else np.empty(0)
        return cls(section, labels, Palette.of_forest(forest), [names[k] for k in plane], title)

    def plot(self, ax: Any = None, *, hulls: str | None = "nested", points: bool = True, legend: bool = True) -> Self:
        """Draw the partition.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            None makes a figure.
        hulls : {"nested", "leaves"} or None, default="nested"
            The hulls of all nodes, of leaves only, or none.
        points : bool, default=True
        legend : bool, default=True

        Returns
        -------
        self
        """
        if hulls not in ("nested", "leaves", None):
            raise ValueError(f"hulls must be 'nested', 'leaves' or None, got {hulls!r}")
        self.figure_, (self.ax_,) = make_axes("PartitionDisplay", ax, size=(6.0, 5.0))
        section = self.section
        text, _ = ink()
        leaves = section.leaf_nodes
        fills = self.palette.colour_values(section.tree.value[leaves])
        flat = not len(section.points)
        thin = min(1.0, (60 / len(leaves)) ** 0.5)  # lines of a large tree would cover its cells
        self.cells_ = draw_cells(self.ax_, [section.cells[v] for v in leaves], fills if flat else mix(fills, 0.3))
        faint = text if flat else mix(text, 0.5)
        self.lines_ = draw_lines(self.ax_, section.lines, color=faint, linewidth=0.7 * thin)
        self.hulls_ = self.cuts_ = self.points_ = None
        if hulls and not flat:
            self._draw_hulls(leaves, fills, nested=hulls == "nested", linewidth=0.8 * thin)
        if not flat:
            self.cuts_ = draw_lines(self.ax_, section.cuts, color=text, linewidth=1.4 * thin, zorder=3)
        if points and not flat:
            self.points_ = draw_points(self.ax_, section.points, self.palette.colour_labels(self.labels))
        if legend:
            self.palette.explain(self.ax_)
        fit_frame(self.ax_, section.corners, self.names)
        self.ax_.set_title(self.title)
        return self

    def _draw_hulls(self, leaves: np.ndarray, fills: np.ndarray, *, nested: bool, linewidth: float) -> None:
        hulls = self.section.hulls
        solid = [k for k, v in enumerate(leaves) if len(hulls[v]) > 2]
        draw_cells(self.ax_, [hulls[leaves[k]] for k in solid], mix(fills[solid], 0.65))
        edges = collect_edges(hulls if nested else [hulls[v] for v in leaves])
        self.hulls_ = draw_lines(self.ax_, edges, color=mix(ink()[0], 0.75), linewidth=linewidth, linestyle="--")
