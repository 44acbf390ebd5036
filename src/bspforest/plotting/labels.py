"""Colours for labels: one per class, or a colour scale that outliers do not stretch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.base import BSPForest
from .numerals import NUMBER, YEAR, find_kinds
from .ranges import find_range
from .style import add_class_legend, add_colour_bar, background_colour, colour_classes, colour_shares, make_scale


@dataclass(frozen=True)
class Palette:
    """The colours of a forest's labels.

    Colours are computed when a plot is drawn, because they depend on the matplotlib style.

    Attributes
    ----------
    classes : ndarray or None
        None for regression.
    low, high : float
        The ends of the colour scale for regression.
    extend : {"neither", "min", "max", "both"}
        The ends beyond which there are values; they have the colour of the end.
    kind : str
        The kind of numbers that labels are: see `find_kinds`.
    """

    classes: np.ndarray | None
    low: float = 0.0
    high: float = 1.0
    extend: str = "neither"
    kind: str = NUMBER

    @classmethod
    def from_labels(cls, forest: BSPForest, y: np.ndarray) -> Palette:
        """Make the palette of a fitted forest for the labels ``y``."""
        classes = getattr(forest, "classes_", None)
        return cls(classes) if classes is not None else cls.from_values(y, y)

    @classmethod
    def from_values(cls, values: np.ndarray, labels: np.ndarray, *, with_rows: bool = True) -> Palette:
        """Make a colour scale for ``values``, such as means; ``with_rows`` if labels are drawn with it too.

        Means that are farther from the range of labels than it is long are due to labels outside that range.
        """
        low, high = find_range(values)
        first, last = find_range(labels)
        length = last - first
        if max(low, first - length) < min(high, last + length):
            low, high = max(low, first - length), min(high, last + length)
        if low == high:  # put a single value in the middle
            low, high = low - max(0.5, 0.05 * abs(low)), high + max(0.5, 0.05 * abs(high))
        both = [part[np.isfinite(part)] for part in (values, labels)[: 1 + with_rows]]
        below = any((part < low).any() for part in both)
        above = any((part > high).any() for part in both)
        extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
        kind = YEAR if find_kinds(labels.reshape(-1, 1)) == (YEAR,) else NUMBER
        return cls(None, low, high, extend[below, above], kind)

    def colour_labels(self, labels: np.ndarray) -> np.ndarray:
        """Return the RGB colour of each label."""
        if self.classes is None:
            return make_scale(self.low, self.high).to_rgba(labels)[:, :3]
        number = {label: k for k, label in enumerate(self.classes.tolist())}
        return colour_classes(len(self.classes))[[number[label] for label in labels.tolist()]]

    def colour_values(self, values: np.ndarray) -> np.ndarray:
        """Return the RGB colours of node values: class weights, or means.

        A node without weight has no mean and gets the background colour.
        """
        if self.classes is not None:
            return colour_shares(values)
        colours = make_scale(self.low, self.high).to_rgba(np.nan_to_num(values))[:, :3]
        colours[np.isnan(values)] = background_colour()
        return colours

    def add_legend(self, ax: Any, label: str = "label") -> None:
        """Add a legend of the classes, or a colour bar, next to the axes."""
        if self.classes is not None:
            add_class_legend(ax, self.classes.tolist())
        else:
            scale = make_scale(self.low, self.high)
            add_colour_bar(scale, ax, label, kind=self.kind, extend=self.extend)
