"""Read trees: the leaves of rows, the points of leaves, and the nodes of a tree."""

from __future__ import annotations

import numpy as np

from ..layout import NOTHING, example_forest, example_read_scratch, example_rows
from .jit import entry_point
from .nodes import scale_row
from .traverse import find_leaf_per_tree, find_leaves


@entry_point(lambda: (example_forest(), example_rows(), 0, 0, np.empty((1, 1), np.int64), *example_read_scratch()))
def find_all_leaves(forest, X, start, end, out, rows, found, walks):
    """Write the leaf of each row in each tree to ``out[row, tree]``. The trees hold points.

    ``rows``, ``found`` and ``walks`` are scratch space, as from `make_read_scratch`.
    """
    if end - start == 1:
        scale_row(X[start], forest.scaling, rows[0])
        find_leaf_per_tree(forest, rows[0], out[start])
        return
    for block in range(start, end, rows.shape[0]):
        n = min(rows.shape[0], end - block)
        for s in range(n):
            scale_row(X[block + s], forest.scaling, rows[s])
        for m in range(forest.state.shape[0]):
            find_leaves(forest, m, rows, n, found, walks)
            for s in range(n):
                out[block + s, m] = found[s]


@entry_point(
    lambda: (
        example_forest().leaves,
        example_forest().links,
        *(np.empty(1, np.int64) for _ in range(3)),
        np.empty(1, np.int32),
    )
)
def list_points(records, links, trees, leaves, starts, slots):
    """Write the slots of the points in ``leaves[k]`` of ``trees[k]`` to ``slots``, from ``starts[k]`` on, for all k.

    The first two arguments are a forest's.
    """
    for k in range(leaves.shape[0]):
        m = trees[k]
        slot = records[m, leaves[k]].last
        for at in range(starts[k], starts[k + 1]):
            slots[at] = slot
            slot = links[m, slot]


@entry_point(lambda: (example_forest().cuts[0], 0, *(np.empty(1, np.int64) for _ in range(3))))
def number_nodes(cuts, root, nodes, parents, depths):
    """Number the nodes of a tree breadth first from the root, left before right; return how many there are.

    Writes the nodes (for a leaf with a pending cut, the cut node), the numbers of their parents, and their depths.
    """
    if root == NOTHING:
        return 0
    n = 1
    nodes[0] = root
    parents[0] = -1
    depths[0] = 0
    done = 0
    while done < n:
        v = nodes[done]
        if v >= 0 and cuts[v].right != NOTHING:
            nodes[n] = cuts[v].left
            nodes[n + 1] = cuts[v].right
            for c in range(2):
                parents[n + c] = done
                depths[n + c] = depths[done] + 1
            n += 2
        done += 1
    return n
