"""The parameters of a forest, as every interface builds them and model files keep them."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from .._magnitude import MAX_MAGNITUDE
from ..trees.coordinates import Coordinates
from ..trees.layout import AXES, ISOTROPIC, PAIRS

FAMILIES = {"pairs": PAIRS, "axes": AXES, "isotropic": ISOTROPIC}

# What ``cuts="auto"`` chooses between, the first to begin with.
AUTO_CUTS = ("pairs", "axes")

# ``min_samples_split="auto"``. With ridge regression, all depths of a tree predict, and many short trees are better than few deep ones:
# 300 trees with 32 rows have 3 % less error than 100 with 16 (geometric mean of 19 tables). Few trees need small leaves to tell rows
# apart: 10 trees with 16 rows had 81.7 % of ImageSegments right in a stream, with 2 rows 89.4 %. Leaf means are the paper's.
MIN_SPLIT_OF_MEANS = 4
TREES_PER_POINT, MAX_MIN_SPLIT = 6, 32

# Rows are numbered by int32.
MAX_ROWS = 2**31 - 1

# Budgets of a user's function that are kept.
MAX_KNOWN = 10_000

Range = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class MinimaxBudget:
    """n^(1/(d+2)), the rate of the paper's Theorem 3."""

    d: int
    scale: float

    def __call__(self, n: int) -> float:
        return self.scale * n ** (1.0 / (self.d + 2))


@dataclass(frozen=True)
class ConstantBudget:
    """The same budget for any number of rows."""

    value: float

    def __call__(self, n: int) -> float:
        return self.value


@dataclass(frozen=True)
class CustomBudget:
    """A function of the user's, checked at each call."""

    budget: Callable[[int], float]
    scale: float
    # The budgets asked for so far: the function is called before the forest is locked, for it may read the forest.
    _known: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, n: int) -> float:
        if n not in self._known:
            if len(self._known) > MAX_KNOWN:
                self._known.clear()
            self._known[n] = self._ask(n)
        return self._known[n]

    def _ask(self, n: int) -> float:
        value = self.budget(n)
        try:
            budget = float(value) if isinstance(value, Real) else math.nan
        except OverflowError:
            raise ValueError(f"budget must return a number that float64 can hold, or math.inf, for {n} rows") from None
        if not budget >= 0:
            raise ValueError(f"budget must return a number of at least 0, but returned {value!r} for {n} rows")
        return budget * self.scale


Budget = MinimaxBudget | ConstantBudget | CustomBudget


def make_budget(budget: Any, scale: Any, d: int) -> Budget:
    """Return the budget that the parameters ``budget`` and ``budget_scale`` describe, for d features."""
    try:
        if isinstance(budget, str) and budget == "minimax":
            return MinimaxBudget(d, float(scale))
        if callable(budget):
            return CustomBudget(budget, float(scale))
        return ConstantBudget(float(budget) * float(scale))
    except OverflowError:
        raise ValueError("budget and budget_scale must be numbers that float64 can hold, or math.inf") from None


def make_scaling(scaling: Any, d: int) -> str | Range | None:
    """Return the parameter ``scaling`` with a pair (low, high) as arrays of d numbers each."""
    if scaling is None or isinstance(scaling, str):
        return scaling
    if len(scaling) != 2:
        raise ValueError(
            f"scaling must be 'auto', 'minmax', 'quantile', None or a pair (low, high), got {len(scaling)} entries"
        )
    try:
        given = [np.asarray(side) for side in scaling]
        if any(side.dtype.kind not in "biufO" for side in given):
            raise TypeError
        low, high = (np.array(np.broadcast_to(side.astype(np.float64), d)) for side in given)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"scaling: low and high must be numbers, one or {d} of them, got {reprlib.repr(scaling)}"
        ) from None
    bad = ~((low < high) & (low >= -MAX_MAGNITUDE) & (high <= MAX_MAGNITUDE))
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(
            f"scaling: low must be below high, and both at most {MAX_MAGNITUDE:g} in absolute value, but column {k} has "
            f"low={low[k]}, high={high[k]}"
        )
    return low, high


def make_weights(weights: Any, d: int) -> str | np.ndarray | None:
    """Return the parameter ``feature_weights``, weights that are given as an array of d numbers."""
    if weights is None or isinstance(weights, str):
        return weights
    try:
        given = np.array(weights, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"feature_weights must be numbers, got {reprlib.repr(weights)}") from None
    if given.shape != (d,) or not (np.isfinite(given) & (given >= 0)).all() or not given.any():
        raise ValueError(
            f"feature_weights must be {d} finite numbers of at least 0, not all 0, one per feature; "
            f"got {reprlib.repr(weights)}"
        )
    return given


@dataclass(frozen=True)
class ForestConfig:
    """What a forest is made with, and keeps for as long as it lives.

    Parameters
    ----------
    n_trees, n_features, n_classes, min_samples_split : int
        ``n_classes`` is 0 for regression; more may be added later.
    cuts : {"auto", "pairs", "axes", "isotropic"}
        ``"auto"`` lets ridge prediction choose between the next two.
    budget : callable
        The budget for a number of rows held.
    scaling : "auto", "minmax", "quantile", None or (low, high)
        ``"auto"`` lets ridge predictions choose between the next two.
    window : int or None
        Hold at most this many rows, the latest.
    n_outputs : int
        Numbers per label, in regression.
    n_columns : int
        Label columns of ridge predictions; 0 for means.
    feature_weights : "learned", array of shape (n_features,) or None
        Weights of features in ridge predictions: learned, given, or all alike.
    """

    n_trees: int
    n_features: int
    n_classes: int
    cuts: str
    budget: Callable[[int], float]
    min_samples_split: int
    scaling: str | Range | None
    window: int | None
    n_outputs: int = 1
    n_columns: int = 0
    feature_weights: str | np.ndarray | None = None

    @property
    def learns_weights(self) -> bool:
        """Whether weights of features are learned."""
        return isinstance(self.feature_weights, str)

    @property
    def chooses_scaling(self) -> bool:
        """Whether features are scaled by range or by ranks, whichever is better."""
        return isinstance(self.scaling, str) and self.scaling == "auto"

    @property
    def first_weights(self) -> np.ndarray:
        """The weights of features to begin with: as given, or all alike."""
        given = self.feature_weights
        return given if isinstance(given, np.ndarray) else np.ones(self.n_features)

    @property
    def is_scaled_by_rows(self) -> bool:
        """Whether the scaling is found from the rows held."""
        return isinstance(self.scaling, str)

    def make_coordinates(self) -> Coordinates:
        """Return the coordinates to begin with, before any row is seen."""
        if isinstance(self.scaling, tuple):
            coordinates = Coordinates.from_range(*self.scaling)
        elif self.scaling is None:
            coordinates = Coordinates.unscaled(self.n_features)
        else:
            zeros = np.zeros(self.n_features)
            coordinates = Coordinates.from_range(zeros, zeros)
        return coordinates.weigh(self.first_weights).cut_by(self.first_family)

    @property
    def first_family(self) -> int:
        """The family of cuts to begin with."""
        return FAMILIES[AUTO_CUTS[0] if self.cuts == "auto" else self.cuts]

    @property
    def scaling_kind(self) -> str:
        """The kind of `Coordinates` to begin with."""
        return "quantile" if self.scaling == "quantile" else "minmax"

    @classmethod
    def from_parameters(
        cls,
        n_features: int,
        n_classes: int,
        *,
        n_estimators: Any,
        cuts: str,
        budget: Any,
        budget_scale: Any,
        min_samples_split: Any,
        scaling: Any,
        window: Any,
        prediction: str = "mean",
        feature_weights: Any = None,
        n_outputs: int = 1,
    ) -> ForestConfig:
        """Return the configuration for the parameters of an interface, whose types and bounds are checked already."""
        joint = prediction == "ridge"
        if n_outputs > 1 and not joint:
            raise ValueError(f"y has {n_outputs} columns; several outputs need prediction='ridge'")
        if isinstance(budget, str) and budget == "auto":
            budget = math.inf if joint else "minimax"
        if isinstance(min_samples_split, str):
            min_samples_split = choose_min_split(int(n_estimators), is_ridge=joint)
        return cls(
            n_trees=int(n_estimators),  # numpy's integers may be too small to calculate with
            n_features=n_features,
            n_classes=n_classes,
            cuts=AUTO_CUTS[0] if cuts == "auto" and not joint else cuts,
            budget=make_budget(budget, budget_scale, n_features),
            min_samples_split=min(int(min_samples_split), MAX_ROWS),
            scaling=make_scaling("minmax" if scaling == "auto" and not joint else scaling, n_features),
            window=None if window is None else int(window),
            n_outputs=n_outputs,
            n_columns=count_columns(n_classes, n_outputs) if joint else 0,
            feature_weights=make_weights(
                None if isinstance(feature_weights, str) and not joint else feature_weights, n_features
            ),
        )


def choose_min_split(n_trees: int, *, is_ridge: bool) -> int:
    """Return what ``min_samples_split="auto"`` means."""
    return min(MAX_MIN_SPLIT, max(2, n_trees // TREES_PER_POINT)) if is_ridge else MIN_SPLIT_OF_MEANS


def count_columns(n_classes: int, n_outputs: int) -> int:
    """Return the number of label columns of ridge predictions: one for two classes, else one per class or output."""
    if not n_classes:
        return n_outputs
    return 1 if n_classes == 2 else n_classes
