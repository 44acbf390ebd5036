"""Is a tree that came from a file a tree? Everything that the other kernels take for granted is checked here.

One walk over the tree: every record and every held row must be met exactly once, so nothing here runs for ever or out of
bounds either, whatever the arrays contain. Points are noted, and checked some at a time: see `bspforest.engine.kernels.validate_points`.

Without ``fully``, what kernels that read trees take for granted: nodes, rings of points, statistics. Kernels that change trees
also rely on points being where the cuts say, on boxes and on the queue; to check that takes three times as long.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import AXES, ISOTROPIC, NOTHING, example_forest
from .boxes import NO, ask_box
from .jit import always_inline, entry_point, inline_source
from .nodes import view_tree
from .validate_points import (
    BAD_BOX,
    BAD_CUT,
    BAD_FREE,
    BAD_NODE,
    BAD_QUEUE,
    BAD_RANDOM,
    BAD_SIZE,
    BAD_TIME,
    CLEARED,
    CUTS,
    DUE,
    FEW_TESTS,
    FINE,
    LEAF_NOTE,
    LEAVE,
    LEAVES,
    LOST_RECORD,
    LOST_ROW,
    MET,
    MOST_TESTS,
    N_NOTED,
    N_NOTES,
    N_POINTS,
    NOTES,
    POINTS,
    TESTS,
    TOO_DEEP,
    clear_span,
    make_checks,
    settle,
)

# Every so many levels, cuts that a node's box lies wholly to one side of are dropped from those that its points are tested
# against.
LEVELS = 4


@always_inline
def check_cut(tree, v, fully):
    """Is record ``v`` a cut of its family, with the bounds of its box beside it?"""
    node = tree.cuts[v]
    d = tree.boxes.shape[2]
    if not (0 <= node.i < d and 0 <= node.j < d and math.isfinite(node.p)):
        return BAD_CUT
    own = tree.boxes[v]
    if fully and (
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


@always_inline
def check_time(tree, v, t0, budget):
    """Is the time of cut node ``v`` possible, if it starts at t0?"""
    node = tree.cuts[v]
    if not node.time >= t0:
        return BAD_TIME
    if node.right == NOTHING:
        if node.time < math.inf and (node.time <= budget or tree.redraw):
            return BAD_TIME
    elif not node.time <= budget:
        return BAD_TIME
    return FINE if node.right == NOTHING or node.time < math.inf else BAD_TIME


@always_inline
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


@always_inline
def put_note(checks, kind, ref, h, k, first):
    counts = checks.counts
    note = checks.notes[counts[N_NOTES]]
    note[0], note[1], note[2], note[3] = kind, ref, h, k
    note[4], note[5], note[6] = counts[N_POINTS], counts[N_NOTED], first
    counts[N_NOTES] += 1


@always_inline
def is_full(checks, more):
    """Is there no room to note a leaf with ``more`` tests?"""
    counts = checks.counts
    return counts[N_NOTES] >= NOTES or counts[N_POINTS] >= POINTS or counts[N_NOTED] + more > checks.noted.shape[0]


@always_inline
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


@always_inline
def put_node(checks, top, ref, h, side):
    checks.stack[top, 0] = ref
    checks.stack[top, 1] = h
    checks.stack[top, 2] = side
    checks.stack[top, 3] = 0


@always_inline
def exists(tree, ref):
    """Is there a record for node ``ref``?"""
    return ref < tree.state[0].n_cuts if ref >= 0 else ~ref < tree.state[0].n_leaves


@always_inline
def open_node(tree, checks, v, h, top, fully):
    """Put the children of node ``v``, at depth h, on the stack from ``top`` on."""
    left, right = np.int64(tree.cuts[v].left), np.int64(tree.cuts[v].right)
    if not (exists(tree, left) and exists(tree, right)):
        return BAD_NODE
    if left < 0 and right < 0:
        n = np.int64(tree.leaves[~left].n_points) + np.int64(tree.leaves[~right].n_points)
        if n < tree.min_split:
            return BAD_SIZE
    checks.times[h + 1] = tree.cuts[v].time
    first = np.int64(left > right)  # trees built at once were built in this order: records are then read as they lie
    put_node(checks, top, left if first else right, h + 1, 1 - first)
    put_node(checks, top + 1, right if first else left, h + 1, first)
    if fully:
        start, end = add_tests(tree, checks, v, h)
        checks.ends[h + 1, 0] = start
        checks.ends[h + 1, 1] = end
        if h + 1 > checks.counts[CLEARED]:
            checks.counts[CLEARED] = h + 1
            clear_span(checks.spans[h + 1])
    return FINE


@always_inline
def enter_node(tree, checks, v, h, budget, fully):
    """Check cut node ``v``, at depth h, without what is below it."""
    if checks.cuts[v] == 0:
        return BAD_NODE
    checks.cuts[v] = 0
    checks.counts[CUTS] += 1
    wrong = check_cut(tree, v, fully)
    return wrong if wrong != FINE else check_time(tree, v, checks.times[h], budget)


@inline_source
def check_nodes(tree, checks, budget, tame, fully):
    """Walk over all nodes of the tree; ``fully``: cut nodes are met before and again after what is below them."""
    if not exists(tree, np.int64(tree.state[0].root)):
        return FINE if tree.state[0].root == NOTHING else BAD_NODE
    start = end = np.int64(0)
    checks.ends[0, 0] = 0
    checks.ends[0, 1] = 0
    checks.times[0] = 0.0
    clear_span(checks.spans[0])
    top = np.int64(0)
    put_node(checks, top, np.int64(tree.state[0].root), np.int64(0), np.int64(0))
    while top >= 0:
        ref, h, side = checks.stack[top, 0], checks.stack[top, 1], checks.stack[top, 2]
        if fully:
            start, end = checks.ends[h, 0], checks.ends[h, 1]
        wrong = settle(tree, checks, tame, fully) if is_full(checks, end - start) else FINE
        if wrong != FINE:
            return wrong
        if checks.stack[top, 3] == 1:
            top -= 1
            checks.waits[checks.counts[N_NOTES]] = tree.cuts[ref].time - checks.times[h]
            put_note(checks, LEAVE, ref, h, np.int64(0), checks.counts[N_POINTS])
            continue
        if fully and h > 0:
            checks.tests[end - 1] = (checks.tests[end - 1] & ~1) + side
        if fully and ref >= 0:
            checks.stack[top, 3] = 1
            top += 1
        leaf = ref
        if ref >= 0:
            wrong = enter_node(tree, checks, ref, h, budget, fully)
            if wrong == FINE and tree.cuts[ref].right != NOTHING:
                wrong = open_node(tree, checks, ref, h, top, fully)
                top += 2
            elif wrong == FINE:
                leaf = np.int64(tree.cuts[ref].left)
                wrong = FINE if leaf < 0 and exists(tree, leaf) else BAD_NODE
        top -= 1
        if wrong == FINE and leaf < 0:
            wrong = note_leaf(tree, checks, ~leaf, ref, h if ref >= 0 else max(h - 1, 0), start, end)
        if wrong != FINE:
            return wrong
    return settle(tree, checks, tame, fully)


@always_inline
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


@entry_point(lambda: (example_forest(), 0, np.empty(1, np.uint8), 0, 0.0, True, True, make_checks(1, 1, 1, 1, 1)))
def check_tree(forest, m, held, n_held, budget, tame, fully, checks):
    """What is wrong with tree ``m``, a number of `WRONG`.

    ``held`` is 1 for the slots of rows held, ``n_held`` of them. Sizes in the state of the tree fit its arrays. ``tame``: labels
    and weights are of ordinary size, so that their sums must be. ``fully``: also what only learning and forgetting rely on.
    """
    tree = view_tree(forest, m)
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
    wrong = check_nodes(tree, checks, budget, tame, fully)
    if wrong == FINE:
        wrong = check_free(tree, checks)
    if wrong != FINE:
        return wrong
    if checks.counts[MET] != n_held:
        return LOST_ROW
    if not fully:
        return FINE
    if checks.counts[DUE] != state.n_due:
        return BAD_QUEUE
    for place_ in range(1, state.n_due):
        if tree.queue[(place_ - 1) >> 1].time > tree.queue[place_].time:
            return BAD_QUEUE
    return FINE
