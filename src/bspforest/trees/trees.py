"""All trees of a forest: allocate their arrays, and run kernels on them in threads.

Rows are known by their slots here. `bspforest.forest.forest.OnlineForest` decides which rows are held, with which budget
and scaling.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ..progress import SILENT, Progress
from . import layout
from .coordinates import Coordinates
from .kernels.build import build_trees
from .kernels.forget import forget_rows
from .kernels.jit import resolve
from .kernels.learn import learn_chunk, learn_row
from .kernels.predict import find_all_leaves, list_points, number_nodes
from .layout import ForestArrays, Scratch
from .memory import resize_rows
from .parallel import WORTH_THREADS, run_parts

# Forests of less than this many bytes grow by half, larger ones by a quarter.
GROW_BY_HALF_BELOW = 2**28

# Rows predicted per call of a kernel, between two chances to interrupt it; and per pass over a tree.
READ_BLOCK = 65_536
READ_AT_ONCE = 512

# Nodes of at least m points, per row and times m, in trees that are cut until few points are left. It would be 2 if all sizes of
# the two sides of a cut were equally likely. Measured with uniform, normal and real rows of 2 to 256 features: 2.0 to 2.2 for
# m from 4 to 6, 2.15 to 2.6 for m = 16.
NODES, MORE_NODES_PER_POINT = 2.1, 0.025

# Room that is reserved to build a tree, relative to `count_nodes`, and the least by which it is enlarged.
SPARE_NODES, MORE_NODES = 1.1, 64


def count_nodes(min_split: int) -> float:
    """Return how many nodes have at least so many points, per row, in trees that are cut until few points are left."""
    return min(1.0, (NODES + MORE_NODES_PER_POINT * min(max(min_split - 6, 0), 10)) / min_split)


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
    given : ndarray of shape (slots, d)
        The rows as they were given: the rows of the arrays, unless coordinates are ranks.
    groups : ndarray of shape (n_features,) or None
        Features with the same number share a weight.
    """

    def __init__(self, arrays: ForestArrays) -> None:
        self.arrays = arrays
        self.coordinates = Coordinates.unscaled(arrays.rows.shape[1])
        self.given = arrays.rows
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
    def nbytes(self) -> int:
        """Memory in bytes, rows included."""
        given = self.given.nbytes if self.coordinates.uses_ranks else 0
        return given + sum(a.nbytes for a in self.arrays if isinstance(a, np.ndarray))

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        state["_scratch"] = []
        state["_resolved"] = {}
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self.arrays = layout.align(self.arrays)
        if not self.coordinates.uses_ranks:
            self.given = self.arrays.rows

    # ------------------------------------------------------------------------------------------------------------------
    # Room

    def make_room(self, n_slots: int, *, spare: bool) -> None:
        """Make room for rows in ``n_slots`` slots, and, if ``spare``, for some more."""
        room = len(self.arrays.rows)
        if n_slots <= room:
            return
        capacity = max(n_slots, self._enlarge(room) if spare else 0)
        arrays = layout.resize(self.arrays, n_rows=capacity)
        self.given = resize_rows(self.given, capacity) if self.coordinates.uses_ranks else arrays.rows
        self.arrays = arrays

    def reserve(self, n: int) -> None:
        """Make room for n more cuts and leaves in each tree. A row adds at most one of each."""
        arrays = self.arrays
        rooms = []
        for name, room in (("n_cuts", arrays.cuts.shape[1]), ("n_leaves", arrays.leaves.shape[1])):
            need = find_largest(arrays.state[name]) + n
            rooms.append(max(need, self._enlarge(room)) if need > room else None)
        if any(rooms):
            self.arrays = layout.resize(arrays, *rooms)

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

    def store(self, places: slice | np.ndarray, X: np.ndarray) -> None:
        """Write rows, as given, into slots that no tree holds. Their terms are 0."""
        self.given[places] = X
        if self.coordinates.uses_ranks:
            self.arrays.rows[places] = self.place(np.atleast_2d(X))
        self.arrays.terms[places] = 0.0

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

    def insert(self, slots: np.ndarray, budget: float) -> None:
        """Insert the rows in ``slots`` into all trees, and cut up to a budget."""
        n = len(slots)
        if n > 1:  # for one row, the kernel tests whether there is room
            self.reserve(n)
        learned = np.zeros(self.n_trees, dtype=np.int64)
        size = n + self._bound_small_leaf()
        kernel = learn_row if n == 1 else learn_chunk
        while lacking := self._for_trees(kernel, (size, n), n, slots, budget, learned):
            self.reserve(lacking)
            size = max(size, lacking)

    def remove(self, slots: np.ndarray) -> None:
        """Remove the rows in ``slots`` from all trees."""
        forgotten = np.zeros(self.n_trees, dtype=np.int64)
        size = self._bound_small_leaf()
        while lacking := self._for_trees(forget_rows, (size,), len(slots), slots, forgotten):
            size = max(lacking, 2 * size)

    def build(self, slots: np.ndarray, budget: float, progress: Progress = SILENT) -> None:
        """Build all trees from the rows in ``slots``, whatever they held before.

        Room for nodes is estimated, and reserved for all trees. Most systems provide memory only for pages that are written to, so
        too much room costs little until it is given back.
        """
        n = len(slots)
        n_threads = min(self.n_threads, self.n_trees)
        scratches = [layout.make_scratch(n, self.n_features, 1) for _ in range(n_threads)]
        room = min(n, int(SPARE_NODES * count_nodes(self.arrays.min_split) * n)) + MORE_NODES
        self.drop()
        self.arrays = layout.resize(self.arrays, room, room + 1)
        todo = list(range(self.n_trees))
        while todo := self._build_some(todo, slots, budget, scratches, progress):  # they lacked room
            room += room // 4
            self.arrays = layout.resize(self.arrays, room, room + 1)
        used = [find_largest(self.arrays.state[name]) for name in ("n_cuts", "n_leaves")]
        if used[0] < room // 2:
            self.arrays = layout.resize(self.arrays, *(n + n // 10 + 1 for n in used))

    def _build_some(
        self,
        trees: list[int],
        slots: np.ndarray,
        budget: float,
        scratches: list[Scratch],
        progress: Progress,
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
            return missing

        parts = run_parts(build, len(scratches), len(scratches), n * len(trees), stop)
        return sorted(m for part in parts for m in part)

    def make_apart(self, streams: np.ndarray, X: np.ndarray, coordinates: Coordinates) -> TreeEnsemble:
        """Return empty trees of the same family for rows of their own, as given, in slots from 0 on; they carry no terms."""
        other = self._allocate_like(streams, X.shape[1], n_terms=0)
        other.make_room(len(X), spare=False)
        other.given[: len(X)] = X
        other.set_coordinates(coordinates)
        return other

    def make_converted(self, slots: np.ndarray, X: np.ndarray, groups: np.ndarray | None) -> TreeEnsemble:
        """Return empty trees for the rows in ``slots`` with other features, X, and no trace of any other rows. Terms are 0."""
        return self._convert(self.get_streams(), slots, X, groups)

    def _convert(
        self, streams: np.ndarray, slots: np.ndarray, X: np.ndarray, groups: np.ndarray | None
    ) -> TreeEnsemble:
        own = self.arrays
        other = self._allocate_like(streams, X.shape[1], n_terms=own.terms.shape[1])
        other.make_room(len(own.rows), spare=False)
        other.groups = groups
        other.arrays.rows[:] = other.arrays.terms[:] = 0.0
        other.arrays.rows[slots] = X
        return other

    def _allocate_like(self, streams: np.ndarray, n_features: int, n_terms: int) -> TreeEnsemble:
        """Return empty trees of the same family, with these random streams, and rows with other features and terms."""
        own = self.arrays
        other = TreeEnsemble(
            layout.allocate(
                family=own.family,
                min_split=own.min_split,
                n_features=n_features,
                streams=streams,
                n_terms=n_terms,
                sums_nodes=own.sums.shape[2] > 0,
            )
        )
        other.groups, other.n_threads = self.groups, self.n_threads
        return other

    def write_terms(self, slots: np.ndarray, terms: np.ndarray) -> None:
        """Let the rows in ``slots``, which no tree holds, carry these numbers."""
        self.arrays.terms[slots] = terms

    def map_terms(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Apply a linear ``change`` of columns to the terms of all rows and to their sums."""
        names = ("terms", "sums", "leaf_sums")
        changed: dict[str, Any] = {name: layout.copy_array(change(getattr(self.arrays, name))) for name in names}
        self.arrays = self.arrays._replace(**changed)

    def reset_terms(self, n_terms: int) -> None:
        """Let all rows carry so many zeros. Trees must be empty."""
        own = self.arrays
        n_sums = n_terms if own.sums.shape[2] else 0
        terms = layout.empty((len(own.rows), n_terms), np.float64)
        terms[:] = 0.0
        sums = layout.empty((*own.cuts.shape, n_sums), np.float64)
        self.arrays = own._replace(
            terms=terms, sums=sums, leaf_sums=layout.empty((*own.leaves.shape, n_terms), np.float64)
        )

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
        room = max(1, n_slots)
        n_cuts, n_leaves = (max(1, find_largest(self.arrays.state[name])) for name in ("n_cuts", "n_leaves"))
        arrays = layout.resize(self.arrays, n_cuts, n_leaves, room)  # copies what is in use only
        state, scaling = layout.copy_array(arrays.state), layout.copy_array(arrays.scaling)
        other.arrays = arrays = arrays._replace(state=state, scaling=scaling)
        other.given = resize_rows(self.given, room) if self.coordinates.uses_ranks else arrays.rows
        for array in (*(getattr(arrays, name) for name in layout.BY_SLOT), other.given):
            array[free] = 0.0
            array[n_slots:] = 0.0
        arrays.links[:, free] = 0
        counts = {"n_cuts": layout.BY_CUT, "n_leaves": layout.BY_LEAF, "n_due": ("queue",)}
        for name, count in ((name, count) for count, names in counts.items() for name in names):
            for own, used in zip(getattr(arrays, name), arrays.state[count].tolist(), strict=True):
                own[used:] = np.zeros(1, own.dtype)
        return other

    def wipe_rows(self, slots: np.ndarray) -> None:
        """Overwrite rows that no tree holds any longer, and drop the scratch space, which may hold copies of them."""
        self.given[slots] = self.arrays.rows[slots] = self.arrays.terms[slots] = 0.0
        self._scratch = []

    def clear(self) -> None:
        """Empty the trees; their random streams go on."""
        self.arrays = self.arrays._replace(state=layout.empty_state(self.get_streams()))

    def drop(self) -> None:
        """Empty the trees, and return the memory of their nodes."""
        self.clear()
        self.arrays = layout.resize(self.arrays, 1, 1)

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
        """Convert the stored rows to other coordinates. The trees must then be built again."""
        rows = self.given
        if coordinates.uses_ranks:
            rows = layout.empty(self.given.shape, np.float64)
            rows[:] = coordinates.place(self.given)
        self.arrays = self.arrays._replace(rows=rows, family=coordinates.family)
        self.arrays.scaling[:] = coordinates.to_scaling()
        self.coordinates = coordinates

    def _read_scratch(self, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return layout.make_read_scratch(n_rows, self.n_features, self.n_trees)

    def read_rows(self, call: Callable, n: int) -> None:
        """Run ``call(start, end, *scratch)`` for all of n rows, in threads."""

        def read(start: int, end: int) -> None:
            scratch = self._read_scratch(max(1, min(READ_AT_ONCE, end - start)))
            for s in range(start, end, READ_BLOCK):
                call(s, min(end, s + READ_BLOCK), *scratch)

        run_parts(read, n, self.n_threads, n * self.n_trees)

    def find_leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf of each row in each tree, as the kernels number them."""
        X = self.place(X)
        out = np.empty((len(X), self.n_trees), dtype=np.int64)
        self.read_rows(lambda a, b, *scratch: find_all_leaves(self.arrays, X, a, b, out, *scratch), len(X))
        return out

    def list_points(self, trees: np.ndarray, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots of the points in ``leaves[k]`` of ``trees[k]``, for one k after another, and where those of each start."""
        arrays = self.arrays
        starts = np.zeros(len(leaves) + 1, np.int64)
        np.cumsum(arrays.leaves["n_points"][trees, leaves], out=starts[1:])
        slots = np.empty(starts[-1], np.int32)
        self.call(list_points, arrays.leaves, arrays.links, trees, leaves, starts, slots)
        return slots, starts

    def number_nodes(self, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the nodes of tree m from the root: references, parents, depths."""
        state = self.arrays.state[m]
        most = 2 * int(state["n_leaves"]) + 1
        nodes, parents, depths = (np.empty(most, dtype=np.int64) for _ in range(3))
        n = number_nodes(self.arrays.cuts[m], int(state["root"]), nodes, parents, depths)
        return nodes[:n], parents[:n], depths[:n]
