"""The online forest behind every interface: rows in, rows out, questions answered.

`OnlineForest` owns the arrays of `bspforest._layout` and calls the kernels on them. It knows nothing of scikit-learn, river or
files; it trusts its input (finite float64 rows, class indices from 0), which the interfaces check.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from . import _layout as layout
from ._build import build_trees
from ._compile import resolve
from ._forget import forget_rows
from ._ids import RowTable
from ._layout import AXES, ISOTROPIC, PAIRS, Forest, Work
from ._learn import learn_rows
from ._read import find_all_leaves, list_points, number_nodes, sum_leaves
from ._threads import SILENT, Progress, run_parts, undivided

FAMILIES = {"pairs": PAIRS, "axes": AXES, "isotropic": ISOTROPIC}

# (row, tree) pairs learned between two chances to be interrupted: about a second.
BLOCK = 1_000_000

# Trees of less than this many bytes in all grow by half, larger ones by a quarter.
SMALL = 2**28

# Rows predicted per call of a kernel between two chances to be interrupted.
READ_BLOCK = 65_536


def spread(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Shift and scale that take [low, high] to [0, 1]; a column without spread to 0."""
    size = high - low
    with np.errstate(divide="ignore", over="ignore"):
        scale = np.where(size > 0, np.minimum(1.0 / size, np.finfo(float).max), 0.0)
    return np.stack([low, scale])


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
        streams = seed.generate_state(4 * n_trees, np.uint64).reshape(n_trees, 4)
        self.arrays: Forest = layout.allocate(
            family=FAMILIES[cuts],
            min_split=min_samples_split,
            redraw=redraw,
            n_classes=n_classes,
            n_features=n_features,
            streams=streams,
        )
        self.budget_of = budget
        self.scaling = scaling
        self.window = window
        self.n_threads = 1
        self.budget = 0.0
        self.table = RowTable()
        self._range = (np.zeros(n_features), np.zeros(n_features))
        self._held_at_scaling = 0
        self._learned_since = 0
        self._work: list[Work] = []
        self._resolved: dict[str, Callable] = {}
        if isinstance(scaling, tuple):
            self.arrays.scaling[:] = spread(*scaling)

    # ------------------------------------------------------------------------------------------------------------------
    # What it holds

    @property
    def n_trees(self) -> int:
        return len(self.arrays.state)

    @property
    def n_features(self) -> int:
        return self.arrays.rows.shape[1]

    @property
    def n_classes(self) -> int:
        return self.arrays.n_classes

    @property
    def n_seen(self) -> int:
        return self.table.n_seen

    @property
    def n_held(self) -> int:
        return self.table.n_held

    @property
    def nbytes(self) -> int:
        """Memory in bytes, rows included."""
        return sum(a.nbytes for a in self.arrays if isinstance(a, np.ndarray))

    def held_rows(self) -> np.ndarray:
        """The rows held, oldest first, as they were given."""
        return self.arrays.rows[self.table.held_slots()]

    def held_labels(self) -> np.ndarray:
        """Label and weight of the rows held, oldest first."""
        return self.arrays.labels[self.table.held_slots()]

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        state["_work"] = []
        state["_resolved"] = {}
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self.arrays = layout.align(self.arrays)

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def learn(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, progress: Progress = SILENT) -> None:
        """Learn rows in order. If interrupted, some first part of them is learned, by all trees."""
        if len(X) == 1 and self.n_held and self.window != 1:
            self.learn_row(X[0], y[0], w[0])
            progress.advance(1)
            return
        # Rows that would be learned only to be forgotten are skipped.
        skip = max(0, len(X) - self.window) if self.window is not None else 0
        held = 0 if skip else self.n_held
        size = max(256, BLOCK // self.n_trees)
        if held == 0 and not self.arrays.redraw:
            size = max(len(X), 1)
        starts = range(skip, len(X), size)
        budgets = self._budgets(held, [min(size, len(X) - start) for start in starts])
        for start, budget in zip(starts, budgets, strict=True):
            part = slice(start, start + size)
            # A new forest that is interrupted is of no use to anyone; all others are kept whole.
            with undivided() if self.n_seen else nullcontext():
                if start == skip > 0:
                    self.forget_oldest(self.n_held)
                    self.table.skip(skip)
                    progress.advance(skip)
                self._learn_block(X[part], y[part], w[part], budget, progress)

    def _budgets(self, held: int, sizes: list[int]) -> list[np.ndarray]:
        """The budgets of the rows of each block; an error if they decrease, before anything is changed.

        The exact law asks only for the last one of a block.
        """
        most = self.window if self.window is not None else 2**62
        last = self.budget_of(held) if held else 0.0
        blocks = []
        for size in sizes:
            first = 1 if self.arrays.redraw else size
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
            blocks.append(np.array(values) if self.arrays.redraw else np.full(size, last))
        return blocks

    def _learn_block(self, X, y, w, budgets, progress: Progress) -> None:
        n = len(X)
        if self.window is not None:
            self.forget_oldest(self.n_held + n - self.window)
        if self.n_held == 0 and self.scaling == "minmax":
            self._set_scaling(X)
        slots = self._take_slots(n)
        self.arrays.rows[slots] = X
        self.arrays.labels[slots, 0] = y
        self.arrays.labels[slots, 1] = w
        if self.n_held == 0 and not self.arrays.redraw:
            self.table.add(slots)
            try:
                self._build(float(budgets[-1]), progress)
            except BaseException:  # no tree may be asked for these rows
                self.table.remove(np.arange(self.n_seen - n, self.n_seen))
                raise
            return
        # After forgetting, the budget stays where it was until the number of rows has caught up.
        budget = max(self.budget, float(budgets[-1]))
        self._insert(slots, budgets if self.arrays.redraw else np.full(n, budget))
        self._learned_since += n
        progress.advance(n)
        if self.scaling == "minmax" and self._learned_since >= self._held_at_scaling:
            self._rescale()

    def add_classes(self, n: int) -> None:
        """Let n more classes occur, which no row has had so far."""
        old = self.arrays.values
        values = layout.empty((*old.shape[:2], self.n_classes + n), np.float64)
        values[:, :, : self.n_classes] = old
        values[:, :, self.n_classes :] = 0.0
        self.arrays = self.arrays._replace(values=values, n_classes=self.n_classes + n)

    def learn_row(self, x: np.ndarray, y: float, w: float) -> None:
        """Learn one row, as `learn` would. With 10 trees, half the time of the long way would be Python's."""
        table = self.table
        held = table.n_held
        if held == 0 or self.window == 1:
            self.learn(np.reshape(x, (1, -1)), np.array([y], float), np.array([w], float))
            return
        most = held + 1 if self.window is None else self.window
        budget = self.budget_of(min(held + 1, most))
        if budget < self.budget_of(held):
            self._budgets(held, [1])  # says what is wrong
        with undivided():
            if held == most:
                self._forget_part(table.oldest(1))
            slots = self._take_slots(1)
            slot = slots.item()
            self.arrays.rows[slot] = x
            labels = self.arrays.labels
            labels[slot, 0] = y
            labels[slot, 1] = w
            self._insert(slots, np.array([budget if self.arrays.redraw else max(self.budget, budget)]))
            self._learned_since += 1
            if self._learned_since >= self._held_at_scaling and self.scaling == "minmax":
                self._rescale()

    def _call(self, entry: Any, *args: Any) -> Any:
        """``entry(*args)``, with the types of ``args`` looked at only once: those of a forest's arrays never change."""
        compiled = self._resolved.get(entry.__name__)
        if compiled is None:
            compiled = self._resolved[entry.__name__] = resolve(entry, args)
        return compiled(*args)

    def _take_slots(self, n: int) -> np.ndarray:
        """Places for n new rows."""
        need = self.table.n_slots + max(0, n - self.table.n_free)
        room = len(self.arrays.rows)
        if need > room:
            larger = self._enlarge(room) if self.n_held else 0
            self._adopt(layout.resize_held(self.arrays, max(need, larger)))
        return self.table.take_slots(n)

    def _insert(self, slots: np.ndarray, budgets: np.ndarray, *, new: bool = True) -> None:
        """Have all trees learn the rows in ``slots``, which count as held as soon as they have.

        If memory runs out after that, some pending cuts wait to be carried out until rows are learned again.
        """
        n = len(slots)
        self._reserve(n)
        learned = np.zeros(self.n_trees, dtype=np.int64)
        size = n + self.arrays.min_split
        while True:
            for part in range(min(self.n_threads, self.n_trees)):  # before anything is changed
                self._scratch(2 * part, size)
                self._scratch(2 * part + 1, n)
            lacking = self._for_trees(
                lambda first, last, part: self._call(
                    learn_rows,
                    self.arrays,
                    self._scratch(2 * part, size),
                    self._scratch(2 * part + 1, n),
                    first,
                    last,
                    slots,
                    budgets,
                    learned,
                ),
                n,
            )
            if new and (not lacking or learned.min() == n):
                self.table.add(slots)
                self.budget = max(self.budget, float(budgets[-1]))
                new = False
            if not lacking:
                return
            self._reserve(lacking)
            size = max(size, lacking)

    def _adopt(self, steps: Iterator[Forest]) -> None:
        """Take over arrays that are replaced one after another."""
        for arrays in steps:
            self.arrays = arrays

    def _reserve(self, n: int) -> None:
        """Room for n more cuts and leaves in each tree."""
        arrays = self.arrays
        need = max(arrays.state["n_cuts"].tolist()) + n  # for few trees quicker than numpy's
        room = arrays.cuts.shape[1]
        if need > room:
            self._adopt(layout.resize_cuts(self.arrays, max(need, self._enlarge(room))))
        need = max(arrays.state["n_leaves"].tolist()) + n
        room = arrays.leaves.shape[1]
        if need > room:
            self._adopt(layout.resize_leaves(self.arrays, max(need, self._enlarge(room))))

    def _enlarge(self, room: int) -> int:
        return int((1.5 if self.nbytes < SMALL else 1.25) * room)

    def _scratch(self, k: int, n_rows: int) -> Work:
        """Scratch space number k, for sets of ``n_rows`` rows."""
        while len(self._work) <= k:
            self._work.append(layout.make_work(1, self.n_features, 1))
        work = self._work[k]
        if len(work.rows) < n_rows or len(work.path) < self.arrays.cuts.shape[1] + 2:
            n_rows = max(n_rows, min(len(work.rows), 1024))
            work = self._work[k] = layout.make_work(n_rows, self.n_features, self.arrays.cuts.shape[1])
        return work

    def _for_trees(self, call: Callable[[int, int, int], int], n_rows: int) -> int:
        """The largest result of ``call(first, last, part)`` over parts of the trees."""
        if self.n_threads == 1:
            return call(0, self.n_trees, 0)
        parts = min(self.n_threads, self.n_trees)
        ends = [self.n_trees * k // parts for k in range(parts + 1)]
        for k in range(parts):  # made here, not in the threads
            self._scratch(2 * k + 1, 1)
        results = run_parts(
            lambda a, b: max(call(ends[k], ends[k + 1], k) for k in range(a, b)), parts, parts, n_rows * self.n_trees
        )
        return max(results)

    # ------------------------------------------------------------------------------------------------------------------
    # Building

    def _build(self, budget: float, progress: Progress) -> None:
        """Build all trees from the rows held."""
        slots = self.table.held_slots()
        self.budget = budget
        n = len(slots)
        todo = list(range(self.n_trees))
        if self.arrays.cuts.shape[1] < n // 2 or self.arrays.leaves.shape[1] < n // 2:
            todo = todo[self._probe(slots, budget, progress) :]
        while todo:
            todo = self._build_some(self.arrays, todo, slots, budget, progress)
            if todo:  # those that lacked room
                self._adopt(layout.resize_cuts(self.arrays, int(1.2 * self.arrays.cuts.shape[1]) + 64))
                self._adopt(layout.resize_leaves(self.arrays, int(1.2 * self.arrays.leaves.shape[1]) + 64))
        self._held_at_scaling = self.n_held
        self._learned_since = 0

    def _build_some(
        self, arrays: Forest, trees: list[int], slots: np.ndarray, budget: float, progress: Progress
    ) -> list[int]:
        """Build some trees in threads; those for which there was no room."""
        n = len(slots)
        share = n / self.n_trees  # of the rows, for the progress bar
        stop = threading.Event()

        def build(a: int, b: int) -> list[int]:
            work = layout.make_work(n, self.n_features, 1)
            missing = []
            for m in trees[a:b]:
                if stop.is_set():
                    break
                if build_trees(arrays, work, m, m + 1, slots, budget) == m:
                    missing.append(m)
                else:
                    progress.advance(int(share * (m + 1)) - int(share * m))
            return missing

        parts = run_parts(build, len(trees), self.n_threads, n * len(trees), stop)
        return [m for part in parts for m in part]

    def _probe(self, slots: np.ndarray, budget: float, progress: Progress) -> int:
        """Build the first trees, one a thread, with all the room they could need; make room for the others to be like them.

        How many trees are built.
        """
        n = len(slots)
        k = min(self.n_threads, self.n_trees)
        per_tree = ("state", "cuts", "boxes", "leaves", "values", "queue", "links")
        first = self.arrays._replace(**{name: getattr(self.arrays, name)[:k].copy() for name in per_tree})
        *_, first = layout.resize_cuts(first, n + 1)
        *_, first = layout.resize_leaves(first, n + 1)
        self._build_some(first, list(range(k)), slots, budget, progress)
        n_cuts, n_leaves = int(first.state["n_cuts"].max()), int(first.state["n_leaves"].max())
        small = {name: getattr(self.arrays, name)[:, :1].copy() for name in ("cuts", "boxes", "leaves", "values")}
        slack = 1.02 if n > 10_000 else 1.1
        self._adopt(layout.resize_cuts(self.arrays._replace(**small), int(slack * n_cuts) + 16))
        self._adopt(layout.resize_leaves(self.arrays, int(slack * n_leaves) + 16))
        for name, used in (("cuts", n_cuts), ("boxes", n_cuts), ("leaves", n_leaves), ("values", n_leaves)):
            getattr(self.arrays, name)[:k, :used] = getattr(first, name)[:, :used]
        for name in ("queue", "links", "state"):
            getattr(self.arrays, name)[:k] = getattr(first, name)
        return k

    def _set_scaling(self, X: np.ndarray) -> None:
        low, high = X.min(axis=0), X.max(axis=0)
        self.arrays.scaling[:] = spread(low, high)
        self._range = (low, high)

    def _rescale(self) -> None:
        """If the range of some feature has moved by a tenth of what is in use, build the trees afresh with the new one."""
        X = self.arrays.rows[self.table.held_slots()]
        low, high = X.min(axis=0), X.max(axis=0)
        used_low, used_high = self._range
        tenth = 0.1 * (used_high - used_low)
        if np.any(np.abs(low - used_low) > tenth) or np.any(np.abs(high - used_high) > tenth):
            self._set_scaling(X)
            del X
            if self.arrays.redraw:
                self._replay()
            else:
                self._build(self.budget_of(self.n_held), SILENT)
        self._held_at_scaling = self.n_held
        self._learned_since = 0

    def _replay(self) -> None:
        """Redrawing has no batch form: learn the rows held once more, in order."""
        slots = self.table.held_slots()
        streams = [self.arrays.state[f"s{k}"] for k in range(4)]
        self.arrays = self.arrays._replace(state=layout.empty_state(np.stack(streams, axis=1)))
        self._insert(slots, np.array([self.budget_of(k + 1) for k in range(len(slots))], float), new=False)
        self.budget = self.budget_of(self.n_held)

    # ------------------------------------------------------------------------------------------------------------------
    # Forgetting

    def forget(self, ids: np.ndarray) -> None:
        """Forget rows, which must be held, each named once."""
        size = max(256, BLOCK // self.n_trees)
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            with undivided():
                self._forget_part(part)

    def _forget_part(self, ids: np.ndarray) -> None:
        self._forget_slots(self.table.slots_of(ids))
        self.table.remove(ids)

    def forget_oldest(self, n: int) -> None:
        """Forget the n oldest rows."""
        if n > 0:
            self.forget(self.table.oldest(n))

    def _forget_slots(self, slots: np.ndarray) -> None:
        forgotten = np.zeros(self.n_trees, dtype=np.int64)
        size = self.arrays.min_split
        while True:
            lacking = self._for_trees(
                lambda first, last, part: self._call(
                    forget_rows, self.arrays, self._scratch(2 * part, size), first, last, slots, forgotten
                ),
                len(slots),
            )
            if not lacking:
                return
            size = max(lacking, 2 * size)

    # ------------------------------------------------------------------------------------------------------------------
    # Asking

    def _read_rows(self, call: Callable, n: int) -> None:
        """``call(start, end, *scratch)`` for all of n rows, in threads."""

        def read(start: int, end: int) -> None:
            size = max(1, min(512, end - start))
            rows = np.empty((size, self.n_features))
            found = np.empty(max(size, self.n_trees), dtype=np.int64)
            lanes = np.empty((2, layout.LANES), dtype=np.int64)
            for s in range(start, end, READ_BLOCK):
                call(s, min(end, s + READ_BLOCK), rows, found, lanes)

        run_parts(read, n, self.n_threads, n * self.n_trees)

    def sum_leaves(self, X: np.ndarray, *, hard: bool = False) -> np.ndarray:
        """What the leaves of all trees say of each row, summed: see `bspforest._read.add_leaf`."""
        out = np.zeros((len(X), self.arrays.n_classes + 1 if self.arrays.n_classes else 5))
        if len(X) == 1 and X.flags.c_contiguous and X.dtype == np.float64:
            scratch = (
                np.empty((1, self.n_features)),
                np.empty(self.n_trees, np.int64),
                np.empty((2, layout.LANES), np.int64),
            )
            self._call(sum_leaves, self.arrays, X, 0, 1, int(hard), out, *scratch)
            return out
        self._read_rows(lambda a, b, *scratch: sum_leaves(self.arrays, X, a, b, int(hard), out, *scratch), len(X))
        return out

    def find_leaves(self, X: np.ndarray) -> np.ndarray:
        """The leaf of each row in each tree, as the kernels number them."""
        out = np.empty((len(X), self.n_trees), dtype=np.int64)
        self._read_rows(lambda a, b, *scratch: find_all_leaves(self.arrays, X, a, b, out, *scratch), len(X))
        return out

    def leaf_points(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each row of ``leaves``, the points in its leaves: slots, shares of their leaves, and where each row starts."""
        starts = np.zeros(len(leaves) + 1, dtype=np.int64)
        list_points(self.arrays, leaves, np.empty(0, np.int32), np.empty(0), starts)
        np.cumsum(starts, out=starts)
        slots, shares = np.empty(starts[-1], np.int32), np.empty(starts[-1])
        if len(slots):
            list_points(self.arrays, leaves, slots, shares, starts)
        return slots, shares, starts

    def number_nodes(self, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The nodes of tree m from the root: references, parents, depths."""
        state = self.arrays.state[m]
        most = 2 * int(state["n_leaves"]) + 1
        nodes, parents, depths = (np.empty(most, dtype=np.int64) for _ in range(3))
        n = number_nodes(self.arrays, m, nodes, parents, depths)
        return nodes[:n], parents[:n], depths[:n]
