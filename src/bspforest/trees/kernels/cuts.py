"""Cut families: how often cuts come, where they fall, and which side of a cut a point is on (docs/design.md, section 2).

A family is its stream of candidates. The rest of the engine asks a cut only for the side of a point: `lies_right`, or
`is_right_at` where two of its coordinates are at hand.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..layout import HIGH, ISOTROPIC, LOW, PAIRS
from .jit import always_inline, inline_source, kernel
from .rng import draw_normal, draw_uniform

# Candidates in a row that may miss a set before it is left uncut: its points are then so close that rounding hides the cut
# between them. Pairs keep at least 0.7 of their candidates, so it does not happen by chance (0.3^1000). Isotropic cuts may
# keep as few as 8 in d (one-hot rows), so they are allowed more in many dimensions.
MAX_CANDIDATES = 1000


class CutValues(NamedTuple):
    """The fields of a `CUT` that tell sides."""

    i: int
    j: int
    a: float
    b: float
    p: float


@always_inline
def limit_candidates(family, d):
    """Return how many candidates in a row may miss a set before it is left uncut."""
    return max(MAX_CANDIDATES, 20 * d) if family == ISOTROPIC else MAX_CANDIDATES


@always_inline
def hold_cut(cut):
    """Copy what tells sides from a cut, so that a loop over rows need not read the record again."""
    return CutValues(np.uint64(cut.i), np.uint64(cut.j), cut.a, cut.b, cut.p)


@inline_source
def is_right_at(cut, x, y):
    """Return whether a point with coordinates x, y in the two dimensions of a cut, not isotropic, lies right of it.

    Inlined before type inference: building takes 1.1 times as long if LLVM inlines it.
    """
    return cut.a * x + cut.b * y > cut.p


@always_inline
def lies_right(family, cut, normal, z):
    """Return whether a point ``z`` lies right of a cut. Only isotropic cuts have a ``normal``.

    Indices are unsigned: numba need not test whether they count from the end.
    """
    if family != ISOTROPIC:
        return is_right_at(cut, z[np.uint64(cut.i)], z[np.uint64(cut.j)])
    height = 0.0
    for k in range(z.shape[0]):
        height += normal[k] * z[k]
    return height > cut.p


@always_inline
def compute_mean_projection(d):
    """Return E|u_1| for a uniform unit vector u in d dimensions."""
    return math.exp(math.lgamma(0.5 * d) - math.lgamma(0.5 * (d + 1))) / math.sqrt(math.pi)


@always_inline
def compute_candidate_rate(family, box):
    """Return the rate of candidates in a box (for isotropic cuts: in the ball around it)."""
    d = box.shape[1]
    total = 0.0
    if family == ISOTROPIC:
        for k in range(d):
            side = box[HIGH, k] - box[LOW, k]
            total += side * side
        return math.sqrt(total) / compute_mean_projection(d)
    for k in range(d):
        total += box[HIGH, k] - box[LOW, k]
    if family == PAIRS and d > 1:
        total *= d - 1
    return total


@always_inline
def draw_candidate(family, state, box, rate, cut, normal):
    """Draw a cut, uniform among all that hit the box, into ``cut`` (and ``normal``); ``rate`` is that of the box."""
    d = box.shape[1]
    if family == ISOTROPIC:
        draw_ball_candidate(state, box, cut, normal)
        return
    total = rate / (d - 1) if family == PAIRS and d > 1 else rate
    goal = draw_uniform(state) * total
    i = -1
    for k in range(d):  # a dimension, weighted by its side
        side = box[HIGH, k] - box[LOW, k]
        if side > 0.0:
            i = k
            if goal < side:
                break
            goal -= side
    position = box[LOW, i] + draw_uniform(state) * (box[HIGH, i] - box[LOW, i])
    cut.i = i
    if family == PAIRS and d > 1:
        # Any other dimension, one of its two edges, and an angle to the edge with density sin/2.
        pick = draw_uniform(state) * (2 * (d - 1))
        edge = int(pick)
        j = edge >> 1
        if j >= i:
            j += 1
        cosine = 2.0 * draw_uniform(state) - 1.0
        cut.j = j
        cut.a = math.sqrt(1.0 - cosine * cosine)
        cut.b = -cosine
        cut.p = cut.a * position + cut.b * box[edge & 1, j]
    else:
        cut.j = i
        cut.a = 1.0
        cut.b = 0.0
        cut.p = position


@kernel
def draw_ball_candidate(state, box, cut, normal):
    """Draw a uniform normal, and an offset uniform over the ball around the box."""
    d = box.shape[1]
    length = 0.0
    radius = 0.0
    for k in range(d):
        normal[k] = draw_normal(state)
        length += normal[k] * normal[k]
        side = box[HIGH, k] - box[LOW, k]
        radius += side * side
    length = math.sqrt(length)
    middle = 0.0
    for k in range(d):
        normal[k] = normal[k] / length
        middle += normal[k] * 0.5 * (box[LOW, k] + box[HIGH, k])
    set_normal_cut(cut, middle + (draw_uniform(state) - 0.5) * math.sqrt(radius))


@always_inline
def set_normal_cut(cut, offset):
    """Make ``cut`` one with a normal, which is stored elsewhere, at this offset."""
    cut.i = 0
    cut.j = 0
    cut.a = 0.0
    cut.b = 0.0
    cut.p = offset


@always_inline
def bound_segment(family, z, r, box):
    """Bound two points by ``box``; return the rate of candidates of `draw_segment_candidate`."""
    d = z.shape[0]
    total = 0.0
    for k in range(d):
        low = min(z[k], r[k])
        high = max(z[k], r[k])
        box[LOW, k] = low
        box[HIGH, k] = high
        side = high - low
        total += side * side if family == ISOTROPIC else side
    if family == ISOTROPIC:
        return math.sqrt(total)
    if family == PAIRS and d > 1:
        total *= d - 1
    return total


@always_inline
def draw_segment_candidate(family, state, z, r, box, rate, cut, normal):
    """Draw a candidate for the segment from r to z: for isotropic cuts one that separates them, else as `draw_candidate`."""
    if family != ISOTROPIC:
        draw_candidate(family, state, box, rate, cut, normal)
        return
    # Among uniform normals u weighted by |u.v|, the square of the component along v is Beta(1, (d-1)/2).
    d = z.shape[0]
    span = 0.0
    for k in range(d):
        span += (z[k] - r[k]) ** 2
    span = math.sqrt(span)
    along = 1.0
    if d > 1:
        along = math.sqrt(1.0 - draw_uniform(state) ** (2.0 / (d - 1)))
    dot = 0.0
    for k in range(d):
        normal[k] = draw_normal(state)
        dot += normal[k] * (z[k] - r[k]) / span
    rest = 0.0
    for k in range(d):
        normal[k] -= dot * (z[k] - r[k]) / span
        rest += normal[k] * normal[k]
    across = math.sqrt((1.0 - along * along) / rest) if d > 1 else 0.0
    from_r = 0.0
    from_z = 0.0
    for k in range(d):
        normal[k] = across * normal[k] + along * (z[k] - r[k]) / span
        from_r += normal[k] * r[k]
        from_z += normal[k] * z[k]
    set_normal_cut(cut, from_r + draw_uniform(state) * (from_z - from_r))
