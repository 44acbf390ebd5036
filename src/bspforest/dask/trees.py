"""Trees on the workers of a cluster, in the place of a `TreeEnsemble`.

The client holds the rows, labels and duals, and no trees. Each worker holds a copy of the rows and a share of the trees, which are built,
changed and read there by the same code as in a single process. If a worker is lost, `TreesLostError` is raised: the forest is then torn,
and all trees are built again from the rows, on the workers there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from distributed import Client

from ..forest.config import ForestConfig
from ..forest.forest import allocate_trees
from ..progress import SILENT, Progress
from ..trees import layout
from ..trees.coordinates import Coordinates
from ..trees.layout import BY_TREE
from ..trees.trees import TreeEnsemble, make_streams
from .cluster import Shard, Shards

# Rows that go from shard to shard together, at least and at most.
MIN_PIECE, MAX_PIECE = 1024, 65_536

NO_TREES = np.empty((0, 4), np.uint64)


class RemoteTrees(TreeEnsemble):
    """The trees of a forest on a cluster: `arrays` has the rows, but no trees.

    Parameters
    ----------
    arrays : ForestArrays
        Without trees.
    shards : Shards
    seed : list of int
        For the random streams of trees that take the place of lost ones.
    """

    def __init__(self, arrays: layout.ForestArrays, shards: Shards, seed: list[int]) -> None:
        super().__init__(arrays)
        self.shards, self._seed = shards, seed

    @classmethod
    def allocate(cls, client: Client, config: ForestConfig, streams: np.ndarray) -> RemoteTrees:
        """Return empty trees on the workers there are."""
        shards = Shards(client, len(streams))
        trees = cls(allocate_trees(config, NO_TREES).arrays, shards, streams[0].tolist())
        trees._create(streams)
        return trees

    @classmethod
    def spread(cls, client: Client, local: TreeEnsemble) -> RemoteTrees:
        """Return a copy of trees of this process on the workers there are."""
        streams = local.get_streams()
        empty: dict[str, Any] = {name: getattr(local.arrays, name)[:0] for name in BY_TREE}
        arrays = layout.copy_arrays(local.arrays._replace(**empty))
        trees = cls(arrays, Shards(client, local.n_trees), streams[0].tolist())
        trees.coordinates, trees.groups = local.coordinates, local.groups
        trees.given = layout.copy_array(local.given) if local.coordinates.uses_ranks else arrays.rows
        trees._create(streams, {name: getattr(local.arrays, name) for name in BY_TREE})
        return trees

    def _create(self, streams: np.ndarray, trees: dict[str, np.ndarray] | None = None) -> None:
        """Give all shards the rows, and trees: empty ones with these random streams, or these."""
        own = self.arrays
        kind = {
            "family": own.family,
            "min_split": own.min_split,
            "n_features": self.n_features,
            "n_terms": own.terms.shape[1],
            "sums_nodes": own.sums.shape[2] > 0,
        }

        def create(part: Shard) -> tuple[str, tuple]:
            some = slice(part.first, part.last)
            share = None if trees is None else {name: array[some] for name, array in trees.items()}
            return "create", (kind, streams[some], self.coordinates, self.given, own.terms, share)

        self.run(create)
        for part in self.shards.parts:
            part.room = len(own.rows)

    @property
    def n_trees(self) -> int:
        return self.shards.parts[-1].last

    @property
    def nbytes(self) -> int:
        """Memory of all trees, and of the rows once, in bytes."""
        rows = super().nbytes
        return rows + sum(size - rows for size in self._gather("measure"))

    def _enlarge(self, room: int) -> int:
        return int(1.5 * room)

    def __getstate__(self) -> dict:
        raise TypeError("trees on a cluster cannot be copied or pickled: use to_local()")

    def run(self, make: Callable[[Shard], tuple[str, tuple] | None]) -> list[Any]:
        """Return what all shards return for which there is a call."""
        calls = [(part, call) for part in self.shards.parts if (call := make(part)) is not None]
        return self.shards.call_each((part, *call) for part, call in calls)

    def _gather(self, method: str, *args: Any) -> list[Any]:
        return self.run(lambda part: (method, args))

    def _change(self, method: str, *args: Any) -> None:
        self.run(lambda part: ("change", (method, *args)))

    def move_to(self, client: Client) -> None:
        """Give up all shards; they are placed on another cluster when the trees are next built."""
        self.shards.client = client
        self.shards.abandon()

    # ------------------------------------------------------------------------------------------------------------------
    # Rows

    def make_room(self, n_slots: int, *, spare: bool) -> None:
        super().make_room(n_slots, spare=spare)
        room = len(self.arrays.rows)
        self.run(lambda part: ("make_room", (room,)) if room != part.room else None)
        for part in self.shards.parts:
            part.room = room

    def store(self, places: slice | np.ndarray, X: np.ndarray) -> None:
        super().store(places, X)
        self._change("store", places, X)

    def write_terms(self, slots: np.ndarray, terms: np.ndarray) -> None:
        super().write_terms(slots, terms)
        self._change("write_terms", slots, terms)

    def map_terms(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        super().map_terms(change)
        self._change("map_terms", change)

    def reset_terms(self, n_terms: int) -> None:
        super().reset_terms(n_terms)
        self._change("reset_terms", n_terms)

    def wipe_rows(self, slots: np.ndarray) -> None:
        super().wipe_rows(slots)
        self._change("wipe_rows", slots)

    def set_coordinates(self, coordinates: Coordinates) -> None:
        super().set_coordinates(coordinates)
        self._change("set_coordinates", coordinates)

    # ------------------------------------------------------------------------------------------------------------------
    # Changing trees

    def insert(self, slots: np.ndarray, budget: float) -> None:
        self._change("insert", slots, budget)

    def remove(self, slots: np.ndarray) -> None:
        self._change("remove", slots)

    def clear(self) -> None:
        self._change("clear")

    def drop(self) -> None:
        """Empty the trees. Shards that are lost are placed on the workers there are, and get the rows."""
        n_lost = self.shards.n_lost
        self.shards.replace_lost()
        if self.shards.n_lost == n_lost:
            self._change("drop")
            return
        self._create(make_streams(np.random.SeedSequence([*self._seed, self.shards.n_lost]), self.n_trees))

    def build(self, slots: np.ndarray, budget: float, progress: Progress = SILENT) -> None:
        self._gather("build", slots, budget)
        progress.advance(len(slots))

    def get_streams(self) -> np.ndarray:
        return np.concatenate(self._gather("get_streams"))

    def set_streams(self, streams: np.ndarray) -> None:
        self.run(lambda part: ("change", ("set_streams", streams[part.first : part.last])))

    def make_converted(self, slots: np.ndarray, X: np.ndarray, groups: np.ndarray | None) -> RemoteTrees:
        """Return trees in place of these, which are lost: they share the workers."""
        streams = self.get_streams()
        local = self._convert(NO_TREES, slots, X, groups)
        other = RemoteTrees(local.arrays, self.shards, self._seed)
        other.groups, other.n_threads = groups, self.n_threads
        other._create(streams)
        return other

    def snapshot(self, n_slots: int, free: np.ndarray) -> TreeEnsemble:
        return self.collect().snapshot(n_slots, free)

    # ------------------------------------------------------------------------------------------------------------------
    # Reading trees

    def collect(self) -> TreeEnsemble:
        """Return all trees in this process, with rows of their own."""
        shares = self._gather("export_trees")
        trees: dict[str, Any] = {}
        for name in BY_TREE:
            arrays = [share[name] for share in shares]
            if name == "state":
                trees[name] = np.concatenate(arrays)
                continue
            room = max(array.shape[1] for array in arrays)
            whole = layout.empty((self.n_trees, room, *arrays[0].shape[2:]), arrays[0].dtype)
            for part, array in zip(self.shards.parts, arrays, strict=True):
                whole[part.first : part.last, : array.shape[1]] = array
            trees[name] = whole
        local = TreeEnsemble(layout.align(layout.copy_arrays(self.arrays)._replace(**trees)))
        if self.coordinates.uses_ranks:
            local.given = layout.copy_array(self.given)
        local.coordinates, local.groups, local.n_threads = self.coordinates, self.groups, self.n_threads
        return local

    def find_root_times(self) -> np.ndarray:
        return np.concatenate(self._gather("find_root_times"))

    def find_leaves(self, X: np.ndarray) -> np.ndarray:
        return np.concatenate(self._gather("find_leaves", X), axis=1)

    def find_newest(self, X: np.ndarray) -> np.ndarray:
        """Return the slot of the newest point in the leaf of each row, as given, in each tree."""
        return np.concatenate(self._gather("find_newest", X), axis=1)

    def pass_on(self, n: int, call: Callable[[slice], tuple[str, Any, Callable]]) -> list[Any]:
        """Let pieces of n rows go from shard to shard: see `Shards.pass_on`."""
        return self.shards.pass_on(n, min(MAX_PIECE, max(MIN_PIECE, -(-n // (4 * len(self.shards.parts))))), call)
