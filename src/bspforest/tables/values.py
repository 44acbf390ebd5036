"""Single values of columns: which are missing, which are numbers, and which text."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

# Longer text is refused: each category is a name in the header of a model file, whose size is limited.
MAX_TEXT_BYTES = 10_000

DURATIONS = (datetime.timedelta, np.timedelta64, datetime.time)
DATES = (datetime.date, np.datetime64)
NUMERIC = (Real, decimal.Decimal, bool, np.bool_, *DURATIONS)


class Text(NamedTuple):
    """A column of text: the value of each row by its number among the distinct ones; -1 where it is missing."""

    codes: np.ndarray
    distinct: list[str]

    def list_keys(self) -> list[str | None]:
        """Return the values in use, in order of appearance, None among them if one is missing."""
        codes, first = np.unique(self.codes, return_index=True)
        ordered = codes[np.argsort(first)].tolist()
        return [self.distinct[code] if code >= 0 else None for code in ordered]


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
    """Return the error for dates where a column of numbers or categories is expected."""
    return TypeError(
        f"{name} holds dates or times, where numbers or categories are expected, as it held when it was first learned, or because "
        "categorical_features names it"
    )


def refuse_object(name: str, value: Any, row: int) -> Exception:
    if isinstance(value, complex):
        return ValueError(f"Complex data not supported: {name} holds complex numbers")
    return TypeError(
        f"{name} holds a {type(value).__name__} ({shorten(value)}) in row {row}: each entry must be a string, a number or a date; "
        "leave the column out, or replace it by such"
    )


def shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 50 else text[:47] + "..."


def as_number(value: Any, name: str, row: int) -> float:
    if is_missing(value):
        return np.nan
    if isinstance(value, DATES):
        raise refuse_dates(name)
    if isinstance(value, DURATIONS):
        return _count_seconds(value)
    if isinstance(value, str):
        raise ValueError(f"{name} holds numbers, but {shorten(value)} in row {row}")
    try:
        if not isinstance(value, complex):  # numpy would drop a part of it
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise refuse_object(name, value, row)


def _count_seconds(value: Any) -> float:
    """Return the seconds of a duration, or since midnight.

    >>> _count_seconds(datetime.timedelta(hours=1)), _count_seconds(datetime.time(1, 0, 5))
    (3600.0, 3605.0)
    """
    if isinstance(value, datetime.time):
        value = datetime.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
    return float(value / np.timedelta64(1, "s")) if isinstance(value, np.timedelta64) else value.total_seconds()


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
        raise refuse_object(name, values[row], row) from None
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
    if isinstance(value, DATES):
        raise refuse_dates(name)
    if not text:
        raise refuse_object(name, value, row)
    n_bytes = len(text.encode(errors="surrogatepass"))
    if n_bytes > MAX_TEXT_BYTES:
        raise ValueError(
            f"{name} holds text of {n_bytes:,} bytes in row {row} ({shorten(value)}); the limit is {MAX_TEXT_BYTES:,}: "
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
