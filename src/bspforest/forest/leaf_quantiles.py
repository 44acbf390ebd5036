"""Quantiles of the labels in the leaves of rows, each tree with a weight of 1.

The labels of the leaves that a block of rows reaches are listed once, as ranks. Then those of each row are put in order and added up.
Three quantiles of 1,000 rows with 100 trees take 0.29 s of processor time with 5 features and 100,000 rows stored, in leaves of 3, and
2.4 s with 2 features, in leaves of 1,700. Compiled kernels that bisected lists with tables took 0.12 s and 0.39 s, and 580 lines.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .forest import OnlineForest

# Pairs of row and tree whose leaves are found together: 24 MB.
PAIRS_AT_ONCE = 1_000_000

# Points in leaves listed at a time: 400 MB at most.
POINTS_AT_ONCE = 10_000_000

# Rows with at least this share of all labels in their leaves are counted by rank, others are sorted.
SORT_BELOW = 0.1

# Slack of the share of a quantile for rounding: sums of tenths reach 0.3.
SLACK = 1e-12


def find_leaf_quantiles(forest: OnlineForest, X: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the quantiles at shares ``q`` for each row; NaN for rows whose leaves have no weight."""
    slots = forest.rows.held_slots()
    slots = slots[np.argsort(forest.y[slots, 0])]
    rank_of = np.empty(len(forest.y), np.int32)
    rank_of[slots] = np.arange(len(slots))
    out = np.full((len(X), len(q)), np.nan)
    size = max(1, PAIRS_AT_ONCE // forest.trees.n_trees)
    for start in range(0, len(X), size):
        leaves = forest.trees.find_leaves(X[start : start + size])
        _write_quantiles(forest, leaves, forest.y[slots, 0], rank_of, q, out[start : start + size])
    return out


def _write_quantiles(
    forest: OnlineForest, leaves: np.ndarray, labels: np.ndarray, rank_of: np.ndarray, q: np.ndarray, out: np.ndarray
) -> None:
    """Write quantiles for rows with the leaves ``leaves[row, tree]`` to ``out``, where there is weight."""
    n_rows, n_trees = leaves.shape
    room = leaves.max() + 1
    reached, numbers = np.unique(leaves + room * np.arange(n_trees), return_inverse=True)
    numbers = numbers.reshape(leaves.shape)
    slots, starts = forest.trees.list_points(*np.divmod(reached, room))
    if len(slots) > POINTS_AT_ONCE and n_rows > 1:
        del slots
        for half in (slice(n_rows // 2), slice(n_rows // 2, None)):
            _write_quantiles(forest, leaves[half], labels, rank_of, q, out[half])
        return
    shares = forest.weights[slots]
    totals = np.repeat(np.add.reduceat(shares, starts[:-1]), np.diff(starts))
    np.divide(shares, totals, out=shares, where=totals > 0)
    lists = sparse.csr_matrix((shares, rank_of[slots], starts), (len(reached), len(labels)))
    for row in range(n_rows):
        own = lists[numbers[row]]
        ranks, weights = own.indices, own.data
        if len(ranks) < SORT_BELOW * len(labels):
            order = np.argsort(ranks)
            ranks, weights = ranks[order], weights[order]
        else:
            weights = np.bincount(ranks, weights)
            ranks = np.arange(len(weights))
        total = np.cumsum(weights)
        if total[-1] > 0:
            target = np.maximum((q - SLACK) * total[-1], 5e-324)  # reached by labels with weight only
            out[row] = labels[ranks[np.searchsorted(total, target)]]
