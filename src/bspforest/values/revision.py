"""A revision spread over the rows of a stream, so that no row waits for long.

While it goes on, the forest learns and answers as before. New trees are built beside the old ones, from the rows held when that began;
rows that come and go meanwhile are noted, and made up for at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..engine.ensemble import TreeEnsemble
from ..engine.forest import OnlineForest
from .kernel_matrix import count_work
from .planning import build_in_steps, plan_revision
from .solving import solve_forest
from .steps import Steps

if TYPE_CHECKING:
    from .joint import JointValues

# Products with all rows and trees that a row may wait for. (A solve takes 5 to 30, after a tenth of growth.)
PRODUCTS_PER_ROW = 8


class StreamRevision:
    """A revision of joint values in steps.

    Parameters
    ----------
    values : JointValues
    forest : OnlineForest
    """

    def __init__(self, values: JointValues, forest: OnlineForest) -> None:
        self._values, self._forest = values, forest
        self._come: dict[int, None] = {}  # slots of rows that came since the log was begun, in order
        self._gone: set[int] = set()  # slots of rows that were held then
        self._steps = self._run()

    def added(self, slots: np.ndarray) -> None:
        """Note rows that were inserted."""
        self._come.update(dict.fromkeys(slots.tolist()))

    def removed(self, slots: np.ndarray) -> None:
        """Note rows that were removed."""
        for slot in slots.tolist():
            if slot in self._come:
                del self._come[slot]
            else:
                self._gone.add(slot)

    def advance(self, n_rows: int) -> bool:
        """Do the work that may be done with ``n_rows`` rows; return whether all is done."""
        forest = self._forest
        left = n_rows * PRODUCTS_PER_ROW * count_work(forest.n_held, forest.trees.n_trees, 1)
        while left > 0:
            try:
                left -= next(self._steps)
            except StopIteration:
                return True
        return False

    def finish(self) -> None:
        """Do all the work that is left."""
        for _ in self._steps:
            pass

    def _begin_log(self) -> None:
        self._come, self._gone = {}, set()

    def _run(self) -> Steps[None]:
        values, forest = self._values, self._forest
        plan = yield from plan_revision(values, forest, forest.rows.held_slots(), forest.n_seen)
        trees = forest.trees
        if plan.coordinates is not trees.coordinates:
            trees = forest.trees.make_sibling(forest.trees.get_streams())
            trees.copy_rows()
            trees.set_coordinates(plan.coordinates)
            trees.clear_duals()
            self._begin_log()
            yield from build_in_steps(trees, forest.rows.held_slots(), forest.budget)
            self._catch_up(trees)
        self._begin_log()
        solution = yield from solve_forest(values, forest, trees, plan)
        if trees is not forest.trees:
            self._catch_up(trees)
            self._swap(trees)
        values.adopt(forest, solution, as_slots(self._come), as_slots(self._gone))

    def _catch_up(self, trees: TreeEnsemble) -> None:
        """Let trees beside the forest forget the rows that have gone, and learn those that have come."""
        own = self._forest.trees
        if self._gone:
            trees.remove(as_slots(sorted(self._gone)))
        trees.make_room(len(own.arrays.rows), spare=False)
        if self._come:
            slots = as_slots(self._come)
            trees.store_given(slots, own.get_given()[slots])
            trees.insert(slots, np.full(len(slots), self._forest.budget))

    def _swap(self, trees: TreeEnsemble) -> None:
        """Replace the trees of the forest."""
        self._forest.replace_trees(trees, kept=("labels", "duals", "residuals", "stds"))


def as_slots(slots: Iterable[int]) -> np.ndarray:
    """Return slots as kernels take them."""
    return np.fromiter(slots, np.int32)
