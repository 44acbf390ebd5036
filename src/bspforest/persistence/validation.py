"""Check the trees of a model file, in two steps: what prediction relies on, and what learning relies on.

Kernels do not check bounds. Those that read trees rely on nodes, rings of points and label statistics, which are checked
when a file is loaded. Those that change trees also rely on every point being on its side of the cuts, on the boxes and on
the queue of pending cuts, and those of joint values on the sums of duals. This full check waits until the first change, because a process that only predicts does not need
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
from ..engine.kernels.validate_sums import find_wrong_sum
from ..engine.parallel import run_parts
from ..engine.values import Values
from ..values.joint import JointValues
from .header import ModelFileError, expect

# How far sums of duals may be from a recount, relative to the sum of the absolute duals of all rows: both are sums of up to 2^31
# terms in different orders, and a solve takes them as differences of sums over all rows.
SUM_DRIFT = 1e-9


def are_tame(labels: np.ndarray) -> bool:
    """Return whether labels and weights are of ordinary size, so that all that is computed from them must be finite."""
    return bool(np.abs(labels).max(initial=0.0) < 1e100)


def check_finite(
    values: Values, labels: np.ndarray, duals: np.ndarray, residuals: np.ndarray, stds: np.ndarray
) -> None:
    """Check that joint values are finite. Residuals and standard deviations may be NaN, if not known."""
    if isinstance(values, JointValues) and are_tame(labels):
        expect(np.isfinite(values.mean).all(), "a mean label is not finite")
        expect(np.isfinite(duals).all() and not np.isinf(residuals).any(), "a dual or a residual is not finite")
        expect(not (stds < 0).any() and not np.isinf(stds).any(), "a standard deviation is negative or infinite")


class TreeChecker:
    """Checks the trees of a forest. Its row table and its rows must be known to be valid."""

    def __init__(self, forest: OnlineForest) -> None:
        arrays, n_slots = forest.trees.arrays, forest.rows.n_slots
        self._forest = forest
        self._held = np.zeros(n_slots, dtype=np.uint8)
        self._held[forest.rows.held_slots()] = 1
        self._tame = are_tame(arrays.labels[:n_slots])
        self._allowed = self._find_allowed(forest)

    @staticmethod
    def _find_allowed(forest: OnlineForest) -> np.ndarray | None:
        """Return how far the sums of duals may be from a recount, by label column; None if no bound is known.

        Rows that a window drops leave rounding errors behind, in proportion to their duals, until the next solve.
        """
        values = forest.values
        if not isinstance(values, JointValues) or (forest.config.window is not None and not values.is_settled):
            return None
        return SUM_DRIFT * np.abs(forest.trees.arrays.duals[forest.rows.held_slots()]).sum(axis=0)

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
        if self._tame and forest.config.n_columns:
            self._check_sums(m, fully=fully)

    def _check_sums(self, m: int, *, fully: bool) -> None:
        """Check that the sums of duals of tree ``m``, whose nodes are valid, are finite and, with ``fully``, agree with a recount."""
        trees = self._forest.trees
        used = trees.arrays.sums[m, : trees.arrays.state[m]["n_cuts"]]
        expect(np.isfinite(used).all(), f"tree {m} is not consistent: a sum of duals is not finite")
        if fully and self._allowed is not None:
            nodes, parents, _ = trees.number_nodes(m)
            totals = np.empty((len(nodes), used.shape[1]))
            wrong = find_wrong_sum(trees.arrays, m, nodes, parents, self._allowed, totals)
            expect(wrong < 0, f"tree {m} is not consistent: a node has another sum of duals than its rows")


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
