"""Columns of a table as numbers for a forest; settled on the first rows, and kept with the model.

Numbers and booleans are taken as they are. A text column becomes one column of 0 and 1 for each of its frequent values
in the first rows, and one for all others. A missing number is replaced by the mean of the numbers before it; where the
first rows have any missing, a column of 0 and 1 says which were.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..errors import CommandError
from .arrow import pa, pc
from .column_kinds import DATE, INTEGER, NUMBER, TEXT, convert

BLOCK = 65_536  # rows
LARGEST = np.finfo(np.float64).max
MAX_CATEGORIES = 32  # of a text column that get a column of their own


@dataclass
class Column:
    """How one column is encoded. Gaps are filled by ``mean``: of the ``count`` numbers learned, or of the sample."""

    name: str
    kind: str
    categories: list[str] = field(default_factory=list)
    indicator: bool = False
    mean: float = 0.0
    count: int = 0

    @property
    def names(self) -> list[str]:
        """The features that it becomes."""
        if self.kind == TEXT:
            return [f"{self.name}={value}" for value in self.categories] + [f"{self.name}=(other)"]
        return [self.name, f"{self.name}=(missing)"] if self.indicator else [self.name]


class Encoder:
    """The encoding of all columns but the target.

    >>> table = {"size": pa.array([1.0, None, 3.0]), "colour": pa.array(["red", "blue", "red"])}
    >>> encoder = Encoder.fit(table, {"size": "number", "colour": "text"})
    >>> encoder.names
    ['size', 'size=(missing)', 'colour=red', 'colour=blue', 'colour=(other)']
    >>> X = encoder.encode({"size": pa.array([5.0, None]), "colour": pa.array(["green", "blue"])})
    >>> encoder.fill(X)
    >>> X
    array([[5., 0., 0., 0., 1.],
           [5., 1., 0., 1., 0.]])
    """

    def __init__(self, columns: list[Column]) -> None:
        self.columns = columns
        self.names = [name for column in columns for name in column.names]
        for name in self.names:
            if self.names.count(name) > 1:
                raise CommandError(
                    f"two features would be called {name!r}: rename a column, or leave it out with --drop"
                )
        self._numeric = [column for column in columns if column.kind != TEXT]
        self._places = [self.names.index(column.name) for column in self._numeric]
        self._counts = np.array([column.count for column in self._numeric], dtype=np.int64)
        self._means = np.array([column.mean for column in self._numeric], dtype=np.float64)

    # ------------------------------------------------------------------------------------------------------------------
    # Made from the first rows, or from a saved model

    @classmethod
    def fit(cls, first: dict[str, pa.Array], kinds: dict[str, str], max_categories: int = MAX_CATEGORIES) -> Encoder:
        """The encoding of these columns, settled on the first rows."""
        columns = []
        for name, kind in kinds.items():
            if kind == DATE:
                raise CommandError(
                    f"column {name!r} holds dates or times, which have no one meaning as numbers: leave it out with "
                    f"--drop {name}, or give what matters of it as columns (the hour, the day of the week, days since)"
                )
            if kind == TEXT:
                columns.append(Column(name, TEXT, categories=_frequent(first[name], max_categories)))
            else:
                values = _numbers(convert(first[name], kind)[0])
                known = values[np.isfinite(values)]
                share = _share(len(known))
                mean = float(_mean((known * share).sum(), max(len(known), 1) * share))
                kind = NUMBER if kind == INTEGER else kind
                columns.append(Column(name, kind, indicator=bool(np.isnan(values).any()), mean=mean))
        if not columns:
            raise CommandError("no column is left to learn from: the target and dropped columns are all there are")
        return cls(columns)

    @classmethod
    def from_json(cls, columns: list[dict[str, Any]]) -> Encoder:
        """What `to_json` gave."""
        return cls([Column(**column) for column in columns])

    def to_json(self) -> list[dict[str, Any]]:
        """All there is to know, for JSON."""
        for column, count, mean in zip(self._numeric, self._counts, self._means, strict=True):
            column.count, column.mean = int(count), float(mean)
        return [asdict(column) for column in self.columns]

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        return {column.name: column.kind for column in self.columns}

    # ------------------------------------------------------------------------------------------------------------------
    # At work

    def find_infinite(self, table: dict[str, pa.Array]) -> tuple[np.ndarray, str] | None:
        """Which rows hold an infinite number, and in which column; None if no row does."""
        for column in self.columns:
            if column.kind == NUMBER:
                values = table[column.name]
                lowest, highest = pc.min_max(values).as_py().values()
                if lowest is not None and (np.isinf(lowest) or np.isinf(highest)):
                    return np.isinf(_numbers(values)), column.name
        return None

    def encode(self, table: dict[str, pa.Array]) -> np.ndarray:
        """Rows for the forest, with NaN where a number is missing."""
        n = len(next(iter(table.values())))
        X = np.zeros((n, len(self.names)))
        at = 0
        for column in self.columns:
            values = table[column.name]
            if column.kind == TEXT:
                found = pc.index_in(pc.fill_null(values, ""), value_set=pa.array(column.categories, pa.string()))
                codes = pc.fill_null(found, len(column.categories)).to_numpy(zero_copy_only=False)
                X[np.arange(n), at + codes] = 1.0
            else:
                X[:, at] = _numbers(values)
                if column.indicator:
                    X[:, at + 1] = np.isnan(X[:, at])
            at += len(column.names)
        return X

    def fill(self, X: np.ndarray, *, learn: bool = True) -> None:
        """Replace NaN by the mean of the numbers above it, in this chunk and before.

        ``learn``: the numbers of this chunk count from now on. Then chunks must come in the order of the rows.
        """
        numbers = X[:, self._places]
        missing = np.isnan(numbers)
        gaps = missing.any()
        if not learn:
            if gaps:
                X[:, self._places] = np.where(missing, self._means, numbers)
            return
        share = _share(self._counts.max(initial=0) + len(X))
        before = self._means * (self._counts * share)
        if not gaps:
            self._counts = self._counts + len(X)
            self._means = _mean(before + (numbers * share).sum(axis=0), self._counts * share)
            return
        counts = self._counts + np.cumsum(~missing, axis=0)
        totals = before + np.cumsum(np.where(missing, 0.0, numbers * share), axis=0)
        means = np.where(counts > 0, _mean(totals, np.maximum(counts, 1) * share), self._means)
        X[:, self._places] = np.where(missing, means, numbers)
        self._counts, self._means = counts[-1], means[-1]

    def recount(self, rows: np.ndarray) -> None:
        """Take the means anew, over rows as a forest holds them: the mean of a column without numbers is 0 then.

        A gap is known by the column that says so. Where there is none, what it was filled with counts as a number.
        """
        self._counts[:], self._means[:] = 0, 0.0
        for start in range(0, len(rows), BLOCK):
            X = rows[start : start + BLOCK].copy()
            for column, place in zip(self._numeric, self._places, strict=True):
                if column.indicator:
                    X[X[:, place + 1] == 1.0, place] = np.nan
            self.fill(X)


def _share(count: int) -> float:
    """A factor with which so many numbers have a sum, however large they are. A power of 2 rounds nothing."""
    return 0.5 ** int(count).bit_length()


def _mean(total: np.ndarray, count: np.ndarray | float) -> np.ndarray:
    """Their quotient; of numbers near the largest there is, it could be rounded to infinity."""
    with np.errstate(over="ignore"):
        return np.clip(total / count, -LARGEST, LARGEST)


def _numbers(values: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int8())
    return pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)


def _frequent(values: pa.Array, most: int) -> list[str]:
    """The most frequent values, in the order in which they first came."""
    counted = pc.value_counts(pc.fill_null(convert(values, TEXT)[0], "")).to_pylist()
    chosen = sorted(counted, key=lambda entry: -entry["counts"])[:most]
    return [entry["values"] for entry in counted if entry in chosen]
