"""Checking the points of a tree that came from a file: are they where the cuts say, and their boxes and labels as noted?

The rows lie all over the memory. So the walk over the tree in `bspforest.engine.kernels.validate` only notes what is to be tested of them, and
`settle` does it for a thousand at a time, which then wait for memory together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .boxes import bound_rows, round_down, round_up
from .jit import always_inline, kernel
from .nodes import goes_right, scale_held_row

# What can be wrong with a tree, by the number that `check_tree` returns.
WRONG = (
    "nothing",
    "its random stream is all zero",
    "a node refers to a record that does not exist, or two nodes to one",
    "a list of free records refers to one that does not exist or is in use",
    "a record is neither in use nor free",
    "the ring of a leaf's points is broken, or has a point that another leaf has or that is not held",
    "a row is in no leaf",
    "a leaf has too few or too many points",
    "a time is not a number, earlier than that of the node above, on the wrong side of the budget, or absurdly late",
    "a cut is not one of its family",
    "a box is not that of the points in it",
    "a point is on the wrong side of a cut",
    "a pending cut does not part its leaf",
    "the queue of pending cuts does not agree with the leaves or is out of order",
    "the label statistics of a leaf are not those of its points",
    "it is absurdly deep",
)
(
    FINE,
    BAD_RANDOM,
    BAD_NODE,
    BAD_FREE,
    LOST_RECORD,
    BAD_RING,
    LOST_ROW,
    BAD_SIZE,
    BAD_TIME,
    BAD_CUT,
    BAD_BOX,
    BAD_SIDE,
    BAD_PENDING,
    BAD_QUEUE,
    BAD_VALUES,
    TOO_DEEP,
) = range(len(WRONG))

# A node waits for its cut an exponential time of rate at least the longest side of the box of its points. So late, it is not
# by chance; and learning a row takes a time in proportion.
LATEST = 1e6

# Sums of weights drift apart from a recount by rounding, as rows come and go. Much less than this.
DRIFT = 1e-3


# Points noted before they are tested: with their rows and labels they fit a cache. And notes, of leaves and of nodes left.
POINTS, NOTES = 1024, 2048

# Room for tests, beside one for each node of the longest path.
SPARE = 100_000

# Tests a point in the mean, and in all. Trees of a million rows need 16 a point.
MOST_TESTS, FEW_TESTS = 2000, 10**7

# Kinds of notes. Numba has a type for each literal, and compiles for each; not for these.
LEAVE, LEAF_NOTE = np.int64(0), np.int64(1)

# Points of a ring that are found in turn with those of the others.
ROUNDS = 4


class Checks(NamedTuple):
    """Scratch space of one thread."""

    waiting: np.ndarray  # (n_slots,) uint8: 1 for rows not yet met
    cuts: np.ndarray  # (.,) uint8: 1 for records not yet met
    leaves: np.ndarray  # (.,) uint8
    stack: np.ndarray  # (., 4) nodes on the way, their depths, their sides, and whether they have been met
    ends: np.ndarray  # (., 2) where the tests of the node at each depth start and end
    times: np.ndarray  # (.,) the time at which the node at each depth starts
    tests: np.ndarray  # (.,) cuts, each twice, plus 1 if the points must be right of it
    notes: (
        np.ndarray
    )  # (NOTES, 7) kind, node, depth; record of a leaf, where its points and tests end and its points start
    waits: np.ndarray  # (NOTES,) how long a node that is left has waited for its cut
    slots: np.ndarray  # (.,) int32: points noted
    noted: np.ndarray  # (.,) tests noted
    spans: np.ndarray  # (., 2, d) the box of the points met below the node at each depth
    rows: np.ndarray  # (., d) their scaled coordinates
    box: np.ndarray  # (2, d)
    totals: np.ndarray  # (K,)
    sink: np.ndarray  # (1,)
    counts: np.ndarray  # (9,) as named below


CUTS, LEAVES, MET, DUE, TESTS, N_NOTES, N_POINTS, N_NOTED, CLEARED = range(9)


def make_checks(n_slots: int, n_cuts: int, n_leaves: int, n_features: int, n_values: int) -> Checks:
    """Scratch space for trees of at most this size."""
    return Checks(
        waiting=np.empty(n_slots, np.uint8),
        cuts=np.empty(n_cuts, np.uint8),
        leaves=np.empty(n_leaves, np.uint8),
        stack=np.empty((2 * n_cuts + 2, 4), np.int64),
        ends=np.empty((n_cuts + 2, 2), np.int64),
        times=np.empty(n_cuts + 2, np.float64),
        tests=np.empty(n_cuts + SPARE, np.int64),
        notes=np.empty((NOTES, 7), np.int64),
        waits=np.empty(NOTES, np.float64),
        slots=np.empty(n_slots + POINTS, np.int32),
        noted=np.empty(n_cuts + SPARE, np.int64),
        spans=np.empty((n_cuts + 2, 2, n_features), np.float64),
        rows=np.empty((n_slots + POINTS, n_features), np.float64),
        box=np.empty((2, n_features), np.float64),
        totals=np.empty(n_values, np.float64),
        sink=np.empty(1, np.float64),
        counts=np.empty(9, np.int64),
    )


@always_inline
def check_totals(tree, k, totals, tame):
    """Are the label statistics of leaf ``k`` those that were counted into ``totals``, up to rounding?"""
    values = tree.values[k]
    n = tree.n_classes if tree.n_classes > 0 else 1
    for c in range(n):
        if not abs(values[c] - totals[c]) <= DRIFT * totals[c]:
            return not tame
    if tree.n_classes == 0 and values[0] > 0.0:
        return (math.isfinite(values[1]) and 0.0 <= values[2] < math.inf) or not tame
    return True


@always_inline
def check_due(tree, k, pending, right):
    """Does the cut ``pending`` (or a negative number) of leaf ``k``, which has ``right`` points on one side, part it?

    And is it in the queue, if it has a time?
    """
    leaf = tree.leaves[k]
    if pending < 0 or tree.cuts[pending].time == math.inf:
        return FINE if leaf.due == -1 else BAD_QUEUE
    if not 0 < right < leaf.n_points:
        return BAD_PENDING
    if not 0 <= leaf.due < tree.state[0].n_due:
        return BAD_QUEUE
    due = tree.queue[leaf.due]
    return FINE if due.cut == pending and due.leaf == k and due.time == tree.cuts[pending].time else BAD_QUEUE


@always_inline
def settle_leaf(tree, checks, note, tame):
    """Are the statistics of a leaf those of its points?"""
    k, last, first = note[3], note[4], note[6]
    totals = checks.totals
    for c in range(totals.shape[0]):
        totals[c] = 0.0
    weight = 0.0
    for s in range(first, last):
        slot = checks.slots[s]
        weight += tree.labels[slot, 1]
        if tree.n_classes > 0:
            totals[np.int64(tree.labels[slot, 0])] += tree.labels[slot, 1]
    if tree.n_classes == 0:
        totals[0] = weight
    return FINE if check_totals(tree, k, totals, tame) else BAD_VALUES


@always_inline
def settle_points(tree, checks, note, first_test):
    """Are the points of a leaf where its tests say, and its pending cut theirs?"""
    pending, h, k, last, last_test, first = note[1], note[2], note[3], note[4], note[5], note[6]
    noted = checks.noted
    bound_rows(checks.rows, first, last, checks.box)
    join_span(checks.spans[h], checks.box)
    right = np.int64(0)
    for s in range(first, last):
        z = checks.rows[s]
        for q in range(first_test, last_test):
            if goes_right(tree, noted[q] >> 1, z) != (noted[q] & 1):
                return BAD_SIDE
        if pending >= 0:
            right += goes_right(tree, pending, z)
    checks.counts[DUE] += pending >= 0 and tree.cuts[pending].time < math.inf
    return check_due(tree, k, pending, right)


@always_inline
def leave_node(tree, checks, v, h, wait):
    """Is the box of node ``v``, at depth h, that of its points, rounded outwards, and is its time possible?

    The points count for the node above too.
    """
    own = tree.boxes[v]
    span = checks.spans[h]
    right = True
    widest = 0.0
    for k in range(own.shape[1]):
        low, high = span[0, k], span[1, k]
        right &= (own[0, k] <= low) & (own[0, k] >= round_down(low))
        right &= (own[1, k] >= high) & (own[1, k] <= round_up(high))
        widest = high - low if high - low > widest else widest
    if h > 0:
        join_span(checks.spans[h - 1], span)
    clear_span(span)
    if wait < math.inf and wait * widest > LATEST:
        return BAD_TIME
    return FINE if right else BAD_BOX


@always_inline
def join_span(span, box):
    """Make ``span`` cover ``box``. No branches: which is smaller cannot be foreseen."""
    for k in range(span.shape[1]):
        low, high = span[0, k], span[1, k]
        new_low, new_high = box[0, k], box[1, k]
        span[0, k] = low if low < new_low else new_low
        span[1, k] = high if high > new_high else new_high


@always_inline
def clear_span(span):
    for k in range(span.shape[1]):
        span[0, k] = math.inf
        span[1, k] = -math.inf


@always_inline
def follow(tree, checks, s):
    """The point after ``checks.slots[s]`` in its ring; -1 if that is not a slot."""
    slot = checks.slots[s]
    return tree.links[slot] if 0 <= slot < checks.waiting.shape[0] else np.int32(-1)


@always_inline
def follow_rings(tree, checks):
    """List the points of the leaves noted. Most rings are short: a step of all rings at a time, so that they wait together."""
    notes, slots = checks.notes, checks.slots
    n_notes = checks.counts[N_NOTES]
    for step in range(1, ROUNDS):
        for e in range(n_notes):
            first, last = notes[np.uint64(e), 6], notes[np.uint64(e), 4]
            if first + step < last:
                slots[first + step] = follow(tree, checks, first + step - 1)
    for e in range(n_notes):
        first, last = notes[e, 6], notes[e, 4]
        for s in range(first + ROUNDS, last):
            slots[s] = follow(tree, checks, s - 1)
        if first < last and follow(tree, checks, last - 1) != slots[first]:
            return False
    for s in range(checks.counts[N_POINTS]):
        if not 0 <= slots[s] < checks.waiting.shape[0] or checks.waiting[slots[s]] == 0:
            return False
        checks.waiting[slots[s]] = 0
    return True


@always_inline
def fetch_rows(tree, checks):
    """Scale the rows of the points noted. All are asked for before any is needed."""
    slots = checks.slots
    total = 0.0
    for s in range(checks.counts[N_POINTS]):
        total += tree.rows[slots[s], 0] + tree.rows[slots[s], -1] + tree.labels[slots[s], 1]
    checks.sink[0] = total
    for s in range(checks.counts[N_POINTS]):
        scale_held_row(tree, slots[s], checks.rows[s])


@kernel
def settle(tree, checks, tame, fully):
    """Make the tests that are noted."""
    if not follow_rings(tree, checks):
        return BAD_RING
    counts = checks.counts
    if fully:
        fetch_rows(tree, checks)
    first_test = np.int64(0)
    for e in range(counts[N_NOTES]):
        note = checks.notes[e]
        if note[0] == LEAVE:
            wrong = leave_node(tree, checks, note[1], note[2], checks.waits[e])
        else:
            wrong = settle_leaf(tree, checks, note, tame)
            if fully and wrong == FINE:
                wrong = settle_points(tree, checks, note, first_test)
            first_test = note[5]
        if wrong != FINE:
            return wrong
    counts[N_NOTES] = 0
    counts[N_POINTS] = 0
    counts[N_NOTED] = 0
    return FINE
