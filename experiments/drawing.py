"""Figures: one look for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from .summary import average, get_line_style


def import_pyplot() -> Any:
    """matplotlib.pyplot, set to draw files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False})
    return plt


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    import_pyplot().close(figure)


def set_ticks(axis: Any, values: Any) -> None:
    """Ticks of a logarithmic axis at these values, as plain numbers."""
    from matplotlib.ticker import NullLocator

    shown = sorted(set(values))
    axis.set_ticks(shown, [f"{v:,g}" for v in shown])
    axis.set_minor_locator(NullLocator())


def set_log_ticks(axis: Any, at: tuple[float, ...] = (1, 1.5, 2, 3, 5, 7)) -> None:
    """Ticks of a logarithmic axis at these times powers of ten, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=at))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())


def draw_curves(ax: Any, frame: pd.DataFrame, methods: tuple[str, ...], x: str, y: str) -> None:
    """The mean of ``y`` against ``x`` with 1.96 standard errors, a line a method."""
    means = average(frame, ["method", x], y)
    for method in methods:
        line = means[means["method"] == method].sort_values(x)
        if not line.empty:
            ax.errorbar(
                line[x], line["mean"], yerr=line["half"].fillna(0), linewidth=1.3, capsize=2, **get_line_style(method)
            )
