"""Wiping what is no longer in use, so that what is saved tells nothing of rows that are forgotten."""

from __future__ import annotations

import numpy as np

from ..arrays import example_forest
from .jit import always_inline, entry_point
from .nodes import view_tree


@always_inline
def scrub_cut(tree, v):
    """Zero all of a free cut record but the link to the next."""
    node = tree.cuts[v]
    node.right = node.i = node.j = 0
    node.a = node.b = node.p = node.time = 0.0
    node.low_i = node.high_i = node.low_j = node.high_j = 0.0
    for c in range(tree.boxes.shape[1]):
        for k in range(tree.boxes.shape[2]):
            tree.boxes[v, c, k] = 0.0


@entry_point(lambda: (example_forest(), 0, 0, np.empty(1, np.int32)))
def scrub_trees(forest, first, last, free):
    """Zero the free records of trees ``first`` to ``last``, and the links of the slots ``free``."""
    for m in range(first, last):
        tree = view_tree(forest, m)
        v = np.int64(tree.state[0].free_cut)
        while v >= 0:
            scrub_cut(tree, v)
            v = np.int64(tree.cuts[v].left)
        k = np.int64(tree.state[0].free_leaf)
        while k >= 0:
            tree.leaves[k].n_points = 0
            tree.leaves[k].due = -1
            for c in range(tree.values.shape[1]):
                tree.values[k, c] = 0.0
            k = np.int64(tree.leaves[k].last)
        for s in range(free.shape[0]):
            tree.links[free[s]] = 0
