"""Reading a forest: the leaf of a point, what the leaves of all trees say of it, and a tree as plain arrays."""

from __future__ import annotations

import numpy as np

from ._compile import entry, kernel
from ._layout import ISOTROPIC, NOTHING
from ._nodes import scale_row, tree_of

# Points that walk down a tree together. One alone waits for memory at every step: 8 at a time are twice as fast.
TOGETHER = 8


@kernel
def step_down(tree, v, z):
    """The child of cut node ``v`` that ``z`` belongs to, read at its nearest place in the box of ``v`` (section 6).

    In its own two dimensions this costs nothing: the bounds lie beside the cut.
    """
    node = tree.cuts[v]
    if node.right == NOTHING:
        return np.int64(node.left)
    if tree.family != ISOTROPIC:
        x = z[node.i]
        y = z[node.j]
        x = max(min(x, np.float64(node.high_i)), np.float64(node.low_i))
        y = max(min(y, np.float64(node.high_j)), np.float64(node.low_j))
        total = node.a * x + node.b * y
    else:
        total = 0.0
        own = tree.boxes[v]
        normal = tree.boxes[v, -1]
        for k in range(z.shape[0]):
            total += normal[k] * max(min(z[k], np.float64(own[1, k])), np.float64(own[0, k]))
    return np.int64(node.right if total > node.p else node.left)


@kernel
def find_leaves(tree, rows, start, end, found):
    """The leaf of each of up to `TOGETHER` rows, into ``found``."""
    n = end - start
    for q in range(n):
        found[q] = np.int64(tree.state[0].root)
    active = True
    while active:
        active = False
        for q in range(n):
            v = found[q]
            if v >= 0:
                found[q] = step_down(tree, v, rows[start + q])
                active = True
    for q in range(n):
        found[q] = ~found[q]


@kernel
def add_leaf(tree, k, hard, out):
    """Add what leaf ``k`` says to ``out``.

    Classes: its class frequencies, or a vote for its most frequent class; the last place counts trees. Regression:
    mean, variance, square of the mean, 1, with means about ``out[4]``, that of the first tree, so that squares do not
    cancel. A leaf without weight says nothing.
    """
    values = tree.values[k]
    if tree.n_classes == 0:
        if values[0] > 0.0:
            if out[3] == 0.0:
                out[4] = values[1]
            gap = values[1] - out[4]
            out[0] += gap
            out[1] += values[2] / values[0]
            out[2] += gap * gap
            out[3] += 1.0
        return
    total = 0.0
    best = 0
    for c in range(tree.n_classes):
        total += values[c]
        if values[c] > values[best]:
            best = c
    if total > 0.0:
        out[tree.n_classes] += 1.0
        if hard:
            out[best] += 1.0
        else:
            for c in range(tree.n_classes):
                out[c] += values[c] / total


@entry
def sum_leaves(forest, X, start, end, hard, out, rows, found):
    """Sum over the trees, for rows ``start`` to ``end`` of ``X``, what `add_leaf` says. The trees hold points.

    ``rows`` and ``found`` are scratch space, for some rows and for `TOGETHER` leaves.
    """
    for block in range(start, end, rows.shape[0]):
        n = min(rows.shape[0], end - block)
        for s in range(n):
            scale_row(X[block + s], forest.scaling, rows[s])
        for m in range(forest.state.shape[0]):
            tree = tree_of(forest, m)
            for s in range(0, n, TOGETHER):
                stop = min(n, s + TOGETHER)
                find_leaves(tree, rows, s, stop, found)
                for q in range(stop - s):
                    add_leaf(tree, found[q], hard, out[block + s + q])


@entry
def find_all_leaves(forest, X, start, end, out, rows, found):
    """The leaf of each row in each tree, into ``out[row, tree]``; ``rows`` and ``found`` are scratch space."""
    for s in range(start, end, TOGETHER):
        stop = min(end, s + TOGETHER)
        for q in range(stop - s):
            scale_row(X[s + q], forest.scaling, rows[q])
        for m in range(forest.state.shape[0]):
            find_leaves(tree_of(forest, m), rows, np.int64(0), stop - s, found)
            for q in range(stop - s):
                out[s + q, m] = found[q]


@entry
def list_points(forest, leaves, out_slots, out_shares, starts):
    """The points of one leaf in each tree of several rows: ``leaves[row, tree]``.

    Fills, from ``starts[row]`` on, the points and their shares of the leaf's weight. With empty ``out_slots`` it only counts:
    ``starts[row + 1]`` becomes the number of points of row ``row``.
    """
    count = out_slots.shape[0] == 0
    for s in range(leaves.shape[0]):
        n = 0
        at = starts[s]
        for m in range(leaves.shape[1]):
            leaf = forest.leaves[m, leaves[s, m]]
            if count:
                n += leaf.n_points
                continue
            slot = leaf.last
            total = 0.0
            for _ in range(leaf.n_points):
                total += forest.labels[slot, 1]
                slot = forest.links[m, slot]
            for _ in range(leaf.n_points):
                out_slots[at] = slot
                out_shares[at] = forest.labels[slot, 1] / total if total > 0.0 else 0.0
                at += 1
                slot = forest.links[m, slot]
        if count:
            starts[s + 1] = n


@entry
def number_nodes(forest, m, nodes, parents, depths):
    """Number the nodes of tree ``m`` from the root, parents first, left before right; how many there are.

    ``nodes`` receives their references (a pending leaf's is that of its cut), ``parents`` the numbers of their parents.
    """
    if forest.state[m].root == NOTHING:
        return 0
    n = 1
    nodes[0] = forest.state[m].root
    parents[0] = -1
    depths[0] = 0
    done = 0
    # Breadth first needs no stack: what is numbered but not yet done is the queue.
    while done < n:
        v = nodes[done]
        if v >= 0 and forest.cuts[m, v].right != NOTHING:
            nodes[n] = forest.cuts[m, v].left
            nodes[n + 1] = forest.cuts[m, v].right
            for c in range(2):
                parents[n + c] = done
                depths[n + c] = depths[done] + 1
            n += 2
        done += 1
    return n
