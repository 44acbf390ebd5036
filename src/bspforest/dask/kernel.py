"""Ridge regression with trees on a cluster: products with their kernel, and sums of duals in their nodes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ..forest.block_sums import count_blocks, fold_shares
from ..forest.kernels.duals import find_changes
from ..forest.leaf_means import count_sums
from ..forest.node_sums import ROWS_TOGETHER
from ..forest.solver import MAX_KNOWN, PRECONDITIONING_TREES, KernelMatrix, ungroup
from ..forest.tree_operations import TreeOperations
from ..trees.layout import TREES_PER_BLOCK
from .cluster import Shard
from .shard import ORDER
from .trees import RemoteTrees

if PRECONDITIONING_TREES > TREES_PER_BLOCK:
    raise ImportError("the trees that precondition must be in the first shard")


class RemoteMatrix(KernelMatrix):
    """The kernel of trees on a cluster. The client has those trees in order that precondition."""

    def __init__(self, trees: RemoteTrees, n_rows: int, bandwidth: float) -> None:
        self.ensemble = self._trees = trees
        self.n_trees, self.offset, self.n_rows = trees.n_trees, 0, n_rows
        self.knows_nodes = self.n_trees * n_rows <= MAX_KNOWN
        self._number = number = trees.shards.make_number()
        self._owner = owner = _Owner()  # shared with parts: the last of them drops the matrix
        weakref.finalize(owner, trees.shards.unused.append, number)
        unused = [trees.shards.unused.pop() for _ in range(len(trees.shards.unused))]
        found = trees.run(lambda part: ("make_matrix", (number, n_rows, bandwidth, self.knows_nodes, unused)))
        for name, array in zip(ORDER, found[0], strict=True):
            setattr(self, name, np.array(array))

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

        total = _fold(self._trees.shards.parts, self._trees.run(call), self.n_trees)
        return ungroup(total, self.n_trees, p.shape[1])

    def add_up(self, totals: Any, *, set_sums: bool) -> None:
        _send_duals(self._trees)
        self._trees.run(lambda part: ("add_up", (self._number, set_sums)))


class _Owner:
    """Lives as long as a matrix or a part of it does."""


def _fold(parts: list[Shard], found: list[np.ndarray], n_trees: int) -> np.ndarray:
    """Return the sum over the first ``n_trees`` trees of what shards have added up as far as they can."""
    n_blocks = count_blocks(n_trees)
    shares = [
        (count_blocks(part.first), min(n_blocks, count_blocks(part.last)), blocks)
        for part, blocks in zip(parts, found, strict=False)  # the last shards may have none of these trees
    ]
    total = fold_shares(shares, n_blocks)
    return total if total.flags.writeable else total.copy()


def _send_duals(trees: RemoteTrees) -> None:
    """Send duals, which the client has changed, to all shards."""
    duals = trees.arrays.terms
    trees.run(lambda part: ("set_duals", (duals,)))


def _empty_totals(trees: RemoteTrees) -> np.ndarray:
    """Return nothing: the shards keep them."""
    return np.empty(0)


def _make_totals(
    trees: RemoteTrees, n_rows: int, bandwidth: float, totals: np.ndarray, *, set_sums: bool = False
) -> np.ndarray:
    """Let all shards find what each tree predicts in each leaf: see `solver.make_totals`."""
    if set_sums:
        _send_duals(trees)
    trees.run(lambda part: ("make_totals", (n_rows, bandwidth, set_sums)))
    return totals


def _sum_values(
    trees: RemoteTrees, X: np.ndarray, bandwidth: float, totals: Any, stds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums over trees for rows as given: see `node_sums.sum_values`."""
    placed, n_columns = trees.place(X), trees.arrays.terms.shape[1]

    def call(piece: slice) -> tuple[str, Any, Callable]:
        rows = placed[piece]
        return "add_values", np.zeros((len(rows), n_columns)), lambda out: (rows, bandwidth, totals is not None, out)

    pieces = trees.pass_on(len(placed), call)
    predicted = np.concatenate(pieces) if pieces else np.zeros((0, n_columns))
    return predicted, *_sum_stds(trees, X, stds)


def _sum_stds(trees: RemoteTrees, X: np.ndarray, stds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sums over trees of standard deviations, and their counts: see `node_sums.sum_stds`."""
    sums, counts = np.zeros((2, len(X), stds.shape[1]))
    if stds.shape[1]:
        for slots in trees.find_newest(X).T:  # one tree after another, as in a single process
            found = stds[slots]
            known = np.isfinite(found)
            sums += np.where(known, found, 0.0)
            counts += known
    return sums, counts


def _sum_leaves(trees: RemoteTrees, X: np.ndarray, n_classes: int, *, hard: bool = False) -> np.ndarray:
    """Return the sums over trees of what leaves predict: see `leaf_means.sum_leaves`."""

    def call(piece: slice) -> tuple[str, Any, Callable]:
        rows = X[piece]
        return "add_leaves", np.zeros((len(rows), count_sums(n_classes))), lambda out: (rows, n_classes, out, hard)

    pieces = trees.pass_on(len(X), call)
    return np.concatenate(pieces) if pieces else np.zeros((0, count_sums(n_classes)))


def _learn_rows(
    trees: RemoteTrees,
    slots: np.ndarray,
    columns: np.ndarray,
    weights: np.ndarray,
    mean: np.ndarray,
    bandwidth: float,
    ridge: float,
    step: float,
) -> np.ndarray:
    """Set the duals of rows one after another; return their residuals: see `node_sums.learn_rows`."""
    arrays, parts = trees.arrays, trees.shards.parts
    slots = slots.astype(np.int32)
    if len(parts) == 1:
        call = "learn_rows", (slots, columns, weights, mean, bandwidth, ridge, step)
        arrays.terms[slots], residuals = trees.run(lambda part: call)[0]
        return residuals
    n_blocks = count_blocks(trees.n_trees)
    changes: np.ndarray | None = None
    residuals = np.empty_like(columns)
    for first in range(0, len(slots), ROWS_TOGETHER):
        rows = slice(first, first + ROWS_TOGETHER)
        some, wanted = slots[rows], columns[rows]
        known = some, bandwidth, n_blocks, changes
        found = trees.run(lambda part: ("walk_rows", (count_blocks(part.first), *known)))  # noqa: B023
        sums = _fold(parts, found, trees.n_trees)
        changes = np.empty_like(wanted)
        given = trees.n_trees, wanted, mean, weights[rows], ridge, float(step)
        find_changes(sums[np.newaxis], *given, residuals[rows], changes)
        arrays.terms[some] += changes
    trees.run(lambda part: ("change_rows", (changes,)))
    return residuals


# What predictions need of the trees of a forest, on a cluster.
REMOTE_OPERATIONS = TreeOperations(
    RemoteMatrix, _empty_totals, _make_totals, _learn_rows, _sum_values, _sum_stds, _sum_leaves
)
