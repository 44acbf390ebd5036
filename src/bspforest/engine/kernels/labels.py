"""Label statistics of leaves: class weights, or weight, mean and sum of squares about the mean. Joint values have none."""

from __future__ import annotations

import math

from ..arrays import LABEL, LABEL_WEIGHT, MEAN, SQUARES, WEIGHT
from .jit import always_inline, kernel

# Statistics are counted afresh where subtracting a label would cancel: in leaves of up to RECOUNT_UP_TO points, where the
# label carried half of the weight, and where less than CANCELLED of the sum of squares would be left.
RECOUNT_UP_TO = 32
CANCELLED = 1e-6


@kernel
def add_label(tree, k, slot):
    """Add the label of a held row to the statistics of leaf ``k``."""
    y = tree.labels[slot, LABEL]
    w = tree.labels[slot, LABEL_WEIGHT]
    values = tree.values[k]
    if values.shape[0] == 0:
        return
    if tree.n_classes > 0:
        values[int(y)] += w
    elif w > 0.0:
        total = values[WEIGHT] + w
        gap = y - values[MEAN]
        mean = values[MEAN] + gap * (w / total)
        values[SQUARES] += w * gap * (y - mean)
        values[MEAN] = mean
        values[WEIGHT] = total


@always_inline
def count_labels(tree, k, about):
    """Count all labels of leaf ``k`` afresh. ``about`` is one of them: differences from it neither overflow nor cancel."""
    labels, links, values = tree.labels, tree.links, tree.values[k]
    if values.shape[0] == 0:
        return
    for c in range(values.shape[0]):
        values[c] = 0.0
    n = tree.leaves[k].n_points
    slot = tree.leaves[k].last
    if tree.n_classes > 0:
        for _ in range(n):
            slot = links[slot]
            values[int(labels[slot, LABEL])] += labels[slot, LABEL_WEIGHT]
        return
    weight = total = 0.0
    for _ in range(n):
        slot = links[slot]
        weight += labels[slot, LABEL_WEIGHT]
        total += (labels[slot, LABEL] - about) * labels[slot, LABEL_WEIGHT]
    if weight <= 0.0:
        return
    mean = about + total / weight
    squares = 0.0
    for _ in range(n):
        slot = links[slot]
        gap = labels[slot, LABEL] - mean
        squares += labels[slot, LABEL_WEIGHT] * gap * gap
    values[WEIGHT] = weight
    values[MEAN] = mean
    values[SQUARES] = squares


@always_inline
def recount_labels(tree, k):
    """Count all labels of leaf ``k`` afresh, about that of its newest point."""
    count_labels(tree, k, tree.labels[tree.leaves[k].last, LABEL])


@kernel
def remove_label(tree, k, slot):
    """Remove the label of a row that has left leaf ``k`` from its statistics."""
    y = tree.labels[slot, LABEL]
    w = tree.labels[slot, LABEL_WEIGHT]
    values = tree.values[k]
    if values.shape[0] == 0:
        return
    weight = values[int(y)] if tree.n_classes > 0 else values[WEIGHT]
    if tree.leaves[k].n_points <= RECOUNT_UP_TO or 2.0 * w >= weight:
        recount_labels(tree, k)
    elif tree.n_classes > 0:
        values[int(y)] -= w
    else:
        mean = values[MEAN] - (y - values[MEAN]) * (w / (weight - w))
        squares = values[SQUARES] - w * (y - values[MEAN]) * (y - mean)
        if not CANCELLED * values[SQUARES] <= squares < math.inf:
            recount_labels(tree, k)
            return
        values[SQUARES] = squares
        values[MEAN] = mean
        values[WEIGHT] = weight - w
