"""Boxes around sets of points, and what they tell of the points' side of a cut (docs/design.md, section 3)."""

from __future__ import annotations

import numpy as np

from ..arrays import ISOTROPIC
from .jit import always_inline, bound_eight, bound_four, kernel

# Boxes of nodes are float32, rounded outwards: half the memory and memory traffic of float64. They are used only where
# any enclosing box is exact, or with BOX_MARGIN. OUTWARDS is one step of float32; no branch, so that it vectorises
# (a quarter of the time of building went into rounding with one). Coordinates are never subnormal in float32.
OUTWARDS = 1.2e-7
BOX_MARGIN = 5e-7

YES, NO, UNSURE = 1, 0, -1


@always_inline
def round_down(z):
    return np.float32(z - abs(z) * OUTWARDS)


@always_inline
def round_up(z):
    return np.float32(z + abs(z) * OUTWARDS)


@kernel
def bound_rows(rows, start, end, box):
    """The box of some rows, eight columns at a time in vector registers."""
    d = np.uint64(rows.shape[1])
    q = np.uint64(0)
    start, end = np.uint64(start), np.uint64(end)
    one, four, eight = np.uint64(1), np.uint64(4), np.uint64(8)
    while q + eight <= d:
        bound_eight(rows, start, end, q, box)
        q += eight
    if q + four <= d:
        bound_four(rows, start, end, q, box)
        q += four
    while q < d:
        low = high = rows[start, q]
        for s in range(start + one, end):
            z = rows[s, q]
            low = z if z < low else low
            high = z if z > high else high
        box[0, q] = low
        box[1, q] = high
        q += one


@always_inline
def ask_box(family, own, cut, normal, right):
    """Has a set with this box a point right (or else left) of the cut? Every face of the box touches a point."""
    if family == ISOTROPIC:
        low = high = widest = size = 0.0
        for k in range(own.shape[1]):
            x = np.float64(normal[k]) * own[0, k]
            y = np.float64(normal[k]) * own[1, k]
            low += min(x, y)
            high += max(x, y)
            widest = max(widest, abs(y - x))
            size += max(abs(x), abs(y))
        rounding = 1e-13 * size
    else:
        x = cut.a * own[0, cut.i]
        y = cut.a * own[1, cut.i]
        u = cut.b * own[0, cut.j]
        v = cut.b * own[1, cut.j]
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
