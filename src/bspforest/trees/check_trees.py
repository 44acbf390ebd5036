"""Check that arrays are trees, with numpy: what keeps kernels from reading outside of arrays.

Kernels do not check bounds. So trees that were read from a file are checked before any kernel may read them: references
are in range, every record is in use exactly once or free, leaves partition the rows, times increase downwards, and the queue of
pending cuts agrees with the leaves. Every field of a cut is checked by itself, as are boxes. That cuts and boxes are those of these rows
is not checked: files have checksums against damage, and rows from which trees can be built again. (Such checks took four fifths of the
time to load.)

Each step looks at all nodes of a tree at once, or at all nodes of a level. Nodes have one index here: cut nodes first, then
leaves, and one that stands for the missing second child of a pending cut.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .layout import BY_CUT, BY_LEAF, HIGH, LOW, NORMAL, NOTHING, ForestArrays
from .parallel import run_parts
from .trees import TreeEnsemble

# Parts of a tree with the count in its state that says how much of each is used.
USED = {**dict.fromkeys(BY_CUT, "n_cuts"), **dict.fromkeys(BY_LEAF, "n_leaves"), "queue": "n_due"}


class BrokenTreeError(ValueError):
    """Raised for arrays that are not a tree."""


class Nodes(NamedTuple):
    """The nodes of a tree that are in use, by index."""

    kids: np.ndarray  # (n_cuts, 2) indices of the children
    cuts: np.ndarray  # cut nodes in use
    leaves: np.ndarray  # leaves in use, from 0
    pending: np.ndarray  # (n_cuts,) whether a cut is pending
    pending_of: np.ndarray  # (n_leaves,) the pending cut of each leaf, -1 if there is none


def expect(holds: Any, message: str) -> None:
    """Raise `BrokenTreeError` with this message unless a condition holds."""
    if not holds:
        raise BrokenTreeError(message)


def check_trees(trees: TreeEnsemble, slots: np.ndarray, budget: float, n_threads: int = 1) -> None:
    """Raise `BrokenTreeError` unless kernels can read and change all trees safely.

    Parameters
    ----------
    trees : TreeEnsemble
        The shapes and types of its arrays, and its rows are valid.
    slots : ndarray of int
        Where rows are stored, each once.
    budget : float
        The budget in use.
    n_threads : int
    """

    def check(first: int, last: int) -> None:
        for m in range(first, last):
            try:
                _check_tree(trees.arrays, m, slots, budget)
            except BrokenTreeError as error:
                raise BrokenTreeError(f"tree {m} is not consistent: {error}") from None

    run_parts(check, trees.n_trees, n_threads, trees.n_trees * len(slots))


def _check_tree(arrays: ForestArrays, m: int, slots: np.ndarray, budget: float) -> None:
    state = arrays.state[m]
    for name, count in USED.items():
        expect(
            0 <= state[count] <= getattr(arrays, name).shape[1],
            f"{count} is {state[count]}, which is negative or too large",
        )
    parts: dict[str, Any] = {name: getattr(arrays, name)[m, : state[count]] for name, count in USED.items()}
    tree = arrays._replace(state=arrays.state[m : m + 1], links=arrays.links[m], **parts)
    expect(any(state[f"s{k}"] for k in range(4)), "its random stream is all zero")
    with np.errstate(all="ignore"):
        nodes = _walk(tree, bool(len(slots)))
        _check_free(tree, nodes)
        _check_cuts(tree, nodes, budget)
        _check_rings(tree, nodes, slots)
        _check_pending(tree, nodes)
        _check_sums(tree, nodes)


def _walk(tree: ForestArrays, has_rows: bool) -> Nodes:
    """Return the nodes in use, after a walk from the root, level by level, that meets each once."""
    n_cuts, n_leaves = len(tree.cuts), len(tree.leaves)
    total = n_cuts + n_leaves
    pending = tree.cuts["right"] == NOTHING

    def number(refs: np.ndarray) -> np.ndarray:
        refs = refs.astype(np.int64)
        leaf = np.where(~refs < n_leaves, n_cuts + ~refs, -1)
        return np.where(refs < 0, leaf, np.where(refs < n_cuts, refs, -1))

    right = np.where(pending, total, number(tree.cuts["right"]))
    kids = np.stack([number(tree.cuts["left"]), right], axis=1)
    root = int(tree.state["root"][0])
    expect((root != NOTHING) == has_rows, "it has no root, or one without rows")
    level = number(np.array([root])) if has_rows else np.empty(0, np.int64)
    levels, met = [], np.full(total + 1, -1)
    while len(level):
        expect((level >= 0).all(), "a node refers to a record that does not exist")
        expect((met[level] < 0).all(), "two nodes refer to the same record")
        met[level] = np.arange(len(level))
        expect((met[level] == np.arange(len(level))).all(), "two nodes refer to the same record")
        cuts = level[level < n_cuts]
        expect((kids[cuts[pending[cuts]], 0] >= n_cuts).all(), "a pending cut belongs to no leaf")
        levels.append(cuts)
        level = kids[cuts].ravel()
        level = level[level != total]
    cuts = np.concatenate(levels) if levels else np.empty(0, np.int64)
    pending_of = np.full(n_leaves, -1)
    waiting = cuts[pending[cuts]]
    pending_of[kids[waiting, 0] - n_cuts] = waiting
    return Nodes(kids, cuts, np.flatnonzero(met[n_cuts:total] >= 0), pending, pending_of)


def _check_free(tree: ForestArrays, nodes: Nodes) -> None:
    """Check that all records that are not in use are in the lists of free ones, each once."""
    for name, used, following in (
        ("cut", nodes.cuts, tree.cuts["left"]),
        ("leaf", nodes.leaves, tree.leaves["last"]),
    ):
        is_free = np.ones(len(following), bool)
        is_free[used] = False
        free = np.flatnonzero(is_free)
        steps = following[free].astype(np.int64)
        expect(((steps >= -1) & (steps < len(following))).all(), f"a free {name} leads nowhere")
        after = dict(zip(free.tolist(), steps.tolist(), strict=True))
        at = int(tree.state[f"free_{name}"][0])
        while at in after:
            at = after.pop(at)
        expect(at == -1 and not after, f"the list of free records ({name}) is broken")


def _check_cuts(tree: ForestArrays, nodes: Nodes, budget: float) -> None:
    """Check each field of each cut, its box, and its time against that of its parent."""
    cuts, kids, d = tree.cuts[nodes.cuts], nodes.kids[nodes.cuts], tree.boxes.shape[2]
    exists = (cuts["i"] >= 0) & (cuts["i"] < d) & (cuts["j"] >= 0) & (cuts["j"] < d)
    expect(exists.all(), "a cut is in a dimension that does not exist")
    finite = np.isfinite(cuts["a"]) & np.isfinite(cuts["b"]) & np.isfinite(cuts["p"])
    boxes = tree.boxes[nodes.cuts]
    expect(finite.all() and np.isfinite(boxes[:, NORMAL:]).all(), "the place of a cut is not finite")
    low, high = boxes[:, LOW], boxes[:, HIGH]
    expect((low <= high).all(), "the box of a node is upside down, or not a number")
    rows = np.arange(len(cuts))
    for k in "ij":
        agree = (cuts[f"low_{k}"] == low[rows, cuts[k]]) & (cuts[f"high_{k}"] == high[rows, cuts[k]])
        expect(agree.all(), "the bounds of a cut are not those of its box")
    time, pending = cuts["time"], nodes.pending[nodes.cuts]
    above = np.zeros(len(tree.cuts))
    for side in range(2):
        is_cut = kids[:, side] < len(tree.cuts)
        above[kids[is_cut, side]] = time[is_cut]
    ordered = (time >= above[nodes.cuts]) & np.where(pending, True, (time <= budget) & (time < math.inf))
    expect(ordered.all(), "a time is earlier than that of the parent, or later than the budget")


def _check_rings(tree: ForestArrays, nodes: Nodes, slots: np.ndarray) -> None:
    """Check that the rings of points partition the rows.

    Links are a permutation of slots, and each of its cycles is the ring of one leaf. Cycles get the least of their slots as
    their label, by pointer jumping.
    """
    leaves, own = nodes.leaves, tree.leaves[nodes.leaves]
    n_points, n_slots = own["n_points"].astype(np.int64), len(tree.links)
    expect((n_points >= 1).all() and n_points.sum() == len(slots), "leaves have too few or too many points")
    is_large = n_points >= tree.min_split
    expect((is_large == (nodes.pending_of[leaves] >= 0)).all(), "a leaf has too few or too many points")
    to = np.arange(n_slots)
    to[slots] = tree.links[slots]
    expect(((to >= 0) & (to < n_slots)).all(), "the ring of a leaf's points is broken")
    expect((np.bincount(to, minlength=n_slots) == 1).all(), "a point is in two rings")
    label, jump = np.arange(n_slots), to
    for _ in range(int(n_points.max(initial=1) - 1).bit_length()):
        label = np.minimum(label, label[jump])
        jump = jump[jump]
    expect((label[to] == label).all(), "the ring of a leaf's points is too long")
    last = own["last"].astype(np.int64)
    expect(((last >= 0) & (last < n_slots)).all(), "a leaf has no last point")
    leaf_of_label = np.full(n_slots, -1)
    leaf_of_label[label[last]] = leaves
    leaf_of = np.full(n_slots, -1)
    leaf_of[slots] = leaf_of_label[label[slots]]
    expect((leaf_of[slots] >= 0).all(), "a row is in no leaf")
    counts = np.bincount(leaf_of[slots], minlength=len(tree.leaves))
    expect((counts[leaves] == n_points).all(), "the ring of a leaf has other points than it should")


def _check_pending(tree: ForestArrays, nodes: Nodes) -> None:
    """Check that pending cuts are in the queue if their times are finite."""
    due = tree.leaves["due"][nodes.leaves].astype(np.int64)
    cut_of = nodes.pending_of[nodes.leaves]
    is_due = cut_of >= 0
    is_due[is_due] = tree.cuts["time"][cut_of[is_due]] < math.inf
    expect((due[~is_due] == -1).all() and is_due.sum() == len(tree.queue), "the queue has other leaves than it should")
    expect(((due[is_due] >= 0) & (due[is_due] < len(tree.queue))).all(), "a leaf has no place in the queue")
    entry = tree.queue[due[is_due]]
    agrees = (entry["cut"] == cut_of[is_due]) & (entry["leaf"] == nodes.leaves[is_due])
    agrees &= entry["time"] == tree.cuts["time"][cut_of[is_due]]
    expect(agrees.all(), "the queue of pending cuts does not agree with the leaves")
    times = tree.queue["time"]
    expect((times[(np.arange(1, len(times)) - 1) >> 1] <= times[1:]).all(), "the queue is out of order")


def _check_sums(tree: ForestArrays, nodes: Nodes) -> None:
    """Check that sums of terms are finite. Which they are is no matter of the trees."""
    expect(np.isfinite(tree.sums[nodes.cuts]).all(), "a sum over a node is not finite")
    expect(np.isfinite(tree.leaf_sums[nodes.leaves]).all(), "a sum over a leaf is not finite")
