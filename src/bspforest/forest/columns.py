"""Labels as columns of numbers, which ridge regression predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..trees.memory import empty
from .config import count_columns

if TYPE_CHECKING:
    from .forest import OnlineForest


def find_columns(forest: OnlineForest, slots: np.ndarray) -> np.ndarray:
    """Return the label columns of rows: the outputs of regression; of classes one column each, 0 or 1, of two only the second."""
    labels = forest.y[slots]
    n_classes = forest.config.n_classes
    if not n_classes:
        return labels
    codes = labels[:, 0].astype(np.intp)
    if n_classes <= 2:
        return (codes == n_classes - 1).astype(np.float64)[:, None]
    return np.eye(n_classes)[codes]


def collect_columns(forest: OnlineForest, half_life: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the slots of the rows stored, and label columns and weights by slot; free slots have no weight."""
    slots = forest.rows.held_slots()
    columns = find_columns(forest, slots)
    y, w = np.zeros((forest.rows.n_slots, columns.shape[1])), np.zeros(forest.rows.n_slots)
    y[slots], w[slots] = columns, find_weights(forest, half_life)
    return slots, y, w


def find_weights(forest: OnlineForest, half_life: float) -> np.ndarray:
    """Return weights of the rows stored, oldest first: relative ones, times their recency."""
    w = forest.weights[forest.rows.held_slots()]
    w = w / find_unit(w)
    if half_life < np.inf:
        w *= find_recency(forest.n_seen - 1 - forest.rows.held_ids(), half_life)
    return w


def find_recency(ages: np.ndarray, half_life: float) -> np.ndarray:
    """Return the factors by which rows of these ages, in rows, weigh less than the latest one."""
    return np.exp2(-ages / half_life)


def find_unit(w: np.ndarray) -> float:
    """Return the mean of positive weights, by which weights are divided: a common factor changes nothing."""
    return float(w[w > 0].mean()) if (w > 0).any() else 1.0


def average(y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the weighted mean of each column; 0 without weights."""
    total = w.sum()
    return (w @ y) / total if total > 0 else np.zeros(y.shape[1])


def insert_columns(old: np.ndarray, places: np.ndarray, n_after: int) -> np.ndarray:
    """Return label columns, of deviations from the mean label, with columns of new classes, which are 0 or unknown as the others.

    Class k becomes class ``places[k]``. A single class does not deviate from its mean. The column of the second of two classes
    becomes two columns that add up to 0. No score changes.
    """
    new = empty((*old.shape[:-1], count_columns(n_after, 1)), np.float64)
    new[:] = 0.0
    if len(places) == 1:
        return new
    new[np.isnan(old[..., 0])] = np.nan
    if len(places) == 2:
        new[..., places[0]], new[..., places[1]] = -old[..., 0], old[..., 0]
    else:
        new[..., places] = old
    return new


def insert_means(old: np.ndarray, places: np.ndarray, n_after: int) -> np.ndarray:
    """Return the mean of each label column with those of new classes: see `insert_columns`."""
    shares = {1: np.ones(1), 2: np.array([1.0 - old[0], old[0]])}.get(len(places), old)
    means = np.zeros(n_after)
    means[places] = shares
    return means[1:] if n_after == 2 else means
