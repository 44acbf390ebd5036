"""Read columns of dates as days since 1970-01-01, NaN where one is missing. All libraries give the same days, bit for bit.

Times without a zone are taken as they are. Those with one are the local times of the zone of the column, which is that of its first
value; UTC for fixed offsets, which tell no zone.
"""

from __future__ import annotations

import datetime
import re
from contextlib import suppress
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import narwhals as nw
import numpy as np

from .values import DATES, is_missing, shorten

SAMPLE_ROWS = 1_000  # at the beginning of a column of text, which tell whether it holds dates

# Python takes 20240531, too, which may be an id.
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?", re.ASCII)
_ZONE = re.compile(r"(?!(UTC|GMT)?[+-])[\w/+-]+")  # a name, and no fixed offset
UTC = "UTC"


def parse_date(text: str) -> datetime.datetime | None:
    """Return an ISO date, or None if the text is none.

    >>> parse_date("2024-05-31"), parse_date("2024-05-32"), parse_date("red")
    (datetime.datetime(2024, 5, 31, 0, 0), None, None)
    """
    text = text.strip()
    if not _ISO.fullmatch(text):
        return None
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def are_dates(values: list[Any]) -> bool:
    """Return whether all values are ISO dates as text, apart from missing and blank ones."""
    present = [value for value in values if not _is_blank(value)]
    return bool(present) and all(isinstance(value, str) and parse_date(value) is not None for value in present)


def _is_blank(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else is_missing(value)


def find_zone(column: Any) -> str | None:
    """Return the zone of the times of a column, from its type or its first value; None if they have none."""
    own = _get_own_zone(column)
    if own is not None:
        return _name_zone(own)
    values = column.to_list() if isinstance(column, nw.Series) else column.tolist()
    first = next((value for value in values if not _is_blank(value)), None)
    given = getattr(parse_date(first) if isinstance(first, str) else first, "tzinfo", None)
    if given is None:
        return None
    return _name_zone(str(getattr(given, "key", None) or getattr(given, "zone", None) or UTC))  # zoneinfo, pytz


def _get_own_zone(column: Any) -> str | None:
    """Return the zone that the type of a column tells. pandas is asked itself: narwhals 2.28 reads no America/New_York from it."""
    if not isinstance(column, nw.Series):
        return None
    given = getattr(column.to_native(), "dtype", None)
    own = getattr(getattr(given, "pyarrow_dtype", given), "tz", None) or getattr(column.dtype, "time_zone", None)
    return None if own is None else str(own)


def _name_zone(zone: str | None) -> str | None:
    return zone if zone is None or _ZONE.fullmatch(zone) else UTC


def count_days(column: Any, name: str, zone: str | None) -> np.ndarray:
    """Return a column, an array or a Series of narwhals, as days since 1970-01-01 in its zone, NaN where a date is missing.

    Parameters
    ----------
    column : ndarray or Series
    name : str
        What it is called in messages.
    zone : str or None
        The zone of the column when it was first learned; None if its times had none.

    Returns
    -------
    ndarray of float64
    """
    own = _get_own_zone(column)
    if isinstance(column, nw.Series):
        native = column.to_native()
        if own is not None and hasattr(native, "iloc"):
            if "pyarrow" in str(native.dtype):  # of which pandas 2 does not drop the zone
                native = native.astype(f"datetime64[us, {own}]")
            column = native.dt.tz_convert(zone).dt.tz_localize(None)
        elif own is not None:
            column = column.dt.convert_time_zone(zone or UTC).dt.replace_time_zone(None)
        column = column.to_numpy()
    if column.dtype.kind != "M":
        column = _read_values(column.tolist(), name, zone)
    elif (own is None) != (zone is None) and not np.isnat(column).all():
        raise _refuse_zone(name, own, zone)
    whole = column.astype("M8[D]")
    part = (column - whole) / np.timedelta64(1, "D")  # both are exact, whatever the unit
    return whole.astype(np.int64) + part  # NaN for NaT


def _read_values(values: list[Any], name: str, zone: str | None) -> np.ndarray:
    """Return dates of any type, text among them, as datetime64 in a zone."""
    info = None if zone is None else _find_info(zone)
    read: list[Any] = []
    for row, value in enumerate(values):
        if _is_blank(value):
            read.append(None)
            continue
        date: Any = parse_date(value) if isinstance(value, str) else value
        if hasattr(date, "to_timestamp"):  # a period of pandas
            date = date.to_timestamp()
        if not isinstance(date, DATES):
            raise ValueError(
                f"{name} holds dates, but {shorten(value)} in row {row} is none: expected a datetime, or text such as "
                "'2024-05-31' or '2024-05-31T14:30:00'. Make it a missing value, or name the column in categorical_features before "
                "the first rows are learned"
            )
        own = getattr(date, "tzinfo", None)
        if (own is None) != (info is None):
            raise _refuse_zone(name, own, zone)
        if isinstance(date, datetime.datetime) and own is not None:
            with suppress(OverflowError):  # in the first or the last hours of the calendar: hours do not matter
                date = date.astimezone(info)
            date = date.replace(tzinfo=None)
        read.append(date)
    return np.array(read, dtype="M8[us]")


def _find_info(zone: str) -> datetime.tzinfo:
    if zone == UTC:
        return datetime.UTC
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"the time zone {zone!r} is unknown on this machine: pip install tzdata") from None


def _refuse_zone(name: str, own: Any, zone: str | None) -> ValueError:
    found = "no time zone" if own is None else f"the time zone {own}"
    first = "none" if zone is None else zone
    return ValueError(
        f"{name} has times with {found}, but {first} when it was first learned: expected times with a zone everywhere, or "
        "without one everywhere (in pandas: .dt.tz_localize)"
    )
