"""Figures: one look for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from .summary import average, style_of


def start() -> Any:
    """matplotlib.pyplot, set to draw files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False})
    return plt


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    start().close(figure)


def draw_curves(ax: Any, frame: pd.DataFrame, methods: tuple[str, ...], x: str, y: str) -> None:
    """The mean of ``y`` against ``x`` with 1.96 standard errors, a line a method."""
    means = average(frame, ["method", x], y)
    for method in methods:
        line = means[means["method"] == method].sort_values(x)
        if not line.empty:
            ax.errorbar(line[x], line["mean"], yerr=line["half"].fillna(0), linewidth=1.3, capsize=2, **style_of(method))
