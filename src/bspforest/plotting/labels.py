"""Labels as colours: one for each class, or a scale from the lowest to the highest label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.base import BSPForest
from .style import MEANS, add_legend, colour_classes, colour_shares, ink


@dataclass(frozen=True)
class Palette:
    """The colours of the labels of a forest; computed when drawn, since they depend on matplotlib's style."""

    classes: np.ndarray | None
    low: float = 0.0
    high: float = 1.0

    @classmethod
    def of_forest(cls, forest: BSPForest) -> Palette:
        classes = getattr(forest, "classes_", None)
        labels = forest._forest.held_labels()[:, 0]
        return cls(classes) if classes is not None else cls(None, float(labels.min()), float(labels.max()))

    def _scale(self) -> Any:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        return ScalarMappable(Normalize(self.low, self.high), MEANS)

    def colour_labels(self, labels: np.ndarray) -> np.ndarray:
        """RGB of single labels: class indices, or numbers."""
        if self.classes is not None:
            return colour_classes(len(self.classes))[labels.astype(int)]
        return self._scale().to_rgba(labels)[:, :3]

    def colour_values(self, values: np.ndarray) -> np.ndarray:
        """RGB of what leaves say: class weights, or means. A leaf without weight says nothing, and gets the ground's colour."""
        if self.classes is not None:
            return colour_shares(values)
        colours = self._scale().to_rgba(np.nan_to_num(values))[:, :3]
        colours[np.isnan(values)] = ink()[1]
        return colours

    def explain(self, ax: Any) -> None:
        """A legend of the classes, or a scale, beside the picture."""
        if self.classes is not None:
            add_legend(ax, self.classes.tolist())
        else:
            ax.figure.colorbar(self._scale(), ax=ax, label="label")
