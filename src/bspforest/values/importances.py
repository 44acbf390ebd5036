"""Importances of features, from the trees and labels that a forest holds."""

from __future__ import annotations

import numpy as np

from ..engine.arrays import SCALE
from ..engine.forest import OnlineForest
from .kernel_matrix import KernelMatrix
from .metric import can_learn, find_slopes
from .targets import collect_targets

# Pairs of row and tree that are looked at, about, and trees, at least and at most: more gain little.
MOST_PAIRS = 2_000_000
FEWEST_TREES, MOST_TREES = 5, 50


def find_importances(forest: OnlineForest) -> np.ndarray:
    """Return the share of each feature in what labels vary by: its mean squared slope times its variance.

    They sum to 1, or are all 0 if labels do not depend on any feature. Slopes are those that cuts reveal, so a feature that only
    matters together with others counts, too. Isotropic cuts tell nothing with more than 2,000 features: NaN.
    """
    slots = forest.rows.held_slots()
    d = forest.config.n_features
    if not len(slots) or (d > 1 and not can_learn(forest.trees)):
        return np.full(d, np.nan if len(slots) else 0.0)
    n_trees = min(forest.trees.n_trees, MOST_TREES, max(FEWEST_TREES, MOST_PAIRS // len(slots)))
    arrays = forest.trees.arrays
    _, y, w = collect_targets(forest)
    slopes = find_slopes(KernelMatrix(forest.trees, len(slots), 1.0, n_trees, knows_nodes=True), y, w)
    shares = slopes * (arrays.rows[slots] * arrays.scaling[SCALE]).var(axis=0)
    total = shares.sum()
    return shares / total if total > 0 else np.zeros(d)
