"""The kernel of a forest as a matrix over the rows it holds, known by its products, and ridge regression with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..engine.ensemble import TreeEnsemble
from ..engine.kernels.joint import add_product, order_tree, set_weights
from ..engine.parallel import run_parts

# Trees are summed in blocks of this many, and blocks in order: the result does not depend on the number of threads.
TREES_PER_BLOCK = 8

# The norm of the residual relative to that of the labels at which a solution is good. (letter: accuracy 0.954 after 20 products,
# 0.965 after 40, which is where this ends.)
TOLERANCE = 0.01

# Products after which a solution is taken as it is.
MOST_PRODUCTS = 200


class OrderedTree(NamedTuple):
    """A tree with its rows in the order of a walk from left to right; its nodes are intervals of them."""

    slots: np.ndarray  # (n,) int32
    starts: np.ndarray  # (nodes,) int32
    ends: np.ndarray  # (nodes,) int32
    nodes: np.ndarray  # (nodes,) int32, references
    times: np.ndarray  # (nodes,) when the node is cut; infinite for leaves
    parent_times: np.ndarray  # (nodes,)
    weights: np.ndarray  # (nodes,)


def order(trees: TreeEnsemble, m: int, n_rows: int) -> OrderedTree:
    """Return tree m, which holds ``n_rows`` rows, with its rows in order."""
    most = 2 * n_rows
    slots = np.empty(n_rows, np.int32)
    starts, ends, nodes = (np.empty(most, np.int32) for _ in range(3))
    times, parent_times = np.empty(most), np.empty(most)
    depth = 2 * trees.arrays.cuts.shape[1] + 3
    stack = np.empty((depth, 2), np.int64)
    n = order_tree(trees.arrays, m, slots, starts, ends, nodes, times, parent_times, stack, np.empty(depth))
    kept = [array[:n].copy() for array in (starts, ends, nodes, times, parent_times)]
    return OrderedTree(slots, kept[0], kept[1], kept[2], kept[3], kept[4], np.empty(n))


class KernelMatrix:
    """K(x, z), the mean over trees of the share of time that they spend together, for the rows that a forest holds.

    Arrays of rows are by slot, as in the forest.

    Parameters
    ----------
    trees : TreeEnsemble
    n_rows : int
        Rows held.
    indices : sequence of int
        The trees to be used.
    """

    def __init__(self, trees: TreeEnsemble, n_rows: int, indices: Any = None) -> None:
        indices = range(trees.n_trees) if indices is None else indices
        self.n_threads = trees.n_threads
        self.n_rows = n_rows
        parts = run_parts(
            lambda a, b: [order(trees, indices[k], n_rows) for k in range(a, b)],
            len(indices),
            trees.n_threads,
            n_rows * len(indices),
        )
        self.trees: list[OrderedTree] = [tree for part in parts for tree in part]

    def set_bandwidth(self, bandwidth: float) -> None:
        """Weigh the nodes of all trees."""

        def run(first: int, last: int) -> None:
            for tree in self.trees[first:last]:
                set_weights(tree.times, tree.parent_times, bandwidth, tree.weights)

        run_parts(run, len(self.trees), self.n_threads, self.n_rows * len(self.trees))

    def multiply(self, p: np.ndarray) -> np.ndarray:
        """Return K p; p has one column per label column."""
        n_blocks = -(-len(self.trees) // TREES_PER_BLOCK)
        partial = np.zeros((n_blocks, *p.shape))

        def run(first: int, last: int) -> None:
            prefix, delta = np.empty(self.n_rows + 1), np.empty(self.n_rows + 1)
            for b in range(first, last):
                for tree in self.trees[b * TREES_PER_BLOCK : (b + 1) * TREES_PER_BLOCK]:
                    add_product(tree.slots, tree.starts, tree.ends, tree.weights, p, partial[b], prefix, delta)

        run_parts(run, n_blocks, self.n_threads, self.n_rows * len(self.trees))
        total = partial[0]
        for b in range(1, n_blocks):
            total += partial[b]
        total /= len(self.trees)
        return total


def solve(
    matrix: KernelMatrix,
    y: np.ndarray,
    diagonal: np.ndarray,
    *,
    start: np.ndarray | None = None,
    tolerance: float = TOLERANCE,
    poll: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """Solve (K + diag) a = y by conjugate gradients, all columns at once.

    Parameters
    ----------
    matrix : KernelMatrix
    y : ndarray of shape (slots, columns)
        Centred labels.
    diagonal : ndarray of shape (slots,)
        Ridge over weight; infinite for rows that take no part, whose solution is 0.
    start : ndarray or None
        Where to start.
    tolerance : float
        The norm of each column's residual relative to that of y.
    poll : callable
        Called before each product; may raise.
    """
    scale = float(np.abs(y).max(initial=0.0)) or 1.0  # squares of large labels would overflow, of small ones vanish
    solution = _solve_scaled(matrix, y / scale, diagonal, None if start is None else start / scale, tolerance, poll)
    return solution * scale


def _solve_scaled(
    matrix: KernelMatrix,
    y: np.ndarray,
    diagonal: np.ndarray,
    start: np.ndarray | None,
    tolerance: float,
    poll: Callable[[], None],
) -> np.ndarray:
    inside = np.isfinite(diagonal)[:, None]
    ridge = np.where(inside, diagonal[:, None], 0.0)
    y = np.where(inside, y, 0.0)
    a = np.zeros_like(y) if start is None else np.where(inside, start, 0.0)
    residual = y.copy() if start is None else np.where(inside, y - matrix.multiply(a) - ridge * a, 0.0)
    # Jacobi: the diagonal of K is 1, so rows with small weights converge as fast as the others.
    precondition = 1.0 / (1.0 + ridge)
    z = residual * precondition
    p = z.copy()
    rho = np.sum(residual * z, axis=0)
    goal = tolerance * np.linalg.norm(y, axis=0)
    for _ in range(MOST_PRODUCTS):
        if (np.linalg.norm(residual, axis=0) <= goal).all():
            break
        poll()
        q = np.where(inside, matrix.multiply(p) + ridge * p, 0.0)
        curvature = np.sum(p * q, axis=0)
        step = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
        a += step * p
        residual -= step * q
        z = residual * precondition
        rho, before = np.sum(residual * z, axis=0), rho
        p = z + np.divide(rho, before, out=np.zeros_like(rho), where=before > 0) * p
    return a
