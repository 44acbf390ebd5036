"""Picture files: check their names, import matplotlib, and draw scores along a stream and importances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import CommandError, NoMatplotlibError, UsageError
from .formatting import format_count
from .output_files import check_writable

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#666666")


def check_picture(path: Path, option: str) -> None:
    """Refuse a picture that could not be written, before any data is read."""
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"{option} {path}: expected a .png, .svg or .pdf file")
    check_writable(path, option, creates_folder=True)


def use_matplotlib() -> None:
    """Import matplotlib, which is optional, for drawing to files."""
    try:
        import matplotlib
    except ImportError as error:
        raise NoMatplotlibError(error) from None
    matplotlib.use("Agg")


def draw_curves(
    curves: dict[str, list[tuple[int, float]]],
    score: str,
    window: int,
    title: str,
    path: Path,
    floor: tuple[float, str] | None = None,
    span: tuple[int, int, str] | None = None,
    shares: dict[str, float] | None = None,
) -> None:
    """Draw the score of each model along the stream, and importances of features beside it.

    Parameters
    ----------
    curves : dict
        Points (rows, score) by the name of the model.
    score : str
        Name of the score.
    window : int
        Number of rows over which each point is taken.
    title : str
    path : Path
        Picture to write; its folder is created if needed.
    floor : (float, str) or None
        Best possible score and its label, drawn as a horizontal line.
    span : (int, int, str) or None
        Rows of the stream to be shaded, first and last, and their label.
    shares : dict or None
        Importances by the name of the feature, drawn as bars in a second panel.
    """
    use_matplotlib()
    import matplotlib.pyplot as plt

    if shares is None:
        figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    else:
        layout: dict[str, Any] = {"figsize": (11, 4.5), "width_ratios": (8, 3), "layout": "constrained"}
        figure, (ax, beside) = plt.subplots(1, 2, **layout)
        _draw_shares(beside, shares)
    _draw_scores(ax, curves, floor, span)
    ax.set(xlabel="rows predicted", ylabel=f"{score} over the last {format_count(window, 'row')}", title=title)
    save_picture(figure, path)


def save_picture(figure: Any, path: Path) -> None:
    """Write a figure to a file, whose folder is created if needed, and close it."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:  # a format that matplotlib does not know
        raise CommandError(f"cannot write the picture {path}: {error}") from None
    finally:
        plt.close(figure)


def _draw_scores(
    ax: Any,
    curves: dict[str, list[tuple[int, float]]],
    floor: tuple[float, str] | None,
    span: tuple[int, int, str] | None,
) -> None:
    for k, (name, curve) in enumerate(curves.items()):
        rows, values = zip(*curve, strict=True) if curve else ((), ())
        style: dict[str, Any] = {
            "color": COLOURS[k % len(COLOURS)],
            "linewidth": 2.0 if k == 0 else 1.3,
            "zorder": 3 - 0.1 * k,
        }
        ax.plot(rows, values, label=name, **style)
    if floor is not None:
        ax.axhline(floor[0], color="#999999", linewidth=0.8)
        ax.set_ylim(bottom=0)  # leaves room below the line, where no curve is
        place = (0.995, 0.97 * floor[0])
        ax.annotate(floor[1], place, xycoords=("axes fraction", "data"), va="top", ha="right", color="#777777")
    if span is not None:
        first, last, label = span
        ax.axvspan(first, last, color="#f0e0d0", linewidth=0)
        place = (last, 0.985)
        ax.annotate(f" {label}", place, xycoords=("data", "axes fraction"), va="top", color="#777777", fontsize="small")
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    if len(curves) > 1:
        ax.legend(frameon=False, fontsize="small")


def _draw_shares(ax: Any, shares: dict[str, float]) -> None:
    percents = [100 * share for share in shares.values()]
    bars = ax.barh(list(shares), percents, color=COLOURS[0], height=0.7)
    ax.bar_label(bars, [f"{percent:.1f}" for percent in percents], padding=3, color="#777777", fontsize="small")
    ax.invert_yaxis()  # the first feature on top
    ax.set(title="Importances at the end", xlabel="percent")
    ax.margins(x=0.15)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
