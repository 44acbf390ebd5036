"""Trees of a sample of the rows, with which bandwidth and ridge are chosen."""

from __future__ import annotations

import numpy as np

from ..engine.arrays import allocate
from ..engine.ensemble import TreeEnsemble
from ..engine.forest import OnlineForest
from ..engine.memory import empty
from ..engine.progress import SILENT


def find_median_root_time(trees: TreeEnsemble) -> float:
    """Return the median over trees of the time of the first cut; infinite if a tree has none."""
    roots = trees.arrays.state["root"].astype(np.int64)
    if (roots < 0).any():
        return np.inf
    return float(np.median(trees.arrays.cuts["time"][np.arange(len(roots)), roots]))


def build_aside(forest: OnlineForest, slots: np.ndarray, n_trees: int, rng: np.random.Generator) -> TreeEnsemble:
    """Return trees built from some of the rows that a forest holds, which it does not keep."""
    own = forest.trees.arrays
    arrays = allocate(
        family=own.family,
        min_split=own.min_split,
        redraw=False,
        n_classes=own.n_classes,
        n_features=forest.config.n_features,
        streams=rng.integers(0, 2**64, size=(n_trees, 4), dtype=np.uint64),
        n_outputs=forest.config.n_outputs,
        n_columns=forest.config.n_columns,
    )
    held = {name: getattr(own, name) for name in ("rows", "labels", "duals", "residuals", "scaling")}
    links = empty((n_trees, len(own.rows)), np.int32)
    queue = empty((n_trees, own.queue.shape[1]), own.queue.dtype)
    trees = TreeEnsemble(arrays._replace(links=links, queue=queue, **held))
    trees.n_threads = forest.trees.n_threads
    trees.build(slots, forest.budget, trees.make_build_scratch(len(slots)), SILENT)
    return trees
