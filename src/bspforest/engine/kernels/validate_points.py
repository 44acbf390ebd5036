"""Check the points of a tree that was read from a file: their sides of the cuts, their boxes and their labels.

The rows of a leaf are scattered over memory. So the walk over the tree in `bspforest.engine.kernels.validate` only notes
what to test, and `settle` tests a thousand points at a time, so that their cache misses overlap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import ISOTROPIC, PAIRS, record
from .boxes import bound_rows, round_down, round_up
from .cuts import lies_right
from .jit import always_inline, kernel
from .nodes import get_normal, scale_held_row

# What can be wrong with a tree, by the number that `check_tree` returns.
WRONG = (
    "nothing",
    "its random stream is all zero",
    "a node refers to a record that does not exist, or two nodes refer to the same record",
    "a list of free records refers to one that does not exist or is in use",
    "a record is neither in use nor free",
    "the ring of a leaf's points is broken, or has a point that is not held or belongs to another leaf",
    "a row is in no leaf",
    "a leaf has too few or too many points",
    "a time is not a number, earlier than that of the parent, on the wrong side of the budget, or absurdly late",
    "a cut does not belong to its family",
    "a box does not fit its points, or is not where it should be",
    "a point is on the wrong side of a cut",
    "a pending cut does not separate the points of its leaf",
    "the queue of pending cuts does not agree with the leaves or is out of order",
    "the label statistics of a leaf do not fit its points",
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

# How late cuts may be. Learning a row draws candidates up to the time of its leaf's cut, so the work is the sum, along a
# path, of wait x rate. If the waits are honest, wait x `least_rate` of each node is at most exponential with mean 1. So the
# chance that PER_NODE less than that, summed along any path, exceeds LATEST is below 3 exp(-0.9 LATEST) per node, and
# learning a row with a forged file draws about LATEST + PER_NODE x depth candidates (isotropic: up to d times as many).
LATEST, PER_NODE = 100.0, 3.0

# Rounding hides candidates where points are closer together than this share of their coordinates: waits are then longer, up
# to `patience` candidates. Such nodes count with this weight.
ROUNDING, HIDDEN_WEIGHT = 1e-9, 1e-3

# The rate at which a pair of dimensions cuts points is at least this share of that of their box: the perimeter of a set that
# touches all sides of a rectangle is at least twice the diagonal.
PAIRS_KEPT = math.sqrt(0.5)

# Sums of weights drift from a recount by rounding as rows come and go, by much less than this.
DRIFT = 1e-3

# Points noted before they are tested (with their rows and labels they fit a cache), and notes of leaves and inner nodes.
POINTS, NOTES = 1024, 2048

# Room for tests beyond one per node of the longest path.
SPARE = 100_000

# Largest mean number of tests per point, and an allowance for small trees. Trees of a million rows need 16 per point.
MOST_TESTS, FEW_TESTS = 2000, 10**7

# Kinds of notes. Numba gives each literal a type of its own and compiles for each; these share int64.
INNER_NODE, LEAF = np.int64(0), np.int64(1)

# Steps along the rings that are taken in turn for all leaves noted; most rings are not longer.
ROUNDS = 4

# A node on the stack of the walk. Cut nodes are visited twice: before and after the nodes below them.
VISIT = record(("ref", np.int64), ("depth", np.int64), ("side", np.int64), ("entered", np.int64))

# The tests that points below a node must pass: a part of ``tests``.
TEST_RANGE = record(("start", np.int64), ("end", np.int64))

# Something to settle later, one cache line. ``ref`` is the cut node (of a leaf: its pending cut, or a negative number) and
# ``depth`` its depth; ``wait`` is the time from the parent's cut to its own. The other fields are those of leaves: the
# record, the part of ``slots`` with its points and the end of its part of ``noted_tests``.
NOTE = record(
    ("kind", np.int64),
    ("ref", np.int64),
    ("depth", np.int64),
    ("leaf", np.int64),
    ("first", np.int64),
    ("last", np.int64),
    ("last_test", np.int64),
    ("wait", np.float64),
)

COUNTS = record(
    ("cuts", np.int64),  # records met, in use or free
    ("boxes", np.int64),
    ("leaves", np.int64),
    ("points", np.int64),  # points of the leaves met
    ("due", np.int64),  # leaves met that must be in the queue
    ("tests", np.int64),  # tests made so far, the work that MOST_TESTS bounds
    ("notes", np.int64),  # now noted: notes, points and tests
    ("noted_points", np.int64),
    ("noted_tests", np.int64),
    ("deepest", np.int64),  # depth down to which ``spans`` are initialised
)


class CheckScratch(NamedTuple):
    """Scratch space of one thread. A test is a cut's number times two, plus 1 if the points must be right of it."""

    unmet_rows: np.ndarray  # (n_slots,) uint8: 1 for rows not yet met
    unmet_cuts: np.ndarray  # (.,) uint8
    unmet_boxes: np.ndarray  # (.,) uint8
    unmet_leaves: np.ndarray  # (.,) uint8
    stack: np.ndarray  # (.,) VISIT
    ranges: np.ndarray  # (.,) TEST_RANGE of the node at each depth
    times: np.ndarray  # (.,) time at which the node at each depth starts
    tests: np.ndarray  # (.,) int64: tests of the nodes on the path
    notes: np.ndarray  # (NOTES,) NOTE
    slots: np.ndarray  # (.,) int32: points noted
    noted_tests: np.ndarray  # (.,) int64: tests noted
    spans: np.ndarray  # (., 2, d) box of the points met so far below the node at each depth
    lateness: np.ndarray  # (.,) largest lateness of a path met so far that starts below the node at each depth
    sizes: np.ndarray  # (.,) number of points met so far below the node at each depth
    rows: np.ndarray  # (., d) scaled coordinates of the points noted
    box: np.ndarray  # (2, d)
    totals: np.ndarray  # (K,) label statistics of a leaf, recounted
    sink: np.ndarray  # (1,) keeps the compiler from dropping reads that only prefetch
    counts: np.ndarray  # (1,) COUNTS


def make_checks(n_slots: int, n_cuts: int, n_boxes: int, n_leaves: int, n_features: int, n_values: int) -> CheckScratch:
    """Allocate scratch space for trees of at most this size."""
    return CheckScratch(
        unmet_rows=np.empty(n_slots, np.uint8),
        unmet_cuts=np.empty(n_cuts, np.uint8),
        unmet_boxes=np.empty(n_boxes, np.uint8),
        unmet_leaves=np.empty(n_leaves, np.uint8),
        stack=np.empty(2 * n_cuts + 2, VISIT),
        ranges=np.empty(n_cuts + 2, TEST_RANGE),
        times=np.empty(n_cuts + 2, np.float64),
        tests=np.empty(n_cuts + SPARE, np.int64),
        notes=np.empty(NOTES, NOTE),
        slots=np.empty(n_slots + POINTS, np.int32),
        noted_tests=np.empty(n_cuts + SPARE, np.int64),
        spans=np.empty((n_cuts + 2, 2, n_features), np.float64),
        lateness=np.empty(n_cuts + 2, np.float64),
        sizes=np.empty(n_cuts + 2, np.int64),
        rows=np.empty((n_slots + POINTS, n_features), np.float64),
        box=np.empty((2, n_features), np.float64),
        totals=np.empty(n_values, np.float64),
        sink=np.empty(1, np.float64),
        counts=np.empty(1, COUNTS),
    )


@always_inline
def fits_totals(tree, k, totals, tame):
    """Return whether the label statistics of leaf ``k`` equal the recounted ``totals`` up to rounding."""
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
    """Check the pending cut (or a negative number) of leaf ``k``, which has ``right`` points on its right side.

    It must separate the points, and be in the queue if its time is finite.
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
def is_right(tree, v, z):
    """Return what `goes_right` returns, for a valid cut. Unsigned indices save numba the test for negative ones."""
    node = tree.cuts[np.uint64(v)]
    if tree.family == ISOTROPIC:
        return lies_right(tree.family, node, get_normal(tree, v), z)
    return node.a * z[np.uint64(node.i)] + node.b * z[np.uint64(node.j)] > node.p


@always_inline
def check_values(tree, checks, note, tame):
    """Check the label statistics of a leaf, if there are any, against its points."""
    totals = checks.totals
    if totals.shape[0] == 0:
        return FINE
    for c in range(totals.shape[0]):
        totals[c] = 0.0
    weight = 0.0
    for s in range(note.first, note.last):
        slot = checks.slots[s]
        weight += tree.labels[slot, 1]
        if tree.n_classes > 0:
            totals[np.int64(tree.labels[slot, 0])] += tree.labels[slot, 1]
    if tree.n_classes == 0:
        totals[0] = weight
    return FINE if fits_totals(tree, note.leaf, totals, tame) else BAD_VALUES


@always_inline
def check_points(tree, checks, note, first_test):
    """Check that the points of a leaf pass its tests, and its pending cut."""
    tests = checks.noted_tests
    pending = note.ref
    bound_rows(checks.rows, note.first, note.last, checks.box)
    join_span(checks.spans[note.depth], checks.box)
    checks.sizes[note.depth] += note.last - note.first
    right = np.int64(0)
    for s in range(note.first, note.last):
        z = checks.rows[s]
        for q in range(first_test, note.last_test):
            if is_right(tree, tests[q] >> 1, z) != (tests[q] & 1):
                return BAD_SIDE
        if pending >= 0:
            right += is_right(tree, pending, z)
    checks.counts[0].due += pending >= 0 and tree.cuts[pending].time < math.inf
    return check_due(tree, note.leaf, pending, right)


@always_inline
def find_lateness(family, span, wait):
    """Return how much later than expected the cut of points with the box ``span`` comes: see `LATEST`."""
    d = span.shape[1]
    total = widest = farthest = 0.0
    for k in range(d):
        side = span[1, k] - span[0, k]
        total += side
        widest = max(widest, side)
        farthest = max(farthest, max(-span[0, k], span[1, k]))
    if family == ISOTROPIC:
        least_rate = widest  # that of a segment is its length
    elif family == PAIRS and d > 1:
        least_rate = PAIRS_KEPT * (d - 1) * total
    else:
        least_rate = total
    if widest <= ROUNDING * farthest:
        return HIDDEN_WEIGHT * wait * least_rate
    return wait * least_rate - PER_NODE


@always_inline
def fits_bounds(low, high, own_low, own_high):
    """Return whether bounds of float32 are those of points from ``low`` to ``high``, rounded outwards."""
    return round_down(low) <= own_low <= low and high <= own_high <= round_up(high)


@always_inline
def fits_span(tree, node, span, n):
    """Return whether the box of a cut node, or else its number of points and bounds, are those of n points within ``span``."""
    if node.box < 0:
        i, j = node.i, node.j
        return (
            ~np.int64(node.box) == n
            and fits_bounds(span[0, i], span[1, i], node.low_i, node.high_i)
            and fits_bounds(span[0, j], span[1, j], node.low_j, node.high_j)
        )
    own = tree.boxes[node.box]
    fits = True
    for k in range(own.shape[1]):
        low, high = span[0, k], span[1, k]
        fits &= (own[0, k] <= low) & (own[0, k] >= round_down(low))
        fits &= (own[1, k] >= high) & (own[1, k] <= round_up(high))
    return fits


@always_inline
def check_inner_node(tree, checks, note):
    """Check the box of a cut node against its points, and that its time is possible. Its points count for its parent too."""
    depth = note.depth
    span = checks.spans[depth]
    fits = fits_span(tree, tree.cuts[note.ref], span, checks.sizes[depth])
    lateness = checks.lateness[depth]
    if note.wait < math.inf:
        lateness += find_lateness(tree.family, span, note.wait)
    if depth > 0:
        join_span(checks.spans[depth - 1], span)
        checks.sizes[depth - 1] += checks.sizes[depth]
        checks.lateness[depth - 1] = max(checks.lateness[depth - 1], lateness)
    clear_span(span)
    checks.lateness[depth] = 0.0
    checks.sizes[depth] = 0
    if not lateness <= LATEST:
        return BAD_TIME
    return FINE if fits else BAD_BOX


@always_inline
def join_span(span, box):
    """Make ``span`` cover ``box``, without branches: they would be mispredicted half of the time."""
    for k in range(span.shape[1]):
        low, high = span[0, k], span[1, k]
        new_low, new_high = box[0, k], box[1, k]
        span[0, k] = low if low < new_low else new_low
        span[1, k] = high if high > new_high else new_high


@always_inline
def clear_span(span):
    """Make ``span`` the box of no points."""
    for k in range(span.shape[1]):
        span[0, k] = math.inf
        span[1, k] = -math.inf


@always_inline
def follow(tree, checks, s):
    """Return the point after ``checks.slots[s]`` in its ring; -1 if that is not a slot."""
    slot = checks.slots[s]
    return tree.links[slot] if 0 <= slot < checks.unmet_rows.shape[0] else np.int32(-1)


@always_inline
def follow_rings(tree, checks):
    """List the points of the leaves noted, and return whether their rings are closed and no point is met twice.

    Most rings are short. One step along each of them at a time lets their cache misses overlap.
    """
    notes, slots = checks.notes, checks.slots
    counts = checks.counts[0]
    for step in range(1, ROUNDS):
        for e in range(counts.notes):
            note = notes[np.uint64(e)]
            if note.first + step < note.last:
                slots[note.first + step] = follow(tree, checks, note.first + step - 1)
    for e in range(counts.notes):
        first, last = notes[e].first, notes[e].last
        for s in range(first + ROUNDS, last):
            slots[s] = follow(tree, checks, s - 1)
        if first < last and follow(tree, checks, last - 1) != slots[first]:
            return False
    for s in range(counts.noted_points):
        if not 0 <= slots[s] < checks.unmet_rows.shape[0] or checks.unmet_rows[slots[s]] == 0:
            return False
        checks.unmet_rows[slots[s]] = 0
    return True


@always_inline
def fetch_rows(tree, checks):
    """Scale the rows of the points noted. A first pass touches them all, so that their cache misses overlap."""
    slots = checks.slots
    n = checks.counts[0].noted_points
    total = 0.0
    for s in range(n):
        total += tree.rows[slots[s], 0] + tree.rows[slots[s], -1] + tree.labels[slots[s], 1]
    checks.sink[0] = total
    for s in range(n):
        scale_held_row(tree, slots[s], checks.rows[s])


@kernel
def settle(tree, checks, tame, fully):
    """Check all that is noted, and clear the notes."""
    if not follow_rings(tree, checks):
        return BAD_RING
    counts = checks.counts[0]
    if fully:
        fetch_rows(tree, checks)
    first_test = np.int64(0)
    for e in range(counts.notes):
        note = checks.notes[e]
        if note.kind == INNER_NODE:
            wrong = check_inner_node(tree, checks, note)
        else:
            wrong = check_values(tree, checks, note, tame)
            if fully and wrong == FINE:
                wrong = check_points(tree, checks, note, first_test)
            first_test = note.last_test
        if wrong != FINE:
            return wrong
    counts.notes = 0
    counts.noted_points = 0
    counts.noted_tests = 0
    return FINE
