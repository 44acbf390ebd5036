"""Ticks of axes and colour bars. Imports matplotlib, so it is imported when something is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import Formatter, MaxNLocator

from .numerals import NUMBER, format_ticks, format_value

MAX_TICKS = 9
DIGIT_WIDTH = 0.64  # of the font size


class NumberFormatter(Formatter):
    """Write ticks with `format_ticks`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the text of a single number."""
        return format_value(x, self.kind)

    def format_ticks(self, values: Any) -> list[str]:
        """Return the labels of all ticks, empty for those that are not shown."""
        axis: Any = self.axis
        low, high = np.sort(axis.get_view_interval())
        ticks = np.asarray(values, dtype=float)
        shown = (ticks >= low) & (ticks <= high)
        texts = iter(format_ticks(ticks[shown], self.kind))
        return [next(texts) if is_shown else "" for is_shown in shown]


class RoomyLocator(MaxNLocator):
    """Place as many ticks along a horizontal axis as there is room for the labels, with two spaces between them."""

    def __init__(self, kind: str) -> None:
        super().__init__(nbins=MAX_TICKS, steps=[1, 2, 2.5, 5, 10], integer=kind != NUMBER, min_n_ticks=1)
        self.kind = kind

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks for a range."""
        axis: Any = self.axis
        axes = axis.axes
        room = axes.get_window_extent().width / axes.figure.dpi * 72
        width = DIGIT_WIDTH * FontProperties(size=rcParams["xtick.labelsize"]).get_size_in_points()
        for n in range(MAX_TICKS, 0, -1):
            self.set_params(nbins=n)
            ticks = np.asarray(super().tick_values(vmin, vmax))
            shown = ticks[(ticks >= vmin) & (ticks <= vmax)]
            longest = max(map(len, format_ticks(shown, self.kind)), default=0)
            if len(shown) * (longest + 2) * width <= room:
                break
        return ticks


def set_ticks(ax: Any, kinds: tuple[str, ...]) -> None:
    """Set the ticks of both axes for features of these kinds."""
    ax.xaxis.set_major_locator(RoomyLocator(kinds[0]))
    ax.yaxis.set_major_locator(
        MaxNLocator(nbins="auto", steps=[1, 2, 2.5, 5, 10], integer=kinds[1] != NUMBER, min_n_ticks=1)
    )
    for axis, kind in zip((ax.xaxis, ax.yaxis), kinds, strict=True):
        axis.set_major_formatter(NumberFormatter(kind))
