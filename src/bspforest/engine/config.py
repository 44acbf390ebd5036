"""The parameters of a forest, as every interface builds them and model files keep them."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .arrays import AXES, ISOTROPIC, PAIRS
from .coordinates import Coordinates

FAMILIES = {"pairs": PAIRS, "axes": AXES, "isotropic": ISOTROPIC}

# Rows are numbered by int32.
MOST_ROWS = 2**31 - 1

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

    def __call__(self, n: int) -> float:
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
    with np.errstate(over="ignore", invalid="ignore"):
        bad = ~((low < high) & np.isfinite(high - low))
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(
            f"scaling: low must be below high, and their difference finite, but column {k} has "
            f"low={low[k]}, high={high[k]}"
        )
    return low, high


@dataclass(frozen=True)
class ForestConfig:
    """What a forest is made with, and keeps for as long as it lives.

    Parameters
    ----------
    n_trees, n_features, n_classes, min_samples_split : int
        ``n_classes`` is 0 for regression; more may be added later.
    cuts : {"pairs", "axes", "isotropic"}
    budget : callable
        The budget for a number of rows held.
    redraw : bool
        Refine as the paper's Algorithm 4 is printed.
    scaling : "auto", "minmax", "quantile", None or (low, high)
        ``"auto"`` lets joint values choose between the next two.
    window : int or None
        Hold at most this many rows, the latest.
    n_outputs : int
        Numbers per label, in regression.
    n_columns : int
        Label columns of joint values; 0 for mean values.
    metric : bool
        Whether joint values learn weights of features.
    """

    n_trees: int
    n_features: int
    n_classes: int
    cuts: str
    budget: Callable[[int], float]
    min_samples_split: int
    redraw: bool
    scaling: str | Range | None
    window: int | None
    n_outputs: int = 1
    n_columns: int = 0
    metric: bool = False

    @property
    def is_scaled_by_rows(self) -> bool:
        """Whether the scaling is found from the rows held."""
        return isinstance(self.scaling, str)

    def make_coordinates(self) -> Coordinates:
        """Return the coordinates to begin with, before any row is seen."""
        if isinstance(self.scaling, tuple):
            return Coordinates.from_range(*self.scaling)
        if self.scaling is None:
            return Coordinates.unscaled(self.n_features)
        zeros = np.zeros(self.n_features)
        return Coordinates.from_range(zeros, zeros)

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
        refinement: str,
        scaling: Any,
        window: Any,
        values: str = "mean",
        metric: str | None = None,
        n_outputs: int = 1,
    ) -> ForestConfig:
        """Return the configuration for the parameters of an interface, whose types and bounds are checked already."""
        joint = values == "joint"
        if joint and refinement == "redraw":
            raise ValueError(
                "values='joint' needs refinement='exact': trees that redraw their cuts depend on the order of the rows and "
                "cannot be built afresh"
            )
        if n_outputs > 1 and not joint:
            raise ValueError(f"y has {n_outputs} columns; several outputs need values='joint'")
        if isinstance(budget, str) and budget == "auto":
            budget = math.inf if joint else "minimax"
        if isinstance(min_samples_split, str):
            min_samples_split = 2 if joint else 4
        return cls(
            n_trees=int(n_estimators),  # numpy's integers may be too small to calculate with
            n_features=n_features,
            n_classes=n_classes,
            cuts=cuts,
            budget=make_budget(budget, budget_scale, n_features),
            min_samples_split=min(int(min_samples_split), MOST_ROWS),
            redraw=refinement == "redraw",
            scaling=make_scaling("minmax" if scaling == "auto" and not joint else scaling, n_features),
            window=None if window is None else int(window),
            n_outputs=n_outputs,
            n_columns=count_columns(n_classes, n_outputs) if joint else 0,
            metric=joint and metric == "learned",
        )


def count_columns(n_classes: int, n_outputs: int) -> int:
    """Return the number of label columns of joint values: one for two classes, else one per class or output."""
    if not n_classes:
        return n_outputs
    return 1 if n_classes == 2 else n_classes


def budgets_of_blocks(config: ForestConfig, held: int, sizes: list[int]) -> list[np.ndarray]:
    """Return the budgets after the rows of each block, with ``held`` rows before; raise if they decrease.

    The exact law needs only the last one of a block.
    """
    most = config.window if config.window is not None else 2**62
    last = config.budget(held) if held else 0.0
    blocks = []
    for size in sizes:
        first = 1 if config.redraw else size
        values = []
        for n in range(held + first, held + size + 1):
            value = config.budget(min(n, most))
            if value < last:
                raise ValueError(
                    f"budget must not decrease with the number of rows held, but it is {last!r} for fewer rows "
                    f"than {min(n, most)} and then {value!r}"
                )
            last = value
            values.append(value)
        held += size
        blocks.append(np.array(values) if config.redraw else np.full(size, last))
    return blocks


def budgets_of_held(config: ForestConfig, held: int) -> np.ndarray:
    """Return the budget for the rows held, or, if cuts are redrawn, after each of them."""
    first = 1 if config.redraw else max(held, 1)
    return np.array([config.budget(k) for k in range(first, held + 1)], float)
