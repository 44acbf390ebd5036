"""All trees of a forest: allocate their arrays, and run kernels on them in threads.

Rows are known by their slots here. `bspforest.engine.forest.OnlineForest` decides which rows are held, with which budget
and scaling.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np

from . import arrays as layout
from .arrays import LABEL, LABEL_WEIGHT, ForestArrays, Scratch
from .coordinates import Coordinates
from .kernels.build import build_trees
from .kernels.forget import forget_rows
from .kernels.jit import resolve
from .kernels.learn import learn_rows
from .kernels.predict import N_SUMS, find_all_leaves, list_points, number_nodes, sum_found_leaves, sum_leaves
from .kernels.wipe import wipe_trees
from .parallel import WORTH_THREADS, run_parts
from .progress import SILENT, Progress

# Forests of less than this many bytes grow by half, larger ones by a quarter.
GROW_BY_HALF_BELOW = 2**28

# Rows predicted per call of a kernel, between two chances to interrupt it; and per pass over a tree.
READ_BLOCK = 65_536
READ_AT_ONCE = 512

# If not even this many nodes per tree can be reserved, there is no memory left.
MIN_RESERVED_NODES = 1024

# Points of leaves listed at a time: 50 MB. With two features and 100,000 rows, leaves have thousands of points.
POINTS_AT_ONCE = 4_000_000


Poll = Callable[[], None]


def do_nothing() -> None:
    """Do nothing, as a poll."""


def find_largest(counts: np.ndarray) -> int:
    """Return the largest of some counts, one per tree.

    For 10 trees, Python's ``max`` takes a third of the time of numpy's; for 100 trees, twice the time.
    """
    return max(counts.tolist()) if len(counts) < 50 else int(counts.max())


def make_streams(seed: Any, n_trees: int) -> np.ndarray:
    """Return random streams of trees, four words each, from a seed sequence or what makes one."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return sequence.generate_state(4 * n_trees, np.uint64).reshape(n_trees, 4)


class TreeEnsemble:
    """The trees of a forest as arrays: build them, insert and remove points, and read them.

    Parameters
    ----------
    arrays : ForestArrays

    Attributes
    ----------
    coordinates : Coordinates
        The map from features to the coordinates of cuts; its shift and scale are in the arrays.
    groups : ndarray of shape (n_features,) or None
        Features with the same number share a weight.
    """

    def __init__(self, arrays: ForestArrays) -> None:
        self.arrays = arrays
        self.coordinates = Coordinates.unscaled(arrays.rows.shape[1])
        self.groups: np.ndarray | None = None
        self.n_threads = 1
        self._scratch: list[Scratch] = []
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
        state["_scratch"] = []
        state["_resolved"] = {}
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self.arrays = layout.align(self.arrays)

    # ------------------------------------------------------------------------------------------------------------------
    # Room

    def _adopt(self, steps: Iterator[ForestArrays]) -> None:
        """Replace the arrays by each of ``steps``, so that none is lost if memory runs out between two."""
        for arrays in steps:
            self.arrays = arrays

    def make_room(self, n_slots: int, *, spare: bool) -> None:
        """Make room for rows in ``n_slots`` slots, and, if ``spare``, for some more."""
        room = len(self.arrays.rows)
        if n_slots > room:
            self._adopt(layout.resize_held(self.arrays, max(n_slots, self._enlarge(room) if spare else 0)))

    def reserve(self, n: int) -> None:
        """Make room for n more cuts, boxes and leaves in each tree. A row adds at most one of each."""
        arrays = self.arrays
        need = find_largest(arrays.state["n_cuts"]) + n
        room = arrays.cuts.shape[1]
        if need > room:
            self._adopt(layout.resize_cuts(self.arrays, max(need, self._enlarge(room))))
        need = find_largest(arrays.state["n_boxes"]) + n
        room = arrays.boxes.shape[1]
        if need > room:
            self._adopt(layout.resize_boxes(self.arrays, max(need, self._enlarge(room))))
        need = find_largest(arrays.state["n_leaves"]) + n
        room = arrays.leaves.shape[1]
        if need > room:
            self._adopt(layout.resize_leaves(self.arrays, max(need, self._enlarge(room))))

    def _enlarge(self, room: int) -> int:
        """Return the room to make when there is not enough."""
        return int((1.5 if self.nbytes < GROW_BY_HALF_BELOW else 1.25) * room)

    def _get_scratch(self, k: int, n_rows: int) -> Scratch:
        """Return scratch space number k, with room for sets of ``n_rows`` rows."""
        while len(self._scratch) <= k:
            self._scratch.append(layout.make_scratch(1, self.n_features, 1))
        scratch = self._scratch[k]
        if len(scratch.rows) < n_rows or len(scratch.path) < self.arrays.cuts.shape[1] + 2:
            n_rows = max(n_rows, min(len(scratch.rows), 1024))
            scratch = self._scratch[k] = layout.make_scratch(n_rows, self.n_features, self.arrays.cuts.shape[1])
        return scratch

    def store(self, places: slice | np.ndarray, X: np.ndarray, y: Any, w: Any) -> None:
        """Write rows, as given, with labels and weights into slots that no tree holds. Nothing is known of them yet."""
        arrays = self.arrays
        if self.coordinates.uses_ranks:
            arrays.given[places] = X
            X = self.place(np.atleast_2d(X))
        arrays.rows[places] = X
        if arrays.labels.shape[1] == 2:
            arrays.labels[places, LABEL] = y
        else:
            arrays.labels[places, LABEL] = np.atleast_2d(y)[:, 0]
            arrays.labels[places, LABEL_WEIGHT + 1 :] = np.atleast_2d(y)[:, 1:]
        arrays.labels[places, LABEL_WEIGHT] = w
        if arrays.duals.shape[1]:
            arrays.duals[places] = 0.0
            arrays.residuals[places] = np.nan
            arrays.stds[places] = np.nan

    def store_given(self, slots: np.ndarray, given: np.ndarray) -> None:
        """Write rows, as given, into slots that no tree holds; labels stay as they are."""
        if self.coordinates.uses_ranks:
            self.arrays.given[slots] = given
        self.arrays.rows[slots] = self.coordinates.place(given)

    def clear_duals(self) -> None:
        """Set the duals of all rows to 0."""
        self.arrays.duals[:] = 0.0

    # ------------------------------------------------------------------------------------------------------------------
    # Running kernels

    def _resolve(self, entry: Any, *args: Any) -> Callable:
        """Return the compiled ``entry`` for these arguments. Types are tested once: those of a forest's arrays never change."""
        compiled = self._resolved.get(entry.__name__)
        if compiled is None:
            compiled = self._resolved[entry.__name__] = resolve(entry, args)
        return compiled

    def call(self, entry: Any, *args: Any) -> Any:
        """Call a kernel."""
        return self._resolve(entry, *args)(*args)

    def _for_trees(self, entry: Any, sizes: tuple[int, ...], n_rows: int, *args: Any) -> int:
        """Run a kernel on shares of the trees, in threads; return its largest result.

        Each thread gets one or two scratch spaces, for sets of these sizes. All are allocated before anything is changed.
        """
        n_shares = min(self.n_threads, self.n_trees) if n_rows * self.n_trees >= WORTH_THREADS else 1
        if n_shares == 1:
            scratch = [self._get_scratch(j, size) for j, size in enumerate(sizes)]
            return self.call(entry, self.arrays, *scratch, 0, self.n_trees, *args)
        scratches = [[self._get_scratch(2 * k + j, size) for j, size in enumerate(sizes)] for k in range(n_shares)]
        ends = [self.n_trees * k // n_shares for k in range(n_shares + 1)]

        def call(a: int, b: int) -> int:
            return max(self.call(entry, self.arrays, *scratches[k], ends[k], ends[k + 1], *args) for k in range(a, b))

        return max(run_parts(call, n_shares, n_shares, n_rows * self.n_trees))

    # ------------------------------------------------------------------------------------------------------------------
    # Changing trees

    def _bound_small_leaf(self) -> int:
        """Return a number of points that no leaf without a pending cut reaches."""
        return min(self.arrays.min_split, len(self.arrays.rows) + 1)

    def insert(self, slots: np.ndarray, budgets: np.ndarray, then: Callable[[], None] | None = None) -> None:
        """Insert the rows in ``slots`` into all trees; call ``then`` as soon as all have them.

        If memory runs out before that, no tree keeps any of them. If it runs out after that, some cuts that are due wait until
        rows are inserted again.
        """
        n = len(slots)
        if n > 1:  # for one row, the kernel tests whether there is room
            self.reserve(n)
        learned = np.zeros(self.n_trees, dtype=np.int64)
        size = n + self._bound_small_leaf()
        while True:
            try:
                lacking = self._for_trees(learn_rows, (size, n), n, slots, budgets, learned)
                if then is not None and (not lacking or learned.min() == n):
                    then()
                    then = None
                if not lacking:
                    return
                self.reserve(lacking)
            except MemoryError:
                if then is not None and learned.any():
                    self.remove(slots[::-1].copy(), n - learned)
                raise
            size = max(size, lacking)

    def remove(self, slots: np.ndarray, forgotten: np.ndarray | None = None) -> None:
        """Remove the rows in ``slots`` from all trees. The first ``forgotten[m]`` of them are already gone from tree m."""
        forgotten = np.zeros(self.n_trees, dtype=np.int64) if forgotten is None else forgotten
        size = self._bound_small_leaf()
        while lacking := self._for_trees(forget_rows, (size,), len(slots), slots, forgotten):
            size = max(lacking, 2 * size)

    def make_build_scratch(self, n: int) -> list[Scratch]:
        """Allocate scratch space for building trees of n rows, one per thread."""
        return [layout.make_scratch(n, self.n_features, 1) for _ in range(min(self.n_threads, self.n_trees))]

    def build(
        self, slots: np.ndarray, budget: float, scratches: list[Scratch], progress: Progress, poll: Poll = do_nothing
    ) -> None:
        """Build all trees from the rows in ``slots``, whatever they held before.

        ``poll`` is called after each tree that the calling thread builds. If it raises, the trees are of no use.
        """
        for _ in self.build_in_steps(slots, budget, scratches, progress, poll, self.n_trees):
            pass

    def build_in_steps(
        self,
        slots: np.ndarray,
        budget: float,
        scratches: list[Scratch],
        progress: Progress = SILENT,
        poll: Poll = do_nothing,
        at_once: int = 1,
    ) -> Iterator[int]:
        """Build all trees as `build` does, ``at_once`` of them in each step; yield how many were built."""
        n = len(slots)
        todo = list(range(self.n_trees))
        if self.arrays.cuts.shape[1] < n // 2 or self.arrays.leaves.shape[1] < n // 2:
            todo = self._probe(slots, budget, scratches, progress, poll)
            yield self.n_trees - len(todo)
        while todo:
            some, todo = todo[:at_once], todo[at_once:]
            missing = self._build_some(some, slots, budget, scratches, progress, poll)
            todo = missing + todo
            if missing:  # they lacked room
                self._adopt(layout.resize_cuts(self.arrays, int(1.2 * self.arrays.cuts.shape[1]) + 64))
                self._adopt(layout.resize_boxes(self.arrays, int(1.2 * self.arrays.boxes.shape[1]) + 64))
                self._adopt(layout.resize_leaves(self.arrays, int(1.2 * self.arrays.leaves.shape[1]) + 64))
            yield len(some)

    def _build_some(
        self,
        trees: list[int],
        slots: np.ndarray,
        budget: float,
        scratches: list[Scratch],
        progress: Progress,
        poll: Poll,
    ) -> list[int]:
        """Build some trees, each thread taking the next one when it is free; return those that lacked room."""
        n = len(slots)
        waiting, lock = iter(trees), threading.Lock()
        stop = threading.Event()
        compiled = self._resolve(build_trees, self.arrays, scratches[0], 0, 0, slots, budget)

        def next_tree() -> int | None:
            with lock:
                return next(waiting, None)

        def build(a: int, b: int) -> list[int]:
            missing = []
            for scratch in scratches[a:b]:
                while not stop.is_set() and (m := next_tree()) is not None:
                    if compiled(self.arrays, scratch, m, m + 1, slots, budget) == m:
                        missing.append(m)
                    else:
                        progress.advance(n * (m + 1) // self.n_trees - n * m // self.n_trees)
                    if a == 0:
                        poll()
            return missing

        parts = run_parts(build, len(scratches), len(scratches), n * len(trees), stop)
        return sorted(m for part in parts for m in part)

    def _probe(
        self, slots: np.ndarray, budget: float, scratches: list[Scratch], progress: Progress, poll: Poll
    ) -> list[int]:
        """Build the first trees, one per thread, with all the room they could need; make room for the others to be like them.

        Returns the trees that are still to be built. Most systems reserve addresses, and provide memory only for pages that
        are written to. (Building these trees elsewhere and copying them took a tenth of the time of `fit`, and more with two
        threads.)
        """
        n = len(slots)
        k = min(self.n_threads, self.n_trees)
        streams = self.get_streams()[:k]
        room = self._reserve_nodes(n + 1)
        while self._build_some(list(range(k)), slots, budget, scratches, SILENT, poll):
            # Less than that could be reserved, and it was not enough.
            self.arrays.state[:k] = layout.empty_state(streams)
            room += room // 2
            self.arrays = layout.reserve_nodes(self.arrays, room)
        progress.advance(n * k // self.n_trees)
        slack = 1.02 if n > 10_000 else 1.1
        n_cuts, n_boxes, n_leaves = (
            int(slack * self.arrays.state[name][:k].max()) + 16 for name in ("n_cuts", "n_boxes", "n_leaves")
        )
        self._adopt(layout.shrink_nodes(self.arrays, n_cuts, n_boxes, n_leaves, kept=k))
        return list(range(k, self.n_trees))

    def _reserve_nodes(self, n: int) -> int:
        """Reserve room for n cuts, boxes and leaves in each tree, or for as many as the system allows; return how many."""
        while True:
            try:
                self.arrays = layout.reserve_nodes(self.arrays, n)
                return n
            except MemoryError:
                if n < MIN_RESERVED_NODES:
                    raise
            n //= 2

    def _allocate_like(
        self, streams: np.ndarray, n_classes: int, n_outputs: int, n_columns: int, n_features: int | None = None
    ) -> TreeEnsemble:
        """Return empty trees of the same family, with these random streams, other labels, and perhaps other features."""
        own = self.arrays
        arrays = layout.allocate(
            family=own.family,
            min_split=own.min_split,
            redraw=bool(own.redraw),
            n_classes=n_classes,
            n_features=n_features or self.n_features,
            streams=streams,
            n_outputs=n_outputs,
            n_columns=n_columns,
        )
        other = TreeEnsemble(arrays)
        other.groups = self.groups
        other.n_threads = self.n_threads
        return other

    def make_sibling(self, streams: np.ndarray) -> TreeEnsemble:
        """Return empty trees for the same rows, with these random streams, and coordinates of their own."""
        own = self.arrays
        other = self._allocate_like(streams, own.n_classes, own.labels.shape[1] - 1, own.duals.shape[1])
        held = {name: getattr(own, name) for name in layout.BY_SLOT}
        links = layout.empty((len(streams), own.links.shape[1]), own.links.dtype)
        queue = layout.empty((len(streams), own.queue.shape[1]), own.queue.dtype)
        other.arrays = other.arrays._replace(links=links, queue=queue, **held)
        other.arrays.scaling[:] = own.scaling
        other.coordinates = self.coordinates
        return other

    def copy_rows(self) -> None:
        """Give trees from `make_sibling` arrays of rows of their own."""
        copies: dict[str, Any] = {
            name: layout.resize_rows(getattr(self.arrays, name), len(self.arrays.rows)) for name in layout.BY_SLOT
        }
        self.arrays = self.arrays._replace(**copies)

    def take_over(self, other: TreeEnsemble, *, kept: tuple[str, ...] = ()) -> None:
        """Replace these trees by others that hold the same rows in the same slots; arrays named in ``kept`` stay."""
        own: dict[str, Any] = {name: getattr(self.arrays, name) for name in kept}
        self.arrays, self.coordinates = other.arrays._replace(**own), other.coordinates

    def make_apart(self, streams: np.ndarray, X: np.ndarray, coordinates: Coordinates) -> TreeEnsemble:
        """Return empty trees of the same family for rows of their own, as given, in slots from 0 on, without labels."""
        other = self._allocate_like(streams, 0, 1, 1)
        other.make_room(len(X), spare=False)
        for name in layout.BY_SLOT:
            getattr(other.arrays, name)[:] = 0.0
        other.arrays.rows[: len(X)] = X
        other.set_coordinates(coordinates)
        return other

    def make_converted(self, slots: np.ndarray, X: np.ndarray, groups: np.ndarray | None) -> TreeEnsemble:
        """Return empty trees for the rows in ``slots`` with other features, X, and no trace of any other rows."""
        return self._convert(self.get_streams(), slots, X, groups)

    def _convert(
        self, streams: np.ndarray, slots: np.ndarray, X: np.ndarray, groups: np.ndarray | None
    ) -> TreeEnsemble:
        own = self.arrays
        other = self._allocate_like(streams, own.n_classes, own.labels.shape[1] - 1, own.duals.shape[1], X.shape[1])
        other.make_room(len(own.rows), spare=False)
        other.groups = groups
        for name in layout.BY_SLOT:
            array = getattr(other.arrays, name)
            array[:] = 0.0
            if name not in ("rows", "given"):
                array[slots] = getattr(own, name)[slots]
        other.arrays.rows[slots] = X
        return other

    def get_streams(self) -> np.ndarray:
        """Return the random streams of the trees, four words each."""
        return np.stack([self.arrays.state[f"s{k}"] for k in range(4)], axis=1)

    def set_streams(self, streams: np.ndarray) -> None:
        """Give the trees other random streams."""
        for k in range(4):
            self.arrays.state[f"s{k}"] = streams[:, k]

    def snapshot(self, n_slots: int, free: np.ndarray) -> TreeEnsemble:
        """Return a copy with arrays of its own, in which what is not in use, as the ``free`` ones of the slots, is zero."""
        other = copy(self)
        other._scratch = []
        other.arrays = arrays = layout.copy_arrays(self.arrays)
        for name in layout.BY_SLOT:
            getattr(arrays, name)[free] = 0.0
            getattr(arrays, name)[n_slots:] = 0.0
        wipe_trees(arrays, 0, self.n_trees, free)
        counts = {
            "n_cuts": ("cuts", "sums"),
            "n_boxes": ("boxes",),
            "n_leaves": ("leaves", "values"),
            "n_due": ("queue",),
        }
        for name, count in ((name, count) for count, names in counts.items() for name in names):
            for own, used in zip(getattr(arrays, name), arrays.state[count].tolist(), strict=True):
                own[used:] = np.zeros(1, own.dtype)
        return other

    def wipe_rows(self, slots: np.ndarray) -> None:
        """Overwrite rows and labels that no tree holds any longer, and drop the scratch space, which may hold copies of them."""
        for name in ("rows", "given", "labels"):
            getattr(self.arrays, name)[slots] = 0.0
        self._scratch = []

    def clear(self) -> None:
        """Empty the trees; their random streams go on."""
        self.arrays = self.arrays._replace(state=layout.empty_state(self.get_streams()))

    def insert_classes(self, places: np.ndarray, n_after: int, slots: np.ndarray) -> layout.ForestArrays:
        """Return arrays of ``n_after`` classes, of which class k is now class ``places[k]``. Rows are held in these slots.

        The trees stay as they are: nothing has changed if memory runs out.
        """
        values, labels = self.arrays.values, self.arrays.labels
        if values.shape[2] > 0:  # else values are joint
            values = layout.empty((*values.shape[:2], n_after), np.float64)
            values[:] = 0.0
            values[:, :, places] = self.arrays.values
        if (places != np.arange(len(places))).any():
            labels = layout.resize_rows(labels, len(labels))
            labels[slots, layout.LABEL] = places[labels[slots, layout.LABEL].astype(np.intp)]
        return self.arrays._replace(values=values, labels=labels, n_classes=n_after)

    def take_classes(self, widened: layout.ForestArrays, places: np.ndarray, slots: np.ndarray) -> None:
        """Take over arrays of more classes: those of `insert_classes`, with what belongs to them beside trees."""
        self.arrays = widened

    # ------------------------------------------------------------------------------------------------------------------
    # Reading trees

    def find_root_times(self) -> np.ndarray:
        """Return the time of the first cut of each tree; infinite for trees without one."""
        roots = self.arrays.state["root"].astype(np.int64)
        times = np.full(len(roots), np.inf)
        cut = np.flatnonzero(roots >= 0)
        times[cut] = self.arrays.cuts["time"][cut, roots[cut]]
        return times

    def place(self, X: np.ndarray) -> np.ndarray:
        """Return rows, as given, as the kernels that predict take them."""
        return layout.as_rows(self.coordinates.place(X))

    def set_coordinates(self, coordinates: Coordinates) -> None:
        """Convert the rows held to other coordinates. The trees must be built afresh."""
        arrays, before = self.arrays, self.coordinates
        if before.uses_ranks or coordinates.uses_ranks:
            given = arrays.given if before.uses_ranks else arrays.rows
            changed: dict[str, Any] = {"rows": given, "given": layout.empty((len(given), 0), np.float64)}
            if coordinates.uses_ranks:
                ranked = layout.empty(given.shape, np.float64)
                ranked[:] = coordinates.place(given)
                changed = {"rows": ranked, "given": given}
            self.arrays = arrays = arrays._replace(**changed)
        arrays.scaling[:] = coordinates.to_scaling()
        self.coordinates = coordinates

    def get_given(self) -> np.ndarray:
        """Return the rows by slot, as they were given."""
        return self.arrays.given if self.coordinates.uses_ranks else self.arrays.rows

    def _read_scratch(self, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return layout.make_read_scratch(n_rows, self.n_features, self.n_trees)

    def read_rows(self, call: Callable, n: int) -> None:
        """Run ``call(start, end, *scratch)`` for all of n rows, in threads."""

        def read(start: int, end: int) -> None:
            scratch = self._read_scratch(max(1, min(READ_AT_ONCE, end - start)))
            for s in range(start, end, READ_BLOCK):
                call(s, min(end, s + READ_BLOCK), *scratch)

        run_parts(read, n, self.n_threads, n * self.n_trees)

    def sum_leaves(self, X: np.ndarray, *, hard: bool = False) -> np.ndarray:
        """Return the sums over trees for each row: see `bspforest.engine.kernels.predict.add_leaf`."""
        out = np.zeros((len(X), self.arrays.n_classes + 1 if self.arrays.n_classes else N_SUMS))
        self.add_leaves(self.place(X), out, hard=hard)
        return out

    def add_leaves(self, placed: np.ndarray, out: np.ndarray, *, hard: bool = False) -> None:
        """Add what `sum_leaves` returns for rows from `place` to ``out``, tree after tree."""
        if len(placed) == 1:
            self.call(sum_leaves, self.arrays, placed, 0, 1, int(hard), out, *self._read_scratch(1))
            return
        self.read_rows(
            lambda a, b, *scratch: sum_leaves(self.arrays, placed, a, b, int(hard), out, *scratch), len(placed)
        )

    def sum_found_leaves(self, leaves: np.ndarray, out: np.ndarray) -> None:
        """Add to ``out`` what `sum_leaves` returns in regression, for rows with these leaves, as from `find_leaves`."""
        run_parts(
            lambda a, b: sum_found_leaves(self.arrays, leaves, a, b, out), len(leaves), self.n_threads, leaves.size
        )

    def find_leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf of each row in each tree, as the kernels number them."""
        X = self.place(X)
        out = np.empty((len(X), self.n_trees), dtype=np.int64)
        self.read_rows(lambda a, b, *scratch: find_all_leaves(self.arrays, X, a, b, out, *scratch), len(X))
        return out

    def leaf_points(self, leaves: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield, for each row of ``leaves``, the slots of the points in them and their shares of the weight of their leaf."""
        starts = np.zeros(len(leaves) + 1, dtype=np.int64)
        points = self.arrays.leaves, self.arrays.links, self.arrays.labels
        list_points(*points, leaves, np.empty(0, np.int32), np.empty(0), starts)
        np.cumsum(starts, out=starts)
        first = 0
        while first < len(leaves):
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + POINTS_AT_ONCE, side="right")) - 1)
            ends = starts[first : last + 1] - starts[first]
            slots, shares = np.empty(ends[-1], np.int32), np.empty(ends[-1])
            if len(slots):
                list_points(*points, leaves[first:last], slots, shares, ends)
            for a, b in pairwise(ends.tolist()):
                yield slots[a:b], shares[a:b]
            first = last

    def leaves_of_slots(self, m: int, leaves: np.ndarray) -> np.ndarray:
        """Return which of some leaves of tree m holds each slot; -1 for slots in none. All rings are followed at once."""
        arrays = self.arrays
        found = np.full(len(arrays.rows), -1)
        slots, left = arrays.leaves[m]["last"][leaves], arrays.leaves[m]["n_points"][leaves]
        while len(leaves):
            found[slots] = leaves
            more = left > 1
            leaves, slots, left = leaves[more], arrays.links[m][slots[more]], left[more] - 1
        return found

    def number_nodes(self, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the nodes of tree m from the root: references, parents, depths."""
        state = self.arrays.state[m]
        most = 2 * int(state["n_leaves"]) + 1
        nodes, parents, depths = (np.empty(most, dtype=np.int64) for _ in range(3))
        n = number_nodes(self.arrays.cuts[m], int(state["root"]), nodes, parents, depths)
        return nodes[:n], parents[:n], depths[:n]
