"""Wipe what is no longer in use, so that what is saved reveals nothing of forgotten rows."""

from __future__ import annotations

import numpy as np

from ..arrays import example_forest
from .jit import always_inline, entry_point
from .nodes import get_next_box, set_next_box, view_tree


@always_inline
def wipe_cut(tree, v):
    """Zero a free cut record and its sums, except the link to the next free one."""
    node = tree.cuts[v]
    node.right = node.i = node.j = 0
    node.box = -1
    node.a = node.b = node.p = node.time = 0.0
    node.low_i = node.high_i = node.low_j = node.high_j = 0.0
    for c in range(tree.sums.shape[1]):
        tree.sums[v, c] = 0.0


@always_inline
def wipe_box(tree, box):
    """Zero a free box, except the link to the next free one. Return that one."""
    following = get_next_box(tree.boxes, box)
    for c in range(tree.boxes.shape[1]):
        for k in range(tree.boxes.shape[2]):
            tree.boxes[box, c, k] = 0.0
    set_next_box(tree.boxes, box, following)
    return following


@always_inline
def wipe_leaf(tree, k):
    """Zero a free leaf and its statistics, except the link to the next free one."""
    tree.leaves[k].n_points = 0
    tree.leaves[k].due = -1
    for c in range(tree.values.shape[1]):
        tree.values[k, c] = 0.0


@entry_point(lambda: (example_forest(), 0, 0, np.empty(1, np.int32)))
def wipe_trees(forest, first, last, free):
    """Wipe the free records of trees ``first`` to ``last``, and the links of the slots ``free``."""
    for m in range(first, last):
        tree = view_tree(forest, m)
        v = np.int64(tree.state[0].free_cut)
        while v >= 0:
            wipe_cut(tree, v)
            v = np.int64(tree.cuts[v].left)
        box = np.int64(tree.state[0].free_box)
        while box >= 0:
            box = wipe_box(tree, box)
        k = np.int64(tree.state[0].free_leaf)
        while k >= 0:
            wipe_leaf(tree, k)
            k = np.int64(tree.leaves[k].last)
        for s in range(free.shape[0]):
            tree.links[free[s]] = 0


@entry_point(lambda: (example_forest(), 0))
def link_boxes(forest, m):
    """Free the boxes of the free cut records of tree m, each of which has one. The tree need not be valid.

    Only files of format 1 have such records.
    """
    tree = view_tree(forest, m)
    n = np.int64(tree.state[0].n_cuts)
    v = np.int64(tree.state[0].free_cut)
    for _ in range(n):
        if not 0 <= v < n:
            break
        following = np.int64(tree.cuts[v].left)
        set_next_box(tree.boxes, v, following)
        tree.cuts[v].box = -1
        v = following
