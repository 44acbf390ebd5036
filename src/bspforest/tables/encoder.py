"""Encode tables as rows of numbers for a forest, in a stream in which new categories and gaps may come at any time.

A column of numbers is one feature. A missing number is filled by the mean of the numbers before it, and marked in a feature of its
own, which exists from the first gap on. (Gaps before the first number are filled by that.) Booleans are the numbers 0 and 1. A
column of text, or of categories, is a feature of 0 and 1 for each category, which share one weight; a missing value is a category
like others. From ``max_categories`` on, further ones share a feature, "(other)". A column of dates is the days since 1970, filled and
marked as numbers are, and a pair of features for each cycle, from the row on with which the range of the dates shows it (`Span`).

All of this is found row by row: a batch gives the same features, in the same order, as its rows one by one, as long as no column
has more than ``max_categories`` categories. (Then a first batch gives features to the most frequent ones, and a stream to the first.)
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._magnitude import check_column
from .columns import NOWHERE, Column
from .cycles import Span
from .reading import NUMBER, TEXT, Table
from .reserve import count_reserved
from .sums import Sums
from .values import Text


class Layout(NamedTuple):
    """What a forest needs to know of the features of an encoder.

    ``column_of`` is the column of each feature (-1: reserved, always 0). Features with the same number in ``groups`` share a weight.
    """

    column_of: np.ndarray
    groups: np.ndarray | None


class TableEncoder:
    """The encoding of a table, with all it has learned: see the module.

    Parameters
    ----------
    columns : list of Column
    max_categories : int
    width : int
        Number of features.

    Attributes
    ----------
    sums : Sums
        Of the columns of numbers.
    n_layouts, seen_at_layout : int
        How often features were laid out, and how many rows had been seen then.
    spans : dict of int to Span
        The range of the dates of each column of dates; it is never changed in place.
    firsts : dict of int to float
        The first numbers of columns of numbers that had none before the latest table.

    Examples
    --------
    >>> from bspforest.tables.reading import read_table
    >>> import numpy as np
    >>> table = read_table(np.array([[1.0, "red"], [np.nan, "blue"], [3.0, "red"]], dtype=object))
    >>> encoder = TableEncoder.begin(table, ["size", "colour"])
    >>> encoder, X = encoder.learn(table)
    >>> encoder.names
    ['size', 'size=(missing)', 'colour=red', 'colour=blue']
    >>> X
    array([[1., 0., 1., 0.],
           [1., 1., 0., 1.],
           [3., 0., 1., 0.]])
    >>> encoder.transform(read_table(np.array([[np.nan, "green"]], dtype=object)))
    array([[2., 1., 0., 0.]])
    """

    def __init__(self, columns: list[Column], max_categories: int, width: int = 0) -> None:
        self.columns = columns
        self.max_categories = max_categories
        self.width = width
        self.sums = Sums.empty(len(self.number_columns))
        self.n_layouts = self.seen_at_layout = 0
        self.spans: dict[int, Span] = {}
        self.firsts: dict[int, float] = {}
        self.is_widened = False  # columns have come whose features come with the next table

    @property
    def number_columns(self) -> list[Column]:
        """The columns of numbers, booleans and dates among them."""
        return [column for column in self.columns if not column.is_text]

    @classmethod
    def begin(
        cls, table: Table, names: Sequence[str], categorical: Sequence[bool] | None = None, max_categories: int = 64
    ) -> TableEncoder:
        """Return an encoder for tables such as this, which has learned nothing.

        Parameters
        ----------
        table : Table
        names : sequence of str
        categorical : sequence of bool or None
            Which columns hold categories whatever their types.
        max_categories : int

        Returns
        -------
        TableEncoder
        """
        columns = []
        for k, name in enumerate(names):
            is_named = categorical is not None and categorical[k]
            columns.append(Column.of_table(name, TEXT if is_named else table.find_kind(k), table, k))
        encoder = cls(columns, max_categories)
        return encoder.lay_out()

    @classmethod
    def of_numbers(cls, names: Sequence[str], max_categories: int) -> TableEncoder:
        """Return an encoder for columns of numbers without a gap so far."""
        return cls([Column(name, NUMBER) for name in names], max_categories).lay_out()

    def widen(self, columns: Sequence[Column], n_held: int) -> TableEncoder:
        """Return the encoder with further columns, whose features come with the next table.

        In rows held, numbers of a new column are 0, unless the column is due: then it is missing.
        """
        other = self._copy()
        other.columns += [column.copy() for column in columns]
        other.sums = self.sums.append([0 if column.is_due else n_held for column in columns if not column.is_text])
        other.is_widened = True
        return other

    def change_kind(self, k: int, column: Column) -> TableEncoder:
        """Return the encoder with text or dates in column k of numbers, in which only missing values have come so far."""
        other = self._copy()
        old = other.columns[k]
        other.columns[k] = new = replace(column, place=old.place, gaps=old.gaps)
        if column.is_text:
            other.sums = self.sums.drop(self.number_columns.index(self.columns[k]))
            new.place = new.gaps = NOWHERE
            new.categories = {None: old.gaps} if old.gaps != NOWHERE else {}
        return other

    def _copy(self, *, share: bool = False) -> TableEncoder:
        """Return a copy, with columns of its own unless they are to be shared."""
        other = copy(self)
        other.firsts = {}
        if not share:
            other.columns = [column.copy() for column in self.columns]
        return other

    # ------------------------------------------------------------------------------------------------------------------
    # Features

    @property
    def names(self) -> list[str]:
        """The names of the features; those that are reserved have none."""
        names = [""] * self.width
        for column in self.columns:
            for at, name in column.list_features():
                names[at] = name
        return names

    @property
    def n_used(self) -> int:
        """The number of features that are not reserved."""
        return sum(len(column.list_features()) for column in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether rows are the numbers of the table themselves."""
        is_plain = all(not (column.is_text or column.is_date) and column.gaps == NOWHERE for column in self.columns)
        return is_plain and self.width == len(self.columns)

    def describe_layout(self) -> Layout:
        """Return the column of each feature, and which features share a weight."""
        column_of = np.full(self.width, NOWHERE)
        groups = np.arange(self.width)
        for k, column in enumerate(self.columns):
            places = [at for at, _ in column.list_features()]
            column_of[places] = k
            for group in column.list_groups():
                groups[group] = min(group)
        shared = len(np.unique(groups)) < self.width
        return Layout(column_of, groups if shared else None)

    def lay_out(self, spare: int = 0) -> TableEncoder:
        """Return the encoder with its features in canonical order, and ``spare`` ones reserved after them."""
        other = self._copy()
        at = 0
        for column in other.columns:
            at = column.lay_out(at)
        other.width = max(at, 1) + spare
        return other

    def find_sources(self, before: TableEncoder) -> np.ndarray:
        """Return, for each feature, which one it was ``before``; -1 for new ones."""
        sources = np.full(self.width, NOWHERE)
        for column, old in zip(self.columns, before.columns, strict=True):
            for at, source in column.find_sources(old):
                sources[at] = source
        return sources

    # ------------------------------------------------------------------------------------------------------------------
    # Encoding

    def learn(self, table: Table, n_seen: int = 0, n_held: int = 0) -> tuple[TableEncoder, np.ndarray]:
        """Return the encoder after learning a table, and its rows. This encoder stays as it is.

        New features take places that are reserved, if there are enough; else all features are laid out anew, as they are when no
        new one has come for as many rows as are held.

        Parameters
        ----------
        table : Table
        n_seen : int, default=0
            Rows seen before.
        n_held : int, default=0
            Rows held before.

        Returns
        -------
        encoder : TableEncoder
        rows : ndarray of shape (n_rows, width)
        """
        read = self._read(table)
        n_since = n_seen - self.seen_at_layout
        spans = {
            k: self.spans.get(k, Span()).extend(days)
            for k, days in enumerate(read)
            if self.columns[k].is_date and isinstance(days, np.ndarray)
        }
        is_settled = n_since >= n_held and self.width > max(self.n_used, 1)
        other = self._copy(share=not self.is_widened and self._knows(read, spans) and not is_settled)
        other.is_widened, other.spans = False, spans
        if other.columns is not self.columns and (other._meet(read) or is_settled):
            other = other.lay_out(0 if is_settled else count_reserved(other.n_used, self.n_layouts, n_since, n_held))
            other.n_layouts, other.seen_at_layout = self.n_layouts + 1, n_seen
        rows = other._encode(read, table.n_rows)
        numbers = other._stack_numbers(read, table.n_rows)
        other.sums, other.firsts = self.sums.fill(numbers)
        other._put_numbers(rows, numbers)
        return other, rows

    def must_convert(self, before: TableEncoder) -> bool:
        """Return whether rows that were encoded ``before`` have to be converted."""
        if self.width != before.width or any(before.number_columns[k].gaps != NOWHERE for k in self.firsts):
            return True
        if self.columns is before.columns:  # nothing new has come
            return False
        if any(
            old.is_due or len(column.waves) > len(old.waves)
            for column, old in zip(self.columns, before.columns, strict=True)
        ):
            return True
        sources = self.find_sources(before)
        return bool(np.any((sources != NOWHERE) & (sources != np.arange(self.width))))

    def transform(self, table: Table) -> np.ndarray:
        """Return the rows of a table. What is unknown is in the feature of other categories, or nowhere.

        Parameters
        ----------
        table : Table

        Returns
        -------
        ndarray of shape (n_rows, width)
        """
        read = self._read(table)
        rows = self._encode(read, table.n_rows)
        numbers = self._stack_numbers(read, table.n_rows)
        self._put_numbers(rows, np.where(np.isnan(numbers), self.sums.means, numbers))
        return rows

    def _read(self, table: Table) -> list[np.ndarray | Text]:
        """Return each column as numbers or text, as its kind is."""
        read = [column.read(table, k) for k, column in enumerate(self.columns)]
        for name, values in zip(table.names, read, strict=False):
            if isinstance(values, np.ndarray):
                check_column(name, values)
        return read

    def _knows(self, read: list[np.ndarray | Text], spans: dict[int, Span]) -> bool:
        """Return whether there is a feature for every gap, category and cycle."""
        return all(
            column.knows(read[k], spans.get(k, Span()), self.max_categories) for k, column in enumerate(self.columns)
        )

    @staticmethod
    def _stack_numbers(read: list[np.ndarray | Text], n: int) -> np.ndarray:
        columns = [values for values in read if isinstance(values, np.ndarray)]
        return np.stack(columns, axis=1) if columns else np.empty((n, 0))

    def _meet(self, read: list[np.ndarray | Text]) -> bool:
        """Make features for what is new; return whether there are too few places."""
        free: list[int] | None = None
        is_first = not any(column.categories for column in self.columns) and not self.sums.counts.any()
        lacking = False

        def take() -> int:
            nonlocal free, lacking
            if free is None:
                used = {at for column in self.columns for at, _ in column.list_features()}
                free = sorted(set(range(self.width)) - used)
            lacking |= not free
            return free.pop(0) if free else self.width  # which `lay_out` replaces

        for k, (column, values) in enumerate(zip(self.columns, read, strict=True)):
            column.meet(values, self.spans.get(k, Span()), take, self.max_categories, is_first=is_first)
        return lacking

    def _encode(self, read: list[np.ndarray | Text], n: int) -> np.ndarray:
        """Return rows without numbers; gaps are marked."""
        rows = np.zeros((n, self.width))
        for column, values in zip(self.columns, read, strict=True):
            column.encode(values, rows)
        return rows

    def _put_numbers(self, rows: np.ndarray, numbers: np.ndarray) -> None:
        rows[:, [column.place for column in self.number_columns]] = numbers

    # ------------------------------------------------------------------------------------------------------------------
    # Rows that are held

    def convert(self, rows: np.ndarray, before: TableEncoder) -> np.ndarray:
        """Return rows that were encoded ``before`` in the features of this encoder.

        Where there were gaps only, and now is a number, they are filled by the first one, as they would have been in one batch.
        """
        sources = self.find_sources(before)
        known = sources != NOWHERE
        new = np.zeros((len(rows), self.width))
        new[:, known] = rows[:, sources[known]]
        for k, first in self.firsts.items():
            new[:, self.number_columns[k].place] = first
        for column, old in zip(self.columns, before.columns, strict=True):
            if old.is_due:
                column.mark_missing(new)
            if column.is_date:
                column.put_waves(column.get_numbers(new), new)
        return new

    def recount(self, rows: np.ndarray) -> tuple[TableEncoder, np.ndarray]:
        """Return an encoder that has seen nothing but these rows, in this order, and the rows as it would have encoded them.

        Which numbers are missing, and the category of each row, are read from the rows. Categories that share the feature of others
        stay there.
        """
        other = self._copy()
        numbers = self._read_numbers(rows)
        other.spans = {
            k: Span().extend(column.get_numbers(rows)) for k, column in enumerate(self.columns) if column.is_date
        }
        for k, column in enumerate(other.columns):
            column.recount(rows, other.spans.get(k, Span()))
        other = other.lay_out()
        other.n_layouts = self.n_layouts + 1
        other.sums, _ = Sums.empty(numbers.shape[1]).fill(numbers)
        new = other.convert(rows, self)
        other._put_numbers(new, numbers)
        return other, new

    def _read_numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers in rows, NaN where a gap is marked."""
        columns = [column.get_numbers(rows) for column in self.number_columns]
        return np.stack(columns, axis=1) if columns else np.empty((len(rows), 0))
