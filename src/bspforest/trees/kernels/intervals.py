"""Products with the kernel of a forest, whose nodes are intervals (docs/design.md, section 7).

Two rows are similar in a tree by the time at which it separates them: K(x, z) is the sum of the weights F(t_v) - F(t_parent) of the
nodes v that contain both, with F(t) = t / (t + bandwidth) and F = 1 for a leaf.

With the rows of a tree in the order of a walk, each node is an interval of them, its sum a difference of prefix sums, and a product
two passes over rows and nodes, without any walk: 7 ns per row and tree. Leaves of one row are no intervals: their weight is kept with
the row. So n rows have at most n - 1 intervals.
"""

from __future__ import annotations

import math

import numpy as np

from ..layout import NOTHING, example_forest
from .jit import always_inline, entry_point, inline_source, kernel
from .nodes import get_leaf, is_pending, view_tree

# Columns that are multiplied together, so that each is one lane of a vector register.
LANES = 4


@always_inline
def get_share(time, bandwidth):
    """Return F(time), the share of the similarity of two rows that is reached by then."""
    return time / (time + bandwidth) if time < math.inf else 1.0


def example_order():
    """Return examples of slots, own, starts, ends, weights, counts: all that products read of ordered trees."""
    slots, starts, ends = (np.empty((1, 1), np.int32) for _ in range(3))
    return slots, np.empty((1, 1)), starts, ends, np.empty((1, 1)), np.empty(1, np.int64)


def example_nodes():
    """Return examples of leaves and nodes: where intervals come from."""
    return np.empty((1, 1), np.int32), np.empty((1, 1), np.int32)


@kernel
def list_leaf(tree, leaf, slots, n):
    """Append the points of a leaf to ``slots[n:]``; return how many there are then."""
    slot = tree.leaves[leaf].last
    if tree.leaves[leaf].n_points == 1:  # mostly
        slots[n] = slot
        return n + 1
    for _ in range(tree.leaves[leaf].n_points):
        slot = tree.links[slot]
        slots[n] = slot
        n += 1
    return n


@always_inline
def comes_first(left, right):
    """Return whether to walk the left child first: where both are cut nodes, the one that was made first.

    `build` makes the nodes of one child after those of the other. In the order of a walk from left to right, half of the nodes had to
    be waited for, and a walk took three times as long.
    """
    return left < 0 or (right >= 0 and left < right)


@entry_point(
    lambda: (
        example_forest(),
        0,
        0,
        0,
        1.0,
        *example_order(),
        *example_nodes(),
        np.empty((1, 2), np.int64),
        np.empty(1),
    )
)
def order_trees(
    forest, offset, first, last, bandwidth, slots, own, starts, ends, weights, counts, leaves, nodes, stack, shares
):
    """List the rows of trees in the order of a walk, and their nodes, parents first, as intervals of them.

    Rows ``first`` to ``last`` of the arrays are filled from the trees ``offset`` further. Interval k of tree m goes from ``starts[m, k]`` to ``ends[m, k]`` and has the weight ``weights[m, k]``; there are ``counts[m]``.
    ``nodes`` are their references, ``leaves`` the leaves of the rows, unless these arrays are empty. ``own`` is the weight of the leaf of a row that is alone in it,
    else 0. ``stack`` and ``shares`` are scratch space with room for one entry per cut.
    """
    for m in range(first, last):
        counts[m] = order_tree(
            forest,
            offset + m,
            bandwidth,
            slots[m],
            own[m],
            starts[m],
            ends[m],
            weights[m],
            leaves[m],
            nodes[m],
            stack,
            shares,
        )


@kernel
def order_tree(forest, m, bandwidth, slots, own, starts, ends, weights, leaves, nodes, stack, shares):
    """Do what `order_trees` does for tree m. A node on the stack comes with the interval that ends with it."""
    tree = view_tree(forest, m)
    ref = np.int64(tree.state[0].root)
    if ref == NOTHING:
        return 0
    n_rows = np.int64(0)
    n_intervals = np.int64(0)
    closes = np.int64(-1)
    share = 0.0  # F at the cut above
    top = np.int64(-1)
    noting = leaves.shape[0] > 0
    while True:
        if ref >= 0 and not is_pending(tree, ref):
            node = tree.cuts[ref]
            left, right = np.int64(node.left), np.int64(node.right)
            starts[n_intervals] = n_rows
            if noting:
                nodes[n_intervals] = ref
            if closes >= 0:
                ends[closes] = ~n_intervals
            below = get_share(node.time, bandwidth)
            weights[n_intervals] = below - share
            left_first = comes_first(left, right)
            top += 1
            stack[top, 0] = right if left_first else left
            stack[top, 1] = n_intervals
            shares[top] = below
            ref, closes, share = left if left_first else right, np.int64(-1), below
            n_intervals += 1
            continue
        first_row = n_rows
        leaf = get_leaf(tree, ref)
        n_rows = list_leaf(tree, leaf, slots, n_rows)
        alone = n_rows - first_row == 1
        for k in range(first_row, n_rows):
            own[k] = 1.0 - share if alone else 0.0
            if noting:
                leaves[k] = leaf
        if not alone:
            starts[n_intervals] = first_row
            ends[n_intervals] = n_rows
            weights[n_intervals] = 1.0 - share
            if noting:
                nodes[n_intervals] = ref
            n_intervals += 1
        if closes >= 0:
            ends[closes] = n_rows
        if top < 0:
            break
        ref, closes, share = stack[top, 0], stack[top, 1], shares[top]
        top -= 1
    for k in range(n_intervals - 1, -1, -1):  # an interval that ends with another one, which comes later
        if ends[k] < 0:
            ends[k] = ends[~ends[k]]
    return n_intervals


def example_columns():
    """Return examples of columns, of what is added to, and of two scratch arrays."""
    return np.empty((1, 1, LANES)), np.empty((1, 1, LANES)), np.empty((1, LANES)), np.empty((1, LANES))


@entry_point(lambda: (*example_order(), 0, 0, *example_columns()))
def add_products(slots, own, starts, ends, weights, counts, first, last, p, out, prefix, steps):
    """Add the products of trees ``first`` to ``last`` with the columns of ``p`` to ``out``.

    Both are by group of columns, slot and column of the group: one, or `LANES`. ``prefix`` and ``steps`` are scratch space for one row
    more than there are.
    """
    for m in range(first, last):
        tree = slots[m], own[m], starts[m], ends[m], weights[m], counts[m]
        for g in range(p.shape[0]):
            if p.shape[2] == 1:
                add_product(tree, p[g], out[g], prefix, steps)
            else:
                add_product_lanes(tree, p[g], out[g], prefix, steps)


@inline_source
def add_product(tree, p, out, prefix, steps):
    """Add the product of one tree with one column."""
    slots, own, starts, ends, weights, n_intervals = tree
    n = slots.shape[0]
    total = 0.0
    prefix[0, 0] = 0.0
    steps[0, 0] = 0.0
    for k in range(n):
        total += p[slots[k], 0]
        prefix[k + 1, 0] = total
        steps[k + 1, 0] = 0.0
    for v in range(n_intervals):
        start, end = starts[v], ends[v]
        value = weights[v] * (prefix[end, 0] - prefix[start, 0])
        steps[start, 0] += value
        steps[end, 0] -= value
    total = 0.0
    for k in range(n):
        total += steps[k, 0]
        out[slots[k], 0] += total + own[k] * p[slots[k], 0]


@inline_source
def add_product_lanes(tree, p, out, prefix, steps):
    """Add the product of one tree with `LANES` columns."""
    slots, own, starts, ends, weights, n_intervals = tree
    n = slots.shape[0]
    for c in range(LANES):
        prefix[0, c] = 0.0
        steps[0, c] = 0.0
    for k in range(n):
        slot = slots[k]
        for c in range(LANES):
            prefix[k + 1, c] = prefix[k, c] + p[slot, c]
            steps[k + 1, c] = 0.0
    for v in range(n_intervals):
        start, end, weight = starts[v], ends[v], weights[v]
        for c in range(LANES):
            value = weight * (prefix[end, c] - prefix[start, c])
            steps[start, c] += value
            steps[end, c] -= value
    for k in range(n):
        slot, weight = slots[k], own[k]
        for c in range(LANES):
            steps[k + 1, c] += steps[k, c]
            out[slot, c] += steps[k, c] + weight * p[slot, c]


@entry_point(
    lambda: (
        example_forest(),
        *example_order(),
        *example_nodes(),
        0,
        0,
        0,
        True,
        np.empty((1, 1, 1)),
        np.empty((1, LANES)),
        np.empty((1, LANES)),
    )
)
def set_node_sums(
    forest,
    slots,
    own,
    starts,
    ends,
    weights,
    counts,
    leaves,
    nodes,
    offset,
    first,
    last,
    set_sums,
    totals,
    prefix,
    steps,
):
    """Fill ``totals`` with what trees predict in each leaf, and, if asked, their nodes with their sums of duals.

    Rows ``first`` to ``last`` of the arrays are those of the trees ``offset`` further. ``prefix`` and ``steps`` are scratch
    space for one row more than there are.
    """
    for m in range(first, last):
        tree = view_tree(forest, offset + m)
        n = slots.shape[1]
        for c in range(tree.sums.shape[1]):
            prefix[0, 0] = 0.0
            for k in range(n):
                prefix[k + 1, 0] = prefix[k, 0] + tree.terms[slots[m, k], c]
                steps[k, 0] = 0.0
                if set_sums:
                    leaf = leaves[m, k]
                    before = tree.leaf_sums[leaf, c] if k > 0 and leaves[m, k - 1] == leaf else 0.0
                    tree.leaf_sums[leaf, c] = before + tree.terms[slots[m, k], c]
            steps[n, 0] = 0.0
            for v in range(counts[m]):
                start, end = starts[m, v], ends[m, v]
                total = prefix[end, 0] - prefix[start, 0]
                steps[start, 0] += weights[m, v] * total
                steps[end, 0] -= weights[m, v] * total
                if set_sums and nodes[m, v] >= 0:
                    tree.sums[nodes[m, v], c] = total
            total = 0.0
            for k in range(n):
                total += steps[k, 0]
                totals[offset + m, leaves[m, k], c] = total + own[m, k] * tree.terms[slots[m, k], c]


# ---------------------------------------------------------------------------------------------------------------------
# The inverse of one tree's kernel plus a diagonal, in two passes: adding w times the square of ones to a matrix changes its inverse by
# one term (Sherman and Morrison), from the leaves up; the second pass hands down what is to be subtracted.


@entry_point(
    lambda: (*example_order()[2:4], np.empty(1, np.int64), 0, np.empty((1, 1), np.int32), np.empty((1, 1), np.int32))
)
def find_parents(starts, ends, counts, n_trees, parents, hosts):
    """Write the parent of each interval of the first trees, -1 for the first one, and the smallest interval around each row."""
    for m in range(n_trees):
        at = np.int64(-1)
        following = np.int64(0)
        for k in range(hosts.shape[1]):
            while at > 0 and ends[m, at] <= k:
                at = np.int64(parents[m, at])
            while following < counts[m] and starts[m, following] == k:
                parents[m, following] = at
                at = following
                following += 1
            hosts[m, k] = at


@entry_point(
    lambda: (
        *example_order()[:2],
        np.empty((1, 1)),
        np.empty(1, np.int64),
        np.empty((1, 1), np.int32),
        np.empty((1, 1), np.int32),
        np.empty(1),
        np.empty((1, 1)),
        np.empty((1, 1)),
    )
)
def prepare_inverse(slots, own, weights, counts, parents, hosts, diagonal, inverses, shares):
    """Prepare `add_inverse`: ``inverses`` of the diagonal by row, ``shares``, the sum of the inverse of each interval's matrix."""
    for m in range(parents.shape[0]):
        for v in range(counts[m]):
            shares[m, v] = 0.0
        for k in range(slots.shape[1]):
            inverses[m, k] = 1.0 / (own[m, k] + diagonal[slots[m, k]])
            shares[m, hosts[m, k]] += inverses[m, k]
        for v in range(counts[m] - 1, -1, -1):
            shares[m, v] /= 1.0 + weights[m, v] * shares[m, v]
            if parents[m, v] >= 0:
                shares[m, parents[m, v]] += shares[m, v]


@entry_point(
    lambda: (
        np.empty((1, 1), np.int32),
        np.empty((1, 1)),
        np.empty(1, np.int64),
        np.empty((1, 1), np.int32),
        np.empty((1, 1), np.int32),
        np.empty((1, 1)),
        np.empty((1, 1)),
        0,
        0,
        np.empty((1, 1)),
        np.empty((1, 1)),
        np.empty(1),
    )
)
def add_inverse(slots, weights, counts, parents, hosts, inverses, shares, first, last, b, out, passed):
    """Add the solutions of (K_m + diagonal) x = b, for the kernels K_m of trees ``first`` to ``last``, to ``out``.

    ``passed`` is scratch space.
    """
    for m in range(first, last):
        for c in range(b.shape[1]):
            for v in range(counts[m]):
                passed[v] = 0.0
            for k in range(slots.shape[1]):
                passed[hosts[m, k]] += b[slots[m, k], c] * inverses[m, k]
            for v in range(counts[m] - 1, -1, -1):
                passed[v] *= 1.0 - weights[m, v] * shares[m, v]
                if parents[m, v] >= 0:
                    passed[parents[m, v]] += passed[v]
            for v in range(counts[m]):
                above = passed[parents[m, v]] if parents[m, v] >= 0 else 0.0
                passed[v] = above + weights[m, v] * (passed[v] - above * shares[m, v])
            for k in range(slots.shape[1]):
                out[slots[m, k], c] += (b[slots[m, k], c] - passed[hosts[m, k]]) * inverses[m, k]
