"""Building a tree, or any part of one, from a set of points (docs/design.md, sections 2 and 4), and carrying out pending cuts."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import ISOTROPIC, LEFT, NOTHING, NOWHERE, RIGHT, example_forest, example_scratch, example_tree
from .boxes import bound_rows
from .cuts import candidate_rate, draw_candidate, height, patience, set_normal_cut
from .jit import BOOLEAN, INTEGER, always_inline, called_by_address, entry_point, kernel, prefetch
from .nodes import (
    attach,
    count_labels,
    free_leaf,
    join_children,
    load_points,
    new_cut,
    new_leaf,
    place,
    set_box,
    set_cut,
    tree_with,
)
from .pending import schedule, unschedule
from .rng import draw_exponential


@always_inline
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


# So few numbers are moved without asking whether they need to be.
FEW_NUMBERS = 128

# The labels of sets of fewer rows than this are fetched: leaves are not far. (Waiting for them took a fifth of the time.)
NEARLY = 16

# Sets of this many rows or more are cut by a box that encloses them, not by their own; see `build`.
LARGE = 64


@always_inline
def share_out_small(rows, slots, cut, start, end):
    """As `share_out`, for few rows: every row is moved, and no branch is foreseen wrongly but the last."""
    i, j, a, b, p = np.uint64(cut.i), np.uint64(cut.j), cut.a, cut.b, cut.p
    middle = np.uint64(start)
    for s in range(np.uint64(start), np.uint64(end)):
        right = a * rows[s, i] + b * rows[s, j] > p
        swap_rows(rows, slots, s, middle)
        middle += np.uint64(not right)
    return np.int64(middle)


@always_inline
def share_out(family, cut, normal, work, start, end):
    """Move the rows left of the cut before those right of it; where the right part starts.

    A cut that misses the rows moves nothing, so this is also the test whether a candidate splits them. First all sides, then
    the rows on the wrong one, then these change places: no step has branches that are foreseen wrongly, which made
    large sets 1.5 times as fast to share out.
    """
    rows, slots, sides = work.rows, work.slots, work.sides
    n = end - start
    if family != ISOTROPIC and n * rows.shape[1] <= FEW_NUMBERS:
        return share_out_small(rows, slots, cut, start, end)
    n_right = np.int64(0)
    if family == ISOTROPIC:
        for s in range(n):
            right = height(family, cut, normal, rows[start + s]) > cut.p
            sides[s] = right
            n_right += right
    else:
        # Unsigned indices: numba need not ask whether they count from the end.
        i, j, a, b, p = np.uint64(cut.i), np.uint64(cut.j), cut.a, cut.b, cut.p
        first = np.uint64(start)
        for s in range(np.uint64(n)):
            right = a * rows[first + s, i] + b * rows[first + s, j] > p
            sides[s] = right
            n_right += right
    middle = end - n_right
    if middle == start or middle == end:
        return middle
    swap_misplaced(work, start, middle, n)
    return middle


@kernel
def swap_misplaced(work, start, middle, n):
    """Let rows on the wrong side of ``middle`` change places. ``work.sides`` are the sides of n rows from ``start``."""
    rows, slots, sides, misplaced = work.rows, work.slots, work.sides, work.misplaced
    n_left = np.uint64(middle - start)
    first = np.uint64(start)
    c = np.uint64(0)
    for s in range(n_left):
        misplaced[0, c] = s
        c += np.uint64(sides[s])
    e = np.uint64(0)
    for s in range(n_left, np.uint64(n)):
        misplaced[1, e] = s
        e += np.uint64(1 - sides[s])
    for k in range(c):
        swap_rows(rows, slots, first + np.uint64(misplaced[0, k]), first + np.uint64(misplaced[1, k]))


@kernel
def part_rows(family, cut, normal, work, start, end):
    """As `share_out`, compiled apart: for a cut that is known, not for each candidate."""
    return share_out(family, cut, normal, work, start, end)


@always_inline
def draw_split(tree, work, box, tight, start, end, t0):
    """The first cut of ``work.rows[start:end]`` after time t0 (docs/design.md, section 2).

    ``box`` encloses the rows; it is made tight, if it is not, after a candidate that misses them: the stream of candidates
    may go on in another box at any moment. Returns the time, where the right part starts, and whether the box is tight
    now; the cut is in ``work.cut``, the rows are shared out by it. The time is infinite if the rows coincide.
    """
    cut = work.cut[0]
    rate = candidate_rate(tree.family, box)
    t = t0
    if rate > 0.0:
        for _ in range(patience(tree.family, box.shape[1])):
            t += draw_exponential(tree.state[0]) / rate
            draw_candidate(tree.family, tree.state[0], box, rate, cut, work.normal)
            middle = share_out(tree.family, cut, work.normal, work, start, end)
            if start < middle < end:
                return t, middle, tight
            if not tight:
                bound_rows(work.rows, start, end, box)
                tight = True
                rate = candidate_rate(tree.family, box)
                if rate <= 0.0:
                    break
    set_normal_cut(cut, 0.0)
    for k in range(work.normal.shape[0]):
        work.normal[k] = 0.0
    return math.inf, start, True


@always_inline
def clip_box(box, cut, right, clipped):
    """The box of the part of ``box`` on one side of the cut, into ``clipped``; not isotropic. Rounded outwards."""
    for k in range(box.shape[1]):
        clipped[0, k] = box[0, k]
        clipped[1, k] = box[1, k]
    clip_side(box, cut.i, cut.a, cut.j, cut.b, cut.p, right, clipped)
    clip_side(box, cut.j, cut.b, cut.i, cut.a, cut.p, right, clipped)


@always_inline
def clip_side(box, i, a, j, b, p, right, clipped):
    """The bounds of coordinate i where a*z[i] + b*z[j] <= p (or, ``right``, above)."""
    if a == 0.0:
        return
    x, y = b * box[0, j], b * box[1, j]
    most = max(x, y) if right else min(x, y)
    rounding = 1e-14 * (abs(p) + abs(most))
    bound = (p - most - rounding) / a if right else (p - most + rounding) / a
    if right == (a > 0.0):
        if bound > clipped[0, i]:
            clipped[0, i] = bound
    elif bound < clipped[1, i]:
        clipped[1, i] = bound


@always_inline
def push_task(work, top, start, end, parent, side, time):
    """Put a set on the stack."""
    task = work.tasks[top]
    task[0] = start
    task[1] = end
    task[2] = parent
    task[3] = side
    work.times[top] = time


@always_inline
def push_parts(work, top, start, middle, end, parent, time):
    """Put both parts of a set on the stack, the smaller on top."""
    left_on_top = 1 if middle - start < end - middle else 0
    push_task(work, top + left_on_top, start, middle, parent, LEFT, time)
    push_task(work, top + 1 - left_on_top, middle, end, parent, RIGHT, time)
    return left_on_top


@always_inline
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
        count_labels(tree, k, slots, start, end)
    return k


@always_inline
def prefetch_labels(labels, slots, start, end):
    for s in range(start, end):
        prefetch(labels, slots[s])


@called_by_address(BOOLEAN, lambda: (example_tree(), example_scratch(), 0, 0, 0, 0, 0.0, 0.0))
def build(tree, work, start, end, parent, side, t0, budget):
    """Grow the tree of ``work.rows[start:end]`` from time t0 up to the budget and put it below ``parent``.

    Permutes those rows. False if the tree has no room for it; it is then unfinished. The set may not be empty.

    A large set is not bounded afresh: the box of the set it was cut from, clipped by the cut, encloses it, and that is
    enough to draw its own cut. Its tight box is joined from its children's at the end. (Bounding took a quarter of the time.)
    """
    push_task(work, np.int64(0), start, end, parent, side, t0)
    if end - start < NEARLY:
        prefetch_labels(tree.labels, work.slots, start, end)
    clipped = False  # the first set has no box yet
    n_loose = 0
    top = np.int64(0)
    while top >= 0:
        task = work.tasks[top]
        start, end, parent, side = task[0], task[1], task[2], task[3]
        v = np.int64(-1)
        if end - start >= tree.min_split:
            v = new_cut(tree)
            if v < 0:
                return False
            box = work.box
            tight = end - start < LARGE or not clipped
            if tight:
                bound_rows(work.rows, start, end, box)
            else:
                for k in range(box.shape[1]):
                    box[0, k] = work.boxes[top, 0, k]
                    box[1, k] = work.boxes[top, 1, k]
            t, middle, tight = draw_split(tree, work, box, tight, start, end, work.times[top])
            set_cut(tree, v, work.cut[0], work.normal, t)
            attach(tree, parent, side, v)
            if t <= budget and t < math.inf:
                if tight:
                    set_box(tree, v, box)
                else:
                    work.loose[n_loose] = v
                    n_loose += 1
                left_on_top = push_parts(work, top, start, middle, end, v, t)
                if end - start >= NEARLY:
                    if middle - start < NEARLY:
                        prefetch_labels(tree.labels, work.slots, start, middle)
                    if end - middle < NEARLY:
                        prefetch_labels(tree.labels, work.slots, middle, end)
                clipped = tree.family != ISOTROPIC
                if clipped:
                    if middle - start >= LARGE:
                        clip_box(box, work.cut[0], np.bool_(False), work.boxes[top + left_on_top])
                    if end - middle >= LARGE:
                        clip_box(box, work.cut[0], np.bool_(True), work.boxes[top + 1 - left_on_top])
                top += 1
                continue
            if not tight:
                bound_rows(work.rows, start, end, box)
            set_box(tree, v, box)
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
    for k in range(n_loose - 1, -1, -1):
        join_children(tree, np.int64(work.loose[k]), work.point[2])
    return True


@called_by_address(INTEGER, lambda: (example_tree(), example_scratch(), 0.0))
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
        middle = part_rows(tree.family, tree.cuts[v], tree.boxes[v, -1], work, np.int64(0), n)
        build(tree, work, np.int64(0), middle, v, LEFT, tree.cuts[v].time, budget)
        build(tree, work, middle, n, v, RIGHT, tree.cuts[v].time, budget)
    return 0


@always_inline
def clear(state):
    """Empty a tree; its random stream goes on."""
    state.root = NOTHING
    state.n_cuts = 0
    state.free_cut = -1
    state.n_leaves = 0
    state.free_leaf = -1
    state.n_due = 0


@always_inline
def copy_state(state, into):
    into.s0, into.s1, into.s2, into.s3 = state.s0, state.s1, state.s2, state.s3
    into.root = state.root
    into.n_cuts, into.free_cut = state.n_cuts, state.free_cut
    into.n_leaves, into.free_leaf = state.n_leaves, state.free_leaf
    into.n_due = state.n_due


@entry_point(lambda: (example_forest(), example_scratch(), 0, 0, np.empty(1, np.int32), 0.0))
def build_trees(forest, work, first, last, slots, budget):
    """Build trees ``first`` to ``last`` from the rows in ``slots``. The first tree without room, ``last`` if none.

    ``work`` has room for all the rows.
    """
    n = slots.shape[0]
    for m in range(first, last):
        tree = tree_with(forest, m, work.state)
        copy_state(forest.state[m], work.state[0])
        clear(work.state[0])
        for s in range(n):
            place(tree, slots[s], work.rows[s])
            work.slots[s] = slots[s]
        if n > 0 and not build(tree, work, np.int64(0), n, NOWHERE, LEFT, 0.0, budget):
            clear(forest.state[m])
            return m
        copy_state(work.state[0], forest.state[m])
    return last
