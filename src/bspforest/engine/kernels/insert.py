"""Adding points to a tree: one (docs/design.md, section 3), or a chunk (section 4)."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import LANES, LEFT, NOTHING, NOWHERE, RIGHT, TREES, example_forest, example_scratch
from .boxes import NO, YES, ask_box, bound_rows
from .build import build, carry_out, part_rows, push_parts, push_task
from .cuts import PATIENCE, candidate_rate, draw_between, draw_candidate, height, segment_rate
from .jit import NONE, always_inline, called_by_address, entry_point, inline_source, kernel
from .nodes import (
    any_beyond,
    append_point,
    attach,
    child_of,
    copy_bounds,
    copy_box,
    extend_box,
    free_cut,
    free_leaf,
    goes_right,
    is_pending,
    leaf_of,
    load_points,
    new_cut,
    new_leaf,
    place,
    search_beyond,
    set_cut,
    tree_of,
)
from .pending import schedule, unschedule
from .rng import draw_exponential
from .traverse import warm_up

# So few rows of a chunk in one place are inserted one by one; and so are those of a set whose side has this added.
FEW = 8
ONE_BY_ONE = 2


@always_inline
def side_of(tree, parent, ref):
    """On which side of ``parent`` is its child ``ref``?"""
    return np.int64(tree.cuts[parent].right == ref)


@kernel
def unload_leaf(tree, work, ref):
    """Move the points of a leaf, small or pending, to ``work.rows`` and free it; how many they are."""
    k = leaf_of(tree, ref)
    if ref >= 0:
        unschedule(tree, k)
        free_cut(tree, ref)
    load_points(tree, k, work, np.int64(0))
    free_leaf(tree, k)
    return np.int64(tree.leaves[k].n_points)


@inline_source
def find_separation(tree, work, h, z, r, t0, t_end):
    """The first cut between t0 and t_end that parts ``z`` from all points of a node of ``work.path[:h]``.

    ``r`` is a point of the last node of the path, and so of all of them. Returns the time, the node's place in the path
    (-1 if there is no such cut) and the side of ``z``; the cut is in ``work.cut``.
    """
    state = tree.state[0]
    cut = work.cut[0]
    box = work.box
    rate = segment_rate(tree.family, z, r, box)
    t = t0
    at = 0
    tries = 0
    while rate > 0.0:
        t += draw_exponential(state) / rate
        if t >= t_end or (tries > PATIENCE and t_end == math.inf):  # points that only rounding keeps together
            break
        tries += 1
        draw_between(tree.family, state, z, r, box, rate, cut, work.normal)
        right = height(tree.family, cut, work.normal, z) > cut.p
        if (height(tree.family, cut, work.normal, r) > cut.p) == right:
            continue
        while tree.cuts[work.path[at]].time <= t:
            at += 1
        if not any_beyond(tree, work, work.path[at], cut, work.normal, right):
            return t, at, right
    return math.inf, -1, False


@always_inline
def has_room(tree, n):
    """Is there room for n more cuts and leaves?"""
    state = tree.state[0]
    return state.n_cuts + n <= tree.cuts.shape[0] and state.n_leaves + n <= tree.leaves.shape[0]


@inline_source
def insert_point(tree, work, h, slot, z, parent, side, t0, budget):
    """Add the row ``slot``, at ``z``, to the subtree below ``parent``, whose time starts at t0.

    The first h nodes of its way are known, and in ``work.path``. 0 if done; else nothing was done, and the tree or ``work``
    lacks room for a set of that many points (only when cuts are redrawn).
    """
    ref = child_of(tree, parent, side)
    if ref == NOTHING:
        if tree.redraw and not has_room(tree, 1):
            return 1
        k = new_leaf(tree)
        append_point(tree, k, slot)
        attach(tree, parent, side, ~k)
        return 0
    path = work.path
    if h > 0:  # the last node that is known is looked at again: it may be pending
        h -= 1
        ref = path[h]
    t_leaf = tree.cuts[path[h - 1]].time if h > 0 else t0  # when the leaf's own time starts
    while ref >= 0 and not is_pending(tree, ref):
        path[h] = ref
        h += 1
        node = tree.cuts[ref]
        t_leaf = node.time
        ref = np.int64(node.right if goes_right(tree, ref, z) else node.left)
    pending = ref >= 0
    k = leaf_of(tree, ref)
    n = np.int64(tree.leaves[k].n_points) + 1
    if (
        tree.redraw
    ):  # a row before this one may have had a large leaf built afresh, and used up the room that was reserved
        need = n if n >= tree.min_split else 1
        if not has_room(tree, need) or need > work.rows.shape[0]:
            return need
    t_end = t_leaf
    if pending and not tree.redraw:
        path[h] = ref
        t_end = tree.cuts[ref].time
    r = work.point[1]
    place(tree, tree.leaves[k].last, r)
    t, at, right = find_separation(tree, work, h, z, r, t0, t_end)
    if at < 0:  # the point belongs to the leaf
        if n < tree.min_split or (pending and not tree.redraw):
            append_point(tree, k, slot)
            if pending:
                extend_box(tree.cuts, tree.boxes, ref, z, z)
        else:  # a leaf that can now be cut, or whose cut is drawn anew, is built afresh
            if h > 0:
                parent = path[h - 1]
                side = side_of(tree, parent, ref)
            n = unload_leaf(tree, work, ref)
            for c in range(z.shape[0]):
                work.rows[n, c] = z[c]
            work.slots[n] = slot
            build(tree, work, np.int64(0), n + 1, parent, side, t_leaf, budget)
        at = h
    elif at == h and t > budget:  # the leaf stays whole, with an earlier pending cut
        set_cut(tree, ref, work.cut[0], work.normal, t)
        append_point(tree, k, slot)
        extend_box(tree.cuts, tree.boxes, ref, z, z)
        copy_bounds(tree.cuts, tree.boxes, ref)
        schedule(tree, t, ref, k)
    else:
        v = path[at]
        k = new_leaf(tree)
        append_point(tree, k, slot)
        w = new_cut(tree)
        set_cut(tree, w, work.cut[0], work.normal, t)
        copy_box(tree, w, v)
        extend_box(tree.cuts, tree.boxes, w, z, z)
        copy_bounds(tree.cuts, tree.boxes, w)
        tree.cuts[w].left = v if right else ~k
        tree.cuts[w].right = ~k if right else v
        if at > 0:
            attach(tree, path[at - 1], side_of(tree, path[at - 1], v), w)
        else:
            attach(tree, parent, side, w)
    for step in range(at - 1, -1, -1):  # upwards: the first box that covers the point ends it
        if not extend_box(tree.cuts, tree.boxes, path[step], z, z):
            break
    return 0


@always_inline
def join_boxes(tree, v, box):
    """Make ``box`` cover the box of node ``v``."""
    own = tree.boxes[v]
    for k in range(own.shape[1]):
        box[0, k] = min(box[0, k], np.float64(own[0, k]))
        box[1, k] = max(box[1, k], np.float64(own[1, k]))


@always_inline
def any_row_beyond(family, chunk, start, end, cut, normal, right):
    """Has the chunk a row right (or else left) of the cut?"""
    for s in range(start, end):
        if (height(family, cut, normal, chunk.rows[s]) > cut.p) == right:
            return True
    return False


@inline_source
def find_chunk_separation(tree, work, chunk, start, end, v, t0):
    """The first cut after t0, before the cut of node ``v``, that parts some of the chunk's rows from all of ``v``.

    Returns whether there is one, its time, and the side of ``v``; the cut is in ``work.cut``. ``chunk.box`` holds the box of
    the rows. If it is tired of candidates in vain, the time up to which there is none; otherwise infinity. (Boxes of nodes
    are rounded: where points are closer together than float32 can tell, nearly all candidates fall into the rounding.)
    """
    state = tree.state[0]
    cut = work.cut[0]
    box = work.box
    for k in range(box.shape[1]):
        box[0, k] = chunk.box[0, k]
        box[1, k] = chunk.box[1, k]
    join_boxes(tree, v, box)
    rate = candidate_rate(tree.family, box)
    t = t0
    t_end = tree.cuts[v].time
    tries = 0
    while rate > 0.0:
        if tries == PATIENCE:
            return False, t, False
        tries += 1
        t += draw_exponential(state) / rate
        if t >= t_end:
            break
        draw_candidate(tree.family, state, box, rate, cut, work.normal)
        # The chunk must have rows on a side where the node has none. Its rows are asked before the node's points, which
        # are many and far apart in memory.
        for far in range(2):
            right = far == 1
            answer = ask_box(tree.family, tree.boxes[v], cut, work.normal, right)
            if answer == YES or not any_row_beyond(tree.family, chunk, start, end, cut, work.normal, right):
                continue
            if answer == NO or not search_beyond(tree, work, v, cut, work.normal, right):
                return True, t, not right
    return False, math.inf, False


@always_inline
def load_chunk(chunk, start, end, work, at):
    """Copy rows of the chunk to ``work.rows[at:]``."""
    for s in range(start, end):
        for c in range(chunk.rows.shape[1]):
            work.rows[at + s - start, c] = chunk.rows[s, c]
        work.slots[at + s - start] = chunk.slots[s]


@called_by_address(NONE, lambda: (example_forest(), example_scratch(), example_scratch(), 0, 0.0))
def insert_waiting(forest, work, chunk, n, budget):
    """Insert the n rows that wait in the lanes of the chunk, one by one.

    What `insert_point` returns for each is left in ``work.lanes[0]``.
    """
    if n > 1:
        warm_up(forest, chunk, n, work.walks, work.paths)
    for q in range(n):
        m = chunk.lanes[0, q]
        row = chunk.lanes[1, q]
        h = np.int64(0)
        if n > 1 and (q == 0 or m != chunk.lanes[0, q - 1]):  # the tree is as it was when the walk came by
            h = work.walks[2, q]
            for k in range(h):
                work.path[k] = work.paths[q, k]
        work.lanes[0, q] = insert_point(
            tree_of(forest, m),
            work,
            h,
            chunk.slots[row],
            chunk.rows[row],
            chunk.lanes[2, q],
            chunk.lanes[3, q],
            chunk.lane_times[q],
            budget,
        )


@always_inline
def wait(chunk, q, m, row, parent, side, t0):
    """Let a row of the chunk wait in lane q, to be inserted below ``parent`` in tree m."""
    chunk.lanes[0, q] = m
    chunk.lanes[1, q] = row
    chunk.lanes[2, q] = parent
    chunk.lanes[3, q] = side
    chunk.lane_times[q] = t0


@inline_source
def extend(forest, m, tree, work, chunk, n, budget):
    """Add the first n rows of the chunk to tree m (docs/design.md, section 4)."""
    waiting = np.int64(0)
    push_task(chunk, np.int64(0), np.int64(0), n, NOWHERE, LEFT, 0.0)
    top = np.int64(0)
    while top >= 0 or waiting > 0:
        if top < 0 or waiting == LANES:
            insert_waiting(forest, work, chunk, waiting, budget)
            waiting = np.int64(0)
            continue
        task = chunk.tasks[top]
        start, end, parent, side = task[0], task[1], task[2], task[3] & 1
        one_by_one = end - start <= FEW or task[3] >= ONE_BY_ONE
        t0 = chunk.times[top]
        top -= 1
        ref = child_of(tree, parent, side)
        found, t, near = False, t0, False
        if ref >= 0 and not one_by_one:
            bound_rows(chunk.rows, start, end, chunk.box)
            found, t, near = find_chunk_separation(tree, work, chunk, start, end, ref, t0)
            one_by_one = t < math.inf and not found
        if one_by_one:
            while start < end and waiting < LANES:
                wait(chunk, waiting, m, start, parent, side, t)
                waiting += 1
                start += 1
            if start < end:
                top += 1
                push_task(chunk, top, start, end, parent, side + ONE_BY_ONE, t)
            continue
        if ref < 0:  # nothing, or too few points to be cut: built afresh with the new ones
            n = np.int64(0) if ref == NOTHING else unload_leaf(tree, work, ref)
            load_chunk(chunk, start, end, work, n)
            build(tree, work, np.int64(0), n + end - start, parent, side, t0, budget)
            continue
        pending = is_pending(tree, ref)
        if found and not (pending and t > budget):
            # A new node over this one: the rows on its side go on into it, the others are built afresh.
            w = new_cut(tree)
            set_cut(tree, w, work.cut[0], work.normal, t)
            copy_box(tree, w, ref)
            extend_box(tree.cuts, tree.boxes, w, chunk.box[0], chunk.box[1])
            copy_bounds(tree.cuts, tree.boxes, w)
            attach(tree, w, RIGHT if near else LEFT, ref)
            attach(tree, parent, side, w)
            middle = part_rows(tree.family, tree.cuts[w], tree.boxes[w, -1], chunk, start, end)
            far_start, far_end = (start, middle) if near else (middle, end)
            load_chunk(chunk, far_start, far_end, work, np.int64(0))
            build(tree, work, np.int64(0), far_end - far_start, w, np.int64(not near), t, budget)
            if far_end - far_start < end - start:
                top += 1
                if near:
                    push_task(chunk, top, middle, end, w, RIGHT, t)
                else:
                    push_task(chunk, top, start, middle, w, LEFT, t)
            continue
        extend_box(tree.cuts, tree.boxes, ref, chunk.box[0], chunk.box[1])
        if pending:
            k = leaf_of(tree, ref)
            for s in range(start, end):
                append_point(tree, k, chunk.slots[s])
            if found:
                set_cut(tree, ref, work.cut[0], work.normal, t)
                copy_bounds(tree.cuts, tree.boxes, ref)
                schedule(tree, t, ref, k)
            continue
        middle = part_rows(tree.family, tree.cuts[ref], tree.boxes[ref, -1], chunk, start, end)
        if middle == start or middle == end:
            top += 1
            push_task(chunk, top, start, end, ref, RIGHT if middle == start else LEFT, tree.cuts[ref].time)
        else:
            push_parts(chunk, top + 1, start, middle, end, ref, tree.cuts[ref].time)
            top += 2


@inline_source
def learn_one(forest, work, chunk, first, last, slot, budget, learned):
    """Add one row to trees ``first`` to ``last``: these, not rows, wait for memory together. If one has no room for it, to none.

    (Python takes 5 µs to find that out for 100 trees.)
    """
    for m in range(first, last):
        if not has_room(tree_of(forest, m), 1):
            return np.int64(1)
    place(tree_of(forest, first), slot, chunk.rows[0])
    chunk.slots[0] = slot
    lacking = np.int64(0)
    for start in range(first, last, TREES):
        end = min(start + TREES, last)
        n = np.int64(0)
        for m in range(start, end):
            if learned[m] == 0:
                wait(chunk, n, m, np.int64(0), NOWHERE, LEFT, 0.0)
                n += 1
        insert_waiting(forest, work, chunk, n, budget)
        for q in range(n):
            lacking = max(lacking, work.lanes[0, q])
            if work.lanes[0, q] == 0:
                learned[chunk.lanes[0, q]] = 1
        for m in range(start, end):
            # Asked here too: mostly nothing is due, and a call hands over a tree and its scratch space, some 250 words. (9 µs of 100 trees.)
            if learned[m] == 1 and forest.state[m].n_due > 0 and forest.queue[m, 0].time <= budget:
                lacking = max(lacking, carry_out(tree_of(forest, m), work, budget))
    return lacking


@entry_point(
    lambda: (
        example_forest(),
        example_scratch(),
        example_scratch(),
        0,
        0,
        np.empty(1, np.int32),
        np.empty(1),
        np.empty(1, np.int64),
    )
)
def learn_rows(forest, work, chunk, first, last, slots, budgets, learned):
    """Add the rows in ``slots`` to trees ``first`` to ``last``, the budget after each being ``budgets``.

    ``learned`` counts the rows each tree has learned. 0 if all is done; else the trees, or ``work``, lack room for a set of
    that many points: make room, and call again. ``work`` must have room for the rows and ``min_split`` more, ``chunk`` for
    the rows; each tree for one cut and one leaf a row, if there are several.
    """
    n = slots.shape[0]
    if n == 1:
        return learn_one(forest, work, chunk, first, last, slots[0], budgets[0], learned)
    lacking = np.int64(0)
    for m in range(first, last):
        tree = tree_of(forest, m)
        at_once = 1 if tree.redraw else n
        lack = np.int64(0)
        while learned[m] < n and lack == 0:
            for s in range(at_once):
                place(tree, slots[learned[m] + s], chunk.rows[s])
                chunk.slots[s] = slots[learned[m] + s]
            budget = budgets[learned[m] + at_once - 1]
            extend(forest, m, tree, work, chunk, at_once, budget)
            if at_once == 1:
                lack = work.lanes[0, 0]
            if lack == 0:
                learned[m] += at_once
        if lack == 0:
            lack = carry_out(tree, work, budgets[n - 1])
        lacking = max(lacking, lack)
    return lacking
