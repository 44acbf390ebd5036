"""Building a tree, or any part of one, from a set of points (design, sections 2 and 4), and carrying out pending cuts."""

from __future__ import annotations

import math

import numpy as np

from ._boxes import bound_rows
from ._compile import entry, inlined, kernel
from ._cuts import PATIENCE, candidate_rate, draw_candidate, height
from ._layout import ISOTROPIC, NOTHING
from ._nodes import (
    attach,
    free_leaf,
    load_points,
    new_cut,
    new_leaf,
    place,
    recount,
    set_box,
    set_cut,
    tree_of,
)
from ._queue import schedule, unschedule
from ._random import draw_exponential


@inlined
def swap_rows(rows, slots, s, t):
    d = np.uint64(rows.shape[1])
    q = np.uint64(0)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    while q + four <= d:
        x0, x1, x2, x3 = rows[s, q], rows[s, q + one], rows[s, q + two], rows[s, q + three]
        y0, y1, y2, y3 = rows[t, q], rows[t, q + one], rows[t, q + two], rows[t, q + three]
        rows[s, q], rows[s, q + one], rows[s, q + two], rows[s, q + three] = y0, y1, y2, y3
        rows[t, q], rows[t, q + one], rows[t, q + two], rows[t, q + three] = x0, x1, x2, x3
        q += four
    while q < d:
        x0, y0 = rows[s, q], rows[t, q]
        rows[s, q], rows[t, q] = y0, x0
        q += one
    slot = slots[s]
    slots[s] = slots[t]
    slots[t] = slot


@inlined
def share_out(family, cut, normal, rows, slots, start, end):
    """Move the rows left of the cut before those right of it; where the right part starts.

    A cut that misses the rows moves nothing, so this is also the test whether a candidate splits them.
    """
    s = start
    t = end - 1
    p = cut.p
    if family == ISOTROPIC:
        while True:
            while s <= t and height(family, cut, normal, rows[s]) <= p:
                s += 1
            while s <= t and height(family, cut, normal, rows[t]) > p:
                t -= 1
            if s >= t:
                return s
            swap_rows(rows, slots, np.uint64(s), np.uint64(t))
            s += 1
            t -= 1
    # Unsigned indices: numba need not ask whether they count from the end.
    i, j, a, b = np.uint64(cut.i), np.uint64(cut.j), cut.a, cut.b
    while True:
        while s <= t and a * rows[np.uint64(s), i] + b * rows[np.uint64(s), j] <= p:
            s += 1
        while s <= t and a * rows[np.uint64(t), i] + b * rows[np.uint64(t), j] > p:
            t -= 1
        if s >= t:
            return s
        swap_rows(rows, slots, np.uint64(s), np.uint64(t))
        s += 1
        t -= 1


@inlined
def draw_split(tree, work, box, start, end, t0):
    """The first cut of ``work.rows[start:end]``, with this box, after time t0 (design, section 2).

    Its time and where the right part starts; the cut is in ``work.cut``, the rows are shared out by it. The time is
    infinite if the rows coincide.
    """
    cut = work.cut[0]
    rate = candidate_rate(tree.family, box)
    t = t0
    if rate > 0.0:
        for _ in range(PATIENCE):
            t += draw_exponential(tree.state[0]) / rate
            draw_candidate(tree.family, tree.state[0], box, rate, cut, work.normal)
            middle = share_out(tree.family, cut, work.normal, work.rows, work.slots, start, end)
            if start < middle < end:
                return t, middle
    cut.i = cut.j = 0
    cut.a = cut.b = cut.p = 0.0
    return math.inf, start


@inlined
def push_task(work, top, start, end, parent, side, time):
    """Put a set on the stack."""
    task = work.tasks[top]
    task[0] = start
    task[1] = end
    task[2] = parent
    task[3] = side
    work.times[top] = time


@inlined
def push_parts(work, top, start, middle, end, parent, time):
    """Put both parts of a set on the stack, the smaller on top."""
    left_on_top = 1 if middle - start < end - middle else 0
    push_task(work, top + left_on_top, start, middle, parent, 0, time)
    push_task(work, top + 1 - left_on_top, middle, end, parent, 1, time)


@inlined
def make_leaf(tree, slots, start, end):
    """A leaf with these points; -1 if there is no room."""
    k = new_leaf(tree)
    if k >= 0:
        last = slots[end - 1]
        tree.leaves[k].n_points = end - start
        tree.leaves[k].last = last
        for s in range(start, end):
            tree.links[last] = slots[s]
            last = slots[s]
        recount(tree, k)
    return k


@kernel
def build(tree, work, start, end, parent, side, t0, budget):
    """Grow the tree of ``work.rows[start:end]`` from time t0 up to the budget and put it below ``parent``.

    Permutes those rows. False if the tree has no room for it; it is then unfinished. The set may not be empty.
    """
    push_task(work, 0, start, end, parent, side, t0)
    top = 0
    while top >= 0:
        task = work.tasks[top]
        start, end, parent, side = task[0], task[1], task[2], task[3]
        v = np.int64(-1)
        if end - start >= tree.min_split:
            v = new_cut(tree)
            if v < 0:
                return False
            box = work.box
            bound_rows(work.rows, start, end, box)
            t, middle = draw_split(tree, work, box, start, end, work.times[top])
            set_cut(tree, v, work.cut[0], work.normal, t)
            set_box(tree, v, box)
            attach(tree, parent, side, v)
            if t <= budget and t < math.inf:
                push_parts(work, top, start, middle, end, v, t)
                top += 1
                continue
        k = make_leaf(tree, work.slots, start, end)
        if k < 0:
            return False
        top -= 1
        if v < 0:
            attach(tree, parent, side, ~k)
            continue
        node = tree.cuts[v]
        node.left = ~k
        node.right = NOTHING
        if tree.redraw:
            node.time = math.inf  # Algorithm 4 as printed forgets a cut that comes too late
        schedule(tree, node.time, v, k)
    return True


@kernel
def carry_out(tree, work, budget):
    """Carry out all pending cuts up to the budget.

    0 if all is done; else the number of points of a leaf for which the tree, or ``work``, has no room.
    """
    while tree.state[0].n_due > 0 and tree.queue[0].time <= budget:
        v = np.int64(tree.queue[0].cut)
        k = np.int64(tree.queue[0].leaf)
        n = np.int64(tree.leaves[k].n_points)
        state = tree.state[0]
        if n > work.rows.shape[0] or state.n_cuts + n > tree.cuts.shape[0] or state.n_leaves + n > tree.leaves.shape[0]:
            return n
        unschedule(tree, k)
        load_points(tree, k, work, np.int64(0))
        free_leaf(tree, k)
        middle = share_out(tree.family, tree.cuts[v], tree.boxes[v, -1], work.rows, work.slots, np.int64(0), n)
        build(tree, work, np.int64(0), middle, v, np.int64(0), tree.cuts[v].time, budget)
        build(tree, work, middle, n, v, np.int64(1), tree.cuts[v].time, budget)
    return 0


@inlined
def clear(tree):
    """Empty the tree; its random stream goes on."""
    state = tree.state[0]
    state.root = NOTHING
    state.n_cuts = 0
    state.free_cut = -1
    state.n_leaves = 0
    state.free_leaf = -1
    state.n_due = 0


@entry
def build_trees(forest, work, first, last, slots, budget):
    """Build trees ``first`` to ``last`` from the rows in ``slots``. The first tree without room, ``last`` if none.

    ``work`` has room for all the rows.
    """
    n = slots.shape[0]
    for m in range(first, last):
        tree = tree_of(forest, m)
        clear(tree)
        state = tree.state[0]
        s0, s1, s2, s3 = state.s0, state.s1, state.s2, state.s3
        for s in range(n):
            place(tree, slots[s], work.rows[s])
            work.slots[s] = slots[s]
        if n > 0 and not build(tree, work, np.int64(0), n, np.int64(-1), np.int64(0), 0.0, budget):
            state.s0, state.s1, state.s2, state.s3 = s0, s1, s2, s3
            clear(tree)
            return m
    return last
