"""Text for people: numbers, tables, and a curve in a line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def format_number(value: float) -> str:
    """Format a number with four significant digits, or as a dash if it is NaN.

    >>> [format_number(value) for value in (0.91237, 1234.6, 12.3456, 0.0000123, float("nan"))]
    ['0.9124', '1,235', '12.35', '1.23e-05', '–']
    """
    if math.isnan(value):
        return "–"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}" if size < 1e9 else f"{value:.3e}"
    if 0 < size < 0.001:
        return f"{value:.3g}"
    return f"{value:.{max(0, min(4, 3 - math.floor(math.log10(size)) if size >= 1 else 4))}f}"


def format_percent(share: float) -> str:
    """Format a share as a percentage, or as a dash if it is NaN.

    >>> format_percent(0.91237), format_percent(float("nan"))
    ('91.2 %', '–')
    """
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def format_count(n: int, noun: str) -> str:
    """Format a number of things, with the noun in singular or plural.

    >>> format_count(1, "malformed row"), format_count(1200, "row"), format_count(0, "class"), format_count(2, "entry")
    ('1 malformed row', '1,200 rows', '0 classes', '2 entries')
    """
    if n != 1:
        noun = noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("s") else "s")
    return f"{n:,} {noun}"


def shorten(text: str, most: int = 60) -> str:
    """Return a text of at most so many characters, with its middle left out.

    >>> shorten("abcdefghij", 7), shorten("abc", 7)
    ('abc…hij', 'abc')
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[len(text) - (most - 1 - half) :]}"


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    r"""Return lines with aligned columns: the first to the left, all others to the right.

    >>> print(*format_table([["", "RMSE"], ["forest", "1.5"], ["mean", "12.0"]]), sep="\n")
            RMSE
    forest   1.5
    mean    12.0
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


def draw_bars(values: Sequence[float], low: float, high: float, width: int = 40) -> str:
    """Draw a curve as a line of bars between ``low`` and ``high``.

    >>> draw_bars([0.0, 0.5, 1.0], 0.0, 1.0)
    '▁▅█'
    """
    n = len(values)
    if n > width:
        groups = [values[n * k // width : n * (k + 1) // width] for k in range(width)]
        values = [sum(group) / len(group) for group in groups]
    size = high - low or 1.0
    steps = [0 if math.isnan(v) else round((len(BARS) - 1) * min(max((v - low) / size, 0.0), 1.0)) for v in values]
    return "".join(BARS[step] for step in steps)
