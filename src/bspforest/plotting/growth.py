"""A tree growing as rows arrive (the paper's Figure 2): the plane at the top, the tree below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import validate_data

from .labels import Palette
from .numerals import find_kinds
from .ranges import find_limits
from .sections import Plane, Section, check_forest, get_feature_names, make_section
from .style import (
    HIGHLIGHT,
    collect_edges,
    draw_cells,
    draw_lines,
    draw_points,
    fade,
    need_matplotlib,
    set_limits,
    text_colour,
    to_rgb,
)

MAX_FRAMES = 500
SUFFIXES = (".gif", ".webp", ".png", ".apng")


@dataclass(frozen=True)
class Frame:
    """A tree after a number of rows, and masks of what is new since the previous frame."""

    section: Section
    n_rows: int  # learned so far
    budget: float
    labels: np.ndarray
    new_points: np.ndarray  # points that arrived
    new_hulls: np.ndarray  # nodes whose hull is new or has grown
    new_cuts: np.ndarray  # nodes whose cut is new
    new_leaves: np.ndarray  # leaves that are new or hold other points
    new_edges: np.ndarray  # edges of hulls, in the order of `collect_edges`


def find_changes(section: Section, before: Section | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return masks of the hulls, cuts, leaves and hull edges of ``section`` that are not in ``before``."""
    empty: tuple[list, list, dict, list] = ([], [], {}, [])
    old_hulls, old_cuts, old_leaves, old_edges = empty if before is None else _make_keys(before)
    hulls, cuts, leaves, edges = _make_keys(section)
    known = set(old_leaves.values())
    return (
        _not_in(hulls, set(old_hulls)),
        _not_in(cuts, {None, *old_cuts}),
        np.array([v in leaves and leaves[v] not in known for v in range(len(hulls))]),
        _not_in(edges, set(old_edges)),
    )


def _not_in(keys: list, known: set) -> np.ndarray:
    return np.array([key not in known for key in keys], dtype=bool)


def _make_keys(section: Section) -> tuple[list, list, dict, list]:
    """Return keys that identify hulls, cuts, leaves and edges between frames."""
    hulls = [hull.tobytes() for hull in section.hulls]
    edges = [edge.tobytes() for edge in collect_edges(section.hulls)]
    return hulls, _make_cut_keys(section), _make_leaf_keys(section), edges


def _make_cut_keys(section: Section) -> list:
    """Return the normal and offset of each cut, which never change, and None for leaves."""
    tree = section.tree
    return [
        None if section.is_leaf(v) else (tree.cut_normal[v].tobytes(), float(tree.cut_offset[v]))
        for v in range(tree.n_nodes)
    ]


def _make_leaf_keys(section: Section) -> dict[int, bytes]:
    """Return the points of each leaf, in an order that does not depend on their arrival."""
    keys = {}
    for v in section.leaf_nodes.tolist():
        points = section.points[section.leaves == v]
        keys[v] = points[np.lexsort(points.T)].tobytes()
    return keys


def _choose_steps(n: int, steps: Sequence[int] | None) -> set[int]:
    """Return the numbers of rows after which to keep a frame."""
    if steps is None:
        if n > MAX_FRAMES:
            raise ValueError(
                f"{n} frames are too many: choose some with steps, e.g. steps=range({n // 50}, {n}, {n // 50})"
            )
        return set(range(1, n + 1))
    wanted = {int(step) for step in steps}
    if not wanted or min(wanted) < 1 or max(wanted) > n:
        raise ValueError(f"steps must be numbers of rows from 1 to {n}, got {sorted(wanted)}")
    return wanted


class GrowthDisplay:
    """A tree that grows row by row, with changes highlighted.

    The upper axes show the plane with cells, hulls (dashed) and cuts (solid) as in `PartitionDisplay`; a star marks the
    latest row. The lower axes show the tree. The vertical position of a cut is its time, so that it lies below the cuts
    of its ancestors; the dashed line is the budget, which increases with the number of rows; circles are leaves with
    their number of rows.

    Create it with `from_stream`.

    Parameters
    ----------
    frames : list of Frame
        The tree after each row that is shown.
    palette : Palette
        Colours of labels.
    names : sequence of str
        Names of the two features.

    Attributes
    ----------
    figure_, axes_ : matplotlib figure and axes
        Of the latest call of a plotting method.

    Examples
    --------
    >>> import numpy as np
    >>> from bspforest import BSPForestRegressor
    >>> from bspforest.plotting import GrowthDisplay
    >>> X = np.random.default_rng(0).random((20, 2))
    >>> display = GrowthDisplay.from_stream(BSPForestRegressor(budget_scale=2, random_state=0, prediction="mean"), X, X[:, 0])
    >>> [frame.n_rows for frame in display.frames][-3:]
    [18, 19, 20]
    >>> display.plot_steps([5, 10, 15, 20]).axes_.shape  # planes at the top, trees below
    (2, 4)

    ``display.save("growth.gif")`` saves all frames as an animation.
    """

    def __init__(self, frames: list[Frame], palette: Palette, names: Sequence[str]) -> None:
        self.frames = frames
        self.palette = palette
        self.names = names

    @classmethod
    def from_stream(cls, forest: Any, X: Any, y: Any, *, steps: Sequence[int] | None = None) -> Self:
        """Create a display by growing a tree from the rows of ``X``, one by one.

        Parameters
        ----------
        forest : BSPForestClassifier or BSPForestRegressor
            Only its parameters are used, for a new forest of one tree. Features are scaled by the range of ``X`` from
            the start, and not weighed, because a tree is built afresh when that changes.
        X : array-like of shape (n_samples, 2)
        y : array-like of shape (n_samples,)
        steps : sequence of int or None, default=None
            Numbers of rows after which to keep a frame. By default every row, of which there may be at most 500.

        Returns
        -------
        GrowthDisplay
        """
        forest = check_forest(forest, fitted=False)
        grown = clone(forest).set_params(n_estimators=1)
        rows = validate_data(grown, X, dtype=np.float64)
        labels = np.asarray(y)
        n, d = rows.shape
        if d != 2:
            raise ValueError(f"a growing tree is drawn in the plane of two features, got {d}: choose two columns of X")
        if labels.shape != (n,):
            raise ValueError(f"y must have one label for each of {n} rows, got shape {labels.shape}")
        wanted = _choose_steps(n, steps)
        names = get_feature_names(grown)
        grown.set_params(feature_weights=None)
        if isinstance(forest.scaling, str):
            low, high = rows.min(axis=0), rows.max(axis=0)
            grown.set_params(scaling=(low, np.where(high > low, high, low + 1.0)))
        classes = {"classes": np.unique(labels)} if is_classifier(forest) else {}
        frames: list[Frame] = []
        limits = find_limits(rows, None)
        for k in range(n):
            grown.partial_fit(rows[k : k + 1], labels[k : k + 1], **classes)
            if k + 1 in wanted:
                frames.append(cls._capture(grown, limits, frames[-1] if frames else None))
        return cls(frames, Palette.from_labels(grown, labels), names)

    @staticmethod
    def _capture(forest: Any, limits: np.ndarray, before: Frame | None) -> Frame:
        """Return a frame of the tree in its current state."""
        held = forest.held_rows()
        section = make_section(forest, 0, Plane((0, 1), np.zeros(2)), held.X, limits)
        n_new = forest.n_samples_seen_ - (before.n_rows if before else 0)
        new_points = np.arange(len(section.points)) >= len(section.points) - n_new
        changes = find_changes(section, before.section if before else None)
        return Frame(section, forest.n_samples_seen_, forest.budget_, held.y, new_points, *changes)

    def _find_frame(self, n_rows: int | None) -> Frame:
        if n_rows is None:
            return self.frames[-1]
        for frame in self.frames:
            if frame.n_rows == n_rows:
                return frame
        kept = [frame.n_rows for frame in self.frames]
        raise ValueError(f"no frame was kept after {n_rows!r} rows, only after {kept}")

    def plot(self, n_rows: int | None = None, *, axes: Any = None) -> Self:
        """Draw one frame.

        Parameters
        ----------
        n_rows : int or None, default=None
            Number of rows learned; None draws the last frame.
        axes : two matplotlib axes or None, default=None
            For the plane and for the tree. None creates a figure.

        Returns
        -------
        self
        """
        frame = self._find_frame(n_rows)
        mpl = need_matplotlib("GrowthDisplay")
        if axes is None:
            _, axes = self._make_axes(mpl.pyplot)
        self.axes_ = np.ravel(axes)
        if len(self.axes_) != 2:
            raise ValueError(f"GrowthDisplay draws a plane and a tree: axes must be two axes, got {len(self.axes_)}")
        self.figure_ = self.axes_[0].figure
        self._draw(frame, *self.axes_)
        return self

    @staticmethod
    def _make_axes(pyplot: Any) -> tuple[Any, Any]:
        return pyplot.subplots(2, 1, figsize=(5.5, 7.5), layout="constrained", height_ratios=(3, 2))

    def plot_steps(self, steps: Sequence[int] | None = None, *, titles: Sequence[str] | None = None) -> Self:
        """Draw several frames side by side, as in the paper's Figure 2.

        Parameters
        ----------
        steps : sequence of int or None, default=None
            Numbers of rows learned; None draws the last four frames.
        titles : sequence of str or None, default=None
            One title per frame, in place of the numbers of rows and leaves.

        Returns
        -------
        self
        """
        frames = self.frames[-4:] if steps is None else [self._find_frame(step) for step in steps]
        mpl = need_matplotlib("GrowthDisplay")
        size = (3.6 * len(frames), 6.4)
        self.figure_, self.axes_ = mpl.pyplot.subplots(
            2, len(frames), figsize=size, layout="constrained", height_ratios=(3, 2), sharey="row", squeeze=False
        )
        for k, frame in enumerate(frames):
            self._draw(frame, *self.axes_[:, k])
            if titles is not None:
                self.axes_[0, k].set_title(titles[k])
            if k:
                self.axes_[0, k].set_ylabel("")
                self.axes_[1, k].set_ylabel("")
        return self

    def animate(self, *, fps: int = 2) -> Any:
        """Return a matplotlib animation of all frames, to show in a notebook or to save as a video.

        Parameters
        ----------
        fps : int, default=2
            Frames per second.

        Returns
        -------
        matplotlib.animation.FuncAnimation
        """
        mpl = need_matplotlib("GrowthDisplay")
        self.figure_, self.axes_ = self._make_axes(mpl.pyplot)

        def show(frame: Frame) -> list:
            for ax in self.axes_:
                ax.clear()
            self._draw(frame, *self.axes_)
            return []

        return mpl.animation.FuncAnimation(
            self.figure_, show, frames=self.frames, init_func=list, interval=1000 / fps, cache_frame_data=False
        )

    def save(self, path: str | Path, *, fps: int = 2, dpi: float = 80) -> Path:
        """Save all frames as an animated ``.gif``, ``.webp``, ``.png`` or ``.apng``, and return the path.

        Parameters
        ----------
        path : path-like
        fps : int, default=2
            Frames per second.
        dpi : float, default=80
            Dots per inch.

        Returns
        -------
        Path
        """
        mpl = need_matplotlib("GrowthDisplay")
        path = Path(path)
        if path.suffix.lower() not in SUFFIXES:
            raise ValueError(
                f"save writes {', '.join(SUFFIXES)}, got {path.name!r}; for a video use display.animate().save({path.name!r})"
            )
        if not fps > 0:
            raise ValueError(f"fps must be positive, got {fps!r}")
        self.animate(fps=fps).save(path, writer=mpl.animation.PillowWriter(fps=fps), dpi=dpi)
        mpl.pyplot.close(self.figure_)
        return path

    def _draw(self, frame: Frame, plane_ax: Any, tree_ax: Any) -> None:
        self._draw_plane(frame, plane_ax)
        draw_tree(tree_ax, frame, self.palette, self._latest_time())
        n, n_leaves = frame.n_rows, frame.section.tree.n_leaves
        plane_ax.set_title(f"{n} row{'s' * (n > 1)}, {n_leaves} {'leaves' if n_leaves > 1 else 'leaf'}")

    def _latest_time(self) -> float:
        """Return the end of the time axis, which is the same in all frames."""
        trees = [frame.section.tree for frame in self.frames]
        times = [tree.time[tree.children_left >= 0].max(initial=0.0) for tree in trees]
        budgets = [frame.budget for frame in self.frames if np.isfinite(frame.budget)]
        return 1.12 * max([*times, *budgets]) or 1.0

    def _draw_plane(self, frame: Frame, ax: Any) -> None:
        text = text_colour()
        section = frame.section
        leaves = section.leaf_nodes
        fills = self.palette.colour_values(section.tree.value[leaves])
        draw_cells(ax, [section.cells[v] for v in leaves], fade(fills, 0.3))
        draw_lines(ax, section.lines, color=fade(text, 0.4), linewidth=0.6)
        edges = collect_edges(section.hulls)
        for is_new, colour, zorder in ((False, text, 2.5), (True, HIGHLIGHT, 3)):
            shown = [edges[k] for k in np.flatnonzero(frame.new_edges == is_new)]
            cuts = [section.cuts[v] for v in np.flatnonzero(frame.new_cuts == is_new)]
            draw_lines(ax, shown, color=colour, linewidth=1.7 if is_new else 0.9, linestyle="--", zorder=zorder)
            draw_lines(ax, cuts, color=colour, linewidth=2.2 if is_new else 1.7, zorder=zorder)
        new, old = frame.new_points, ~frame.new_points
        colours = self.palette.colour_labels(frame.labels)
        draw_points(ax, section.points[old], colours[old])
        star = {"marker": "*", "s": 220, "edgecolors": HIGHLIGHT, "linewidths": 1.4, "zorder": 5}
        draw_points(ax, section.points[new], colours[new], **star)
        set_limits(ax, section.limits, self.names, find_kinds(self.frames[-1].section.points))


def place_nodes(tree: Any) -> np.ndarray:
    """Return the horizontal positions of the nodes: leaves at 0, 1, 2 …, other nodes midway between their children."""
    x = np.zeros(tree.n_nodes)
    stack, n_leaves = [0], 0
    while stack:
        v = stack.pop()
        if tree.children_left[v] < 0:
            x[v] = n_leaves
            n_leaves += 1
        else:
            stack += [tree.children_right[v], tree.children_left[v]]
    for v in range(tree.n_nodes - 1, -1, -1):
        if tree.children_left[v] >= 0:
            x[v] = (x[tree.children_left[v]] + x[tree.children_right[v]]) / 2
    return x


def draw_tree(ax: Any, frame: Frame, palette: Palette, latest_time: float) -> None:
    """Draw the tree of a frame, with time on a downward axis."""
    text = text_colour()
    tree = frame.section.tree
    x = place_nodes(tree)
    is_cut = tree.children_left >= 0
    y = np.where(is_cut, tree.time, frame.budget if np.isfinite(frame.budget) else latest_time)
    start = np.where(tree.parent >= 0, y[tree.parent], 0.0)
    is_new = frame.new_cuts | frame.new_leaves
    for new, colour, zorder in ((False, text, 2), (True, HIGHLIGHT, 3)):
        stems = [np.array([[x[v], start[v]], [x[v], y[v]]]) for v in np.flatnonzero(is_new == new)]
        bars = [
            np.array([[x[tree.children_left[v]], y[v]], [x[tree.children_right[v]], y[v]]])
            for v in np.flatnonzero(is_cut & (frame.new_cuts == new))
        ]
        draw_lines(ax, stems + bars, color=colour, linewidth=1.5, zorder=zorder)
    if np.isfinite(frame.budget):
        ax.axhline(frame.budget, color=fade(text, 0.6), linestyle="--", linewidth=1.0, zorder=1)
        ax.annotate(
            f"budget {frame.budget:.2f}", (1.0, frame.budget), xycoords=("axes fraction", "data"), xytext=(0, -9),
            textcoords="offset points", ha="right", va="top", fontsize=8, color=fade(text, 0.75),
        )  # fmt: skip
    leaves = np.flatnonzero(~is_cut)
    _draw_leaves(ax, frame, palette, x[leaves], y[leaves])
    ax.set(xlim=(-0.7, len(leaves) - 0.3), ylim=(latest_time, 0.0), ylabel="time", xticks=[])
    ax.spines[["top", "right", "bottom"]].set_visible(False)


def _draw_leaves(ax: Any, frame: Frame, palette: Palette, x: np.ndarray, y: np.ndarray) -> None:
    """Draw leaves as circles, with their numbers of rows if there is room."""
    tree = frame.section.tree
    leaves = np.flatnonzero(tree.children_left < 0)
    has_room = len(leaves) <= 16
    edges = np.where(frame.new_leaves[leaves, None], to_rgb(HIGHLIGHT), text_colour())
    fills = palette.colour_values(tree.value[leaves])
    size = 190 if has_room else 35
    ax.scatter(x, y, s=size, c=fills, edgecolors=edges, linewidths=1.4, zorder=4, clip_on=False)
    if not has_room:
        return
    for k, v in enumerate(leaves):
        is_dark = fills[k] @ (0.299, 0.587, 0.114) < 0.5
        ax.text(
            x[k], y[k], str(tree.n_points[v]), color="white" if is_dark else "black", ha="center",
            va="center_baseline", fontsize=8, zorder=5,
        )  # fmt: skip
