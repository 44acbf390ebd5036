"""The columns that a forest learns from: their kinds, and their values as a table for the forest.

Kinds are chosen from the first rows and saved with the model. What becomes of a column is decided by the encoder of the forest:
see `bspforest.tables`.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ..errors import CommandError
from .arrow import pa, pc
from .column_kinds import BOOLEAN, DATE, INTEGER, NUMBER, TEXT, TYPES


class Schema:
    """The kinds of all columns except the target.

    >>> schema = Schema({"size": "number", "colour": "text"})
    >>> table = schema.make_table({"colour": pa.array(["red", ""]), "size": pa.array([5.0, None])})
    >>> table.to_pylist()
    [{'size': 5.0, 'colour': 'red'}, {'size': None, 'colour': None}]
    """

    def __init__(self, kinds: dict[str, str]) -> None:
        self.kinds = kinds

    @classmethod
    def choose(cls, kinds: dict[str, str]) -> Schema:
        """Return the schema for columns that have these kinds in the first rows."""
        for name, kind in kinds.items():
            if kind == DATE:
                raise CommandError(
                    f"column {name!r} holds dates or times, which cannot be used as numbers directly: leave it out with "
                    f"--drop {name}, or replace it by numbers (such as the hour, the day of the week, or a count of days)"
                )
        if not kinds:
            raise CommandError("no columns are left to learn from besides the target and the dropped columns")
        return cls({name: NUMBER if kind == INTEGER else kind for name, kind in kinds.items()})

    @classmethod
    def from_json(cls, columns: list[dict[str, Any]]) -> Schema:
        """Return the schema that `to_json` described."""
        return cls({column["name"]: column["kind"] for column in columns})

    def to_json(self) -> list[dict[str, Any]]:
        """Return the complete state, for JSON."""
        return [{"name": name, "kind": kind} for name, kind in self.kinds.items()]

    def find_infinite(self, columns: dict[str, pa.Array]) -> tuple[np.ndarray, str] | None:
        """Return the rows with an infinite number, as a mask, and the column; None if there is none."""
        for name, kind in self.kinds.items():
            if kind == NUMBER:
                lowest, highest = pc.min_max(columns[name]).as_py().values()
                if lowest is not None and (np.isinf(lowest) or np.isinf(highest)):
                    return np.isinf(_numbers(columns[name])), name
        return None

    def make_table(self, columns: dict[str, pa.Array]) -> pa.Table:
        """Return columns as the forest takes them, with null where a value is missing."""
        made = {}
        for name, kind in self.kinds.items():
            values = columns[name]
            if kind == TEXT:
                values = pc.if_else(pc.equal(values, ""), pa.scalar(None, TYPES[TEXT]), values)
            elif kind == NUMBER:
                values = pa.array(_numbers(values), from_pandas=True)  # NaN is missing, too
            made[name] = values
        return pa.table(made)

    def digest(self, table: pa.Table) -> np.ndarray:
        """Return the rows as numbers, for checksums: text by its own checksum, NaN where a value is missing."""
        rows = np.empty((table.num_rows, len(self.kinds)))
        for k, (name, kind) in enumerate(self.kinds.items()):
            column = table.column(name)
            if kind != TEXT:
                rows[:, k] = _numbers(column.cast("int8") if kind == BOOLEAN else column)
                continue
            encoded = column.combine_chunks().dictionary_encode()
            sums = np.array([float(zlib.crc32(text.encode())) for text in encoded.dictionary.to_pylist()] + [np.nan])
            rows[:, k] = sums[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        return rows


def _numbers(values: Any) -> np.ndarray:
    numbers = values.cast(TYPES[NUMBER]).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(numbers), np.nan, numbers)  # one bit pattern for all NaN
