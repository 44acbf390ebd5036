"""The arrays that make up the trees of a forest, and the scratch space of its kernels.

Trees are a dozen arrays: the rows, stored once, and for each tree its cuts, leaves and lists of points. Row ``m`` of an array of
trees belongs to tree ``m``. Nodes are numbers:

- ``ref >= 0`` is a *cut node*: record ``cuts[ref]``, the box ``boxes[ref]`` around its points, and ``sums[ref]``;
- ``ref < 0`` is a *small leaf*: record ``leaves[~ref]``, fewer than ``min_split`` points, no box;
- ``NOTHING`` is no node: the root of a tree without points, and the second child of a pending cut.

A leaf of ``min_split`` points or more has a *pending* cut, its next one, later than the budget. It is stored as the cut node that
it may become: ``left`` is the leaf's reference, ``right`` is ``NOTHING``. Applying the cut means giving the record its two
children.

The points of a leaf form a ring through ``links``: ``leaves[k].last`` is the newest, ``links[last]`` the oldest. So a sliding
window finds the point to forget at once.

Words. A *row* is what was learned; its *slot* is its place in the arrays of rows, and is used again once it has left. A row in a tree is a
*point*, in scaled coordinates. A tree grows in *time*, from 0: each cut comes at a time of its own, later than that of its parent. The
*budget* is the time at which growing stops.

Trees know no labels. Each row may carry a few numbers, its *terms*, of which trees keep the sums over leaves (``leaf_sums``) and
over cut nodes (``sums``): that is how `bspforest.forest` predicts. A row carries K terms. Cut nodes have Q sums: as many, or none where nobody
reads them (leaf means). Terms of rows are 0 while they are inserted if cut nodes have sums.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .memory import empty, is_from_empty, resize_rows, resize_trees

NOTHING = -(2**31)

PAIRS, AXES, ISOTROPIC = 0, 1, 2

# Sides of a cut, and the parent of the root. Not literals: numba has a type for each literal, and compiles for each.
LEFT, RIGHT = np.int64(0), np.int64(1)
NOWHERE = np.int64(-1)

# Arrays with one entry per stored row, by slot.
BY_SLOT = ("rows", "terms")

# Arrays with one entry per cut node, and per leaf.
BY_CUT = ("cuts", "boxes", "sums")
BY_LEAF = ("leaves", "leaf_sums")

# Arrays that each tree has a part of.
BY_TREE = ("state", *BY_CUT, *BY_LEAF, "queue", "links")

# Rows of a box; isotropic cuts have a third one, their normal.
LOW, HIGH, NORMAL = 0, 1, 2

# Rows of ``scaling``: scaled coordinate = (x - shift) * scale.
SHIFT, SCALE = 0, 1


def record(*fields: tuple[str, type]) -> np.dtype:
    """Return a record type with C alignment, whose fields are attributes also where kernels run uncompiled."""
    return np.dtype((np.record, np.dtype(list(fields), align=True)))


# All that prediction reads of a node, in 64 bytes: one cache line. The cut is a*z[i] + b*z[j] = p in scaled coordinates; the
# four bounds are those of the points of the node in the two dimensions of its cut, rounded as in a box.
CUT = record(
    ("left", np.int32),
    ("right", np.int32),
    ("i", np.int32),
    ("j", np.int32),
    ("a", np.float64),
    ("b", np.float64),
    ("p", np.float64),
    ("time", np.float64),
    ("low_i", np.float32),
    ("high_i", np.float32),
    ("low_j", np.float32),
    ("high_j", np.float32),
)

LEAF = record(
    ("n_points", np.int32),
    ("last", np.int32),  # newest point of the ring; for a free record, the next free record
    ("due", np.int32),  # position in the queue of pending cuts, -1 if not in it
)

# The queue of pending cuts is a binary heap by time.
DUE = record(("time", np.float64), ("cut", np.int32), ("leaf", np.int32))

# What changes in a tree beside its nodes; s0 to s3 are its random stream.
STATE = record(
    ("s0", np.uint64),
    ("s1", np.uint64),
    ("s2", np.uint64),
    ("s3", np.uint64),
    ("root", np.int32),
    ("n_cuts", np.int32),  # records ever used; the free ones among them form a list through ``left``
    ("free_cut", np.int32),
    ("n_leaves", np.int32),
    ("free_leaf", np.int32),
    ("n_due", np.int32),
)


class ForestArrays(NamedTuple):
    """All trees of a forest. Shapes: M trees, room for C rows, d features."""

    family: int
    min_split: int
    state: np.ndarray  # (M,) STATE
    cuts: np.ndarray  # (M, .) CUT
    boxes: np.ndarray  # (M, ., 2, d) float32, low and high, rounded outwards; isotropic: a third row, the cut's normal
    sums: np.ndarray  # (M, ., Q) sums of terms over the rows of each cut node; Q is K, or 0 if nobody needs them
    leaves: np.ndarray  # (M, .) LEAF
    leaf_sums: np.ndarray  # (M, ., K) sums of terms over the rows of each leaf
    queue: np.ndarray  # (M, .) DUE
    links: np.ndarray  # (M, C) int32
    rows: np.ndarray  # (C, d) as given, or ranks; not scaled yet
    terms: np.ndarray  # (C, K) numbers that the rows carry
    scaling: np.ndarray  # (2, d) shift and scale


class TreeArrays(NamedTuple):
    """One tree of a `ForestArrays`: the same fields without the first axis, but for ``state``, which is written to."""

    family: int
    min_split: int
    state: np.ndarray
    cuts: np.ndarray
    boxes: np.ndarray
    sums: np.ndarray
    leaves: np.ndarray
    leaf_sums: np.ndarray
    queue: np.ndarray
    links: np.ndarray
    rows: np.ndarray
    terms: np.ndarray
    scaling: np.ndarray


# The larger side of a set always waits on the stack while the smaller is worked on, so the stack holds at most
# 1 + log2(2^31) sets.
STACK_SIZE = 40

# Walks that take turns: of rows of a chunk inserted into one tree, of one row inserted into several trees (32 gain 2% and
# need twice the space), and of prediction.
WAITING_ROWS = 8
WAITING_TREES = 16
PREDICTION_WALKS = 16

# Trees whose sums are added one after another. The sums of such blocks are added in pairs, and pairs of pairs: see
# `bspforest.forest.block_sums`. The result does not depend on the number of threads, nor on where the trees are.
TREES_PER_BLOCK = 4

# Nodes remembered of the path of a waiting insertion.
MAX_KNOWN_DEPTH = 40

# Rows of ``Scratch.points``: the point being removed, a point of the leaf of one being inserted, one whose side is tested.
PLACED, NEIGHBOUR, TESTED = 0, 1, 2

# A set of rows that is still to be built or inserted below ``parent``.
TASK = record(
    ("start", np.int64),
    ("end", np.int64),
    ("parent", np.int64),
    ("side", np.int64),
    ("time", np.float64),
    ("one_by_one", np.bool_),
)

# A row that waits to be inserted below ``parent``.
INSERTION = record(
    ("tree", np.int64),
    ("row", np.int64),
    ("parent", np.int64),
    ("side", np.int64),
    ("time", np.float64),
    ("depth", np.int64),  # nodes of its path that are known
    ("node", np.int64),  # where its walk is
    ("slot", np.int64),  # the last point prefetched there
)

# A walk down a tree: where it is, and the number of the row or insertion it is for.
WALK = record(("node", np.int64), ("number", np.int64))


class Scratch(NamedTuple):
    """Scratch space of one thread. Arrays are padded to cache lines to avoid false sharing."""

    state: np.ndarray  # (1,) STATE, of the tree being built
    rows: np.ndarray  # (., d) scaled rows of the set being built or partitioned
    slots: np.ndarray  # (.,) int32, where those rows are held
    sides: np.ndarray  # (.,) int8, the side of the cut each is on
    misplaced: np.ndarray  # (2, .) int32, those on the wrong side of the middle: of the left ones, of the right ones
    loose: np.ndarray  # (.,) int32, nodes whose boxes are to be made tight
    tasks: np.ndarray  # (STACK_SIZE,) TASK
    boxes: np.ndarray  # (STACK_SIZE, 2, d) boxes around the sets on the stack
    cut: np.ndarray  # (1,) CUT, the candidate
    normal: np.ndarray  # (d,) float32, its normal, isotropic only
    box: np.ndarray  # (2, d)
    points: np.ndarray  # (3, d) scaled points
    insertions: np.ndarray  # (WAITING_TREES,) INSERTION
    walks: np.ndarray  # (WAITING_TREES,) WALK
    paths: np.ndarray  # (WAITING_TREES, MAX_KNOWN_DEPTH) int32, the first nodes on the path of each insertion
    path: np.ndarray  # (.,) nodes from the root; no path is longer than the number of cuts
    stack: np.ndarray  # (.,) nodes still to be searched


def align(forest: ForestArrays) -> ForestArrays:
    """Return the forest with all arrays aligned to cache lines, and all records of aligned types.

    A pickle keeps neither. Numba takes records that are not aligned for another type, and would compile everything again.
    """
    kinds = {"state": STATE, "cuts": CUT, "leaves": LEAF, "queue": DUE}
    changed: dict[str, Any] = {}
    for name in BY_TREE:
        array = getattr(forest, name)
        if name == "state" or not is_from_empty(array) or array.dtype.isalignedstruct != (name in kinds):
            changed[name] = empty(array.shape, kinds.get(name, array.dtype))
            changed[name][:] = array
    for name in (*BY_SLOT, "scaling"):
        array = getattr(forest, name)
        if not is_from_empty(array) or not array.flags.writeable:  # from a memory-mapped file
            changed[name] = resize_rows(array, len(array))
    return forest._replace(**changed)


def copy_arrays(forest: ForestArrays) -> ForestArrays:
    """Return the same forest in arrays of its own."""
    arrays = ((name, array) for name, array in forest._asdict().items() if isinstance(array, np.ndarray))
    copies: dict[str, Any] = {name: copy_array(array) for name, array in arrays}
    return forest._replace(**copies)


def copy_array(array: np.ndarray) -> np.ndarray:
    """Return a copy, aligned to cache lines."""
    new = empty(array.shape, array.dtype)
    new[:] = array
    return new


def make_scratch(n_rows: int, n_features: int, n_cuts: int) -> Scratch:
    """Allocate scratch space for sets of up to ``n_rows`` rows in trees of up to ``n_cuts`` cuts."""
    return Scratch(
        state=empty((1,), STATE),
        rows=empty((n_rows, n_features), np.float64),
        slots=empty((n_rows,), np.int32),
        sides=empty((n_rows,), np.int8),
        misplaced=empty((2, n_rows + 1), np.int32),
        loose=empty((n_rows,), np.int32),
        tasks=empty((STACK_SIZE,), TASK),
        boxes=empty((STACK_SIZE, 2, n_features), np.float64),
        cut=empty((1,), CUT),
        normal=empty((n_features,), np.float32),
        box=empty((2, n_features), np.float64),
        points=empty((3, n_features), np.float64),
        insertions=empty((WAITING_TREES,), INSERTION),
        walks=empty((WAITING_TREES,), WALK),
        paths=empty((WAITING_TREES, MAX_KNOWN_DEPTH), np.int32),
        path=empty((n_cuts + 2,), np.int64),
        stack=empty((n_cuts + 2,), np.int64),
    )


def empty_state(streams: np.ndarray) -> np.ndarray:
    """Return the state of trees without nodes, with these random streams: four words per tree."""
    state = empty((len(streams),), STATE)
    state[:] = np.zeros(1, dtype=STATE)
    for k in range(4):
        state[f"s{k}"] = streams[:, k]
    state["root"] = NOTHING
    state["free_cut"] = -1
    state["free_leaf"] = -1
    return state


def allocate(
    *, family: int, min_split: int, n_features: int, streams: np.ndarray, n_terms: int = 0, sums_nodes: bool = False
) -> ForestArrays:
    """Allocate empty trees that hold no rows, one per row of ``streams``.

    Rows carry ``n_terms`` numbers, which leaves add up, and, if ``sums_nodes``, cut nodes too.
    """
    n_trees = len(streams)
    n_bounds = 3 if family == ISOTROPIC else 2
    return ForestArrays(
        family=family,
        min_split=min_split,
        state=empty_state(streams),
        cuts=empty((n_trees, 1), CUT),
        boxes=empty((n_trees, 1, n_bounds, n_features), np.float32),
        sums=empty((n_trees, 1, n_terms if sums_nodes else 0), np.float64),
        leaves=empty((n_trees, 1), LEAF),
        leaf_sums=empty((n_trees, 1, n_terms), np.float64),
        queue=empty((n_trees, 1), DUE),
        links=empty((n_trees, 1), np.int32),
        rows=empty((1, n_features), np.float64),
        terms=empty((1, n_terms), np.float64),
        scaling=resize_rows(np.repeat(np.array([[0.0], [1.0]]), n_features, axis=1), 2),
    )


@cache
def example_forest() -> ForestArrays:
    """Return a forest of one tree, for the types of its arrays: those of all forests are the same."""
    streams = np.zeros((1, 4), np.uint64)
    return allocate(family=PAIRS, min_split=2, n_features=1, streams=streams)


def example_tree() -> TreeArrays:
    """Return a tree, for the types of its arrays."""
    forest = example_forest()
    own: dict[str, Any] = {name: getattr(forest, name)[0] for name in BY_TREE}
    return TreeArrays(**{**forest._asdict(), **own, "state": forest.state[:1]})


def example_scratch() -> Scratch:
    """Return scratch space, for the types of its arrays."""
    return make_scratch(1, 1, 1)


def freeze(array: np.ndarray) -> np.ndarray:
    """Return a read-only view. Numba has different types for writeable and read-only arrays, and compiles for each."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_rows(X: np.ndarray) -> np.ndarray:
    """Return rows as the kernels that predict take them: float64, contiguous, read-only."""
    return freeze(np.ascontiguousarray(X, dtype=np.float64))


def make_read_scratch(n_rows: int, n_features: int, n_trees: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Allocate scratch space to predict ``n_rows`` rows at a time: scaled rows, leaves, walks.

    Ridge predictions need the place of each of `PREDICTION_WALKS` walks and the node above it instead of leaves.
    """
    rows = np.empty((n_rows, n_features))
    found = np.empty(max(n_rows, n_trees, 2 * PREDICTION_WALKS), dtype=np.int64)
    return rows, found, np.empty(PREDICTION_WALKS, dtype=WALK)


def example_rows() -> np.ndarray:
    """Return rows to predict, for their type."""
    return as_rows(np.empty((1, 1)))


def example_read_scratch() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scratch space for prediction, for the types of its arrays."""
    return make_read_scratch(1, 1, 1)


def resize(
    forest: ForestArrays, n_cuts: int | None = None, n_leaves: int | None = None, n_rows: int | None = None
) -> ForestArrays:
    """Return the forest with room for so many cuts and leaves in each tree, and so many rows, keeping what fits.

    A leaf with a pending cut has at least ``min_split`` points, which bounds the queue.
    """
    n_due = None if n_rows is None else n_rows // forest.min_split + 1
    capacities = {**dict.fromkeys(BY_CUT, n_cuts), **dict.fromkeys(BY_LEAF, n_leaves), "links": n_rows, "queue": n_due}
    changed: dict[str, Any] = {name: resize_trees(getattr(forest, name), n) for name, n in capacities.items() if n}
    if n_rows is not None:
        changed |= {name: resize_rows(getattr(forest, name), n_rows) for name in BY_SLOT}
    return forest._replace(**changed)
