"""The kernel of a forest as a matrix over the rows it holds, known by its products, and ridge regression with it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..engine.ensemble import TreeEnsemble
from ..engine.kernels.intervals import LANES, add_products, order_trees
from ..engine.parallel import run_parts

# Trees are summed in blocks of this many, and blocks in order: the result does not depend on the number of threads.
TREES_PER_BLOCK = 8

# The norm of the residual relative to that of the labels at which a solution is good. (letter: accuracy 0.954 after 20 products,
# 0.965 after 40, which is where this ends.)
TOLERANCE = 0.01

# Products after which a solution is taken as it is.
MOST_PRODUCTS = 200


class KernelMatrix:
    """K(x, z), the mean over trees of the share of time that they spend together, for the rows that a forest holds.

    Arrays of rows are by slot, as in the forest. The trees must not change while this is in use.

    Parameters
    ----------
    trees : TreeEnsemble
    n_rows : int
        Rows held, at least one.
    bandwidth : float
    n_trees : int or None
        How many of the trees to use, the first ones; None for all.
    """

    def __init__(self, trees: TreeEnsemble, n_rows: int, bandwidth: float, n_trees: int | None = None) -> None:
        self.ensemble = trees
        self.n_trees = trees.n_trees if n_trees is None else n_trees
        self.n_rows = n_rows
        n, most = self.n_trees, max(1, n_rows - 1)
        self.slots = np.empty((n, n_rows), np.int32)
        self.own = np.empty((n, n_rows))
        self.starts, self.ends = np.empty((n, most), np.int32), np.empty((n, most), np.int32)
        self.weights = np.empty((n, most))
        self.counts = np.empty(n, np.int64)
        self.set_bandwidth(bandwidth)

    @property
    def _order(self) -> tuple[np.ndarray, ...]:
        return self.slots, self.own, self.starts, self.ends, self.weights, self.counts

    def set_bandwidth(self, bandwidth: float) -> None:
        """Weigh the nodes of all trees. They are walked again, in about the time of a product."""
        arrays = self.ensemble.arrays

        def run(first: int, last: int) -> None:
            depth = arrays.cuts.shape[1] + 1
            order_trees(
                arrays, first, last, bandwidth, *self._order, np.empty((depth, 2), np.int64), np.empty(depth)
            )

        run_parts(run, self.n_trees, self.ensemble.n_threads, self.n_rows * self.n_trees)

    def multiply(self, p: np.ndarray) -> np.ndarray:
        """Return K p, of the same shape as p: slots by columns."""
        n_columns = p.shape[1]
        padded = n_columns if n_columns == 1 else -(-n_columns // LANES) * LANES
        if padded > n_columns:
            p = np.concatenate([p, np.zeros((len(p), padded - n_columns))], axis=1)
        p = np.ascontiguousarray(p)
        n_blocks = -(-self.n_trees // TREES_PER_BLOCK)
        partial = np.zeros((n_blocks, *p.shape))

        def run(first: int, last: int) -> None:
            prefix, steps = np.empty((2, self.n_rows + 1, min(padded, LANES)))
            for b in range(first, last):
                trees = b * TREES_PER_BLOCK, min(self.n_trees, (b + 1) * TREES_PER_BLOCK)
                add_products(*self._order, *trees, p, partial[b], prefix, steps)

        run_parts(run, n_blocks, self.ensemble.n_threads, self.n_rows * self.n_trees * padded)
        total = partial[0]
        for b in range(1, n_blocks):
            total += partial[b]
        total /= self.n_trees
        return total[:, :n_columns]


def solve(
    matrix: KernelMatrix,
    y: np.ndarray,
    diagonal: np.ndarray,
    *,
    start: np.ndarray | None = None,
    tolerance: float | None = None,
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
    tolerance : float or None
        The norm of each column's residual relative to that of y. None: `TOLERANCE`.
    poll : callable
        Called before each product; may raise.
    """
    scale = float(np.abs(y).max(initial=0.0)) or 1.0  # squares of large labels would overflow, of small ones vanish
    tolerance = TOLERANCE if tolerance is None else tolerance
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
