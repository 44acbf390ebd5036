"""Cycles of dates: which ones the range of a column shows, and where on them each date is.

A cycle is a pair of features, sine and cosine, between 0 and 1 as the features of categories are. Cuts are lines in planes of two
features: in the plane of the pair, a line separates one arc of the circle, such as the nights, in one cut. Two cuts of a number from 0
to 24 would be needed, and midnight would be at both ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Cycle(NamedTuple):
    """A cycle, in days: its period, the range of dates that shows it, and the step in which it is followed.

    Weekdays change at midnight; the other cycles are continuous. Ranges are a little shorter than periods: hourly dates of a day, a
    date on each day of a week, a calendar year.
    """

    period: float
    needs: float
    step: float = 0.0


CYCLES = {"hour": Cycle(1.0, 0.9), "weekday": Cycle(7.0, 6.0, 1.0), "time of year": Cycle(365.2425, 360.0)}
WAVES = [f"{cycle}, {wave}" for cycle in CYCLES for wave in ("sin", "cos")]  # in canonical order
CENTRE = 0.5


class Span(NamedTuple):
    """The range of the dates of a column so far, in days, and whether any has a time of day."""

    low: float = np.inf
    high: float = -np.inf
    has_times: bool = False

    def extend(self, days: np.ndarray) -> Span:
        """Return the span with these dates, NaN where one is missing."""
        days = days[~np.isnan(days)]
        if not len(days):
            return self
        has_times = self.has_times or bool(np.any(days != np.floor(days)))
        return Span(min(self.low, float(days.min())), max(self.high, float(days.max())), has_times)

    def list_waves(self) -> list[str]:
        """Return the features of the cycles that it shows.

        >>> Span(0.0, 6.0).list_waves()
        ['weekday, sin', 'weekday, cos']
        """
        shown = [name for name, cycle in CYCLES.items() if self.high - self.low >= cycle.needs]
        if not self.has_times and "hour" in shown:
            shown.remove("hour")
        return [wave for wave in WAVES if wave.partition(",")[0] in shown]


def compute_wave(days: np.ndarray, wave: str) -> np.ndarray:
    """Return a feature of a cycle for dates; the centre where one is missing.

    >>> compute_wave(np.array([0.0, 0.25, 0.75, np.nan]), "hour, sin").tolist()
    [0.5, 1.0, 0.0, 0.5]
    """
    name, _, function = wave.partition(", ")
    period, _, step = CYCLES[name]
    at = np.floor(days) if step else days
    angles = np.ascontiguousarray(2 * np.pi * (at % period / period))
    return np.nan_to_num(0.5 + 0.5 * (np.sin(angles) if function == "sin" else np.cos(angles)), nan=CENTRE)
