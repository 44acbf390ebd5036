"""Insert a chunk of points into a tree (docs/design.md, section 4).

A chunk is a `Scratch` of its own: its rows, a stack of the sets of them that are still to be inserted, and the insertions
of single rows, which wait until there are enough to walk down the tree together.
"""

from __future__ import annotations

import math

import numpy as np

from ..layout import (
    HIGH,
    LEFT,
    LOW,
    NOTHING,
    NOWHERE,
    RIGHT,
    WAITING_ROWS,
)
from .boxes import NO, YES, bound_rows
from .build import build, copy_to_box, push_sides, push_task
from .cuts import (
    MAX_CANDIDATES,
    compute_candidate_rate,
    draw_candidate,
    lies_right,
)
from .insert import add_cut_above, bring_forward, enqueue, insert_waiting, unload_leaf
from .jit import always_inline, inline_source, prefetch
from .node_boxes import ask_node, extend_box, extend_to_node, prefetch_node, search_beyond
from .nodes import (
    append_point,
    attach,
    get_child,
    get_leaf,
    get_normal,
    is_pending,
    require,
)
from .partition import partition_rows
from .rng import draw_exponential

# Sets of up to this many rows of a chunk are inserted one by one.
ONE_BY_ONE_UP_TO = 8


@always_inline
def find_row_beyond(family, chunk, start, end, cut, normal, right):
    """Return the first of ``chunk.rows[start:end]`` on one side of a cut; -1 if there is none."""
    for s in range(start, end):
        if lies_right(family, cut, normal, chunk.rows[s]) == right:
            return s
    return np.int64(-1)


@inline_source
def find_chunk_separation(tree, scratch, chunk, start, end, v, t0):
    """Find the first cut after t0, before that of node ``v``, that separates some rows of the chunk from all of ``v``.

    ``chunk.box`` is the box of the rows ``start`` to ``end``. Boxes of nodes are rounded: where points are closer together
    than float32 can tell, nearly all candidates fall into the rounding, so the search gives up after `MAX_CANDIDATES`.

    Returns
    -------
    found : bool
        The cut is in ``scratch.cut``.
    time : float
        The time of the cut; if none is found, the time up to which there is none: infinity unless it gave up.
    right : bool
        Whether ``v`` is right of the cut.
    """
    state = tree.state[0]
    cut = scratch.cut[0]
    box = scratch.box
    copy_to_box(chunk.box, box)
    extend_to_node(tree, v, box)
    rate = compute_candidate_rate(tree.family, box)
    t = t0
    t_end = tree.cuts[v].time
    tries = 0
    while rate > 0.0:
        if tries == MAX_CANDIDATES:
            return False, t, False
        tries += 1
        t += draw_exponential(state) / rate
        if t >= t_end:
            break
        draw_candidate(tree.family, state, box, rate, cut, scratch.normal)
        # The chunk must have rows on a side where the node has none. Its rows are tested before the node's points,
        # which are many and far apart in memory.
        for side in range(2):
            right = side == 1
            answer = ask_node(tree, v, cut, scratch.normal, right)
            if answer == YES:
                continue
            s = find_row_beyond(tree.family, chunk, start, end, cut, scratch.normal, right)
            if s < 0:
                continue
            if answer == NO or not search_beyond(tree, scratch, v, cut, scratch.normal, right, chunk.rows[s]):
                return True, t, not right
    return False, math.inf, False


@always_inline
def build_with_chunk(tree, scratch, n, chunk, start, end, parent, side, t0, budget):
    """Build the subtree of ``scratch.rows[:n]`` and ``chunk.rows[start:end]`` below ``parent``."""
    for s in range(start, end):
        for c in range(chunk.rows.shape[1]):
            scratch.rows[n + s - start, c] = chunk.rows[s, c]
        scratch.slots[n + s - start] = chunk.slots[s]
    require(build(tree, scratch, np.int64(0), n + end - start, parent, side, t0, budget))


@inline_source
def insert_chunk(forest, m, tree, scratch, chunk, n, budget):
    """Insert the first n rows of the chunk into tree m (docs/design.md, section 4)."""
    waiting = np.int64(0)
    push_task(chunk, np.int64(0), np.int64(0), n, NOWHERE, LEFT, 0.0, False)
    top = np.int64(0)
    while top >= 0 or waiting > 0:
        if top < 0 or waiting == WAITING_ROWS:
            insert_waiting(forest, scratch, chunk, waiting, budget)
            waiting = np.int64(0)
            continue
        task = chunk.tasks[top]
        start, end, parent, side, t0 = task.start, task.end, task.parent, task.side, task.time
        one_by_one = task.one_by_one or end - start <= ONE_BY_ONE_UP_TO
        top -= 1
        ref = get_child(tree, parent, side)
        found, t, right = False, t0, False
        if ref >= 0 and not one_by_one:
            bound_rows(chunk.rows, start, end, chunk.box)
            found, t, right = find_chunk_separation(tree, scratch, chunk, start, end, ref, t0)
            one_by_one = t < math.inf and not found
        if one_by_one:
            while start < end and waiting < WAITING_ROWS:
                enqueue(chunk, waiting, m, start, parent, side, t)
                waiting += 1
                start += 1
            if start < end:
                top += 1
                push_task(chunk, top, start, end, parent, side, t, True)
        elif ref < 0:  # nothing, or too few points to be cut: built afresh with the new ones
            n_held = np.int64(0) if ref == NOTHING else unload_leaf(tree, scratch, ref)
            build_with_chunk(tree, scratch, n_held, chunk, start, end, parent, side, t0, budget)
        elif found and not (is_pending(tree, ref) and t > budget):
            top = insert_separated(tree, scratch, chunk, top, start, end, ref, right, parent, side, t, budget)
        else:
            extend_box(tree.cuts, tree.boxes, ref, chunk.box[LOW], chunk.box[HIGH])
            if is_pending(tree, ref):
                k = get_leaf(tree, ref)
                for s in range(start, end):
                    append_point(tree, k, chunk.slots[s])
                if found:
                    bring_forward(tree, scratch, ref, k, t)
            else:
                top = push_children(tree, chunk, top, start, end, ref)


@inline_source
def insert_separated(tree, scratch, chunk, top, start, end, v, right, parent, side, t, budget):
    """Insert the cut in ``scratch.cut`` above node ``v``, which is right of it or not, and build what lies beyond.

    Rows of the chunk on the side of ``v`` are put on the stack. Returns its new top.
    """
    w = add_cut_above(tree, scratch, v, chunk.box[LOW], chunk.box[HIGH], t)
    attach(tree, w, RIGHT if right else LEFT, v)
    attach(tree, parent, side, w)
    middle = partition_rows(tree.family, tree.cuts[w], get_normal(tree, w), chunk, start, end)
    if right:
        build_with_chunk(tree, scratch, np.int64(0), chunk, start, middle, w, LEFT, t, budget)
        start, side = middle, RIGHT
    else:
        build_with_chunk(tree, scratch, np.int64(0), chunk, middle, end, w, RIGHT, t, budget)
        end, side = middle, LEFT
    if start < end:
        top += 1
        push_task(chunk, top, start, end, w, side, t, False)
    return top


@inline_source
def push_children(tree, chunk, top, start, end, v):
    """Partition rows of the chunk by the cut of node ``v`` and put them on the stack. Return its new top.

    The children are prefetched meanwhile.
    """
    t = tree.cuts[v].time
    left, right = np.int64(tree.cuts[v].left), np.int64(tree.cuts[v].right)
    for ref in (left, right):
        prefetch_node(tree.cuts, tree.leaves, ref)
        if ref >= 0:
            prefetch(tree.boxes, ref)
    middle = partition_rows(tree.family, tree.cuts[v], get_normal(tree, v), chunk, start, end)
    if middle == start or middle == end:
        push_task(chunk, top + 1, start, end, v, RIGHT if middle == start else LEFT, t, False)
        return top + 1
    push_sides(chunk, top + 1, start, middle, end, v, t)
    return top + 2
