"""Is a tree that came from a file a tree? Everything that the other kernels take for granted is checked here.

One walk over the tree: every record and every held row must be met exactly once, so nothing here runs for ever or out of
bounds either, whatever the arrays contain. The rows lie all over the memory, so the walk only notes what is to be tested of
them, and `settle` does it for some thousands at a time, which then wait for memory together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ._boxes import NO, ask_box, bound_rows, round_down, round_up
from ._compile import entry, inlined, kernel
from ._cuts import height
from ._layout import AXES, ISOTROPIC, NOTHING
from ._nodes import place, tree_of

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

# A node waits for its cut an exponential time of rate at least the longest side of its box. So late, it is not by chance; and
# learning a row takes a time in proportion.
LATEST = 1e6

# Sums of weights drift apart from a recount by rounding, as rows come and go. Much less than this.
DRIFT = 1e-3

# Every so many levels, cuts that a node's box lies wholly to one side of are dropped from those that its points are tested
# against.
LEVELS = 4


# Points noted before they are tested: with their rows and labels they fit a cache. And notes, of leaves and of nodes left.
POINTS, NOTES = 1024, 2048

# Room for tests, beside one for each node of the longest path.
SPARE = 100_000

# Tests a point in the mean, and in all. Trees of a million rows need 16 a point.
MOST_TESTS, FEW_TESTS = 2000, 10**7

LEAVE, LEAF_NOTE = 0, 1

# Points of a ring that are found in turn with those of the others.
ROUNDS = 8


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
        slots=np.empty(n_slots + POINTS, np.int32),
        noted=np.empty(n_cuts + SPARE, np.int64),
        spans=np.empty((n_cuts + 2, 2, n_features), np.float64),
        rows=np.empty((n_slots + POINTS, n_features), np.float64),
        box=np.empty((2, n_features), np.float64),
        totals=np.empty(n_values, np.float64),
        sink=np.empty(1, np.float64),
        counts=np.empty(9, np.int64),
    )


@inlined
def check_cut(tree, v):
    """Is record ``v`` a cut of its family, with the bounds of its box beside it?"""
    node = tree.cuts[v]
    d = tree.boxes.shape[2]
    if not (0 <= node.i < d and 0 <= node.j < d and math.isfinite(node.p)):
        return BAD_CUT
    own = tree.boxes[v]
    if (
        node.low_i != own[0, node.i]
        or node.high_i != own[1, node.i]
        or node.low_j != own[0, node.j]
        or node.high_j != own[1, node.j]
    ):
        return BAD_BOX
    if node.time == math.inf:  # no cut, because points coincide, or one that will be drawn anew
        return FINE
    if tree.family == ISOTROPIC:
        length = 0.0
        for k in range(d):
            length += np.float64(own[2, k]) * own[2, k]
        return FINE if abs(length - 1.0) < 1e-4 and node.a == 0.0 and node.b == 0.0 else BAD_CUT
    if tree.family == AXES or d == 1:
        return FINE if node.i == node.j and node.a == 1.0 and node.b == 0.0 else BAD_CUT
    return FINE if node.i != node.j and abs(node.a * node.a + node.b * node.b - 1.0) < 1e-9 else BAD_CUT


@inlined
def check_time(tree, v, t0, budget):
    """Is the time of cut node ``v`` possible, if it starts at t0?"""
    node = tree.cuts[v]
    own = tree.boxes[v]
    if not node.time >= t0:
        return BAD_TIME
    if node.right == NOTHING:
        if node.time < math.inf and (node.time <= budget or tree.redraw):
            return BAD_TIME
    elif not node.time <= budget:
        return BAD_TIME
    if node.time < math.inf:
        widest = np.float32(0.0)
        for k in range(own.shape[1]):
            side = own[1, k] - own[0, k]
            widest = side if side > widest else widest
        if not (node.time - t0) * widest <= LATEST:
            return BAD_TIME
    return FINE if node.right == NOTHING or node.time < math.inf else BAD_TIME


@inlined
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


@inlined
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


@inlined
def settle_leaf(tree, checks, note, first_test, tame):
    """Are the points of a leaf where its tests say, its pending cut and its statistics theirs?"""
    pending, h, k, last, last_test, first = note[1], note[2], note[3], note[4], note[5], note[6]
    totals, noted = checks.totals, checks.noted
    for c in range(totals.shape[0]):
        totals[c] = 0.0
    weight = 0.0
    bound_rows(checks.rows, first, last, checks.box)
    join_span(checks.spans[h], checks.box)
    right = 0
    for s in range(first, last):
        slot = checks.slots[s]
        z = checks.rows[s]
        for q in range(first_test, last_test):
            v = noted[q] >> 1
            if (height(tree.family, tree.cuts[v], tree.boxes[v, -1], z) > tree.cuts[v].p) != (noted[q] & 1):
                return BAD_SIDE
        if pending >= 0:
            right += height(tree.family, tree.cuts[pending], tree.boxes[pending, -1], z) > tree.cuts[pending].p
        weight += tree.labels[slot, 1]
        if tree.n_classes > 0:
            totals[np.int64(tree.labels[slot, 0])] += tree.labels[slot, 1]
    if tree.n_classes == 0:
        totals[0] = weight
    if not check_totals(tree, k, totals, tame):
        return BAD_VALUES
    checks.counts[DUE] += pending >= 0 and tree.cuts[pending].time < math.inf
    return check_due(tree, k, pending, right)


@inlined
def leave_node(tree, checks, v, h):
    """Is the box of node ``v``, at depth h, that of its points, rounded outwards? They count for the node above too."""
    own = tree.boxes[v]
    span = checks.spans[h]
    right = True
    for k in range(own.shape[1]):
        low, high = span[0, k], span[1, k]
        right &= (own[0, k] <= low) & (own[0, k] >= round_down(low))
        right &= (own[1, k] >= high) & (own[1, k] <= round_up(high))
    if h > 0:
        join_span(checks.spans[h - 1], span)
    clear_span(span)
    return right


@inlined
def join_span(span, box):
    """Make ``span`` cover ``box``. No branches: which is smaller cannot be foreseen."""
    for k in range(span.shape[1]):
        low, high = span[0, k], span[1, k]
        new_low, new_high = box[0, k], box[1, k]
        span[0, k] = low if low < new_low else new_low
        span[1, k] = high if high > new_high else new_high


@inlined
def clear_span(span):
    for k in range(span.shape[1]):
        span[0, k] = math.inf
        span[1, k] = -math.inf


@inlined
def follow(tree, checks, s):
    """The point after ``checks.slots[s]`` in its ring; -1 if that is not a slot."""
    slot = checks.slots[s]
    return tree.links[slot] if 0 <= slot < checks.waiting.shape[0] else np.int32(-1)


@inlined
def follow_rings(tree, checks):
    """List the points of the leaves noted. Most rings are short: a step of all rings at a time, so that they wait together."""
    notes, slots = checks.notes, checks.slots
    n_notes = checks.counts[N_NOTES]
    for step in range(1, ROUNDS):
        for e in range(n_notes):
            first, last = notes[e, 6], notes[e, 4]
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


@kernel
def settle(tree, checks, tame):
    """Make the tests that are noted."""
    if not follow_rings(tree, checks):
        return BAD_RING
    counts, slots = checks.counts, checks.slots
    total = 0.0
    for s in range(counts[N_POINTS]):  # all rows are asked for before any is needed
        total += tree.rows[slots[s], 0] + tree.rows[slots[s], -1] + tree.labels[slots[s], 1]
    checks.sink[0] = total
    for s in range(counts[N_POINTS]):
        place(tree, slots[s], checks.rows[s])
    first_test = 0
    for e in range(counts[N_NOTES]):
        note = checks.notes[e]
        if note[0] == LEAVE:
            if not leave_node(tree, checks, note[1], note[2]):
                return BAD_BOX
            continue
        wrong = settle_leaf(tree, checks, note, first_test, tame)
        if wrong != FINE:
            return wrong
        first_test = note[5]
    counts[N_NOTES] = 0
    counts[N_POINTS] = 0
    counts[N_NOTED] = 0
    return FINE


@inlined
def note_leaf(tree, checks, k, pending, h, start, end):
    """Note leaf ``k``, with pending cut ``pending`` (or a negative number), whose points are below the node at depth h."""
    counts = checks.counts
    if checks.leaves[k] == 0:
        return BAD_NODE
    checks.leaves[k] = 0
    counts[LEAVES] += 1
    leaf = tree.leaves[k]
    n = np.int64(leaf.n_points)
    if n < 1 or (n >= tree.min_split) != (pending >= 0):
        return BAD_SIZE
    counts[MET] += n
    counts[TESTS] += n * (end - start)
    if counts[TESTS] > MOST_TESTS * tree.rows.shape[0] + FEW_TESTS:
        return TOO_DEEP
    at = counts[N_POINTS]
    if counts[MET] > checks.waiting.shape[0]:
        return BAD_SIZE
    checks.slots[at] = leaf.last
    to = counts[N_NOTED]
    for q in range(start, end):
        checks.noted[to] = checks.tests[q]
        to += 1
    counts[N_POINTS] = at + n
    counts[N_NOTED] = to
    put_note(checks, LEAF_NOTE, pending, h, k, at)
    return FINE


@inlined
def put_note(checks, kind, ref, h, k, first):
    counts = checks.counts
    note = checks.notes[counts[N_NOTES]]
    note[0], note[1], note[2], note[3] = kind, ref, h, k
    note[4], note[5], note[6] = counts[N_POINTS], counts[N_NOTED], first
    counts[N_NOTES] += 1


@inlined
def is_full(checks, more):
    """Is there no room to note a leaf with ``more`` tests?"""
    counts = checks.counts
    return counts[N_NOTES] >= NOTES or counts[N_POINTS] >= POINTS or counts[N_NOTED] + more > checks.noted.shape[0]


@inlined
def add_tests(tree, checks, v, h):
    """The tests for the children of node ``v`` at depth h: those of ``v``, and its own cut. Where they start and end.

    The side of its own cut is left open, to be set for each child.
    """
    start, end = checks.ends[h, 0], checks.ends[h, 1]
    tests = checks.tests
    if h % LEVELS == LEVELS - 1 and 2 * end - start + tree.cuts.shape[0] < tests.shape[0]:
        kept = end
        for q in range(start, end):
            w = tests[q] >> 1
            if ask_box(tree.family, tree.boxes[v], tree.cuts[w], tree.boxes[w, -1], tests[q] & 1 == 0) != NO:
                tests[kept] = tests[q]
                kept += 1
        checks.counts[TESTS] += end - start
        start, end = end, kept
    tests[end] = 2 * v
    return start, end + 1


@inlined
def put_node(checks, top, ref, h, side):
    checks.stack[top, 0] = ref
    checks.stack[top, 1] = h
    checks.stack[top, 2] = side
    checks.stack[top, 3] = 0


@inlined
def exists(tree, ref):
    """Is there a record for node ``ref``?"""
    return ref < tree.state[0].n_cuts if ref >= 0 else ~ref < tree.state[0].n_leaves


@inlined
def open_node(tree, checks, v, h, top):
    """Put the children of node ``v``, at depth h, on the stack above ``top``."""
    left, right = np.int64(tree.cuts[v].left), np.int64(tree.cuts[v].right)
    if not (exists(tree, left) and exists(tree, right)):
        return BAD_NODE
    if left < 0 and right < 0:
        n = np.int64(tree.leaves[~left].n_points) + np.int64(tree.leaves[~right].n_points)
        if n < tree.min_split:
            return BAD_SIZE
    start, end = add_tests(tree, checks, v, h)
    checks.ends[h + 1, 0] = start
    checks.ends[h + 1, 1] = end
    checks.times[h + 1] = tree.cuts[v].time
    first = np.int64(left > right)  # trees built at once were built in this order: records are then read as they lie
    put_node(checks, top + 1, left if first else right, h + 1, 1 - first)
    put_node(checks, top + 2, right if first else left, h + 1, first)
    if h + 1 > checks.counts[CLEARED]:
        checks.counts[CLEARED] = h + 1
        clear_span(checks.spans[h + 1])
    return FINE


@inlined
def enter_node(tree, checks, v, h, budget):
    """Check cut node ``v``, at depth h, without what is below it."""
    if checks.cuts[v] == 0:
        return BAD_NODE
    checks.cuts[v] = 0
    checks.counts[CUTS] += 1
    wrong = check_cut(tree, v)
    return wrong if wrong != FINE else check_time(tree, v, checks.times[h], budget)


@inlined
def check_nodes(tree, checks, budget, tame):
    """Walk over all nodes of the tree, cut nodes met before and again after what is below them."""
    if not exists(tree, np.int64(tree.state[0].root)):
        return FINE if tree.state[0].root == NOTHING else BAD_NODE
    checks.ends[0, 0] = 0
    checks.ends[0, 1] = 0
    checks.times[0] = 0.0
    clear_span(checks.spans[0])
    put_node(checks, 0, tree.state[0].root, 0, 0)
    top = 0
    while top >= 0:
        ref, h, side = checks.stack[top, 0], checks.stack[top, 1], checks.stack[top, 2]
        start, end = checks.ends[h, 0], checks.ends[h, 1]
        wrong = FINE
        if is_full(checks, end - start):
            wrong = settle(tree, checks, tame)
        if checks.stack[top, 3] == 1:
            top -= 1
            put_note(checks, LEAVE, ref, h, 0, checks.counts[N_POINTS])
            continue
        if h > 0:
            checks.tests[end - 1] = (checks.tests[end - 1] & ~1) + side
        leaf = ref
        if ref < 0:
            top -= 1
        elif wrong == FINE:
            checks.stack[top, 3] = 1
            wrong = enter_node(tree, checks, ref, h, budget)
            if wrong == FINE and tree.cuts[ref].right != NOTHING:
                wrong = open_node(tree, checks, ref, h, top)
                top += 2
            elif wrong == FINE:
                leaf = np.int64(tree.cuts[ref].left)
                wrong = FINE if leaf < 0 and exists(tree, leaf) else BAD_NODE
        if wrong == FINE and leaf < 0:
            wrong = note_leaf(tree, checks, ~leaf, ref, h if ref >= 0 else max(h - 1, 0), start, end)
        if wrong != FINE:
            return wrong
    return settle(tree, checks, tame)


@inlined
def check_free(tree, checks):
    """Are the records that were not met in the lists of free ones?"""
    v = np.int64(tree.state[0].free_cut)
    while v >= 0:
        if v >= tree.state[0].n_cuts or checks.cuts[v] == 0:
            return BAD_FREE
        checks.cuts[v] = 0
        checks.counts[CUTS] += 1
        v = np.int64(tree.cuts[v].left)
    k = np.int64(tree.state[0].free_leaf)
    while k >= 0:
        if k >= tree.state[0].n_leaves or checks.leaves[k] == 0:
            return BAD_FREE
        checks.leaves[k] = 0
        checks.counts[LEAVES] += 1
        k = np.int64(tree.leaves[k].last)
    if v != -1 or k != -1:
        return BAD_FREE
    used_all = checks.counts[CUTS] == tree.state[0].n_cuts and checks.counts[LEAVES] == tree.state[0].n_leaves
    return FINE if used_all else LOST_RECORD


@entry
def check_tree(forest, m, held, n_held, budget, tame, checks):
    """What is wrong with tree ``m``, a number of `WRONG`.

    ``held`` is 1 for the slots of rows held, ``n_held`` of them. Sizes in the state of the tree fit its arrays. ``tame``: labels
    and weights are of ordinary size, so that their sums must be.
    """
    tree = tree_of(forest, m)
    state = tree.state[0]
    if state.s0 == 0 and state.s1 == 0 and state.s2 == 0 and state.s3 == 0:
        return BAD_RANDOM
    for s in range(held.shape[0]):
        checks.waiting[s] = held[s]
    for v in range(state.n_cuts):
        checks.cuts[v] = 1
    for k in range(state.n_leaves):
        checks.leaves[k] = 1
    for c in range(checks.counts.shape[0]):
        checks.counts[c] = 0
    wrong = check_nodes(tree, checks, budget, tame)
    if wrong == FINE:
        wrong = check_free(tree, checks)
    if wrong != FINE:
        return wrong
    if checks.counts[MET] != n_held:
        return LOST_ROW
    if checks.counts[DUE] != state.n_due:
        return BAD_QUEUE
    for place_ in range(1, state.n_due):
        if tree.queue[(place_ - 1) >> 1].time > tree.queue[place_].time:
            return BAD_QUEUE
    return FINE
