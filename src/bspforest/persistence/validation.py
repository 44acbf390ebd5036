"""Check the trees of a model file, in two steps: what prediction relies on, and what learning relies on.

Kernels do not check bounds. Those that read trees rely on nodes, rings of points and label statistics, which are checked
when a file is loaded. Those that change trees also rely on every point being on its side of the cuts, on the boxes and on
the queue of pending cuts. This full check waits until the first change, because a process that only predicts does not need
it: for 100,000 rows and 20 trees (0.19 GB, two threads, from the page cache) `load` takes 0.06 s, with the full check 0.16 s
and with checksums only 0.04 s. The full check repeats the first one, which is a fifth of it: statistics alone, the only
part that could be left out, are 2%.
"""

from __future__ import annotations

import joblib
import numpy as np

from ..engine.forest import OnlineForest
from ..engine.kernels.validate import check_tree
from ..engine.kernels.validate_points import WRONG, CheckScratch, make_checks
from ..engine.parallel import run_parts
from .header import ModelFileError, expect


class TreeChecker:
    """Checks the trees of a forest. Its row table and its rows must be known to be valid."""

    def __init__(self, forest: OnlineForest) -> None:
        arrays, n_slots = forest.trees.arrays, forest.rows.n_slots
        self._forest = forest
        self._held = np.zeros(n_slots, dtype=np.uint8)
        self._held[forest.rows.held_slots()] = 1
        self._tame = bool(np.abs(arrays.labels[:n_slots]).max(initial=0.0) < 1e100)

    def make_scratch(self) -> CheckScratch:
        """Allocate scratch space for one thread."""
        trees = self._forest.trees
        n_cuts, n_boxes, n_leaves = (getattr(trees.arrays, name).shape[1] for name in ("cuts", "boxes", "leaves"))
        n_values = trees.arrays.values.shape[2]
        return make_checks(len(self._held), n_cuts, n_boxes, n_leaves, trees.n_features, n_values)

    def count_threads(self, *, fully: bool) -> int:
        """Return how many threads to use: one per core, unless their scratch space would be larger than the forest."""
        if not fully:
            return joblib.cpu_count()
        arrays = self._forest.trees.arrays
        scratch = arrays.rows.nbytes + 16 * arrays.cuts.shape[1] * self._forest.trees.n_features
        return max(1, min(joblib.cpu_count(), self._forest.trees.nbytes // scratch))

    def check(self, m: int, scratch: CheckScratch, *, fully: bool) -> None:
        """Raise an error if tree ``m`` cannot be read safely or, with ``fully``, cannot be changed safely."""
        forest = self._forest
        wrong = check_tree(forest.trees.arrays, m, self._held, forest.n_held, forest.budget, self._tame, fully, scratch)
        expect(wrong == 0, f"tree {m} is not consistent: {WRONG[wrong]}")


def check_fully(forest: OnlineForest, name: str) -> None:
    """Raise a `ModelFileError` that starts with ``name`` if a loaded forest cannot be changed safely."""
    checker = TreeChecker(forest)

    def run(first: int, last: int) -> None:
        scratch = checker.make_scratch()
        for m in range(first, last):
            checker.check(m, scratch, fully=True)

    try:
        run_parts(run, forest.trees.n_trees, checker.count_threads(fully=True), forest.trees.n_trees * forest.n_held)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None


class FullCheck:
    """`check_fully` with a name, to be called with a forest. Unlike functools.partial, skops loads it without more trust."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, forest: OnlineForest) -> None:
        check_fully(forest, self.name)
