"""The online forest behind every interface: rows in, rows out, questions answered.

`OnlineForest` decides which rows its trees (`bspforest.engine.ensemble`) hold, with which budget and scaling. It knows nothing of
scikit-learn, river or files; it trusts its input (finite float64 rows, class indices from 0), which the interfaces check.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

from . import arrays as layout
from .arrays import AXES, ISOTROPIC, PAIRS, Scratch
from .ensemble import TreeEnsemble
from .interrupts import defer_interrupts
from .progress import SILENT, Progress
from .rows import RowTable

FAMILIES = {"pairs": PAIRS, "axes": AXES, "isotropic": ISOTROPIC}

# Rows are numbered by int32.
MOST_ROWS = 2**31 - 1

# (row, tree) pairs learned between two chances to be interrupted: about a second.
BLOCK = 1_000_000


def spread(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Shift and scale that take [low, high] to [0, 1]; a column without spread to 0."""
    size = high - low
    with np.errstate(divide="ignore", over="ignore"):
        scale = np.where(size > 0, np.minimum(1.0 / size, np.finfo(float).max), 0.0)
    return np.stack([low, scale])


def find_range(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and largest of each column. Several rows side by side: numpy takes ten times as long for narrow arrays."""
    d = X.shape[1]
    k = 1024 // d
    if k < 2 or len(X) <= k or not X.flags.c_contiguous:
        return X.min(axis=0), X.max(axis=0)
    n = len(X) // k * k
    wide, rest = X[:n].reshape(-1, k * d), X[n:]
    low, high = wide.min(axis=0).reshape(k, d), wide.max(axis=0).reshape(k, d)
    return np.vstack([low, rest]).min(axis=0), np.vstack([high, rest]).max(axis=0)


class OnlineForest:
    """A forest that holds rows and can learn, forget and be asked.

    Parameters
    ----------
    n_features, n_trees, n_classes, min_samples_split : int
        ``n_classes`` is 0 for regression.
    cuts : {"pairs", "axes", "isotropic"}
    budget : callable
        The budget for a number of rows held.
    redraw : bool
        Refine as the paper's Algorithm 4 is printed.
    scaling : "minmax", None or (low, high)
    window : int or None
        Hold at most this many rows, the latest.
    seed : numpy.random.SeedSequence
    """

    # Called once, before the first change; raises an error if the forest must not be changed. Set by `bspforest.load`.
    verify: Callable[[OnlineForest], None] | None = None

    def __init__(
        self,
        n_features: int,
        *,
        n_trees: int,
        n_classes: int,
        cuts: str,
        budget: Callable[[int], float],
        min_samples_split: int,
        redraw: bool,
        scaling: str | tuple[np.ndarray, np.ndarray] | None,
        window: int | None,
        seed: np.random.SeedSequence,
    ) -> None:
        n_trees = int(n_trees)  # numpy's whole numbers may be too small to calculate with
        window = None if window is None else int(window)
        streams = seed.generate_state(4 * n_trees, np.uint64).reshape(n_trees, 4)
        self.trees = TreeEnsemble(
            layout.allocate(
                family=FAMILIES[cuts],
                min_split=min(int(min_samples_split), MOST_ROWS),
                redraw=redraw,
                n_classes=n_classes,
                n_features=n_features,
                streams=streams,
            )
        )
        self.budget_of = budget
        self.scaling = scaling
        self.window = window
        self.budget = 0.0
        self.rows = RowTable()
        self._range = (np.zeros(n_features), np.zeros(n_features))
        self._held_at_scaling = 0
        self._learned_since = 0
        if isinstance(scaling, tuple):
            self.trees.arrays.scaling[:] = spread(*scaling)

    # ------------------------------------------------------------------------------------------------------------------
    # What it holds

    @property
    def n_seen(self) -> int:
        return self.rows.n_seen

    @property
    def n_held(self) -> int:
        return self.rows.n_held

    def held_rows(self) -> np.ndarray:
        """The rows held, oldest first, as they were given."""
        return self.trees.arrays.rows[self.rows.held_slots()]

    def held_labels(self) -> np.ndarray:
        """Label and weight of the rows held, oldest first."""
        return self.trees.arrays.labels[self.rows.held_slots()]

    def _verify(self) -> None:
        """Call ``verify`` if it is set, and unset it if it passes. To be called before anything is changed."""
        if self.verify is not None:
            self.verify(self)
            self.verify = None

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def learn(
        self, X: np.ndarray, y: np.ndarray, w: np.ndarray, progress: Progress = SILENT, *, disposable: bool = False
    ) -> None:
        """Learn rows in order. If interrupted, some first part of them is learned, by all trees.

        Unless the forest is ``disposable``, which the caller will then throw away: it may be interrupted anywhere.
        """
        if len(X) == 1 and self.n_held and self.window != 1:
            self.learn_row(X[0], y[0], w[0])
            progress.advance(1)
            return
        if len(X):
            self._verify()
        # Rows that would be learned only to be forgotten are skipped.
        skip = max(0, len(X) - self.window) if self.window is not None else 0
        held = 0 if skip else self.n_held
        size = max(256, BLOCK // self.trees.n_trees)
        if held == 0 and not self.trees.arrays.redraw:
            size = max(len(X), 1)
        starts = range(skip, len(X), size)
        budgets = self._budgets(held, [min(size, len(X) - start) for start in starts])
        for start, budget in zip(starts, budgets, strict=True):
            part = slice(start, start + size)
            with nullcontext() if disposable else defer_interrupts():
                if start == skip > 0:
                    self.forget_oldest(self.n_held)
                    self.rows.skip(skip)
                    progress.advance(skip)
                self._learn_block(X[part], y[part], w[part], budget, progress, X[skip:])

    def _budgets(self, held: int, sizes: list[int]) -> list[np.ndarray]:
        """The budgets of the rows of each block; an error if they decrease, before anything is changed.

        The exact law asks only for the last one of a block.
        """
        most = self.window if self.window is not None else 2**62
        last = self.budget_of(held) if held else 0.0
        blocks = []
        for size in sizes:
            first = 1 if self.trees.arrays.redraw else size
            values = []
            for n in range(held + first, held + size + 1):
                value = self.budget_of(min(n, most))
                if value < last:
                    raise ValueError(
                        f"budget must not decrease with the number of rows held, but it is {last!r} for fewer rows "
                        f"than {min(n, most)} and then {value!r}"
                    )
                last = value
                values.append(value)
            held += size
            blocks.append(np.array(values) if self.trees.arrays.redraw else np.full(size, last))
        return blocks

    def _learn_block(self, X, y, w, budgets, progress: Progress, all_rows: np.ndarray) -> None:
        """Learn some rows of those that are given. If none are held yet, features are scaled by the range of all that are."""
        n = len(X)
        if self.window is not None:
            self.forget_oldest(self.n_held + n - self.window)
        if self.n_held == 0 and self.scaling == "minmax":
            self._set_scaling(*find_range(all_rows))
            self._held_at_scaling = len(all_rows)
            self._learned_since = 0
        slots = self._take_slots(n)
        in_order = slots[-1] - slots[0] == n - 1 and bool((np.diff(slots) == 1).all())
        places = slice(slots[0], slots[0] + n) if in_order else slots  # in order: a tenth of the time
        self.trees.arrays.rows[places] = X
        self.trees.arrays.labels[places, 0] = y
        self.trees.arrays.labels[places, 1] = w
        if self.n_held == 0 and not self.trees.arrays.redraw:
            self.rows.add(slots)
            try:
                self._build(float(budgets[-1]), self.trees.make_build_scratch(n), progress)
            except BaseException:  # no tree may be asked for these rows
                self.rows.remove(np.arange(self.n_seen - n, self.n_seen))
                self.trees.clear()
                raise
            return
        # After forgetting, the budget stays where it was until the number of rows has caught up.
        budget = max(self.budget, float(budgets[-1]))
        self._insert_new(slots, budgets if self.trees.arrays.redraw else np.full(n, budget), budget)
        self._learned_since += n
        progress.advance(n)
        if self.scaling == "minmax" and self._learned_since >= self._held_at_scaling:
            self._rescale()

    def learn_row(self, x: np.ndarray, y: float, w: float) -> None:
        """Learn one row, as `learn` would. With 10 trees, half the time of the long way would be Python's."""
        table = self.rows
        held = table.n_held
        if held == 0 or self.window == 1:
            self.learn(np.reshape(x, (1, -1)), np.array([y], float), np.array([w], float))
            return
        most = held + 1 if self.window is None else self.window
        budget = self.budget_of(min(held + 1, most))
        if budget < self.budget_of(held):
            self._budgets(held, [1])  # says what is wrong
        if self.verify is not None:
            self._verify()
        with defer_interrupts():
            if held == most:
                self._forget_part(table.oldest(1))
            slots = self._take_slots(1)
            slot = slots.item()
            self.trees.arrays.rows[slot] = x
            labels = self.trees.arrays.labels
            labels[slot, 0] = y
            labels[slot, 1] = w
            largest = max(self.budget, budget)
            self._insert_new(slots, np.array([budget if self.trees.arrays.redraw else largest]), largest)
            self._learned_since += 1
            if self._learned_since >= self._held_at_scaling and self.scaling == "minmax":
                self._rescale()

    def _insert_new(self, slots: np.ndarray, budgets: np.ndarray, budget: float) -> None:
        """Have all trees learn new rows; they count as held as soon as all have. The budget is then ``budget``."""
        held = self.n_held

        def hold() -> None:
            self.rows.add(slots)
            self.budget = budget

        try:
            self.trees.insert(slots, budgets, hold)
        except MemoryError:
            if self.n_held == held:
                self.rows.give_back(slots)
            if self.trees.arrays.redraw:
                self.budget = max(self.budget, budget)  # trees that have drawn cuts for these rows keep them
            raise

    def _take_slots(self, n: int) -> np.ndarray:
        """Places for n new rows."""
        self.trees.make_room(self.rows.n_slots + max(0, n - self.rows.n_free), spare=self.n_held > 0)
        return self.rows.take_slots(n)

    # ------------------------------------------------------------------------------------------------------------------
    # Building from the rows held

    def _build(self, budget: float, works: list[Scratch], progress: Progress) -> None:
        """Build all trees from the rows held."""
        self.trees.build(self.rows.held_slots(), budget, works, progress)
        self.budget = budget
        self._held_at_scaling = self.n_held
        self._learned_since = 0

    def _set_scaling(self, low: np.ndarray, high: np.ndarray) -> None:
        self.trees.arrays.scaling[:] = spread(low, high)
        self._range = (low, high)

    def _rescale(self, least: float = 0.1) -> None:
        """If the range of some feature has moved by this share of what is in use, build the trees afresh with the new one.

        If there is no memory to begin with that, they stay as they are, which is as exact for the range in use; it is tried again
        when as many rows have been learned.
        """
        low, high = self._find_range()
        used_low, used_high = self._range
        moved = least * (used_high - used_low)
        if np.any(np.abs(low - used_low) > moved) or np.any(np.abs(high - used_high) > moved):
            budgets = self._budgets_of_all()  # a function of the user's: called before anything is changed
            try:
                works = [] if self.trees.arrays.redraw else self.trees.make_build_scratch(self.n_held)
            except MemoryError:
                if not least:
                    raise
            else:
                self._rebuild(works, budgets, (low, high), (used_low, used_high))
        self._held_at_scaling = self.n_held
        self._learned_since = 0

    def _find_range(self) -> tuple[np.ndarray, np.ndarray]:
        """The range of the rows held; zeros if there are none."""
        slots = self.rows.held_slots()
        low = high = self.trees.arrays.rows[slots[0]].copy() if len(slots) else np.zeros(self.trees.n_features)
        for start in range(0, len(slots), 65_536):
            X = self.trees.arrays.rows[slots[start : start + 65_536]]
            lowest, highest = find_range(X)
            low, high = np.minimum(low, lowest), np.maximum(high, highest)
        return low, high

    def _budgets_of_all(self) -> np.ndarray:
        """The budget of the rows held, or, if cuts are redrawn, of each as it came."""
        first = 1 if self.trees.arrays.redraw else max(self.n_held, 1)
        return np.array([self.budget_of(k) for k in range(first, self.n_held + 1)], float)

    def _rebuild(self, works: list[Scratch], budgets: np.ndarray, *ranges: tuple[np.ndarray, np.ndarray]) -> None:
        """Build the trees afresh with the first of some ranges for which there is memory.

        If there is none for any, the rows are dropped: trees half in one range and half in another are no forest.
        """
        for low_high in ranges:
            try:
                self._set_scaling(*low_high)
                if self.n_held and self.trees.arrays.redraw:
                    self._replay(budgets)
                elif self.n_held:
                    self._build(float(budgets[-1]), works, SILENT)
                return
            except MemoryError as error:
                failure = error
        self.trees.clear()
        self.rows.remove(self.rows.oldest(self.n_held))
        raise failure

    def _replay(self, budgets: np.ndarray) -> None:
        """Redrawing has no batch form: learn the rows held once more, in order."""
        slots = self.rows.held_slots()
        self.trees.clear()
        self.trees.insert(slots, budgets)
        self.budget = float(budgets[-1])

    # ------------------------------------------------------------------------------------------------------------------
    # Forgetting

    def forget(self, ids: np.ndarray) -> None:
        """Forget rows, which must be held, each named once; and the range, where it was theirs alone."""
        if len(ids):
            self._verify()
        left = self.n_held - len(ids)
        if left and (budget := self.budget_of(left)) > self.budget:
            raise ValueError(
                f"budget must not decrease with the number of rows held, but it is {budget!r} for {left} rows and {self.budget!r} now"
            )
        ends = np.zeros(self.trees.n_features, dtype=bool)
        if self.scaling == "minmax":
            low, high = self._range
            rows = self.trees.arrays.rows[self.rows.slots_of(ids)]
            ends = ((rows == low) | (rows == high)).any(axis=0)
        try:
            self._forget(ids)
        finally:
            if ends.any() and not self._reaches_ends(np.flatnonzero(ends)):
                with defer_interrupts():
                    self._rescale(0.0)

    def _reaches_ends(self, columns: np.ndarray) -> bool:
        """Do the rows held reach both ends of the range in use in these columns? Mostly a few of them show that they do."""
        slots = self.rows.held_slots()
        low, high = self._range
        for some in (slots[:1000], slots):
            X = self.trees.arrays.rows[np.ix_(some, columns)]
            reached = (low[columns] == X).any(axis=0) & (high[columns] == X).any(axis=0)
            columns = columns[~reached]
        return len(columns) == 0

    def _forget(self, ids: np.ndarray) -> None:
        """Forget rows, with the range as it is."""
        size = max(256, BLOCK // self.trees.n_trees)
        for start in range(0, len(ids), size):
            with defer_interrupts():
                self._forget_part(ids[start : start + size])

    def _forget_part(self, ids: np.ndarray) -> None:
        self.trees.remove(self.rows.slots_of(ids))
        self.rows.remove(ids)

    def forget_oldest(self, n: int) -> None:
        """Forget the n oldest rows, to make room: the range is revised when as many have been learned."""
        if n > 0:
            self._forget(self.rows.oldest(n))
