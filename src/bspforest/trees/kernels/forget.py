"""Remove points from a tree, exactly (docs/design.md, section 5)."""

from __future__ import annotations

import numpy as np

from ..layout import HIGH, LEFT, LOW, NOTHING, NOWHERE, PLACED, RIGHT, TESTED, example_forest, example_scratch
from .boxes import bound_rows, round_down, round_up
from .build import draw_split
from .jit import always_inline, entry_point, inline_source, kernel
from .node_boxes import join_children, search_beyond, set_box
from .nodes import (
    attach,
    free_cut,
    free_leaf,
    get_child,
    get_leaf,
    get_normal,
    get_side,
    goes_right,
    is_pending,
    join_rings,
    load_points,
    remove_point,
    scale_held_row,
    set_cut,
    subtract_terms,
    view_tree,
)
from .pending import schedule, unschedule


@always_inline
def touches(tree, v, z):
    """Return whether ``z`` touches the box of node ``v``, so that it may shrink without it."""
    own = tree.boxes[v]
    for k in range(z.shape[0]):
        if round_down(z[k]) <= own[LOW, k] or round_up(z[k]) >= own[HIGH, k]:
            return True
    return False


@always_inline
def is_held_at(tree, slot, z, held):
    """Return whether a held row is at ``z``; ``held`` is scratch space."""
    scale_held_row(tree, slot, held)
    for k in range(z.shape[0]):
        if held[k] != z[k]:
            return False
    return True


@inline_source
def shrink_boxes(tree, path, depth, z):
    """Tighten the boxes along ``path[:depth]``, upwards, now that ``z`` is gone."""
    for step in range(depth - 1, -1, -1):
        if not touches(tree, path[step], z):
            return
        join_children(tree, path[step])


@inline_source
def shrink_pending(tree, scratch, v, z):
    """Correct the pending cut and the box of leaf ``v`` for the points that are left without ``z``."""
    k = get_leaf(tree, v)
    n = np.int64(tree.leaves[k].n_points)
    cut = tree.cuts[v]
    finite = tree.leaves[k].due >= 0
    was_alone = finite and not search_beyond(tree, scratch, ~k, cut, get_normal(tree, v), goes_right(tree, v, z), z)
    # Where many points coincide, the newest is where the removed one was, and the box stays. (Forgetting 8,000 of them one
    # by one took 3 s without this test.)
    if not was_alone and (not touches(tree, v, z) or is_held_at(tree, tree.leaves[k].last, z, scratch.points[TESTED])):
        return
    load_points(tree, k, scratch, np.int64(0))
    bound_rows(scratch.rows, np.int64(0), n, scratch.box)
    if was_alone:  # the cut separates nothing any more: draw the next one
        t, _, _ = draw_split(tree, scratch, scratch.box, np.bool_(True), np.int64(0), n, cut.time)
        set_cut(tree, v, scratch.cut[0], scratch.normal, t)
        schedule(tree, t, v, k)
    set_box(tree, v, scratch.box)


@inline_source
def merge_children(tree, v, parent, side):
    """Make node ``v``, whose children are small leaves with too few points together to be cut, a leaf."""
    k = ~get_child(tree, v, LEFT)
    other = ~get_child(tree, v, RIGHT)
    join_rings(tree, k, other)
    free_leaf(tree, other)
    free_cut(tree, v)
    attach(tree, parent, side, ~k)


@kernel
def count_small_leaf(tree, ref):
    """Return the number of points of a small leaf; for any other node, more than such a leaf can have."""
    return 2**31 if ref >= 0 else np.int64(tree.leaves[~ref].n_points)


@inline_source
def forget_point(tree, scratch, slot, z):
    """Remove the row ``slot``, at ``z``, from the tree.

    Returns 0 if it is removed; else nothing was changed, and ``scratch`` lacks room for that many points.
    """
    path = scratch.path
    depth = 0
    ref = get_child(tree, NOWHERE, LEFT)
    while ref >= 0 and not is_pending(tree, ref):
        path[depth] = ref
        depth += 1
        ref = get_child(tree, ref, RIGHT if goes_right(tree, ref, z) else LEFT)
    pending = ref >= 0
    k = get_leaf(tree, ref)
    n = np.int64(tree.leaves[k].n_points) - 1
    if pending and n + 1 > scratch.rows.shape[0]:
        return n + 1
    remove_point(tree, k, slot)
    for step in range(depth):
        subtract_terms(tree.terms, slot, tree.sums[path[step]])
    if pending:
        subtract_terms(tree.terms, slot, tree.sums[ref])
    parent = path[depth - 1] if depth > 0 else NOWHERE
    side = get_side(tree, parent, ref) if depth > 0 else LEFT
    above = path[depth - 2] if depth > 1 else NOWHERE
    above_side = get_side(tree, above, parent) if depth > 1 else LEFT
    if n == 0:
        free_leaf(tree, k)
        if depth == 0:
            attach(tree, NOWHERE, LEFT, np.int64(NOTHING))
        else:  # the cut of the parent separates nothing any more: the sibling takes its place
            attach(tree, above, above_side, get_child(tree, parent, 1 - side))
            free_cut(tree, parent)
        depth -= 1
    else:
        if pending and n < tree.min_split:
            unschedule(tree, k)
            free_cut(tree, ref)
            attach(tree, parent, side, ~k)
            ref = ~k
        elif pending:
            shrink_pending(tree, scratch, ref, z)
        if depth > 0 and n + count_small_leaf(tree, get_child(tree, parent, 1 - side)) < tree.min_split and ref < 0:
            merge_children(tree, parent, above, above_side)
            depth -= 1
    shrink_boxes(tree, path, depth, z)
    return 0


@entry_point(lambda: (example_forest(), example_scratch(), 0, 0, np.empty(1, np.int32), np.empty(1, np.int64)))
def forget_rows(forest, scratch, first, last, slots, forgotten):
    """Remove the rows in ``slots`` from trees ``first`` to ``last``; ``forgotten`` counts those removed from each tree.

    Returns 0 if all are removed, else a number of points for which ``scratch`` lacks room: call again with a larger one.
    """
    most_lacking = 0
    for m in range(first, last):
        tree = view_tree(forest, m)
        while forgotten[m] < slots.shape[0]:
            slot = slots[forgotten[m]]
            scale_held_row(tree, slot, scratch.points[PLACED])
            lacking = forget_point(tree, scratch, slot, scratch.points[PLACED])
            if lacking > 0:
                most_lacking = max(most_lacking, lacking)
                break
            forgotten[m] += 1
    return most_lacking
