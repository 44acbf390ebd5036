"""Encode the columns of a table as numbers for a forest.

The encoding is chosen from the first rows and saved with the model. Numbers and booleans are used as they are. A text
column becomes one indicator column for each of its frequent values in the first rows, and one for all others. A missing
number is replaced by the mean of the numbers before it; if any is missing in the first rows, an indicator column marks
the missing ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..errors import CommandError, DuplicateFeatureError
from .arrow import pa, pc
from .column_kinds import DATE, INTEGER, NUMBER, TEXT, convert

BLOCK_ROWS = 65_536  # copied at a time by `Encoder.recount`
LARGEST = np.finfo(np.float64).max
MAX_CATEGORIES = 32  # values of a text column with an indicator column of their own


@dataclass
class Column:
    """Encoding of one column. Missing numbers are replaced by ``mean``: of the ``count`` numbers learned, or of the sample."""

    name: str
    kind: str
    categories: list[str] = field(default_factory=list)
    indicator: bool = False
    mean: float = 0.0
    count: int = 0

    @property
    def names(self) -> list[str]:
        """Return the names of its features."""
        if self.kind == TEXT:
            return [f"{self.name}={value}" for value in self.categories] + [f"{self.name}=(other)"]
        return [self.name, f"{self.name}=(missing)"] if self.indicator else [self.name]


class Encoder:
    """Encoding of all columns except the target.

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
        self.names: list[str] = []
        self._numeric = [column for column in columns if column.kind != TEXT]
        self._places = []  # of the numeric columns among the features
        for column in columns:
            if column.kind != TEXT:
                self._places.append(len(self.names))
            self.names += column.names
        name, times = Counter(self.names).most_common(1)[0] if columns else ("", 0)
        if times > 1:
            raise DuplicateFeatureError(name)
        self._counts = np.array([column.count for column in self._numeric], dtype=np.int64)
        self._means = np.array([column.mean for column in self._numeric], dtype=np.float64)

    # ------------------------------------------------------------------------------------------------------------------
    # Construction from the first rows, or from a saved model

    @classmethod
    def fit(cls, first: dict[str, pa.Array], kinds: dict[str, str], max_categories: int = MAX_CATEGORIES) -> Encoder:
        """Choose the encoding of these columns from the first rows."""
        columns = []
        for name, kind in kinds.items():
            if kind == DATE:
                raise CommandError(
                    f"column {name!r} holds dates or times, which cannot be used as numbers directly: leave it out with "
                    f"--drop {name}, or replace it by numbers (such as the hour, the day of the week, or a count of days)"
                )
            if kind == TEXT:
                columns.append(Column(name, TEXT, categories=_frequent(first[name], max_categories)))
            else:
                values = _numbers(convert(first[name], kind)[0])
                known = values[np.isfinite(values)]
                scale = _scale(len(known))
                mean = float(_mean((known * scale).sum(), max(len(known), 1) * scale))
                kind = NUMBER if kind == INTEGER else kind
                columns.append(Column(name, kind, indicator=bool(np.isnan(values).any()), mean=mean))
        if not columns:
            raise CommandError("no columns are left to learn from besides the target and the dropped columns")
        return cls(columns)

    @classmethod
    def from_json(cls, columns: list[dict[str, Any]]) -> Encoder:
        """Return the encoder that `to_json` described."""
        return cls([Column(**column) for column in columns])

    def to_json(self) -> list[dict[str, Any]]:
        """Return the complete state, for JSON."""
        for column, count, mean in zip(self._numeric, self._counts, self._means, strict=True):
            column.count, column.mean = int(count), float(mean)
        return [asdict(column) for column in self.columns]

    @property
    def kinds(self) -> dict[str, str]:
        """Return the kind of each column."""
        return {column.name: column.kind for column in self.columns}

    # ------------------------------------------------------------------------------------------------------------------
    # Encoding

    def find_infinite(self, table: dict[str, pa.Array]) -> tuple[np.ndarray, str] | None:
        """Return the rows with an infinite number, as a mask, and the column; None if there is none."""
        for column in self.columns:
            if column.kind == NUMBER:
                values = table[column.name]
                lowest, highest = pc.min_max(values).as_py().values()
                if lowest is not None and (np.isinf(lowest) or np.isinf(highest)):
                    return np.isinf(_numbers(values)), column.name
        return None

    def encode(self, table: dict[str, pa.Array]) -> np.ndarray:
        """Return rows for the forest, with NaN where a number is missing."""
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
        """Replace NaN in place by the mean of the numbers above it, in this chunk and all before.

        With ``learn``, the numbers of this chunk are added to the means, so chunks must come in the order of the rows.
        """
        numbers = X[:, self._places]
        missing = np.isnan(numbers)
        any_missing = missing.any()
        if not learn:
            if any_missing:
                X[:, self._places] = np.where(missing, self._means, numbers)
            return
        scale = _scale(self._counts.max(initial=0) + len(X))
        before = self._means * (self._counts * scale)
        if not any_missing:
            self._counts = self._counts + len(X)
            self._means = _mean(before + (numbers * scale).sum(axis=0), self._counts * scale)
            return
        counts = self._counts + np.cumsum(~missing, axis=0)
        totals = before + np.cumsum(np.where(missing, 0.0, numbers * scale), axis=0)
        means = np.where(counts > 0, _mean(totals, np.maximum(counts, 1) * scale), self._means)
        X[:, self._places] = np.where(missing, means, numbers)
        self._counts, self._means = counts[-1], means[-1]

    def recount(self, rows: np.ndarray) -> None:
        """Recompute the means from the rows that a forest holds; the mean of a column without numbers becomes 0.

        The indicator column tells which numbers were missing. Without one, replaced values count as numbers.
        """
        self._counts[:], self._means[:] = 0, 0.0
        for start in range(0, len(rows), BLOCK_ROWS):
            X = rows[start : start + BLOCK_ROWS].copy()
            for column, place in zip(self._numeric, self._places, strict=True):
                if column.indicator:
                    X[X[:, place + 1] == 1.0, place] = np.nan
            self.fill(X)


def _scale(count: int) -> float:
    """Return a power of 2 by which ``count`` numbers of any size can be scaled, without rounding, so that their sum is finite."""
    return 0.5 ** int(count).bit_length()


def _mean(total: np.ndarray, count: np.ndarray | float) -> np.ndarray:
    """Divide, and clip the mean of the largest floats, which could round to infinity."""
    with np.errstate(over="ignore"):
        return np.clip(total / count, -LARGEST, LARGEST)


def _numbers(values: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int8())
    return pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)


def _frequent(values: pa.Array, most: int) -> list[str]:
    """Return the most frequent values, in order of appearance."""
    counted = pc.value_counts(pc.fill_null(convert(values, TEXT)[0], "")).to_pylist()
    chosen = sorted(counted, key=lambda entry: -entry["counts"])[:most]
    return [entry["values"] for entry in counted if entry in chosen]
