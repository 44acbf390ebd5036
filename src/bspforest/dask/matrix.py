"""Joint values of trees on a cluster: products with their kernel, sums in their nodes, and solving again after a loss."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from copy import copy
from typing import Any, cast

import numpy as np

from ..engine.arrays import LABEL_WEIGHT, TREES_PER_BLOCK
from ..engine.forest import OnlineForest
from ..engine.interrupts import UNPROTECTED, Interrupts
from ..engine.kernels.duals import find_changes
from ..values import kernel_matrix, node_sums
from ..values.block_sums import count_blocks, fold_shares
from ..values.joint import JointValues
from ..values.kernel_matrix import MOST_KNOWN, PRECONDITIONING_TREES, KernelMatrix, ungroup
from ..values.node_sums import ROWS_TOGETHER
from ..values.tuning import Choice
from .cluster import MOST_ATTEMPTS, Shard, TreesReplacedError
from .shard import ORDER
from .trees import RemoteTrees

if PRECONDITIONING_TREES > TREES_PER_BLOCK:
    raise ImportError("the trees that precondition must be in the first shard")


class RemoteMatrix(KernelMatrix):
    """The kernel of trees on a cluster. The client has those trees in order that precondition."""

    def __init__(self, trees: RemoteTrees, n_rows: int, bandwidth: float, knows_nodes: bool | None) -> None:
        self.ensemble = self._trees = trees
        self.n_trees, self.offset, self.n_rows = trees.n_trees, 0, n_rows
        self.knows_nodes = self.n_trees * n_rows <= MOST_KNOWN if knows_nodes is None else knows_nodes
        self._number = number = trees.shards.make_key()
        self._generation = trees.shards.n_lost
        self._owner = owner = _Owner()  # shared with parts: the last of them drops the matrix
        weakref.finalize(owner, trees.shards.unused.append, ("matrix", number))
        self._set(self._ask(lambda part: ("make_matrix", (trees.key, number, n_rows, bandwidth, self.knows_nodes))))

    def _set(self, results: list[Any]) -> None:
        for name, array in zip(ORDER, results[0], strict=True):
            setattr(self, name, np.array(array))

    def _ask(self, make: Callable[[Shard], tuple[str, tuple] | None]) -> list[Any]:
        trees = self._trees
        with trees.shards.lock:
            trees.check()
            if self._generation != trees.shards.n_lost:
                raise TreesReplacedError
            return trees.read(lambda: trees.ask(make))

    def first(self, n_trees: int) -> RemoteMatrix:
        part = copy(self)
        part.n_trees = min(n_trees, self.n_trees)
        for name in ORDER:
            setattr(part, name, getattr(self, name)[:n_trees])
        return part

    def set_bandwidth(self, bandwidth: float) -> None:
        raise NotImplementedError("bandwidths are tried on a sample, in this process")

    def multiply(self, p: np.ndarray) -> np.ndarray:
        n_blocks = count_blocks(self.n_trees)

        def call(part: Shard) -> tuple[str, tuple] | None:
            n = min(part.last, self.n_trees) - part.first
            return ("multiply", (self._number, n, p, count_blocks(part.first), n_blocks)) if n > 0 else None

        total = fold_of(self._trees.shards.parts, self._ask(call), self.n_trees)
        return ungroup(total, self.n_trees, p.shape[1])

    def add_up(self, totals: Any, *, set_sums: bool) -> None:
        send_known(self._trees)
        self._ask(lambda part: ("add_up", (self._trees.key, self._number, set_sums)))


class _Owner:
    """Lives as long as a matrix or a part of it does."""


def fold_of(parts: list[Shard], found: list[np.ndarray], n_trees: int) -> np.ndarray:
    """Return the sum over the first ``n_trees`` trees of what shards have added up as far as they can."""
    n_blocks = count_blocks(n_trees)
    shares = [
        (count_blocks(part.first), min(n_blocks, count_blocks(part.last)), blocks)
        for part, blocks in zip(parts, found, strict=False)  # the last shards may have none of these trees
    ]
    total = fold_shares(shares, n_blocks)
    return total if total.flags.writeable else total.copy()


def send_known(trees: RemoteTrees) -> None:
    """Send duals and standard deviations, which the client has changed, to all shards."""
    duals, stds = trees.arrays.duals, trees.arrays.stds
    trees.read(lambda: trees.ask(lambda part: ("set_known", (trees.key, duals, stds))))


@kernel_matrix.make_matrix.register
def _(trees: RemoteTrees, n_rows: int, bandwidth: float, *, knows_nodes: bool | None = None) -> RemoteMatrix:
    return RemoteMatrix(trees, n_rows, bandwidth, knows_nodes)


@kernel_matrix.empty_totals.register
def _(trees: RemoteTrees) -> Any:
    return np.empty(0)  # the shards keep them


@kernel_matrix.make_totals.register
def _(trees: RemoteTrees, n_rows: int, bandwidth: float, totals: Any, *, set_sums: bool = False) -> Any:
    if set_sums:
        send_known(trees)
    trees.read(lambda: trees.ask(lambda part: ("make_totals", (trees.key, n_rows, bandwidth, set_sums))))
    return totals


@node_sums.sum_values.register
def _(
    trees: RemoteTrees, X: np.ndarray, bandwidth: float, totals: Any, *, with_stds: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    placed = trees.place(X)
    shapes = trees.arrays.duals.shape[1], *(2 * [trees.arrays.stds.shape[1] if with_stds else 0])

    def call(piece: slice) -> tuple[str, Any, Callable]:
        rows = placed[piece]
        zeros = tuple(np.zeros((len(rows), n)) for n in shapes)
        return "add_values", zeros, lambda parts: (trees.key, rows, bandwidth, totals is not None, parts)

    try:
        pieces = trees.read(lambda: trees.shards.pass_on(len(placed), trees.find_piece(len(placed)), call))
    except KeyError:  # totals of trees that another thread has found lost, and restored
        raise TreesReplacedError from None
    if not pieces:
        return tuple(np.zeros((0, n)) for n in shapes)  # type: ignore[return-value]
    return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))  # type: ignore[return-value]


@node_sums.learn_rows.register
def _(
    trees: RemoteTrees, slots: np.ndarray, targets: np.ndarray, mean: np.ndarray, choice: Choice, step: float
) -> None:
    arrays, shards = trees.arrays, trees.shards
    slots = slots.astype(np.int32)
    if len(shards.parts) == 1:
        call = "learn_rows", (trees.key, slots, targets, mean, tuple(choice), step)
        arrays.duals[slots], arrays.residuals[slots] = trees.read(lambda: trees.ask(lambda part: call))[0]
        return
    n_blocks = count_blocks(trees.n_trees)

    def learn() -> None:
        changes: np.ndarray | None = None
        for first in range(0, len(slots), ROWS_TOGETHER):
            some, wanted = slots[first : first + ROWS_TOGETHER], targets[first : first + ROWS_TOGETHER]
            found = trees.ask(_make_walk(trees.key, some, choice, n_blocks, changes))
            sums = fold_of(shards.parts, found, trees.n_trees)
            weights = np.ascontiguousarray(arrays.labels[some, LABEL_WEIGHT])
            residuals, changes = np.empty_like(wanted), np.empty_like(wanted)
            find_changes(sums, trees.n_trees, wanted, mean, weights, choice.ridge, float(step), residuals, changes)
            arrays.residuals[some] = residuals
            arrays.duals[some] += changes
        trees.ask(lambda part: ("change_rows", (trees.key, changes)))

    trees.read(learn)


def _make_walk(
    key: int, slots: np.ndarray, choice: Choice, n_blocks: int, changes: np.ndarray | None
) -> Callable[[Shard], tuple[str, tuple]]:
    """Return what makes the call of `TreeShard.walk_rows` for each shard."""
    bandwidth = float(choice.bandwidth)
    return lambda part: ("walk_rows", (key, slots, bandwidth, count_blocks(part.first), n_blocks, changes))


class RemoteJointValues(JointValues):
    """Joint values of a forest on a cluster: solved again when trees were lost and drawn afresh."""

    n_lost = 0  # shards lost until the last solve

    def note_losses(self, forest: OnlineForest) -> bool:
        """Note whether trees were replaced since the last solve: their duals are to be found again. Return whether any were."""
        n_lost = cast(RemoteTrees, forest.trees).shards.n_lost
        if n_lost == self.n_lost:
            return False
        self.n_lost = n_lost
        self._changed()
        if self._work is not None:
            self._work, self.held_at_tuning = None, 0
        if self.choice is not None:
            self.is_solved, self.is_rebuilt = False, True
        return True

    def settle(self, forest: OnlineForest, interrupts: Interrupts) -> None:
        """Solve if trees were replaced, or a solve was interrupted by that."""
        self.note_losses(forest)
        if self.is_rebuilt and self.choice is not None and not self.is_stale:
            self._solve(forest, interrupts)

    def inserted(self, forest: OnlineForest, slots: np.ndarray, interrupts: Interrupts) -> None:
        self.note_losses(forest)
        try:
            super().inserted(forest, slots, interrupts)
        except TreesReplacedError:
            self.held_at_tuning = 0  # a revision, if there was one, begins again with the next rows
            self.settle(forest, interrupts)
        except BaseException:
            self.is_solved = False  # some of the rows may have got their duals
            raise

    def _solve(self, forest: OnlineForest, interrupts: Interrupts) -> None:
        plan, was_stale = self._plan, self.is_stale
        for attempt in range(MOST_ATTEMPTS):
            self._plan = plan
            try:
                super()._solve(forest, interrupts)
                return
            except TreesReplacedError:
                if attempt + 1 == MOST_ATTEMPTS:
                    raise
                self.note_losses(forest)
                self.is_stale = was_stale

    def refresh(self, forest: OnlineForest, interrupts: Interrupts = UNPROTECTED) -> None:
        for attempt in range(MOST_ATTEMPTS):
            try:
                super().refresh(forest, interrupts)
                return
            except TreesReplacedError:
                if attempt + 1 == MOST_ATTEMPTS:
                    raise
                self.note_losses(forest)
