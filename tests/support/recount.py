"""Recount the sums of duals over nodes, from duals and the rings of leaves."""

from __future__ import annotations

import numpy as np
from invariants import leaf_slots

from bspforest.trees.layout import NOTHING


def count_sums(forest, m: int) -> dict[int, np.ndarray]:
    """Return the sum of the duals in each cut node of tree m, leaves with a pending cut included, and check those of leaves."""
    arrays = forest.trees.arrays
    sums: dict[int, np.ndarray] = {}

    def rows_of(v: int) -> list[int]:
        if v < 0:
            rows = leaf_slots(arrays, m, ~v)
            scale = np.abs(arrays.terms[forest.rows.held_slots()]).sum()
            np.testing.assert_allclose(arrays.leaf_sums[m, ~v], arrays.terms[rows].sum(axis=0), atol=1e-12 * scale)
            return rows
        left, right = (int(arrays.cuts[m, v][side]) for side in ("left", "right"))
        rows = rows_of(left) + (rows_of(right) if right != NOTHING else [])
        sums[v] = arrays.terms[rows].sum(axis=0)
        return rows

    root = int(arrays.state[m]["root"])
    if root != NOTHING:
        assert sorted(rows_of(root)) == sorted(forest.rows.held_slots().tolist())
    return sums


def check_sums(forest) -> None:
    """Check the sums of all trees of an engine's forest; duals must be finite, and those of free slots wiped (0 in copies)."""
    arrays = forest.trees.arrays
    held = forest.rows.held_slots()
    assert np.isfinite(forest.duals[held]).all() and not np.isinf(forest.residuals[held]).any()
    free = np.setdiff1d(np.arange(forest.rows.n_slots), held)
    assert not any(np.nan_to_num(array[free]).any() for array in (forest.duals, forest.residuals, forest.stds))
    scale = np.abs(forest.duals[held]).sum() if len(held) else 0.0
    for m in range(forest.trees.n_trees):
        for v, expected in count_sums(forest, m).items():
            np.testing.assert_allclose(arrays.sums[m, v], expected, rtol=0, atol=1e-12 * scale)
