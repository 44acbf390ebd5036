"""Checks of values read from the header of a model file, which may be damaged or forged."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..formatting import format_count

MOST = 2**62  # rows and the like; sums of such numbers fit int64


class WrongValueError(Exception):
    """A value in the header is not what the command writes there."""


def expect(holds: bool, message: str) -> None:
    """Raise `WrongValueError` unless a condition holds."""
    if not holds:
        raise WrongValueError(message)


def check_object(value: Any, name: str, required: Iterable[str], optional: Iterable[str] | None = ()) -> dict[str, Any]:
    """Return a dict that has all required keys, and others only if they are optional (None: any others)."""
    expect(type(value) is dict, f"{name} is {_show(value)}, expected an object")
    for key in required:
        expect(key in value, f"{name} has no {key!r}")
    if optional is not None:
        for key in value:
            expect(key in required or key in optional, f"{name} has an unknown entry {_show(key)}")
    return value


def check_list(value: Any, name: str, *, least: int = 0) -> list[Any]:
    """Return a list of at least some entries."""
    expect(type(value) is list, f"{name} is {_show(value)}, expected a list")
    expect(len(value) >= least, f"{name} is empty")
    return value


def check_text(value: Any, name: str, choices: Iterable[str] | None = None) -> str:
    """Return a string of valid Unicode, or one of some choices."""
    expect(type(value) is str and is_unicode(value), f"{name} is {_show(value)}, expected text")
    if choices is not None:
        expect(value in choices, f"{name} is {_show(value)}, expected one of {', '.join(choices)}")
    return value


def check_path(value: Any, name: str) -> str:
    """Return the name of a file, which need not be valid Unicode."""
    expect(type(value) is str and "\0" not in value, f"{name} is {_show(value)}, expected the name of a file")
    return value


def check_whole(value: Any, name: str, least: int = 0, most: int = MOST) -> int:
    """Return a whole number within bounds."""
    expect(
        type(value) is int and least <= value <= most,
        f"{name} is {_show(value)}, expected a whole number from {least} to {most}",
    )
    return value


def check_number(value: Any, name: str) -> float:
    """Return a finite number."""
    try:
        expect(type(value) in (int, float) and math.isfinite(value), f"{name} is {_show(value)}, expected a number")
        return float(value)
    except OverflowError:
        raise WrongValueError(f"{name} is {_show(value)}, too large for a number") from None


def check_bool(value: Any, name: str) -> bool:
    """Return a boolean."""
    expect(type(value) is bool, f"{name} is {_show(value)}, expected true or false")
    return value


def check_depth(value: Any, name: str, most: int = 20) -> Any:
    """Return a value that is not nested deeper than it could be printed."""
    expect(most > 0, f"{name} is nested too deeply")
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            check_depth(entry, name, most - 1)
    return value


def is_unicode(text: str) -> bool:
    """Return whether a string has no lone surrogates, which neither Arrow nor a terminal can take."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _show(value: Any) -> str:
    """Return a short description of a value of any size."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {format_count(len(value), 'entry')}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "a huge number"
    text = repr(value)
    return text if len(text) <= 50 else text[:47] + "..."
