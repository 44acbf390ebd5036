"""Joint values: the step that learns rows one after another (docs/design.md, section 7).

A row gets a share of its residual as its dual. Residuals of a few rows are found together: what the trees predict without any of them,
plus what those before it add, their duals times the kernel. So trees are walked once for several rows, and then changed once.
"""

from __future__ import annotations

import numpy as np

from ...trees.kernels.intervals import get_share
from ...trees.kernels.jit import always_inline, entry_point, kernel, prefetch
from ...trees.kernels.nodes import get_leaf, goes_right, is_pending, scale_held_row, view_tree
from ...trees.layout import PREDICTION_WALKS, TREES_PER_BLOCK, example_forest
from .paths import add_leaf_value


def example_walk() -> tuple[np.ndarray, ...]:
    """Return arguments that `walk_rows` writes to, for their types: see `bspforest.forest.node_sums.make_walk`."""
    return (
        np.empty((1, 1)),
        np.empty((1, 1, 1)),
        np.empty(1, np.int64),
        np.empty((1, 1)),
        np.empty((1, 1, 1), np.int32),
        np.empty((1, 1), np.int32),
    )


@kernel
def walk_held_row(forest, first, n, z, bandwidth, values, at, paths, ends):
    """Write the predictions of n trees from ``first`` on for a held row at ``z`` to ``values``; note its paths and their ends.

    The path in tree ``first + k`` is ``paths[k, 1:]``, its length ``paths[k, 0]``; it stops early if there is no room. Trees take turns.
    ``at`` is scratch space.
    """
    for k in range(n):
        at[k] = forest.state[first + k].root
        at[n + k] = -1
        paths[k, 0] = 0
        for c in range(values.shape[1]):
            values[k, c] = 0.0
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
                add_leaf_value(tree, get_leaf(tree, ref), 1.0 - share, values[k])
                ends[k] = ref
                at[n + k] = -2
                continue
            node = tree.cuts[ref]
            weight = get_share(node.time, bandwidth) - share
            for c in range(values.shape[1]):
                values[k, c] += weight * tree.sums[ref, c]
            following = np.int64(node.right if goes_right(tree, ref, z) else node.left)
            if following >= 0:
                prefetch(tree.cuts, following)
                prefetch(tree.sums, following)
            at[k] = following
            at[n + k] = ref
            walking = True


@always_inline
def find_similarity(tree, bandwidth, z, other_z, path, other, end, other_end):
    """Return F of the time at which a tree separates two held rows with these paths and ends; 1 if it does not."""
    if end == other_end:
        return 1.0
    n = min(path[0], other[0])
    k = 1
    while k <= n and path[k] == other[k]:
        k += 1
    last = np.int64(path[k - 1])
    if k == path.shape[0]:  # the paths part below what is noted
        while True:
            right = goes_right(tree, last, z)
            if right != goes_right(tree, last, other_z):
                break
            last = np.int64(tree.cuts[last].right if right else tree.cuts[last].left)
    return get_share(tree.cuts[last].time, bandwidth)


@entry_point(lambda: (example_forest(), np.empty(1, np.int32), 1.0, *example_walk()))
def walk_rows(forest, slots, bandwidth, rows, partial, at, values, paths, ends):
    """Find what trees predict for held rows, and how similar these are to each other, summed over blocks of trees.

    ``partial`` is by block, row and number: predictions per label column, then similarities to the rows before. Paths and their ends
    are noted by tree and row. ``rows`` is for the scaled rows; ``at``, for 2 `PREDICTION_WALKS` nodes, and ``values`` are scratch space.
    """
    n_trees, n_rows, n_columns = forest.state.shape[0], slots.shape[0], values.shape[1]
    partial[:] = 0.0
    for s in range(n_rows):
        scale_held_row(view_tree(forest, np.int64(0)), slots[s], rows[s])
        for first in range(0, n_trees, PREDICTION_WALKS):
            last = min(n_trees, first + PREDICTION_WALKS)
            walk_held_row(
                forest, first, last - first, rows[s], bandwidth, values, at, paths[first:last, s], ends[first:last, s]
            )
            for m in range(first, last):
                for c in range(n_columns):
                    partial[m // TREES_PER_BLOCK, s, c] += values[m - first, c]
    for m in range(n_trees):
        tree = view_tree(forest, m)
        path, end, sums = paths[m], ends[m], partial[m // TREES_PER_BLOCK]
        for s in range(1, n_rows):
            for r in range(s):
                similarity = find_similarity(tree, bandwidth, rows[s], rows[r], path[s], path[r], end[s], end[r])
                sums[s, n_columns + r] += similarity


@kernel
def fold(partial):
    """Add up blocks of trees, in place, in pairs and pairs of pairs; the sum is the first one."""
    width = 1
    while width < partial.shape[0]:
        for k in range(0, partial.shape[0] - width, 2 * width):
            for s in range(partial.shape[1]):
                for c in range(partial.shape[2]):
                    partial[k, s, c] += partial[k + width, s, c]
        width *= 2


@entry_point(
    lambda: (
        np.empty((1, 1, 1)),
        1,
        np.empty((1, 1)),
        np.empty(1),
        np.empty(1),
        1.0,
        1.0,
        np.empty((1, 1)),
        np.empty((1, 1)),
    )
)
def find_changes(partial, n_trees, targets, mean, weights, ridge, step, residuals, changes):
    """Find the residuals of rows that are learned one after another, and the changes of their duals.

    What remains of a label after it was predicted, before the row was learned, is its out-of-sample residual. ``partial`` is what
    `walk_rows` finds; ``targets`` are label columns, ``mean`` the mean label, and the ``step`` is the share of a residual that is learned.
    """
    fold(partial)
    sums = partial[0]
    n_columns = targets.shape[1]
    for s in range(targets.shape[0]):
        for c in range(n_columns):
            predicted = sums[s, c]
            for r in range(s):
                predicted += sums[s, n_columns + r] * changes[r, c]
            residuals[s, c] = targets[s, c] - mean[c] - predicted / n_trees
            changes[s, c] = step * residuals[s, c] / (1.0 + ridge / weights[s]) if weights[s] > 0.0 else 0.0


@kernel
def add_to_path(tree, z, path, end, change):
    """Add ``change`` to the sums of the nodes on the path of a stored row at ``z``, which may be noted only in part, and its leaf."""
    n = path[0]
    for k in range(1, n + 1):
        for c in range(change.shape[0]):
            tree.sums[path[k], c] += change[c]
    if n + 1 == path.shape[0]:
        ref = np.int64(path[n])
        while ref >= 0 and not is_pending(tree, ref):
            ref = np.int64(tree.cuts[ref].right if goes_right(tree, ref, z) else tree.cuts[ref].left)
            if ref >= 0:
                for c in range(change.shape[0]):
                    tree.sums[ref, c] += change[c]
        end = ref
    leaf = get_leaf(tree, end)
    for c in range(change.shape[0]):
        tree.leaf_sums[leaf, c] += change[c]


@entry_point(
    lambda: (
        example_forest(),
        np.empty(1, np.int32),
        np.empty((1, 1)),
        np.empty((1, 1)),
        np.empty((1, 1, 1), np.int32),
        np.empty((1, 1), np.int32),
    )
)
def change_rows(forest, slots, changes, rows, paths, ends):
    """Change the duals of stored rows, after `walk_rows`, which has scaled ``rows`` and noted ``paths`` and their ``ends``."""
    for s in range(slots.shape[0]):
        for c in range(changes.shape[1]):
            forest.terms[slots[s], c] += changes[s, c]
    for m in range(forest.state.shape[0]):
        tree = view_tree(forest, m)
        for s in range(slots.shape[0]):
            add_to_path(tree, rows[s], paths[m, s], np.int64(ends[m, s]), changes[s])
