"""A tree growing as points arrive (the paper's Figure 2): the plane above, the tree below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier

from .labels import Palette
from .sections import Section, check_forest, feature_names, frame, see_tree
from .style import (
    NEW,
    collect_edges,
    draw_cells,
    draw_lines,
    draw_points,
    fit_frame,
    ink,
    mix,
    need_matplotlib,
    rgb,
)

MOST_FRAMES = 500


@dataclass(frozen=True)
class Frame:
    """A tree after a number of rows, and what is new since the frame before."""

    section: Section
    n_rows: int  # learned so far
    budget: float
    labels: np.ndarray
    new_points: np.ndarray  # which points are new
    new_hulls: np.ndarray  # which nodes' hulls, whether new or grown
    new_cuts: np.ndarray  # which nodes' cuts
    new_leaves: np.ndarray  # which leaves have points they had not, or are new
    new_edges: np.ndarray  # which of the edges of all hulls, as `collect_edges` lists them


def compare(section: Section, before: Section | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Which hulls, cuts, leaves and edges of hulls are new since ``before``."""
    nothing: tuple[list, list, dict, list] = ([], [], {}, [])
    old_hulls, old_cuts, old_held, old_edges = nothing if before is None else _name_parts(before)
    hulls, cuts, held, edges = _name_parts(section)
    known = set(old_held.values())
    return (
        _unknown(hulls, set(old_hulls)),
        _unknown(cuts, {None, *old_cuts}),
        np.array([v in held and held[v] not in known for v in range(len(hulls))]),
        _unknown(edges, set(old_edges)),
    )


def _unknown(names: list, known: set) -> np.ndarray:
    return np.array([name not in known for name in names], dtype=bool)


def _name_parts(section: Section) -> tuple[list, list, dict, list]:
    """What the parts of a tree are known by as it grows: hulls, cuts, leaves by their points, edges."""
    hulls = [hull.tobytes() for hull in section.hulls]
    edges = [edge.tobytes() for edge in collect_edges(section.hulls)]
    return hulls, _cut_keys(section), _held_by_leaves(section), edges


def _cut_keys(section: Section) -> list:
    """What a cut is known by: a tree keeps its numbers as it grows."""
    tree = section.tree
    return [
        None if section.is_leaf(v) else (tree.cut_normal[v].tobytes(), float(tree.cut_offset[v]))
        for v in range(tree.n_nodes)
    ]


def _held_by_leaves(section: Section) -> dict[int, bytes]:
    """The points of each leaf, in an order that does not depend on when they came."""
    held = {}
    for v in section.leaf_nodes.tolist():
        points = section.points[section.leaves == v]
        held[v] = points[np.lexsort(points.T)].tobytes()
    return held


def _choose_steps(n: int, steps: Sequence[int] | None) -> set[int]:
    """The numbers of rows after which to keep a frame."""
    if steps is None:
        if n > MOST_FRAMES:
            raise ValueError(
                f"{n} frames are too many to look at: choose some, e.g. steps=range({n // 50}, {n}, {n // 50})"
            )
        return set(range(1, n + 1))
    wanted = {int(step) for step in steps}
    if not wanted or min(wanted) < 1 or max(wanted) > n:
        raise ValueError(f"steps must be numbers of rows from 1 to {n}, got {sorted(wanted)}")
    return wanted


class GrowthDisplay:
    """A tree growing point by point: new parts highlighted.

    Above, the plane with the cells, the hulls (dashed) and the cuts (solid) as in `PartitionDisplay`; the latest point is a
    star. Below, the tree: a cut stands at the time at which it was drawn, so that it comes after all cuts above it; the
    dashed line is the budget, which grows with the number of rows; circles are leaves with their number of points.

    Use `from_stream`.

    Attributes
    ----------
    frames : list of Frame
    figure_, axes_ : matplotlib figure and axes
        Of the latest drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from bspforest import BSPForestRegressor
    >>> from bspforest.plotting import GrowthDisplay
    >>> X = np.random.default_rng(0).random((20, 2))
    >>> display = GrowthDisplay.from_stream(BSPForestRegressor(budget_scale=2, random_state=0), X, X[:, 0])
    >>> [frame.n_rows for frame in display.frames][-3:]
    [18, 19, 20]
    >>> display.plot_steps([5, 10, 15, 20]).axes_.shape  # planes above, trees below
    (2, 4)

    ``display.save("growth.gif")`` writes all frames as one moving picture.
    """

    def __init__(self, frames: list[Frame], palette: Palette, names: Sequence[str]) -> None:
        self.frames = frames
        self.palette = palette
        self.names = names

    @classmethod
    def from_stream(cls, forest: Any, X: Any, y: Any, *, steps: Sequence[int] | None = None) -> Self:
        """Grow a tree by the rows of ``X``, one by one.

        Parameters
        ----------
        forest : BSPForestClassifier or BSPForestRegressor
            Only its parameters are used: a forest of one tree is made of them. The features are scaled by the range of X from
            the start, since a tree is built afresh when the range changes.
        X : array-like of shape (n_samples, 2)
        y : array-like of shape (n_samples,)
        steps : sequence of int or None, default=None
            Numbers of rows after which to keep a frame. All, if there are at most 500.

        Returns
        -------
        GrowthDisplay
        """
        forest = check_forest(forest, fitted=False)
        grown = clone(forest).set_params(n_estimators=1)
        rows = grown._check_rows(X, reset=True)
        labels = np.asarray(y)
        n, d = rows.shape
        if d != 2:
            raise ValueError(
                f"a growing tree is drawn in the plane of two features, got X with {d}: choose two columns"
            )
        if labels.shape != (n,):
            raise ValueError(f"y must have one label for each of {n} rows, got shape {labels.shape}")
        wanted = _choose_steps(n, steps)
        names = feature_names(grown)
        if forest.scaling == "minmax":
            low, high = rows.min(axis=0), rows.max(axis=0)
            grown.set_params(scaling=(low, np.where(high > low, high, low + 1.0)))
        classes = {"classes": np.unique(labels)} if is_classifier(forest) else {}
        frames: list[Frame] = []
        corners = frame(rows, None)
        for k in range(n):
            grown.partial_fit(rows[k : k + 1], labels[k : k + 1], **classes)
            if k + 1 in wanted:
                frames.append(cls._take(grown, corners, frames[-1] if frames else None))
        palette = Palette(grown.classes_) if classes else Palette(None, float(labels.min()), float(labels.max()))
        return cls(frames, palette, names)

    @staticmethod
    def _take(forest: Any, corners: np.ndarray, before: Frame | None) -> Frame:
        """A frame of the tree as it is now."""
        section = see_tree(forest, 0, (0, 1), np.zeros(2), corners)
        n_new = forest.n_samples_seen_ - (before.n_rows if before else 0)
        new_points = np.arange(len(section.points)) >= len(section.points) - n_new
        new = compare(section, before.section if before else None)
        labels = forest._forest.held_labels()[:, 0]
        return Frame(section, forest.n_samples_seen_, forest.budget_, labels, new_points, *new)

    def _find(self, n_rows: int | None) -> Frame:
        if n_rows is None:
            return self.frames[-1]
        for one in self.frames:
            if one.n_rows == n_rows:
                return one
        kept = [one.n_rows for one in self.frames]
        raise ValueError(f"no frame was kept after {n_rows!r} rows, only after {kept}")

    def plot(self, n_rows: int | None = None, *, axes: Any = None) -> Self:
        """Draw one frame.

        Parameters
        ----------
        n_rows : int or None, default=None
            The frame after this many rows; None is the latest.
        axes : two matplotlib axes or None, default=None
            For the plane and for the tree. None makes a figure.

        Returns
        -------
        self
        """
        one = self._find(n_rows)
        plt = need_matplotlib("GrowthDisplay")
        if axes is None:
            _, axes = plt.subplots(2, 1, figsize=(5.5, 7.5), layout="constrained", height_ratios=(3, 2))
        self.axes_ = np.ravel(axes)
        if len(self.axes_) != 2:
            raise ValueError(f"GrowthDisplay draws a plane and a tree: axes must be two axes, got {len(self.axes_)}")
        self.figure_ = self.axes_[0].figure
        self._draw(one, *self.axes_)
        return self

    def plot_steps(self, steps: Sequence[int] | None = None, *, titles: Sequence[str] | None = None) -> Self:
        """Draw several frames side by side, as the paper's Figure 2.

        Parameters
        ----------
        steps : sequence of int or None, default=None
            Numbers of rows; None is the last four frames.
        titles : sequence of str or None, default=None

        Returns
        -------
        self
        """
        frames = self.frames[-4:] if steps is None else [self._find(step) for step in steps]
        plt = need_matplotlib("GrowthDisplay")
        size = (3.6 * len(frames), 6.4)
        self.figure_, self.axes_ = plt.subplots(
            2, len(frames), figsize=size, layout="constrained", height_ratios=(3, 2), sharey="row", squeeze=False
        )
        for k, one in enumerate(frames):
            self._draw(one, *self.axes_[:, k])
            if titles is not None:
                self.axes_[0, k].set_title(titles[k])
            if k:
                self.axes_[0, k].set_ylabel("")
                self.axes_[1, k].set_ylabel("")
        return self

    def animate(self, *, fps: int = 2) -> Any:
        """A matplotlib animation of all frames, for a notebook or to be saved as a video."""
        plt = need_matplotlib("GrowthDisplay")
        from matplotlib.animation import FuncAnimation

        self.figure_, self.axes_ = plt.subplots(2, 1, figsize=(5.5, 7.5), height_ratios=(3, 2), layout="constrained")

        def show(one: Frame) -> list:
            for ax in self.axes_:
                ax.clear()
            self._draw(one, *self.axes_)
            return []

        return FuncAnimation(
            self.figure_, show, frames=self.frames, init_func=list, interval=1000 / fps, cache_frame_data=False
        )

    def save(self, path: str | Path, *, fps: int = 2, dpi: float = 80) -> Path:
        """Write all frames as an animated picture (``.gif``, ``.webp`` or ``.png``). The path."""
        need_matplotlib("GrowthDisplay")
        path = Path(path)
        if path.suffix.lower() not in (".gif", ".webp", ".png", ".apng"):
            raise ValueError(
                f"save writes .gif, .webp, .png or .apng, got {path.name!r}; for a video use display.animate().save({path.name!r})"
            )
        if not fps > 0:
            raise ValueError(f"fps must be positive, got {fps!r}")
        import matplotlib.pyplot as plt
        from matplotlib.animation import PillowWriter

        self.animate(fps=fps).save(path, writer=PillowWriter(fps=fps), dpi=dpi)
        plt.close(self.figure_)
        return path

    def _draw(self, one: Frame, plane: Any, below: Any) -> None:
        self._draw_plane(one, plane)
        draw_tree(below, one, self.palette, self._latest_time())
        n = one.n_rows
        plane.set_title(
            f"{n} row{'s' * (n > 1)}, {one.section.tree.n_leaves} {'leaves' if one.section.tree.n_leaves > 1 else 'leaf'}"
        )

    def _latest_time(self) -> float:
        """Where the time axis of the trees ends: the same in all frames."""
        times = [one.section.tree.time[one.section.tree.children_left >= 0].max(initial=0.0) for one in self.frames]
        budgets = [one.budget for one in self.frames if np.isfinite(one.budget)]
        return 1.12 * max([*times, *budgets]) or 1.0

    def _draw_plane(self, one: Frame, ax: Any) -> None:
        text, _ = ink()
        section = one.section
        leaves = section.leaf_nodes
        fills = self.palette.colour_values(section.tree.value[leaves])
        draw_cells(ax, [section.cells[v] for v in leaves], mix(fills, 0.3))
        draw_lines(ax, section.lines, color=mix(text, 0.4), linewidth=0.6)
        edges = collect_edges(section.hulls)
        for new, colour, layer in ((False, text, 2.5), (True, NEW, 3)):
            shown = [edges[k] for k in np.flatnonzero(one.new_edges == new)]
            cuts = [section.cuts[v] for v in np.flatnonzero(one.new_cuts == new)]
            draw_lines(ax, shown, color=colour, linewidth=1.7 if new else 0.9, linestyle="--", zorder=layer)
            draw_lines(ax, cuts, color=colour, linewidth=2.2 if new else 1.7, zorder=layer)
        old = ~one.new_points
        colours = self.palette.colour_labels(one.labels)
        draw_points(ax, section.points[old], colours[old])
        draw_points(
            ax, section.points[~old], colours[~old], marker="*", s=220, edgecolors=NEW, linewidths=1.4, zorder=5
        )
        fit_frame(ax, section.corners, self.names)


def place_nodes(tree: Any) -> np.ndarray:
    """Where nodes stand from left to right: leaves at 0, 1, 2 …, a cut node in the middle of its children."""
    across = np.zeros(tree.n_nodes)
    todo, n_leaves = [0], 0
    while todo:
        v = todo.pop()
        if tree.children_left[v] < 0:
            across[v] = n_leaves
            n_leaves += 1
        else:
            todo += [tree.children_right[v], tree.children_left[v]]
    for v in range(tree.n_nodes - 1, -1, -1):
        if tree.children_left[v] >= 0:
            across[v] = (across[tree.children_left[v]] + across[tree.children_right[v]]) / 2
    return across


def draw_tree(ax: Any, one: Frame, palette: Palette, latest: float) -> None:
    """The tree of a frame, time downwards."""
    text, _ = ink()
    tree = one.section.tree
    across = place_nodes(tree)
    inner = tree.children_left >= 0
    floor = one.budget if np.isfinite(one.budget) else latest
    down = np.where(inner, tree.time, floor)
    start = np.where(tree.parent >= 0, down[tree.parent], 0.0)
    fresh = one.new_cuts | one.new_leaves
    for new, colour, layer in ((False, text, 2), (True, NEW, 3)):
        stems = [np.array([[across[v], start[v]], [across[v], down[v]]]) for v in np.flatnonzero(fresh == new)]
        bars = [
            np.array([[across[tree.children_left[v]], down[v]], [across[tree.children_right[v]], down[v]]])
            for v in np.flatnonzero(inner & (one.new_cuts == new))
        ]
        draw_lines(ax, stems + bars, color=colour, linewidth=1.5, zorder=layer)
    if np.isfinite(one.budget):
        ax.axhline(one.budget, color=mix(text, 0.6), linestyle="--", linewidth=1.0, zorder=1)
        ax.annotate(
            f"budget {one.budget:.2f}", (1.0, one.budget), xycoords=("axes fraction", "data"), xytext=(0, -9),
            textcoords="offset points", ha="right", va="top", fontsize=8, color=mix(text, 0.75),
        )  # fmt: skip
    leaves = np.flatnonzero(~inner)
    many = len(leaves) > 16
    rims = np.where(one.new_leaves[leaves, None], rgb(NEW), text)
    fills = palette.colour_values(tree.value[leaves])
    ax.scatter(
        across[leaves],
        down[leaves],
        s=35 if many else 190,
        c=fills,
        edgecolors=rims,
        linewidths=1.4,
        zorder=4,
        clip_on=False,
    )
    for v, fill in zip(leaves, fills, strict=True):
        if not many:
            dark = fill @ (0.299, 0.587, 0.114) < 0.5
            ax.text(
                across[v], down[v], str(tree.n_points[v]), color="white" if dark else "black", ha="center", va="center_baseline",
                fontsize=8, zorder=5,
            )  # fmt: skip
    ax.set(xlim=(-0.7, len(leaves) - 0.3), ylim=(latest, 0.0), ylabel="time", xticks=[])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
