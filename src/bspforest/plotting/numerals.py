"""How numbers are written: years without separators, whole numbers without decimals."""

from __future__ import annotations

import numpy as np

YEAR, WHOLE, NUMBER = "year", "whole", "number"

FIRST_YEAR, LAST_YEAR = 1000, 2200
MAX_DECIMALS = 6
MILLION = 1e6


def find_kinds(X: np.ndarray) -> tuple[str, ...]:
    """Return the kind of numbers in each column. Whole numbers from 1000 to 2200 are taken for years.

    >>> find_kinds(np.array([[1999, 1.0, 0.5], [2024, 3000.0, 2000.0]]))
    ('year', 'whole', 'number')
    """
    whole = (np.floor(X) == X).all(axis=0)
    years = whole & (X >= FIRST_YEAR).all(axis=0) & (X <= LAST_YEAR).all(axis=0)
    return tuple(YEAR if year else WHOLE if is_whole else NUMBER for is_whole, year in zip(whole, years, strict=True))


def format_value(value: float, kind: str = NUMBER) -> str:
    """Write a single number.

    >>> format_value(2013.0, YEAR), format_value(2013.0, WHOLE), format_value(13.4567), format_value(2.5e-7)
    ('2013', '2,013', '13.5', '2.5e-07')
    """
    if kind == YEAR:
        return f"{value:.0f}" if value == round(value) else f"{value:.10g}"
    if 1000 <= abs(value) < 1e12 or (kind == WHOLE and value == round(value) and abs(value) < 1e12):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def format_ticks(ticks: np.ndarray, kind: str = NUMBER) -> list[str]:
    """Write the numbers along an axis, with as many decimals as they need and without an offset or a common factor.

    >>> format_ticks(np.array([0.0, 2.5, 5.0])), format_ticks(np.array([2010.0, 2012.0]), YEAR)
    (['0.0', '2.5', '5.0'], ['2010', '2012'])
    >>> format_ticks(np.array([0.0, 5e5, 1e6])), format_ticks(np.array([-1000.0, 0.0]))
    (['0', '0.5M', '1M'], ['−1,000', '0'])
    """
    if not len(ticks):
        return []
    largest = np.abs(ticks).max()
    if kind != YEAR and MILLION <= largest < 1000 * MILLION:
        texts = [f"{tick / MILLION:.6g}M" if tick else "0" for tick in ticks]
    else:
        # As narrow as 1e-3 of a step, so that rounding errors do not add decimals.
        step = np.diff(ticks).min() if len(ticks) > 1 else largest
        fits = [d for d in range(MAX_DECIMALS + 1) if np.abs(np.round(ticks, d) - ticks).max() <= 1e-3 * abs(step)]
        separator = "" if kind == YEAR else ","
        plain = fits and largest < 1000 * MILLION
        texts = [f"{tick:{separator}.{fits[0]}f}" if plain else f"{tick:.6g}" for tick in ticks]
    return [text.replace("-", "\u2212") for text in texts]
