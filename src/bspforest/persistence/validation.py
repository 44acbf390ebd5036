"""Whether trees that came from a file are trees, in two steps: before they are read, and before they are changed.

Kernels do not check bounds. Those that read trees rely on their nodes, rings of points and statistics, which are checked when a file
is loaded. Those that change trees rely, beyond that, on every point being where the cuts say, on boxes and on the queue of
pending cuts: to check that takes three times as long, and a process that only predicts does not need it. So it is done before the
first change.
"""

from __future__ import annotations

import joblib
import numpy as np

from ..engine.forest import OnlineForest
from ..engine.kernels.validate import check_tree
from ..engine.kernels.validate_points import WRONG, make_checks
from ..engine.parallel import run_parts
from .header import ModelFileError, expect


class TreeCheck:
    """Checks trees of a forest, one at a time, whose rows are known to be right; for one thread."""

    def __init__(self, forest: OnlineForest) -> None:
        arrays = forest.trees.arrays
        n_slots = forest.rows.n_slots
        self._forest = forest
        self._held = np.zeros(n_slots, dtype=np.uint8)
        self._held[forest.rows.held_slots()] = 1
        self._tame = bool(np.abs(arrays.labels[:n_slots]).max(initial=0.0) < 1e100)
        self._scratch = make_checks(
            n_slots, arrays.cuts.shape[1], arrays.leaves.shape[1], forest.trees.n_features, arrays.values.shape[2]
        )

    def check(self, m: int, *, fully: bool) -> None:
        """An error if tree ``m`` is not one; ``fully``: nor one that can be changed."""
        forest = self._forest
        wrong = check_tree(
            forest.trees.arrays, m, self._held, forest.n_held, forest.budget, self._tame, fully, self._scratch
        )
        expect(wrong == 0, f"tree {m} is not consistent: {WRONG[wrong]}")


def check_fully(forest: OnlineForest, name: str) -> None:
    """An error that begins with ``name``, if a forest that was loaded cannot be changed safely."""

    def run(first: int, last: int) -> None:
        check = TreeCheck(forest)
        for m in range(first, last):
            check.check(m, fully=True)

    try:
        run_parts(run, forest.trees.n_trees, joblib.cpu_count(), forest.trees.n_trees * forest.n_held)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None
