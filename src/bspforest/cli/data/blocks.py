"""Blocks of rows, as every source yields them: columns of one type each, and the rows that did not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from .arrow import pa, pc
from .column_kinds import INTEGER, NUMBER, convert
from .notation import PLAIN, Notation

DESCRIPTIONS = {
    "number": "a number",
    "integer": "a whole number",
    "boolean": "a boolean",
    "text": "text in UTF-8",
    "date": "a date",
}


class Location(NamedTuple):
    """Where a row is in the data: a line of a text file, or a row of a table, counted from 1."""

    unit: str
    number: int

    def __str__(self) -> str:
        return f"{self.unit} {self.number}"


class RejectedRow(NamedTuple):
    """A row that cannot be used, and why."""

    location: Location
    reason: str
    is_unlabelled: bool = False  # its only fault is that the target is empty


@dataclass
class Block:
    """Some rows in order, and the rows among them that were rejected.

    ``locate`` returns where the i-th row of the block is in the data; ``notices`` are for the user.
    """

    columns: dict[str, pa.Array]
    n_rows: int
    rejected: list[RejectedRow]
    locate: Callable[[int], Location]
    notices: list[str] = field(default_factory=list)

    def reject(self, i: int, reason: str, *, is_unlabelled: bool = False) -> None:
        """Report the i-th row as rejected. `keep` removes it."""
        self.rejected.append(RejectedRow(self.locate(i), reason, is_unlabelled))

    def keep(self, good: np.ndarray) -> Block:
        """Return the block with the rows where ``good`` is True."""
        kept = np.flatnonzero(good)
        mask = pa.array(good)
        columns = {name: values.filter(mask) for name, values in self.columns.items()}
        return Block(columns, len(kept), self.rejected, lambda i: self.locate(int(kept[i])), self.notices)


class Source(Protocol):
    """Data that is read once, from beginning to end, in blocks."""

    name: str
    columns: list[str]
    notation: Notation

    def sample(self, n: int, drop: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, pa.Array]]:
        """Return the kind of each column in the first n rows (or a few more), and these rows as they were read.

        Columns to ``drop`` are not looked at.
        """

    def read(self, kinds: dict[str, str]) -> Iterator[Block]:
        """Yield all rows from the first, with the columns in ``kinds`` converted to their kinds."""

    @property
    def share_read(self) -> float | None:
        """Return the fraction of the data that has been read, or None if it is not known."""


def make_block(
    raw: dict[str, pa.Array],
    kinds: dict[str, str],
    locate: Callable[[int], Location],
    rejected: list[RejectedRow],
    notation: Notation = PLAIN,
) -> Block:
    """Convert columns to their kinds, and reject the rows with a value that is not of its column's kind."""
    columns, faults = {}, []
    for name, kind in kinds.items():
        columns[name], bad = convert(raw[name], kind, notation)
        if bad is not None and pc.any(bad).as_py():
            faults.append((name, kind, bad.to_numpy(zero_copy_only=False)))
    n = len(next(iter(columns.values()))) if columns else 0
    block = Block(columns, n, rejected, locate)
    if not faults:
        return block
    good = np.ones(n, dtype=bool)
    for name, kind, bad in faults:
        for i in map(int, np.flatnonzero(bad & good)):
            value = raw[name][i].as_py()
            hint = notation.hint(str(value)) if kind in (NUMBER, INTEGER) else ""
            block.reject(i, f"{value!r} in column {name!r} is not {DESCRIPTIONS[kind]}{hint}")
        good &= ~bad
    return block.keep(good)


def as_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a chunked array as one array."""
    if isinstance(values, pa.Array):
        return values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks or [pa.array([], values.type)])
