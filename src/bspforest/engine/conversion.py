"""Give the rows of a forest other features: a new category, a first gap, or fewer of them after forgetting."""

from __future__ import annotations

import numpy as np

from .config import ForestConfig
from .coordinates import Coordinates
from .forest import OnlineForest
from .interrupts import UNPROTECTED, Interrupts


def convert_forest(
    forest: OnlineForest,
    config: ForestConfig,
    ids: np.ndarray,
    X: np.ndarray,
    sources: np.ndarray,
    groups: np.ndarray | None,
    interrupts: Interrupts = UNPROTECTED,
    *,
    exactly: bool = False,
) -> OnlineForest:
    """Return a forest that holds some of the rows of another with other features. The other one stays as it is.

    Its trees are built afresh, which is exact. Ids, random streams and what joint values have chosen go on.

    Parameters
    ----------
    forest : OnlineForest
    config : ForestConfig
        That of the forest, but for the features.
    ids : ndarray of int
        Rows held.
    X : ndarray of shape (len(ids), n_features)
        The same rows with their new features.
    sources : ndarray of int
        Which of the old features each new one is; -1 if it is none. Weights are taken over.
    groups : ndarray or None
        New features with the same number share a weight.
    interrupts : Interrupts
    exactly : bool
        The rows that are left out are forgotten, as if they had never been seen.
    """
    forest._verify()
    other = forest.copy_without_trees()
    other.config = config
    slots, held = forest.rows.slots_of(ids), forest.rows.held_ids()
    gone = held[~np.isin(held, ids)]
    if len(gone):
        other.rows.remove(gone)
        other.keys.wipe(gone)
    other.trees = forest.trees.make_converted(slots, X, groups)
    if config.is_scaled_by_rows and len(slots):
        scaled = Coordinates.fit(forest.trees.coordinates.kind, other.trees.get_given(), slots)
    else:
        scaled = config.make_coordinates()
    weights = np.where(sources >= 0, forest.trees.coordinates.weights[sources], 1.0)
    other.build_anew(scaled.weigh(_inherit(weights, sources, groups)))
    if exactly:
        other.values.forgotten(other, slots[:0], exactly=True)
    elif len(slots):
        other.values.converted(other, interrupts, was_busy=forest.values.is_busy)
    return other


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
