"""Walk down trees, many walks at a time.

A walk alone waits for memory at every step: a large tree does not fit a cache, and a node is known only when its parent
has been read. Walks that take turns wait together. (Measured in 64 MB: 140 ns for a read that waits for the one before,
8 ns for reads that do not.)

A walk also prefetches the next node for its next turn, which then does not wait at all: learning one row with 100 trees
is 1.1 times as fast, predicting, with sixteen walks instead of eight, 1.2 to 1.5 times. (Sixteen walks without prefetching
are no faster than eight; 32 hardly faster than sixteen.)
"""

from __future__ import annotations

import numpy as np

from ..layout import HIGH, ISOTROPIC, LOW, MAX_KNOWN_DEPTH, NORMAL, NOTHING, PREDICTION_WALKS
from .cuts import is_right_at, lies_right
from .jit import always_inline, inline_source, kernel, prefetch

# Points of a leaf that are prefetched beside the newest.
PREFETCHED_POINTS = 2


# ---------------------------------------------------------------------------------------------------------------------
# Prediction


@always_inline
def step_down(family, cuts, boxes, v, z):
    """Return the child of cut node ``v`` for ``z``, read at its nearest place in the box of ``v`` (docs/design.md, section 6).

    For a leaf with a pending cut, return the leaf. In the two dimensions of a cut, clipping costs nothing: the bounds lie
    beside the cut. All is read before anything is compared, so that choosing a child is no branch: half of these would be
    mispredicted.
    """
    node = cuts[np.uint64(v)]
    left = np.int64(node.left)
    right = np.int64(node.right)
    if right == NOTHING:
        return left
    if family != ISOTROPIC:
        low_x, high_x = np.float64(node.low_i), np.float64(node.high_i)
        low_y, high_y = np.float64(node.low_j), np.float64(node.high_j)
        x = z[np.uint64(node.i)]
        y = z[np.uint64(node.j)]
        x = x if x < high_x else high_x
        y = y if y < high_y else high_y
        x = x if x > low_x else low_x
        y = y if y > low_y else low_y
        return right if is_right_at(node, x, y) else left
    height = 0.0
    own = boxes[np.uint64(v)]
    for k in range(z.shape[0]):
        x = min(z[k], np.float64(own[HIGH, k]))
        height += own[NORMAL, k] * max(x, np.float64(own[LOW, k]))
    return right if height > node.p else left


@kernel
def find_leaves(forest, m, rows, n, found, walks):
    """Write the leaves of the first n scaled rows in tree m, which holds points, to ``found``; ``walks`` is scratch space."""
    family = forest.family
    cuts = forest.cuts[m]
    boxes = forest.boxes[m]
    root = np.int64(forest.state[m].root)
    if root < 0:
        for s in range(n):
            found[s] = ~root
        return
    active = min(n, PREDICTION_WALKS)
    for k in range(active):
        walks[k].number = k
        walks[k].node = root
    following = active
    while active > 0:
        k = 0
        while k < active:
            walk = walks[np.uint64(k)]
            s = walk.number
            v = step_down(family, cuts, boxes, walk.node, rows[np.uint64(s)])
            if v < 0:
                found[s] = ~v
                if following < n:
                    walk.number = following
                    v = root
                    following += 1
                else:  # the last walk moves here
                    active -= 1
                    walk.number = walks[active].number
                    walk.node = walks[active].node
                    continue
            else:
                prefetch(cuts, v)
            walk.node = v
            k += 1


@kernel
def find_leaf_per_tree(forest, z, found):
    """Write the leaf of one scaled row in every tree to ``found``."""
    n_trees = forest.state.shape[0]
    for first in range(0, n_trees, PREDICTION_WALKS):
        last = min(n_trees, first + PREDICTION_WALKS)
        for m in range(first, last):
            found[m] = forest.state[m].root
        walking = True
        while walking:
            walking = False
            for m in range(first, last):
                if found[m] >= 0:
                    found[m] = step_down(forest.family, forest.cuts[m], forest.boxes[m], found[m], z)
                    if found[m] >= 0:
                        prefetch(forest.cuts[m], found[m])
                    walking = True
        for m in range(first, last):
            found[m] = ~found[m]


# ---------------------------------------------------------------------------------------------------------------------
# Insertion


@inline_source
def start_walks(forest, insertions, n, walks):
    """Start walks for the first n insertions; return how many have a cut node to pass. A walk has ``number``, its insertion."""
    active = np.int64(0)
    for q in range(n):
        insertion = insertions[q]
        m, parent = insertion.tree, insertion.parent
        v = np.int64(forest.state[m].root)
        if parent >= 0:
            v = np.int64(forest.cuts[m, parent].right if insertion.side == 1 else forest.cuts[m, parent].left)
        insertion.depth = 0
        insertion.node = v
        if v >= 0:
            walks[active].node = v
            walks[active].number = q
            active += 1
    return active


@inline_source
def pass_node(forest, m, v, z):
    """Return the child of cut node ``v`` of tree m on the side of ``z``; for a pending cut, the leaf. No branch: see `step_down`."""
    node = forest.cuts[m, v]
    left = np.int64(node.left)
    right = np.int64(node.right)
    return right if lies_right(forest.family, node, forest.boxes[m, v, -1], z) and right != NOTHING else left


@inline_source
def prefetch_points(forest, insertions, n):
    """Prefetch what is in the leaves reached: sums, the newest point, and `PREFETCHED_POINTS` more."""
    for q in range(n):
        insertion = insertions[q]
        m, leaf = insertion.tree, insertion.node
        if leaf != NOTHING:
            prefetch(forest.leaf_sums[m], ~leaf)
            insertion.slot = forest.leaves[m, ~leaf].last
            prefetch(forest.rows, insertion.slot)
            prefetch(forest.links[m], insertion.slot)
    for _ in range(PREFETCHED_POINTS):
        for q in range(n):
            insertion = insertions[q]
            m = insertion.tree
            if insertion.node != NOTHING:
                insertion.slot = forest.links[m, insertion.slot]
                prefetch(forest.rows, insertion.slot)
                prefetch(forest.links[m], insertion.slot)


@kernel
def prefetch_paths(forest, insertions, rows, n, walks, paths):
    """Walk down with the rows of the first n insertions, so that inserting them finds their paths in the cache.

    Sets ``depth`` of each insertion, the number of cut nodes on its path that are remembered in ``paths``. A walk that has
    ended makes room for the last one: 0.33 µs per row and tree instead of 0.55 for testing which have.
    """
    active = start_walks(forest, insertions, n, walks)
    while active > 0:
        k = np.int64(0)
        while k < active:
            walk = walks[np.uint64(k)]
            v, q = np.uint64(walk.node), np.uint64(walk.number)
            insertion = insertions[q]
            m = np.uint64(insertion.tree)
            depth = insertion.depth
            if depth < MAX_KNOWN_DEPTH:
                paths[q, depth] = v
                insertion.depth = depth + 1
            following = pass_node(forest, m, v, rows[np.uint64(insertion.row)])
            insertion.node = following
            prefetch(forest.boxes[m], v)
            if following >= 0:
                prefetch(forest.cuts[m], following)
                walk.node = following
                k += 1
            else:
                active -= 1
                walk.node = walks[active].node
                walk.number = walks[active].number
    prefetch_points(forest, insertions, n)
