"""The map from features, as they are given, to the coordinates in which trees are cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .kernels.ranks import rank_rows
from .layout import PAIRS, as_rows
from .scaling import find_range_of, spread

# Knots of the distribution function of a feature, at most.
MAX_KNOTS = 256

# Rows from which knots are found, at most: evenly spaced ones, if there are more.
MAX_RANKED = 65_536

# Share of the range, or of the ranks, by which coordinates may be off before they are replaced.
MAX_MOVED = 0.1
MAX_RANKS_MOVED = 0.05


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A map from features to coordinates: to ranks, if there are knots; then [low, high] to [0, 1]; then times weights.

    Attributes
    ----------
    low, high, weights : ndarray of shape (d,)
    knots, ranks : ndarray of shape (d, n_knots)
        The distribution function of each feature, the last knot repeated. Without ranks, ``n_knots`` is 0.
    family : int
        How the coordinates are cut: see `bspforest.trees.layout`.
    """

    low: np.ndarray
    high: np.ndarray
    weights: np.ndarray
    knots: np.ndarray
    ranks: np.ndarray
    family: int = PAIRS

    @classmethod
    def from_range(cls, low: np.ndarray, high: np.ndarray) -> Coordinates:
        """Return coordinates that map [low, high] to [0, 1]."""
        return cls(low, high, np.ones(len(low)), np.empty((len(low), 0)), np.empty((len(low), 0)))

    @classmethod
    def unscaled(cls, d: int) -> Coordinates:
        """Return coordinates that are the features themselves."""
        return cls.from_range(np.zeros(d), np.ones(d))

    @classmethod
    def fit(cls, kind: str, rows: np.ndarray, slots: np.ndarray) -> Coordinates:
        """Return coordinates of a kind, ``"minmax"`` or ``"quantile"``, for the rows, as given, in some slots."""
        if kind == "minmax":
            return cls.from_range(*find_range_of(rows, slots))
        knots, ranks = find_knots(rows, slots)
        return replace(cls.unscaled(rows.shape[1]), knots=knots, ranks=ranks)

    @property
    def uses_ranks(self) -> bool:
        return self.knots.shape[1] > 0

    @property
    def kind(self) -> str:
        """How features are scaled, ``"quantile"`` or ``"minmax"``."""
        return "quantile" if self.uses_ranks else "minmax"

    def weigh(self, weights: np.ndarray) -> Coordinates:
        """Return the same coordinates with other weights."""
        return replace(self, weights=weights)

    def cut_by(self, family: int) -> Coordinates:
        """Return the same coordinates with cuts of another family."""
        return replace(self, family=family)

    def like(self, other: Coordinates) -> Coordinates:
        """Return the same scaling with the weights and the family of others."""
        return replace(self, weights=other.weights, family=other.family)

    def to_scaling(self) -> np.ndarray:
        """Return shift and scale, the part of the map that kernels apply."""
        scaling = spread(self.low, self.high)
        scaling[1] *= self.weights
        return scaling

    def place(self, X: np.ndarray) -> np.ndarray:
        """Return rows as trees hold them, before shift and scale: as given, or ranks."""
        if not self.uses_ranks:
            return X
        out = np.empty(X.shape)
        rank_rows(as_rows(X), self.knots, self.ranks, out)
        return out

    def is_equal(self, other: Coordinates) -> bool:
        """Return whether both are the same map, cut in the same way."""
        names = ("low", "high", "weights", "knots", "ranks")
        return self.family == other.family and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in names
        )

    def is_close(self, other: Coordinates) -> bool:
        """Return whether the scaling, not the weights, is of the same kind and features, and has hardly moved."""
        if self.kind != other.kind or len(self.low) != len(other.low):
            return False
        if not self.uses_ranks:
            moved = MAX_MOVED * (self.high - self.low)
            return not (np.any(np.abs(other.low - self.low) > moved) or np.any(np.abs(other.high - self.high) > moved))
        gaps = np.abs(other.place(np.ascontiguousarray(self.knots.T)).T - self.ranks)
        return bool(gaps.max(initial=0.0) <= MAX_RANKS_MOVED)


def find_knots(rows: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return knots and ranks of the distribution function of each feature; equal values have the middle of their ranks."""
    slots = slots[:: -(-len(slots) // MAX_RANKED)] if len(slots) > MAX_RANKED else slots
    columns = [_find_knots_of(rows[slots, k]) for k in range(rows.shape[1])]
    n = max(len(values) for values, _ in columns)
    knots, ranks = (
        np.stack([np.pad(column[part], (0, n - len(column[part])), mode="edge") for column in columns])
        for part in range(2)
    )
    return knots, ranks


def _find_knots_of(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not len(column):
        return np.zeros(1), np.full(1, 0.5)
    values, counts = np.unique(column, return_counts=True)
    ranks = (np.cumsum(counts) - 0.5 * counts) / len(column)
    if len(values) > MAX_KNOTS:
        wanted = np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], MAX_KNOTS))
        wanted = np.unique(np.minimum(wanted, len(values) - 1))
        values, ranks = values[wanted], ranks[wanted]
    return values, ranks
