"""Colours for labels: one per class, or a colour scale from the lowest to the highest label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.base import BSPForest
from .style import add_class_legend, background_colour, colour_classes, colour_shares, make_scale


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
    """

    classes: np.ndarray | None
    low: float = 0.0
    high: float = 1.0

    @classmethod
    def from_labels(cls, forest: BSPForest, y: np.ndarray) -> Palette:
        """Make the palette of a fitted forest for the labels ``y``."""
        classes = getattr(forest, "classes_", None)
        return cls(classes) if classes is not None else cls(None, float(y.min()), float(y.max()))

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

    def add_legend(self, ax: Any) -> None:
        """Add a legend of the classes, or a colour bar, next to the axes."""
        if self.classes is not None:
            add_class_legend(ax, self.classes.tolist())
        else:
            ax.figure.colorbar(make_scale(self.low, self.high), ax=ax, label="label")
