"""The arrays a forest is made of.

Everything a forest knows is in a dozen arrays: the rows, held once, and for each tree its cuts, leaves and lists of
points. Row ``m`` of an array of trees belongs to tree ``m``. Nodes are numbers:

- ``ref >= 0`` is a *cut node*: record ``cuts[ref]`` with the box ``boxes[ref]`` around its points;
- ``ref < 0`` is a *small leaf*: record ``leaves[~ref]``, fewer than ``min_samples_split`` points, no box;
- ``NOTHING`` is the root of a tree without points.

A leaf of ``min_samples_split`` points or more has a *pending* cut (design: a leaf's next cut, later than the budget), and
is stored as the cut node it may become: ``left`` is the leaf's reference, ``right`` is ``NOTHING``. Carrying the cut out
means giving the record its two children.

Points of a leaf form a ring through ``links``: ``leaves[k].last`` is the newest, ``links[last]`` the oldest. So a sliding
window finds the point to forget at the head of the ring.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .memory import cut_down, empty, is_own, resize_rows, resize_trees

NOTHING = -(2**31)

PAIRS, AXES, ISOTROPIC = 0, 1, 2

# Sides of a cut, and the parent of the root. Numba has a type for each literal, and compiles for each; not for these.
LEFT, RIGHT = np.int64(0), np.int64(1)
NOWHERE = np.int64(-1)


# Label statistics of a leaf in regression: total weight, weighted mean, weighted sum of squares about it. In classification there
# is one weight per class instead.
WEIGHT, MEAN, SQUARES = 0, 1, 2

# Columns of ``labels``.
LABEL, LABEL_WEIGHT = 0, 1


def record(*fields: tuple[str, type]) -> np.dtype:
    """A record type with C alignment, whose fields read as attributes also where kernels run uncompiled."""
    return np.dtype((np.record, np.dtype(list(fields), align=True)))


# 64 bytes, one cache line: all that prediction reads of a node. The cut is a*z[i] + b*z[j] = p in scaled coordinates; the
# four bounds repeat the node's box in the two dimensions of its own cut.
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
    ("due", np.int32),  # place in the queue of pending cuts, -1 if not in it
)

# The queue of pending cuts is a binary heap by time.
DUE = record(("time", np.float64), ("cut", np.int32), ("leaf", np.int32))

# All that changes in a tree beside its nodes; s0 to s3 are its random stream.
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
    """All trees, as the kernels see them. The shapes: M trees, C rows held at most, d features, K label statistics."""

    family: int
    min_split: int
    redraw: int
    n_classes: int  # 0 in regression
    state: np.ndarray  # (M,) STATE
    cuts: np.ndarray  # (M, .) CUT
    boxes: np.ndarray  # (M, ., 2, d) float32, low and high, rounded outwards; isotropic: a third row, the cut's normal
    leaves: np.ndarray  # (M, .) LEAF
    values: np.ndarray  # (M, ., K): class weights, or total weight, mean and weighted sum of squares about it
    queue: np.ndarray  # (M, .) DUE
    links: np.ndarray  # (M, C) int32
    rows: np.ndarray  # (C, d) as given by the user
    labels: np.ndarray  # (C, 2) label (or index of the class) and weight
    scaling: np.ndarray  # (2, d) scaled coordinate = (x - scaling[0]) * scaling[1]


class TreeArrays(NamedTuple):
    """One tree of a `ForestArrays`: the same fields without the first axis; ``state`` keeps it, to be written through."""

    family: int
    min_split: int
    redraw: int
    n_classes: int
    state: np.ndarray
    cuts: np.ndarray
    boxes: np.ndarray
    leaves: np.ndarray
    values: np.ndarray
    queue: np.ndarray
    links: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    scaling: np.ndarray


class Scratch(NamedTuple):
    """Scratch space of one thread. No 64 bytes that one cache line holds are another's too: threads that write to the same line wait for each other."""

    state: np.ndarray  # (1,) STATE, of the tree being built
    rows: np.ndarray  # (., d) scaled rows of the set being built or shared out
    slots: np.ndarray  # (.,) where those rows are held
    sides: np.ndarray  # (.,) int8, the side each is on
    misplaced: np.ndarray  # (2, .) int32, those on the wrong side
    loose: np.ndarray  # (.,) int32, nodes whose boxes are to be made tight
    tasks: np.ndarray  # (STACK, 4) start, end, parent, side
    boxes: np.ndarray  # (STACK, 2, d) boxes around the sets on the stack
    times: np.ndarray  # (STACK,)
    cut: np.ndarray  # (1,) CUT, the candidate
    normal: np.ndarray  # (d,) float32, its normal, isotropic only
    box: np.ndarray  # (2, d)
    point: np.ndarray  # (3, d) scaled points: one being placed, one of its leaf, one being asked
    lanes: np.ndarray  # (4, TREES) rows that wait to be inserted: tree, row, parent, side
    lane_times: np.ndarray  # (TREES,)
    walks: np.ndarray  # (4, TREES) their walks, which take turns
    paths: np.ndarray  # (TREES, PATH) the first nodes on the way of each
    path: np.ndarray  # (.,) nodes from the root; no path is longer than the number of cuts
    ask: np.ndarray  # (.,) nodes still to be asked


# The larger part of a set always waits on the stack while the smaller is worked on, so the stack holds at most
# 1 + log2(2^31) sets.
STACK = 40

# Rows inserted into a tree whose walks down it take turns, rows asked so, and walks of one row down as many trees (32 gain 2% and
# need twice the space).
LANES = 8
READERS = 16
TREES = 16

# So many nodes of each such walk are remembered.
PATH = 40


def align(forest: ForestArrays) -> ForestArrays:
    """The forest with all its arrays beginning at cache lines and its records aligned, as elsewhere they may not be.

    Files forget both. To numba records that are not aligned are of another type, for which it would compile everything again.
    """
    kinds = {"state": STATE, "cuts": CUT, "leaves": LEAF, "queue": DUE}
    changed: dict[str, Any] = {}
    for name in ("state", "cuts", "boxes", "leaves", "values", "queue", "links"):
        array = getattr(forest, name)
        if name == "state" or not is_own(array) or array.dtype.isalignedstruct != (name in kinds):
            changed[name] = empty(array.shape, kinds.get(name, array.dtype))
            changed[name][:] = array
    for name in ("rows", "labels", "scaling"):
        array = getattr(forest, name)
        if not is_own(array) or not array.flags.writeable:  # that is of a file that is mapped into memory
            changed[name] = resize_rows(array, len(array))
    return forest._replace(**changed)


def copy_arrays(forest: ForestArrays) -> ForestArrays:
    """Return the same forest in arrays of its own."""
    copies: dict[str, Any] = {}
    for name, array in forest._asdict().items():
        if isinstance(array, np.ndarray):
            copies[name] = empty(array.shape, array.dtype)
            copies[name][:] = array
    return forest._replace(**copies)


def make_scratch(n_rows: int, n_features: int, n_cuts: int) -> Scratch:
    """Scratch space for sets of up to ``n_rows`` rows in trees of up to ``n_cuts`` cuts."""
    return Scratch(
        state=empty((1,), STATE),
        rows=empty((n_rows, n_features), np.float64),
        slots=empty((n_rows,), np.int32),
        sides=empty((n_rows,), np.int8),
        misplaced=empty((2, n_rows + 1), np.int32),
        loose=empty((n_rows,), np.int32),
        boxes=empty((STACK, 2, n_features), np.float64),
        tasks=empty((STACK, 4), np.int64),
        times=empty((STACK,), np.float64),
        cut=empty((1,), CUT),
        normal=empty((n_features,), np.float32),
        box=empty((2, n_features), np.float64),
        point=empty((3, n_features), np.float64),
        lanes=empty((4, TREES), np.int64),
        lane_times=empty((TREES,), np.float64),
        walks=empty((4, TREES), np.int64),
        paths=empty((TREES, PATH), np.int32),
        path=empty((n_cuts + 2,), np.int64),
        ask=empty((n_cuts + 2,), np.int64),
    )


def empty_state(streams: np.ndarray) -> np.ndarray:
    """Trees without nodes, with these random streams, one row of four words a tree."""
    state = empty((len(streams),), STATE)
    state[:] = np.zeros(1, dtype=STATE)
    for k in range(4):
        state[f"s{k}"] = streams[:, k]
    state["root"] = NOTHING
    state["free_cut"] = -1
    state["free_leaf"] = -1
    return state


def allocate(
    *, family: int, min_split: int, redraw: bool, n_classes: int, n_features: int, streams: np.ndarray
) -> ForestArrays:
    """A forest of empty trees that hold no rows, one tree for each row of ``streams``."""
    n_trees = len(streams)
    n_values = n_classes or 3
    n_bounds = 3 if family == ISOTROPIC else 2
    return ForestArrays(
        family=family,
        min_split=min_split,
        redraw=int(redraw),
        n_classes=n_classes,
        state=empty_state(streams),
        cuts=empty((n_trees, 1), CUT),
        boxes=empty((n_trees, 1, n_bounds, n_features), np.float32),
        leaves=empty((n_trees, 1), LEAF),
        values=empty((n_trees, 1, n_values), np.float64),
        queue=empty((n_trees, 1), DUE),
        links=empty((n_trees, 1), np.int32),
        rows=empty((1, n_features), np.float64),
        labels=empty((1, 2), np.float64),
        scaling=resize_rows(np.repeat(np.array([[0.0], [1.0]]), n_features, axis=1), 2),
    )


@cache
def example_forest() -> ForestArrays:
    """A forest of one tree, for the types of its arrays: those of all forests are the same."""
    streams = np.zeros((1, 4), np.uint64)
    return allocate(family=PAIRS, min_split=2, redraw=False, n_classes=0, n_features=1, streams=streams)


def example_tree() -> TreeArrays:
    forest = example_forest()
    own: dict[str, Any] = {name: getattr(forest, name)[0] for name in ForestArrays._fields[5:11]}
    return TreeArrays(*forest)._replace(state=forest.state[:1], **own)


def example_scratch() -> Scratch:
    return make_scratch(1, 1, 1)


def freeze(array: np.ndarray) -> np.ndarray:
    """Return a read-only view. Numba has one type for arrays that may be written to, another for those that may not."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_rows(X: np.ndarray) -> np.ndarray:
    """Return rows as the kernels that predict take them: float64, contiguous, read-only."""
    return freeze(np.ascontiguousarray(X, dtype=np.float64))


def make_read_scratch(n_rows: int, n_features: int, n_trees: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Allocate scratch space to predict ``n_rows`` rows at a time: scaled rows, leaves, walks."""
    rows = np.empty((n_rows, n_features))
    found = np.empty(max(n_rows, n_trees), dtype=np.int64)
    return rows, found, np.empty((2, READERS), dtype=np.int64)


def example_rows() -> np.ndarray:
    return as_rows(np.empty((1, 1)))


def example_read_scratch() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return make_read_scratch(1, 1, 1)


def resize_cuts(forest: ForestArrays, capacity: int) -> Iterator[ForestArrays]:
    """Room for ``capacity`` cut nodes in each tree.

    This, `resize_leaves` and `resize_held` yield the forest after each array, because the array that was there is no longer valid,
    even if there is not enough memory for the next one; so does `cut_down_nodes`. Kernels look at the sizes of cuts and leaves only,
    which grow last and shrink first.
    """
    return _resize(forest, boxes=capacity, cuts=capacity)


def resize_leaves(forest: ForestArrays, capacity: int) -> Iterator[ForestArrays]:
    """Room for ``capacity`` leaves in each tree."""
    return _resize(forest, values=capacity, leaves=capacity)


def reserve_nodes(forest: ForestArrays, capacity: int) -> ForestArrays:
    """Room for ``capacity`` cuts and leaves in each tree, in place of those that are there."""
    names = ("cuts", "boxes", "leaves", "values")
    arrays = {name: getattr(forest, name) for name in names}
    changed: dict[str, Any] = {
        name: empty((len(array), capacity, *array.shape[2:]), array.dtype) for name, array in arrays.items()
    }
    return forest._replace(**changed)


def cut_down_nodes(forest: ForestArrays, n_cuts: int, n_leaves: int, kept: int) -> Iterator[ForestArrays]:
    """Room for so many cuts and leaves in each tree, of more, without copying; the first ``kept`` trees are kept."""
    for name, capacity in (("cuts", n_cuts), ("boxes", n_cuts), ("leaves", n_leaves), ("values", n_leaves)):
        if capacity < getattr(forest, name).shape[1]:
            changed: dict[str, Any] = {name: cut_down(getattr(forest, name), capacity, kept)}
            forest = forest._replace(**changed)
            yield forest


def resize_held(forest: ForestArrays, capacity: int) -> Iterator[ForestArrays]:
    """Room to hold ``capacity`` rows. A pending leaf has ``min_split`` of them at least, so the queue is bounded too."""
    queue = capacity // forest.min_split + 1
    return _resize(forest, queue=queue, labels=capacity, links=capacity, rows=capacity)


def _resize(forest: ForestArrays, **capacities: int) -> Iterator[ForestArrays]:
    for name, capacity in capacities.items():
        resize = resize_rows if name in ("rows", "labels") else resize_trees
        changed: dict[str, Any] = {name: resize(getattr(forest, name), capacity)}
        forest = forest._replace(**changed)
        yield forest
