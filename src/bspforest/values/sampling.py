"""Trees of a sample of the rows, with which bandwidth and ridge are chosen."""

from __future__ import annotations

import numpy as np

from ..engine.ensemble import TreeEnsemble
from ..engine.forest import OnlineForest
from ..engine.progress import SILENT


def find_median_root_time(trees: TreeEnsemble) -> float:
    """Return the median over trees of the time of the first cut; infinite if a tree has none."""
    roots = trees.arrays.state["root"].astype(np.int64)
    if (roots < 0).any():
        return np.inf
    return float(np.median(trees.arrays.cuts["time"][np.arange(len(roots)), roots]))


def build_aside(forest: OnlineForest, slots: np.ndarray, n_trees: int, rng: np.random.Generator) -> TreeEnsemble:
    """Return trees built from some of the rows that a forest holds, which it does not keep."""
    trees = forest.trees.make_sibling(rng.integers(0, 2**64, size=(n_trees, 4), dtype=np.uint64))
    trees.build(slots, forest.budget, trees.make_build_scratch(len(slots)), SILENT)
    return trees
