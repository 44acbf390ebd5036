"""What a worker holds: a share of the trees of a forest, and all its rows. It lives in a Dask actor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..forest.block_sums import fold_share
from ..forest.kernels.duals import change_rows, walk_rows
from ..forest.leaf_means import add_leaves
from ..forest.node_sums import Walk, add_values, learn_rows, make_walk
from ..forest.solver import PRECONDITIONING_TREES, KernelMatrix, empty_totals, make_totals
from ..trees import layout
from ..trees.coordinates import Coordinates
from ..trees.layout import BY_CUT, BY_LEAF, BY_TREE
from ..trees.trees import TreeEnsemble

# What `KernelMatrix` lists of a tree, all that `TreeInverse` needs.
ORDER = ("slots", "own", "starts", "ends", "weights", "counts")


def own(array: np.ndarray) -> np.ndarray:
    """Return an array that may be written to: those that arrive from elsewhere are read-only, a type of its own for numba."""
    return array if array.flags.writeable else array.copy()


class TreeShard:
    """A contiguous share of the trees of a forest, as a `TreeEnsemble` of their own.

    Kernel matrices are known by numbers that the client gives.
    """

    trees: TreeEnsemble

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._matrices: dict[int, KernelMatrix] = {}
        self._totals: np.ndarray | None = None
        self._walked: tuple[np.ndarray, Walk] | None = None  # slots, and what was noted on their way

    # ------------------------------------------------------------------------------------------------------------------
    # Trees

    def create(
        self,
        kind: dict[str, Any],
        streams: np.ndarray,
        coordinates: Coordinates,
        given: np.ndarray,
        terms: np.ndarray,
        trees: dict[str, np.ndarray] | None,
    ) -> None:
        """Hold rows, as given, with their terms, and trees of this kind: empty ones with these random streams, or, if given, these."""
        ensemble = TreeEnsemble(layout.allocate(streams=streams, **kind))
        ensemble.n_threads = self.n_threads
        ensemble.make_room(len(given), spare=False)
        ensemble.given[:], ensemble.arrays.terms[:] = given, terms
        ensemble.set_coordinates(coordinates)
        changed: dict[str, Any] = dict(trees or {})
        ensemble.arrays = layout.align(ensemble.arrays._replace(**changed))
        self.trees, self._totals = ensemble, None
        self._matrices.clear()

    def change(self, method: str, *args: Any) -> None:
        """Call a method of an ensemble that changes it."""
        self._totals = None
        self._walked = None
        getattr(self.trees, method)(*(own(arg) if isinstance(arg, np.ndarray) else arg for arg in args))

    def make_room(self, n_slots: int) -> None:
        """Make room for rows."""
        self.trees.make_room(n_slots, spare=False)

    def build(self, slots: np.ndarray, budget: float) -> None:
        """Build all trees from the rows in ``slots``."""
        self._totals = None
        self.trees.build(own(slots), budget)

    def get_streams(self) -> np.ndarray:
        """Return the random streams of the trees."""
        return self.trees.get_streams()

    def find_root_times(self) -> np.ndarray:
        """Return the time of the first cut of each tree."""
        return self.trees.find_root_times()

    def measure(self) -> int:
        """Return the memory of trees and rows in bytes."""
        return self.trees.nbytes

    def export_trees(self) -> dict[str, np.ndarray]:
        """Return the arrays of the trees, with as much room as the largest one needs."""
        arrays = self.trees.arrays
        counts = {"n_cuts": BY_CUT, "n_leaves": BY_LEAF}
        trees = {name: getattr(arrays, name) for name in BY_TREE}
        for count, names in counts.items():
            used = max(1, int(arrays.state[count].max(initial=0)))
            trees.update({name: np.ascontiguousarray(trees[name][:, :used]) for name in names})
        return trees

    # ------------------------------------------------------------------------------------------------------------------
    # Predictions: sums over trees go on from those of the trees before

    def find_leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf of each row, as given, in each tree."""
        return self.trees.find_leaves(X)

    def find_newest(self, X: np.ndarray) -> np.ndarray:
        """Return the slot of the newest point in the leaf of each row, as given, in each tree."""
        leaves = self.trees.find_leaves(X)
        return self.trees.arrays.leaves["last"][np.arange(leaves.shape[1]), leaves]

    def add_leaves(self, X: np.ndarray, n_classes: int, out: np.ndarray, hard: bool) -> np.ndarray:
        """Return ``out`` with what `leaf_means.add_leaves` adds to it."""
        out = own(out)
        add_leaves(self.trees, X, n_classes, out, hard=hard)
        return out

    def add_values(self, placed: np.ndarray, bandwidth: float, from_totals: bool, out: np.ndarray) -> np.ndarray:
        """Return ``out`` with the predictions that `add_values` adds to it."""
        out, nothing = own(out), np.empty((len(out), 0))
        totals = self._totals if from_totals else None
        add_values(self.trees, layout.as_rows(placed), bandwidth, totals, np.empty((0, 0)), out, nothing, nothing)
        return out

    # ------------------------------------------------------------------------------------------------------------------
    # Ridge prediction

    def set_duals(self, duals: np.ndarray) -> None:
        """Take over what a solve has found, by slot."""
        self.trees.arrays.terms[: len(duals)] = duals

    def make_totals(self, n_rows: int, bandwidth: float, set_sums: bool) -> None:
        """Find what each tree predicts in each leaf, and keep it until the trees change."""
        trees = self.trees
        self._totals = make_totals(trees, n_rows, bandwidth, empty_totals(trees), set_sums=set_sums)

    def make_matrix(
        self, number: int, n_rows: int, bandwidth: float, knows_nodes: bool, unused: Iterable[int]
    ) -> tuple:
        """Bring the trees in the order of products; return the first ones in order, for a preconditioner.

        Matrices that are unused are dropped.
        """
        for other in unused:
            self._matrices.pop(other, None)
        matrix = KernelMatrix(self.trees, n_rows, bandwidth, knows_nodes=knows_nodes)
        self._matrices[number] = matrix
        return tuple(getattr(matrix, name)[:PRECONDITIONING_TREES] for name in ORDER)

    def multiply(self, number: int, n_trees: int, p: np.ndarray, first_block: int, n_blocks: int) -> np.ndarray:
        """Return what is left of the products of blocks of the first trees, added up as far as can be here."""
        return fold_share(self._matrices[number].first(n_trees).multiply_blocks(p), first_block, n_blocks)

    def add_up(self, number: int, set_sums: bool) -> None:
        """Find totals, and set sums, with a matrix that knows its nodes."""
        totals = empty_totals(self.trees)
        self._matrices[number].add_up(totals, set_sums=set_sums)
        self._totals = totals

    def learn_rows(
        self,
        slots: np.ndarray,
        columns: np.ndarray,
        weights: np.ndarray,
        mean: np.ndarray,
        bandwidth: float,
        ridge: float,
        step: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Set the duals of rows one after another, where all trees are here; return them and the residuals."""
        self._totals = None
        trees = self.trees
        residuals = learn_rows(trees, slots, own(columns), own(weights), mean, bandwidth, ridge, step)
        return trees.arrays.terms[slots], residuals

    def walk_rows(
        self,
        first_block: int,
        slots: np.ndarray,
        bandwidth: float,
        n_blocks: int,
        changes: np.ndarray | None,
    ) -> np.ndarray:
        """Return what `walk_rows` finds for held rows, added up as far as can be here; first change the last ones' duals."""
        if changes is not None:
            self.change_rows(changes)
        trees, slots = self.trees, own(slots)
        walk = make_walk(trees, len(slots))
        trees.call(walk_rows, trees.arrays, slots, bandwidth, *walk)
        self._walked = slots, walk
        return fold_share(walk.partial, first_block, n_blocks)

    def change_rows(self, changes: np.ndarray) -> None:
        """Change the duals of the rows that were walked last."""
        assert self._walked is not None
        (slots, walk), self._walked = self._walked, None
        self._totals = None
        trees = self.trees
        trees.call(change_rows, trees.arrays, slots, own(changes), walk.rows, walk.paths, walk.ends)
