"""Predictions of leaf means: what the leaves of rows predict, added up over trees. See `bspforest.forest.leaf_means`."""

from __future__ import annotations

import numpy as np

from ...trees.kernels.jit import always_inline, entry_point
from ...trees.kernels.nodes import scale_row
from ...trees.kernels.traverse import find_leaf_per_tree, find_leaves
from ...trees.layout import example_forest, example_read_scratch, example_rows

# Columns of the terms in regression.
WEIGHT, FIRST, SECOND = range(3)

# Columns of the sums over trees in regression: of means and their squares, relative to the centre, and of variances; and the trees
# whose leaf has weight. In classification there is one column per class, and then the trees.
SUM_MEAN, SUM_MEAN_SQUARED, SUM_VARIANCE, N_TREES = range(4)


@always_inline
def add_label(sums, out):
    """Add mean, squared mean and variance of a leaf with these sums, if it has weight, to ``out``, and 1."""
    if sums[WEIGHT] > 0.0:
        share = 1.0 / sums[WEIGHT]
        mean = sums[FIRST] * share
        out[SUM_MEAN] += mean
        out[SUM_MEAN_SQUARED] += mean * mean
        out[SUM_VARIANCE] += max(sums[SECOND] * share - mean * mean, 0.0)
        out[N_TREES] += 1.0


@always_inline
def add_classes(sums, hard, out):
    """Add the frequencies of classes in a leaf with these sums, if it has weight, to ``out``, and 1; if ``hard``, its vote."""
    n = sums.shape[0]
    total = 0.0
    most = 0
    for c in range(n):
        total += sums[c]
        if sums[c] > sums[most]:
            most = c
    if total > 0.0:
        if hard:
            out[most] += 1.0
        else:
            share = 1.0 / total
            for c in range(n):
                out[c] += sums[c] * share
        out[n] += 1.0


@entry_point(lambda: (example_forest(), example_rows(), 0, 0, False, False, np.empty((1, 1)), *example_read_scratch()))
def add_leaf_means(forest, X, start, end, has_classes, hard, out, rows, found, walks):
    """Add what the leaves of all trees predict for rows ``start`` to ``end`` of ``X`` to ``out``, tree after tree.

    The last three are scratch space, as from `make_read_scratch`.
    """
    n_trees = forest.state.shape[0]
    alone = end - start == 1
    for block in range(start, end, rows.shape[0]):
        n = min(rows.shape[0], end - block)
        for s in range(n):
            scale_row(X[block + s], forest.scaling, rows[s])
        if alone:
            find_leaf_per_tree(forest, rows[0], found)
        for m in range(n_trees):
            if not alone:
                find_leaves(forest, m, rows, n, found, walks)
            for s in range(n):
                sums = forest.leaf_sums[m, found[m if alone else s]]
                if has_classes:
                    add_classes(sums, hard, out[block + s])
                else:
                    add_label(sums, out[block + s])
