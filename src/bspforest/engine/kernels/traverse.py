"""Walking down trees, many at a time.

A walk alone waits for memory at every step: a large tree does not fit a cache, and each node is known only when its
parent has been read. Walks that take turns wait together. (Measured in 64 MB: 140 ns for a read that waits for the one
before, 8 ns for reads that do not.)

A walk also fetches the next node for its next turn, which then does not wait at all: learning one row with 100 trees 1.1 times
as fast, predicting, with sixteen walks instead of eight, 1.2 to 1.5 times. (Sixteen alone are no better; 32 hardly.)
"""

from __future__ import annotations

import numpy as np

from ..arrays import ISOTROPIC, NOTHING, PATH, READERS
from .jit import always_inline, inline_source, kernel, prefetch

# Further points of a leaf that are fetched. With one row more than these, a leaf of 3 is built afresh, by default.
RING = 2


@always_inline
def step_down(family, cuts, boxes, v, z):
    """The child of cut node ``v`` that ``z`` belongs to, read at its nearest place in the box of ``v`` (docs/design.md, section 6).

    In its own two dimensions this costs nothing: the bounds lie beside the cut. For a pending leaf, the leaf. All is read
    before anything is compared, so that choosing a child is no branch: half of those would be foreseen wrongly.
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
        total = node.a * x + node.b * y
    else:
        total = 0.0
        for k in range(z.shape[0]):
            x = min(z[k], np.float64(boxes[v, 1, k]))
            total += boxes[v, 2, k] * max(x, np.float64(boxes[v, 0, k]))
    return right if total > node.p else left


@kernel
def walk_rows(forest, m, rows, n, found, lanes):
    """The leaves of n rows in tree m, which holds points, into ``found``. ``lanes`` is scratch space, (2, READERS)."""
    family = forest.family
    cuts = forest.cuts[m]
    boxes = forest.boxes[m]
    root = np.int64(forest.state[m].root)
    if root < 0:
        for s in range(n):
            found[s] = ~root
        return
    active = min(n, READERS)
    for q in range(active):
        lanes[0, q] = q
        lanes[1, q] = root
    following = active
    while active > 0:
        q = 0
        while q < active:
            u = np.uint64(q)
            s = lanes[0, u]
            v = step_down(family, cuts, boxes, lanes[1, u], rows[np.uint64(s)])
            if v < 0:
                found[s] = ~v
                if following < n:
                    lanes[0, u] = following
                    v = root
                    following += 1
                else:  # the last lane moves here
                    active -= 1
                    lanes[0, u] = lanes[0, active]
                    lanes[1, u] = lanes[1, active]
                    continue
            else:
                prefetch(cuts, v)
            lanes[1, u] = v
            q += 1


@kernel
def walk_trees(forest, z, found):
    """The leaf of one row in every tree, into ``found``."""
    n_trees = forest.state.shape[0]
    for first in range(0, n_trees, READERS):
        last = min(n_trees, first + READERS)
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


@inline_source
def start_walks(forest, chunk, n, walks):
    """Set out with the rows that wait in the first n lanes of the chunk. How many have a way to go.

    Walk k is at node ``walks[0, k]``, for lane ``walks[1, k]``. Lane q has passed ``walks[2, q]`` nodes, and is at ``walks[3, q]``.
    """
    active = np.int64(0)
    for q in range(n):
        m, parent, side = chunk.lanes[0, q], chunk.lanes[2, q], chunk.lanes[3, q]
        v = np.int64(forest.state[m].root)
        if parent >= 0:
            v = np.int64(forest.cuts[m, parent].right if side == 1 else forest.cuts[m, parent].left)
        walks[2, q] = 0
        walks[3, q] = v
        if v >= 0:
            walks[0, active] = v
            walks[1, active] = q
            active += 1
    return active


@inline_source
def pass_node(forest, m, v, z):
    """The child of cut node ``v`` of tree m on the side of ``z``; for a pending leaf, the leaf. No branch, as in `step_down`."""
    node = forest.cuts[m, v]
    left = np.int64(node.left)
    right = np.int64(node.right)
    if forest.family == ISOTROPIC:
        height = 0.0
        for c in range(z.shape[0]):
            height += forest.boxes[m, v, 2, c] * z[c]
    else:
        height = node.a * z[np.uint64(node.i)] + node.b * z[np.uint64(node.j)]
    return right if height > node.p and right != NOTHING else left


@inline_source
def prefetch_points(forest, chunk, n, walks):
    """Fetch what is in the leaves that the walks have come to: labels, the newest point, and as many more as `RING`."""
    for q in range(n):
        m, leaf = chunk.lanes[0, q], walks[3, q]
        if leaf != NOTHING:
            prefetch(forest.values[m], ~leaf)
            walks[1, q] = forest.leaves[m, ~leaf].last
            prefetch(forest.rows, walks[1, q])
            prefetch(forest.links[m], walks[1, q])
    for _ in range(RING):
        for q in range(n):
            m = chunk.lanes[0, q]
            if walks[3, q] != NOTHING:
                walks[1, q] = forest.links[m, walks[1, q]]
                prefetch(forest.rows, walks[1, q])
                prefetch(forest.links[m], walks[1, q])


@kernel
def warm_up(forest, chunk, n, walks, paths):
    """Walk down with the rows that wait in the first n lanes of the chunk, so that inserting them finds its way in the cache.

    ``paths[q]`` are the first cut nodes on the way of lane q, ``walks[2, q]`` how many. A walk that has ended makes room for
    the last one: 0.33 µs a row and tree instead of 0.55 for asking each whether it has.
    """
    active = start_walks(forest, chunk, n, walks)
    while active > 0:
        k = np.int64(0)
        while k < active:
            v, q = np.uint64(walks[0, k]), np.uint64(walks[1, k])
            m = np.uint64(chunk.lanes[0, q])
            prefetch(forest.boxes[m], v)
            h = walks[2, q]
            if h < PATH:
                paths[q, h] = v
                walks[2, q] = h + 1
            following = pass_node(forest, m, v, chunk.rows[np.uint64(chunk.lanes[1, q])])
            walks[3, q] = following
            if following >= 0:
                prefetch(forest.cuts[m], following)
                walks[0, k] = following
                k += 1
            else:
                active -= 1
                walks[0, k] = walks[0, active]
                walks[1, k] = walks[1, active]
    prefetch_points(forest, chunk, n, walks)
