"""Columns of tables of any kind (pandas, polars, pyarrow, numpy) as numbers or as text.

The libraries of data frames are optional, and never imported: a table tells by its methods what it is.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

NUMBER, BOOLEAN, TEXT, DATE = "number", "boolean", "text", "date"

# Frames of pandas with at most so many rows are read as a whole.
FEW_ROWS = 16

_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


class Text(NamedTuple):
    """A column of text: the value of each row by its number among the distinct ones; -1 where it is missing."""

    codes: np.ndarray
    distinct: list[str]

    def list_keys(self) -> list[str | None]:
        """Return the values in use, in order of appearance, None among them if one is missing."""
        codes, first = np.unique(self.codes, return_index=True)
        ordered = codes[np.argsort(first)].tolist()
        return [self.distinct[code] if code >= 0 else None for code in ordered]


class Table:
    """A table whose columns are asked for one by one.

    Parameters
    ----------
    columns : sequence
        The columns, as they were given.
    names : list of str
        What they are called in messages.
    n_rows : int
    """

    def __init__(self, columns: Sequence[Any], names: list[str], n_rows: int) -> None:
        self.columns, self.names, self.n_rows = columns, names, n_rows

    def find_kind(self, k: int) -> str:
        """Return the kind of column k, from its type, or from its values if it may hold anything.

        Parameters
        ----------
        k : int
            Number of the column.

        Returns
        -------
        str
            ``"number"``, ``"boolean"``, ``"text"`` or ``"date"``.
        """
        return _find_kind(self.columns[k], self.names[k])

    def get_numbers(self, k: int) -> np.ndarray:
        """Return column k as float64, NaN where a value is missing.

        Parameters
        ----------
        k : int
            Number of the column.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return _get_numbers(self.columns[k], self.names[k])

    def get_text(self, k: int) -> Text:
        """Return column k as text.

        Parameters
        ----------
        k : int
            Number of the column.

        Returns
        -------
        Text
            Codes, and the distinct strings that they stand for.
        """
        return _get_text(self.columns[k], self.names[k])

    def has_categories(self, k: int) -> bool:
        """Return whether column k has a type for categories, such as pandas' category.

        Parameters
        ----------
        k : int
            Number of the column.

        Returns
        -------
        bool
        """
        return _has_categories(self.columns[k])

    def list_first(self, k: int, n: int) -> list[Any]:
        """Return the first values of column k.

        Parameters
        ----------
        k : int
            Number of the column.
        n : int
            At most so many.

        Returns
        -------
        list
        """
        column = self.columns[k]
        return _as_objects(column.iloc[:n] if hasattr(column, "iloc") else column[:n])


class FewRows(Table):
    """A DataFrame of pandas of a few rows, read as a whole: a column by itself costs more than its values.

    Measured with the encoder, one row of eleven columns: 0.4 ms, against 0.85 ms.
    """

    def __init__(self, frame: Any, names: list[str]) -> None:
        super().__init__((), names, len(frame))
        self._frame = frame
        self._values: list[list[Any]] = frame.to_numpy(dtype=object).T.tolist()
        self.columns = self._values

    def find_kind(self, k: int) -> str:
        return _find_kind(self._frame.iloc[:, k], self.names[k])

    def get_numbers(self, k: int) -> np.ndarray:
        values = self._values[k]
        if all(type(value) in (float, int, bool) for value in values):
            return np.array(values, dtype=np.float64)
        return _get_numbers(self._frame.iloc[:, k], self.names[k])

    def get_text(self, k: int) -> Text:
        if all(type(value) is str for value in self._values[k]):
            return _factorize(self._values[k], self.names[k])
        return _get_text(self._frame.iloc[:, k], self.names[k])

    def has_categories(self, k: int) -> bool:
        return _has_categories(self._frame.iloc[:, k])

    def list_first(self, k: int, n: int) -> list[Any]:
        return self._values[k][:n]


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
    return _is_arrow(X) or (hasattr(X, "columns") and (hasattr(X, "dtypes") or hasattr(X, "schema")))


def _is_arrow(X: Any) -> bool:
    return hasattr(X, "column_names") and hasattr(X, "schema")


def read_table(X: Any) -> Table:
    """Return a frame, or an array of two dimensions, as a table.

    Parameters
    ----------
    X : DataFrame, pyarrow table or ndarray of shape (n_rows, n_columns)

    Returns
    -------
    Table
    """
    if _is_arrow(X):
        columns = [X.column(k) for k in range(len(X.column_names))]
        return Table(columns, _quote(X.column_names), X.num_rows)
    if is_frame(X):
        by_position = hasattr(X, "iloc")
        if by_position and len(X) <= FEW_ROWS:
            return FewRows(X, _quote(X.columns))
        columns = [X.iloc[:, k] if by_position else X[name] for k, name in enumerate(X.columns)]
        return Table(columns, _quote(X.columns), len(X))
    return Table(list(X.T), [f"column {k}" for k in range(X.shape[1])], len(X))


def _quote(names: Iterable[Any]) -> list[str]:
    return [f"column {name!r}" for name in names]


# ----------------------------------------------------------------------------------------------------------------------
# Kinds


def _find_kind(column: Any, name: str) -> str:
    kind = _describe_type(column, name)
    if kind is not None:
        return kind
    values = _as_objects(column)
    present = [value for value in values if not is_missing(value)]
    if any(isinstance(value, _DATES) for value in present):
        return DATE
    if any(isinstance(value, str) for value in present):
        return TEXT
    if not present:
        return TEXT
    if all(isinstance(value, bool | np.bool_) for value in present):
        return BOOLEAN
    for value in present:
        if not isinstance(value, Real | decimal.Decimal | bool | np.bool_):
            raise _refuse_object(name, value)
    return NUMBER


def _refuse_object(name: str, value: Any) -> TypeError:
    return TypeError(
        f"{name} holds a {type(value).__name__} ({_shorten(value)}): each entry must be a string or a number; "
        "leave the column out, or replace it by such"
    )


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 50 else text[:47] + "..."


def _describe_type(column: Any, name: str) -> str | None:
    """Return the kind that the type of a column tells; None if it may hold anything."""
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return BOOLEAN if dtype.kind == "b" else NUMBER
    if dtype is None:  # pyarrow's columns have a type instead
        return _describe_arrow_type(str(column.type))
    if hasattr(dtype, "is_temporal"):  # polars
        if dtype.is_temporal():
            return DATE
        if dtype.is_numeric():
            return NUMBER
        return {"Boolean": BOOLEAN, "Object": None, "Null": NUMBER}.get(str(dtype).partition("(")[0], TEXT)
    kind = getattr(dtype, "kind", "O")
    if hasattr(column, "cat") and hasattr(dtype, "categories"):
        return TEXT
    if kind == "b" or str(dtype) in ("boolean", "bool[pyarrow]"):
        return BOOLEAN
    if kind in "mM" or str(dtype).startswith(("period", "interval", "date", "time", "duration")):
        return DATE
    if kind in "iuf":
        return NUMBER
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} holds complex numbers")
    return TEXT if kind in "SU" else None


def _describe_arrow_type(text: str) -> str:
    if text.startswith("dictionary"):
        return TEXT
    if text == "bool":
        return BOOLEAN
    if text.startswith(("date", "time", "duration", "month")):
        return DATE
    return NUMBER if text.startswith(("int", "uint", "half", "float", "double", "decimal", "null")) else TEXT


def _has_categories(column: Any) -> bool:
    dtype = column.type if _is_arrow_column(column) else column.dtype
    return hasattr(dtype, "categories") or str(dtype).startswith(("dictionary", "Categorical", "Enum"))


def _is_arrow_column(column: Any) -> bool:
    return not hasattr(column, "dtype")


def is_missing(value: Any) -> bool:
    """Return whether a value stands for a missing one: None, NaN, pandas.NA, NaT."""
    if value is None:
        return True
    if isinstance(value, str):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither true nor false; an array is many things
        return not isinstance(value, np.ndarray | list | tuple | dict)


# ----------------------------------------------------------------------------------------------------------------------
# Values


def _as_objects(column: Any) -> list[Any]:
    return column.to_pylist() if _is_arrow_column(column) else list(column)


def _get_numbers(column: Any, name: str) -> np.ndarray:
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return np.array(column, dtype=np.float64)
    kind = _describe_type(column, name)
    if kind in (NUMBER, BOOLEAN):
        if _is_arrow_column(column):
            numbers = column.cast("double" if kind == NUMBER else "int8").to_numpy(zero_copy_only=False)
            return np.asarray(numbers, dtype=np.float64)
        if hasattr(column.dtype, "is_temporal"):
            return column.cast(float).to_numpy().astype(np.float64)
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind == DATE:
        raise refuse_dates(name)
    return np.array([_as_number(value, name, row) for row, value in enumerate(_as_objects(column))], dtype=np.float64)


def _as_number(value: Any, name: str, row: int) -> float:
    if is_missing(value):
        return np.nan
    if isinstance(value, _DATES):
        raise refuse_dates(name)
    if isinstance(value, str):
        raise ValueError(f"{name} holds numbers, but {_shorten(value)} in row {row}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _refuse_object(name, value) from None


def refuse_dates(name: str) -> TypeError:
    """Return the error for a column of dates, with the remedy."""
    return TypeError(
        f"{name} holds dates or times, which cannot be used directly: leave it out, or replace it by numbers such as the hour, "
        "the day of the week, the month, or the days since a fixed date"
    )


def _get_text(column: Any, name: str) -> Text:
    if _is_arrow_column(column):
        return _get_arrow_text(column, name)
    if hasattr(column, "cat") and hasattr(column.dtype, "categories") and hasattr(column.cat, "codes"):  # pandas
        names = [name_category(value, name) for value in column.cat.categories]
        return _merge(np.asarray(column.cat.codes, dtype=np.int64), names)
    if _describe_type(column, name) == DATE:
        raise refuse_dates(name)
    if hasattr(column, "to_list"):
        return _factorize(column.to_list(), name)
    return _factorize(column.tolist(), name)


def _get_arrow_text(column: Any, name: str) -> Text:
    if _describe_type(column, name) == DATE:
        raise refuse_dates(name)
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if hasattr(column, "chunks"):  # combine_chunks leaves no or one chunk, in some versions
        return _factorize(column.to_pylist(), name)
    encoded = column if hasattr(column, "indices") else column.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    values = encoded.dictionary.to_pylist()
    missing = np.array([is_missing(value) for value in values] + [True])
    codes = np.where(missing[codes], -1, codes)
    return _merge(codes, ["" if is_missing(value) else name_category(value, name) for value in values])


def _factorize(values: Sequence[Any], name: str) -> Text:
    """Number the distinct values in order of appearance."""
    numbers: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    distinct: list[str] = []
    for k, value in enumerate(values):
        try:
            code = numbers.get(value)
        except TypeError:
            raise _refuse_object(name, value) from None
        if code is None:
            code = -1
            if not is_missing(value):
                code = len(distinct)
                distinct.append(name_category(value, name))
            numbers[value] = code
        codes[k] = code
    return _merge(codes, distinct)


def _merge(codes: np.ndarray, names: list[str]) -> Text:
    """Merge values that have the same name, as 1 and 1.0 have."""
    if len(set(names)) == len(names):
        return Text(codes, names)
    distinct = list(dict.fromkeys(names))
    number = {name: k for k, name in enumerate(distinct)}
    table = np.array([number[name] for name in names] + [-1])
    return Text(table[codes], distinct)


def name_category(value: Any, name: str) -> str:
    """Return a category as text; whole numbers have the same name whatever their type.

    >>> name_category(2, "size"), name_category(2.0, "size"), name_category("red", "colour"), name_category(True, "new")
    ('2', '2', 'red', 'True')
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real | decimal.Decimal):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, _DATES):
        raise refuse_dates(name)
    raise _refuse_object(name, value)
