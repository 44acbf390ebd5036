"""Insert rows into all trees of a forest and apply the cuts that are then due."""

from __future__ import annotations

import numpy as np

from ..arrays import (
    LEFT,
    NOWHERE,
    WAITING_TREES,
    example_forest,
    example_scratch,
)
from .build import apply_due_cuts
from .insert import enqueue, insert_waiting
from .insert_chunk import insert_chunk
from .jit import entry_point, inline_source
from .nodes import (
    has_room,
    scale_held_row,
    view_tree,
)


@inline_source
def learn_row(forest, scratch, chunk, first, last, slot, budget, learned):
    """Insert one row into trees ``first`` to ``last``, walking down several at a time; into none, if one lacks room for it.

    (Python takes 5 µs to find that out for 100 trees.)
    """
    for m in range(first, last):
        if not has_room(view_tree(forest, m), 1):
            return np.int64(1)
    scale_held_row(view_tree(forest, first), slot, chunk.rows[0])
    chunk.slots[0] = slot
    lacking = np.int64(0)
    for start in range(first, last, WAITING_TREES):
        end = min(start + WAITING_TREES, last)
        n = np.int64(0)
        for m in range(start, end):
            if learned[m] == 0:
                enqueue(chunk, n, m, np.int64(0), NOWHERE, LEFT, 0.0)
                n += 1
        lacking = max(lacking, insert_waiting(forest, scratch, chunk, n, budget))
        for q in range(n):
            if chunk.insertions[q].lacking == 0:
                learned[chunk.insertions[q].tree] = 1
        for m in range(start, end):
            # Tested here too: mostly no cut is due, and a call passes a tree and its scratch space, some 250 words.
            # (9 µs for 100 trees.)
            if learned[m] == 1 and forest.state[m].n_due > 0 and forest.queue[m, 0].time <= budget:
                lacking = max(lacking, apply_due_cuts(view_tree(forest, m), scratch, budget))
    return lacking


@entry_point(
    lambda: (
        example_forest(),
        example_scratch(),
        example_scratch(),
        0,
        0,
        np.empty(1, np.int32),
        np.empty(1),
        np.empty(1, np.int64),
    )
)
def learn_rows(forest, scratch, chunk, first, last, slots, budgets, learned):
    """Insert the rows in ``slots`` into trees ``first`` to ``last``, with the budget after each row in ``budgets``.

    ``scratch`` must have room for the rows and ``min_split`` more, ``chunk`` for the rows; each tree for one cut and one
    leaf per row, if there are several rows. ``learned`` counts the rows each tree has learned.

    Returns 0 if all is done, else the number of points of a set for which a tree, or ``scratch``, lacks room: make room,
    and call again.
    """
    n = slots.shape[0]
    if n == 1:
        return learn_row(forest, scratch, chunk, first, last, slots[0], budgets[0], learned)
    most_lacking = np.int64(0)
    for m in range(first, last):
        tree = view_tree(forest, m)
        at_once = 1 if tree.redraw else n
        lacking = np.int64(0)
        while learned[m] < n and lacking == 0:
            for s in range(at_once):
                scale_held_row(tree, slots[learned[m] + s], chunk.rows[s])
                chunk.slots[s] = slots[learned[m] + s]
            budget = budgets[learned[m] + at_once - 1]
            lacking = insert_chunk(forest, m, tree, scratch, chunk, at_once, budget)
            if lacking == 0:
                learned[m] += at_once
        if lacking == 0:
            lacking = apply_due_cuts(tree, scratch, budgets[n - 1])
        most_lacking = max(most_lacking, lacking)
    return most_lacking
