"""Trees on the workers of a cluster, in the place of a `TreeEnsemble`.

The client holds the rows, labels and duals, and no trees. Each worker holds a copy of the rows and a share of the trees, which are built,
changed and read there by the same code as in a single process. So a tree that is lost can be drawn afresh at any time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import numpy as np
from distributed import Client

from ..engine import arrays as layout
from ..engine.arrays import BY_SLOT, Scratch
from ..engine.config import ForestConfig
from ..engine.coordinates import Coordinates
from ..engine.ensemble import Poll, TreeEnsemble, do_nothing, make_streams
from ..engine.forest import allocate_trees
from ..engine.kernels.predict import N_SUMS
from ..engine.progress import SILENT, Progress
from .cluster import MOST_ATTEMPTS, Shard, ShardLostError, Shards, TreesReplacedError
from .shard import PER_TREE

# Rows that go from shard to shard together, at least and at most.
LEAST_PIECE, MOST_PIECE = 1024, 65_536

NO_TREES = np.empty((0, 4), np.uint64)


class RemoteTrees(TreeEnsemble):
    """The trees of a forest on a cluster: `arrays` has the rows, but no trees.

    Parameters
    ----------
    arrays : ForestArrays
        Without trees.
    shards : Shards
    is_whole : bool
        Whether these are the trees of a forest, which are restored if a worker is lost. Others, built beside them, are lost then.

    Attributes
    ----------
    key : int
        What the shards know these trees by.
    generation : int
        ``shards.n_lost`` when these trees were last complete.
    """

    def __init__(self, arrays: layout.ForestArrays, shards: Shards, *, is_whole: bool) -> None:
        super().__init__(arrays)
        self.shards, self.key, self.is_whole = shards, shards.make_key(), is_whole
        self.generation = shards.n_lost
        self._held = np.zeros(len(arrays.rows), bool)  # by slot: whether trees hold the row
        self._room = len(arrays.rows)  # slots that all workers have
        self._budget = 0.0
        self._seed: list[int] = []
        weakref.finalize(self, shards.unused.append, ("trees", self.key))

    @classmethod
    def allocate(cls, client: Client, config: ForestConfig, streams: np.ndarray) -> RemoteTrees:
        """Return empty trees on the workers there are."""
        if config.redraw:
            raise ValueError("refinement='redraw' has no batch form and cannot run on a cluster")
        shards = Shards(client, len(streams))
        trees = cls(allocate_trees(config, NO_TREES).arrays, shards, is_whole=True)
        trees._seed = streams[0].tolist()
        with shards.lock:
            trees._run(lambda part: ("create", trees._describe(streams[part.first : part.last])))
        return trees

    @classmethod
    def spread(cls, client: Client, local: TreeEnsemble, held: np.ndarray, budget: float) -> RemoteTrees:
        """Return a copy of trees of this process on the workers there are. Rows are held in these slots."""
        shards = Shards(client, local.n_trees)
        streams = local.get_streams()
        empty: dict[str, Any] = {name: getattr(local.arrays, name)[:0] for name in PER_TREE}
        trees = cls(layout.copy_arrays(local.arrays._replace(**empty)), shards, is_whole=True)
        trees.coordinates, trees.groups = local.coordinates, local.groups
        trees._held[held] = True
        trees._budget, trees._seed = budget, streams[0].tolist()

        def create(part: Shard) -> tuple[str, tuple]:
            own = {name: getattr(local.arrays, name)[part.first : part.last] for name in PER_TREE}
            return "create", (*trees._describe(streams[part.first : part.last]), own)

        with shards.lock:
            trees._run(create)
        return trees

    def _describe(self, streams: np.ndarray) -> tuple:
        """Return what `TreeShard.create` needs for trees with these random streams."""
        own = self.arrays
        kind = {
            "family": own.family,
            "min_split": own.min_split,
            "redraw": bool(own.redraw),
            "n_classes": own.n_classes,
            "n_features": self.n_features,
            "n_outputs": own.labels.shape[1] - 1,
            "n_columns": own.duals.shape[1],
        }
        by_slot = {name: getattr(own, name) for name in BY_SLOT}
        return self.key, kind, streams, self.coordinates, by_slot

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

    # ------------------------------------------------------------------------------------------------------------------
    # Calls

    def _run(self, make: Callable[[Shard], tuple[str, tuple]], *, changes: bool = True) -> list[Any]:
        """Call all shards. Trees of a forest are restored where a shard is lost: there, the result is None.

        If a call fails that ``changes`` trees, some workers may have done it and others not: all are to be drawn afresh then.
        """
        with self.shards.lock:
            self.check()
            try:
                results, failure = self.shards.call_each((part, *make(part)) for part in self.shards.parts)
                if failure is not None:
                    raise failure
                self._repair()
            except BaseException:
                if changes and self.is_whole:
                    self.shards.abandon()
                raise
            return results

    def _repair(self) -> None:
        """Restore the trees of the forest where shards are lost. Those beside them are lost then."""
        if not self.shards.are_complete:
            self._restore_all()
            if not self.is_whole:
                raise TreesReplacedError

    def _restore_all(self) -> None:
        """Restore the trees of the forest where shards are lost."""
        main = cast(RemoteTrees, self.shards.main)
        self.shards.repair(main.restore)
        main.generation = self.shards.n_lost

    def check(self) -> None:
        """Make sure that all shards are there, as far as is known, and drop on them what is not needed any longer."""
        shards = self.shards
        if (
            self.is_whole and shards.main is not self
        ):  # at first; or a conversion failed, and this forest is in use again
            if self.generation != shards.n_lost:
                shards.abandon()
            shards.main = self
        self._repair()
        if not self.is_whole and self.generation != shards.n_lost:
            raise TreesReplacedError
        if shards.unused:
            unused = [shards.unused.pop() for _ in range(len(shards.unused))]
            keys, numbers = ([number for kind, number in unused if kind == name] for name in ("trees", "matrix"))
            shards.call_each((part, "drop", (keys, numbers)) for part in shards.parts)

    def move_to(self, client: Client) -> None:
        """Give up all shards; they are placed on another cluster, and filled, when they are next called."""
        with self.shards.lock:
            self.shards.client = client
            self.shards.abandon()
            self.shards.main = self
            self.shards.unused.clear()

    def balance(self) -> None:
        """Move shards from workers that have several to workers that have none, such as those that were restarted."""
        with self.shards.lock:
            self.check()
            for part, address in self.shards.list_moves():
                try:
                    totals, streams, trees = (
                        self.shards.finish(part, self.shards.start(part, method, self.key))
                        for method in ("export_totals", "get_streams", "export_trees")
                    )
                    moved = self.shards.move(part, address, (*self._describe(streams), trees, totals))
                except (BlockingIOError, MemoryError, ShardLostError):  # another time
                    return
                if not moved:
                    return

    def read(self, read: Callable[[], Any]) -> Any:
        """Return what ``read`` returns, a call of shards. If one is lost, restore it, and raise `TreesReplacedError`."""
        n_lost = self.shards.n_lost
        with self.shards.lock:
            self.check()
            if self.shards.n_lost != n_lost:
                raise TreesReplacedError
            try:
                return read()
            except ShardLostError:
                self._restore_all()
                raise TreesReplacedError from None

    def _gather(self, method: str, *args: Any) -> list[Any]:
        """Return what a method of all shards returns. Trees of a forest are asked again once they are restored."""
        for _ in range(MOST_ATTEMPTS if self.is_whole else 1):
            with suppress(TreesReplacedError):
                return self.read(lambda: self.ask(lambda part: (method, (self.key, *args))))
        raise TreesReplacedError

    def ask(self, make: Callable[[Shard], tuple[str, tuple] | None]) -> list[Any]:
        """Return what all shards return for which there is a call. ``shards.lock`` is held."""
        calls = [(part, call) for part in self.shards.parts if (call := make(part)) is not None]
        results, failure = self.shards.call_each((part, *call) for part, call in calls)
        if failure is not None:
            raise failure
        if not self.shards.are_complete:
            raise ShardLostError
        return results

    def _change(self, method: str, *args: Any) -> None:
        self._run(lambda part: ("change", (self.key, method, *args)))

    def restore(self, part: Shard) -> None:
        """Fill a shard on a new worker: all rows, and trees drawn afresh, with random streams of their own."""
        seed = np.random.SeedSequence([*self._seed, self.shards.n_lost])
        streams = make_streams(seed, part.n_trees)
        shards = self.shards
        shards.finish(part, shards.start(part, "create", *self._describe(streams)))
        slots = np.flatnonzero(self._held).astype(np.int32)
        if len(slots):
            shards.finish(part, shards.start(part, "build", self.key, slots, self._budget))

    # ------------------------------------------------------------------------------------------------------------------
    # Rows

    def make_room(self, n_slots: int, *, spare: bool) -> None:
        super().make_room(n_slots, spare=spare)
        room = len(self.arrays.rows)
        if room > self._room:
            self._held = np.append(self._held, np.zeros(room - len(self._held), bool))
            self._run(lambda part: ("make_room", (self.key, room)), changes=False)
            self._room = room

    def reserve(self, n: int) -> None:
        self._run(lambda part: ("change", (self.key, "reserve", n)), changes=False)

    def store(self, places: slice | np.ndarray, X: np.ndarray, y: Any, w: Any) -> None:
        super().store(places, X, y, w)
        self._change("store", places, X, y, w)

    def store_given(self, slots: np.ndarray, given: np.ndarray) -> None:
        super().store_given(slots, given)
        self._change("store_given", slots, given)

    def clear_duals(self) -> None:
        super().clear_duals()
        self._change("clear_duals")

    def copy_rows(self) -> None:
        super().copy_rows()
        self._change("copy_rows")

    def wipe_rows(self, slots: np.ndarray) -> None:
        super().wipe_rows(slots)
        self._change("wipe_rows", slots)

    def set_coordinates(self, coordinates: Coordinates) -> None:
        super().set_coordinates(coordinates)
        self._change("set_coordinates", coordinates)

    # ------------------------------------------------------------------------------------------------------------------
    # Changing trees

    def insert(self, slots: np.ndarray, budgets: np.ndarray, then: Callable[[], None] | None = None) -> None:
        with self.shards.lock:
            if len(slots) > 1:  # first: if a worker lacks memory, no tree has changed
                self.reserve(len(slots))
            self.check()
            calls = [(part, "change", (self.key, "insert", slots, budgets)) for part in self.shards.parts]
            _, failure = self.shards.call_each(calls)
            if failure is not None:
                if (
                    self.is_whole
                ):  # some workers may have inserted the rows, and cut deeper: draw all trees afresh without them
                    self.shards.abandon()
                raise failure
            self._held[slots] = True
            self._budget = max(self._budget, float(budgets[-1]))
            if then is not None:
                then()
            self._repair()

    def remove(self, slots: np.ndarray, forgotten: np.ndarray | None = None) -> None:
        with self.shards.lock:
            self.check()  # first: a shard that is restored later does not hold them
            self._held[slots] = False
            try:
                self._change("remove", slots)
            except BaseException:
                self._held[slots] = True  # trees that are drawn afresh hold them, as the forest does
                raise

    def clear(self) -> None:
        self._held[:] = False
        self._change("clear")

    def make_build_scratch(self, n: int) -> list[Scratch]:
        return []

    def build(
        self, slots: np.ndarray, budget: float, scratches: list[Scratch], progress: Progress, poll: Poll = do_nothing
    ) -> None:
        poll()
        self._held[:] = False
        self._held[slots] = True
        self._budget = budget
        self._run(lambda part: ("build", (self.key, slots, budget)))
        progress.advance(len(slots))

    def build_in_steps(
        self,
        slots: np.ndarray,
        budget: float,
        scratches: list[Scratch],
        progress: Progress = SILENT,
        poll: Poll = do_nothing,
        at_once: int = 1,
    ) -> Iterator[int]:
        self.build(slots, budget, scratches, progress, poll)
        yield self.n_trees

    def get_streams(self) -> np.ndarray:
        return np.concatenate(self._gather("get_streams"))

    def set_streams(self, streams: np.ndarray) -> None:
        self._run(lambda part: ("change", (self.key, "set_streams", streams[part.first : part.last])))

    def make_sibling(self, streams: np.ndarray) -> RemoteTrees:
        other = RemoteTrees(self.arrays, self.shards, is_whole=False)
        other.coordinates, other.groups, other.n_threads = self.coordinates, self.groups, self.n_threads
        other.arrays = other.arrays._replace(scaling=layout.resize_rows(self.arrays.scaling, 2))
        with self.shards.lock:
            self._run(lambda part: ("make_sibling", (self.key, other.key, streams[part.first : part.last])))
            other.generation = self.shards.n_lost
        return other

    def take_over(self, other: TreeEnsemble, *, kept: tuple[str, ...] = ()) -> None:
        sibling = cast(RemoteTrees, other)
        with self.shards.lock:
            self.check()
            is_lost = sibling.generation != self.shards.n_lost
            super().take_over(sibling, kept=kept)
            self._held, self._budget, self._room = sibling._held, sibling._budget, sibling._room
            call = "take_over", (self.key, sibling.key, kept)
            failure = None if is_lost else self.shards.call_each((part, *call) for part in self.shards.parts)[1]
            if is_lost or failure is not None:  # the rows are those of the sibling now: draw all trees afresh
                self.shards.abandon()
            self._repair()
            # A matrix of the sibling is one of these trees from now on.
            sibling.key, sibling.arrays = self.key, self.arrays

    def make_converted(self, slots: np.ndarray, X: np.ndarray, groups: np.ndarray | None) -> RemoteTrees:
        with self.shards.lock:
            streams = self.get_streams()
            local = self._convert(NO_TREES, slots, X, groups)
            other = RemoteTrees(local.arrays, self.shards, is_whole=False)
            other.groups, other.n_threads, other._seed = groups, self.n_threads, self._seed
            other._run(lambda part: ("create", other._describe(streams[part.first : part.last])))
        return other

    def become_whole(self) -> None:
        """Be restored from now on where shards are lost: these are the trees of a forest."""
        with self.shards.lock:
            if self.generation != self.shards.n_lost:
                raise TreesReplacedError
            self.is_whole, self.shards.main = True, self

    def snapshot(self, n_slots: int, free: np.ndarray) -> TreeEnsemble:
        return self.collect().snapshot(n_slots, free)

    def take_classes(self, widened: layout.ForestArrays, places: np.ndarray, slots: np.ndarray) -> None:
        with self.shards.lock:
            call = "insert_classes", (self.key, places, widened.n_classes, slots)
            _, failure = self.shards.call_each((part, *call) for part in self.shards.parts)
            self.arrays = widened
            if failure is not None:  # a worker lacks memory for it: the next call draws trees of more classes afresh
                self.shards.abandon()

    # ------------------------------------------------------------------------------------------------------------------
    # Reading trees

    def collect(self) -> TreeEnsemble:
        """Return all trees in this process, with rows of their own."""
        shares = self._gather("export_trees")
        trees: dict[str, Any] = {}
        for name in PER_TREE:
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
        local.coordinates, local.groups, local.n_threads = self.coordinates, self.groups, self.n_threads
        return local

    def find_root_times(self) -> np.ndarray:
        return np.concatenate(self._gather("find_root_times"))

    def find_leaves(self, X: np.ndarray) -> np.ndarray:
        return np.concatenate(self._gather("find_leaves", X), axis=1)

    def find_piece(self, n: int) -> int:
        """Return how many of n rows go from shard to shard together."""
        return min(MOST_PIECE, max(LEAST_PIECE, -(-n // (4 * len(self.shards.parts)))))

    def sum_leaves(self, X: np.ndarray, *, hard: bool = False) -> np.ndarray:
        placed = self.place(X)
        n_sums = self.arrays.n_classes + 1 if self.arrays.n_classes else N_SUMS

        def call(piece: slice) -> tuple[str, Any, Callable]:
            rows = placed[piece]
            return "add_leaves", np.zeros((len(rows), n_sums)), lambda out: (self.key, rows, out, hard)

        parts = self.read(lambda: self.shards.pass_on(len(placed), self.find_piece(len(placed)), call))
        return np.concatenate(parts) if parts else np.zeros((0, n_sums))
