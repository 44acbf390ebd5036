"""Build a tree, or a subtree, from a set of points (docs/design.md, sections 2 and 4), and apply pending cuts."""

from __future__ import annotations

import math

import numpy as np

from ..layout import (
    HIGH,
    ISOTROPIC,
    LEFT,
    LOW,
    NOTHING,
    NOWHERE,
    RIGHT,
    example_forest,
    example_scratch,
    example_tree,
)
from .boxes import bound_rows
from .cuts import compute_candidate_rate, draw_candidate, limit_candidates, set_normal_cut
from .jit import BOOLEAN, INTEGER, always_inline, called_by_address, entry_point, prefetch
from .node_boxes import join_children, set_box
from .nodes import (
    allocate_cut,
    allocate_leaf,
    attach,
    free_leaf,
    get_child,
    get_normal,
    has_room,
    load_points,
    require,
    scale_held_row,
    set_cut,
    set_points,
    sum_rows,
    view_tree_with,
)
from .partition import partition_rows, partition_rows_inline
from .pending import schedule, unschedule
from .rng import draw_exponential

# Terms of sets of fewer rows are prefetched: the sets soon become leaves. (Waiting for them took a fifth of the time.)
PREFETCH_TERMS_BELOW = 32

# Sets of this many rows or more are cut in a box that encloses them, not in their own: see `build`.
CLIP_BOX_FROM = 64


@always_inline
def draw_split(tree, scratch, box, tight, start, end, t0):
    """Draw the first cut of ``scratch.rows[start:end]`` after time t0 (docs/design.md, section 2), and partition them.

    The stream of candidates may go on in another box at any moment. So ``box`` need only enclose the rows; it is made tight
    after a candidate that misses them.

    Returns
    -------
    time : float
        Infinite if the rows coincide. The cut is in ``scratch.cut``.
    middle : int
        Where the rows right of the cut start.
    tight : bool
        Whether the box is tight now.
    """
    cut = scratch.cut[0]
    rate = compute_candidate_rate(tree.family, box)
    t = t0
    if rate > 0.0:
        for _ in range(limit_candidates(tree.family, box.shape[1])):
            t += draw_exponential(tree.state[0]) / rate
            draw_candidate(tree.family, tree.state[0], box, rate, cut, scratch.normal)
            middle = partition_rows_inline(tree.family, cut, scratch.normal, scratch, start, end)
            if start < middle < end:
                return t, middle, tight
            if not tight:
                bound_rows(scratch.rows, start, end, box)
                tight = True
                rate = compute_candidate_rate(tree.family, box)
                if rate <= 0.0:
                    break
    set_normal_cut(cut, 0.0)
    for k in range(scratch.normal.shape[0]):
        scratch.normal[k] = 0.0
    return math.inf, start, True


@always_inline
def copy_to_box(box, into):
    """Copy a box."""
    for k in range(box.shape[1]):
        into[LOW, k] = box[LOW, k]
        into[HIGH, k] = box[HIGH, k]


@always_inline
def clip_box(box, cut, right, clipped):
    """Bound the part of ``box`` on one side of a cut, which is not isotropic, by ``clipped``, rounded outwards."""
    copy_to_box(box, clipped)
    clip_dimension(box, cut.i, cut.a, cut.j, cut.b, cut.p, right, clipped)
    clip_dimension(box, cut.j, cut.b, cut.i, cut.a, cut.p, right, clipped)


@always_inline
def clip_dimension(box, i, a, j, b, p, right, clipped):
    """Bound coordinate i where a*z[i] + b*z[j] <= p (or, if ``right``, where it is larger)."""
    if a == 0.0:
        return
    x, y = b * box[LOW, j], b * box[HIGH, j]
    most = max(x, y) if right else min(x, y)
    rounding = 1e-14 * (abs(p) + abs(most))
    bound = (p - most - rounding) / a if right else (p - most + rounding) / a
    if right == (a > 0.0):
        if bound > clipped[LOW, i]:
            clipped[LOW, i] = bound
    elif bound < clipped[HIGH, i]:
        clipped[HIGH, i] = bound


@always_inline
def push_task(scratch, top, start, end, parent, side, time, one_by_one):
    """Put the set ``rows[start:end]``, to be added below ``parent`` from ``time`` on, on the stack."""
    task = scratch.tasks[top]
    task.start = start
    task.end = end
    task.parent = parent
    task.side = side
    task.time = time
    task.one_by_one = one_by_one


@always_inline
def push_sides(scratch, top, start, middle, end, parent, time):
    """Put both sides of a set on the stack, the smaller on top. Return 1 if that is the left one, else 0."""
    left_on_top = 1 if middle - start < end - middle else 0
    push_task(scratch, top + left_on_top, start, middle, parent, LEFT, time, False)
    push_task(scratch, top + 1 - left_on_top, middle, end, parent, RIGHT, time, False)
    return left_on_top


@always_inline
def prefetch_terms(tree, slots, start, end):
    """Prefetch the terms of the rows in ``slots[start:end]``, if they are few."""
    if end - start < PREFETCH_TERMS_BELOW and tree.terms.shape[1] > 0:
        for s in range(start, end):
            prefetch(tree.terms, slots[s])


@always_inline
def clip_sides(scratch, top, left_on_top, start, middle, end):
    """Give large sides of a set, just put on the stack, the box of the set clipped by its cut."""
    if middle - start >= CLIP_BOX_FROM:
        clip_box(scratch.box, scratch.cut[0], np.bool_(False), scratch.boxes[top + left_on_top])
    if end - middle >= CLIP_BOX_FROM:
        clip_box(scratch.box, scratch.cut[0], np.bool_(True), scratch.boxes[top + 1 - left_on_top])


@always_inline
def make_leaf(tree, slots, start, end):
    """Return a new leaf with the points in ``slots[start:end]``; -1 if there is no room."""
    k = allocate_leaf(tree)
    if k >= 0:
        set_points(tree, k, slots, start, end)
    return k


@always_inline
def add_children(tree, v):
    """Set the sums of cut node ``v`` to those of its two children."""
    for c in range(tree.sums.shape[1]):
        total = 0.0
        for side in range(2):
            ref = get_child(tree, v, side)
            total += tree.sums[ref, c] if ref >= 0 else tree.leaf_sums[~ref, c]
        tree.sums[v, c] = total


@always_inline
def make_pending(tree, v, k):
    """Make node ``v`` the pending cut of leaf ``k``."""
    node = tree.cuts[v]
    node.left = ~k
    node.right = NOTHING
    schedule(tree, node.time, v, k)


@called_by_address(BOOLEAN, lambda: (example_tree(), example_scratch(), 0, 0, 0, 0, 0.0, 0.0))
def build(tree, scratch, start, end, parent, side, t0, budget):
    """Grow the tree of ``scratch.rows[start:end]``, at least one row, from time t0 up to the budget, below ``parent``.

    A large set is not bounded afresh: the box of the set it was cut from, clipped by that cut, encloses it, which suffices
    to draw its own cut. Its tight box is joined from its children's at the end, as are its sums. (Bounding took a quarter of
    the time.)

    Permutes the rows. Returns False if there is no room; the tree is then unfinished.
    """
    push_task(scratch, np.int64(0), start, end, parent, side, t0, False)
    prefetch_terms(tree, scratch.slots, start, end)
    clipped = False  # the first set has no box yet
    n_loose = 0
    top = np.int64(0)
    while top >= 0:
        task = scratch.tasks[top]
        start, end, parent, side, t = task.start, task.end, task.parent, task.side, task.time
        v = np.int64(-1)
        if end - start >= tree.min_split:
            v = allocate_cut(tree)
            if v < 0:
                return False
            box = scratch.box
            tight = end - start < CLIP_BOX_FROM or not clipped
            if tight:
                bound_rows(scratch.rows, start, end, box)
            else:
                copy_to_box(scratch.boxes[top], box)
            t, middle, tight = draw_split(tree, scratch, box, tight, start, end, t)
            set_cut(tree, v, scratch.cut[0], scratch.normal, t)
            attach(tree, parent, side, v)
            if t <= budget and t < math.inf:
                if tight:
                    set_box(tree, v, box)
                    sum_rows(tree.terms, scratch.slots, start, end, tree.sums[v])
                else:
                    scratch.loose[n_loose] = v
                    n_loose += 1
                left_on_top = push_sides(scratch, top, start, middle, end, v, t)
                if end - start >= PREFETCH_TERMS_BELOW:
                    prefetch_terms(tree, scratch.slots, start, middle)
                    prefetch_terms(tree, scratch.slots, middle, end)
                clipped = tree.family != ISOTROPIC
                if clipped:
                    clip_sides(scratch, top, left_on_top, start, middle, end)
                top += 1
                continue
            if not tight:
                bound_rows(scratch.rows, start, end, box)
            set_box(tree, v, box)
            sum_rows(tree.terms, scratch.slots, start, end, tree.sums[v])
        k = make_leaf(tree, scratch.slots, start, end)
        if k < 0:
            return False
        if v < 0:
            attach(tree, parent, side, ~k)
        else:
            make_pending(tree, v, k)
        top -= 1
    for k in range(n_loose - 1, -1, -1):
        join_children(tree, np.int64(scratch.loose[k]))
        add_children(tree, np.int64(scratch.loose[k]))
    return True


@called_by_address(INTEGER, lambda: (example_tree(), example_scratch(), 0.0))
def apply_due_cuts(tree, scratch, budget):
    """Apply all pending cuts up to the budget.

    Returns 0 if all are applied, else the number of points of a leaf for which the tree, or ``scratch``, lacks room.
    """
    while tree.state[0].n_due > 0 and tree.queue[0].time <= budget:
        v = np.int64(tree.queue[0].cut)
        k = np.int64(tree.queue[0].leaf)
        n = np.int64(tree.leaves[k].n_points)
        if n > scratch.rows.shape[0] or not has_room(tree, n):
            return n
        unschedule(tree, k)
        load_points(tree, k, scratch, np.int64(0))
        free_leaf(tree, k)
        middle = partition_rows(tree.family, tree.cuts[v], get_normal(tree, v), scratch, np.int64(0), n)
        require(0 < middle < n)
        require(build(tree, scratch, np.int64(0), middle, v, LEFT, tree.cuts[v].time, budget))
        require(build(tree, scratch, middle, n, v, RIGHT, tree.cuts[v].time, budget))
    return 0


@always_inline
def clear_state(state):
    """Empty a tree; its random stream goes on."""
    state.root = NOTHING
    state.n_cuts = 0
    state.free_cut = -1
    state.n_leaves = 0
    state.free_leaf = -1
    state.n_due = 0


@always_inline
def copy_state(state, into):
    """Copy the state of a tree."""
    into.s0, into.s1, into.s2, into.s3 = state.s0, state.s1, state.s2, state.s3
    into.root = state.root
    into.n_cuts, into.free_cut = state.n_cuts, state.free_cut
    into.n_leaves, into.free_leaf = state.n_leaves, state.free_leaf
    into.n_due = state.n_due


@entry_point(lambda: (example_forest(), example_scratch(), 0, 0, np.empty(1, np.int32), 0.0))
def build_trees(forest, scratch, first, last, slots, budget):
    """Build trees ``first`` to ``last`` from the rows in ``slots``; ``scratch`` has room for them.

    Returns the first tree that lacks room, ``last`` if none does. The state of a tree is kept in ``scratch`` until it is
    built: a tree that lacked room is built again from the same random stream, and there is no false sharing.
    """
    n = slots.shape[0]
    for m in range(first, last):
        tree = view_tree_with(forest, m, scratch.state)
        copy_state(forest.state[m], scratch.state[0])
        clear_state(scratch.state[0])
        for s in range(n):
            scale_held_row(tree, slots[s], scratch.rows[s])
            scratch.slots[s] = slots[s]
        if n > 0 and not build(tree, scratch, np.int64(0), n, NOWHERE, LEFT, 0.0, budget):
            clear_state(forest.state[m])
            return m
        copy_state(scratch.state[0], forest.state[m])
    return last
