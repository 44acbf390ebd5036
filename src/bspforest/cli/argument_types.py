"""Types of arguments for argparse, whose errors name the expected value."""

from __future__ import annotations

import math
import re

MOST = 10**18  # fits int64, like all counts in a model file


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    value = _parse_digits(text.replace("_", "").replace(",", ""))
    if not 1 <= value <= MOST:
        raise ValueError
    return value


def positive(text: str) -> float:
    """Parse a number above 0."""
    value = float(text)
    if not (0 < value < math.inf):
        raise ValueError
    return value


def automatic(text: str) -> float | str:
    """Parse a number above 0, or "auto"."""
    return text if text == "auto" else positive(text)


def automatic_count(text: str) -> int | str:
    """Parse a whole number of at least 1, or "auto"."""
    return text if text == "auto" else count(text)


def half_life(text: str) -> float | str:
    """Parse a number above 0, "auto" or "none"."""
    return text if text == "none" else automatic(text)


def rows_or_size(text: str) -> int | str:
    """Parse a number of rows, or a size with its unit."""
    return text if re.fullmatch(r"[0-9.]+ ?[kMG]i?B", text) else count(text)


def names(text: str) -> tuple[str, ...]:
    """Parse a list of names, separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def fractions(text: str) -> tuple[float, ...]:
    """Parse a list of numbers from 0 to 1, separated by commas."""
    values = tuple(float(part) for part in text.split(","))
    if not all(0 <= value <= 1 for value in values):
        raise ValueError
    return values


def port(text: str) -> int:
    """Parse the number of a port; 0 is any that is free."""
    value = _parse_digits(text)
    if not 0 <= value <= 65_535:
        raise ValueError
    return value


def _parse_digits(text: str) -> int:
    """Parse a whole number in ASCII; `int` takes the digits of any script."""
    if not text.isascii():
        raise ValueError
    return int(text)


# argparse shows these names in "invalid ... value".
count.__name__ = "whole number of at least 1"
positive.__name__ = "number above 0"
automatic.__name__ = 'number above 0, or "auto"'
fractions.__name__ = "list of numbers from 0 to 1"
port.__name__ = "port from 0 to 65535"
automatic_count.__name__ = "whole number of at least 1, or auto"
half_life.__name__ = "number above 0, auto or none"
rows_or_size.__name__ = "number of rows, or size such as 2GB"
