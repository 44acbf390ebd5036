"""A column of a table, and the features that it has become."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from .cycles import WAVES, Span, compute_wave
from .dates import count_days, find_zone
from .reading import DATE, TEXT, Table
from .values import Text

NOWHERE = -1
MISSING, OTHER = "(missing)", "(other)"
ELAPSED = "days since 1970"


@dataclass
class Column:
    """What is known of one column. Places are numbers of features, `NOWHERE` if there is no such feature.

    Parameters
    ----------
    name : str
        What it is called.
    kind : str
        ``"number"``, ``"boolean"``, ``"date"`` or ``"text"``.
    place : int
        The feature of the numbers; of dates, the days since 1970.
    gaps : int
        The feature that marks gaps.
    categories : dict of str or None to int
        The feature of each category, in order of appearance; None is the missing value.
    other : int
        The feature of all other categories.
    zone : str or None
        The time zone of dates; None if they have none.
    waves : dict of str to int
        The features of the cycles of dates, of those in `WAVES`.
    is_due : bool
        Whether the column is missing in all rows held, which have no feature for that yet.
    """

    name: str
    kind: str
    place: int = NOWHERE
    gaps: int = NOWHERE
    categories: dict[str | None, int] = field(default_factory=dict)
    other: int = NOWHERE
    zone: str | None = None
    waves: dict[str, int] = field(default_factory=dict)
    is_due: bool = False

    @classmethod
    def of_table(cls, name: str, kind: str, table: Table, k: int) -> Column:
        """Return column k of a table, before anything is learned."""
        return cls(name, kind, zone=find_zone(table.get_column(k)) if kind == DATE else None)

    @property
    def is_text(self) -> bool:
        return self.kind == TEXT

    @property
    def is_date(self) -> bool:
        return self.kind == DATE

    def copy(self) -> Column:
        """Return a copy that shares nothing with this one."""
        return replace(self, categories=dict(self.categories), waves=dict(self.waves))

    # ------------------------------------------------------------------------------------------------------------------
    # Places

    def _list_places(self) -> list[tuple[Hashable, int, str]]:
        """Return what each feature is, its place and its name, in canonical order."""
        named: list[tuple[Hashable, int, str]] = [
            ("number", self.place, f"{self.name} ({ELAPSED})" if self.is_date else self.name),
            ("gap", self.gaps, f"{self.name}={MISSING}"),
            *((("wave", wave), self.waves[wave], f"{self.name} ({wave})") for wave in WAVES if wave in self.waves),
            *(
                (("category", key), at, f"{self.name}={MISSING if key is None else key}")
                for key, at in self.categories.items()
            ),
            ("other", self.other, f"{self.name}={OTHER}"),
        ]
        return [(key, at, name) for key, at, name in named if at != NOWHERE]

    def list_features(self) -> list[tuple[int, str]]:
        """Return place and name of each feature, in canonical order."""
        return [(at, name) for _, at, name in self._list_places()]

    def lay_out(self, at: int) -> int:
        """Give the features places from ``at`` on, in canonical order; return the next one."""
        if not self.is_text:
            self.place, at = at, at + 1
        if self.gaps != NOWHERE:
            self.gaps, at = at, at + 1
        for wave in WAVES:
            if wave in self.waves:
                self.waves[wave], at = at, at + 1
        for key in self.categories:
            self.categories[key], at = at, at + 1
        if self.other != NOWHERE:
            self.other, at = at, at + 1
        return at

    def find_sources(self, before: Column) -> list[tuple[int, int]]:
        """Return the place of each feature, and which one it was ``before``."""
        known = {key: at for key, at, _ in before._list_places()}
        return [(at, known.get(key, NOWHERE)) for key, at, _ in self._list_places()]

    def list_groups(self) -> list[list[int]]:
        """Return the places of features that share a weight: all categories, and the two of each cycle."""
        if self.is_text:
            return [[at for at, _ in self.list_features()]] if self.categories else []
        pairs = zip(WAVES[::2], WAVES[1::2], strict=True)
        return [[self.waves[sine], self.waves[cosine]] for sine, cosine in pairs if sine in self.waves]

    # ------------------------------------------------------------------------------------------------------------------
    # Values

    def read(self, table: Table, k: int) -> np.ndarray | Text:
        """Return the values of column k of a table as this column's kind."""
        if self.is_date:
            return count_days(table.get_column(k), table.names[k], self.zone)
        return table.get_text(k) if self.is_text else table.get_numbers(k)

    def knows(self, values: np.ndarray | Text, span: Span, max_categories: int) -> bool:
        """Return whether there is a feature for every gap and category, and for the cycles of a span of dates."""
        if isinstance(values, np.ndarray):
            is_marked = self.gaps != NOWHERE or not np.isnan(values).any()
            return is_marked and self.waves.keys() >= set(span.list_waves())
        is_full = self.other != NOWHERE and len(self.categories) >= max_categories
        return is_full or all(key in self.categories for key in values.list_keys())

    def meet(
        self, values: np.ndarray | Text, span: Span, take: Callable[[], int], max_categories: int, *, is_first: bool
    ) -> None:
        """Make features for what is new, at places that ``take`` returns; ``is_first`` if nothing was learned before."""
        if isinstance(values, np.ndarray):
            if self.place == NOWHERE:
                self.place = take()
            if self.gaps == NOWHERE and (self.is_due or np.isnan(values).any()):
                self.gaps = take()
            for wave in span.list_waves():
                if wave not in self.waves:
                    self.waves[wave] = take()
        else:
            self._meet_categories(values, take, max_categories, is_first)
        self.is_due = False

    def _meet_categories(self, values: Text, take: Callable[[], int], max_categories: int, is_first: bool) -> None:
        if self.is_due:
            self.categories[None] = take()
        new = [key for key in values.list_keys() if key not in self.categories]
        room = max_categories - len(self.categories)
        if len(new) > room:
            new = _choose_frequent(values, new, room) if is_first else new[:room]
            if self.other == NOWHERE:
                self.other = take()
        for key in new:
            self.categories[key] = take()

    def encode(self, values: np.ndarray | Text, rows: np.ndarray) -> None:
        """Set the features of rows, all but the number itself."""
        if isinstance(values, np.ndarray):
            if self.gaps != NOWHERE:
                rows[:, self.gaps] = np.isnan(values)
            self.put_waves(values, rows)
            return
        keys: list[str | None] = [*values.distinct, None]
        places = np.array([self.categories.get(key, self.other) for key in keys])[values.codes]
        at = np.flatnonzero(places != NOWHERE)
        rows[at, places[at]] = 1.0

    def put_waves(self, days: np.ndarray, rows: np.ndarray) -> None:
        """Set the features of the cycles of dates, NaN where one is missing."""
        for wave, at in self.waves.items():
            rows[:, at] = compute_wave(days, wave)

    def get_numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers, or days, in rows: NaN where a gap is marked."""
        numbers = rows[:, self.place]
        return numbers.copy() if self.gaps == NOWHERE else np.where(rows[:, self.gaps] == 1.0, np.nan, numbers)

    def mark_missing(self, rows: np.ndarray) -> None:
        """Let rows be missing in this column."""
        rows[:, self.categories[None] if self.is_text else self.gaps] = 1.0

    def recount(self, rows: np.ndarray, span: Span) -> None:
        """Forget the features that none of these rows needs, whose dates have a span, and their order of appearance in others."""
        self.waves = {wave: at for wave, at in self.waves.items() if wave in span.list_waves()}
        if self.gaps != NOWHERE and not rows[:, self.gaps].any():
            self.gaps = NOWHERE
        if self.other != NOWHERE and not rows[:, self.other].any():
            self.other = NOWHERE
        first = {key: _find_first(rows[:, at]) for key, at in self.categories.items()}
        present = sorted((key for key in first if first[key] < len(rows)), key=lambda key: first[key])
        self.categories = {key: self.categories[key] for key in present}


def _find_first(indicator: np.ndarray) -> int:
    """Return the first row with a 1, or the number of rows."""
    at = int(np.argmax(indicator == 1.0)) if len(indicator) else 0
    return at if len(indicator) and indicator[at] == 1.0 else len(indicator)


def _choose_frequent(values: Text, new: list[str | None], room: int) -> list[str | None]:
    """Return the most frequent of some categories, in the order given."""
    counts = np.bincount(values.codes + 1, minlength=len(values.distinct) + 1).tolist()
    count = dict(zip([None, *values.distinct], counts, strict=True))
    chosen = set(sorted(new, key=lambda key: -count[key])[:room])
    return [key for key in new if key in chosen]
