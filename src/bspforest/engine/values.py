"""What a forest tells whatever turns its trees into predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .arrays import ForestArrays
from .coordinates import Coordinates
from .interrupts import Interrupts

if TYPE_CHECKING:
    from .forest import OnlineForest


class Values:
    """What is kept beside the trees in order to predict. Mean values need nothing: the leaves have all of it.

    A forest calls these methods after its trees and rows have changed.
    """

    # Whether labels that are forgotten still have a say: `refresh` must be called before predicting, learning or saving.
    is_stale = False

    # Whether `inserted` revises the coordinates, when it is time. Else the forest does.
    revises_coordinates = False

    def choose_coordinates(
        self, forest: OnlineForest, slots: np.ndarray, *, n_seen: int, in_order: bool, interrupts: Interrupts
    ) -> Coordinates:
        """Return coordinates for trees that are about to be built from the rows in ``slots``, the latest of ``n_seen``."""
        return forest.fit_coordinates(slots)

    def built(self, forest: OnlineForest, *, in_order: bool, interrupts: Interrupts) -> None:
        """All trees were built from the rows held, which came ``in_order`` of time."""

    def converted(self, forest: OnlineForest, interrupts: Interrupts, *, was_busy: bool) -> None:
        """All trees were built afresh from the rows held, which have other features now.

        ``was_busy``: work was going on before, which was lost.
        """

    def inserted(self, forest: OnlineForest, slots: np.ndarray, interrupts: Interrupts) -> None:
        """The rows in ``slots`` were inserted into all trees."""

    def forgotten(self, forest: OnlineForest, slots: np.ndarray, *, exactly: bool) -> None:
        """The rows in ``slots`` were removed: ``exactly``, as if they had never been seen, or because of a window."""

    def refresh(self, forest: OnlineForest, interrupts: Interrupts) -> None:
        """Remove what forgotten labels have left."""

    @property
    def is_busy(self) -> bool:
        """Whether work is going on that copies and files cannot hold: `finish_work` must be called before."""
        return False

    def finish_work(self) -> None:
        """Finish what is going on."""

    def insert_classes(self, arrays: ForestArrays, places: np.ndarray, n_after: int) -> ForestArrays:
        """Return arrays with room for more classes, which no row has had so far; class k becomes class ``places[k]``."""
        return arrays
