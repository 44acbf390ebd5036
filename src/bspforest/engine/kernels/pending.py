"""The queue of pending cuts of a tree: a binary heap by time, each leaf knowing its place in it.

Leaves that no growing budget can reach (pending time infinite) are not in it.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import always_inline, kernel


@always_inline
def put(tree, place, time, cut, leaf):
    due = tree.queue[place]
    due.time = time
    due.cut = cut
    due.leaf = leaf
    tree.leaves[leaf].due = place


@kernel
def settle(tree, place, time, cut, leaf):
    """Put an entry where it belongs, starting from ``place``, which is free."""
    queue = tree.queue
    n = tree.state[0].n_due
    while place > 0 and queue[(place - 1) >> 1].time > time:
        above = (place - 1) >> 1
        put(tree, place, queue[above].time, np.int64(queue[above].cut), np.int64(queue[above].leaf))
        place = above
    while True:
        below = 2 * place + 1
        if below >= n:
            break
        if below + 1 < n and queue[below + 1].time < queue[below].time:
            below += 1
        if queue[below].time >= time:
            break
        put(tree, place, queue[below].time, np.int64(queue[below].cut), np.int64(queue[below].leaf))
        place = below
    put(tree, place, time, cut, leaf)


@kernel
def schedule(tree, time, cut, leaf):
    """Set the pending time of a leaf, new or changed."""
    place = np.int64(tree.leaves[leaf].due)
    if time == math.inf or tree.redraw:
        unschedule(tree, leaf)
        return
    if place < 0:
        place = np.int64(tree.state[0].n_due)
        tree.state[0].n_due = place + 1
    settle(tree, place, time, cut, leaf)


@kernel
def unschedule(tree, leaf):
    """Take a leaf out of the queue, if it is in it."""
    place = np.int64(tree.leaves[leaf].due)
    if place < 0:
        return
    tree.leaves[leaf].due = -1
    last = np.int64(tree.state[0].n_due) - 1
    tree.state[0].n_due = last
    if place != last:
        due = tree.queue[last]
        settle(tree, place, due.time, np.int64(due.cut), np.int64(due.leaf))
