"""The online forest behind every interface: which rows its trees hold, with which budget and scaling.

`OnlineForest` trusts its input (finite float64 rows, class indices from 0), which the interfaces check.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from .arrays import Scratch, allocate
from .config import FAMILIES, ForestConfig, budgets_of_blocks, budgets_of_held, count_columns
from .coordinates import Coordinates
from .ensemble import Poll, TreeEnsemble, do_nothing, make_streams
from .interrupts import UNPROTECTED, Interrupts
from .keys import KeyTable
from .progress import SILENT, Progress
from .rows import RowTable
from .scaling import coincide_in_float32, reaches_ends
from .values import Values

# (row, tree) pairs learned between two chances to be interrupted: about a second.
BLOCK = 1_000_000

# A chunk of at least so many rows, and at least this fraction of the rows held, may be learned by building afresh.
REBUILD_FROM = 512
REBUILD_SHARE = 7

# Trees of at most so many bytes are built afresh beside the old ones.
MOST_ASIDE = 2**30


def allocate_trees(config: ForestConfig, streams: np.ndarray) -> TreeEnsemble:
    """Return empty trees, one per random stream, that hold no rows."""
    return TreeEnsemble(
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


class OnlineForest:
    """A forest that holds rows and can learn, forget and be asked.

    Parameters
    ----------
    config : ForestConfig
    seed : numpy.random.SeedSequence
    values : Values
    make_trees : callable or None
        Returns empty trees for a configuration and random streams; None: `allocate_trees`.

    Attributes
    ----------
    trees : TreeEnsemble
    rows : RowTable
        Which rows are held, and in which slots of the arrays.
    keys : KeyTable
        What the user calls them.
    budget : float
        The budget in use.
    verify : callable or None
        Called with the forest before it is first changed, and never again; raises if it must not be. Set by whoever loads a
        forest from a file and postpones a part of the check.
    """

    verify: Callable[[OnlineForest], None] | None = None

    def __init__(
        self,
        config: ForestConfig,
        seed: np.random.SeedSequence,
        values: Values | None = None,
        make_trees: Callable[[ForestConfig, np.ndarray], TreeEnsemble] | None = None,
    ) -> None:
        self.config = config
        self.trees = (make_trees or allocate_trees)(config, make_streams(seed, config.n_trees))
        self.values = Values() if values is None else values
        self.rows = RowTable()
        self.keys = KeyTable()
        self.budget = 0.0
        self.held_at_scaling = 0  # rows held when the scaling was last looked at
        self.learned_since = 0  # rows learned since then
        self.trees.set_coordinates(config.make_coordinates())

    # ------------------------------------------------------------------------------------------------------------------
    # Rows held

    @property
    def n_seen(self) -> int:
        return self.rows.n_seen

    @property
    def n_held(self) -> int:
        return self.rows.n_held

    @property
    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """The range of features that is scaled to [0, 1]."""
        return self.trees.coordinates.low, self.trees.coordinates.high

    def held_rows(self) -> np.ndarray:
        """Return the rows held, oldest first, as they were given."""
        return self.trees.get_given()[self.rows.held_slots()]

    def held_labels(self) -> np.ndarray:
        """Return label and weight of the rows held, oldest first."""
        return self.trees.arrays.labels[self.rows.held_slots()]

    def add_keys(self, first: int, keys: np.ndarray | None) -> None:
        """Note the keys of rows that were just seen, the ids from ``first`` on. Those that are not held leave no trace."""
        n = self.n_seen - first
        if keys is None or not n:
            return
        self.keys.add(first, keys[:n])
        oldest = self.n_seen - len(self.rows)
        if oldest > first:
            self.keys.wipe(np.arange(first, oldest))

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
            if self.n_held == 0 and self.config.redraw and self.config.is_scaled_by_rows:
                self.trees.set_coordinates(Coordinates.fit(self.config.scaling_kind, X, np.arange(skip, len(X))))
                self.held_at_scaling = len(X) - skip
                self.learned_since = 0
            if self.n_held == 0 and not self.config.redraw:
                self._build_first(
                    X[block], y[block], w[block], float(block_budgets[-1]), progress, in_order, interrupts
                )
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

    def _build_first(
        self,
        X: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        budget: float,
        progress: Progress,
        in_order: bool,
        interrupts: Interrupts,
    ) -> None:
        """Build the trees from rows, with none held so far, and find their values."""
        slots = self._store(X, y, w)
        self.rows.add(slots)
        try:
            order: dict[str, Any] = {"in_order": in_order, "interrupts": interrupts}
            self.trees.set_coordinates(self.values.choose_coordinates(self, slots, n_seen=self.n_seen, **order))
            self._build(budget, self.trees.make_build_scratch(len(slots)), progress)
            self.values.built(self, **order)
        except BaseException:  # no tree may be asked for these rows, and there may be nothing to predict with
            self._drop_first(len(slots))
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
        if not self.values.revises_coordinates and self.learned_since >= self.held_at_scaling:
            self._revise_scaling()
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
        return coincide_in_float32((self.trees.place(X[:: n // REBUILD_FROM]) - shift) * scale)

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
        try:
            coordinates = self.values.choose_coordinates(
                self, slots, n_seen=self.n_seen + len(X), in_order=True, interrupts=interrupts
            )
            if aside:
                trees = self.trees.make_sibling(self.trees.get_streams())
                trees.set_coordinates(coordinates)
                trees.build(slots, budget, scratch, SILENT, interrupts.poll)
        except BaseException:
            self.rows.give_back(added)
            raise
        if leaving:
            ids = self.rows.oldest(leaving)
            gone = self.rows.slots_of(ids)
            self.rows.remove(ids)
            self.keys.wipe(ids)
            self.values.forgotten(self, gone, exactly=False)
        self.rows.add(added)
        if aside:
            self.replace_trees(trees)
            self.budget = budget
        else:
            self._rebuild(scratch, np.array([budget]), coordinates)
        self.values.built(self, in_order=True, interrupts=interrupts)

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
        self.trees.store(places, X, y, w)
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

    def fit_coordinates(self, slots: np.ndarray, kind: str | None = None) -> Coordinates:
        """Return coordinates for the rows in some slots: of this kind, or as the configuration says."""
        if self.config.is_scaled_by_rows:
            return Coordinates.fit(kind or self.config.scaling_kind, self.trees.get_given(), slots)
        return self.trees.coordinates.weigh(np.ones(self.config.n_features))

    def _revise_scaling(self, *, always: bool = False) -> bool:
        """If the scaling is off, or ``always`` if it is not that of the rows held, build the trees afresh with a new one.

        Returns whether the trees were built.

        Without memory to begin with, the trees stay as they are, which is exact for the scaling in use; the next attempt
        follows when as many rows have been learned.
        """
        built = False
        used = self.trees.coordinates
        if self.config.is_scaled_by_rows:
            new = self.fit_coordinates(self.rows.held_slots(), used.kind).weigh(used.weights)
            if always or not used.is_close(new):
                built = self.rebuild(new, optional=not always)
        self.held_at_scaling = self.n_held
        self.learned_since = 0
        return built

    def build_beside(self, coordinates: Coordinates, streams: np.ndarray, poll: Poll = do_nothing) -> TreeEnsemble:
        """Return trees of the rows held in other coordinates, for `replace_trees`.

        Trees of a forest that is too large to be held twice are built in its place. ``poll`` may raise before that.
        """
        budget = float(budgets_of_held(self.config, self.n_held)[-1])
        if self.trees.nbytes > MOST_ASIDE:
            self.trees.set_streams(streams)
            self.rebuild(coordinates)
            return self.trees
        trees = self.trees.make_sibling(streams)
        trees.set_coordinates(coordinates)
        trees.build(self.rows.held_slots(), budget, trees.make_build_scratch(self.n_held), SILENT, poll)
        self.budget = budget
        return trees

    def replace_trees(self, trees: TreeEnsemble, *, kept: tuple[str, ...] = ()) -> None:
        """Take over trees that hold the same rows in the same slots; arrays of rows named in ``kept`` stay."""
        if trees is not self.trees:
            self.trees.take_over(trees, kept=kept)
        self.held_at_scaling, self.learned_since = self.n_held, 0

    def rebuild(self, coordinates: Coordinates, *, optional: bool = False) -> bool:
        """Build the trees afresh in other coordinates. Return False if it is ``optional``, and there is no memory to begin."""
        budgets = budgets_of_held(self.config, self.n_held)  # calls the user's function: before anything is changed
        try:
            scratch = [] if self.config.redraw else self.trees.make_build_scratch(self.n_held)
        except MemoryError:
            if not optional:
                raise
            return False
        self._rebuild(scratch, budgets, coordinates, self.trees.coordinates)
        return True

    def build_anew(self, coordinates: Coordinates) -> None:
        """Build trees that hold nothing yet from the rows held."""
        budgets = budgets_of_held(self.config, self.n_held)
        self._rebuild([] if self.config.redraw else self.trees.make_build_scratch(self.n_held), budgets, coordinates)
        self.held_at_scaling, self.learned_since = self.n_held, 0

    def _rebuild(self, scratch: list[Scratch], budgets: np.ndarray, *choices: Coordinates) -> None:
        """Build the trees afresh in the first of several coordinates for which there is enough memory.

        If there is for none, the rows are dropped: trees in two different coordinates are no forest.
        """
        for coordinates in choices:
            try:
                self.trees.set_coordinates(coordinates)
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
        is_spread = self._spreads(ids)
        try:
            self._forget(ids, interrupts, exactly=True)
        finally:
            if is_spread is not None and not is_spread():
                self._revise_scaling(always=True)

    def _spreads(self, ids: np.ndarray) -> Callable[[], bool] | None:
        """Return what tells, once these rows are forgotten, whether the others would be scaled as all of them.

        None if they will be. Values that revise coordinates see to ranks themselves.
        """
        used = self.trees.coordinates
        if not self.config.is_scaled_by_rows:
            return None
        if used.uses_ranks:
            return None if self.values.revises_coordinates else lambda: False
        low, high = used.low, used.high
        X = self.trees.arrays.rows[self.rows.slots_of(ids)]
        at_end = np.flatnonzero(((low == X) | (high == X)).any(axis=0))
        if not len(at_end):
            return None
        return lambda: reaches_ends(self.trees.arrays.rows, self.rows.held_slots(), at_end, (low, high))

    def _forget(self, ids: np.ndarray, interrupts: Interrupts = UNPROTECTED, *, exactly: bool = False) -> None:
        """Forget rows, and keep the range."""
        size = max(256, BLOCK // self.trees.n_trees)
        for start in range(0, len(ids), size):
            block = ids[start : start + size]
            slots = self.rows.slots_of(block)
            self.trees.remove(slots)
            self.rows.remove(block)
            self.keys.wipe(block)
            self.values.forgotten(self, slots, exactly=exactly)
            if exactly:
                self.trees.wipe_rows(slots)
            interrupts.poll()

    def forget_oldest(self, n: int) -> None:
        """Forget the n oldest rows, to make room: the range is revised when as many have been learned."""
        if n > 0:
            self._forget(self.rows.oldest(n))

    def snapshot(self) -> OnlineForest:
        """Return a copy that shares no arrays with this forest and holds no trace of rows that are forgotten."""
        other = self.copy_without_trees()
        n_slots = min(self.rows.n_slots, len(self.trees.arrays.rows))
        _, free = self.rows.export_slots(n_slots)
        other.trees = self.trees.snapshot(n_slots, free)
        return other

    def copy_without_trees(self) -> OnlineForest:
        """Return a copy that still shares its trees with this forest."""
        other = copy(self)
        other.rows, other.keys, other.values = deepcopy(self.rows), self.keys.copy(), copy(self.values)
        return other

    def add_classes(self, n: int) -> None:
        """Allow n more classes, which no row has had so far, after those there are."""
        before = self.trees.n_classes
        self.insert_classes(np.arange(before), before + n)

    def insert_classes(self, places: np.ndarray, n_after: int) -> None:
        """Allow more classes, which no row has had so far, among those there are; class k becomes class ``places[k]``.

        Predictions are those of a forest with the same trees that had all ``n_after`` classes from the beginning. Nothing has
        changed if memory runs out.
        """
        self._verify()
        slots = self.rows.held_slots()
        widened = self.trees.insert_classes(places, n_after, slots)
        self.trees.take_classes(self.values.insert_classes(widened, places, n_after), places, slots)
        n_columns = count_columns(n_after, 1) if self.config.n_columns else 0
        self.config = replace(self.config, n_classes=n_after, n_columns=n_columns)
