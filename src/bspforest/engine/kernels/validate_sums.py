"""Check the sums of duals of a tree that was read from a file against a recount."""

from __future__ import annotations

import numpy as np

from ..arrays import example_forest
from .jit import entry_point
from .nodes import get_leaf, is_pending, view_tree


@entry_point(lambda: (example_forest(), 0, np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1), np.empty((1, 1))))
def find_wrong_sum(forest, m, nodes, parents, allowed, totals):
    """Return a cut node of tree ``m`` whose sums of duals differ by more than ``allowed`` from those of its rows, or -1.

    ``nodes`` are all nodes, parents first, and ``parents`` the numbers of their parents. ``totals`` is scratch space, a row per node.
    """
    tree = view_tree(forest, m)
    for k in range(nodes.shape[0]):
        for c in range(totals.shape[1]):
            totals[k, c] = 0.0
    for k in range(nodes.shape[0] - 1, -1, -1):
        ref = nodes[k]
        if ref < 0 or is_pending(tree, ref):
            leaf = tree.leaves[get_leaf(tree, ref)]
            slot = leaf.last
            for _ in range(leaf.n_points):
                for c in range(totals.shape[1]):
                    totals[k, c] += tree.duals[slot, c]
                slot = tree.links[slot]
        for c in range(totals.shape[1]):
            if ref >= 0 and not abs(tree.sums[ref, c] - totals[k, c]) <= allowed[c]:
                return ref
            if parents[k] >= 0:
                totals[parents[k], c] += totals[k, c]
    return np.int64(-1)
