"""Estimate the memory and the file size of a forest from its shape. docs/guide/sizes.md explains the formula."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .forest.config import AUTO_CUTS, FAMILIES, choose_min_split, count_columns
from .forest.leaf_means import count_terms
from .trees.coordinates import MAX_KNOTS
from .trees.layout import CUT, DUE, ISOTROPIC, LEAF, STATE
from .trees.trees import MORE_NODES, SPARE_NODES, count_nodes

# The header of a file, without names of features and classes.
HEADER = 4000


class Size(NamedTuple):
    """The size of a forest in bytes: ``nbytes_`` after `fit`, and of its file without compression."""

    memory: int
    file: int


def estimate_size(
    n_samples: int,
    n_features: int,
    n_estimators: int = 200,
    *,
    prediction: Literal["ridge", "mean"] = "ridge",
    n_classes: int = 0,
    n_outputs: int = 1,
    cuts: Literal["auto", "pairs", "axes", "isotropic"] = "auto",
    min_samples_split: int | Literal["auto"] = "auto",
    scaling: str | None = "auto",
) -> Size:
    """Return the memory that a forest takes after `fit`, and the size of its file, mostly within 10 %.

    Trees are taken to be cut until all leaves are small. Those of ridge predictions are, by default. Those of means are if there are ten
    or more features; with few features, or correlated ones, the budget ends before, and this is an upper bound. With a
    ``min_samples_split`` above ten, up to a fifth more is needed.

    A forest that learns a stream has up to a half more memory than it needs at the moment, above 256 MB up to a quarter more. Its
    file is not larger for that.

    Parameters
    ----------
    n_samples : int
        Rows held: with a window, the window.
    n_features, n_estimators : int
    prediction : {"ridge", "mean"}, default="ridge"
    n_classes : int, default=0
        0 for regression.
    n_outputs : int, default=1
    cuts : {"auto", "pairs", "axes", "isotropic"}, default="auto"
    min_samples_split : int or "auto", default="auto"
    scaling : str or None, default="auto"
        With "quantile", rows are held twice: as given, and as ranks. "auto" may choose that.

    Returns
    -------
    Size
        With the fields ``memory`` and ``file``, in bytes.

    Examples
    --------
    >>> import bspforest, numpy as np
    >>> X = np.random.default_rng(0).random((2000, 5))
    >>> forest = bspforest.BSPForestRegressor(20, scaling="minmax", random_state=0).fit(X, X[:, 0])
    >>> expected = bspforest.estimate_size(2000, 5, 20)
    >>> f"{expected.memory / 1e6:.1f} MB"
    '1.4 MB'
    >>> bool(abs(expected.memory / forest.nbytes_ - 1) < 0.1)
    True
    """
    if prediction not in ("ridge", "mean"):
        raise ValueError(f"prediction must be 'ridge' or 'mean', got {prediction!r}")
    if cuts not in ("auto", *FAMILIES):
        raise ValueError(f"cuts must be one of auto, {', '.join(FAMILIES)}, got {cuts!r}")
    joint, family = prediction == "ridge", FAMILIES[AUTO_CUTS[0] if cuts == "auto" else cuts]
    split = choose_min_split(n_estimators, is_ridge=joint) if min_samples_split == "auto" else min_samples_split
    n_columns = count_columns(n_classes, n_outputs) if joint else 0
    n_terms = n_columns or count_terms(n_classes)

    # Rows, labels and weights, terms, residuals, and standard deviations.
    by_slot = n_features + n_outputs + 1 + n_terms + n_columns + (0 if n_classes else n_columns)
    ranks = n_features if scaling == "quantile" else 0  # which are not in files

    box = 4 * n_features * (3 if family == ISOTROPIC else 2)
    per_node = CUT.itemsize + box + 8 * n_columns + LEAF.itemsize + 8 * n_terms
    nodes = count_nodes(split) * n_samples

    def add_up(n: float) -> float:
        """Return the bytes of a tree with room for n nodes."""
        return min(n, n_samples) * per_node + 4 * n_samples

    queue = DUE.itemsize * n_samples / split
    memory = 8 * n_samples * (by_slot + ranks) + n_estimators * (
        add_up(SPARE_NODES * nodes + MORE_NODES) + STATE.itemsize + queue
    )
    knots = 16 * n_features * min(n_samples, MAX_KNOTS) if ranks else 0
    header = 24 * n_features + HEADER + knots
    file = (8 * by_slot + 4) * n_samples + n_estimators * (add_up(nodes) + STATE.itemsize + 8) + header
    return Size(round(memory), round(file))
