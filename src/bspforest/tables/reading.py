"""Read columns of tables (pandas, polars, pyarrow, numpy) as numbers or as text. Frames are read with narwhals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import narwhals as nw
import numpy as np

from .dates import SAMPLE_ROWS, are_dates
from .values import DATES, NUMERIC, Text, as_number, factorize, is_missing, refuse_dates, refuse_object

NUMBER, BOOLEAN, TEXT, DATE = "number", "boolean", "text", "date"

# Frames with at most so many rows are read as a whole: a column by itself costs more than its values. Measured with the encoder,
# one row of nine columns of pandas: 0.15 ms, against 1.2 ms.
FEW_ROWS = 16

_KINDS = {"b": BOOLEAN, "i": NUMBER, "u": NUMBER, "f": NUMBER, "m": NUMBER, "M": DATE, "S": TEXT, "U": TEXT}


class Table:
    """A table whose columns are read one by one.

    Parameters
    ----------
    get_column : callable
        Returns column k, an array or a Series of narwhals.
    names : list of str
        What columns are called in messages.
    n_rows : int
        Number of rows.
    values : list of list or None
        The values of each column, if they were read as a whole.
    """

    def __init__(
        self, get_column: Callable[[int], Any], names: list[str], n_rows: int, values: list[list] | None = None
    ) -> None:
        self.get_column, self.names, self.n_rows = get_column, names, n_rows
        self._values = values

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return len(self.names)

    def find_kind(self, k: int) -> str:
        """Return the kind of column k, from its type, or from its values if it may hold anything."""
        column = self.get_column(k)
        kind = _describe_type(column) or _find_kind(_list(column), self.names[k])
        if kind == TEXT and not self.has_categories(k) and are_dates(self.list_first(k, SAMPLE_ROWS)):
            return DATE
        return kind

    def get_numbers(self, k: int) -> np.ndarray:
        """Return column k as float64, NaN where a value is missing."""
        if self._values is not None and all(type(value) in (float, int, bool) for value in self._values[k]):
            with suppress(OverflowError):  # the error below names the row
                return np.array(self._values[k], dtype=np.float64)
        column, name = self.get_column(k), self.names[k]
        kind = _describe_type(column)
        if kind == DATE:
            raise refuse_dates(name)
        if kind in (NUMBER, BOOLEAN):
            if isinstance(column, nw.Series):
                column = (column if column.dtype.is_temporal() else column.cast(nw.Float64)).to_numpy()
            if column.dtype.kind == "m":
                return column / np.timedelta64(1, "s")
            if column.dtype != object:  # as times of day are
                return np.asarray(column, dtype=np.float64)
        return np.array([as_number(value, name, row) for row, value in enumerate(_list(column))], dtype=np.float64)

    def get_text(self, k: int) -> Text:
        """Return column k as text."""
        if self._values is not None and all(type(value) is str for value in self._values[k]):
            return factorize(self._values[k], self.names[k])
        column = self.get_column(k)
        if _describe_type(column) == DATE:
            raise refuse_dates(self.names[k])
        return factorize(_list(column), self.names[k])

    def has_categories(self, k: int) -> bool:
        """Return whether column k has a type for categories, such as pandas' category."""
        column = self.get_column(k)
        return isinstance(column, nw.Series) and column.dtype in (nw.Categorical, nw.Enum)

    def list_first(self, k: int, n: int) -> list[Any]:
        """Return the first n values of column k."""
        return _list(self.get_column(k)[:n]) if self._values is None else self._values[k][:n]


def is_frame(X: Any) -> bool:
    """Return whether X is a table with typed columns: a DataFrame of pandas or polars, or a table of pyarrow.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    bool
    """
    if isinstance(X, np.ndarray | list):  # the most common, at once
        return False
    return nw.dependencies.is_into_dataframe(X) or (hasattr(X, "__arrow_c_stream__") and hasattr(X, "schema"))


def read_table(X: Any) -> Table:
    """Return a frame, or an array of two dimensions, as a table.

    Parameters
    ----------
    X : DataFrame, pyarrow table or ndarray of shape (n_rows, n_columns)

    Returns
    -------
    Table
    """
    if isinstance(X, np.ndarray):
        return Table(X.T.__getitem__, [f"column {k}" for k in range(X.shape[1])], len(X))
    if hasattr(X, "iloc"):  # pandas; by number, as names need not be unique
        values = X.to_numpy(dtype=object).T.tolist() if len(X) <= FEW_ROWS else None
        return Table(lambda k: _wrap(X.iloc[:, k]), _quote(X.columns), len(X), values)
    if not nw.dependencies.is_into_dataframe(X):  # such as a record batch of pyarrow
        X = nw.from_arrow(X, backend="pyarrow").to_native()
    if hasattr(X, "column_names"):  # pyarrow
        values = [column.to_pylist() for column in X.columns] if len(X) <= FEW_ROWS else None
        return Table(lambda k: _wrap(X.column(k)), _quote(X.column_names), len(X), values)
    frame = nw.from_native(X, eager_only=True)
    values = [list(column) for column in zip(*frame.rows(), strict=True)] if 0 < len(frame) <= FEW_ROWS else None
    return Table(lambda k: frame[:, k], _quote(frame.columns), len(frame), values)


def _wrap(column: Any) -> nw.Series:
    return nw.from_native(column, series_only=True)


def _quote(names: Sequence[Any]) -> list[str]:
    return [f"column {name!r}" for name in names]


def _list(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else column.to_list()


# ----------------------------------------------------------------------------------------------------------------------
# Kinds


def _describe_type(column: Any) -> str | None:
    """Return the kind that the type of a column tells; None if it may hold anything."""
    native: Any = column if isinstance(column, np.ndarray) else column.to_native()
    given = native.dtype if hasattr(native, "dtype") else native.type
    kind = _KINDS.get(getattr(given, "kind", "O"))  # numpy and pandas
    if kind is not None or isinstance(given, np.dtype):  # of objects in pandas, narwhals looks at the first values only
        return kind
    dtype = column.dtype
    if dtype.is_numeric() or str(given) in ("Null", "null"):
        return NUMBER
    if dtype in (nw.Duration, nw.Time):
        return NUMBER
    if dtype.is_temporal() or str(given).startswith(("period", "date")):
        return DATE
    return {nw.Boolean: BOOLEAN, nw.String: TEXT, nw.Categorical: TEXT, nw.Enum: TEXT}.get(dtype.base_type())


def _find_kind(values: list[Any], name: str) -> str:
    present = [value for value in values if not is_missing(value)]
    if any(isinstance(value, DATES) or hasattr(value, "to_timestamp") for value in present):
        return DATE
    if not present or any(isinstance(value, str) for value in present):
        return TEXT
    if all(isinstance(value, bool | np.bool_) for value in present):
        return BOOLEAN
    for row, value in enumerate(values):
        if not is_missing(value) and not isinstance(value, NUMERIC):
            raise refuse_object(name, value, row)
    return NUMBER
