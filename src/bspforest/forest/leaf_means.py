"""Means and variances of labels, or frequencies of classes, from the sums of leaves.

Rows carry these terms: in classification their weight, in the column of their class; in regression w, w g and w g², with g the label
less a common centre, near which sums of squares do not cancel.
"""

from __future__ import annotations

import numpy as np

from ..trees.trees import TreeEnsemble
from .kernels.means import FIRST, SECOND, WEIGHT, add_leaf_means


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
    placed, how = trees.place(X), (n_classes > 0, bool(hard))

    def read(a: int, b: int, *scratch: np.ndarray) -> None:
        trees.call(add_leaf_means, trees.arrays, placed, a, b, *how, out, *scratch)

    trees.read_rows(read, len(placed))


def sum_leaves(trees: TreeEnsemble, X: np.ndarray, n_classes: int, *, hard: bool = False) -> np.ndarray:
    """Return the sums over trees of what leaves predict for rows, as given: see `SUM_MEAN`."""
    out = np.zeros((len(X), count_sums(n_classes)))
    add_leaves(trees, X, n_classes, out, hard=hard)
    return out
