"""Boxes of nodes, and the bounds in their records. Nodes of few points have no box: it is read off the points.

See `bspforest.engine.arrays` for which nodes have one.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import HIGH, ISOTROPIC, LARGEST_THRESHOLD, LOW, NOTHING, SCALE, SHIFT
from .boxes import NO, UNSURE, YES, ask_box, round_down, round_up
from .cuts import is_right_at, lies_right
from .jit import always_inline, kernel, prefetch
from .nodes import assign_box, get_child, require, scale_coordinate


@always_inline
def has_box(tree, v):
    """Return whether cut node ``v`` has a box."""
    return tree.cuts[v].box >= 0


@always_inline
def copy_bounds(cuts, boxes, v):
    """Copy the box of node ``v`` to its record, in the two dimensions of its cut."""
    node = cuts[v]
    own = boxes[node.box]
    node.low_i = own[LOW, node.i]
    node.high_i = own[HIGH, node.i]
    node.low_j = own[LOW, node.j]
    node.high_j = own[HIGH, node.j]


@always_inline
def set_box(tree, v, box):
    """Copy a box to node ``v``, whose cut is set, rounding outwards; without a box of its own, only to its record."""
    node = tree.cuts[v]
    if node.box < 0:
        node.low_i = round_down(box[LOW, node.i])
        node.high_i = round_up(box[HIGH, node.i])
        node.low_j = round_down(box[LOW, node.j])
        node.high_j = round_up(box[HIGH, node.j])
        return
    own = tree.boxes[node.box]
    for k in range(own.shape[1]):
        own[LOW, k] = round_down(box[LOW, k])
        own[HIGH, k] = round_up(box[HIGH, k])
    copy_bounds(tree.cuts, tree.boxes, v)


@kernel
def extend_box(cuts, boxes, v, low, high):
    """Make the box of node ``v``, which has one, cover the box from ``low`` to ``high``. Return False if it did already."""
    own = boxes[np.uint64(cuts[v].box)]
    inside = True
    for k in range(own.shape[1]):
        inside &= (own[LOW, k] <= round_down(low[k])) & (round_up(high[k]) <= own[HIGH, k])
    if inside:
        return False
    for k in range(own.shape[1]):
        own[LOW, k] = min(own[LOW, k], round_down(low[k]))
        own[HIGH, k] = max(own[HIGH, k], round_up(high[k]))
    copy_bounds(cuts, boxes, v)
    return True


@always_inline
def extend_bounds(node, low, high):
    """Make the bounds in a record cover the box from ``low`` to ``high``."""
    node.low_i = min(node.low_i, round_down(low[node.i]))
    node.high_i = max(node.high_i, round_up(high[node.i]))
    node.low_j = min(node.low_j, round_down(low[node.j]))
    node.high_j = max(node.high_j, round_up(high[node.j]))


@always_inline
def add_points(tree, scratch, v, n, low, high):
    """Extend node ``v`` by n points in the box from ``low`` to ``high``, whether or not they are below it already.

    Returns False if the node has a box that covered them: so have all nodes above it.
    """
    node = tree.cuts[v]
    if node.box < 0:
        if ~np.int64(node.box) + n < tree.box_from:
            node.box -= n
            extend_bounds(node, low, high)
            return True
        require(assign_box(tree, v, np.int64(tree.box_from)))
        own = tree.boxes[node.box]
        clear_box(own)
        join_points(tree, scratch, v, own)
        extend_box(tree.cuts, tree.boxes, v, low, high)
        copy_bounds(tree.cuts, tree.boxes, v)
        return True
    return extend_box(tree.cuts, tree.boxes, v, low, high)


# ---------------------------------------------------------------------------------------------------------------------
# Points of nodes without a box


# These kernels take what they need: a tree and its scratch space are 250 words.


@always_inline
def prefetch_node(cuts, leaves, ref):
    """Prefetch the record of a node."""
    if ref >= 0:
        prefetch(cuts, ref)
    else:
        prefetch(leaves, ~ref)


@always_inline
def list_slots(cuts, leaves, links, stack, ref):
    """Write the slots of the points of a node without a box to the start of ``stack``; return their number."""
    bottom = top = np.int64(LARGEST_THRESHOLD)
    n = np.int64(0)
    stack[top] = ref
    while top >= bottom:
        v = stack[top]
        top -= 1
        if v >= 0:
            node = cuts[np.uint64(v)]
            following = np.int64(node.right)
            if following != NOTHING:
                prefetch_node(cuts, leaves, following)
                top += 1
                stack[top] = following
            top += 1
            stack[top] = node.left
            continue
        leaf = leaves[np.uint64(~v)]
        slot = np.uint64(leaf.last)
        for _ in range(leaf.n_points):
            stack[n] = slot
            n += 1
            slot = np.uint64(links[slot])
    return n


@always_inline
def clear_box(own):
    """Make a box that of no points."""
    for k in range(own.shape[1]):
        own[LOW, k] = math.inf
        own[HIGH, k] = -math.inf


@always_inline
def join_points(tree, scratch, ref, box):
    """Make ``box`` cover the points of a node that is a small leaf or has no box, rounded as in boxes."""
    if ref >= 0:
        join_few(tree.cuts, tree.leaves, tree.links, tree.rows, tree.scaling, scratch.stack, ref, box)
        return
    slot = tree.leaves[~ref].last  # a small leaf may have any number of points
    for _ in range(tree.leaves[~ref].n_points):
        join_row(tree.rows[slot], tree.scaling, box)
        slot = tree.links[slot]


@kernel
def join_few(cuts, leaves, links, rows, scaling, stack, v, box):
    """Make ``box`` cover the points of node ``v``, which has no box, rounded as in boxes."""
    for s in range(list_slots(cuts, leaves, links, stack, v)):
        join_row(rows[np.uint64(stack[s])], scaling, box)


@always_inline
def join_row(row, scaling, box):
    """Make ``box`` cover a row that is held, rounded as in boxes."""
    for k in range(row.shape[0]):
        z = scale_coordinate(row[k], scaling[SHIFT, k], scaling[SCALE, k])
        box[LOW, k] = min(box[LOW, k], round_down(z))
        box[HIGH, k] = max(box[HIGH, k], round_up(z))


@always_inline
def bound_points(tree, scratch, v, ref):
    """Set the bounds in the record of node ``v`` to those of the points of node ``ref``, which has no box."""
    bound_few(tree.cuts, tree.leaves, tree.links, tree.rows, tree.scaling, scratch.stack, v, ref)


@kernel
def bound_few(cuts, leaves, links, rows, scaling, stack, v, ref):
    """Do what `bound_points` says."""
    node = cuts[v]
    i, j = np.uint64(node.i), np.uint64(node.j)
    low_i = low_j = np.float32(math.inf)
    high_i = high_j = np.float32(-math.inf)
    for s in range(list_slots(cuts, leaves, links, stack, ref)):
        slot = np.uint64(stack[s])
        x = scale_coordinate(rows[slot, i], scaling[SHIFT, i], scaling[SCALE, i])
        y = scale_coordinate(rows[slot, j], scaling[SHIFT, j], scaling[SCALE, j])
        low_i, high_i = min(low_i, round_down(x)), max(high_i, round_up(x))
        low_j, high_j = min(low_j, round_down(y)), max(high_j, round_up(y))
    node.low_i, node.high_i = low_i, high_i
    node.low_j, node.high_j = low_j, high_j


# ---------------------------------------------------------------------------------------------------------------------
# Boxes of nodes from those of other nodes


@always_inline
def copy_box(tree, v, w):
    """Copy the box of node ``w`` to node ``v``; both have one."""
    own, other = tree.boxes[tree.cuts[v].box], tree.boxes[tree.cuts[w].box]
    for k in range(own.shape[1]):
        own[LOW, k] = other[LOW, k]
        own[HIGH, k] = other[HIGH, k]


@always_inline
def join_children(tree, scratch, v):
    """Set the box of node ``v``, which has one, to that of its two children."""
    own = tree.boxes[tree.cuts[v].box]
    for side in range(2):
        ref = get_child(tree, v, side)
        boxed = ref >= 0 and has_box(tree, ref)
        if side == 0 and boxed:
            copy_box(tree, v, ref)
            continue
        if side == 0:
            clear_box(own)
        if not boxed:
            join_points(tree, scratch, ref, own)
            continue
        box = tree.boxes[tree.cuts[ref].box]
        for k in range(own.shape[1]):
            own[LOW, k] = min(own[LOW, k], box[LOW, k])
            own[HIGH, k] = max(own[HIGH, k], box[HIGH, k])
    copy_bounds(tree.cuts, tree.boxes, v)


@always_inline
def extend_to_node(tree, scratch, v, box):
    """Make ``box`` cover that of node ``v``, or its points, rounded as in boxes."""
    if not has_box(tree, v):
        join_points(tree, scratch, v, box)
        return
    own = tree.boxes[tree.cuts[v].box]
    for k in range(own.shape[1]):
        box[LOW, k] = min(box[LOW, k], np.float64(own[LOW, k]))
        box[HIGH, k] = max(box[HIGH, k], np.float64(own[HIGH, k]))


# ---------------------------------------------------------------------------------------------------------------------
# Sides of cuts


@always_inline
def ask_node(tree, ref, cut, normal, right):
    """Return what `ask_box` does for a node; `UNSURE` if it has no box."""
    if ref < 0 or not has_box(tree, ref):
        return UNSURE
    return ask_box(tree.family, tree.boxes[tree.cuts[ref].box], cut, normal, right)


@always_inline
def has_point_beyond(tree, scratch, v, cut, normal, right, near):
    """Return whether cut node ``v`` has a point on one side of a cut. Its box mostly tells (docs/design.md, section 3)."""
    answer = ask_node(tree, v, cut, normal, right)
    return search_beyond(tree, scratch, v, cut, normal, right, near) if answer == UNSURE else answer == YES


@always_inline
def search_beyond(tree, scratch, ref, cut, normal, right, near):
    """Return what `has_point_beyond` does, for a node without a box or whose box is unsure.

    ``near`` is a point on that side of the cut. The nodes around it are searched first: they mostly have a point there too, and
    whoever walked down with it has read them.
    """
    return search_nodes(
        tree.family,
        tree.cuts,
        tree.boxes,
        tree.leaves,
        tree.links,
        tree.rows,
        tree.scaling,
        scratch.stack,
        ref,
        cut,
        normal,
        right,
        near,
    )


@always_inline
def row_lies_right(family, row, scaling, cut, normal):
    """Return whether a row, not scaled, lies right of a cut."""
    if family != ISOTROPIC:
        i, j = np.uint64(cut.i), np.uint64(cut.j)
        x = scale_coordinate(row[i], scaling[SHIFT, i], scaling[SCALE, i])
        y = scale_coordinate(row[j], scaling[SHIFT, j], scaling[SCALE, j])
        return is_right_at(cut, x, y)
    height = 0.0
    for k in range(row.shape[0]):
        height += normal[k] * scale_coordinate(row[k], scaling[SHIFT, k], scaling[SCALE, k])
    return height > cut.p


@kernel
def search_nodes(family, cuts, boxes, leaves, links, rows, scaling, stack, ref, cut, normal, right, near):
    """Do what `search_beyond` says: ask boxes from above, where there are some, then the points."""
    stack[0] = ref
    top = 0
    first = True
    while top >= 0:
        ref = stack[top]
        top -= 1
        if ref >= 0:
            node = cuts[np.uint64(ref)]
            own = boxes[max(np.int64(node.box), 0)]
            if node.box >= 0 and not first:
                answer = ask_box(family, own, cut, normal, right)
                if answer == YES:
                    return True
                if answer == NO:
                    continue
            first = False
            if node.right != NOTHING:
                near_is_right = lies_right(family, node, own[-1], near)
                far = np.int64(node.left if near_is_right else node.right)
                prefetch_node(cuts, leaves, far)
                stack[top + 1] = far
                stack[top + 2] = node.right if near_is_right else node.left
                top += 2
                continue
            ref = np.int64(node.left)
        leaf = leaves[np.uint64(~ref)]
        slot = np.uint64(leaf.last)
        for _ in range(leaf.n_points):
            if row_lies_right(family, rows[slot], scaling, cut, normal) == right:
                return True
            slot = np.uint64(links[slot])
    return False
