"""Nodes of a tree: their records, their sums, and the rings of points in their leaves.

In all kernels ``ref`` is a node as in `bspforest.engine.arrays`, ``v`` and ``w`` are cut nodes, ``k`` a leaf, ``z`` the
scaled coordinates of a row, ``t`` a time. A tree is passed as `TreeArrays`.
"""

from __future__ import annotations

import numpy as np

from ..arrays import HIGH, ISOTROPIC, LOW, NORMAL, NOTHING, SCALE, SHIFT, TreeArrays
from .cuts import lies_right
from .jit import always_inline, inline_source, kernel
from .labels import add_label

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
        forest.redraw,
        forest.n_classes,
        forest.box_from,
        state,
        forest.cuts[m],
        forest.boxes[m],
        forest.leaves[m],
        forest.values[m],
        forest.queue[m],
        forest.links[m],
        forest.sums[m],
        forest.rows,
        forest.labels,
        forest.duals,
        forest.residuals,
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
    return tree.boxes[max(np.int64(tree.cuts[np.uint64(v)].box), 0), -1]


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
    """Return whether there is room for n more cuts, boxes and leaves."""
    state = tree.state[0]
    return (
        state.n_cuts + n <= tree.cuts.shape[0]
        and state.n_boxes + n <= tree.boxes.shape[0]
        and state.n_leaves + n <= tree.leaves.shape[0]
    )


@always_inline
def require(has_room):
    """Raise if a tree lacks room that its caller has reserved: the tree would otherwise lose points silently."""
    if not has_room:
        raise AssertionError("a tree lacks room that was reserved")


@always_inline
def allocate_cut(tree):
    """Return a free cut record, which has neither box nor points, or -1 if there is no room."""
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
    """Put a cut record on the list of free ones, and its box, if it has one, on that of free boxes.

    What it tells of rows, which may be forgotten, is wiped.
    """
    node = tree.cuts[v]
    node.low_i = node.high_i = node.low_j = node.high_j = 0.0
    if node.box >= 0:
        for c in range(tree.boxes.shape[1]):
            for k in range(tree.boxes.shape[2]):
                tree.boxes[node.box, c, k] = 0.0
        set_next_box(tree.boxes, node.box, np.int64(tree.state[0].free_box))
        tree.state[0].free_box = node.box
    node.box = -1
    node.left = tree.state[0].free_cut
    tree.state[0].free_cut = v


@always_inline
def get_next_box(boxes, box):
    """Return the free box after a free one; -1 if it is the last.

    The number is kept in the box itself, plus 1 and in two halves: integers of 16 bits are exact in float32.
    """
    return np.int64(boxes[box, LOW, 0]) + 65_536 * np.int64(boxes[box, HIGH, 0]) - 1


@always_inline
def set_next_box(boxes, box, following):
    """Set the free box after a free one."""
    boxes[box, LOW, 0] = (following + 1) % 65_536
    boxes[box, HIGH, 0] = (following + 1) // 65_536


@always_inline
def assign_box(tree, v, n):
    """Give cut node ``v`` a box if its n points are enough for one. Return False if there is no room."""
    if n < tree.box_from:
        tree.cuts[v].box = ~n
        return True
    state = tree.state[0]
    box = np.int64(state.free_box)
    if box >= 0:
        state.free_box = get_next_box(tree.boxes, box)
    else:
        box = np.int64(state.n_boxes)
        if box >= tree.boxes.shape[0]:
            return False
        state.n_boxes = box + 1
    tree.cuts[v].box = box
    return True


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
    for c in range(tree.values.shape[1]):
        tree.values[k, c] = 0.0
    return k


@always_inline
def free_leaf(tree, k):
    """Put a leaf on the list of free ones, without its statistics, which tell of rows that may be forgotten."""
    for c in range(tree.values.shape[1]):
        tree.values[k, c] = 0.0
    tree.leaves[k].last = tree.state[0].free_leaf
    tree.state[0].free_leaf = k


@always_inline
def set_cut(tree, v, cut, normal, time):
    """Copy a cut to node ``v``. Isotropic cuts have a box."""
    node = tree.cuts[v]
    node.i = cut.i
    node.j = cut.j
    node.a = cut.a
    node.b = cut.b
    node.p = cut.p
    node.time = time
    if tree.family == ISOTROPIC:
        for k in range(normal.shape[0]):
            tree.boxes[node.box, NORMAL, k] = normal[k]


# ---------------------------------------------------------------------------------------------------------------------
# Sums of duals


@always_inline
def sum_duals(tree, v, slots, start, end):
    """Set the sum of the duals of node ``v`` to that of the rows in ``slots[start:end]``."""
    for c in range(tree.sums.shape[1]):
        total = 0.0
        for s in range(start, end):
            total += tree.duals[slots[s], c]
        tree.sums[v, c] = total


@always_inline
def copy_sums(tree, v, w):
    """Give node ``v`` the sums of node ``w``."""
    for c in range(tree.sums.shape[1]):
        tree.sums[v, c] = tree.sums[w, c]


@always_inline
def subtract_dual(tree, v, slot):
    """Take the duals of a row out of the sums of node ``v``."""
    for c in range(tree.sums.shape[1]):
        tree.sums[v, c] -= tree.duals[slot, c]


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
    add_label(tree, k, slot)


@always_inline
def set_points(tree, k, slots, start, end):
    """Make the rows in ``slots[start:end]`` the points of leaf ``k``, oldest first, without their labels."""
    last = slots[end - 1]
    tree.leaves[k].n_points = end - start
    tree.leaves[k].last = last
    for s in range(start, end):
        tree.links[last] = slots[s]
        last = slots[s]


@kernel
def remove_point(tree, k, slot):
    """Remove a point from the ring of leaf ``k``, but not its label. The oldest point is found at once."""
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


@always_inline
def join_rings(tree, k, other):
    """Move the points of leaf ``other`` to leaf ``k``, but not their labels: exchange what follows the last points."""
    last, other_last = tree.leaves[k].last, tree.leaves[other].last
    oldest = tree.links[last]
    tree.links[last] = tree.links[other_last]
    tree.links[other_last] = oldest
    tree.leaves[k].last = other_last
    tree.leaves[k].n_points += tree.leaves[other].n_points


@kernel
def load_points(tree, k, scratch, start):
    """Copy the points of leaf ``k``, oldest first, to ``scratch.rows[start:]`` and ``scratch.slots[start:]``."""
    slot = tree.leaves[k].last
    for s in range(start, start + tree.leaves[k].n_points):
        slot = tree.links[slot]
        scale_held_row(tree, slot, scratch.rows[s])
        scratch.slots[s] = slot
