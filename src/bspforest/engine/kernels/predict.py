"""Read a forest: the leaves of rows, sums over leaves for prediction, points of leaves, and the nodes of a tree."""

from __future__ import annotations

import numpy as np

from ..arrays import LABEL_WEIGHT, MEAN, NOTHING, SQUARES, WEIGHT, example_forest, example_read_scratch, example_rows
from .jit import always_inline, entry_point
from .nodes import scale_row
from .traverse import find_leaf_per_tree, find_leaves

# Columns of the sums of `add_leaf` in regression. Means are relative to REFERENCE, the mean of the first tree, so that their
# squares do not cancel.
SUM_MEAN, SUM_VARIANCE, SUM_MEAN_SQUARED, N_TREES, REFERENCE = range(5)
N_SUMS = 5


@always_inline
def add_leaf(n_classes, values, hard, out):
    """Add the prediction of a leaf with label statistics ``values`` to ``out``. A leaf without weight adds nothing.

    In classification, add its class frequencies, or, if ``hard``, a vote for its most frequent class; the last column
    counts trees. In regression, the columns are `SUM_MEAN` to `REFERENCE`.
    """
    if n_classes == 0:
        if values[WEIGHT] > 0.0:
            if out[N_TREES] == 0.0:
                out[REFERENCE] = values[MEAN]
            gap = values[MEAN] - out[REFERENCE]
            out[SUM_MEAN] += gap
            out[SUM_VARIANCE] += values[SQUARES] / values[WEIGHT]
            out[SUM_MEAN_SQUARED] += gap * gap
            out[N_TREES] += 1.0
        return
    total = 0.0
    best = 0
    for c in range(n_classes):
        total += values[c]
        if values[c] > values[best]:
            best = c
    if total > 0.0:
        out[n_classes] += 1.0
        if hard:
            out[best] += 1.0
        else:
            for c in range(n_classes):
                out[c] += values[c] / total


@entry_point(lambda: (example_forest(), example_rows(), 0, 0, 0, np.empty((1, 1)), *example_read_scratch()))
def sum_leaves(forest, X, start, end, hard, out, rows, found, walks):
    """Sum the predictions of all trees for rows ``start`` to ``end`` of ``X`` with `add_leaf`. The trees hold points.

    ``rows``, ``found`` and ``walks`` are scratch space, as from `make_read_scratch`.
    """
    n_trees = forest.state.shape[0]
    if end - start == 1:
        scale_row(X[start], forest.scaling, rows[0])
        find_leaf_per_tree(forest, rows[0], found)
        for m in range(n_trees):
            add_leaf(forest.n_classes, forest.values[m, found[m]], hard, out[start])
        return
    for block in range(start, end, rows.shape[0]):
        n = min(rows.shape[0], end - block)
        for s in range(n):
            scale_row(X[block + s], forest.scaling, rows[s])
        for m in range(n_trees):
            find_leaves(forest, m, rows, n, found, walks)
            values = forest.values[m]
            for s in range(n):
                add_leaf(forest.n_classes, values[found[s]], hard, out[block + s])


@entry_point(lambda: (example_forest(), np.empty((1, 1), np.int64), 0, 0, np.empty((1, 1))))
def sum_found_leaves(forest, leaves, start, end, out):
    """Do what `sum_leaves` does in regression, for rows whose leaves ``leaves[row, tree]`` are known."""
    for s in range(start, end):
        for m in range(leaves.shape[1]):
            add_leaf(0, forest.values[m, leaves[s, m]], 0, out[s])


@entry_point(lambda: (example_forest(), example_rows(), 0, 0, np.empty((1, 1), np.int64), *example_read_scratch()))
def find_all_leaves(forest, X, start, end, out, rows, found, walks):
    """Write the leaf of each row in each tree to ``out[row, tree]``; the rest is scratch space as in `sum_leaves`."""
    for block in range(start, end, rows.shape[0]):
        n = min(rows.shape[0], end - block)
        for s in range(n):
            scale_row(X[block + s], forest.scaling, rows[s])
        for m in range(forest.state.shape[0]):
            find_leaves(forest, m, rows, n, found, walks)
            for s in range(n):
                out[block + s, m] = found[s]


@entry_point(
    lambda: (
        example_forest().leaves,
        example_forest().links,
        example_forest().labels,
        np.empty((1, 1), np.int64),
        np.empty(1, np.int32),
        np.empty(1),
        np.empty(1, np.int64),
    )
)
def list_points(records, links, labels, leaves, out_slots, out_shares, starts):
    """List the points in the leaf ``leaves[row, tree]`` of each row and tree. The first three arguments are a forest's.

    Writes, from ``starts[row]`` on, the slots of the points and their shares of the weight of their leaf. With empty
    ``out_slots``, only counts: ``starts[row + 1]`` becomes the number of points of ``row``.
    """
    count = out_slots.shape[0] == 0
    for s in range(leaves.shape[0]):
        n = 0
        at = starts[s]
        for m in range(leaves.shape[1]):
            leaf = records[m, leaves[s, m]]
            if count:
                n += leaf.n_points
                continue
            slot = leaf.last
            total = 0.0
            for _ in range(leaf.n_points):
                total += labels[slot, LABEL_WEIGHT]
                slot = links[m, slot]
            for _ in range(leaf.n_points):
                out_slots[at] = slot
                out_shares[at] = labels[slot, LABEL_WEIGHT] / total if total > 0.0 else 0.0
                at += 1
                slot = links[m, slot]
        if count:
            starts[s + 1] = n


@entry_point(lambda: (example_forest().cuts[0], 0, *(np.empty(1, np.int64) for _ in range(3))))
def number_nodes(cuts, root, nodes, parents, depths):
    """Number the nodes of a tree breadth first from the root, left before right; return how many there are.

    Writes the nodes (for a leaf with a pending cut, the cut node), the numbers of their parents, and their depths.
    """
    if root == NOTHING:
        return 0
    n = 1
    nodes[0] = root
    parents[0] = -1
    depths[0] = 0
    done = 0
    while done < n:
        v = nodes[done]
        if v >= 0 and cuts[v].right != NOTHING:
            nodes[n] = cuts[v].left
            nodes[n + 1] = cuts[v].right
            for c in range(2):
                parents[n + c] = done
                depths[n + c] = depths[done] + 1
            n += 2
        done += 1
    return n
