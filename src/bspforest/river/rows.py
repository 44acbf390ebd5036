"""Rows from dicts and DataFrames: keys come in any order, may be missing, and appear later."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import HUGE

if TYPE_CHECKING:
    import pandas as pd

Columns = dict[Hashable, int]


def order_keys(keys: Iterable[Hashable]) -> list[Hashable]:
    """Return keys in an order that does not depend on how they came; they need not be comparable."""
    return sorted(keys, key=lambda key: (type(key).__name__, repr(key)))


def widen(columns: Columns, keys: Iterable[Hashable]) -> Columns:
    """Return ``columns`` with further ones for new keys."""
    new = order_keys(key for key in keys if key not in columns)
    return {**columns, **{key: len(columns) + k for k, key in enumerate(new)}}


def check_number(name: str, value: Any) -> float:
    """Return ``value`` as a finite number; raise an error that calls it ``name`` otherwise."""
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
    """Return the value of a feature as a number; raise an error with the remedy otherwise."""
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
    """Return ``x`` as a row of numbers. Every call takes this path: 2 µs with 8 features, if ``x`` is as expected."""
    try:
        values = [x[key] for key in columns]
    except KeyError:
        values = [x.get(key, 0.0) for key in columns]
    except TypeError:
        raise TypeError(f"x must be a dict of features, got {type(x).__name__}") from None
    try:
        if math.hypot(*values) < HUGE:  # takes numbers of any type, no strings, and does not warn of overflow
            row = np.array([values or [0.0]], dtype=np.float64)
            if row.ndim == 2:
                return row
    except (TypeError, ValueError, OverflowError):
        pass
    return np.array([[check_feature(key, value) for key, value in zip(columns, values, strict=True)]])


def pad_columns(X: np.ndarray, n: int) -> np.ndarray:
    """Return rows with columns of zeros after their own, n in all."""
    if X.shape[1] == n:
        return X
    padded = np.zeros((len(X), n))
    padded[:, : X.shape[1]] = X
    return padded


def read_frame(X: pd.DataFrame, columns: Columns) -> np.ndarray:
    """Return the rows of a DataFrame as numbers."""
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
    """Raise unless X is a DataFrame with distinct columns."""
    import pandas as pd  # here and below: an optional dependency of river

    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"X must be a pandas DataFrame, got {type(X).__name__}")
    if not X.columns.is_unique:
        raise ValueError(f"X has the column {X.columns[X.columns.duplicated()][0]!r} more than once")


def make_series(values: Any, X: pd.DataFrame, dtype: Any = None) -> pd.Series:
    """Return values as a Series with the index of X."""
    import pandas as pd

    return pd.Series(values, index=X.index, dtype=dtype)


def make_frame(values: Any, X: pd.DataFrame, columns: list) -> pd.DataFrame:
    """Return values as a DataFrame with the index of X and these columns, of any kind."""
    import pandas as pd

    return pd.DataFrame(values, index=X.index, columns=pd.Index(columns, tupleize_cols=False))


def check_weight(w: Any) -> float:
    """Return a weight as a number of at least 0."""
    weight = check_number("w", w)
    if weight < 0:
        raise ValueError(f"w is {w!r}: a weight of at least 0 is expected")
    return weight
