"""Estimate the memory and the file size of a forest from its shape. docs/guide/sizes.md explains the formula."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from .forest.config import AUTO_CUTS, FAMILIES, MAX_ROWS, ForestConfig, choose_min_split, count_columns
from .forest.leaf_means import count_terms
from .trees.coordinates import MAX_KNOTS
from .trees.layout import CUT, DUE, ISOTROPIC, LEAF, STATE
from .trees.trees import MORE_NODES, SPARE_NODES, count_nodes

# Units of a window that is given as a size.
UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

# A stream takes up to so much more memory than a forest after `fit`: there is room for rows to come.
ROOM = 1.5

# A window that is given as a size holds at least so many rows.
MIN_WINDOW = 10

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
    '4.8 MB'
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


def make_config(n_features: int, n_classes: int, parameters: dict[str, Any], n_outputs: int = 1) -> ForestConfig:
    """Return the configuration for the parameters of an interface; a window that is given as a size holds as many rows as fit."""
    window = parameters["window"]
    if not isinstance(window, str):
        return ForestConfig.from_parameters(n_features, n_classes, n_outputs=n_outputs, **parameters)
    config = ForestConfig.from_parameters(n_features, n_classes, n_outputs=n_outputs, **{**parameters, "window": None})
    return replace(config, window=_count_rows(window, config))


def _count_rows(window: str, config: ForestConfig) -> int:
    """Return how many rows a stream can hold in the memory that ``window`` names."""
    found = re.fullmatch(rf"\s*(\d+(?:\.\d*)?)\s*({'|'.join(UNITS)})\s*", window)
    if not found or float(found[1]) == 0:
        raise ValueError(
            f"window must be a number of rows, or a size such as '2 GB' ({', '.join(UNITS)}), got {window!r}"
        )
    size = float(found[1]) * UNITS[found[2]]
    low, high = 0, MAX_ROWS
    while low < high:
        n = (low + high + 1) // 2
        if ROOM * _estimate(n, config) <= size:
            low = n
        else:
            high = n - 1
    if low < MIN_WINDOW:
        raise ValueError(
            f"window={window!r} holds only {low} rows of {config.n_features} features with {config.n_trees} trees; "
            f"{MIN_WINDOW} rows take {ROOM * _estimate(MIN_WINDOW, config) / 1000:,.0f} kB"
        )
    return low


def _estimate(n: int, config: ForestConfig) -> int:
    return estimate_size(
        n,
        config.n_features,
        config.n_trees,
        prediction="ridge" if config.n_columns else "mean",
        n_classes=config.n_classes,
        n_outputs=config.n_outputs,
        cuts=config.cuts,  # type: ignore[arg-type]
        min_samples_split=config.min_samples_split,
        scaling="quantile" if isinstance(config.scaling, str) and config.scaling != "minmax" else None,
    ).memory
