"""Access to matplotlib, and the colours and drawing functions that all displays share.

Lines and text take their colours from the matplotlib style in use, so figures work on light and dark backgrounds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from .numerals import NUMBER

# The Okabe-Ito palette, which is safe for colour-blind readers. Vermilion is reserved for highlighting.
CLASS_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
HIGHLIGHT = "#D55E00"
MEAN_COLORMAP, STD_COLORMAP = "viridis", "magma"
TITLE_WIDTH = 46  # characters above a plot of the usual width


def need_matplotlib(needed_by: str = "bspforest.plotting") -> Any:
    """Return the package ``matplotlib`` with the submodules used here, or raise an error that says what to install."""
    # matplotlib is an optional dependency, so it is imported on first use, and only here.
    try:
        import matplotlib
        import matplotlib.animation
        import matplotlib.cm
        import matplotlib.collections
        import matplotlib.colors
        import matplotlib.lines
        import matplotlib.pyplot
    except ImportError as error:
        raise ImportError(f"{needed_by} needs matplotlib: pip install 'bspforest[plot]'") from error
    return matplotlib


def need_art3d() -> Any:
    """Return ``mpl_toolkits.mplot3d.art3d``."""
    need_matplotlib()
    from mpl_toolkits.mplot3d import art3d

    return art3d


def need_ticks() -> Any:
    """Return the module ``ticks``, which imports matplotlib."""
    need_matplotlib()
    from . import ticks

    return ticks


def add_colour_bar(image: Any, ax: Any, label: str, *, kind: str = NUMBER, extend: str = "neither") -> Any:
    """Add a colour bar to the right of the axes. ``extend`` tells at which ends values lie beyond the colours."""
    formatter = need_ticks().NumberFormatter(kind)
    return ax.figure.colorbar(image, ax=ax, label=label, format=formatter, extend=extend)


def make_axes(display: str, ax: Any, n: int = 1, *, size: tuple[float, float] = (5.0, 5.0), hint: str = "") -> tuple:
    """Return the figure and a list of ``n`` axes: those given, or new ones in a row."""
    mpl = need_matplotlib(display)
    if ax is None:
        figure, axes = mpl.pyplot.subplots(1, n, figsize=size, layout="constrained", squeeze=False)
        return figure, list(axes[0])
    axes = [ax] if n == 1 else list(np.ravel(ax))
    if len(axes) != n:
        raise ValueError(f"{display} draws {n} plots: ax must be {n} axes, got {len(axes)}{hint}")
    return axes[0].figure, axes


def text_colour() -> np.ndarray:
    """Return the text colour of the matplotlib style in use, as RGB."""
    return to_rgb(need_matplotlib().rcParams["text.color"])


def background_colour() -> np.ndarray:
    """Return the background colour of the matplotlib style in use, as RGB."""
    return to_rgb(need_matplotlib().rcParams["axes.facecolor"])


def to_rgb(colour: str) -> np.ndarray:
    """Convert a matplotlib colour to RGB."""
    return np.array(need_matplotlib().colors.to_rgb(colour))


def make_scale(low: float, high: float) -> Any:
    """Return the mapping from numbers between ``low`` and ``high`` to colours that means and times are drawn with."""
    mpl = need_matplotlib()
    return mpl.cm.ScalarMappable(mpl.colors.Normalize(low, high), MEAN_COLORMAP)


def colour_classes(n: int) -> np.ndarray:
    """Return one RGB colour for each of ``n`` classes."""
    if n <= len(CLASS_COLOURS):
        return np.array([to_rgb(colour) for colour in CLASS_COLOURS[:n]])
    return need_matplotlib().colormaps[MEAN_COLORMAP](np.linspace(0.0, 1.0, n))[:, :3]


def colour_shares(shares: np.ndarray) -> np.ndarray:
    """Return RGB colours for class shares along the last axis.

    The colour is that of the largest class, faded by how little its share exceeds that of a uniform distribution.
    """
    n = shares.shape[-1]
    total = shares.sum(axis=-1, keepdims=True)
    shares = np.divide(shares, total, out=np.full(shares.shape, 1.0 / n), where=total > 0)
    strength = np.clip((shares.max(axis=-1) * n - 1.0) / max(n - 1, 1), 0.0, 1.0)[..., None] if n > 1 else total * 0 + 1
    return fade(colour_classes(n)[shares.argmax(axis=-1)], 0.15 + 0.85 * strength)


def fade(colours: np.ndarray, strength: Any) -> np.ndarray:
    """Blend colours with the background: ``strength`` 1 leaves them as they are, 0 gives the background.

    Opaque colours, unlike transparent ones, leave no seams between neighbouring cells.
    """
    return strength * colours + (1.0 - strength) * background_colour()


def add_class_legend(ax: Any, names: Sequence[Any]) -> None:
    """Add a legend of class colours to the right of the axes."""
    line = need_matplotlib().lines.Line2D
    edge = tuple(background_colour())
    handles = [
        line([], [], linestyle="", marker="o", markersize=7, color=tuple(colour), markeredgecolor=edge)
        for colour in colour_classes(len(names))
    ]
    columns = 1 + (len(names) - 1) // 14
    ax.legend(
        handles, [str(name) for name in names], loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False,
        ncols=columns, borderaxespad=0.0, handletextpad=0.2,
    )  # fmt: skip


def set_limits(ax: Any, limits: np.ndarray, names: Sequence[str], kinds: tuple[str, ...] = (NUMBER, NUMBER)) -> None:
    """Set the limits of the axes, given as the lower left and the upper right corner, and the axis labels."""
    (left, bottom), (right, top) = limits
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel=names[0], ylabel=names[1])
    need_ticks().set_ticks(ax, kinds)


def wrap_title(ax: Any, title: str, n: int = 1) -> str:
    """Return the title in lines that fit above ``n`` plots as wide as these axes."""
    points = ax.get_window_extent().width / ax.figure.dpi * 72
    return textwrap.fill(title.replace("\n", " "), n * int(np.clip(points / 6, 12, TITLE_WIDTH)))  # 6 points a letter


def collect_edges(polygons: list[np.ndarray]) -> list[np.ndarray]:
    """Return the edges of polygons without duplicates.

    Nested hulls share edges, and a dashed line drawn twice looks solid.
    """
    edges = {}
    for polygon in polygons:
        for a, b in zip(polygon.tolist(), np.roll(polygon, 1, axis=0).tolist(), strict=True):
            if a != b:
                edges[*min(a, b), *max(a, b)] = np.array([a, b])
    return list(edges.values())


def draw_cells(ax: Any, polygons: list[np.ndarray], colours: np.ndarray) -> Any:
    """Draw filled polygons."""
    cells = need_matplotlib().collections.PolyCollection(polygons, facecolors=colours, edgecolors="none", zorder=1)
    return ax.add_collection(cells)


def draw_lines(ax: Any, lines: list[np.ndarray], **options: Any) -> Any:
    """Draw polylines; those with fewer than two points are skipped."""
    options = {"zorder": 2, "capstyle": "round", **options}
    lines = [line for line in lines if len(line) > 1]
    return ax.add_collection(need_matplotlib().collections.LineCollection(lines, **options))


def draw_points(ax: Any, points: np.ndarray, colours: np.ndarray, **options: Any) -> Any:
    """Draw points with an edge in the background colour, so they stand out on cells of the same colour."""
    size = float(np.clip(4000 / max(len(points), 1), 4, 40))
    options = {
        "s": size,
        "edgecolors": [background_colour()],
        "linewidths": min(0.8, size / 20),
        "zorder": 4,
        **options,
    }
    return ax.scatter(points[:, 0], points[:, 1], c=colours, **options)
