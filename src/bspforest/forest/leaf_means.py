"""Means and variances of labels, or frequencies of classes, from the sums of leaves.

Rows carry these terms: in classification their weight, in the column of their class; in regression w, w g and w g², with g the label
less a common centre, near which sums of squares do not cancel.
"""

from __future__ import annotations

import numpy as np

from ..trees.trees import TreeEnsemble

# Columns of the terms in regression.
WEIGHT, FIRST, SECOND = range(3)

# Columns of the sums over trees in regression: of means and their squares, relative to the centre, and of variances; and the trees
# whose leaf has weight. In classification there is one column per class, and then the trees.
SUM_MEAN, SUM_MEAN_SQUARED, SUM_VARIANCE, N_TREES = range(4)

# Pairs of row and tree whose leaves are read together. (Larger blocks leave the cache.)
PAIRS_AT_ONCE = 100_000


def count_terms(n_classes: int) -> int:
    """Return how many terms a row carries."""
    return n_classes or 3


def count_sums(n_classes: int) -> int:
    """Return the number of columns of sums over trees."""
    return n_classes + 1 if n_classes else 4


def insert_classes(terms: np.ndarray, places: np.ndarray, n_after: int) -> np.ndarray:
    """Return terms, or sums of them, with columns of more classes; class k becomes class ``places[k]``."""
    if not terms.shape[-1]:  # cut nodes have no sums
        return terms
    new = np.zeros((*terms.shape[:-1], n_after))
    new[..., places] = terms
    return new


def shift_terms(terms: np.ndarray, shift: float) -> np.ndarray:
    """Return terms of regression, or sums of them, with ``shift`` added to all labels."""
    if not terms.shape[-1]:  # cut nodes have no sums
        return terms
    w, first, second = (terms[..., k] for k in (WEIGHT, FIRST, SECOND))
    with np.errstate(all="ignore"):  # records that were never used may contain anything
        return np.stack([w, first + shift * w, second + shift * (2.0 * first + shift * w)], axis=-1)


def add_leaves(trees: TreeEnsemble, X: np.ndarray, n_classes: int, out: np.ndarray, *, hard: bool = False) -> None:
    """Add the predictions of trees for rows, as given, to ``out``: see `SUM_MEAN`. With ``hard``, each tree has one vote.

    Trees are added one after another, so that it does not matter how they are divided among processes.
    """
    step = max(1, PAIRS_AT_ONCE // trees.n_trees)
    every = np.arange(trees.n_trees)[:, None]
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        sums = trees.arrays.leaf_sums[every, trees.find_leaves(X[rows]).T]
        predicted = predict_classes(sums, hard=hard) if n_classes else predict_labels(sums)
        out[rows] = np.add.accumulate(np.concatenate([out[None, rows], predicted]), axis=0)[-1]


def predict_classes(sums: np.ndarray, *, hard: bool) -> np.ndarray:
    """Return what leaves with these sums, of shape (trees, rows, classes), predict, and which of them have weight."""
    total = sums.sum(axis=2, keepdims=True)
    votes = sums.argmax(axis=2)[:, :, None] == np.arange(sums.shape[2]) if hard else sums
    share = np.divide(1.0, 1.0 if hard else total, out=np.zeros_like(total), where=total > 0)
    return np.concatenate([votes * share, total > 0], axis=2)


def predict_labels(sums: np.ndarray) -> np.ndarray:
    """Return mean, squared mean and variance of leaves with these sums, of shape (trees, rows, 3), and which have weight."""
    weight = sums[:, :, WEIGHT]
    share = np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0)
    mean = sums[:, :, FIRST] * share
    variance = np.maximum(sums[:, :, SECOND] * share - mean * mean, 0.0)
    return np.stack([mean, mean * mean, variance, weight > 0], axis=2)


def sum_leaves(trees: TreeEnsemble, X: np.ndarray, n_classes: int, *, hard: bool = False) -> np.ndarray:
    """Return the sums over trees of what leaves predict for rows, as given: see `SUM_MEAN`."""
    out = np.zeros((len(X), count_sums(n_classes)))
    add_leaves(trees, X, n_classes, out, hard=hard)
    return out
