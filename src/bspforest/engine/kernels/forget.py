"""Taking points out of a tree, exactly (docs/design.md, section 5)."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import LEFT, NOTHING, NOWHERE, RIGHT, example_forest, example_scratch
from .boxes import bound_rows, round_down, round_up
from .build import draw_split
from .jit import always_inline, entry_point, inline_source, kernel
from .nodes import (
    attach,
    child_of,
    free_cut,
    free_leaf,
    goes_right,
    is_pending,
    join_children,
    leaf_of,
    load_points,
    place,
    recount,
    search_beyond,
    set_box,
    set_cut,
    tree_of,
)
from .pending import schedule, unschedule

# Up to this many points, or if the point carried half the weight, or if hardly more than this share of the variance is left
# without it, labels are counted afresh: exact, where subtracting would cancel.
RECOUNT = 32
CANCELLED = 1e-6


@kernel
def remove_point(tree, k, slot):
    """Take a point out of the ring of leaf ``k``. The oldest is found at once."""
    leaf = tree.leaves[k]
    before = leaf.last
    for _ in range(leaf.n_points):
        if tree.links[before] == slot:
            break
        before = tree.links[before]
    tree.links[before] = tree.links[slot]
    if leaf.last == slot:
        leaf.last = before
    leaf.n_points -= 1


@kernel
def remove_label(tree, k, slot):
    """Take the label of a row that has left leaf ``k`` out of its statistics."""
    y = tree.labels[slot, 0]
    w = tree.labels[slot, 1]
    values = tree.values[k]
    weight = values[int(y)] if tree.n_classes > 0 else values[0]
    if tree.leaves[k].n_points <= RECOUNT or 2.0 * w >= weight:
        recount(tree, k)
    elif tree.n_classes > 0:
        values[int(y)] -= w
    else:
        mean = values[1] - (y - values[1]) * (w / (weight - w))
        squares = values[2] - w * (y - values[1]) * (y - mean)
        if not CANCELLED * values[2] <= squares < math.inf:
            recount(tree, k)
            return
        values[2] = squares
        values[1] = mean
        values[0] = weight - w


@always_inline
def touches(tree, v, z):
    """Does ``z`` touch the box of node ``v``, so that the box may shrink without it?"""
    own = tree.boxes[v]
    for k in range(z.shape[0]):
        if round_down(z[k]) <= own[0, k] or round_up(z[k]) >= own[1, k]:
            return True
    return False


@always_inline
def is_at(tree, slot, z, scratch):
    """Is a held row at ``z``?"""
    place(tree, slot, scratch)
    for k in range(z.shape[0]):
        if scratch[k] != z[k]:
            return False
    return True


@inline_source
def shrink_boxes(tree, work, h, z):
    """Tighten the boxes along ``work.path[:h]``, from below, now that ``z`` is gone."""
    for step in range(h - 1, -1, -1):
        v = work.path[step]
        if not touches(tree, v, z):
            return
        join_children(tree, v, work.point[2])


@inline_source
def shrink_pending(tree, work, v, z):
    """Make the pending cut and the box of leaf ``v`` right for the points that are left."""
    k = leaf_of(tree, v)
    n = np.int64(tree.leaves[k].n_points)
    cut = tree.cuts[v]
    finite = tree.leaves[k].due >= 0
    alone = finite and not search_beyond(tree, work, ~k, cut, tree.boxes[v, -1], goes_right(tree, v, z))
    # Of many points in one place, the newest is where the one that is gone was: forgetting 8,000 of them one by one took 3 s.
    if not alone and (not touches(tree, v, z) or is_at(tree, tree.leaves[k].last, z, work.point[2])):
        return
    load_points(tree, k, work, np.int64(0))
    bound_rows(work.rows, np.int64(0), n, work.box)
    if alone:  # the cut parts nothing any more: the next one
        t, _, _ = draw_split(tree, work, work.box, np.bool_(True), np.int64(0), n, cut.time)
        set_cut(tree, v, work.cut[0], work.normal, t)
        schedule(tree, t, v, k)
    set_box(tree, v, work.box)


@inline_source
def merge_children(tree, v, parent, side):
    """Make node ``v``, with too few points to be cut, a leaf. Both children are small leaves."""
    k = ~child_of(tree, v, LEFT)
    other = ~child_of(tree, v, RIGHT)
    # Two rings become one by exchanging what follows their last points.
    last, other_last = tree.leaves[k].last, tree.leaves[other].last
    head = tree.links[last]
    tree.links[last] = tree.links[other_last]
    tree.links[other_last] = head
    tree.leaves[k].last = other_last
    tree.leaves[k].n_points += tree.leaves[other].n_points
    recount(tree, k)
    free_leaf(tree, other)
    free_cut(tree, v)
    attach(tree, parent, side, ~k)


@kernel
def small_leaf_points(tree, ref):
    """The number of points of a small leaf; for any other node, more than such a leaf can have."""
    return 2**31 if ref >= 0 else np.int64(tree.leaves[~ref].n_points)


@inline_source
def forget_point(tree, work, slot, z):
    """Take the row ``slot``, at ``z``, out of the tree.

    0 if done; else nothing was done, and ``work`` lacks room for that many points.
    """
    path = work.path
    h = 0
    ref = child_of(tree, NOWHERE, LEFT)
    while ref >= 0 and not is_pending(tree, ref):
        path[h] = ref
        h += 1
        ref = child_of(tree, ref, RIGHT if goes_right(tree, ref, z) else LEFT)
    pending = ref >= 0
    k = leaf_of(tree, ref)
    n = np.int64(tree.leaves[k].n_points) - 1
    if pending and n + 1 > work.rows.shape[0]:
        return n + 1
    remove_point(tree, k, slot)
    parent = path[h - 1] if h > 0 else NOWHERE
    side = RIGHT if h > 0 and tree.cuts[parent].right == ref else LEFT
    above = path[h - 2] if h > 1 else NOWHERE
    above_side = RIGHT if h > 1 and tree.cuts[above].right == parent else LEFT
    if n == 0:
        free_leaf(tree, k)
        if h == 0:
            attach(tree, NOWHERE, LEFT, np.int64(NOTHING))
        else:  # the parent's cut parts nothing any more: the sibling takes its place
            attach(tree, above, above_side, child_of(tree, parent, 1 - side))
            free_cut(tree, parent)
        h -= 1
    else:
        remove_label(tree, k, slot)
        if pending and n < tree.min_split:
            unschedule(tree, k)
            free_cut(tree, ref)
            attach(tree, parent, side, ~k)
            ref = ~k
        elif pending:
            shrink_pending(tree, work, ref, z)
        if h > 0 and n + small_leaf_points(tree, child_of(tree, parent, 1 - side)) < tree.min_split and ref < 0:
            merge_children(tree, parent, above, above_side)
            h -= 1
    shrink_boxes(tree, work, h, z)
    return 0


@entry_point(lambda: (example_forest(), example_scratch(), 0, 0, np.empty(1, np.int32), np.empty(1, np.int64)))
def forget_rows(forest, work, first, last, slots, forgotten):
    """Take the rows in ``slots`` out of trees ``first`` to ``last``; ``forgotten`` counts them for each tree.

    0 if all is done; else ``work`` lacks room for that many points: call again with a larger one.
    """
    lacking = 0
    for m in range(first, last):
        tree = tree_of(forest, m)
        while forgotten[m] < slots.shape[0]:
            slot = slots[forgotten[m]]
            place(tree, slot, work.point[0])
            lack = forget_point(tree, work, slot, work.point[0])
            if lack > 0:
                lacking = max(lacking, lack)
                break
            forgotten[m] += 1
    return lacking
