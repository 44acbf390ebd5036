"""Cut families: where a cut may fall, how often, and which side of it a point is on (docs/design.md, section 2).

A family is its stream of candidates. Everything else in the engine asks a cut only for the `height` of a point above it.
"""

from __future__ import annotations

import math

from ..arrays import ISOTROPIC, PAIRS
from .jit import always_inline, kernel
from .rng import draw_normal, draw_uniform

# Points so close that rounding hides the cut between them are not cut: a set is given up after this many candidates
# in a row that miss it. Pairs keep at least 0.7 of theirs, so for them this never happens by chance (0.3^1000). Isotropic cuts may
# keep as few as 8 in d (one-hot rows): more for many dimensions.
PATIENCE = 1000


@always_inline
def patience(family, d):
    return max(PATIENCE, 20 * d) if family == ISOTROPIC else PATIENCE


@always_inline
def height(family, cut, normal, z):
    """How far ``z`` is above the cut, up to the offset: a point goes right if this exceeds ``cut.p``, else left."""
    if family != ISOTROPIC:
        return cut.a * z[cut.i] + cut.b * z[cut.j]
    total = 0.0
    for k in range(z.shape[0]):
        total += normal[k] * z[k]
    return total


@always_inline
def mean_projection(d):
    """E|u_1| for a uniform unit vector u in d dimensions."""
    return math.exp(math.lgamma(0.5 * d) - math.lgamma(0.5 * (d + 1))) / math.sqrt(math.pi)


@always_inline
def candidate_rate(family, box):
    """The rate at which candidates arrive in a box (for isotropic cuts: in the ball around it)."""
    d = box.shape[1]
    total = 0.0
    if family == ISOTROPIC:
        for k in range(d):
            side = box[1, k] - box[0, k]
            total += side * side
        return math.sqrt(total) / mean_projection(d)
    for k in range(d):
        total += box[1, k] - box[0, k]
    if family == PAIRS and d > 1:
        total *= d - 1
    return total


@always_inline
def draw_candidate(family, state, box, rate, cut, normal):
    """Draw a cut, uniform among all that hit the box, into ``cut`` (and ``normal``). ``rate`` is `candidate_rate`."""
    d = box.shape[1]
    if family == ISOTROPIC:
        draw_ball_candidate(state, box, cut, normal)
        return
    total = rate / (d - 1) if family == PAIRS and d > 1 else rate
    goal = draw_uniform(state) * total
    i = -1
    for k in range(d):  # a dimension with weight its side
        side = box[1, k] - box[0, k]
        if side > 0.0:
            i = k
            if goal < side:
                break
            goal -= side
    position = box[0, i] + draw_uniform(state) * (box[1, i] - box[0, i])
    cut.i = i
    if family == PAIRS and d > 1:
        # Any other dimension, either of the two edges, and an angle with density sin/2 to it.
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
    """A uniform normal, and an offset uniform over the ball around the box."""
    d = box.shape[1]
    length = 0.0
    radius = 0.0
    for k in range(d):
        normal[k] = draw_normal(state)
        length += normal[k] * normal[k]
        side = box[1, k] - box[0, k]
        radius += side * side
    length = math.sqrt(length)
    middle = 0.0
    for k in range(d):
        normal[k] = normal[k] / length
        middle += normal[k] * 0.5 * (box[0, k] + box[1, k])
    set_normal_cut(cut, middle + (draw_uniform(state) - 0.5) * math.sqrt(radius))


@always_inline
def set_normal_cut(cut, offset):
    cut.i = 0
    cut.j = 0
    cut.a = 0.0
    cut.b = 0.0
    cut.p = offset


@always_inline
def segment_rate(family, z, r, box):
    """The rate at which `draw_between` sees candidates; fills ``box`` with the box of the two points."""
    d = z.shape[0]
    total = 0.0
    for k in range(d):
        low = min(z[k], r[k])
        high = max(z[k], r[k])
        box[0, k] = low
        box[1, k] = high
        side = high - low
        total += side * side if family == ISOTROPIC else side
    if family == ISOTROPIC:
        return math.sqrt(total)
    if family == PAIRS and d > 1:
        total *= d - 1
    return total


@always_inline
def draw_between(family, state, z, r, box, rate, cut, normal):
    """A candidate of the segment from r to z. Isotropic: always separates them; otherwise as `draw_candidate`."""
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
