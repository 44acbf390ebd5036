"""The prediction rule that the parameters of an interface ask for."""

from __future__ import annotations

from typing import Any

import numpy as np

from .means import MeanPrediction
from .ridge import RidgePrediction
from .tree_operations import LOCAL_OPERATIONS, TreeOperations


def make_prediction(
    prediction: str,
    bandwidth: Any,
    ridge: Any,
    half_life: Any,
    seed: int,
    operations: TreeOperations = LOCAL_OPERATIONS,
) -> MeanPrediction | RidgePrediction:
    """Return the prediction rule for the parameters of an interface."""
    if prediction == "mean":
        return MeanPrediction(operations)
    fixed_bandwidth, fixed_ridge = (None if isinstance(given, str) else float(given) for given in (bandwidth, ridge))
    fixed_half_life = np.inf if half_life is None else None if isinstance(half_life, str) else float(half_life)
    return RidgePrediction(fixed_bandwidth, fixed_ridge, seed, fixed_half_life, operations)
