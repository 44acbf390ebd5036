"""matplotlib, imported when the first picture is drawn, and the colours all pictures share.

Lines and text take the colours of the style in use, so that pictures read on light and on dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Okabe and Ito's colours, which people with any colour vision can tell apart. Vermilion is kept for what is new.
CLASS_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
NEW = "#D55E00"
MEANS, SPREADS = "viridis", "magma"


def need_matplotlib(what: str) -> Any:
    """``matplotlib.pyplot``, or an error that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{what} needs matplotlib: pip install 'bspforest[plot]'") from error
    return plt


def make_axes(what: str, ax: Any, n: int = 1, *, size: tuple[float, float] = (5.0, 5.0), hint: str = "") -> tuple:
    """A figure and ``n`` axes in a row: those given, or new ones."""
    plt = need_matplotlib(what)
    if ax is None:
        figure, axes = plt.subplots(1, n, figsize=size, layout="constrained", squeeze=False)
        return figure, list(axes[0])
    axes = [ax] if n == 1 else list(np.ravel(ax))
    if len(axes) != n:
        raise ValueError(f"{what} draws {n} pictures: ax must be {n} axes, got {len(axes)}{hint}")
    return axes[0].figure, axes


def ink() -> tuple[np.ndarray, np.ndarray]:
    """The style's colours of text and of the ground, as RGB."""
    import matplotlib as mpl

    return rgb(mpl.rcParams["text.color"]), rgb(mpl.rcParams["axes.facecolor"])


def rgb(colour: str) -> np.ndarray:
    from matplotlib.colors import to_rgb

    return np.array(to_rgb(colour))


def colour_classes(n: int) -> np.ndarray:
    """A colour for each of ``n`` classes, as rows of RGB."""
    import matplotlib as mpl

    if n <= len(CLASS_COLOURS):
        return np.array([rgb(colour) for colour in CLASS_COLOURS[:n]])
    return mpl.colormaps[MEANS](np.linspace(0.0, 1.0, n))[:, :3]


def colour_shares(shares: np.ndarray) -> np.ndarray:
    """RGB for class shares along the last axis: the colour of the largest, paler the less it stands out."""
    n = shares.shape[-1]
    total = shares.sum(axis=-1, keepdims=True)
    shares = np.divide(shares, total, out=np.full(shares.shape, 1.0 / n), where=total > 0)
    strength = np.clip((shares.max(axis=-1) * n - 1.0) / max(n - 1, 1), 0.0, 1.0)[..., None] if n > 1 else total * 0 + 1
    return mix(colour_classes(n)[shares.argmax(axis=-1)], 0.15 + 0.85 * strength)


def mix(colours: np.ndarray, strength: Any) -> np.ndarray:
    """Colours over the ground of the style, without transparency, so that edges of neighbours leave no seams."""
    _, ground = ink()
    return strength * colours + (1.0 - strength) * ground


def add_legend(ax: Any, names: Sequence[Any], *, title: str | None = None) -> None:
    """The colours of the classes, beside the picture so that it hides nothing."""
    from matplotlib.lines import Line2D

    colours = colour_classes(len(names))
    _, ground = ink()
    marks = [
        Line2D([], [], linestyle="", marker="o", markersize=7, color=tuple(c), markeredgecolor=tuple(ground))
        for c in colours
    ]
    columns = 1 + (len(names) - 1) // 14
    ax.legend(
        marks, [str(name) for name in names], title=title, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False,
        ncols=columns, borderaxespad=0.0, handletextpad=0.2,
    )  # fmt: skip


def fit_frame(ax: Any, corners: np.ndarray, names: Sequence[str]) -> None:
    (left, bottom), (right, top) = corners
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel=names[0], ylabel=names[1])


def collect_edges(polygons: list[np.ndarray]) -> list[np.ndarray]:
    """The edges of polygons, each once: nested hulls share many, and dashes drawn twice would look solid."""
    edges = {}
    for polygon in polygons:
        for a, b in zip(polygon.tolist(), np.roll(polygon, 1, axis=0).tolist(), strict=True):
            if a != b:
                edges[*min(a, b), *max(a, b)] = np.array([a, b])
    return list(edges.values())


def draw_cells(ax: Any, polygons: list[np.ndarray], colours: np.ndarray) -> Any:
    """Filled polygons."""
    from matplotlib.collections import PolyCollection

    cells = PolyCollection(polygons, facecolors=colours, edgecolors="none", zorder=1)
    return ax.add_collection(cells)


def draw_lines(ax: Any, lines: list[np.ndarray], **options: Any) -> Any:
    """Broken lines; those without two ends are left out."""
    from matplotlib.collections import LineCollection

    options = {"zorder": 2, "capstyle": "round", **options}
    return ax.add_collection(LineCollection([line for line in lines if len(line) > 1], **options))


def draw_points(ax: Any, points: np.ndarray, colours: np.ndarray, **options: Any) -> Any:
    """Points with a rim in the colour of the ground, so that they stand out on a cell of their own colour."""
    size = float(np.clip(4000 / max(len(points), 1), 4, 40))
    options = {"s": size, "edgecolors": [ink()[1]], "linewidths": min(0.8, size / 20), "zorder": 4, **options}
    return ax.scatter(points[:, 0], points[:, 1], c=colours, **options)
