"""Picture files: check their names, import matplotlib, and draw scores along a stream, and how a forest recovered from a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

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


def draw_curves(curves: dict[str, list[tuple[int, float]]], score: str, window: int, title: str, path: Path) -> None:
    """Draw the score of each model along the stream.

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
    """
    use_matplotlib()
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    _draw_scores(ax, curves)
    ax.set(xlabel="rows predicted", ylabel=f"{score} over the last {format_count(window, 'row')}", title=title)
    save_picture(figure, path)


class Recovery(NamedTuple):
    """How a forest went through a change of its stream.

    Parameters
    ----------
    changed, noticed : int or None
        The rows of the change, and by which the forest had noticed it, if it did.
    counted : list of (int, float)
        Rows learned, and how many of them count: the sum of their weights.
    shares : dict
        Importances by the name of the feature, just before the change and at the end.
    """

    changed: int
    noticed: int | None
    counted: list[tuple[int, float]]
    shares: dict[str, tuple[float, float]]


def draw_recovery(
    curves: dict[str, list[tuple[int, float]]],
    window: int,
    floor: tuple[float, str],
    span: tuple[int, int, str],
    recovery: Recovery,
    path: Path,
) -> None:
    """Draw the errors of models along a stream that changes, how many rows count in the first one, and its importances.

    Parameters
    ----------
    curves : dict
        Points (rows, RMSE) by the name of the model.
    window : int
        Number of rows over which each point is taken.
    floor : (float, str)
        The smallest possible error and its label, drawn as a horizontal line.
    span : (int, int, str)
        Rows of the stream to be shaded, first and last, and their label.
    recovery : Recovery
        Of the first model.
    path : Path
        Picture to write; its folder is created if needed.
    """
    use_matplotlib()
    import matplotlib.pyplot as plt

    panels: list[Any] = [["scores", "shares"], ["counted", "shares"]]
    figure, axes = plt.subplot_mosaic(
        panels, figsize=(11, 6), width_ratios=(8, 3), height_ratios=(3, 1.3), layout="constrained"
    )
    ax, below = axes["scores"], axes["counted"]
    _draw_scores(ax, curves)
    ax.axhline(floor[0], color="#999999", linewidth=0.8)
    ax.set_ylim(bottom=0)  # leaves room below the line, where no curve is
    place = (0.995, 0.97 * floor[0])
    ax.annotate(floor[1], place, xycoords=("axes fraction", "data"), va="top", ha="right", color="#777777")
    ax.axvspan(*span[:2], color="#f0e0d0", linewidth=0)
    _write_at(ax, span[1], 0.1, span[2])
    ax.set(ylabel=f"RMSE over the last {format_count(window, 'row')}", title="Predict, then learn")
    if recovery.counted:
        below.plot(*zip(*recovery.counted, strict=True), color=COLOURS[0], linewidth=1.5)
        below.set_ylim(bottom=0)
    below.set(xlabel="rows learned", ylabel="rows that count")
    below.sharex(ax)
    _clean(below)
    for panel in (ax, below):
        panel.axvline(recovery.changed, color="#555555", linewidth=0.9, linestyle=":")
    _write_at(ax, recovery.changed, 0.985, "the stream changes")
    if recovery.noticed is not None:
        told = f"noticed {format_count(recovery.noticed - recovery.changed, 'row')} later:\nolder rows hardly count any more"
        _write_at(below, recovery.noticed, 0.95, told)
    _draw_shares(axes["shares"], recovery.shares)
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


def _draw_scores(ax: Any, curves: dict[str, list[tuple[int, float]]]) -> None:
    for k, (name, curve) in enumerate(curves.items()):
        rows, values = zip(*curve, strict=True) if curve else ((), ())
        style: dict[str, Any] = {
            "color": COLOURS[k % len(COLOURS)],
            "linewidth": 2.0 if k == 0 else 1.3,
            "zorder": 3 - 0.1 * k,
        }
        ax.plot(rows, values, label=name, **style)
    _clean(ax)
    if len(curves) > 1:
        ax.legend(frameon=False, fontsize="small")


def _clean(ax: Any) -> None:
    """Draw no more around the curves than is needed to read them."""
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    ax.yaxis.set_major_formatter(lambda y, _: f"{y:,g}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)


def _write_at(ax: Any, row: int, height: float, text: str) -> None:
    """Write right of a row, at a height that is a share of that of the panel."""
    ax.annotate(
        f" {text}", (row, height), xycoords=("data", "axes fraction"), va="top", color="#555555", fontsize="small"
    )


def _draw_shares(ax: Any, shares: dict[str, tuple[float, float]]) -> None:
    places = range(len(shares))
    for k, (label, colour) in enumerate((("before the change", "#BBBBBB"), ("at the end", COLOURS[0]))):
        ax.barh(
            [place + 0.4 * (k - 0.5) for place in places],
            [100 * share[k] for share in shares.values()],
            height=0.38,
            color=colour,
            label=label,
        )
    ax.set_yticks(places, list(shares))
    ax.invert_yaxis()  # the first feature on top
    ax.set_xlabel("importance in percent")
    ax.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
