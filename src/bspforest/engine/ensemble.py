"""All trees of a forest: their arrays, the room in them, and the threads that run kernels on them.

Rows are known by their slots here. Which rows are held, with which budget and scaling, is decided by
`bspforest.engine.forest.OnlineForest`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np

from . import arrays as layout
from .arrays import ForestArrays, Scratch
from .kernels.build import build_trees
from .kernels.forget import forget_rows
from .kernels.jit import resolve
from .kernels.learn import learn_rows
from .kernels.predict import find_all_leaves, list_points, number_nodes, sum_leaves
from .parallel import WORTH_THREADS, run_parts
from .progress import SILENT, Progress

# Trees of less than this many bytes in all grow by half, larger ones by a quarter.
SMALL = 2**28

# Rows predicted per call of a kernel between two chances to be interrupted.
READ_BLOCK = 65_536

# If there is not even room for so many nodes a tree, memory is at its end.
FEW_NODES = 1024

# Points of leaves listed at a time: 50 MB. Leaves of two features and 100,000 rows have thousands each.
MOST_POINTS = 4_000_000


def largest(counts: np.ndarray) -> int:
    """The largest of some numbers, one a tree: Python's for 10 trees three times as quick as numpy's, for 100 half as quick."""
    return max(counts.tolist()) if len(counts) < 50 else int(counts.max())


class TreeEnsemble:
    """The trees of a forest as arrays: build them, insert and remove points, read them."""

    def __init__(self, arrays: ForestArrays) -> None:
        self.arrays = arrays
        self.n_threads = 1
        self._work: list[Scratch] = []
        self._resolved: dict[str, Callable] = {}

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
    def nbytes(self) -> int:
        """Memory in bytes, rows included."""
        return sum(a.nbytes for a in self.arrays if isinstance(a, np.ndarray))

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        state["_work"] = []
        state["_resolved"] = {}
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self.arrays = layout.align(self.arrays)

    # ------------------------------------------------------------------------------------------------------------------
    # Room

    def _adopt(self, steps: Iterator[ForestArrays]) -> None:
        """Take over arrays that are replaced one after another."""
        for arrays in steps:
            self.arrays = arrays

    def make_room(self, n_slots: int, *, spare: bool) -> None:
        """Room for rows in ``n_slots`` slots, and, if ``spare``, for some to come."""
        room = len(self.arrays.rows)
        if n_slots > room:
            self._adopt(layout.resize_held(self.arrays, max(n_slots, self._enlarge(room) if spare else 0)))

    def _reserve(self, n: int) -> None:
        """Room for n more cuts and leaves in each tree."""
        arrays = self.arrays
        need = largest(arrays.state["n_cuts"]) + n
        room = arrays.cuts.shape[1]
        if need > room:
            self._adopt(layout.resize_cuts(self.arrays, max(need, self._enlarge(room))))
        need = largest(arrays.state["n_leaves"]) + n
        room = arrays.leaves.shape[1]
        if need > room:
            self._adopt(layout.resize_leaves(self.arrays, max(need, self._enlarge(room))))

    def _enlarge(self, room: int) -> int:
        return int((1.5 if self.nbytes < SMALL else 1.25) * room)

    def _scratch(self, k: int, n_rows: int) -> Scratch:
        """Scratch space number k, for sets of ``n_rows`` rows."""
        while len(self._work) <= k:
            self._work.append(layout.make_scratch(1, self.n_features, 1))
        work = self._work[k]
        if len(work.rows) < n_rows or len(work.path) < self.arrays.cuts.shape[1] + 2:
            n_rows = max(n_rows, min(len(work.rows), 1024))
            work = self._work[k] = layout.make_scratch(n_rows, self.n_features, self.arrays.cuts.shape[1])
        return work

    # ------------------------------------------------------------------------------------------------------------------
    # Running kernels

    def _resolve(self, entry: Any, *args: Any) -> Callable:
        """What is to be called for ``entry(*args)``. Types are looked at only once: those of a forest's arrays never change."""
        compiled = self._resolved.get(entry.__name__)
        if compiled is None:
            compiled = self._resolved[entry.__name__] = resolve(entry, args)
        return compiled

    def _call(self, entry: Any, *args: Any) -> Any:
        """``entry(*args)``."""
        return self._resolve(entry, *args)(*args)

    def _for_trees(self, entry: Any, sizes: tuple[int, ...], n_rows: int, *args: Any) -> int:
        """The largest result of a kernel over parts of the trees, in threads.

        Each has scratch space for sets of these sizes, one or two, all of it made before anything is changed.
        """
        parts = min(self.n_threads, self.n_trees) if n_rows * self.n_trees >= WORTH_THREADS else 1
        if parts == 1:
            work = [self._scratch(j, size) for j, size in enumerate(sizes)]
            return self._call(entry, self.arrays, *work, 0, self.n_trees, *args)
        works = [[self._scratch(2 * k + j, size) for j, size in enumerate(sizes)] for k in range(parts)]
        ends = [self.n_trees * k // parts for k in range(parts + 1)]

        def call(a: int, b: int) -> int:
            return max(self._call(entry, self.arrays, *works[k], ends[k], ends[k + 1], *args) for k in range(a, b))

        return max(run_parts(call, parts, parts, n_rows * self.n_trees))

    # ------------------------------------------------------------------------------------------------------------------
    # Changing trees

    def _most_points(self) -> int:
        """No leaf without a pending cut has as many points."""
        return min(self.arrays.min_split, len(self.arrays.rows) + 1)

    def insert(self, slots: np.ndarray, budgets: np.ndarray, then: Callable[[], None] | None = None) -> None:
        """Have all trees learn the rows in ``slots``; call ``then`` as soon as they have.

        If memory runs out before that, no tree has learned any of them. If it runs out after that, some pending cuts wait to be carried out until rows are learned again.
        """
        n = len(slots)
        if n > 1:  # for one row the kernel asks
            self._reserve(n)
        learned = np.zeros(self.n_trees, dtype=np.int64)
        size = n + self._most_points()
        while True:
            try:
                lacking = self._for_trees(learn_rows, (size, n), n, slots, budgets, learned)
                if then is not None and (not lacking or learned.min() == n):
                    then()
                    then = None
                if not lacking:
                    return
                self._reserve(lacking)
            except MemoryError:
                if then is not None and learned.any():
                    self.remove(slots[::-1].copy(), n - learned)
                raise
            size = max(size, lacking)

    def remove(self, slots: np.ndarray, forgotten: np.ndarray | None = None) -> None:
        """Have all trees forget the rows in ``slots``, of which they may have ``forgotten`` the first already."""
        forgotten = np.zeros(self.n_trees, dtype=np.int64) if forgotten is None else forgotten
        size = self._most_points()
        while lacking := self._for_trees(forget_rows, (size,), len(slots), slots, forgotten):
            size = max(lacking, 2 * size)

    def make_build_scratch(self, n: int) -> list[Scratch]:
        """Scratch space for building trees of n rows, one for each thread."""
        return [layout.make_scratch(n, self.n_features, 1) for _ in range(min(self.n_threads, self.n_trees))]

    def build(self, slots: np.ndarray, budget: float, works: list[Scratch], progress: Progress) -> None:
        """Build all trees afresh from the rows in ``slots``."""
        n = len(slots)
        todo = list(range(self.n_trees))
        if self.arrays.cuts.shape[1] < n // 2 or self.arrays.leaves.shape[1] < n // 2:
            todo = self._probe(slots, budget, works, progress)
        while todo:
            todo = self._build_some(todo, slots, budget, works, progress)
            if todo:  # those that lacked room
                self._adopt(layout.resize_cuts(self.arrays, int(1.2 * self.arrays.cuts.shape[1]) + 64))
                self._adopt(layout.resize_leaves(self.arrays, int(1.2 * self.arrays.leaves.shape[1]) + 64))

    def _build_some(
        self, trees: list[int], slots: np.ndarray, budget: float, works: list[Scratch], progress: Progress
    ) -> list[int]:
        """Build some trees in threads, each the next one as soon as it has time; those for which there was no room."""
        n = len(slots)
        waiting, lock = iter(trees), threading.Lock()
        stop = threading.Event()
        compiled = self._resolve(build_trees, self.arrays, works[0], 0, 0, slots, budget)

        def next_tree() -> int | None:
            with lock:
                return next(waiting, None)

        def build(a: int, b: int) -> list[int]:
            missing = []
            for work in works[a:b]:
                while not stop.is_set() and (m := next_tree()) is not None:
                    if compiled(self.arrays, work, m, m + 1, slots, budget) == m:
                        missing.append(m)
                    else:
                        progress.advance(n * (m + 1) // self.n_trees - n * m // self.n_trees)
            return missing

        parts = run_parts(build, len(works), len(works), n * len(trees), stop)
        return sorted(m for part in parts for m in part)

    def _probe(self, slots: np.ndarray, budget: float, works: list[Scratch], progress: Progress) -> list[int]:
        """Build the first trees, one a thread, with all the room they could need; make room for the others to be like them.

        The trees that are still to be built. What is reserved is, on most systems, no memory yet: that comes with the pages that are
        written to. (Building them elsewhere, and copying, took a tenth of the time of `fit`, and more with two threads.)
        """
        n = len(slots)
        k = min(self.n_threads, self.n_trees)
        streams = np.stack([self.arrays.state[f"s{j}"][:k] for j in range(4)], axis=1)
        room = self._reserve_nodes(n + 1)
        while self._build_some(list(range(k)), slots, budget, works, SILENT):
            # Less could be reserved, and it was not enough.
            self.arrays.state[:k] = layout.empty_state(streams)
            room += room // 2
            self.arrays = layout.reserve_nodes(self.arrays, room)
        progress.advance(n * k // self.n_trees)
        slack = 1.02 if n > 10_000 else 1.1
        n_cuts, n_leaves = (int(slack * self.arrays.state[name][:k].max()) + 16 for name in ("n_cuts", "n_leaves"))
        self._adopt(layout.shrink_nodes(self.arrays, n_cuts, n_leaves, kept=k))
        return list(range(k, self.n_trees))

    def _reserve_nodes(self, n: int) -> int:
        """Room for n cuts and leaves in each tree, or, if the system does not reserve that much, for as many as it does; how many."""
        while True:
            try:
                self.arrays = layout.reserve_nodes(self.arrays, n)
                return n
            except MemoryError:
                if n < FEW_NODES:
                    raise
            n //= 2

    def snapshot(self) -> TreeEnsemble:
        """Return a copy with arrays of its own."""
        other = copy(self)
        other._work = []
        other.arrays = layout.copy_arrays(self.arrays)
        return other

    def clear(self) -> None:
        """Empty the trees; their random streams go on."""
        streams = [self.arrays.state[f"s{k}"] for k in range(4)]
        self.arrays = self.arrays._replace(state=layout.empty_state(np.stack(streams, axis=1)))

    def add_classes(self, n: int) -> None:
        """Let n more classes occur, which no row has had so far."""
        old = self.arrays.values
        values = layout.empty((*old.shape[:2], self.n_classes + n), np.float64)
        values[:, :, : self.n_classes] = old
        values[:, :, self.n_classes :] = 0.0
        self.arrays = self.arrays._replace(values=values, n_classes=self.n_classes + n)

    # ------------------------------------------------------------------------------------------------------------------
    # Asking

    def _read_scratch(self, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return layout.make_read_scratch(n_rows, self.n_features, self.n_trees)

    def _read_rows(self, call: Callable, n: int) -> None:
        """``call(start, end, *scratch)`` for all of n rows, in threads."""

        def read(start: int, end: int) -> None:
            scratch = self._read_scratch(max(1, min(512, end - start)))
            for s in range(start, end, READ_BLOCK):
                call(s, min(end, s + READ_BLOCK), *scratch)

        run_parts(read, n, self.n_threads, n * self.n_trees)

    def sum_leaves(self, X: np.ndarray, *, hard: bool = False) -> np.ndarray:
        """What the leaves of all trees say of each row, summed: see `bspforest.engine.kernels.predict.add_leaf`."""
        out = np.zeros((len(X), self.arrays.n_classes + 1 if self.arrays.n_classes else 5))
        X = layout.as_rows(X)
        if len(X) == 1:
            self._call(sum_leaves, self.arrays, X, 0, 1, int(hard), out, *self._read_scratch(1))
            return out
        self._read_rows(lambda a, b, *scratch: sum_leaves(self.arrays, X, a, b, int(hard), out, *scratch), len(X))
        return out

    def find_leaves(self, X: np.ndarray) -> np.ndarray:
        """The leaf of each row in each tree, as the kernels number them."""
        X = layout.as_rows(X)
        out = np.empty((len(X), self.n_trees), dtype=np.int64)
        self._read_rows(lambda a, b, *scratch: find_all_leaves(self.arrays, X, a, b, out, *scratch), len(X))
        return out

    def leaf_points(self, leaves: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each row of ``leaves`` in turn, the points in its leaves: their slots, and their shares of the leaves' weights."""
        starts = np.zeros(len(leaves) + 1, dtype=np.int64)
        points = self.arrays.leaves, self.arrays.links, self.arrays.labels
        list_points(*points, leaves, np.empty(0, np.int32), np.empty(0), starts)
        np.cumsum(starts, out=starts)
        first = 0
        while first < len(leaves):
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + MOST_POINTS, side="right")) - 1)
            ends = starts[first : last + 1] - starts[first]
            slots, shares = np.empty(ends[-1], np.int32), np.empty(ends[-1])
            if len(slots):
                list_points(*points, leaves[first:last], slots, shares, ends)
            for a, b in pairwise(ends.tolist()):
                yield slots[a:b], shares[a:b]
            first = last

    def leaves_of_slots(self, m: int, leaves: np.ndarray) -> np.ndarray:
        """Which of ``leaves``, which tree m has, holds each slot; -1 for slots in none of them. All rings are followed at once."""
        arrays = self.arrays
        found = np.full(len(arrays.rows), -1)
        slots, left = arrays.leaves[m]["last"][leaves], arrays.leaves[m]["n_points"][leaves]
        while len(leaves):
            found[slots] = leaves
            more = left > 1
            leaves, slots, left = leaves[more], arrays.links[m][slots[more]], left[more] - 1
        return found

    def number_nodes(self, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The nodes of tree m from the root: references, parents, depths."""
        state = self.arrays.state[m]
        most = 2 * int(state["n_leaves"]) + 1
        nodes, parents, depths = (np.empty(most, dtype=np.int64) for _ in range(3))
        n = number_nodes(self.arrays.cuts[m], int(state["root"]), nodes, parents, depths)
        return nodes[:n], parents[:n], depths[:n]
