"""A learned metric: weights of features, from the slopes of the label that label-free cuts reveal (docs/design.md, section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from ..trees.layout import ISOTROPIC, SCALE
from ..trees.parallel import run_parts
from ..trees.trees import TreeEnsemble
from .columns import average, collect_columns
from .kernels.slopes import measure_cuts, solve_nonnegative
from .solver import KernelMatrix

if TYPE_CHECKING:
    from .forest import OnlineForest

# Weights are mean squared slopes to this power. (0.5 removes noise too slowly, 1 overshoots after the second round.)
POWER = 0.75

# No weight is less than this share of the largest.
MIN_WEIGHT = 0.01

# Distances of isotropic cuts that are looked at, at most: 160 MB.
MAX_DISTANCES = 20_000_000

# With more features, isotropic cuts would need too large a matrix.
MAX_ISOTROPIC_FEATURES = 2_000

# Cuts whose sides are closer, by the size of the range, or have less weight, tell nothing but rounding.
MIN_DISTANCE = 1e-200

# Pairs of row and tree that importances are found from, about, and trees, at least and at most: more gain little.
MAX_PAIRS = 2_000_000
FEWEST_TREES, MAX_TREES = 5, 50

MAX_SWEEPS, TOLERANCE = 500, 1e-6


def can_learn(trees: TreeEnsemble) -> bool:
    """Return whether slopes can be found with these trees."""
    return trees.n_features > 1 and (trees.arrays.family != ISOTROPIC or trees.n_features <= MAX_ISOTROPIC_FEATURES)


def find_slopes(matrix: KernelMatrix, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the mean squared slope of the label along each feature, in the coordinates of the trees.

    Each cut says: the excess of its labels is the sum of the squared slopes times the squared distances of its sides, along the
    coordinates that it uses. (Where the sides are apart along the normal of the cut, as in a round node, that is the distance along
    the normal times the squares of its components. But a node is flat along a feature that hardly varies, and such a feature must not
    be given its partner's slopes.) The slopes are those, none negative, that fit all cuts best, weighted by one over the distance.

    Parameters
    ----------
    matrix : KernelMatrix
        Trees in order, with their nodes.
    y, w : ndarray of shape (slots, columns), (slots,)
        Labels and weights by slot.
    """
    trees, d = matrix.ensemble, matrix.ensemble.n_features
    excess, distances = _measure(matrix, y, w)
    m, k = np.nonzero(distances.sum(axis=2) > MIN_DISTANCE)
    if len(m) == 0:
        return np.zeros(d)
    excess, distances = excess[m, k], distances[m, k]
    shares = distances / distances.sum(axis=1, keepdims=True)
    if trees.arrays.family == ISOTROPIC:
        goal, normal = shares.T @ excess, sparse.csr_array(shares.T @ distances)
    else:
        cuts = trees.arrays.cuts[m + matrix.offset, matrix.nodes[m, k]]
        i, j = cuts["i"].astype(np.int32), cuts["j"].astype(np.int32)
        goal = np.bincount(i, shares[:, 0] * excess, d) + np.bincount(j, shares[:, 1] * excess, d)
        entries = [shares[:, p] * distances[:, q] for p, q in ((0, 0), (1, 1), (0, 1), (1, 0))]
        places = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
        normal = sparse.coo_array((np.concatenate(entries), places), shape=(d, d)).tocsr()
    if trees.groups is not None:  # one slope each
        members = sparse.csr_array((np.ones(d), (np.arange(d), trees.groups)), shape=(d, d))
        goal, normal = members.T @ goal, (members.T @ normal @ members).tocsr()
    slopes = np.zeros(d)
    compressed = normal.indptr.astype(np.int32), normal.indices.astype(np.int32), normal.data
    solve_nonnegative(*compressed, goal, slopes, MAX_SWEEPS, TOLERANCE)
    return slopes if trees.groups is None else slopes[trees.groups]


def _measure(matrix: KernelMatrix, y: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return excess and distances of all cuts: see `measure_cuts`."""
    trees, n_trees = matrix.ensemble, matrix.n_trees
    w = w / (w.max(initial=0.0) or 1.0)
    y = y / (np.abs(y).max(initial=0.0) or 1.0)
    y = y - average(y, w)  # else sums of squares of large labels would cancel
    n_distances = 2
    if trees.arrays.family == ISOTROPIC:
        n_distances = trees.n_features
        n_trees = min(n_trees, max(1, MAX_DISTANCES // (matrix.n_rows * n_distances)))
    excess = np.zeros((n_trees, matrix.starts.shape[1]))
    distances = np.zeros((*excess.shape, n_distances))

    def run(first: int, last: int) -> None:
        prefix = np.empty((matrix.n_rows + 1, y.shape[1] + 3))
        order = matrix.slots, matrix.starts, matrix.ends, matrix.counts, matrix.nodes
        measure_cuts(trees.arrays, *order, matrix.offset, first, last, y, w, excess, distances, prefix)

    run_parts(run, n_trees, trees.n_threads, 5 * matrix.n_rows * n_trees)
    return excess, distances


def find_weights(slopes: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """Return new weights, given the slopes in coordinates with these ones; None if there are no slopes."""
    squared = slopes * weights**2
    largest = squared.max(initial=0.0)
    if not 0 < largest < np.inf:
        return None
    return np.maximum((squared / largest) ** POWER, MIN_WEIGHT)


def find_importances(forest: OnlineForest) -> np.ndarray:
    """Return the share of each feature in what labels vary by: its mean squared slope times its variance.

    They sum to 1, or are all 0 if labels do not depend on any feature. Slopes are those that cuts reveal, so a feature that only
    matters together with others counts, too. Isotropic cuts tell nothing with more than 2,000 features: NaN.
    """
    slots = forest.rows.held_slots()
    d = forest.config.n_features
    if not len(slots) or (d > 1 and not can_learn(forest.trees)):
        return np.full(d, np.nan if len(slots) else 0.0)
    n_trees = min(forest.trees.n_trees, MAX_TREES, max(FEWEST_TREES, MAX_PAIRS // len(slots)))
    _, y, w = collect_columns(forest, forest.prediction.half_life)
    slopes = find_slopes(KernelMatrix(forest.trees, len(slots), 1.0, n_trees, knows_nodes=True), y, w)
    return find_shares(forest.trees, slots, slopes)


def find_shares(trees: TreeEnsemble, slots: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the share of each feature in what labels vary by in the rows in some slots, given their slopes."""
    with np.errstate(over="ignore", invalid="ignore"):  # a given range may be far from the rows
        shares = slopes * (trees.arrays.rows[slots] * trees.arrays.scaling[SCALE]).var(axis=0)
        total = shares.sum()
        return shares / total if 0 < total < np.inf else np.zeros(len(shares))
