"""Walking down trees, many at a time.

A walk alone waits for memory at every step: a large tree does not fit a cache, and each node is known only when its
parent has been read. Walks that take turns wait together: eight at a time are three times as fast.
"""

from __future__ import annotations

import numpy as np

from ._compile import inlined, kernel
from ._layout import ISOTROPIC, LANES, NOTHING


@inlined
def step_down(family, cuts, boxes, v, z):
    """The child of cut node ``v`` that ``z`` belongs to, read at its nearest place in the box of ``v`` (section 6).

    In its own two dimensions this costs nothing: the bounds lie beside the cut. For a pending leaf, the leaf.
    """
    node = cuts[v]
    if node.right == NOTHING:
        return np.int64(node.left)
    if family != ISOTROPIC:
        x = z[node.i]
        y = z[node.j]
        x = x if x < node.high_i else np.float64(node.high_i)
        y = y if y < node.high_j else np.float64(node.high_j)
        x = x if x > node.low_i else np.float64(node.low_i)
        y = y if y > node.low_j else np.float64(node.low_j)
        total = node.a * x + node.b * y
    else:
        total = 0.0
        for k in range(z.shape[0]):
            x = min(z[k], np.float64(boxes[v, 1, k]))
            total += boxes[v, 2, k] * max(x, np.float64(boxes[v, 0, k]))
    return np.int64(node.right if total > node.p else node.left)


@kernel
def walk_down(forest, m, m_step, rows, row_step, n, found, lanes):
    """The leaves that n walks end in, into ``found``. Walk s is that of row s * row_step in tree m + s * m_step.

    ``lanes`` is scratch space of shape (2, LANES). The trees hold points.
    """
    active = min(n, LANES)
    for q in range(active):
        lanes[0, q] = q
        lanes[1, q] = forest.state[m + q * m_step].root
    following = active
    while active > 0:
        q = 0
        while q < active:
            s = lanes[0, q]
            v = lanes[1, q]
            tree = m + s * m_step
            if v >= 0:
                v = step_down(forest.family, forest.cuts[tree], forest.boxes[tree], v, rows[s * row_step])
                lanes[1, q] = v
            if v < 0:
                found[s] = ~v
                if following < n:
                    lanes[0, q] = following
                    lanes[1, q] = forest.state[m + following * m_step].root
                    following += 1
                else:
                    active -= 1
                    lanes[0, q] = lanes[0, active]
                    lanes[1, q] = lanes[1, active]
                    continue
            q += 1


@kernel
def warm_up(forest, m, m_step, rows, row_step, n, lanes, sink):
    """Read what inserting up to `LANES` points will read, so that they wait for memory together.

    Point q, ``rows[q * row_step]``, starts at node ``lanes[0, q]`` of tree m + q * m_step.
    """
    total = 0.0
    walking = True
    while walking:
        walking = False
        for q in range(n):
            v = lanes[0, q]
            if v < 0:
                continue
            walking = True
            tree = m + q * m_step
            z = rows[q * row_step]
            node = forest.cuts[tree, v]
            total += forest.boxes[tree, v, 0, 0]
            if node.right == NOTHING:
                lanes[0, q] = node.left
                continue
            if forest.family == ISOTROPIC:
                height = 0.0
                for k in range(z.shape[0]):
                    height += forest.boxes[tree, v, 2, k] * z[k]
            else:
                height = node.a * z[node.i] + node.b * z[node.j]
            lanes[0, q] = node.right if height > node.p else node.left
    for q in range(n):
        if lanes[0, q] != NOTHING:
            leaf = forest.leaves[m + q * m_step, ~lanes[0, q]]
            total += forest.values[m + q * m_step, ~lanes[0, q], 0]
            lanes[1, q] = leaf.last
    for q in range(n):
        if lanes[0, q] != NOTHING:
            total += forest.rows[lanes[1, q], 0] + forest.links[m + q * m_step, lanes[1, q]]
    sink[0] = total  # so that the reads are not dropped as useless
