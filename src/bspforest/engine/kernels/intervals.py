"""Products with the kernel of a forest, whose nodes are intervals (docs/design.md, section 7).

Two rows are similar in a tree by the time at which it separates them: K(x, z) is the sum of the weights F(t_v) - F(t_parent) of the
nodes v that contain both, with F(t) = t / (t + bandwidth) and F = 1 for a leaf.

With the rows of a tree in the order of a walk from left to right, each node is an interval of them, its sum a difference of prefix
sums, and a product two passes over rows and nodes, without any walk. Leaves of one row are no intervals: their weight is kept with
the row. So n rows have at most n - 1 intervals.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import NOTHING, example_forest
from .jit import always_inline, entry_point, inline_source, kernel, prefetch
from .nodes import get_leaf, is_pending, view_tree

# Columns that are multiplied together, so that each is one lane of a vector register.
LANES = 4


@always_inline
def get_share(time, bandwidth):
    """Return F(time), the share of the similarity of two rows that is reached by then."""
    return time / (time + bandwidth) if time < math.inf else 1.0


def example_order():
    """Return examples of the arrays of ordered trees: slots, own, starts, ends, weights, counts."""
    slots, starts, ends = (np.empty((1, 1), np.int32) for _ in range(3))
    return slots, np.empty((1, 1)), starts, ends, np.empty((1, 1)), np.empty(1, np.int64)


@kernel
def list_leaf(tree, leaf, slots, n):
    """Append the points of a leaf to ``slots[n:]``; return how many there are then."""
    slot = tree.leaves[leaf].last
    for _ in range(tree.leaves[leaf].n_points):
        slot = tree.links[slot]
        slots[n] = slot
        n += 1
    return n


@entry_point(lambda: (example_forest(), 0, 0, 1.0, *example_order(), np.empty((1, 2), np.int64), np.empty(1)))
def order_trees(forest, first, last, bandwidth, slots, own, starts, ends, weights, counts, stack, shares):
    """List the rows of trees ``first`` to ``last`` from left to right, and their nodes, parents first, as intervals of them.

    Interval k of tree m goes from ``starts[m, k]`` to ``ends[m, k]`` and has the weight ``weights[m, k]``; there are ``counts[m]``.
    ``own`` is the weight of the leaf of a row that is alone in it, else 0. ``stack`` and ``shares`` are scratch space with room for
    one entry per cut.
    """
    for m in range(first, last):
        order_tree(forest, m, bandwidth, slots[m], own[m], starts[m], ends[m], weights[m], counts, stack, shares)


@kernel
def order_tree(forest, m, bandwidth, slots, own, starts, ends, weights, counts, stack, shares):
    """Do what `order_trees` does for tree m. A node on the stack comes with the interval that ends with it, or -1."""
    tree = view_tree(forest, m)
    counts[m] = 0
    ref = np.int64(tree.state[0].root)
    if ref == NOTHING:
        return
    n_rows = np.int64(0)
    n_intervals = np.int64(0)
    closes = np.int64(-1)
    share = 0.0  # F at the cut above
    top = np.int64(-1)
    while True:
        if ref >= 0 and not is_pending(tree, ref):
            node = tree.cuts[ref]
            if node.left >= 0:
                prefetch(tree.cuts, np.int64(node.left))
            if node.right >= 0:
                prefetch(tree.cuts, np.int64(node.right))
            starts[n_intervals] = n_rows
            if closes >= 0:
                ends[closes] = ~n_intervals
            below = get_share(node.time, bandwidth)
            weights[n_intervals] = below - share
            top += 1
            stack[top, 0] = node.right
            stack[top, 1] = n_intervals
            shares[top] = below
            ref, closes, share = np.int64(node.left), np.int64(-1), below
            n_intervals += 1
            continue
        first_row = n_rows
        n_rows = list_leaf(tree, get_leaf(tree, ref), slots, n_rows)
        alone = n_rows - first_row == 1
        for k in range(first_row, n_rows):
            own[k] = 1.0 - share if alone else 0.0
        if not alone:
            starts[n_intervals] = first_row
            ends[n_intervals] = n_rows
            weights[n_intervals] = 1.0 - share
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
    counts[m] = n_intervals


@entry_point(
    lambda: (*example_order(), 0, 0, np.empty((1, LANES)), np.empty((1, LANES)), np.empty((1, LANES)), np.empty((1, LANES)))
)
def add_products(slots, own, starts, ends, weights, counts, first, last, p, out, prefix, steps):
    """Add the products of trees ``first`` to ``last`` with the columns of ``p`` to ``out``, both by slot.

    ``p`` has one column, or a multiple of `LANES`. ``prefix`` and ``steps`` are scratch space for one row more than there are.
    """
    for m in range(first, last):
        if p.shape[1] == 1:
            add_product(slots[m], own[m], starts[m], ends[m], weights[m], counts[m], p, out, prefix, steps)
        else:
            for c in range(0, p.shape[1], LANES):
                add_product_lanes(slots[m], own[m], starts[m], ends[m], weights[m], counts[m], c, p, out, prefix, steps)


@inline_source
def add_product(slots, own, starts, ends, weights, n_intervals, p, out, prefix, steps):
    """Add the product of one tree with one column."""
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
def add_product_lanes(slots, own, starts, ends, weights, n_intervals, first, p, out, prefix, steps):
    """Add the product of one tree with `LANES` columns from ``first`` on."""
    n = slots.shape[0]
    for c in range(LANES):
        prefix[0, c] = 0.0
        steps[0, c] = 0.0
    for k in range(n):
        slot = slots[k]
        for c in range(LANES):
            prefix[k + 1, c] = prefix[k, c] + p[slot, first + c]
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
            out[slot, first + c] += steps[k, c] + weight * p[slot, first + c]


@entry_point(lambda: (example_forest(), 0, 0, 1.0, np.empty((1, 1, 1)), True, np.empty((1, 2), np.int64), np.empty((1, 1))))
def set_node_sums(forest, first, last, bandwidth, totals, set_sums, stack, paths):
    """Fill ``totals`` with what trees ``first`` to ``last`` predict in each leaf; if asked, their nodes with their sums of duals.

    A first walk sums the duals, children before parents; a second one adds up what each node says, from the root. ``stack`` and
    ``paths`` are scratch space with one entry more than there are cuts.
    """
    for m in range(first, last):
        tree = view_tree(forest, m)
        if set_sums:
            sum_subtrees(tree, stack)
        add_up_paths(tree, bandwidth, totals[m], stack, paths)


@kernel
def sum_subtrees(tree, stack):
    """Set the sums of duals of all cut nodes of a tree."""
    ref = np.int64(tree.state[0].root)
    if ref == NOTHING:
        return
    top = np.int64(-1)
    while True:
        while ref >= 0 and not is_pending(tree, ref):  # down to the left
            top += 1
            stack[top, 0] = ref
            stack[top, 1] = 0
            prefetch(tree.sums, ref)
            ref = np.int64(tree.cuts[ref].left)
        if ref >= 0:
            set_leaf_sums(tree, ref)
        while top >= 0 and stack[top, 1] == 1:  # both children are done
            ref = stack[top, 0]
            top -= 1
            node = tree.cuts[ref]
            for c in range(tree.sums.shape[1]):
                tree.sums[ref, c] = get_sum(tree, np.int64(node.left), c) + get_sum(tree, np.int64(node.right), c)
        if top < 0:
            break
        stack[top, 1] = 1
        ref = np.int64(tree.cuts[stack[top, 0]].right)


@always_inline
def get_sum(tree, ref, c):
    """Return the sum of duals of a node, in column c."""
    if ref >= 0:
        return tree.sums[ref, c]
    total = 0.0
    slot = tree.leaves[~ref].last
    for _ in range(tree.leaves[~ref].n_points):
        slot = tree.links[slot]
        total += tree.duals[slot, c]
    return total


@always_inline
def set_leaf_sums(tree, ref):
    """Set the sums of duals of a leaf with a pending cut."""
    for c in range(tree.sums.shape[1]):
        tree.sums[ref, c] = get_sum(tree, np.int64(tree.cuts[ref].left), c)


@kernel
def add_up_paths(tree, bandwidth, totals, stack, paths):
    """Fill ``totals`` with the sum over the path to each leaf of weight times sum of duals."""
    ref = np.int64(tree.state[0].root)
    if ref == NOTHING:
        return
    n_columns = tree.sums.shape[1]
    stack[0, 0] = ref
    stack[0, 1] = -1
    for c in range(n_columns):
        paths[0, c] = 0.0
    top = np.int64(0)
    while top >= 0:
        ref, above = stack[top, 0], stack[top, 1]
        share = get_share(tree.cuts[above].time, bandwidth) if above >= 0 else 0.0
        if ref < 0 or is_pending(tree, ref):
            k = get_leaf(tree, ref)
            for c in range(n_columns):
                totals[k, c] = paths[top, c] + (1.0 - share) * get_sum(tree, ~k, c)
            top -= 1
            continue
        node = tree.cuts[ref]
        weight = get_share(node.time, bandwidth) - share
        for c in range(n_columns):
            paths[top, c] += weight * tree.sums[ref, c]
            paths[top + 1, c] = paths[top, c]
        stack[top, 0], stack[top, 1] = np.int64(node.right), ref
        stack[top + 1, 0], stack[top + 1, 1] = np.int64(node.left), ref
        top += 1


@entry_point(lambda: (*example_order()[:4:2], *example_order()[3::2], 0, 0, 0, np.empty((1, 1, 2), np.int32), np.empty(1, np.int64)))
def find_hosts(slots, starts, ends, counts, first, last, least, hosts, stack):
    """Find the smallest node with at least ``least`` rows around each row of trees ``first`` to ``last``, or else the root.

    Writes its interval of the rows in order to ``hosts``, by slot. ``stack`` is scratch space, one entry per row.
    """
    n = slots.shape[1]
    for m in range(first, last):
        top = np.int64(-1)
        following = np.int64(0)
        for k in range(n):
            while top > 0 and ends[m, stack[top]] <= k:
                top -= 1
            while following < counts[m] and starts[m, following] == k:
                if top < 0 or ends[m, following] - k >= least:
                    top += 1
                    stack[top] = following
                following += 1
            hosts[m, slots[m, k], 0] = starts[m, stack[top]] if top >= 0 else 0
            hosts[m, slots[m, k], 1] = ends[m, stack[top]] if top >= 0 else n
