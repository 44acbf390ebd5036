"""Joint values: predictions, and the step that learns one row (docs/design.md, section 7).

A prediction is the sum over the nodes on the path of a row of the weight F(t_v) - F(t_parent) of the node times the sum of the duals
of its rows.
"""

from __future__ import annotations

import numpy as np

from ..arrays import LABEL_WEIGHT, NOTHING, PREDICTION_WALKS, example_forest, example_read_scratch, example_rows
from .intervals import get_share
from .jit import always_inline, entry_point, kernel, prefetch
from .nodes import get_leaf, goes_right, is_pending, scale_held_row, scale_row, view_tree
from .traverse import find_leaves, step_down

# ---------------------------------------------------------------------------------------------------------------------
# Predictions


@always_inline
def add_leaf_value(tree, leaf, weight, out):
    """Add the sum of the duals in a leaf, times its weight, to ``out``."""
    slot = tree.leaves[leaf].last
    for _ in range(tree.leaves[leaf].n_points):
        for c in range(out.shape[0]):
            out[c] += weight * tree.duals[slot, c]
        slot = tree.links[slot]


@entry_point(
    lambda: (example_forest(), example_rows(), 0, 0, 1.0, np.empty((1, 1)), np.empty((1, 1)), np.empty(1, np.int64))
)
def sum_paths(forest, X, start, end, bandwidth, out, rows, at):
    """Add the predictions of all trees for rows ``start`` to ``end`` of ``X`` to ``out``, along their paths.

    ``rows`` and ``at`` are scratch space: for one row, and for `PREDICTION_WALKS` nodes. Several trees take turns.
    """
    n_trees = forest.state.shape[0]
    z = rows[0]
    for s in range(start, end):
        scale_row(X[s], forest.scaling, z)
        for first in range(0, n_trees, PREDICTION_WALKS):
            n = min(n_trees - first, PREDICTION_WALKS)
            add_paths(forest, first, n, z, bandwidth, out[s], at)


@kernel
def add_paths(forest, first, n, z, bandwidth, out, at):
    """Add the predictions of n trees from ``first`` on for the scaled row ``z``, read at its nearest place in each box."""
    for k in range(n):
        at[k] = forest.state[first + k].root
        at[n + k] = -1
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
                for c in range(out.shape[0]):
                    out[c] += weight * forest.sums[m, v, c]
                following = step_down(forest.family, forest.cuts[m], forest.boxes[m], v, z)
                if following >= 0:
                    prefetch(forest.cuts[m], following)
                    prefetch(forest.sums[m], following)
                at[k] = following
                at[n + k] = v
                walking = True
            else:
                tree = view_tree(forest, m)
                add_leaf_value(tree, get_leaf(tree, v), 1.0 - get_share(before, bandwidth), out)
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


# ---------------------------------------------------------------------------------------------------------------------
# One row


@kernel
def walk_held_row(forest, first, n, z, bandwidth, out, at, paths):
    """Add the predictions of n trees from ``first`` on for a held row at ``z`` to ``out``; note its paths.

    The path in tree ``first + k`` is ``paths[k, 1:]``, its length ``paths[k, 0]``; it ends early if there is no room. Trees take turns.
    ``at`` is scratch space.
    """
    for k in range(n):
        at[k] = forest.state[first + k].root
        at[n + k] = -1
        paths[k, 0] = 0
        if at[k] >= 0:
            prefetch(forest.sums[first + k], at[k])
    walking = True
    while walking:
        walking = False
        for k in range(n):
            ref, above = at[k], at[n + k]
            if above == -2:
                continue
            m = first + k
            tree = view_tree(forest, m)
            share = get_share(tree.cuts[above].time, bandwidth) if above >= 0 else 0.0
            if ref >= 0 and paths[k, 0] + 1 < paths.shape[1]:
                paths[k, 0] += 1
                paths[k, paths[k, 0]] = ref
            if ref < 0 or is_pending(tree, ref):
                add_leaf_value(tree, get_leaf(tree, ref), 1.0 - share, out)
                at[n + k] = -2
                continue
            node = tree.cuts[ref]
            weight = get_share(node.time, bandwidth) - share
            for c in range(out.shape[0]):
                out[c] += weight * tree.sums[ref, c]
            following = np.int64(node.right if goes_right(tree, ref, z) else node.left)
            if following >= 0:
                prefetch(tree.cuts, following)
                prefetch(tree.sums, following)
            at[k] = following
            at[n + k] = ref
            walking = True


@kernel
def add_to_path(tree, z, path, change):
    """Add ``change`` to the sums of the nodes on the path of a held row at ``z``, which may be noted only in part."""
    n = path[0]
    for k in range(1, n + 1):
        for c in range(change.shape[0]):
            tree.sums[path[k], c] += change[c]
    if n + 1 < path.shape[0]:
        return
    ref = np.int64(path[n])
    while ref >= 0 and not is_pending(tree, ref):
        ref = np.int64(tree.cuts[ref].right if goes_right(tree, ref, z) else tree.cuts[ref].left)
        if ref >= 0:
            for c in range(change.shape[0]):
                tree.sums[ref, c] += change[c]


@entry_point(
    lambda: (
        example_forest(),
        np.empty(1, np.int32),
        np.empty((1, 1)),
        np.empty(1),
        1.0,
        1.0,
        1.0,
        np.empty((1, 1)),
        np.empty(1),
        np.empty(1),
        np.empty(1, np.int64),
        np.empty((1, 1), np.int32),
    )
)
def learn_duals(forest, slots, targets, mean, bandwidth, ridge, step, rows, predicted, change, at, paths):
    """Set the duals of rows that all trees hold, one after another: the step of ridge regression for a single row.

    ``targets`` are their label columns, ``mean`` the mean label, and the ``step`` is a share of the residual. What remains of a label after it was predicted, before the row
    was learned, is its honest residual, and is kept. The others are scratch space: ``at`` for 2 `PREDICTION_WALKS` nodes, ``paths``
    for one path per tree.
    """
    n_trees = forest.state.shape[0]
    z = rows[0]
    for s in range(slots.shape[0]):
        slot = slots[s]
        weight = forest.labels[slot, LABEL_WEIGHT]
        scale_held_row(view_tree(forest, 0), slot, z)
        for c in range(predicted.shape[0]):
            predicted[c] = 0.0
        for first in range(0, n_trees, PREDICTION_WALKS):
            n = min(n_trees - first, PREDICTION_WALKS)
            walk_held_row(forest, first, n, z, bandwidth, predicted, at, paths[first : first + n])
        for c in range(predicted.shape[0]):
            residual = targets[s, c] - mean[c] - predicted[c] / n_trees
            forest.residuals[slot, c] = residual
            change[c] = step * residual / (1.0 + ridge / weight) if weight > 0.0 else 0.0
            forest.duals[slot, c] += change[c]
        for m in range(n_trees):
            add_to_path(view_tree(forest, m), z, paths[m], change)


@entry_point(
    lambda: (
        example_forest(),
        0,
        1.0,
        np.empty((1, 1)),
        np.empty(1),
        np.empty(1, np.int64),
        np.empty((1, 1), np.int32),
    )
)
def walk_row(forest, slot, bandwidth, rows, predicted, at, paths):
    """Add the predictions of all trees for a held row to ``predicted``, as `learn_duals` does, and note its paths.

    With `change_row`, this is `learn_duals` for one row of a forest whose trees are in several places.
    """
    n_trees = forest.state.shape[0]
    scale_held_row(view_tree(forest, 0), slot, rows[0])
    for first in range(0, n_trees, PREDICTION_WALKS):
        n = min(n_trees - first, PREDICTION_WALKS)
        walk_held_row(forest, first, n, rows[0], bandwidth, predicted, at, paths[first : first + n])


@entry_point(lambda: (example_forest(), 0, np.empty(1), np.empty((1, 1)), np.empty((1, 1), np.int32)))
def change_row(forest, slot, change, rows, paths):
    """Change the duals of a held row whose paths `walk_row` has noted."""
    scale_held_row(view_tree(forest, 0), slot, rows[0])
    for c in range(change.shape[0]):
        forest.duals[slot, c] += change[c]
    for m in range(forest.state.shape[0]):
        add_to_path(view_tree(forest, m), rows[0], paths[m], change)
