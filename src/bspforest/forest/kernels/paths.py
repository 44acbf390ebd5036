"""Predictions of ridge regression (docs/design.md, section 7).

A prediction is the sum over the nodes on the path of a row of the weight F(t_v) - F(t_parent) of the node times the sum of the duals
of its rows.
"""

from __future__ import annotations

import numpy as np

from ...trees.kernels.intervals import get_share
from ...trees.kernels.jit import always_inline, entry_point, kernel, prefetch
from ...trees.kernels.nodes import get_leaf, scale_row, view_tree
from ...trees.kernels.traverse import find_leaves, step_down
from ...trees.layout import NOTHING, PREDICTION_WALKS, example_forest, example_read_scratch, example_rows

# ---------------------------------------------------------------------------------------------------------------------
# Predictions


@always_inline
def add_leaf_value(tree, leaf, weight, out):
    """Add the sum of the duals in a leaf, times its weight, to ``out``."""
    for c in range(out.shape[0]):
        out[c] += weight * tree.leaf_sums[leaf, c]


@entry_point(
    lambda: (example_forest(), example_rows(), 0, 0, 1.0, *(np.empty((1, 1)) for _ in range(3)), np.empty(1, np.int64))
)
def sum_paths(forest, X, start, end, bandwidth, out, values, rows, at):
    """Add the predictions of all trees for rows ``start`` to ``end`` of ``X`` to ``out``, along their paths.

    The others are scratch space: ``values`` for the predictions of `PREDICTION_WALKS` trees, which take turns, ``rows`` for one row, ``at``
    for twice as many nodes as trees.
    """
    n_trees = forest.state.shape[0]
    z = rows[0]
    for s in range(start, end):
        scale_row(X[s], forest.scaling, z)
        for first in range(0, n_trees, PREDICTION_WALKS):
            n = min(n_trees - first, PREDICTION_WALKS)
            read_paths(forest, first, n, z, bandwidth, values, at)
            for k in range(n):
                for c in range(out.shape[1]):
                    out[s, c] += values[k, c]


@kernel
def read_paths(forest, first, n, z, bandwidth, values, at):
    """Write the predictions of n trees from ``first`` on for the scaled row ``z``, read at its nearest place in each box."""
    for k in range(n):
        at[k] = forest.state[first + k].root
        at[n + k] = -1
        for c in range(values.shape[1]):
            values[k, c] = 0.0
    walking = True
    while walking:
        walking = False
        for k in range(n):
            v = at[k]
            above = at[n + k]
            if above == -2:
                continue
            m = first + k
            before = forest.cuts[m, above].time if above >= 0 else 0.0
            if v >= 0 and forest.cuts[m, v].right != NOTHING:
                weight = get_share(forest.cuts[m, v].time, bandwidth) - get_share(before, bandwidth)
                for c in range(values.shape[1]):
                    values[k, c] += weight * forest.sums[m, v, c]
                following = step_down(forest.family, forest.cuts[m], forest.boxes[m], v, z)
                if following >= 0:
                    prefetch(forest.cuts[m], following)
                    prefetch(forest.sums[m], following)
                at[k] = following
                at[n + k] = v
                walking = True
            else:
                tree = view_tree(forest, m)
                add_leaf_value(tree, get_leaf(tree, v), 1.0 - get_share(before, bandwidth), values[k])
                at[n + k] = -2


@entry_point(
    lambda: (
        example_forest(),
        example_rows(),
        0,
        0,
        np.empty((1, 1, 1)),
        np.empty((1, 1)),
        np.empty((1, 1)),
        np.empty((1, 1)),
        np.empty((1, 1)),
        np.empty((1, 1)),
        np.empty(1, np.int64),
        example_read_scratch()[2],
    )
)
def sum_totals(forest, X, start, end, totals, out, numbers, sums, counts, rows, found, walks):
    """Add the predictions of all trees for rows ``start`` to ``end`` of ``X`` to ``out``, from the totals of their leaves.

    Also adds ``numbers``, which are by slot and column, of the newest point in the leaf of each tree to ``sums``. NaN is left out;
    ``counts`` are increased where it is not. Either is skipped if what it is added to has no columns.
    """
    for block in range(start, end, rows.shape[0]):
        n = min(rows.shape[0], end - block)
        for s in range(n):
            scale_row(X[block + s], forest.scaling, rows[s])
        for m in range(forest.state.shape[0]):
            find_leaves(forest, m, rows, n, found, walks)
            for s in range(n):
                for c in range(out.shape[1]):
                    out[block + s, c] += totals[m, found[s], c]
            if sums.shape[1] > 0:
                for s in range(n):
                    slot = forest.leaves[m, found[s]].last
                    for c in range(sums.shape[1]):
                        number = numbers[slot, c]
                        if number == number:
                            sums[block + s, c] += number
                            counts[block + s, c] += 1.0
