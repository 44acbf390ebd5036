"""Which rows a forest stores. Ids number rows in order of arrival; slots are positions in the arrays of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .forest import OnlineForest


class Moment(NamedTuple):
    """When something was done: how many rows had been seen, and how many were stored."""

    n_seen: int = 0
    n_held: int = 0

    @classmethod
    def of(cls, forest: OnlineForest) -> Moment:
        """Return the present moment of a forest."""
        return cls(forest.n_seen, forest.n_held)


class RowTable(NamedTuple):
    """The rows stored at one moment. A change of rows is the replacement of this record: it happens wholly or not at all.

    Arrays may be longer than what counts of them, and later records may share them: entries that count are never written to.
    """

    n_seen: int = 0
    n_held: int = 0
    slots: np.ndarray = np.empty(0, np.int32)  # of the latest ids, from ``n_seen - n_ids`` on; -1 for forgotten rows
    n_ids: int = 0
    free: np.ndarray = np.empty(0, np.int32)  # slots that can be used again, from the end
    n_free: int = 0
    n_slots: int = 0  # slots ever used

    @property
    def first(self) -> int:
        """The id of the first entry of ``slots``, the oldest row stored."""
        return self.n_seen - self.n_ids

    def held_slots(self) -> np.ndarray:
        """Return the slots of all rows stored, oldest first."""
        slots = self.slots[: self.n_ids]
        return slots if self.n_held == self.n_ids else slots[slots >= 0]

    def held_ids(self) -> np.ndarray:
        """Return the ids of all rows stored, oldest first."""
        return self.first + np.flatnonzero(self.slots[: self.n_ids] >= 0)

    def slots_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the slots of rows; -1 for those that are not stored."""
        at = ids - self.first
        inside = (at >= 0) & (at < self.n_ids)
        slots = np.full(len(ids), -1, dtype=np.int32)
        slots[inside] = self.slots[at[inside]]
        return slots

    def oldest(self, n: int) -> np.ndarray:
        """Return the ids of the n oldest rows stored."""
        if n == 1 and self.n_held:
            return np.array([self.first])
        if self.n_held == self.n_ids:
            return np.arange(self.first, self.first + min(n, self.n_held))
        return self.held_ids()[:n]

    def take_slots(self, n: int) -> np.ndarray:
        """Return slots for n more rows: free ones, then new ones. They are taken once `add` has counted them."""
        reused = min(n, self.n_free)
        slots = np.arange(self.n_slots - reused, self.n_slots + n - reused, dtype=np.int32)
        if reused:
            slots[:reused] = self.free[self.n_free - reused : self.n_free]
        return slots

    def add(self, slots: np.ndarray, skipped: int = 0) -> RowTable:
        """Return the record with rows in slots from `take_slots` added, in order, after ``skipped`` ones that are not stored."""
        if skipped and not self.n_held:  # the table begins with a row that is stored
            return self._replace(n_seen=self.n_seen + skipped).add(slots)
        n, used, reused = skipped + len(slots), self.n_ids, min(len(slots), self.n_free)
        known = self.slots
        if used + n > len(known):
            known = np.empty(max(used + n, 2 * used, 16), dtype=np.int32)
            known[:used] = self.slots[:used]
        if skipped:
            known[used : used + skipped] = -1
        known[used + skipped : used + n] = slots
        return RowTable(
            self.n_seen + n,
            self.n_held + len(slots),
            known,
            used + n,
            self.free,
            self.n_free - reused,
            self.n_slots + len(slots) - reused,
        )

    def remove(self, ids: np.ndarray) -> RowTable:
        """Return the record without some rows, all of them stored; their slots are free."""
        freed = self.slots_of(ids)
        free = np.concatenate([self.free[: self.n_free], freed])
        at, n = ids - self.first, len(ids)
        slots, start = self.slots, n
        if self.n_held < self.n_ids or not np.array_equal(at, np.arange(n)):  # not simply the oldest ones
            slots = self.slots[: self.n_ids].copy()
            slots[at] = -1
            held = np.flatnonzero(slots >= 0)
            start = int(held[0]) if len(held) else len(slots)
        return self._replace(
            n_held=self.n_held - n, slots=slots[start:], n_ids=self.n_ids - start, free=free, n_free=len(free)
        )

    def export_slots(self, n_slots: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the slot of each id from the oldest row stored on (-1 if forgotten), and the free ones of ``n_slots`` slots.

        Free slots are in the order in which they will be reused, from the end. Slots that were lost come first.
        """
        ids, free = self.slots[: self.n_ids], self.free[: self.n_free]
        if len(free) + self.n_held != n_slots:
            lost = np.ones(n_slots, dtype=bool)
            lost[free] = lost[self.held_slots()] = False
            free = np.concatenate([np.flatnonzero(lost).astype(np.int32), free])
        return ids, free

    @classmethod
    def restore(cls, n_seen: int, ids: np.ndarray, free: np.ndarray) -> RowTable:
        """Return the record after ``n_seen`` rows, with the slots that `export_slots` returned."""
        n_held = int((ids >= 0).sum())
        return cls(n_seen, n_held, np.array(ids), len(ids), np.array(free), len(free), n_held + len(free))

    def copy(self) -> RowTable:
        """Return the same record in arrays of its own."""
        return self._replace(slots=self.slots.copy(), free=self.free.copy())


class Labels(NamedTuple):
    """What is stored of rows beside their features, by slot. It is replaced as a whole when more rows need room, or classes come.

    Residuals and standard deviations are what ridge predictions found out about a row; NaN if unknown.
    """

    n_classes: int  # 0 in regression
    y: np.ndarray  # (slots, outputs) labels, or indices of classes
    weights: np.ndarray  # (slots,)
    residuals: np.ndarray  # (slots, label columns) the label less what was predicted without the row
    stds: np.ndarray  # (slots, outputs) how far off predictions are near the row, in regression

    @classmethod
    def empty(cls, n_classes: int, n_outputs: int, n_columns: int) -> Labels:
        """Return labels of no rows."""
        shapes = (0, n_outputs), (0,), (0, n_columns), (0, 0 if n_classes else n_columns)
        return cls(n_classes, *(np.zeros(shape) for shape in shapes))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self[1:])

    def resize(self, capacity: int) -> Labels:
        """Return the same labels with room for more rows."""
        larger = [np.zeros((capacity, *array.shape[1:])) for array in self[1:]]
        for new, old in zip(larger, self[1:], strict=True):
            new[: len(old)] = old
        return Labels(self.n_classes, *larger)

    def store(self, places: slice | np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        """Write the labels of rows of which nothing else is known yet."""
        self.y[places] = y if y.ndim == 2 else y[:, None]
        self.weights[places] = weights
        self.residuals[places] = self.stds[places] = np.nan

    def wipe(self, slots: np.ndarray) -> None:
        """Overwrite the labels of rows that are no longer stored, and what was found out about them."""
        self.y[slots], self.weights[slots] = 0.0, 0.0
        self.residuals[slots] = self.stds[slots] = np.nan

    def copy(self, n_slots: int, free: np.ndarray) -> Labels:
        """Return a copy of the first ``n_slots`` slots, in which free ones are zero."""
        copies = [array[:n_slots].copy() for array in self[1:]]
        for array in copies:
            array[free] = 0.0
        return Labels(self.n_classes, *copies)
