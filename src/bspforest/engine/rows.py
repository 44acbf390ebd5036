"""Table of the rows held. Ids number rows in order of arrival; slots are positions in the arrays of rows."""

from __future__ import annotations

import numpy as np


class RowTable:
    """The slots of the rows held, by id. It takes 4 bytes per id from the oldest row held to the newest."""

    def __init__(self) -> None:
        self.n_seen = 0
        self.n_held = 0
        self._slots = np.empty(16, dtype=np.int32)  # of the ids from _first on; -1 for forgotten rows
        self._first = 0  # id of the oldest row held
        self._free: list[int] = []
        self.n_slots = 0  # slots ever used

    def __len__(self) -> int:
        return self.n_seen - self._first

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._slots = np.array(self._slots)  # a memory-mapped file is read-only

    @property
    def n_free(self) -> int:
        """Number of slots that can be used again."""
        return len(self._free)

    def take_slots(self, n: int) -> np.ndarray:
        """Take slots for n new rows, which count as held only after `add`."""
        if n == 1 and not self._free:
            self.n_slots += 1
            return np.array([self.n_slots - 1], dtype=np.int32)
        reused = min(n, len(self._free))
        slots = np.empty(n, dtype=np.int32)
        if reused:
            slots[:reused] = self._free[-reused:]
            del self._free[-reused:]
        slots[reused:] = np.arange(self.n_slots, self.n_slots + n - reused)
        self.n_slots += n - reused
        return slots

    def give_back(self, slots: np.ndarray) -> None:
        """Return slots that were taken and not used."""
        self._free.extend(slots.tolist())

    def add(self, slots: np.ndarray) -> None:
        """Count the rows in these slots as held, in order."""
        used = len(self)
        if used + len(slots) > len(self._slots):
            larger = np.empty(max(used + len(slots), 2 * used), dtype=np.int32)
            larger[:used] = self._slots[:used]
            self._slots = larger
        self._slots[used : used + len(slots)] = slots
        self.n_held += len(slots)
        self.n_seen += len(slots)

    def skip(self, n: int) -> None:
        """Count n rows as seen and forgotten. No row may be held."""
        self.n_seen += n
        self._first = self.n_seen

    def slots_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the slots of rows; -1 for those that are not held."""
        at = ids - self._first
        inside = (at >= 0) & (at < len(self))
        slots = np.full(len(ids), -1, dtype=np.int32)
        slots[inside] = self._slots[at[inside]]
        return slots

    def remove(self, ids: np.ndarray) -> None:
        """Count rows, all of them held, as forgotten, and free their slots."""
        at = ids - self._first
        self._free.extend(self._slots[at].tolist())
        self._slots[at] = -1
        self.n_held -= len(ids)
        if self._slots[0] < 0:
            self._drop_forgotten()

    def _drop_forgotten(self) -> None:
        """Let the table begin with a row that is held, without copying: it costs a look at each row dropped."""
        n, at, reach = len(self), 0, 4
        while at < n:
            held = self._slots[at : min(at + reach, n)] >= 0
            if held.any():
                at += int(held.argmax())
                break
            at += len(held)
            reach *= 2
        self._slots = self._slots[at:]
        self._first += at

    def oldest(self, n: int) -> np.ndarray:
        """Return the ids of the n oldest rows held."""
        if n == 1 and self.n_held:
            return np.array([self._first])
        reach = n
        while True:
            held = np.flatnonzero(self._slots[: min(reach, len(self))] >= 0)
            if len(held) >= n or reach >= len(self):
                return self._first + held[:n]
            reach *= 2

    def held_ids(self) -> np.ndarray:
        """Return the ids of all rows held, oldest first."""
        return self._first + np.flatnonzero(self._slots[: len(self)] >= 0)

    def held_slots(self) -> np.ndarray:
        """Return the slots of all rows held, oldest first."""
        slots = self._slots[: len(self)]
        return slots[slots >= 0]

    def export_slots(self, n_slots: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the slot of each id from the oldest row held on (-1 if forgotten), and the free ones of ``n_slots`` slots.

        Free slots are in the order in which they will be reused, from the end. Slots that were lost when memory ran out
        come first.
        """
        ids, free = self._slots[: len(self)], np.array(self._free, dtype=np.int32)
        if len(free) + self.n_held != n_slots:
            lost = np.ones(n_slots, dtype=bool)
            lost[free] = lost[self.held_slots()] = False
            free = np.concatenate([np.flatnonzero(lost).astype(np.int32), free])
        return ids, free

    @classmethod
    def restore(cls, n_seen: int, ids: np.ndarray, free: np.ndarray) -> RowTable:
        """Return a table with the slots that `export_slots` returned, after ``n_seen`` rows."""
        table = cls()
        table.n_seen = n_seen
        table.n_held = int((ids >= 0).sum())
        table.n_slots = table.n_held + len(free)
        table._first = n_seen - len(ids)
        table._slots = np.array(ids) if len(ids) else table._slots
        table._free = free.tolist()
        return table
