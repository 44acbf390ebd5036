"""Joint values: products with the kernel of a forest, sums of duals over nodes, and predictions (docs/design.md, section 7).

Two rows are similar in a tree by the time at which it separates them: K(x, z) is the sum of the weights F(t_v) - F(t_parent) of the
nodes v that contain both, with F(t) = t / (t + bandwidth) and F = 1 for a leaf. A prediction is the sum over the nodes on the path
of a row of this weight times the sum of the duals of the rows in the node.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import LABEL_WEIGHT, NOTHING, PREDICTION_WALKS, example_forest, example_read_scratch, example_rows
from .jit import always_inline, entry_point, inline_source, kernel, prefetch
from .nodes import get_leaf, goes_right, is_pending, scale_held_row, scale_row, view_tree
from .traverse import find_leaves, step_down


@always_inline
def get_share(time, bandwidth):
    """Return F(time), the share of the similarity of two rows that is reached by then."""
    return time / (time + bandwidth) if time < math.inf else 1.0


# ---------------------------------------------------------------------------------------------------------------------
# Products: with the rows of a tree in the order of a walk from left to right, each node is an interval, its sum a difference of
# prefix sums, and a product two passes over the rows (10 ns per row and tree).


@kernel
def list_leaf(tree, leaf, slots, n):
    """Append the points of a leaf to ``slots[n:]``; return how many there are then."""
    slot = tree.leaves[leaf].last
    for _ in range(tree.leaves[leaf].n_points):
        slot = tree.links[slot]
        slots[n] = slot
        n += 1
    return n


def example_order():
    """Return examples of the arrays of an ordered tree: slots, starts, ends, nodes, times, parent_times."""
    return (*(np.empty(1, np.int32) for _ in range(4)), np.empty(1), np.empty(1))


@entry_point(lambda: (example_forest(), 0, *example_order(), np.empty((1, 2), np.int64), np.empty(1)))
def order_tree(forest, m, slots, starts, ends, nodes, times, parent_times, stack, stack_times):
    """List the rows of tree m from left to right, and its nodes, parents first, as intervals of them.

    ``slots`` receives the rows. Node k is the interval from ``starts[k]`` to ``ends[k]``; it exists from ``parent_times[k]`` to
    ``times[k]``, which is infinite for a leaf. ``nodes[k]`` is its reference. ``stack`` and ``stack_times`` are scratch space, with
    room for twice the depth of the tree. Returns the number of nodes.
    """
    tree = view_tree(forest, m)
    root = np.int64(tree.state[0].root)
    if root == NOTHING:
        return 0
    n_nodes = np.int64(0)
    n_rows = np.int64(0)
    top = np.int64(0)
    stack[0, 0] = root
    stack[0, 1] = -1
    stack_times[0] = 0.0
    while top >= 0:
        ref, opened = stack[top, 0], stack[top, 1]
        if opened >= 0:  # both children are done
            ends[opened] = n_rows
            top -= 1
            continue
        k = n_nodes
        n_nodes += 1
        starts[k] = n_rows
        nodes[k] = ref
        parent_times[k] = stack_times[top]
        if ref >= 0 and not is_pending(tree, ref):
            node = tree.cuts[ref]
            times[k] = node.time
            stack[top, 1] = k
            stack[top + 1, 0] = node.right
            stack[top + 2, 0] = node.left
            if node.left >= 0:
                prefetch(tree.cuts, np.int64(node.left))
            if node.right >= 0:
                prefetch(tree.cuts, np.int64(node.right))
            for c in range(1, 3):
                stack[top + c, 1] = -1
                stack_times[top + c] = node.time
            top += 2
            continue
        times[k] = math.inf
        n_rows = list_leaf(tree, get_leaf(tree, ref), slots, n_rows)
        ends[k] = n_rows
        top -= 1
    return n_nodes


@entry_point(lambda: (np.empty(1), np.empty(1), 1.0, np.empty(1)))
def set_weights(times, parent_times, bandwidth, weights):
    """Fill ``weights`` with F(t_v) - F(t_parent) of each node."""
    for k in range(times.shape[0]):
        weights[k] = get_share(times[k], bandwidth) - get_share(parent_times[k], bandwidth)


@inline_source
def take_prefix_sums(slots, p, c, prefix):
    """Fill ``prefix`` with the sums of column c of ``p`` over the first rows."""
    total = 0.0
    prefix[0] = 0.0
    for k in range(slots.shape[0]):
        total += p[slots[k], c]
        prefix[k + 1] = total


@inline_source
def spread_nodes(starts, ends, weights, prefix, delta):
    """Fill ``delta`` with the steps, from row to row, of the sum over nodes that contain the row of weight times sum."""
    for k in range(delta.shape[0]):
        delta[k] = 0.0
    for v in range(starts.shape[0]):
        value = weights[v] * (prefix[ends[v]] - prefix[starts[v]])
        delta[starts[v]] += value
        delta[ends[v]] -= value


def example_product():
    """Return examples of slots, starts, ends, weights, columns by slot."""
    return (*(np.empty(1, np.int32) for _ in range(3)), np.empty(1), np.empty((1, 1)))


@entry_point(lambda: (*example_product(), np.empty((1, 1)), np.empty(1), np.empty(1)))
def add_product(slots, starts, ends, weights, p, out, prefix, delta):
    """Add the product of the kernel of one tree with the columns of ``p`` to ``out``; both are by slot.

    ``prefix`` and ``delta`` are scratch space, with one entry more than there are rows.
    """
    for c in range(p.shape[1]):
        take_prefix_sums(slots, p, c, prefix)
        spread_nodes(starts, ends, weights, prefix, delta)
        total = 0.0
        for k in range(slots.shape[0]):
            total += delta[k]
            out[slots[k], c] += total


@entry_point(
    lambda: (
        example_forest(),
        0,
        *example_product()[:4],
        np.empty(1, np.int32),
        np.empty((1, 1)),
        np.empty(1),
        np.empty(1),
        True,
    )
)
def set_node_sums(forest, m, slots, starts, ends, weights, nodes, totals, prefix, delta, set_sums):
    """Fill ``totals`` with what tree m predicts in each leaf, and, if asked, its nodes with their sums of duals."""
    tree = view_tree(forest, m)
    for c in range(tree.sums.shape[1]):
        take_prefix_sums(slots, tree.duals, c, prefix)
        spread_nodes(starts, ends, weights, prefix, delta)
        total = 0.0
        row = np.int64(0)
        for v in range(starts.shape[0]):
            ref = np.int64(nodes[v])
            if set_sums and ref >= 0:
                tree.sums[ref, c] = prefix[ends[v]] - prefix[starts[v]]
            if ref < 0 or is_pending(tree, ref):
                while row <= starts[v]:
                    total += delta[row]
                    row += 1
                totals[get_leaf(tree, ref), c] = total


@entry_point(
    lambda: (
        example_forest(),
        0,
        *(np.empty(1, np.int32) for _ in range(3)),
        0,
        np.empty((1, 2), np.int32),
        np.empty(1, np.int64),
    )
)
def find_hosts(forest, m, starts, ends, nodes, least, hosts, stack):
    """Find the smallest node with at least ``least`` rows around each leaf of tree m, or else the root.

    Writes its interval of the rows in order to ``hosts``, by leaf. ``stack`` is scratch space, one entry per node.
    """
    tree = view_tree(forest, m)
    top = np.int64(-1)
    for v in range(starts.shape[0]):
        while top > 0 and ends[stack[top]] <= starts[v]:
            top -= 1
        if top < 0 or ends[v] - starts[v] >= least:
            top += 1
            stack[top] = v
        ref = np.int64(nodes[v])
        if ref < 0 or is_pending(tree, ref):
            leaf = get_leaf(tree, ref)
            hosts[leaf, 0] = starts[stack[top]]
            hosts[leaf, 1] = ends[stack[top]]


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
        np.empty(1, np.int64),
        example_read_scratch()[2],
    )
)
def sum_totals(forest, X, start, end, totals, out, rows, found, walks):
    """Add the predictions of all trees for rows ``start`` to ``end`` of ``X`` to ``out``, from the totals of their leaves."""
    for block in range(start, end, rows.shape[0]):
        n = min(rows.shape[0], end - block)
        for s in range(n):
            scale_row(X[block + s], forest.scaling, rows[s])
        for m in range(forest.state.shape[0]):
            find_leaves(forest, m, rows, n, found, walks)
            for s in range(n):
                for c in range(out.shape[1]):
                    out[block + s, c] += totals[m, found[s], c]


# ---------------------------------------------------------------------------------------------------------------------
# One row


@kernel
def walk_held_row(forest, m, z, bandwidth, out, change):
    """Add the prediction of tree m for a held row at ``z`` to ``out``, or add ``change`` to the sums along its path."""
    tree = view_tree(forest, m)
    ref = np.int64(tree.state[0].root)
    before = 0.0
    adding = change.shape[0] > 0
    while ref >= 0:
        pending = is_pending(tree, ref)
        if adding:
            for c in range(change.shape[0]):
                tree.sums[ref, c] += change[c]
        elif not pending:
            share = get_share(tree.cuts[ref].time, bandwidth)
            for c in range(out.shape[0]):
                out[c] += (share - before) * tree.sums[ref, c]
            before = share
        if pending:
            break
        ref = np.int64(tree.cuts[ref].right if goes_right(tree, ref, z) else tree.cuts[ref].left)
    if not adding:
        add_leaf_value(tree, get_leaf(tree, ref), 1.0 - before, out)


@entry_point(
    lambda: (
        example_forest(),
        np.empty(1, np.int32),
        np.empty((1, 1)),
        np.empty(1),
        1.0,
        1.0,
        np.empty((1, 1)),
        np.empty(1),
        np.empty(1),
    )
)
def learn_duals(forest, slots, targets, mean, bandwidth, ridge, rows, predicted, change):
    """Set the duals of rows that all trees hold, one after another: the step of ridge regression for a single row.

    ``targets`` are their label columns, ``mean`` the mean label. What remains of a label after it was predicted, before the row
    was learned, is its honest residual, and is kept. ``rows``, ``predicted`` and ``change`` are scratch space.
    """
    n_trees = forest.state.shape[0]
    z = rows[0]
    nothing = change[:0]
    for s in range(slots.shape[0]):
        slot = slots[s]
        weight = forest.labels[slot, LABEL_WEIGHT]
        scale_held_row(view_tree(forest, 0), slot, z)
        for c in range(predicted.shape[0]):
            predicted[c] = 0.0
        for m in range(n_trees):
            walk_held_row(forest, m, z, bandwidth, predicted, nothing)
        for c in range(predicted.shape[0]):
            residual = targets[s, c] - mean[c] - predicted[c] / n_trees
            forest.residuals[slot, c] = residual
            change[c] = residual / (1.0 + ridge / weight) if weight > 0.0 else 0.0
            forest.duals[slot, c] += change[c]
        for m in range(n_trees):
            walk_held_row(forest, m, z, bandwidth, predicted, change)
