"""Read trees as they were at an earlier budget: only cuts up to that time count."""

from __future__ import annotations

import numpy as np

from ...trees.kernels.intervals import get_share
from ...trees.kernels.jit import entry_point
from ...trees.kernels.nodes import get_leaf, scale_row, view_tree
from ...trees.kernels.traverse import step_down
from ...trees.layout import NOTHING, example_forest, example_rows
from .paths import add_leaf_value


@entry_point(lambda: (example_forest(), 0, 0, example_rows(), 1.0, np.empty((1, 1), np.int64), np.empty((1, 1))))
def find_nodes_at(forest, first, last, X, time, out, rows):
    """Write the node of each row at a time, in trees ``first`` to ``last``, which hold points, to ``out[row, tree - first]``.

    It is the node that the row reaches by cuts up to that time, read at its nearest place in each box. ``rows`` is scratch
    space for one row.
    """
    z = rows[0]
    for s in range(X.shape[0]):
        scale_row(X[s], forest.scaling, z)
        for m in range(first, last):
            ref = np.int64(forest.state[m].root)
            while ref >= 0 and forest.cuts[m, ref].right != NOTHING and forest.cuts[m, ref].time <= time:
                ref = step_down(forest.family, forest.cuts[m], forest.boxes[m], ref, z)
            out[s, m - first] = ref


@entry_point(lambda: (example_forest(), 0, 0, example_rows(), 1.0, 1.0, np.empty((1, 1)), np.empty((1, 1))))
def sum_paths_until(forest, first, last, X, bandwidth, time, out, rows):
    """Add what trees ``first`` to ``last`` say of the rows of ``X`` up to a time to ``out``; joint values only.

    The node that is alive at that time has the weight F(time) - F(t_parent), those above it F(t_v) - F(t_parent): at an
    infinite time this is the sum of `sum_paths`. ``rows`` is scratch space for one row.
    """
    z = rows[0]
    end = get_share(time, bandwidth)
    for s in range(X.shape[0]):
        scale_row(X[s], forest.scaling, z)
        for m in range(first, last):
            tree = view_tree(forest, m)
            ref = np.int64(forest.state[m].root)
            before = 0.0
            while ref >= 0 and tree.cuts[ref].right != NOTHING:
                own = min(get_share(tree.cuts[ref].time, bandwidth), end)
                for c in range(out.shape[1]):
                    out[s, c] += (own - before) * tree.sums[ref, c]
                before = own
                if tree.cuts[ref].time > time:
                    break
                ref = step_down(forest.family, tree.cuts, tree.boxes, ref, z)
            if before < end:
                add_leaf_value(tree, get_leaf(tree, ref), end - before, out[s])
