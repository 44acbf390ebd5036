"""Queue of the pending cuts of a tree: a binary heap by time, in which each leaf knows its position.

Leaves whose pending time is infinite are not in it: no budget reaches them.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import always_inline, kernel


@always_inline
def set_entry(tree, position, time, cut, leaf):
    """Write one entry of the heap."""
    due = tree.queue[position]
    due.time = time
    due.cut = cut
    due.leaf = leaf
    tree.leaves[leaf].due = position


@kernel
def sift(tree, position, time, cut, leaf):
    """Move an entry up or down the heap from ``position``, which is free, to where it belongs."""
    queue = tree.queue
    n = tree.state[0].n_due
    while position > 0 and queue[(position - 1) >> 1].time > time:
        above = (position - 1) >> 1
        set_entry(tree, position, queue[above].time, np.int64(queue[above].cut), np.int64(queue[above].leaf))
        position = above
    while True:
        below = 2 * position + 1
        if below >= n:
            break
        if below + 1 < n and queue[below + 1].time < queue[below].time:
            below += 1
        if queue[below].time >= time:
            break
        set_entry(tree, position, queue[below].time, np.int64(queue[below].cut), np.int64(queue[below].leaf))
        position = below
    set_entry(tree, position, time, cut, leaf)


@kernel
def schedule(tree, time, cut, leaf):
    """Set the pending time of a leaf, whether or not it is in the queue."""
    position = np.int64(tree.leaves[leaf].due)
    if time == math.inf:
        unschedule(tree, leaf)
        return
    if position < 0:
        position = np.int64(tree.state[0].n_due)
        tree.state[0].n_due = position + 1
    sift(tree, position, time, cut, leaf)


@kernel
def unschedule(tree, leaf):
    """Take a leaf out of the queue, if it is in it."""
    position = np.int64(tree.leaves[leaf].due)
    if position < 0:
        return
    tree.leaves[leaf].due = -1
    last = np.int64(tree.state[0].n_due) - 1
    tree.state[0].n_due = last
    if position != last:
        due = tree.queue[last]
        sift(tree, position, due.time, np.int64(due.cut), np.int64(due.leaf))
