"""Read and update the sums of duals in the nodes of all trees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..trees.layout import PREDICTION_WALKS, make_read_scratch
from ..trees.trees import READ_AT_ONCE, TreeEnsemble
from .block_sums import count_blocks
from .kernels.duals import change_rows, find_changes, walk_rows
from .kernels.paths import sum_paths, sum_totals

# Nodes noted of the path of a row that is learned; what is below is walked twice.
NOTED_DEPTH = 63


# Rows whose residuals are found together, at most: on a cluster, they wait for the workers once. (Per row and tree, with 20,000 rows held:
# 0.51 µs one by one, 0.63 for 16, 0.70 for 32, 0.84 for 64. Inserting a row takes several times as long.)
ROWS_TOGETHER = 32


class Walk(NamedTuple):
    """What `walk_rows` writes to."""

    rows: np.ndarray
    partial: np.ndarray
    at: np.ndarray
    values: np.ndarray
    paths: np.ndarray
    ends: np.ndarray


def make_walk(trees: TreeEnsemble, n_rows: int) -> Walk:
    """Allocate what `walk_rows` writes to, for so many rows."""
    n_trees, n_columns = trees.n_trees, trees.arrays.terms.shape[1]
    return Walk(
        np.empty((n_rows, trees.n_features)),
        np.empty((count_blocks(n_trees), n_rows, n_columns + n_rows - 1)),
        np.empty(2 * PREDICTION_WALKS, np.int64),
        np.empty((PREDICTION_WALKS, n_columns)),
        np.empty((n_trees, n_rows, NOTED_DEPTH + 1), np.int32),
        np.empty((n_trees, n_rows), np.int32),
    )


def learn_rows(
    trees: TreeEnsemble,
    slots: np.ndarray,
    columns: np.ndarray,
    weights: np.ndarray,
    mean: np.ndarray,
    bandwidth: float,
    ridge: float,
    step: float,
) -> np.ndarray:
    """Set the duals of rows that all trees hold, one after another; return their residuals.

    ``step`` is the share of a residual that is learned.
    """
    slots, mean = (
        np.array(slots, np.int32),
        np.array(mean, np.float64),
    )  # one type each, so that kernels are compiled once
    residuals, changes = np.empty((2, *columns.shape))
    walk = make_walk(trees, min(len(slots), ROWS_TOGETHER))
    for first in range(0, len(slots), ROWS_TOGETHER):
        rows = slice(first, first + ROWS_TOGETHER)
        some, own = slots[rows], changes[rows]
        known = columns[rows], mean, weights[rows], float(ridge), float(step)
        trees.call(walk_rows, trees.arrays, some, float(bandwidth), *walk)
        trees.call(find_changes, walk.partial, trees.n_trees, *known, residuals[rows], own)
        trees.call(change_rows, trees.arrays, some, own, walk.rows, walk.paths, walk.ends)
    return residuals


def sum_values(
    trees: TreeEnsemble, X: np.ndarray, bandwidth: float, totals: np.ndarray | None, stds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums over trees for rows as given: of predictions per label column, and of standard deviations, with their counts.

    Predictions are read from the totals of leaves, or along paths if these are None. ``stds`` are by slot; they may have no columns.
    """
    out = np.zeros((len(X), trees.arrays.terms.shape[1]))
    sums, counts = np.zeros((2, len(X), stds.shape[1]))
    add_values(trees, trees.place(X), bandwidth, totals, stds, out, sums, counts)
    return out, sums, counts


def sum_stds(trees: TreeEnsemble, X: np.ndarray, stds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums over trees of standard deviations that `sum_values` returns, and their counts."""
    placed, n = trees.place(X), len(X)
    sums, counts = np.zeros((2, n, stds.shape[1]))
    nothing = np.empty((0, 0, 0)), np.empty((n, 0))
    scratch = make_read_scratch(min(n, READ_AT_ONCE), trees.n_features, trees.n_trees)
    trees.call(sum_totals, trees.arrays, placed, 0, n, *nothing, stds, sums, counts, *scratch)
    return sums, counts


def add_values(
    trees: TreeEnsemble,
    placed: np.ndarray,
    bandwidth: float,
    totals: np.ndarray | None,
    stds: np.ndarray,
    out: np.ndarray,
    sums: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add what `sum_values` returns for rows from `TreeEnsemble.place` to ``out``, ``sums`` and ``counts``, tree after tree."""
    arrays, n = trees.arrays, len(placed)

    def read(totals: np.ndarray, out: np.ndarray) -> None:
        trees.read_rows(
            lambda a, b, *scratch: sum_totals(arrays, placed, a, b, totals, out, stds, sums, counts, *scratch), n
        )

    if totals is not None:
        read(totals, out)
        return

    def walk(a: int, b: int, rows: np.ndarray, found: np.ndarray, walks: np.ndarray) -> None:
        sum_paths(arrays, placed, a, b, bandwidth, out, np.empty((PREDICTION_WALKS, out.shape[1])), rows, found)

    trees.read_rows(walk, n)
    if sums.shape[1]:
        read(np.empty((0, 0, 0)), np.empty((n, 0)))
