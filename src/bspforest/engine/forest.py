"""The online forest behind every interface: which rows its trees hold, with which budget and scaling.

`OnlineForest` trusts its input (finite float64 rows, class indices from 0), which the interfaces check.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import numpy as np

from .arrays import LABEL, LABEL_WEIGHT, ForestArrays, Scratch, allocate
from .config import FAMILIES, ForestConfig, budgets_of_blocks, budgets_of_held
from .ensemble import TreeEnsemble
from .interrupts import UNPROTECTED, Interrupts
from .progress import SILENT, Progress
from .rows import RowTable
from .scaling import coincide_in_float32, find_range, find_range_of, reaches_ends, spread
from .values import Values

# (row, tree) pairs learned between two chances to be interrupted: about a second.
BLOCK = 1_000_000

# A chunk of at least so many rows, and at least this fraction of the rows held, may be learned by building afresh.
REBUILD_FROM = 512
REBUILD_SHARE = 7

# Trees of at most so many bytes are built afresh beside the old ones.
MOST_ASIDE = 2**30


class OnlineForest:
    """A forest that holds rows and can learn, forget and be asked.

    Parameters
    ----------
    config : ForestConfig
    seed : numpy.random.SeedSequence
    values : Values

    Attributes
    ----------
    trees : TreeEnsemble
    rows : RowTable
        Which rows are held, and in which slots of the arrays.
    budget : float
        The budget in use.
    verify : callable or None
        Called with the forest before it is first changed, and never again; raises if it must not be. Set by whoever loads a
        forest from a file and postpones a part of the check.
    """

    verify: Callable[[OnlineForest], None] | None = None

    def __init__(self, config: ForestConfig, seed: np.random.SeedSequence, values: Values | None = None) -> None:
        streams = seed.generate_state(4 * config.n_trees, np.uint64).reshape(config.n_trees, 4)
        self.config = config
        self.trees = TreeEnsemble(
            allocate(
                family=FAMILIES[config.cuts],
                min_split=config.min_samples_split,
                redraw=config.redraw,
                n_classes=config.n_classes,
                n_features=config.n_features,
                streams=streams,
                n_outputs=config.n_outputs,
                n_columns=config.n_columns,
            )
        )
        self.values = Values() if values is None else values
        self.rows = RowTable()
        self.budget = 0.0
        self.range = (np.zeros(config.n_features), np.zeros(config.n_features))
        self.held_at_scaling = 0  # rows held when the range was last looked at
        self.learned_since = 0  # rows learned since then
        if isinstance(config.scaling, tuple):
            self.trees.arrays.scaling[:] = spread(*config.scaling)

    # ------------------------------------------------------------------------------------------------------------------
    # Rows held

    @property
    def n_seen(self) -> int:
        return self.rows.n_seen

    @property
    def n_held(self) -> int:
        return self.rows.n_held

    def held_rows(self) -> np.ndarray:
        """Return the rows held, oldest first, as they were given."""
        return self.trees.arrays.rows[self.rows.held_slots()]

    def held_labels(self) -> np.ndarray:
        """Return label and weight of the rows held, oldest first."""
        return self.trees.arrays.labels[self.rows.held_slots()]

    def _verify(self) -> None:
        """Let whoever loaded the forest finish checking it, before it is changed."""
        if self.verify is not None:
            self.verify(self)
            self.verify = None

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def learn(
        self,
        X: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        progress: Progress = SILENT,
        interrupts: Interrupts = UNPROTECTED,
        *,
        in_order: bool = True,
    ) -> None:
        """Learn rows, whose order is one of time if ``in_order``. If interrupted, the first ones are learned, by all trees."""
        if len(X) == 1 and self.n_held and self.config.window != 1:
            self.learn_row(X, y[0], w[0], interrupts)
            progress.advance(1)
            return
        if len(X):
            self._verify()
        # Rows that would be learned only to be forgotten are skipped.
        window = self.config.window
        skip = max(0, len(X) - window) if window is not None else 0
        held = 0 if skip else self.n_held
        size = max(256, BLOCK // self.trees.n_trees)
        if (held == 0 and not self.config.redraw) or self._is_large(len(X) - skip):
            size = max(len(X), 1)
        starts = range(skip, len(X), size)
        budgets = budgets_of_blocks(self.config, held, [min(size, len(X) - start) for start in starts])
        for start, block_budgets in zip(starts, budgets, strict=True):
            block = slice(start, start + size)
            if start == skip > 0:
                self.forget_oldest(self.n_held)
                self.rows.skip(skip)
                progress.advance(skip)
            is_large = self._is_large(len(X[block]))
            if not is_large:
                self._make_window_room(len(X[block]))
            if self.n_held == 0 and self.config.scaling == "minmax":
                self._set_range(*find_range(X[skip:]))
                self.held_at_scaling = len(X) - skip
                self.learned_since = 0
            if self.n_held == 0 and not self.config.redraw:
                self._build_first(X[block], y[block], w[block], float(block_budgets[-1]), progress)
                self._value_first(len(X[block]), in_order, interrupts)
            elif is_large or self._are_too_close(X[block]):
                self._rebuild_with(X[block], y[block], w[block], float(block_budgets[-1]), interrupts)
                progress.advance(len(X[block]))
            else:
                self._add(X[block], y[block], w[block], block_budgets, interrupts)
                progress.advance(len(X[block]))
            interrupts.poll()

    def learn_row(self, x: np.ndarray, y: Any, w: float, interrupts: Interrupts = UNPROTECTED) -> None:
        """Learn one row of shape (1, d) or (d,): `learn` without what only blocks need, half the time with 10 trees."""
        held, window = self.rows.n_held, self.config.window
        if held == 0 or window == 1:
            self.learn(np.reshape(x, (1, -1)), np.array([y], float), np.array([w], float), SILENT, interrupts)
            return
        budget = self.config.budget(held + 1 if window is None else min(held + 1, window))
        if budget < self.config.budget(held):
            budgets_of_blocks(self.config, held, [1])  # says what is wrong
        if self.verify is not None:
            self._verify()
        self._make_window_room(1)
        self._add(x, y, w, np.array([budget]), interrupts)

    def _build_first(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, budget: float, progress: Progress) -> None:
        """Build the trees from rows, with none held so far."""
        slots = self._store(X, y, w)
        self.rows.add(slots)
        try:
            self._build(budget, self.trees.make_build_scratch(len(slots)), progress)
        except BaseException:  # no tree may be asked for these rows
            self._drop_first(len(slots))
            raise

    def _value_first(self, n: int, in_order: bool, interrupts: Interrupts) -> None:
        """Find the values of the first n rows."""
        try:
            self.values.built(self, in_order=in_order, interrupts=interrupts)
        except BaseException:  # there is nothing to predict with
            self._drop_first(n)
            raise

    def _drop_first(self, n: int) -> None:
        """Drop the rows of a build that failed; no others are held."""
        self.rows.remove(np.arange(self.n_seen - n, self.n_seen))
        self.trees.clear()

    def _make_window_room(self, n: int) -> None:
        """Forget the oldest rows, so that n more fit the window."""
        window = self.config.window
        if window is not None and self.n_held + n > window:
            self.forget_oldest(self.n_held + n - window)

    def _add(self, X: np.ndarray, y: Any, w: Any, budgets: np.ndarray, interrupts: Interrupts) -> None:
        """Add a block of rows to the trees, the budget after each being ``budgets``."""
        n = len(budgets)
        slots = self._store(X, y, w)
        # After forgetting, the budget stays where it was until the number of rows has caught up.
        budget = max(self.budget, float(budgets[-1]))
        self._insert(slots, budgets if self.config.redraw else np.full(n, budget), budget)
        self.learned_since += n
        if self.learned_since >= self.held_at_scaling and self.config.scaling == "minmax" and self._revise_range():
            self.values.built(self, in_order=True, interrupts=interrupts)
        else:
            self.values.inserted(self, slots, interrupts)

    def _is_large(self, n: int) -> bool:
        """Return whether building n rows and those held afresh is faster than inserting; never with means, whose trees stay."""
        return self.config.n_columns > 0 and n >= REBUILD_FROM and REBUILD_SHARE * n >= self.n_held > 0

    def _are_too_close(self, X: np.ndarray) -> bool:
        """Return whether rows are many, and closer together than boxes can tell.

        Boxes are float32. Where all candidates fall into their rounding, rows are inserted one by one, and 49,000 rows take
        23 s with 100 trees, against 1 s for building.
        """
        n = len(X)
        if self.config.redraw or n < REBUILD_FROM or REBUILD_SHARE * n < self.n_held:
            return False
        shift, scale = self.trees.arrays.scaling
        return coincide_in_float32((X[:: n // REBUILD_FROM] - shift) * scale)

    def _rebuild_with(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, budget: float, interrupts: Interrupts) -> None:
        """Build the trees afresh from the rows held and these: exact, as with a revised range.

        Small forests are built aside, and can be interrupted. That large ones could be, too, is not worth twice the memory.
        """
        window = self.config.window
        leaving = max(0, self.n_held + len(X) - window) if window is not None else 0
        budget = max(self.budget, budget)
        scratch = self.trees.make_build_scratch(self.n_held + len(X) - leaving)
        aside = self.trees.nbytes <= MOST_ASIDE
        if (
            not aside and self.config.n_columns
        ):  # trees grow to single rows: with this, building cannot run out of memory
            self.trees.reserve(max(0, len(X) - leaving))
        added = self._store(X, y, w)
        slots = np.concatenate([self.rows.held_slots()[leaving:], added])
        low_high = find_range_of(self.trees.arrays.rows, slots) if self.config.scaling == "minmax" else self.range
        if aside:
            arrays = self._build_aside(slots, budget, scratch, low_high, added, interrupts)
        if leaving:
            ids = self.rows.oldest(leaving)
            gone = self.rows.slots_of(ids)
            self.rows.remove(ids)
            self.values.forgotten(self, gone, exactly=False)
        self.rows.add(added)
        if aside:
            self.trees.arrays = arrays
            self.range, self.budget = low_high, budget
            self.held_at_scaling, self.learned_since = self.n_held, 0
        else:
            self._rebuild(scratch, np.array([budget]), low_high)
        self.values.built(self, in_order=True, interrupts=interrupts)

    def _build_aside(
        self,
        slots: np.ndarray,
        budget: float,
        scratch: list[Scratch],
        low_high: tuple[np.ndarray, np.ndarray],
        added: np.ndarray,
        interrupts: Interrupts,
    ) -> ForestArrays:
        """Return the arrays of new trees for rows, of which ``added`` are not held yet; their slots are given back if it fails."""
        try:
            trees = self.trees.make_sibling(self.trees.get_streams())
            if self.config.scaling == "minmax":
                trees.arrays.scaling[:] = spread(*low_high)
            trees.build(slots, budget, scratch, SILENT, interrupts.poll)
        except BaseException:
            self.rows.give_back(added)
            raise
        return trees.arrays

    def _store(self, X: np.ndarray, y: Any, w: Any) -> np.ndarray:
        """Write rows with labels and weights into free slots; return these. They do not count as held yet."""
        n = len(X) if X.ndim == 2 else 1
        self.trees.make_room(self.rows.n_slots + max(0, n - self.rows.n_free), spare=self.n_held > 0)
        slots = self.rows.take_slots(n)
        first = slots[0]
        if n == 1:
            places: slice | np.ndarray = slice(first, first + 1)
        else:  # a slice takes a tenth of the time
            in_order = slots[-1] - first == n - 1 and bool((np.diff(slots) == 1).all())
            places = slice(first, first + n) if in_order else slots
        arrays = self.trees.arrays
        arrays.rows[places] = X
        if self.config.n_outputs == 1:
            arrays.labels[places, LABEL] = y
        else:
            arrays.labels[places, LABEL] = np.atleast_2d(y)[:, 0]
            arrays.labels[places, LABEL_WEIGHT + 1 :] = np.atleast_2d(y)[:, 1:]
        arrays.labels[places, LABEL_WEIGHT] = w
        if self.config.n_columns:
            arrays.duals[places] = 0.0
            arrays.residuals[places] = 0.0
        return slots

    def _insert(self, slots: np.ndarray, budgets: np.ndarray, budget: float) -> None:
        """Insert stored rows into all trees; they count as held as soon as all trees have them."""
        held = self.n_held

        def hold() -> None:
            self.rows.add(slots)
            self.budget = budget

        try:
            self.trees.insert(slots, budgets, hold)
        except MemoryError:
            if self.n_held == held:
                self.rows.give_back(slots)
            if self.config.redraw:
                self.budget = max(self.budget, budget)  # trees that have drawn cuts for these rows keep them
            raise

    # ------------------------------------------------------------------------------------------------------------------
    # Building from the rows held

    def _build(self, budget: float, scratch: list[Scratch], progress: Progress) -> None:
        """Build all trees from the rows held."""
        self.trees.build(self.rows.held_slots(), budget, scratch, progress)
        self.budget = budget
        self.held_at_scaling = self.n_held
        self.learned_since = 0

    def _set_range(self, low: np.ndarray, high: np.ndarray) -> None:
        self.trees.arrays.scaling[:] = spread(low, high)
        self.range = (low, high)

    def _revise_range(self, least: float = 0.1) -> bool:
        """If the range of some feature has moved by this share of the one in use, build the trees afresh with the new one.

        Returns whether the trees were built.

        Without memory to begin with, the trees stay as they are, which is exact for the range in use; the next attempt
        follows when as many rows have been learned.
        """
        low, high = find_range_of(self.trees.arrays.rows, self.rows.held_slots())
        used_low, used_high = self.range
        moved = least * (used_high - used_low)
        built = False
        if np.any(np.abs(low - used_low) > moved) or np.any(np.abs(high - used_high) > moved):
            budgets = budgets_of_held(self.config, self.n_held)  # calls the user's function: before anything is changed
            try:
                scratch = [] if self.config.redraw else self.trees.make_build_scratch(self.n_held)
            except MemoryError:
                if not least:
                    raise
            else:
                self._rebuild(scratch, budgets, (low, high), (used_low, used_high))
                built = True
        self.held_at_scaling = self.n_held
        self.learned_since = 0
        return built

    def _rebuild(self, scratch: list[Scratch], budgets: np.ndarray, *ranges: tuple[np.ndarray, np.ndarray]) -> None:
        """Build the trees afresh with the first of several ranges for which there is enough memory.

        If there is for none, the rows are dropped: trees in two different ranges are no forest.
        """
        for low_high in ranges:
            try:
                if self.config.scaling == "minmax":
                    self._set_range(*low_high)
                if self.n_held and self.config.redraw:
                    self._replay(budgets)
                elif self.n_held:
                    self._build(float(budgets[-1]), scratch, SILENT)
                return
            except MemoryError as error:
                failure = error
        self.trees.clear()
        self.rows.remove(self.rows.oldest(self.n_held))
        raise failure

    def _replay(self, budgets: np.ndarray) -> None:
        """Learn the rows held once more, in order: redrawing has no batch form."""
        self.trees.clear()
        self.trees.insert(self.rows.held_slots(), budgets)
        self.budget = float(budgets[-1])

    # ------------------------------------------------------------------------------------------------------------------
    # Forgetting

    def forget(self, ids: np.ndarray, interrupts: Interrupts = UNPROTECTED) -> None:
        """Forget rows, which must be held, each named once; revise the range where it was theirs alone.

        If interrupted between two blocks, the rows of the first ones are forgotten.
        """
        if len(ids):
            self._verify()
        left = self.n_held - len(ids)
        if left and (budget := self.config.budget(left)) > self.budget:
            raise ValueError(
                f"budget must not decrease with the number of rows held, but it is {budget!r} for {left} rows "
                f"and {self.budget!r} now"
            )
        at_end = np.zeros(self.config.n_features, dtype=bool)
        if self.config.scaling == "minmax":
            low, high = self.range
            X = self.trees.arrays.rows[self.rows.slots_of(ids)]
            at_end = ((low == X) | (high == X)).any(axis=0)
        try:
            self._forget(ids, interrupts, exactly=True)
        finally:
            rows, slots = self.trees.arrays.rows, self.rows.held_slots()
            if at_end.any() and not reaches_ends(rows, slots, np.flatnonzero(at_end), self.range):
                self._revise_range(0.0)

    def _forget(self, ids: np.ndarray, interrupts: Interrupts = UNPROTECTED, *, exactly: bool = False) -> None:
        """Forget rows, and keep the range."""
        size = max(256, BLOCK // self.trees.n_trees)
        for start in range(0, len(ids), size):
            block = ids[start : start + size]
            slots = self.rows.slots_of(block)
            self.trees.remove(slots)
            self.rows.remove(block)
            self.values.forgotten(self, slots, exactly=exactly)
            interrupts.poll()

    def forget_oldest(self, n: int) -> None:
        """Forget the n oldest rows, to make room: the range is revised when as many have been learned."""
        if n > 0:
            self._forget(self.rows.oldest(n))

    def snapshot(self) -> OnlineForest:
        """Return a copy that shares no arrays with this forest and holds no trace of rows that are forgotten."""
        other = copy(self)
        n_slots = min(self.rows.n_slots, len(self.trees.arrays.rows))
        _, free = self.rows.export_slots(n_slots)
        other.trees = self.trees.snapshot(free)
        other.rows = deepcopy(self.rows)
        other.values = copy(self.values)
        return other

    def add_classes(self, n: int) -> None:
        """Allow n more classes, which no row has had so far."""
        before = self.trees.n_classes
        widened = self.values.add_classes(self.trees.arrays, before, before + n)
        self.trees.arrays = widened
        self.trees.add_classes(n)
