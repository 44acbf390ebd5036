"""Estimate the memory and the file size of a forest from its shape. docs/guide/sizes.md explains the formula."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .engine.arrays import CUT, DUE, ISOTROPIC, LEAF, STATE, find_box_threshold
from .engine.config import FAMILIES, count_columns

# Nodes of at least k points per row, times k, in trees that are cut until few points are left. It would be 2 if all sizes of the
# two sides of a cut were equally likely. Measured with uniform, normal and real rows of 2 to 256 features: 2.05 to 2.15 for k = 4,
# 2.0 to 2.2 for k = 6, and 2.15 to 2.6 for k = 16, which only forests of many features have.
NODES, MORE_PER_POINT = 2.1, 0.025

# The room that `fit` leaves for more nodes: a share, and some in every tree.
SPARE_OF_FEW, SPARE_OF_MANY, MANY, ALWAYS_SPARE = 1.1, 1.02, 10_000, 16

# The header of a file, without names of features and classes.
HEADER = 4000


class Size(NamedTuple):
    """The size of a forest in bytes: ``nbytes_`` after `fit`, and of its file without compression."""

    memory: int
    file: int


def estimate_size(
    n_samples: int,
    n_features: int,
    n_estimators: int = 100,
    *,
    values: Literal["joint", "mean"] = "joint",
    n_classes: int = 0,
    n_outputs: int = 1,
    cuts: Literal["pairs", "axes", "isotropic"] = "pairs",
    min_samples_split: int | Literal["auto"] = "auto",
    scaling: str | None = "auto",
) -> Size:
    """Return the memory that a forest takes after `fit`, and the size of its file, mostly within 10 %.

    Trees are taken to be cut until all leaves are small. Those of joint values are, by default. Those of means are if there are ten
    or more features; with few features, or correlated ones, the budget ends before, and this is an upper bound. With a
    ``min_samples_split`` above ten, up to a fifth more is needed.

    A forest that learns a stream has up to a half more memory than it needs at the moment, above 256 MB up to a quarter more. Its
    file is not larger for that.

    Parameters
    ----------
    n_samples : int
        Rows held: with a window, the window.
    n_features, n_estimators : int
    values : {"joint", "mean"}, default="joint"
    n_classes : int, default=0
        0 for regression.
    n_outputs : int, default=1
    cuts : {"pairs", "axes", "isotropic"}, default="pairs"
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
    >>> round(expected.memory / 1e6, 1), round(forest.nbytes_ / 1e6, 1)
    (4.6, 4.6)
    """
    if values not in ("joint", "mean"):
        raise ValueError(f"values must be 'joint' or 'mean', got {values!r}")
    if cuts not in FAMILIES:
        raise ValueError(f"cuts must be one of {', '.join(FAMILIES)}, got {cuts!r}")
    joint, family = values == "joint", FAMILIES[cuts]
    split = (2 if joint else 4) if min_samples_split == "auto" else min_samples_split
    n_columns = count_columns(n_classes, n_outputs) if joint else 0
    n_values = 0 if joint else n_classes or 3

    by_slot = n_features + 1 + n_outputs + 2 * n_columns + (0 if n_classes else n_columns)
    if scaling == "quantile":
        by_slot += n_features

    nodes, boxes = count_nodes(split), count_nodes(max(split, find_box_threshold(family, n_features)))
    per_node = CUT.itemsize + 8 * n_columns + LEAF.itemsize + 8 * n_values
    per_box = 4 * n_features * (3 if family == ISOTROPIC else 2)

    def add_up(spare: float, always: int) -> float:
        """Return the bytes of the nodes of a tree, with room for more."""
        counts = [min(n_samples, spare * each * n_samples + always) for each in (nodes, boxes)]
        return counts[0] * per_node + counts[1] * per_box + 4 * n_samples

    spare = SPARE_OF_MANY if n_samples > MANY else SPARE_OF_FEW
    queue = DUE.itemsize * n_samples / split
    memory = 8 * n_samples * by_slot + n_estimators * (add_up(spare, ALWAYS_SPARE) + STATE.itemsize + queue)
    file = (
        (8 * by_slot + 4) * n_samples + n_estimators * (add_up(1.0, 0) + STATE.itemsize + 8) + 24 * n_features + HEADER
    )
    return Size(round(memory), round(file))


def count_nodes(least: int) -> float:
    """Return how many nodes have at least so many points, per row."""
    return min(1.0, (NODES + MORE_PER_POINT * min(max(least - 6, 0), 10)) / least)
