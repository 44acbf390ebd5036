"""Quantiles of the labels in the leaves of rows, each tree with a weight of 1.

The labels of the leaves that a block of rows reaches are listed once per leaf, in threads by tree. Then each row bisects its lists, in
threads by row. Memory is bounded by the blocks, but for a single row, whose leaves may hold all rows in every tree.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..engine.arrays import LABEL, LABEL_WEIGHT
from ..engine.forest import OnlineForest
from ..engine.kernels.quantiles import (
    BLOCKS,
    LIST,
    MOST_BITS,
    RINGS,
    LeafLists,
    find_quantiles,
    list_slots,
    make_quantile_scratch,
    number_lists,
    sort_lists,
)
from ..engine.parallel import run_parts

# Pairs of row and tree whose leaves are found together: 24 MB.
PAIRS_AT_ONCE = 1_000_000

# Points in lists at a time: 80 MB, or 240 MB if weights differ. With fewer, leaves of thousands of rows are listed again and again.
POINTS_AT_ONCE = 20_000_000


def split_rows(forest: OnlineForest, n: int) -> Iterator[slice]:
    """Yield blocks of n rows whose leaves are found together."""
    size = max(1, PAIRS_AT_ONCE // forest.trees.n_trees)
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def find_leaf_quantiles(forest: OnlineForest, leaves: np.ndarray, q: np.ndarray, out: np.ndarray) -> None:
    """Write quantiles for rows with the leaves ``leaves[row, tree]`` to ``out``; NaN for rows whose leaves have no weight."""
    trees = forest.trees
    arrays, n_trees, n_threads = trees.arrays, trees.n_trees, trees.n_threads
    n_rows = len(leaves)
    numbers, lists = np.empty((n_rows, n_trees), np.int64), np.empty((n_trees, n_rows), LIST)
    counts = np.empty((n_trees, 3), np.int64)
    n_leaves = int(arrays.state["n_leaves"].max())

    def number(first: int, last: int) -> int:
        seen = np.zeros(n_leaves, np.int32)
        return number_lists(arrays.leaves, leaves, first, last, numbers, lists, counts, seen)

    longest = max(run_parts(number, n_trees, n_threads, n_rows * n_trees))
    _, n_points, n_tables = counts.sum(axis=0).tolist()
    if n_points > POINTS_AT_ONCE and n_rows > 1:
        middle = n_rows // 2
        for part in (slice(middle), slice(middle, None)):
            find_leaf_quantiles(forest, leaves[part], q, out[part])
        return

    offsets = np.cumsum(counts, axis=0) - counts
    slots = np.empty(n_points, np.int32)

    def collect(first: int, last: int) -> None:
        rings = np.empty((RINGS, 3), np.int64)
        list_slots(arrays.leaves, arrays.links, first, last, lists, counts, offsets, slots, rings)

    run_parts(collect, n_trees, n_threads, n_points)
    ordered = np.unique(slots) if n_points < forest.n_held else forest.rows.held_slots()
    ordered = ordered[np.argsort(arrays.labels[ordered, LABEL])]
    rank_of = np.empty(len(arrays.labels), np.int32)
    rank_of[ordered] = np.arange(len(ordered))
    weights = arrays.labels[ordered, LABEL_WEIGHT]
    are_equal = weights[0] > 0 and (weights == weights[0]).all()
    index = LeafLists(
        numbers=numbers,
        lists=lists,
        shift=max(0, (len(ordered) - 1).bit_length() - BLOCKS.bit_length() + 1),
        labels=arrays.labels[ordered, LABEL],
        weights=weights,
        ranks=slots,
        reached=np.empty(0 if are_equal else n_points),
        ends=np.empty((n_tables, BLOCKS), np.int32),
        shares=np.empty((n_tables, BLOCKS)),
    )

    def sort(first: int, last: int) -> None:
        other, digits = np.empty(longest, np.int32), np.empty(2**MOST_BITS, np.int64)
        sort_lists(index, first, last, counts, rank_of, other, digits)

    run_parts(sort, n_trees, n_threads, n_points)
    run_parts(
        lambda a, b: find_quantiles(index, a, b, q, out, make_quantile_scratch(n_trees, index.shift)),
        n_rows,
        n_threads,
        n_rows * n_trees,
    )
