"""Bounding boxes, and what they tell about the side of a cut their points are on (docs/design.md, section 3)."""

from __future__ import annotations

import numpy as np

from ..layout import HIGH, ISOTROPIC, LOW
from .jit import always_inline, bound_eight, bound_four, kernel

# Boxes of nodes are float32, rounded outwards: half the memory and memory traffic of float64. They are used only where
# any enclosing box is exact, or with BOX_MARGIN. OUTWARDS is one step of float32, added without a branch so that loops
# vectorise (rounding with a branch took a quarter of the time of building). Coordinates are never subnormal in float32.
OUTWARDS = 1.2e-7
BOX_MARGIN = 5e-7

# Answers of `ask_box`.
YES, NO, UNSURE = 1, 0, -1


@always_inline
def round_down(z):
    """Round to float32, downwards."""
    return np.float32(z - abs(z) * OUTWARDS)


@always_inline
def round_up(z):
    """Round to float32, upwards."""
    return np.float32(z + abs(z) * OUTWARDS)


@kernel
def bound_rows(rows, start, end, box):
    """Compute the bounding box of ``rows[start:end]``, eight columns at a time in vector registers."""
    d = np.uint64(rows.shape[1])
    column = np.uint64(0)
    start, end = np.uint64(start), np.uint64(end)
    one, four, eight = np.uint64(1), np.uint64(4), np.uint64(8)
    while column + eight <= d:
        bound_eight(rows, start, end, column, box)
        column += eight
    if column + four <= d:
        bound_four(rows, start, end, column, box)
        column += four
    while column < d:
        low = high = rows[start, column]
        for s in range(start + one, end):
            z = rows[s, column]
            low = z if z < low else low
            high = z if z > high else high
        box[LOW, column] = low
        box[HIGH, column] = high
        column += one


@always_inline
def ask_box(family, own, cut, normal, right):
    """Return whether a set with the bounding box ``own`` has a point on one side of a cut: `YES`, `NO` or `UNSURE`.

    Every face of the box touches a point, so a whole edge on that side means yes.
    """
    if family == ISOTROPIC:
        low = high = widest = size = 0.0
        for k in range(own.shape[1]):
            x = np.float64(normal[k]) * own[LOW, k]
            y = np.float64(normal[k]) * own[HIGH, k]
            low += min(x, y)
            high += max(x, y)
            widest = max(widest, abs(y - x))
            size += max(abs(x), abs(y))
        rounding = 1e-13 * size
    else:
        x = cut.a * own[LOW, cut.i]
        y = cut.a * own[HIGH, cut.i]
        u = cut.b * own[LOW, cut.j]
        v = cut.b * own[HIGH, cut.j]
        low = min(x, y) + min(u, v)
        high = max(x, y) + max(u, v)
        widest = max(abs(y - x), abs(v - u))
        size = max(abs(x), abs(y)) + max(abs(u), abs(v))
        rounding = 0.0  # sums of two rounded products are monotone: corners bound the points exactly
    margin = BOX_MARGIN * size
    if right:
        if high + rounding <= cut.p:
            return NO
        if low + widest - margin > cut.p:
            return YES
    else:
        if low - rounding > cut.p:
            return NO
        if high - widest + margin <= cut.p:
            return YES
    return UNSURE
