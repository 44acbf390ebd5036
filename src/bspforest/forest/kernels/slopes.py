"""Slopes of the label along features, from label-free cuts (docs/design.md, section 8).

Every cut is an experiment: how much do labels differ between its two sides, beyond what noise explains, and how far apart are they?
"""

from __future__ import annotations

import numpy as np

from ...trees.kernels.intervals import example_order
from ...trees.kernels.jit import always_inline, entry_point
from ...trees.kernels.nodes import scale_coordinate
from ...trees.layout import ISOTROPIC, NOTHING, SCALE, SHIFT, example_forest

# Nodes of fewer rows tell too little of their noise.
MIN_ROWS = 4

# Rows of a node that are looked at on each side of its cut, to see how far apart the sides are.
MAX_LOOKED_AT = 256


@always_inline
def find_middle(starts, ends, n, v):
    """Return where the second child of interval v starts: after the interval that is its first child, or after one row."""
    if v + 1 < n and starts[v + 1] == starts[v]:
        return ends[v + 1]
    return starts[v] + 1


@always_inline
def find_mean(forest, weights, slots, start, end, k):
    """Return the weighted mean of coordinate k of some rows; of evenly spaced ones, if there are many."""
    step = max(1, (end - start) // MAX_LOOKED_AT)
    total = 0.0
    weight = 0.0
    for s in range(start, end, step):
        slot = slots[s]
        z = scale_coordinate(forest.rows[slot, k], forest.scaling[SHIFT, k], forest.scaling[SCALE, k])
        total += weights[slot] * z
        weight += weights[slot]
    return total / weight if weight > 0.0 else 0.0


@always_inline
def find_distance(forest, weights, slots, start, middle, end, k):
    """Return the squared distance of the means of two parts along coordinate k."""
    gap = find_mean(forest, weights, slots, middle, end, k) - find_mean(forest, weights, slots, start, middle, k)
    return gap * gap


@entry_point(
    lambda: (
        example_forest(),
        example_order()[0],
        example_order()[2],
        example_order()[3],
        np.empty(1, np.int64),
        np.empty((1, 1), np.int32),
        0,
        0,
        0,
        np.empty((1, 1)),
        np.empty(1),
        np.empty((1, 1)),
        np.empty((1, 1, 1)),
        np.empty((1, 1)),
    )
)
def measure_cuts(forest, slots, starts, ends, counts, nodes, offset, first, last, y, w, excess, distances, prefix):
    """Compare both sides of each cut: by how much the squared difference of labels exceeds that of noise, and how far apart they are.

    Rows ``first`` to ``last`` of the arrays of ordered trees are those of the trees ``offset`` further; ``y`` and ``w`` are labels,
    centred, and weights by slot. For each interval, ``excess`` is (ab/m) |mean_right - mean_left|² of the labels less the variance
    within both parts, a and b being the weights of the parts, m = a + b; ``distances`` are (ab/m) times the squared distances of the
    means of the two coordinates of its cut, or of all coordinates if cuts are isotropic. All are 0 where there is nothing to be
    learned. ``prefix`` is scratch space: sums of 1, w, w |y|² and w y, for one row more than there are.
    """
    n_rows = slots.shape[1]
    k = y.shape[1]
    for m in range(first, last):
        tree_nodes = forest.cuts[offset + m]
        for c in range(k + 3):
            prefix[0, c] = 0.0
        for s in range(n_rows):
            slot = slots[m, s]
            squares = 0.0
            for c in range(k):
                prefix[s + 1, c + 3] = prefix[s, c + 3] + w[slot] * y[slot, c]
                squares += y[slot, c] * y[slot, c]
            prefix[s + 1, 0] = prefix[s, 0] + (1.0 if w[slot] > 0.0 else 0.0)
            prefix[s + 1, 1] = prefix[s, 1] + w[slot]
            prefix[s + 1, 2] = prefix[s, 2] + w[slot] * squares
        for v in range(counts[m]):
            excess[m, v] = 0.0
            for c in range(distances.shape[2]):
                distances[m, v, c] = 0.0
            start, end, ref = np.int64(starts[m, v]), np.int64(ends[m, v]), nodes[m, v]
            if ref < 0 or tree_nodes[ref].right == NOTHING:
                continue
            count = prefix[end, 0] - prefix[start, 0]
            if count < MIN_ROWS:
                continue
            middle = np.int64(find_middle(starts[m], ends[m], counts[m], v))
            left = prefix[middle, 1] - prefix[start, 1]
            right = prefix[end, 1] - prefix[middle, 1]
            if left <= 0.0 or right <= 0.0:
                continue
            between = 0.0
            within = prefix[end, 2] - prefix[start, 2]
            for c in range(3, k + 3):
                total_left = prefix[middle, c] - prefix[start, c]
                total_right = prefix[end, c] - prefix[middle, c]
                gap = total_right / right - total_left / left
                between += gap * gap
                within -= total_left * total_left / left + total_right * total_right / right
            share = left * right / (left + right)
            excess[m, v] = share * between - max(within, 0.0) / (count - 2.0)
            if forest.family == ISOTROPIC:
                for c in range(forest.rows.shape[1]):
                    distances[m, v, c] = share * find_distance(forest, w, slots[m], start, middle, end, c)
                continue
            i, j = np.int64(tree_nodes[ref].i), np.int64(tree_nodes[ref].j)
            distances[m, v, 0] = share * find_distance(forest, w, slots[m], start, middle, end, i)
            if i != j:
                distances[m, v, 1] = share * find_distance(forest, w, slots[m], start, middle, end, j)


@entry_point(lambda: (np.empty(1, np.int32), np.empty(1, np.int32), np.empty(1), np.empty(1), np.empty(1), 0, 1.0))
def solve_nonnegative(starts, columns, entries, b, solution, most_sweeps, tolerance):
    """Minimise x'Ax/2 - b'x over x >= 0 by coordinate descent, from ``solution`` on. A is in compressed rows, with a diagonal.

    Ends when no coordinate moves by more than ``tolerance`` times the largest one.
    """
    for _ in range(most_sweeps):
        moved = 0.0
        largest = 0.0
        for k in range(b.shape[0]):
            gradient = b[k]
            diagonal = 0.0
            for e in range(starts[k], starts[k + 1]):
                gradient -= entries[e] * solution[columns[e]]
                if columns[e] == k:
                    diagonal = entries[e]
            if diagonal <= 0.0:
                continue
            new = max(0.0, solution[k] + gradient / diagonal)
            moved = max(moved, abs(new - solution[k]))
            largest = max(largest, new)
            solution[k] = new
        if moved <= tolerance * largest:
            break
