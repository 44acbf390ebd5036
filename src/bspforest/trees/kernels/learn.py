"""Insert rows into all trees of a forest and apply the cuts that are then due."""

from __future__ import annotations

import numpy as np

from ..layout import (
    LEFT,
    NOWHERE,
    WAITING_TREES,
    example_forest,
    example_scratch,
)
from .build import apply_due_cuts
from .insert import enqueue, insert_waiting
from .insert_chunk import insert_chunk
from .jit import entry_point
from .nodes import (
    has_room,
    scale_held_row,
    view_tree,
)


def example_arguments():
    """Return examples of arguments, for their types."""
    chunk = example_scratch()
    return example_forest(), example_scratch(), chunk, 0, 0, np.empty(1, np.int32), 0.0, np.empty(1, np.int64)


@entry_point(example_arguments)
def learn_row(forest, scratch, chunk, first, last, slots, budget, learned):
    """Insert one row into trees ``first`` to ``last``, walking down several at a time; into none, if one lacks room for it.

    (Python takes 5 µs to find that out for 100 trees.) Returns what `learn_chunk` does. A kernel of its own: a first row does not wait until
    the insertion of chunks is compiled.
    """
    for m in range(first, last):
        if learned[m] == 0 and not has_room(view_tree(forest, m), np.int64(1)):
            return np.int64(1)
    scale_held_row(view_tree(forest, first), slots[0], chunk.rows[0])
    chunk.slots[0] = slots[0]
    lacking = np.int64(0)
    for start in range(first, last, WAITING_TREES):
        end = min(start + WAITING_TREES, last)
        n = np.int64(0)
        for m in range(start, end):
            if learned[m] == 0:
                enqueue(chunk, n, m, np.int64(0), NOWHERE, LEFT, 0.0)
                learned[m] = 1
                n += 1
        insert_waiting(forest, scratch, chunk, n, budget)
        for m in range(start, end):
            # Tested here too: mostly no cut is due, and a call passes a tree and its scratch space, some 250 words.
            # (9 µs for 100 trees.)
            if forest.state[m].n_due > 0 and forest.queue[m, 0].time <= budget:
                lacking = max(lacking, apply_due_cuts(view_tree(forest, m), scratch, budget))
    return lacking


@entry_point(example_arguments)
def learn_chunk(forest, scratch, chunk, first, last, slots, budget, learned):
    """Insert the rows in ``slots`` into trees ``first`` to ``last``, and apply the cuts that are due at a budget.

    ``scratch`` must have room for the rows and ``min_split`` more, ``chunk`` for the rows; each tree for one cut and one
    leaf per row. ``learned`` is 1 for trees that have the rows.

    Returns 0 if all is done, else the number of points of a set for which a tree, or ``scratch``, lacks room: make room,
    and call again.
    """
    n = slots.shape[0]
    most_lacking = np.int64(0)
    for m in range(first, last):
        tree = view_tree(forest, m)
        if learned[m] == 0:
            for s in range(n):
                scale_held_row(tree, slots[s], chunk.rows[s])
                chunk.slots[s] = slots[s]
            insert_chunk(forest, m, tree, scratch, chunk, n, budget)
            learned[m] = 1
        most_lacking = max(most_lacking, apply_due_cuts(tree, scratch, budget))
    return most_lacking
