"""Check that a tree read from a file is one: everything that the other kernels rely on without checking.

The check is one walk over the tree. It must meet every record and every held row exactly once, so whatever the arrays
contain, it neither runs out of bounds nor for ever. Points are noted and checked in batches: see
`bspforest.engine.kernels.validate_points`.

The check has two levels. The first covers what kernels that read trees rely on: nodes, rings of points, label statistics.
The second, ``fully``, adds what kernels that change trees rely on: points on their sides of the cuts, boxes, the queue of
pending cuts. It takes five times as long (13 ms instead of 2.7 ms per tree of 100,000 rows).
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import AXES, ISOTROPIC, NOTHING, example_forest
from .boxes import NO
from .jit import always_inline, entry_point, inline_source
from .node_boxes import ask_node, has_box
from .nodes import get_next_box, get_normal, is_pending, view_tree
from .validate_points import (
    BAD_BOX,
    BAD_CUT,
    BAD_FREE,
    BAD_NODE,
    BAD_QUEUE,
    BAD_RANDOM,
    BAD_SIZE,
    BAD_TIME,
    FEW_TESTS,
    FINE,
    INNER_NODE,
    LEAF,
    LOST_RECORD,
    LOST_ROW,
    MOST_TESTS,
    NOTES,
    POINTS,
    TOO_DEEP,
    clear_span,
    make_checks,
    settle,
)

# Every so many levels, drop the cuts that a node's box lies wholly on one side of from the tests of its points.
LEVELS = 4


@always_inline
def check_cut(tree, v, fully):
    """Check that record ``v`` is a cut of its family, and the copy of its box's bounds."""
    node = tree.cuts[v]
    d = tree.boxes.shape[2]
    if not (0 <= node.i < d and 0 <= node.j < d and math.isfinite(node.p)):
        return BAD_CUT
    if node.box < 0:  # isotropic cuts have their normal in a box
        if not 0 < ~node.box < tree.box_from:
            return BAD_BOX
    elif fully:
        own = tree.boxes[node.box]
        if (
            node.low_i != own[0, node.i]
            or node.high_i != own[1, node.i]
            or node.low_j != own[0, node.j]
            or node.high_j != own[1, node.j]
        ):
            return BAD_BOX
    if node.time == math.inf:  # no cut: the points coincide, or cuts are redrawn
        return FINE
    if tree.family == ISOTROPIC:
        length = 0.0
        normal = get_normal(tree, v)
        for k in range(d):
            length += np.float64(normal[k]) * normal[k]
        return FINE if abs(length - 1.0) < 1e-4 and node.a == 0.0 and node.b == 0.0 else BAD_CUT
    if tree.family == AXES or d == 1:
        return FINE if node.i == node.j and node.a == 1.0 and node.b == 0.0 else BAD_CUT
    return FINE if node.i != node.j and abs(node.a * node.a + node.b * node.b - 1.0) < 1e-9 else BAD_CUT


@always_inline
def check_time(tree, v, t0, budget):
    """Check the time of cut node ``v``, whose parent has time ``t0``."""
    time = tree.cuts[v].time
    if not time >= t0:
        return BAD_TIME
    if is_pending(tree, v):
        # It may be overdue: after memory ran out, cuts up to the budget stay pending until the next row is learned.
        return FINE if time == math.inf or not tree.redraw else BAD_TIME
    return FINE if time <= budget and time < math.inf else BAD_TIME


@always_inline
def add_note(checks, kind, ref, depth, k, first, wait):
    """Note something to settle; its points and tests end where those noted so far do."""
    counts = checks.counts[0]
    note = checks.notes[counts.notes]
    note.kind = kind
    note.ref = ref
    note.depth = depth
    note.leaf = k
    note.first = first
    note.last = counts.noted_points
    note.last_test = counts.noted_tests
    note.wait = wait
    counts.notes += 1


@always_inline
def note_leaf(tree, checks, k, pending, depth, start, end):
    """Note leaf ``k`` with the pending cut ``pending`` (or a negative number) and the tests ``start`` to ``end``.

    Its points belong to the box of the cut node at ``depth``.
    """
    counts = checks.counts[0]
    if checks.unmet_leaves[k] == 0:
        return BAD_NODE
    checks.unmet_leaves[k] = 0
    counts.leaves += 1
    n = np.int64(tree.leaves[k].n_points)
    if n < 1 or (n >= tree.min_split) != (pending >= 0):
        return BAD_SIZE
    counts.points += n
    if counts.points > checks.unmet_rows.shape[0]:
        return BAD_SIZE
    counts.tests += n * (end - start)
    if counts.tests > MOST_TESTS * tree.rows.shape[0] + FEW_TESTS:
        return TOO_DEEP
    first = counts.noted_points
    checks.slots[first] = tree.leaves[k].last
    to = counts.noted_tests
    for q in range(start, end):
        checks.noted_tests[to] = checks.tests[q]
        to += 1
    counts.noted_points = first + n
    counts.noted_tests = to
    add_note(checks, LEAF, pending, depth, k, first, 0.0)
    return FINE


@always_inline
def is_full(checks, more):
    """Return whether there is no room to note a leaf with ``more`` tests."""
    counts = checks.counts[0]
    return (
        counts.notes >= NOTES
        or counts.noted_points >= POINTS
        or counts.noted_tests + more > checks.noted_tests.shape[0]
    )


@always_inline
def add_tests(tree, checks, v, depth):
    """List the tests for the children of node ``v``: those of ``v``, then its own cut. Return their start and end.

    The side of its own cut is left open, to be set for each child.
    """
    start, end = checks.ranges[depth].start, checks.ranges[depth].end
    tests = checks.tests
    if depth % LEVELS == LEVELS - 1 and 2 * end - start + tree.cuts.shape[0] < tests.shape[0]:
        kept = end
        for q in range(start, end):
            w = tests[q] >> 1
            if ask_node(tree, v, tree.cuts[w], get_normal(tree, w), tests[q] & 1 == 0) != NO:
                tests[kept] = tests[q]
                kept += 1
        checks.counts[0].tests += end - start
        start, end = end, kept
    tests[end] = 2 * v
    return start, end + 1


@always_inline
def push_node(checks, top, ref, depth, side):
    """Put a node on the stack."""
    visit = checks.stack[top]
    visit.ref = ref
    visit.depth = depth
    visit.side = side
    visit.entered = 0


@always_inline
def exists(tree, ref):
    """Return whether there is a record for node ``ref``."""
    return ref < tree.state[0].n_cuts if ref >= 0 else ~ref < tree.state[0].n_leaves


@always_inline
def push_children(tree, checks, v, depth, top, fully):
    """Put the children of node ``v`` on the stack, at ``top`` and above."""
    left, right = np.int64(tree.cuts[v].left), np.int64(tree.cuts[v].right)
    if not (exists(tree, left) and exists(tree, right)):
        return BAD_NODE
    if left < 0 and right < 0:
        n = np.int64(tree.leaves[~left].n_points) + np.int64(tree.leaves[~right].n_points)
        if n < tree.min_split:
            return BAD_SIZE
    if not has_box(tree, v) and ((left >= 0 and has_box(tree, left)) or (right >= 0 and has_box(tree, right))):
        return BAD_BOX
    checks.times[depth + 1] = tree.cuts[v].time
    first = np.int64(left > right)  # the order in which trees are built: records are then read in memory order
    push_node(checks, top, left if first else right, depth + 1, 1 - first)
    push_node(checks, top + 1, right if first else left, depth + 1, first)
    if fully:
        start, end = add_tests(tree, checks, v, depth)
        checks.ranges[depth + 1].start = start
        checks.ranges[depth + 1].end = end
        if depth + 1 > checks.counts[0].deepest:
            checks.counts[0].deepest = depth + 1
            clear_span(checks.spans[depth + 1])
            checks.lateness[depth + 1] = 0.0
            checks.sizes[depth + 1] = 0
    return FINE


@always_inline
def enter_node(tree, checks, v, depth, budget, fully):
    """Check cut node ``v`` without what is below it."""
    if checks.unmet_cuts[v] == 0:
        return BAD_NODE
    checks.unmet_cuts[v] = 0
    checks.counts[0].cuts += 1
    box = np.int64(tree.cuts[v].box)
    if box >= 0:
        if box >= tree.state[0].n_boxes or checks.unmet_boxes[box] == 0:
            return BAD_NODE
        checks.unmet_boxes[box] = 0
        checks.counts[0].boxes += 1
    wrong = check_cut(tree, v, fully)
    return wrong if wrong != FINE else check_time(tree, v, checks.times[depth], budget)


@inline_source
def check_nodes(tree, checks, budget, tame, fully):
    """Walk over all nodes of the tree. With ``fully``, visit cut nodes both before and after the nodes below them."""
    root = np.int64(tree.state[0].root)
    if not exists(tree, root):
        return FINE if root == NOTHING else BAD_NODE
    start = end = np.int64(0)
    checks.ranges[0].start = 0
    checks.ranges[0].end = 0
    checks.times[0] = 0.0
    clear_span(checks.spans[0])
    checks.lateness[0] = 0.0
    checks.sizes[0] = 0
    top = np.int64(0)
    push_node(checks, top, root, np.int64(0), np.int64(0))
    while top >= 0:
        visit = checks.stack[top]
        ref, depth, side = visit.ref, visit.depth, visit.side
        if fully:
            start, end = checks.ranges[depth].start, checks.ranges[depth].end
        wrong = settle(tree, checks, tame, fully) if is_full(checks, end - start) else FINE
        if wrong != FINE:
            return wrong
        if visit.entered == 1:
            top -= 1
            wait = tree.cuts[ref].time - checks.times[depth]
            add_note(checks, INNER_NODE, ref, depth, np.int64(0), checks.counts[0].noted_points, wait)
            continue
        if fully and depth > 0:
            checks.tests[end - 1] = (checks.tests[end - 1] & ~1) + side
        if fully and ref >= 0:
            visit.entered = 1
            top += 1
        leaf = ref
        if ref >= 0:
            wrong = enter_node(tree, checks, ref, depth, budget, fully)
            if wrong == FINE and not is_pending(tree, ref):
                wrong = push_children(tree, checks, ref, depth, top, fully)
                top += 2
            elif wrong == FINE:
                leaf = np.int64(tree.cuts[ref].left)
                wrong = FINE if leaf < 0 and exists(tree, leaf) else BAD_NODE
        top -= 1
        if wrong == FINE and leaf < 0:
            wrong = note_leaf(tree, checks, ~leaf, ref, depth if ref >= 0 else max(depth - 1, 0), start, end)
        if wrong != FINE:
            return wrong
    return settle(tree, checks, tame, fully)


@always_inline
def check_free(tree, checks):
    """Check that the records not met so far are in the lists of free ones."""
    state, counts = tree.state[0], checks.counts[0]
    v = np.int64(state.free_cut)
    while v >= 0:
        if v >= state.n_cuts or checks.unmet_cuts[v] == 0:
            return BAD_FREE
        checks.unmet_cuts[v] = 0
        counts.cuts += 1
        v = np.int64(tree.cuts[v].left)
    k = np.int64(state.free_leaf)
    while k >= 0:
        if k >= state.n_leaves or checks.unmet_leaves[k] == 0:
            return BAD_FREE
        checks.unmet_leaves[k] = 0
        counts.leaves += 1
        k = np.int64(tree.leaves[k].last)
    box = np.int64(state.free_box)
    while box >= 0:
        if box >= state.n_boxes or checks.unmet_boxes[box] == 0:
            return BAD_FREE
        checks.unmet_boxes[box] = 0
        counts.boxes += 1
        low, high = tree.boxes[box, 0, 0], tree.boxes[box, 1, 0]
        if not (0.0 <= low < 65_536.0 and 0.0 <= high < 65_536.0):
            return BAD_FREE
        box = get_next_box(tree.boxes, box)
    if v != -1 or k != -1 or box != -1:
        return BAD_FREE
    if counts.cuts != state.n_cuts or counts.boxes != state.n_boxes or counts.leaves != state.n_leaves:
        return LOST_RECORD
    return FINE


@always_inline
def start_check(tree, held, checks):
    """Mark all records and held rows as not yet met, and set the counts to 0."""
    for s in range(held.shape[0]):
        checks.unmet_rows[s] = held[s]
    for v in range(tree.state[0].n_cuts):
        checks.unmet_cuts[v] = 1
    for box in range(tree.state[0].n_boxes):
        checks.unmet_boxes[box] = 1
    for k in range(tree.state[0].n_leaves):
        checks.unmet_leaves[k] = 1
    counts = checks.counts[0]
    counts.cuts = counts.boxes = counts.leaves = counts.points = counts.due = counts.tests = 0
    counts.notes = counts.noted_points = counts.noted_tests = counts.deepest = 0


@entry_point(lambda: (example_forest(), 0, np.empty(1, np.uint8), 0, 0.0, True, True, make_checks(1, 1, 1, 1, 1, 1)))
def check_tree(forest, m, held, n_held, budget, tame, fully, checks):
    """Return what is wrong with tree ``m``, as an index of `WRONG`.

    ``held`` is 1 for the slots of rows held, ``n_held`` of them. The sizes in the tree's state must fit its arrays.
    ``tame`` says that labels and weights are of ordinary size, so that their sums must be. ``fully`` adds what only
    learning and forgetting rely on.
    """
    tree = view_tree(forest, m)
    state = tree.state[0]
    if state.s0 == 0 and state.s1 == 0 and state.s2 == 0 and state.s3 == 0:
        return BAD_RANDOM
    start_check(tree, held, checks)
    wrong = check_nodes(tree, checks, budget, tame, fully)
    if wrong == FINE:
        wrong = check_free(tree, checks)
    if wrong != FINE:
        return wrong
    if checks.counts[0].points != n_held:
        return LOST_ROW
    if not fully:
        return FINE
    if checks.counts[0].due != state.n_due:
        return BAD_QUEUE
    for q in range(1, state.n_due):
        if tree.queue[(q - 1) >> 1].time > tree.queue[q].time:
            return BAD_QUEUE
    return FINE
