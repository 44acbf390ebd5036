"""Nodes of a tree: their records, their sums of terms, and the rings of points in their leaves.

In all kernels ``ref`` is a node as in `bspforest.trees.layout`, ``v`` and ``w`` are cut nodes, ``k`` a leaf, ``z`` the
scaled coordinates of a row, ``t`` a time. A tree is passed as `TreeArrays`.
"""

from __future__ import annotations

import numpy as np

from ..layout import ISOTROPIC, NORMAL, NOTHING, SCALE, SHIFT, TreeArrays
from .cuts import lies_right
from .jit import always_inline, inline_source, kernel

# Larger scaled coordinates are read as FARTHEST, smaller ones than NEAREST as 0: boxes then fit float32, squares float64.
FARTHEST = 1e30
NEAREST = 1e-30


@always_inline
def view_tree(forest, m):
    """Return tree ``m`` of a forest, as views."""
    return view_tree_with(forest, m, forest.state[m : m + 1])


@always_inline
def view_tree_with(forest, m, state):
    """Return tree ``m`` of a forest, as views, with another state."""
    return TreeArrays(
        forest.family,
        forest.min_split,
        state,
        forest.cuts[m],
        forest.boxes[m],
        forest.sums[m],
        forest.leaves[m],
        forest.leaf_sums[m],
        forest.queue[m],
        forest.links[m],
        forest.rows,
        forest.terms,
        forest.scaling,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Rows


@always_inline
def scale_coordinate(x, shift, scale):
    """Return a scaled coordinate, within the range that boxes can hold."""
    z = (x - shift) * scale
    z = z if z < FARTHEST else FARTHEST
    z = z if z > -FARTHEST else -FARTHEST
    return z if abs(z) > NEAREST else 0.0


@always_inline
def scale_row(x, scaling, z):
    """Write the scaled coordinates of the row ``x`` to ``z``."""
    for k in range(z.shape[0]):
        z[k] = scale_coordinate(x[k], scaling[SHIFT, k], scaling[SCALE, k])


@always_inline
def scale_held_row(tree, slot, z):
    """Write the scaled coordinates of a held row to ``z``."""
    scale_row(tree.rows[slot], tree.scaling, z)


@always_inline
def goes_right(tree, v, z):
    """Return whether ``z`` lies right of the cut of node ``v``."""
    return lies_right(tree.family, tree.cuts[np.uint64(v)], get_normal(tree, v), z)


# ---------------------------------------------------------------------------------------------------------------------
# Records


@always_inline
def is_pending(tree, v):
    """Return whether cut node ``v`` is a leaf with a pending cut."""
    return tree.cuts[v].right == NOTHING


@always_inline
def get_leaf(tree, ref):
    """Return the leaf that node ``ref`` is, small or with a pending cut."""
    return ~np.int64(tree.cuts[ref].left) if ref >= 0 else ~ref


@inline_source
def get_normal(tree, v):
    """Return the normal of the cut of node ``v``. Without meaning, but there, unless cuts are isotropic."""
    return tree.boxes[np.uint64(v), -1]


@always_inline
def get_child(tree, parent, side):
    """Return the child of ``parent`` on a side; the root if ``parent`` is `NOWHERE`."""
    if parent < 0:
        return np.int64(tree.state[0].root)
    return np.int64(tree.cuts[parent].right if side == 1 else tree.cuts[parent].left)


@always_inline
def get_side(tree, parent, ref):
    """Return the side of ``parent`` on which its child ``ref`` is."""
    return np.int64(tree.cuts[parent].right == ref)


@always_inline
def attach(tree, parent, side, ref):
    """Make node ``ref`` the child of ``parent`` on a side, or the root if ``parent`` is `NOWHERE`."""
    if parent < 0:
        tree.state[0].root = ref
    elif side == 1:
        tree.cuts[parent].right = ref
    else:
        tree.cuts[parent].left = ref


@always_inline
def has_room(tree, n):
    """Return whether there is room for n more cuts and leaves."""
    state = tree.state[0]
    return state.n_cuts + n <= tree.cuts.shape[0] and state.n_leaves + n <= tree.leaves.shape[0]


@always_inline
def require(holds):
    """Raise if a tree lacks room that its caller has reserved, or a cut does not separate its points: points would be lost."""
    if not holds:
        raise AssertionError("a tree lacks room that was reserved, or a cut does not separate its points")


@always_inline
def allocate_cut(tree):
    """Return a free cut node, or -1 if there is no room."""
    state = tree.state[0]
    v = np.int64(state.free_cut)
    if v >= 0:
        state.free_cut = tree.cuts[v].left
        return v
    v = np.int64(state.n_cuts)
    if v >= tree.cuts.shape[0]:
        return np.int64(-1)
    state.n_cuts = v + 1
    return v


@always_inline
def free_cut(tree, v):
    """Put a cut node on the list of free ones. All that it tells of rows, which may be forgotten, is wiped."""
    node = tree.cuts[v]
    node.right = node.i = node.j = 0
    node.a = node.b = node.p = node.time = 0.0
    node.low_i = node.high_i = node.low_j = node.high_j = 0.0
    for c in range(tree.boxes.shape[1]):
        for k in range(tree.boxes.shape[2]):
            tree.boxes[v, c, k] = 0.0
    for c in range(tree.sums.shape[1]):
        tree.sums[v, c] = 0.0
    node.left = tree.state[0].free_cut
    tree.state[0].free_cut = v


@always_inline
def allocate_leaf(tree):
    """Return an empty leaf, or -1 if there is no room."""
    state = tree.state[0]
    k = np.int64(state.free_leaf)
    if k >= 0:
        state.free_leaf = tree.leaves[k].last
    else:
        k = np.int64(state.n_leaves)
        if k >= tree.leaves.shape[0]:
            return np.int64(-1)
        state.n_leaves = k + 1
    leaf = tree.leaves[k]
    leaf.n_points = 0
    leaf.last = -1
    leaf.due = -1
    for c in range(tree.leaf_sums.shape[1]):
        tree.leaf_sums[k, c] = 0.0
    return k


@always_inline
def free_leaf(tree, k):
    """Put a leaf on the list of free ones, without its sums, which tell of rows that may be forgotten."""
    for c in range(tree.leaf_sums.shape[1]):
        tree.leaf_sums[k, c] = 0.0
    tree.leaves[k].n_points = 0
    tree.leaves[k].due = -1
    tree.leaves[k].last = tree.state[0].free_leaf
    tree.state[0].free_leaf = k


@always_inline
def set_cut(tree, v, cut, normal, time):
    """Copy a cut to node ``v``."""
    node = tree.cuts[v]
    node.i = cut.i
    node.j = cut.j
    node.a = cut.a
    node.b = cut.b
    node.p = cut.p
    node.time = time
    if tree.family == ISOTROPIC:
        for k in range(normal.shape[0]):
            tree.boxes[v, NORMAL, k] = normal[k]


# ---------------------------------------------------------------------------------------------------------------------
# Sums of terms

# Sums over leaves are found again when a point leaves, rather than subtracted from, in leaves of up to so many points, and where less
# than this share of a sum would be left: subtracting cancels.
RECOUNT_UP_TO, CANCELLED = 32, 1e-6


@always_inline
def sum_rows(terms, slots, start, end, out):
    """Set ``out`` to the sum of the terms of the rows in ``slots[start:end]``."""
    for c in range(out.shape[0]):
        total = 0.0
        for s in range(start, end):
            total += terms[slots[s], c]
        out[c] = total


@always_inline
def copy_sums(tree, v, w):
    """Give cut node ``v`` the sums of node ``w``."""
    for c in range(tree.sums.shape[1]):
        tree.sums[v, c] = tree.sums[w, c]


@always_inline
def subtract_terms(terms, slot, out):
    """Take the terms of a row out of a sum. Return whether that cancels."""
    cancels = False
    for c in range(out.shape[0]):
        left = out[c] - terms[slot, c]
        cancels |= abs(left) < CANCELLED * abs(out[c])
        out[c] = left
    return cancels


@kernel
def sum_leaf(tree, k):
    """Set the sums of leaf ``k`` to those of its points."""
    out = tree.leaf_sums[k]
    for c in range(out.shape[0]):
        out[c] = 0.0
    slot = tree.leaves[k].last
    for _ in range(tree.leaves[k].n_points):
        slot = tree.links[slot]
        for c in range(out.shape[0]):
            out[c] += tree.terms[slot, c]


# ---------------------------------------------------------------------------------------------------------------------
# Rings of points


@always_inline
def append_point(tree, k, slot):
    """Add a held row to leaf ``k`` as its newest point."""
    leaf = tree.leaves[k]
    if leaf.n_points == 0:
        tree.links[slot] = slot
    else:
        tree.links[slot] = tree.links[leaf.last]
        tree.links[leaf.last] = slot
    leaf.last = slot
    leaf.n_points += 1
    for c in range(tree.leaf_sums.shape[1]):
        tree.leaf_sums[k, c] += tree.terms[slot, c]


@always_inline
def set_points(tree, k, slots, start, end):
    """Make the rows in ``slots[start:end]`` the points of leaf ``k``, oldest first."""
    last = slots[end - 1]
    tree.leaves[k].n_points = end - start
    tree.leaves[k].last = last
    for s in range(start, end):
        tree.links[last] = slots[s]
        last = slots[s]
    sum_rows(tree.terms, slots, start, end, tree.leaf_sums[k])


@kernel
def remove_point(tree, k, slot):
    """Remove a point from leaf ``k``. The oldest point is found at once."""
    leaf = tree.leaves[k]
    before = leaf.last
    for _ in range(leaf.n_points):
        if tree.links[before] == slot:
            break
        before = tree.links[before]
    tree.links[before] = tree.links[slot]
    if leaf.last == slot:
        leaf.last = before
    leaf.n_points -= 1
    if leaf.n_points <= RECOUNT_UP_TO or subtract_terms(tree.terms, slot, tree.leaf_sums[k]):
        sum_leaf(tree, k)


@always_inline
def join_rings(tree, k, other):
    """Move the points of leaf ``other`` to leaf ``k``: exchange what follows the last points."""
    last, other_last = tree.leaves[k].last, tree.leaves[other].last
    oldest = tree.links[last]
    tree.links[last] = tree.links[other_last]
    tree.links[other_last] = oldest
    tree.leaves[k].last = other_last
    tree.leaves[k].n_points += tree.leaves[other].n_points
    sum_leaf(tree, k)


@kernel
def load_points(tree, k, scratch, start):
    """Copy the points of leaf ``k``, oldest first, to ``scratch.rows[start:]`` and ``scratch.slots[start:]``."""
    slot = tree.leaves[k].last
    for s in range(start, start + tree.leaves[k].n_points):
        slot = tree.links[slot]
        scale_held_row(tree, slot, scratch.rows[s])
        scratch.slots[s] = slot
