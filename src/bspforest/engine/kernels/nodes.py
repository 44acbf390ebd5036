"""Nodes of a tree: making and freeing them, their boxes, the rings of points and label statistics in their leaves."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import ISOTROPIC, NOTHING, TreeArrays
from .boxes import UNSURE, YES, ask_box, round_down, round_up
from .cuts import height
from .jit import always_inline, kernel, prefetch

# Scaled coordinates beyond this are read as this, and below NEAREST as 0, so that boxes fit float32 and squares float64.
FARTHEST = 1e30
NEAREST = 1e-30


@always_inline
def tree_of(forest, m):
    """TreeArrays ``m`` of the forest: views, nothing is copied."""
    return tree_with(forest, m, forest.state[m : m + 1])


@always_inline
def tree_with(forest, m, state):
    """TreeArrays ``m`` of the forest with its state elsewhere."""
    return TreeArrays(
        forest.family,
        forest.min_split,
        forest.redraw,
        forest.n_classes,
        state,
        forest.cuts[m],
        forest.boxes[m],
        forest.leaves[m],
        forest.values[m],
        forest.queue[m],
        forest.links[m],
        forest.rows,
        forest.labels,
        forest.scaling,
    )


@always_inline
def scaled(x, shift, scale):
    v = (x - shift) * scale
    v = v if v < FARTHEST else FARTHEST
    v = v if v > -FARTHEST else -FARTHEST
    return v if abs(v) > NEAREST else 0.0


@always_inline
def scale_row(x, scaling, z):
    """The scaled coordinates of ``x``, into ``z``."""
    for k in range(z.shape[0]):
        z[k] = scaled(x[k], scaling[0, k], scaling[1, k])


@always_inline
def height_of(tree, slot, cut, normal, z):
    """The `height` of a held row; ``z`` is scratch space. Most cuts need two of its coordinates only."""
    if tree.family == ISOTROPIC:
        place(tree, slot, z)
        return height(tree.family, cut, normal, z)
    i, j = cut.i, cut.j
    x = scaled(tree.rows[slot, i], tree.scaling[0, i], tree.scaling[1, i])
    y = scaled(tree.rows[slot, j], tree.scaling[0, j], tree.scaling[1, j])
    return cut.a * x + cut.b * y


@always_inline
def place(tree, slot, z):
    """The scaled coordinates of a held row, into ``z``."""
    scale_row(tree.rows[slot], tree.scaling, z)


@always_inline
def goes_right(tree, v, z):
    """Is ``z`` right of cut ``v``?"""
    return height(tree.family, tree.cuts[v], tree.boxes[v, -1], z) > tree.cuts[v].p


@always_inline
def leaf_of(tree, ref):
    """The leaf that node ``ref``, small or pending, is."""
    return ~np.int64(tree.cuts[ref].left) if ref >= 0 else ~ref


@always_inline
def is_pending(tree, v):
    """Is cut node ``v`` a leaf whose cut has not been carried out?"""
    return tree.cuts[v].right == NOTHING


# ---------------------------------------------------------------------------------------------------------------------
# Records


@always_inline
def new_cut(tree):
    """A free cut record, or -1 if there is no room."""
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
    tree.cuts[v].left = tree.state[0].free_cut
    tree.state[0].free_cut = v


@always_inline
def new_leaf(tree):
    """An empty leaf, or -1 if there is no room."""
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
    tree.leaves[k].last = tree.state[0].free_leaf
    tree.state[0].free_leaf = k


@always_inline
def child_of(tree, parent, side):
    """The node below ``parent`` on a side (0 left, 1 right); the root if ``parent`` is -1."""
    if parent < 0:
        return np.int64(tree.state[0].root)
    return np.int64(tree.cuts[parent].right if side == 1 else tree.cuts[parent].left)


@always_inline
def attach(tree, parent, side, ref):
    """Put node ``ref`` there."""
    if parent < 0:
        tree.state[0].root = ref
    elif side == 1:
        tree.cuts[parent].right = ref
    else:
        tree.cuts[parent].left = ref


@always_inline
def set_cut(tree, v, cut, normal, time):
    """Give record ``v`` a cut."""
    node = tree.cuts[v]
    node.i = cut.i
    node.j = cut.j
    node.a = cut.a
    node.b = cut.b
    node.p = cut.p
    node.time = time
    if tree.family == ISOTROPIC:
        for k in range(normal.shape[0]):
            tree.boxes[v, 2, k] = normal[k]


# ---------------------------------------------------------------------------------------------------------------------
# Boxes of nodes


@always_inline
def copy_bounds(cuts, boxes, v):
    """Repeat the box of ``v`` in its record, in the dimensions of the cut."""
    node = cuts[v]
    own = boxes[v]
    node.low_i = own[0, node.i]
    node.high_i = own[1, node.i]
    node.low_j = own[0, node.j]
    node.high_j = own[1, node.j]


@always_inline
def set_box(tree, v, box):
    """Give node ``v``, whose cut is set, the box of its points."""
    own = tree.boxes[v]
    for k in range(own.shape[1]):
        own[0, k] = round_down(box[0, k])
        own[1, k] = round_up(box[1, k])
    copy_bounds(tree.cuts, tree.boxes, v)


@kernel
def extend_box(cuts, boxes, v, low, high):
    """Make the box of ``v`` cover the box from ``low`` to ``high`` too. False if it did already."""
    own = boxes[v]
    inside = True
    for k in range(own.shape[1]):
        inside &= (own[0, k] <= low[k]) & (high[k] <= own[1, k])
    if inside:
        return False
    for k in range(own.shape[1]):
        own[0, k] = min(own[0, k], round_down(low[k]))
        own[1, k] = max(own[1, k], round_up(high[k]))
    copy_bounds(cuts, boxes, v)
    return True


@always_inline
def copy_box(tree, v, w):
    """Give node ``v`` the box of node ``w``."""
    for k in range(tree.boxes.shape[2]):
        tree.boxes[v, 0, k] = tree.boxes[w, 0, k]
        tree.boxes[v, 1, k] = tree.boxes[w, 1, k]


@always_inline
def join_children(tree, v, z):
    """Give node ``v`` the box of its children, leaves or nodes; ``z`` is scratch space."""
    own = tree.boxes[v]
    for side in range(2):
        ref = child_of(tree, v, side)
        if side == 0 and ref >= 0:
            copy_box(tree, v, ref)
            continue
        if side == 0:
            for k in range(own.shape[1]):
                own[0, k] = math.inf
                own[1, k] = -math.inf
        if ref >= 0:
            box = tree.boxes[ref]
            for k in range(own.shape[1]):
                own[0, k] = min(own[0, k], box[0, k])
                own[1, k] = max(own[1, k], box[1, k])
            continue
        slot = tree.leaves[~ref].last
        for _ in range(tree.leaves[~ref].n_points):
            place(tree, slot, z)
            for k in range(own.shape[1]):
                own[0, k] = min(own[0, k], round_down(z[k]))
                own[1, k] = max(own[1, k], round_up(z[k]))
            slot = tree.links[slot]
    copy_bounds(tree.cuts, tree.boxes, v)


@always_inline
def any_beyond(tree, work, v, cut, normal, right):
    """Has cut node ``v`` a point right (or else left) of the cut? Mostly its box knows (docs/design.md, section 3)."""
    answer = ask_box(tree.family, tree.boxes[v], cut, normal, right)
    return search_beyond(tree, work, v, cut, normal, right) if answer == UNSURE else answer == YES


@kernel
def search_beyond(tree, work, ref, cut, normal, right):
    """As `any_beyond`, for a small leaf or a node whose box is unsure: ask both children's boxes, then theirs, then points.

    A child is fetched while its box is asked: one row a call 1.05 times as fast.
    """
    stack = work.ask
    stack[0] = ref
    top = 0
    z = work.point[2]
    while top >= 0:
        v = stack[top]
        top -= 1
        if v >= 0:
            if tree.cuts[v].right != NOTHING:
                for side in range(2):
                    w = np.int64(tree.cuts[v].right if side == 1 else tree.cuts[v].left)
                    if w >= 0:
                        prefetch(tree.cuts, w)
                    else:
                        prefetch(tree.leaves, ~w)
                    answer = ask_box(tree.family, tree.boxes[w], cut, normal, right) if w >= 0 else UNSURE
                    if answer == YES:
                        return True
                    if answer == UNSURE:
                        top += 1
                        stack[top] = w
                continue
            v = np.int64(tree.cuts[v].left)
        slot = tree.leaves[~v].last
        for _ in range(tree.leaves[~v].n_points):
            if (height_of(tree, slot, cut, normal, z) > cut.p) == right:
                return True
            slot = tree.links[slot]
    return False


# ---------------------------------------------------------------------------------------------------------------------
# Points and labels of a leaf


@kernel
def add_label(tree, k, slot):
    """Count the label of a held row in leaf ``k``."""
    y = tree.labels[slot, 0]
    w = tree.labels[slot, 1]
    values = tree.values[k]
    if tree.n_classes > 0:
        values[int(y)] += w
    elif w > 0.0:
        total = values[0] + w
        gap = y - values[1]
        mean = values[1] + gap * (w / total)
        values[2] += w * gap * (y - mean)
        values[1] = mean
        values[0] = total


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
def count_labels(tree, k, slots, start, end):
    """Count the labels of the rows in ``slots[start:end]``, all that leaf ``k`` has."""
    values = tree.values[k]
    for c in range(values.shape[0]):
        values[c] = 0.0
    if tree.n_classes > 0:
        for s in range(start, end):
            values[int(tree.labels[slots[s], 0])] += tree.labels[slots[s], 1]
        return
    weight = total = 0.0
    about = tree.labels[slots[start], 0]  # differences from one label neither overflow nor cancel
    for s in range(start, end):
        weight += tree.labels[slots[s], 1]
        total += (tree.labels[slots[s], 0] - about) * tree.labels[slots[s], 1]
    if weight <= 0.0:
        return
    mean = about + total / weight
    squares = 0.0
    for s in range(start, end):
        gap = tree.labels[slots[s], 0] - mean
        squares += tree.labels[slots[s], 1] * gap * gap
    values[0] = weight
    values[1] = mean
    values[2] = squares


@always_inline
def recount(tree, k):
    """Count all labels of leaf ``k`` afresh."""
    values = tree.values[k]
    for c in range(values.shape[0]):
        values[c] = 0.0
    n = tree.leaves[k].n_points
    slot = tree.leaves[k].last
    if tree.n_classes > 0:
        for _ in range(n):
            slot = tree.links[slot]
            values[int(tree.labels[slot, 0])] += tree.labels[slot, 1]
        return
    weight = total = 0.0
    about = tree.labels[slot, 0]  # differences from one label neither overflow nor cancel
    for _ in range(n):
        slot = tree.links[slot]
        weight += tree.labels[slot, 1]
        total += (tree.labels[slot, 0] - about) * tree.labels[slot, 1]
    if weight <= 0.0:
        return
    mean = about + total / weight
    squares = 0.0
    for _ in range(n):
        slot = tree.links[slot]
        gap = tree.labels[slot, 0] - mean
        squares += tree.labels[slot, 1] * gap * gap
    values[0] = weight
    values[1] = mean
    values[2] = squares


@kernel
def load_points(tree, k, work, start):
    """Copy the points of leaf ``k``, oldest first, to ``work.rows[start:]`` and ``work.slots[start:]``."""
    slot = tree.leaves[k].last
    for s in range(start, start + tree.leaves[k].n_points):
        slot = tree.links[slot]
        place(tree, slot, work.rows[s])
        work.slots[s] = slot
