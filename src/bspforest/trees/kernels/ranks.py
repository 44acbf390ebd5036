"""Ranks of features: their empirical distribution functions, piecewise linear between knots."""

from __future__ import annotations

import numpy as np

from ..layout import example_rows
from .jit import always_inline, entry_point


@always_inline
def interpolate(x, knots, ranks):
    """Return the rank of ``x``: linear between two knots, which increase, and constant beyond the first and the last."""
    low, high = np.int64(0), np.int64(knots.shape[0]) - 1
    if x <= knots[low]:
        return ranks[low]
    if x >= knots[high]:
        return ranks[high]
    while high - low > 1:
        middle = (low + high) // 2
        if x < knots[middle]:
            high = middle
        else:
            low = middle
    share = (x - knots[low]) / (knots[high] - knots[low])
    return ranks[low] + share * (ranks[high] - ranks[low])


@entry_point(lambda: (example_rows(), np.empty((1, 1)), np.empty((1, 1)), np.empty((1, 1))))
def rank_rows(X, knots, ranks, out):
    """Write the ranks of all features of rows to ``out``. Knots and ranks are by feature, the last ones repeated."""
    for s in range(X.shape[0]):
        for k in range(X.shape[1]):
            out[s, k] = interpolate(X[s, k], knots[k], ranks[k])
