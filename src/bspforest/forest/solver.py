"""The kernel of a forest as a matrix over the rows it holds, known by its products, and ridge regression with it."""

from __future__ import annotations

from copy import copy

import numpy as np

from ..trees.kernels.intervals import (
    LANES,
    add_inverse,
    add_products,
    find_parents,
    order_trees,
    prepare_inverse,
    set_node_sums,
)
from ..trees.layout import TREES_PER_BLOCK
from ..trees.parallel import run_parts
from ..trees.trees import TreeEnsemble
from .block_sums import count_blocks, fold_share
from .steps import Steps

# The norm of the residual relative to that of the labels at which a solution is good. (letter: accuracy 0.954 after 20 products,
# 0.965 after 40, which is where this ends.)
TOLERANCE = 0.01

# Pairs of row and tree up to which a matrix knows the nodes that its intervals come from, 8 bytes per pair. In larger forests, they are
# looked up again once the matrix is gone. (1,000,000 rows with 100 trees took 16.4 GB at the peak.)
MAX_KNOWN = 30_000_000

# Trees whose own kernels are inverted to precondition.
PRECONDITIONING_TREES = 4

# Rows that share their leaves have a matrix of ones, which cannot be inverted where the ridge over their weights is much smaller than
# this: heavier weights count as if it were so much.
MIN_DIAGONAL = 1e-6

# What the numpy calls around a product cost, in units of `bspforest.forest.steps`: 150 µs.
MIN_WORK = 20_000.0

# Products after which a solution is taken as it is.
MAX_PRODUCTS = 200


def count_work(n_rows: int, n_trees: int, n_columns: int) -> float:
    """Return what a product costs, in units of `bspforest.forest.steps`."""
    return MIN_WORK + n_rows * n_trees * n_columns


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
        How many of the trees to use; None for all.
    offset : int
        The first of them.
    knows_nodes : bool or None
        Whether to know the nodes that intervals come from; None: if that takes little memory.
    """

    def __init__(
        self,
        trees: TreeEnsemble,
        n_rows: int,
        bandwidth: float,
        n_trees: int | None = None,
        offset: int = 0,
        *,
        knows_nodes: bool | None = None,
    ) -> None:
        self.ensemble = trees
        self.n_trees = trees.n_trees if n_trees is None else n_trees
        self.offset = offset
        self.n_rows = n_rows
        n, most = self.n_trees, max(1, n_rows - 1)
        self.knows_nodes = n * n_rows <= MAX_KNOWN if knows_nodes is None else knows_nodes
        self.slots = np.empty((n, n_rows), np.int32)
        self.own, self.weights = np.empty((n, n_rows)), np.empty((n, most))
        self.starts, self.ends = (np.empty((n, most), np.int32) for _ in range(2))
        known = n_rows if self.knows_nodes else 0
        self.leaves, self.nodes = (np.empty((n, known), np.int32) for _ in range(2))
        self.counts = np.empty(n, np.int64)
        self.set_bandwidth(bandwidth)

    def first(self, n_trees: int) -> KernelMatrix:
        """Return the matrix of the first trees alone, or of all if there are fewer; its arrays are views of this one's."""
        part = copy(self)
        part.n_trees = min(n_trees, self.n_trees)
        for name in ("slots", "own", "starts", "ends", "weights", "counts", "leaves", "nodes"):
            setattr(part, name, getattr(self, name)[:n_trees])
        return part

    @property
    def _order(self) -> tuple[np.ndarray, ...]:
        return self.slots, self.own, self.starts, self.ends, self.weights, self.counts

    def set_bandwidth(self, bandwidth: float) -> None:
        """Weigh the nodes of all trees. They are walked again, in about the time of a product."""
        arrays = self.ensemble.arrays

        def run(first: int, last: int) -> None:
            depth = arrays.cuts.shape[1] + 1
            scratch = np.empty((depth, 2), np.int64), np.empty(depth)
            order_trees(arrays, self.offset, first, last, bandwidth, *self._order, self.leaves, self.nodes, *scratch)

        run_parts(run, self.n_trees, self.ensemble.n_threads, self.n_rows * self.n_trees)

    def multiply(self, p: np.ndarray) -> np.ndarray:
        """Return K p, of the same shape as p: slots by columns."""
        n_blocks = count_blocks(self.n_trees)
        return ungroup(fold_share(self.multiply_blocks(p), 0, n_blocks)[0], self.n_trees, p.shape[1])

    def multiply_blocks(self, p: np.ndarray) -> np.ndarray:
        """Return the products of blocks of trees, to be added up: blocks by groups of columns by slots by lanes."""
        lanes = 1 if p.shape[1] == 1 else LANES
        n_groups = -(-p.shape[1] // lanes)
        grouped = np.zeros((n_groups, len(p), lanes))  # each group fits a cache
        for c in range(p.shape[1]):
            grouped[c // lanes, :, c % lanes] = p[:, c]
        n_blocks = count_blocks(self.n_trees)
        partial = np.zeros((n_blocks, *grouped.shape))

        def run(first: int, last: int) -> None:
            prefix, steps = np.empty((2, self.n_rows + 1, lanes))
            for b in range(first, last):
                trees = b * TREES_PER_BLOCK, min(self.n_trees, (b + 1) * TREES_PER_BLOCK)
                add_products(*self._order, *trees, grouped, partial[b], prefix, steps)

        run_parts(run, n_blocks, self.ensemble.n_threads, self.n_rows * self.n_trees * p.shape[1])
        return partial

    def count_work(self, n_columns: int) -> float:
        """Return what a product with so many columns costs, in units of `bspforest.forest.steps`."""
        return count_work(self.n_rows, self.n_trees, n_columns)

    def add_up(self, totals: np.ndarray, *, set_sums: bool) -> None:
        """Fill ``totals`` with what each tree predicts in each leaf; ``set_sums``: also give all nodes their sums of duals."""
        arrays = self.ensemble.arrays

        def run(first: int, last: int) -> None:
            prefix, steps = np.empty((2, self.n_rows + 1, 1))
            nodes = self.leaves, self.nodes, self.offset, first, last
            set_node_sums(arrays, *self._order, *nodes, set_sums, totals, prefix, steps)

        run_parts(run, self.n_trees, self.ensemble.n_threads, self.n_rows * self.n_trees)


def ungroup(total: np.ndarray, n_trees: int, n_columns: int) -> np.ndarray:
    """Return K p from the sum of the products of all blocks of trees, in place."""
    total /= n_trees
    return np.moveaxis(total, 0, 1).reshape(total.shape[1], -1)[:, :n_columns]


def make_totals(
    trees: TreeEnsemble, n_rows: int, bandwidth: float, totals: np.ndarray, *, set_sums: bool = False
) -> np.ndarray:
    """Return what each tree predicts in each leaf, as `KernelMatrix.add_up` does, without all trees in order at once."""
    for first in range(0, trees.n_trees, TREES_PER_BLOCK):
        n = min(TREES_PER_BLOCK, trees.n_trees - first)
        KernelMatrix(trees, n_rows, bandwidth, n, first, knows_nodes=True).add_up(totals, set_sums=set_sums)
    return totals


def empty_totals(trees: TreeEnsemble) -> np.ndarray:
    """Return an array for what each tree predicts in each leaf."""
    return np.zeros((*trees.arrays.leaves.shape, trees.arrays.terms.shape[1]))


class TreeInverse:
    """The mean of the inverses of single trees' kernels plus a diagonal: a preconditioner.

    A tree's inverse costs about as much as a product with it. (Products to 1 %: 80 without, 52 with four trees, 53 with sixteen, for
    50,000 rows; 108, 73 and 69 for 20,000 with a smaller ridge. Correcting on a coarse space of cells gains less for its cost.)
    """

    def __init__(self, matrix: KernelMatrix, diagonal: np.ndarray) -> None:
        n = min(PRECONDITIONING_TREES, matrix.n_trees)
        self._n_threads = matrix.ensemble.n_threads
        self._slots, self._weights, self._counts = matrix.slots[:n], matrix.weights[:n], matrix.counts[:n]
        self._parents, self._hosts = np.empty_like(matrix.starts[:n]), np.empty_like(self._slots)
        find_parents(matrix.starts, matrix.ends, matrix.counts, n, self._parents, self._hosts)
        self._inverses, self._shares = np.empty(self._slots.shape), np.empty(self._weights.shape)
        links = self._parents, self._hosts
        diagonal = np.maximum(diagonal, MIN_DIAGONAL)
        prepare_inverse(
            self._slots, matrix.own[:n], self._weights, self._counts, *links, diagonal, self._inverses, self._shares
        )

    def __call__(self, b: np.ndarray) -> np.ndarray:
        n = len(self._slots)
        partial = np.zeros((n, *b.shape))
        tree = self._slots, self._weights, self._counts, self._parents, self._hosts, self._inverses, self._shares

        def run(first: int, last: int) -> None:
            passed = np.empty(self._weights.shape[1])
            for m in range(first, last):
                add_inverse(*tree, m, m + 1, b, partial[m], passed)

        run_parts(run, n, self._n_threads, n * b.size)
        return partial.sum(axis=0) / n


def solve_in_steps(
    matrix: KernelMatrix,
    y: np.ndarray,
    diagonal: np.ndarray,
    *,
    start: np.ndarray | None = None,
    tolerance: float | None = None,
) -> Steps[np.ndarray]:
    """Solve (K + diag) a = y by conjugate gradients, all columns at once, with a step for each product.

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
    """
    inside = np.isfinite(diagonal)[:, None]
    ridge = np.where(inside, diagonal[:, None], 0.0)
    y = np.where(inside, y, 0.0)
    a = np.zeros_like(y) if start is None else np.where(inside, start, 0.0)
    residual = y.copy() if start is None else np.where(inside, y - matrix.multiply(a) - ridge * a, 0.0)
    goal = (TOLERANCE if tolerance is None else tolerance) * np.linalg.norm(y, axis=0)
    best, least = a.copy(), residual.copy()
    if (np.linalg.norm(least, axis=0) <= goal).all():
        return best
    precondition = TreeInverse(matrix, diagonal)
    z = precondition(residual)
    p = z.copy()
    rho = np.sum(residual * z, axis=0)
    for _ in range(MAX_PRODUCTS):
        yield matrix.count_work(y.shape[1])
        q = np.where(inside, matrix.multiply(p) + ridge * p, 0.0)
        step = _divide(rho, np.sum(p * q, axis=0))
        a += step * p
        residual -= step * q
        # Residuals of conjugate gradients go up and down. The best combination with the last solution is never worse.
        gap = residual - least
        share = np.clip(_divide(-np.sum(least * gap, axis=0), np.sum(gap * gap, axis=0)), 0.0, 1.0)
        best += share * (a - best)
        least += share * gap
        if (np.linalg.norm(least, axis=0) <= goal).all():
            break
        z = precondition(residual)
        rho, before = np.sum(residual * z, axis=0), rho
        p = z + _divide(rho, before) * p
    return best


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, and 0 where b is not positive: columns that are solved stay as they are."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
