"""A common style for the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from .summary import average, get_line_style


def import_pyplot() -> Any:
    """Return matplotlib.pyplot, set up to write files."""
    # Imported on first use: the processes that measure memory import this module but draw nothing.
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False})
    return plt


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file and close it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    import_pyplot().close(figure)


def set_ticks(axis: Any, values: Any) -> None:
    """Set the ticks of a logarithmic axis to these values, labelled with plain numbers."""
    from matplotlib.ticker import NullLocator

    shown = sorted(set(values))
    axis.set_ticks(shown, [f"{v:,g}" for v in shown])
    axis.set_minor_locator(NullLocator())


def set_log_ticks(axis: Any, multiples: tuple[float, ...] = (1, 1.5, 2, 3, 5, 7)) -> None:
    """Set the ticks of a logarithmic axis to multiples of powers of ten, labelled with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=multiples))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())


def draw_curves(ax: Any, frame: pd.DataFrame, methods: tuple[str, ...], x: str, y: str) -> None:
    """Draw the mean of ``y`` against ``x`` with 1.96 standard errors, one line per method."""
    means = average(frame, ["method", x], y)
    for method in methods:
        line = means[means["method"] == method].sort_values(x)
        if not line.empty:
            ax.errorbar(
                line[x], line["mean"], yerr=line["half"].fillna(0), linewidth=1.3, capsize=2, **get_line_style(method)
            )
