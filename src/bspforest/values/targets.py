"""Labels as columns of numbers, which ridge regression predicts."""

from __future__ import annotations

import numpy as np

from ..engine.arrays import LABEL, LABEL_WEIGHT
from ..engine.forest import OnlineForest


def find_targets(forest: OnlineForest, slots: np.ndarray) -> np.ndarray:
    """Return the label columns of rows: the outputs of regression; of classes one column each, 0 or 1, of two only the second."""
    labels = forest.trees.arrays.labels[slots]
    n_classes = forest.trees.n_classes
    if not n_classes:
        return np.delete(labels, LABEL_WEIGHT, axis=1)
    codes = labels[:, LABEL].astype(np.intp)
    if n_classes <= 2:
        return (codes == n_classes - 1).astype(np.float64)[:, None]
    return np.eye(n_classes)[codes]


def collect_targets(forest: OnlineForest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the slots of the rows held, and label columns and weights by slot; free slots have no weight."""
    slots = forest.rows.held_slots()
    targets = find_targets(forest, slots)
    y, w = np.zeros((forest.rows.n_slots, targets.shape[1])), np.zeros(forest.rows.n_slots)
    y[slots], w[slots] = targets, forest.trees.arrays.labels[slots, LABEL_WEIGHT]
    return slots, y, w
