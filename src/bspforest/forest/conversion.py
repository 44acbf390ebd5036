"""Give the rows of a forest other features: a new category, a first gap, or fewer of them after forgetting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..trees.coordinates import Coordinates
from .config import ForestConfig, MinimaxBudget
from .forest import OnlineForest


def convert_forest(
    forest: OnlineForest,
    ids: np.ndarray,
    X: np.ndarray,
    sources: np.ndarray,
    groups: np.ndarray | None,
    *,
    strict: bool = False,
) -> OnlineForest:
    """Return a forest that stores some of the rows of another with other features, and forgets the rest. The other one stays as it is.

    It is torn: its trees are built when it is next used, which is exact. Ids, random streams and settings go on.

    Parameters
    ----------
    forest : OnlineForest
    ids : ndarray of int
        Rows held.
    X : ndarray of shape (len(ids), n_features)
        The same rows with their new features.
    sources : ndarray of int
        Which of the old features each new one is; -1 if it is none. Weights are taken over.
    groups : ndarray or None
        New features with the same number share a weight.
    strict : bool
        See `OnlineForest.forget`.
    """
    other = forest.copy_without_trees()
    other.torn = True
    other.config = config = _convert_config(forest.config, sources, groups)
    slots, held = forest.rows.slots_of(ids), forest.rows.held_ids()
    gone = held[~np.isin(held, ids)]
    other.stale = forest.stale
    if len(gone):
        other.prediction = forest.prediction.forget(len(gone), len(ids), strict=strict)
        other.stale |= other.prediction.is_ridge
        other.rows = other.rows.remove(gone)
        other.keys.wipe(gone)
    other.trees = forest.trees.make_converted(slots, X, groups)
    if config.is_scaled_by_rows and len(slots):
        scaled = Coordinates.fit(forest.trees.coordinates.kind, other.trees.given, slots)
    else:
        scaled = config.make_coordinates()
    weights = np.where(sources >= 0, forest.trees.coordinates.weights[sources], 1.0)
    scaled = scaled.cut_by(forest.trees.coordinates.family)
    other.trees.set_coordinates(scaled.weigh(_inherit(weights, sources, groups)))
    return other


def _convert_config(config: ForestConfig, sources: np.ndarray, groups: np.ndarray | None) -> ForestConfig:
    """Return the configuration of a forest for other features. Those of categories and missing values are 0 or 1."""
    known = sources >= 0
    budget, scaling, weights = config.budget, config.scaling, config.feature_weights
    if isinstance(budget, MinimaxBudget):
        budget = replace(budget, d=len(sources))
    if isinstance(scaling, tuple):
        scaling = np.where(known, scaling[0][sources], 0.0), np.where(known, scaling[1][sources], 1.0)
    if isinstance(weights, np.ndarray):
        weights = _inherit(np.where(known, weights[sources], 1.0), sources, groups)
    return replace(config, n_features=len(sources), budget=budget, scaling=scaling, feature_weights=weights)


def share_weights(forest: OnlineForest, sources: np.ndarray, groups: np.ndarray | None) -> None:
    """Let features that are 0 in all rows held share weights with others: the trees stay as they are.

    Those whose ``sources`` are -1 are new.
    """
    coordinates = forest.trees.coordinates
    forest.trees.groups = groups
    forest.trees.set_coordinates(coordinates.weigh(_inherit(coordinates.weights.copy(), sources, groups)))


def _inherit(weights: np.ndarray, sources: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Give new features, whose ``sources`` are -1, the weight of another member of their group, if there is one."""
    if groups is None:
        return weights
    for k in np.flatnonzero(sources < 0):
        known = np.flatnonzero((groups == groups[k]) & (sources >= 0))
        if len(known):
            weights[k] = weights[known[0]]
    return weights
