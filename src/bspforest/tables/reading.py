"""Read columns of tables (pandas, polars, pyarrow, numpy) as numbers or as text. Frames are read with narwhals."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

NUMBER, BOOLEAN, TEXT, DATE = "number", "boolean", "text", "date"

# Frames with at most so many rows are read as a whole: a column by itself costs more than its values. Measured with the encoder,
# one row of nine columns of pandas: 0.15 ms, against 1.2 ms.
FEW_ROWS = 16

# Longer text is refused: each category is a name in the header of a model file, whose size is limited.
MAX_TEXT_BYTES = 10_000

_KINDS = {"b": BOOLEAN, "i": NUMBER, "u": NUMBER, "f": NUMBER, "m": DATE, "M": DATE, "S": TEXT, "U": TEXT}
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
        return _describe_type(column) or _find_kind(_list(column), self.names[k])

    def get_numbers(self, k: int) -> np.ndarray:
        """Return column k as float64, NaN where a value is missing."""
        if self._values is not None and all(type(value) in (float, int, bool) for value in self._values[k]):
            with suppress(OverflowError):  # the error below names the row
                return np.array(self._values[k], dtype=np.float64)
        column, name = self.get_column(k), self.names[k]
        kind = _describe_type(column)
        if kind in (NUMBER, BOOLEAN):
            column = column if isinstance(column, np.ndarray) else column.cast(nw.Float64).to_numpy()
            return np.asarray(column, dtype=np.float64)
        if kind == DATE:
            raise refuse_dates(name)
        return np.array([_as_number(value, name, row) for row, value in enumerate(_list(column))], dtype=np.float64)

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
    if dtype.is_temporal() or str(given).startswith(("period", "interval")):
        return DATE
    return {nw.Boolean: BOOLEAN, nw.String: TEXT, nw.Categorical: TEXT, nw.Enum: TEXT}.get(dtype.base_type())


def _find_kind(values: list[Any], name: str) -> str:
    present = [value for value in values if not is_missing(value)]
    if any(isinstance(value, _DATES) for value in present):
        return DATE
    if not present or any(isinstance(value, str) for value in present):
        return TEXT
    if all(isinstance(value, bool | np.bool_) for value in present):
        return BOOLEAN
    for row, value in enumerate(values):
        if not is_missing(value) and not isinstance(value, Real | decimal.Decimal | bool | np.bool_):
            raise _refuse_object(name, value, row)
    return NUMBER


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


def refuse_dates(name: str) -> TypeError:
    """Return the error for a column of dates, with the remedy."""
    return TypeError(
        f"{name} holds dates or times, which cannot be used directly: leave it out, or replace it by numbers such as the hour, "
        "the day of the week, the month, or the days since a fixed date"
    )


def _refuse_object(name: str, value: Any, row: int) -> Exception:
    if isinstance(value, complex):
        return ValueError(f"Complex data not supported: {name} holds complex numbers")
    return TypeError(
        f"{name} holds a {type(value).__name__} ({_shorten(value)}) in row {row}: each entry must be a string or a number; "
        "leave the column out, or replace it by such"
    )


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 50 else text[:47] + "..."


# ----------------------------------------------------------------------------------------------------------------------
# Values


def _as_number(value: Any, name: str, row: int) -> float:
    if is_missing(value):
        return np.nan
    if isinstance(value, _DATES):
        raise refuse_dates(name)
    if isinstance(value, str):
        raise ValueError(f"{name} holds numbers, but {_shorten(value)} in row {row}")
    try:
        if not isinstance(value, complex):  # numpy would drop a part of it
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise _refuse_object(name, value, row)


def factorize(values: Sequence[Any], name: str) -> Text:
    """Number the distinct values in order of appearance. Those that have the same name, as 1 and 1.0 have, are one.

    >>> factorize(["red", None, 2, "2", "red"], "colour")
    Text(codes=array([ 0, -1,  1,  1,  0]), distinct=['red', '2'])
    """
    numbers: dict[Any, int] = {}
    names: dict[str, int] = {}
    try:
        given = dict.fromkeys(values)
    except TypeError:
        row = next(row for row, value in enumerate(values) if not _is_hashable(value))
        raise _refuse_object(name, values[row], row) from None
    for value in given:
        if is_missing(value):
            numbers[value] = -1
            continue
        text = _name_category(value) or ""
        if (not text and value != "") or len(text) > MAX_TEXT_BYTES // 4:
            _check_text(text, value, name, next(row for row, other in enumerate(values) if other is value))
        numbers[value] = names.setdefault(text, len(names))
    codes = np.fromiter(map(numbers.__getitem__, values), dtype=np.int64, count=len(values))
    return Text(codes, list(names))


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:  # also a tuple that holds a list
        return False
    return True


def _check_text(text: str, value: Any, name: str, row: int) -> None:
    if isinstance(value, _DATES):
        raise refuse_dates(name)
    if not text:
        raise _refuse_object(name, value, row)
    n_bytes = len(text.encode(errors="surrogatepass"))
    if n_bytes > MAX_TEXT_BYTES:
        raise ValueError(
            f"{name} holds text of {n_bytes:,} bytes in row {row} ({_shorten(value)}); the limit is {MAX_TEXT_BYTES:,}: "
            "leave the column out, or shorten its text"
        )


def _name_category(value: Any) -> str | None:
    """Return a category as text, None if it cannot be one; whole numbers have the same name whatever their type.

    >>> _name_category(2), _name_category(2.0), _name_category("red"), _name_category(True)
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
    return None
