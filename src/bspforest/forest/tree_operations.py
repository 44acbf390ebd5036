"""What predictions need of the trees of a forest, wherever these are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .leaf_means import sum_leaves
from .node_sums import learn_rows, sum_stds, sum_values
from .solver import KernelMatrix, empty_totals, make_totals


class TreeOperations(NamedTuple):
    """Products with the kernel of a forest, sums of duals in its nodes, and sums of leaves; by default, for trees of this process."""

    make_matrix: Callable[..., KernelMatrix] = KernelMatrix
    empty_totals: Callable[..., np.ndarray] = empty_totals
    make_totals: Callable[..., np.ndarray] = make_totals
    learn_rows: Callable[..., np.ndarray] = learn_rows
    sum_values: Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]] = sum_values
    sum_stds: Callable[..., tuple[np.ndarray, np.ndarray]] = sum_stds
    sum_leaves: Callable[..., np.ndarray] = sum_leaves


LOCAL_OPERATIONS = TreeOperations()
