"""Read and update the sums of duals in the nodes of all trees; registered for other kinds of `TreeEnsemble`."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from ..engine.arrays import PREDICTION_WALKS
from ..engine.ensemble import TreeEnsemble
from ..engine.kernels.joint import learn_duals, sum_paths, sum_totals
from .tuning import Choice

# Nodes noted of the path of a row that is learned; what is below is walked twice.
NOTED_DEPTH = 63


@singledispatch
def learn_rows(
    trees: TreeEnsemble, slots: np.ndarray, targets: np.ndarray, mean: np.ndarray, choice: Choice, step: float
) -> None:
    """Set the duals and residuals of rows that all trees hold, one after another: see `learn_duals`."""
    k = len(mean)
    trees.call(
        learn_duals,
        trees.arrays,
        np.array(slots, np.int32),  # one type each, so that the kernel is compiled once
        targets,
        np.array(mean, np.float64),
        float(choice.bandwidth),
        float(choice.ridge),
        float(step),
        np.empty((1, trees.n_features)),
        np.empty(k),
        np.empty(k),
        np.empty(2 * PREDICTION_WALKS, np.int64),
        np.empty((trees.n_trees, NOTED_DEPTH + 1), np.int32),
    )


@singledispatch
def sum_values(
    trees: TreeEnsemble, X: np.ndarray, bandwidth: float, totals: np.ndarray | None, *, with_stds: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums over trees for rows as given: of predictions per label column, and of standard deviations, with their counts.

    Predictions are read from the totals of leaves, or along paths if these are None. Without standard deviations, the last two have no
    columns.
    """
    n_stds = trees.arrays.stds.shape[1] if with_stds else 0
    out = np.zeros((len(X), trees.arrays.duals.shape[1]))
    sums, counts = np.zeros((2, len(X), n_stds))
    add_values(trees, trees.place(X), bandwidth, totals, out, sums, counts)
    return out, sums, counts


def add_values(
    trees: TreeEnsemble,
    placed: np.ndarray,
    bandwidth: float,
    totals: np.ndarray | None,
    out: np.ndarray,
    sums: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add what `sum_values` returns for rows from `TreeEnsemble.place` to ``out``, ``sums`` and ``counts``, tree after tree."""
    arrays, n = trees.arrays, len(placed)

    def read(totals: np.ndarray, out: np.ndarray) -> None:
        trees.read_rows(
            lambda a, b, *scratch: sum_totals(arrays, placed, a, b, totals, out, arrays.stds, sums, counts, *scratch), n
        )

    if totals is not None:
        read(totals, out)
        return
    trees.read_rows(
        lambda a, b, rows, found, walks: sum_paths(arrays, placed, a, b, bandwidth, out, rows, found),
        n,
    )
    if sums.shape[1]:
        read(np.empty((0, 0, 0)), np.empty((n, 0)))
