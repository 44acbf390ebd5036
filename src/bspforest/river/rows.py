"""Rows from dicts and DataFrames, whose keys come in any order, are left out, and appear later."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimators.base import HUGE

if TYPE_CHECKING:
    import pandas as pd

Columns = dict[Hashable, int]


def order_keys(keys: Iterable[Hashable]) -> list[Hashable]:
    """Keys in an order that does not depend on how they came; they need not be comparable."""
    return sorted(keys, key=lambda key: (type(key).__name__, repr(key)))


def widen(columns: Columns, keys: Iterable[Hashable]) -> Columns:
    """``columns`` with further ones for new keys."""
    new = order_keys(key for key in keys if key not in columns)
    return {**columns, **{key: len(columns) + k for k, key in enumerate(new)}}


def check_number(name: str, value: Any) -> float:
    """``value`` as a finite number, or an error that says what ``name`` is."""
    if type(value) is float and math.isfinite(value):
        return value
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {value!r}, which is not a finite number") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}, which is not a finite number")
    return number


def check_feature(key: Hashable, value: Any, place: str = "") -> float:
    """``value`` as a number, or an error that says what to do about it."""
    name = f"feature {key!r}{place}"
    if value is None or value != value:
        raise ValueError(
            f"{name} is {value!r}: fill it in the pipeline (preprocessing.StatImputer), or leave the key out, "
            "which counts as 0"
        )
    try:
        number = check_number(name, value)
    except ValueError as error:
        if isinstance(value, float):
            raise
        raise ValueError(
            f"{error}: encode it in the pipeline, for instance with compose.SelectType(str) | preprocessing.OneHotEncoder()"
        ) from None
    if abs(number) >= HUGE:
        raise ValueError(f"{name} is {value!r}: numbers below {HUGE:g} are expected")
    return number


def read_row(x: Mapping, columns: Columns) -> np.ndarray:
    """``x`` as a row of numbers. This is on the way of every call: one that is as expected costs 2 µs with 8 features."""
    try:
        values = [x[key] for key in columns]
    except KeyError:
        values = [x.get(key, 0.0) for key in columns]
    except TypeError:
        raise TypeError(f"x must be a dict of features, got {type(x).__name__}") from None
    try:
        if math.hypot(*values) < HUGE:  # of numbers of any type, without a word about overflow, and not of strings
            row = np.array([values or [0.0]], dtype=np.float64)
            if row.ndim == 2:
                return row
    except (TypeError, ValueError, OverflowError):
        pass
    return np.array([[check_feature(key, value) for key, value in zip(columns, values, strict=True)]])


def read_frame(X: pd.DataFrame, columns: Columns) -> np.ndarray:
    """The rows of a DataFrame."""
    rows = np.zeros((len(X), max(len(columns), 1)))
    for key in X.columns:
        if key not in columns:
            continue
        given = X[key]
        values = given.to_numpy(dtype=np.float64, na_value=np.nan) if given.dtype.kind in "biuf" else None
        if values is None or not (np.abs(values) < HUGE).all():
            values = [check_feature(key, value, f" in row {k}") for k, value in enumerate(given.tolist())]
        rows[:, columns[key]] = values
    return rows


def check_frame(X: Any) -> None:
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"X must be a pandas DataFrame, got {type(X).__name__}")
    if not X.columns.is_unique:
        raise ValueError(f"X has the column {X.columns[X.columns.duplicated()][0]!r} more than once")


def check_weight(w: Any) -> float:
    weight = check_number("w", w)
    if weight < 0:
        raise ValueError(f"w is {w!r}: a weight of at least 0 is expected")
    return weight
