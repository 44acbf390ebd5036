"""Insert one point into a tree (docs/design.md, section 3)."""

from __future__ import annotations

import math

import numpy as np

from ..layout import (
    NEIGHBOUR,
    NOTHING,
    example_forest,
    example_scratch,
)
from .build import build
from .cuts import (
    MAX_CANDIDATES,
    bound_segment,
    draw_segment_candidate,
    lies_right,
)
from .jit import NONE, always_inline, called_by_address, inline_source, kernel
from .node_boxes import copy_bounds, copy_box, extend_box, has_point_beyond
from .nodes import (
    allocate_cut,
    allocate_leaf,
    append_point,
    attach,
    copy_sums,
    free_cut,
    free_leaf,
    get_child,
    get_leaf,
    get_side,
    goes_right,
    is_pending,
    load_points,
    require,
    scale_held_row,
    set_cut,
    view_tree,
)
from .pending import schedule, unschedule
from .rng import draw_exponential
from .traverse import prefetch_paths

# Candidates after which no cut is looked for any longer. (A row of an honest tree meets about five.)
MAX_PATIENCE = 100_000


@kernel
def unload_leaf(tree, scratch, ref):
    """Move the points of a leaf, small or with a pending cut, to ``scratch.rows`` and free it; return their number."""
    k = get_leaf(tree, ref)
    if ref >= 0:
        unschedule(tree, k)
        free_cut(tree, ref)
    n = np.int64(tree.leaves[k].n_points)
    load_points(tree, k, scratch, np.int64(0))
    free_leaf(tree, k)
    return n


@always_inline
def add_small_leaf(tree, slot):
    """Return a new leaf with one point."""
    k = allocate_leaf(tree)
    require(k >= 0)
    append_point(tree, k, slot)
    return k


@always_inline
def add_cut_above(tree, scratch, v, low, high, t):
    """Return a new cut node for the cut in ``scratch.cut``, with the points of node ``v`` and some in the box ``low`` to ``high``."""
    w = allocate_cut(tree)
    require(w >= 0)
    set_cut(tree, w, scratch.cut[0], scratch.normal, t)
    copy_sums(tree, w, v)
    copy_box(tree, w, v)
    extend_box(tree.cuts, tree.boxes, w, low, high)
    copy_bounds(tree.cuts, tree.boxes, w)
    return w


@always_inline
def bring_forward(tree, scratch, v, k, t):
    """Replace the pending cut ``v`` of leaf ``k`` by the earlier one in ``scratch.cut``."""
    set_cut(tree, v, scratch.cut[0], scratch.normal, t)
    copy_bounds(tree.cuts, tree.boxes, v)
    schedule(tree, t, v, k)


@inline_source
def find_separation(tree, scratch, depth, z, r, t0, t_end):
    """Find the first cut between t0 and t_end that separates ``z`` from all points of a node of ``scratch.path[:depth]``.

    ``r`` is a point of the last node of the path, and so of all of them. Returns the time, the position of the node in the
    path (-1 if there is no such cut) and whether ``z`` is right of the cut, which is in ``scratch.cut``.
    """
    state = tree.state[0]
    cut = scratch.cut[0]
    box = scratch.box
    rate = bound_segment(tree.family, z, r, box)
    t = t0
    at = 0
    tries = 0
    while rate > 0.0:
        t += draw_exponential(state) / rate
        # Beyond all patience, only rounding keeps the points together, or the time of a forged file lets candidates go on for ever.
        if t >= t_end or tries > MAX_PATIENCE or (tries > MAX_CANDIDATES and t_end == math.inf):
            break
        tries += 1
        draw_segment_candidate(tree.family, state, z, r, box, rate, cut, scratch.normal)
        right = lies_right(tree.family, cut, scratch.normal, z)
        if lies_right(tree.family, cut, scratch.normal, r) == right:
            continue
        while tree.cuts[scratch.path[at]].time <= t:
            at += 1
        if not has_point_beyond(tree, scratch, scratch.path[at], cut, scratch.normal, right, z):
            return t, at, right
    return math.inf, -1, False


@inline_source
def walk_to_leaf(tree, path, depth, z, ref, t0):
    """Walk down from node ``ref``, below ``path[:depth]``, or from the last known node of the path.

    Returns the length of the path, the leaf (small, or with a pending cut), and the time from which the leaf exists.
    """
    if depth > 0:  # the last known node is visited again: it may be pending
        depth -= 1
        ref = path[depth]
    t = tree.cuts[path[depth - 1]].time if depth > 0 else t0
    while ref >= 0 and not is_pending(tree, ref):
        path[depth] = ref
        depth += 1
        node = tree.cuts[ref]
        t = node.time
        ref = np.int64(node.right if goes_right(tree, ref, z) else node.left)
    return depth, ref, t


@inline_source
def rebuild_leaf(tree, scratch, ref, slot, z, parent, side, t0, budget):
    """Build the subtree of the points of leaf ``ref``, below ``parent``, and one more row."""
    n = unload_leaf(tree, scratch, ref)
    for c in range(z.shape[0]):
        scratch.rows[n, c] = z[c]
    scratch.slots[n] = slot
    require(build(tree, scratch, np.int64(0), n + 1, parent, side, t0, budget))


@inline_source
def insert_point(tree, scratch, depth, slot, z, parent, side, t0, budget):
    """Insert the row ``slot``, at ``z``, into the subtree below ``parent``, which exists from t0.

    The first ``depth`` nodes of its path are known, in ``scratch.path``.
    """
    ref = get_child(tree, parent, side)
    if ref == NOTHING:
        attach(tree, parent, side, ~add_small_leaf(tree, slot))
        return
    path = scratch.path
    depth, ref, t_leaf = walk_to_leaf(tree, path, depth, z, ref, t0)
    pending = ref >= 0
    k = get_leaf(tree, ref)
    t_end = t_leaf
    if pending:
        path[depth] = ref
        t_end = tree.cuts[ref].time
    r = scratch.points[NEIGHBOUR]
    scale_held_row(tree, tree.leaves[k].last, r)
    t, at, right = find_separation(tree, scratch, depth, z, r, t0, t_end)
    if at < 0:  # the point belongs to the leaf
        if pending:
            extend_box(tree.cuts, tree.boxes, ref, z, z)
            append_point(tree, k, slot)
        elif np.int64(tree.leaves[k].n_points) + 1 < tree.min_split:
            append_point(tree, k, slot)
        else:  # the leaf can now be cut
            if depth > 0:
                parent = path[depth - 1]
                side = get_side(tree, parent, ref)
            rebuild_leaf(tree, scratch, ref, slot, z, parent, side, t_leaf, budget)
        at = depth
    elif at == depth and t > budget:  # the leaf stays whole, with an earlier pending cut
        extend_box(tree.cuts, tree.boxes, ref, z, z)
        append_point(tree, k, slot)
        bring_forward(tree, scratch, ref, k, t)
    else:
        v = path[at]
        leaf = ~add_small_leaf(tree, slot)
        w = add_cut_above(tree, scratch, v, z, z, t)
        tree.cuts[w].left = v if right else leaf
        tree.cuts[w].right = leaf if right else v
        if at > 0:
            parent = path[at - 1]
            side = get_side(tree, parent, v)
        attach(tree, parent, side, w)
    for step in range(at - 1, -1, -1):  # upwards, until a box covers the point
        if not extend_box(tree.cuts, tree.boxes, path[step], z, z):
            break


@called_by_address(NONE, lambda: (example_forest(), example_scratch(), example_scratch(), 0, 0.0))
def insert_waiting(forest, scratch, chunk, n, budget):
    """Insert the rows of the first n of ``chunk.insertions``, one by one."""
    if n > 1:
        prefetch_paths(forest, chunk.insertions, chunk.rows, n, scratch.walks, scratch.paths)
    for q in range(n):
        insertion = chunk.insertions[q]
        m, row = insertion.tree, insertion.row
        depth = np.int64(0)
        if n > 1 and (q == 0 or m != chunk.insertions[q - 1].tree):  # the tree is as it was when the path was walked
            depth = insertion.depth
            for k in range(depth):
                scratch.path[k] = scratch.paths[q, k]
        insert_point(
            view_tree(forest, m),
            scratch,
            depth,
            chunk.slots[row],
            chunk.rows[row],
            insertion.parent,
            insertion.side,
            insertion.time,
            budget,
        )


@always_inline
def enqueue(chunk, q, m, row, parent, side, time):
    """Let the insertion of a row of the chunk into tree m, below ``parent``, wait as number q."""
    insertion = chunk.insertions[q]
    insertion.tree = m
    insertion.row = row
    insertion.parent = parent
    insertion.side = side
    insertion.time = time
