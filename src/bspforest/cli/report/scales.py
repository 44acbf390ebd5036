"""Scales of pictures: from numbers to places, with round ticks."""

from __future__ import annotations

import math
from typing import NamedTuple

MIN_STEP = 1e-300  # smaller numbers have too few digits to divide


class Scale(NamedTuple):
    """Maps numbers from ``low`` to ``high`` to places from ``start`` to ``end``, linearly or by their logarithms.

    >>> scale = Scale(0.0, 50.0, 100.0, 200.0)
    >>> scale(25.0), scale.find_ticks(3)
    (150.0, [0.0, 20.0, 40.0])
    >>> Scale(50, 20_000, 0, 1, is_log=True).find_ticks(5)
    [100.0, 1000.0, 10000.0]
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        if not math.isfinite(high - low):
            low, high, value = low / 2, high / 2, value / 2
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def find_ticks(self, n: int) -> list[float]:
        """Return about ``n`` round numbers, at distances of 1, 2 or 5 times a power of ten; powers of ten on a log scale."""
        if self.is_log:
            powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            return [10.0**k for k in powers]
        step = find_step(self.low, self.high, n)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def find_step(low: float, high: float, n: int) -> float:
    """Return a round distance, with which there are at most ``n`` + 1 ticks.

    >>> find_step(0, 1, 5), find_step(0, 19_900, 6), find_step(3, 3, 4)
    (0.2, 5000.0, 0.5)
    """
    least = max(high / n - low / n, MIN_STEP) if high > low else 0.5
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def format_ticks(ticks: list[float], suffix: str = "") -> list[str]:
    """Format ticks with as many digits as their distance needs.

    >>> format_ticks([0.0, 0.5, 1.0]), format_ticks([0.0, 5000.0]), format_ticks([0.0, 2e6], " %"), format_ticks([1e-5])
    (['0', '0.5', '1.0'], ['0', '5,000'], ['0 %', '2M %'], ['1e-05'])
    """
    if not ticks:
        return []
    largest = max(map(abs, ticks))
    step = abs(ticks[1] - ticks[0]) if len(ticks) > 1 else largest or 1.0
    if largest >= 1e6:
        return [("0" if tick == 0 else f"{tick / 1e6:,g}M") + suffix for tick in ticks]
    if step < 1e-4:
        return [("0" if tick == 0 else f"{tick:.3g}") + suffix for tick in ticks]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [("0" if tick == 0 else f"{tick:,.{digits}f}") + suffix for tick in ticks]
