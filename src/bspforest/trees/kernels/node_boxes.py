"""Boxes of nodes, and what they tell about points. The bounds in the two dimensions of a node's cut are in its record, too."""

from __future__ import annotations

import math

import numpy as np

from ..layout import HIGH, ISOTROPIC, LOW, NOTHING, SCALE, SHIFT
from .boxes import NO, UNSURE, YES, ask_box, round_down, round_up
from .cuts import is_right_at, lies_right
from .jit import always_inline, kernel, prefetch
from .nodes import get_child, scale_coordinate


@always_inline
def copy_bounds(cuts, boxes, v):
    """Copy the box of node ``v`` to its record, in the two dimensions of its cut."""
    node = cuts[v]
    own = boxes[v]
    node.low_i = own[LOW, node.i]
    node.high_i = own[HIGH, node.i]
    node.low_j = own[LOW, node.j]
    node.high_j = own[HIGH, node.j]


@always_inline
def set_box(tree, v, box):
    """Copy a box to node ``v``, whose cut is set, rounding outwards."""
    own = tree.boxes[v]
    for k in range(own.shape[1]):
        own[LOW, k] = round_down(box[LOW, k])
        own[HIGH, k] = round_up(box[HIGH, k])
    copy_bounds(tree.cuts, tree.boxes, v)


@kernel
def extend_box(cuts, boxes, v, low, high):
    """Make the box of node ``v`` cover the box from ``low`` to ``high``. Return False if it did already: so do all above it."""
    own = boxes[np.uint64(v)]
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
def prefetch_node(cuts, leaves, ref):
    """Prefetch the record of a node."""
    if ref >= 0:
        prefetch(cuts, ref)
    else:
        prefetch(leaves, ~ref)


# ---------------------------------------------------------------------------------------------------------------------
# Boxes from those of other nodes


@always_inline
def copy_box(tree, v, w):
    """Copy the box of node ``w`` to node ``v``."""
    own, other = tree.boxes[v], tree.boxes[w]
    for k in range(own.shape[1]):
        own[LOW, k] = other[LOW, k]
        own[HIGH, k] = other[HIGH, k]


@kernel
def join_leaf(tree, k, box):
    """Make ``box`` cover the points of leaf ``k``, rounded as in boxes."""
    slot = tree.leaves[k].last
    for _ in range(tree.leaves[k].n_points):
        row = tree.rows[np.uint64(slot)]
        for c in range(row.shape[0]):
            z = scale_coordinate(row[c], tree.scaling[SHIFT, c], tree.scaling[SCALE, c])
            box[LOW, c] = min(box[LOW, c], round_down(z))
            box[HIGH, c] = max(box[HIGH, c], round_up(z))
        slot = tree.links[slot]


@always_inline
def join_children(tree, v):
    """Set the box of node ``v`` to that of its two children."""
    own = tree.boxes[v]
    for k in range(own.shape[1]):
        own[LOW, k] = math.inf
        own[HIGH, k] = -math.inf
    for side in range(2):
        ref = get_child(tree, v, side)
        if ref < 0:
            join_leaf(tree, ~ref, own)
            continue
        box = tree.boxes[ref]
        for k in range(own.shape[1]):
            own[LOW, k] = min(own[LOW, k], box[LOW, k])
            own[HIGH, k] = max(own[HIGH, k], box[HIGH, k])
    copy_bounds(tree.cuts, tree.boxes, v)


@always_inline
def extend_to_node(tree, v, box):
    """Make ``box`` cover that of node ``v``."""
    own = tree.boxes[v]
    for k in range(own.shape[1]):
        box[LOW, k] = min(box[LOW, k], np.float64(own[LOW, k]))
        box[HIGH, k] = max(box[HIGH, k], np.float64(own[HIGH, k]))


# ---------------------------------------------------------------------------------------------------------------------
# Sides of cuts


@always_inline
def ask_node(tree, v, cut, normal, right):
    """Return what `ask_box` does for a cut node."""
    return ask_box(tree.family, tree.boxes[v], cut, normal, right)


@always_inline
def has_point_beyond(tree, scratch, v, cut, normal, right, near):
    """Return whether cut node ``v`` has a point on one side of a cut. Its box mostly tells (docs/design.md, section 3)."""
    answer = ask_node(tree, v, cut, normal, right)
    return search_beyond(tree, scratch, v, cut, normal, right, near) if answer == UNSURE else answer == YES


@always_inline
def search_beyond(tree, scratch, ref, cut, normal, right, near):
    """Return what `has_point_beyond` does, for a leaf, or a node whose box is unsure.

    ``near`` is a point on that side of the cut. The nodes around it are searched first: they mostly have a point there too, and
    whoever walked down with it has read them.
    """
    # The kernel takes what it needs: a tree and its scratch space are 250 words.
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
    """Do what `search_beyond` says: ask boxes from above, then the points."""
    stack[0] = ref
    top = 0
    first = True
    while top >= 0:
        ref = stack[top]
        top -= 1
        if ref >= 0:
            node = cuts[np.uint64(ref)]
            own = boxes[np.uint64(ref)]
            if not first:
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
