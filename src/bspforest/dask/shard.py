"""What a worker holds: a share of the trees of a forest, and all its rows. It lives in a Dask actor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine import arrays as layout
from ..engine.arrays import BY_SLOT
from ..engine.coordinates import Coordinates
from ..engine.ensemble import TreeEnsemble
from ..engine.kernels.duals import change_rows, walk_rows
from ..engine.progress import SILENT
from ..values.block_sums import fold_share
from ..values.joint import widen_columns
from ..values.kernel_matrix import PRECONDITIONING_TREES, KernelMatrix, empty_totals, make_totals
from ..values.node_sums import Walk, add_values, learn_rows, make_walk
from ..values.tuning import Choice

# Arrays that each tree has a part of.
PER_TREE = ("state", "cuts", "boxes", "leaves", "values", "queue", "links", "sums")

# What `KernelMatrix` lists of a tree, all that `TreeInverse` needs.
ORDER = ("slots", "own", "starts", "ends", "weights", "counts")


def own(array: np.ndarray) -> np.ndarray:
    """Return an array that may be written to: those that arrive from elsewhere are read-only, a type of its own for numba."""
    return array if array.flags.writeable else array.copy()


class TreeShard:
    """A contiguous share of the trees of a forest, as a `TreeEnsemble` of their own; perhaps others built beside them.

    Ensembles are known by keys, kernel matrices by numbers, both given by the client.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._ensembles: dict[int, TreeEnsemble] = {}
        self._matrices: dict[int, KernelMatrix] = {}
        self._totals: dict[int, np.ndarray] = {}
        self._walked: tuple[np.ndarray, Walk] | None = None  # slots, and what was noted on their way

    # ------------------------------------------------------------------------------------------------------------------
    # Trees

    def create(
        self,
        key: int,
        kind: dict[str, Any],
        streams: np.ndarray,
        coordinates: Coordinates,
        by_slot: dict[str, np.ndarray],
        trees: dict[str, np.ndarray] | None = None,
        totals: np.ndarray | None = None,
    ) -> None:
        """Hold rows, and trees of this kind: empty ones with these random streams, or, if given, these, with their totals."""
        ensemble = TreeEnsemble(layout.allocate(streams=streams, **kind))
        ensemble.n_threads = self.n_threads
        ensemble.make_room(len(by_slot["rows"]), spare=False)
        changed: dict[str, Any] = {name: layout.resize_rows(by_slot[name], len(by_slot[name])) for name in BY_SLOT}
        changed.update(trees or {})
        ensemble.arrays = ensemble.arrays._replace(**changed)
        ensemble.arrays = layout.align(ensemble.arrays)
        ensemble.arrays.scaling[:] = coordinates.to_scaling()
        ensemble.coordinates = coordinates
        self._ensembles[key] = ensemble
        if totals is not None:
            self._totals[key] = own(totals)

    def make_sibling(self, key: int, new: int, streams: np.ndarray) -> None:
        """Hold empty trees for the same rows beside those there are."""
        self._ensembles[new] = self._ensembles[key].make_sibling(own(streams))

    def take_over(self, key: int, other: int, kept: tuple[str, ...]) -> None:
        """Replace trees by those built beside them."""
        self._totals.pop(key, None)
        self._ensembles[key].take_over(self._ensembles.pop(other), kept=kept)

    def drop(self, keys: Iterable[int], matrices: Iterable[int]) -> None:
        """Drop ensembles and matrices that are not needed any longer."""
        for key in keys:
            self._ensembles.pop(key, None)
            self._totals.pop(key, None)
        for number in matrices:
            self._matrices.pop(number, None)

    def change(self, key: int, method: str, *args: Any) -> None:
        """Call a method of an ensemble that changes it."""
        self._totals.pop(key, None)
        self._walked = None
        getattr(self._ensembles[key], method)(*(own(arg) if isinstance(arg, np.ndarray) else arg for arg in args))

    def make_room(self, key: int, n_slots: int) -> None:
        """Make room for rows."""
        self._ensembles[key].make_room(n_slots, spare=False)

    def build(self, key: int, slots: np.ndarray, budget: float) -> None:
        """Build all trees from the rows in ``slots``."""
        self._totals.pop(key, None)
        trees = self._ensembles[key]
        trees.build(own(slots), budget, trees.make_build_scratch(len(slots)), SILENT)

    def get_streams(self, key: int) -> np.ndarray:
        """Return the random streams of the trees."""
        return self._ensembles[key].get_streams()

    def find_root_times(self, key: int) -> np.ndarray:
        """Return the time of the first cut of each tree."""
        return self._ensembles[key].find_root_times()

    def measure(self, key: int) -> int:
        """Return the memory of trees and rows in bytes."""
        return self._ensembles[key].nbytes

    def insert_classes(self, key: int, places: np.ndarray, n_after: int, slots: np.ndarray) -> None:
        """Allow more classes, among those there are."""
        self._totals.pop(key, None)
        trees = self._ensembles[key]
        widened = trees.insert_classes(places, n_after, slots)
        trees.arrays = widen_columns(widened, places, n_after) if widened.duals.shape[1] else widened

    def export_totals(self, key: int) -> np.ndarray | None:
        """Return what each tree predicts in each leaf, if that is known; raise if there is more here than these trees."""
        if self._ensembles.keys() != {key} or self._matrices:
            raise BlockingIOError("trees are being built beside these")
        return self._totals.get(key)

    def export_trees(self, key: int) -> dict[str, np.ndarray]:
        """Return the arrays of the trees, with as much room as the largest one needs."""
        arrays = self._ensembles[key].arrays
        counts = {"n_cuts": ("cuts", "sums"), "n_boxes": ("boxes",), "n_leaves": ("leaves", "values")}
        trees = {name: getattr(arrays, name) for name in PER_TREE}
        for count, names in counts.items():
            used = max(1, int(arrays.state[count].max(initial=0)))
            trees.update({name: np.ascontiguousarray(trees[name][:, :used]) for name in names})
        return trees

    # ------------------------------------------------------------------------------------------------------------------
    # Predictions: sums over trees go on from those of the trees before

    def find_leaves(self, key: int, X: np.ndarray) -> np.ndarray:
        """Return the leaf of each row, as given, in each tree."""
        return self._ensembles[key].find_leaves(X)

    def add_leaves(self, key: int, placed: np.ndarray, out: np.ndarray, hard: bool) -> np.ndarray:
        """Return ``out`` with what `TreeEnsemble.add_leaves` adds to it."""
        out = own(out)
        self._ensembles[key].add_leaves(layout.as_rows(placed), out, hard=hard)
        return out

    def add_values(
        self, key: int, placed: np.ndarray, bandwidth: float, from_totals: bool, parts: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, ...]:
        """Return sums of predictions and of standard deviations, and counts, with what `add_values` adds to them."""
        parts = tuple(own(part) for part in parts)
        totals = self._totals[key] if from_totals else None
        add_values(self._ensembles[key], layout.as_rows(placed), bandwidth, totals, *parts)
        return parts

    # ------------------------------------------------------------------------------------------------------------------
    # Joint values

    def set_known(self, key: int, duals: np.ndarray, stds: np.ndarray) -> None:
        """Take over what a solve has found, by slot."""
        arrays = self._ensembles[key].arrays
        arrays.duals[: len(duals)] = duals
        arrays.stds[: len(stds)] = stds

    def make_totals(self, key: int, n_rows: int, bandwidth: float, set_sums: bool) -> None:
        """Find what each tree predicts in each leaf, and keep it until the trees change."""
        trees = self._ensembles[key]
        self._totals[key] = make_totals(trees, n_rows, bandwidth, empty_totals(trees), set_sums=set_sums)

    def make_matrix(self, key: int, number: int, n_rows: int, bandwidth: float, knows_nodes: bool) -> tuple:
        """Bring the trees in the order of products; return the first ones in order, for a preconditioner."""
        matrix = KernelMatrix(self._ensembles[key], n_rows, bandwidth, knows_nodes=knows_nodes)
        self._matrices[number] = matrix
        return tuple(getattr(matrix, name)[:PRECONDITIONING_TREES] for name in ORDER)

    def multiply(self, number: int, n_trees: int, p: np.ndarray, first_block: int, n_blocks: int) -> np.ndarray:
        """Return what is left of the products of blocks of the first trees, added up as far as can be here."""
        return fold_share(self._matrices[number].first(n_trees).multiply_blocks(p), first_block, n_blocks)

    def add_up(self, key: int, number: int, set_sums: bool) -> None:
        """Find totals, and set sums, with a matrix that knows its nodes."""
        totals = empty_totals(self._ensembles[key])
        self._matrices[number].add_up(totals, set_sums=set_sums)
        self._totals[key] = totals

    def learn_rows(
        self,
        key: int,
        slots: np.ndarray,
        targets: np.ndarray,
        mean: np.ndarray,
        choice: tuple,
        step: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Set the duals of rows one after another, where all trees are here; return them and the residuals."""
        self._totals.pop(key, None)
        trees = self._ensembles[key]
        learn_rows(trees, slots, own(targets), mean, Choice(*choice), step)
        return trees.arrays.duals[slots], trees.arrays.residuals[slots]

    def walk_rows(
        self,
        key: int,
        slots: np.ndarray,
        bandwidth: float,
        first_block: int,
        n_blocks: int,
        changes: np.ndarray | None,
    ) -> np.ndarray:
        """Return what `walk_rows` finds for held rows, added up as far as can be here; first change the last ones' duals."""
        if changes is not None:
            self.change_rows(key, changes)
        trees, slots = self._ensembles[key], own(slots)
        walk = make_walk(trees, len(slots))
        trees.call(walk_rows, trees.arrays, slots, bandwidth, *walk)
        self._walked = slots, walk
        return fold_share(walk.partial, first_block, n_blocks)

    def change_rows(self, key: int, changes: np.ndarray) -> None:
        """Change the duals of the rows that were walked last."""
        assert self._walked is not None
        (slots, walk), self._walked = self._walked, None
        self._totals.pop(key, None)
        trees = self._ensembles[key]
        trees.call(change_rows, trees.arrays, slots, own(changes), walk.rows, walk.paths)
