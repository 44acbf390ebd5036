"""What every source gives: the next rows of the data, each column of one type, and the rows that did not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .arrow import pa, pc
from .column_kinds import convert

Rejected = tuple[str, str]  # where a row stands, and why it is left out


@dataclass
class Part:
    """Some rows in order, and those between them that are left out."""

    columns: dict[str, pa.Array]
    n_rows: int
    rejected: list[Rejected]
    where: Callable[[int], str]

    def keep(self, good: np.ndarray) -> Part:
        """The part without the rows that are not good."""
        kept = np.flatnonzero(good)
        mask = pa.array(good)
        columns = {name: values.filter(mask) for name, values in self.columns.items()}
        return Part(columns, len(kept), self.rejected, lambda i: self.where(int(kept[i])))


class Source(Protocol):
    """Data read once, from beginning to end, in blocks."""

    name: str
    columns: list[str]

    def sample(self, n: int, drop: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, pa.Array]]:
        """The kind of each column in the first n rows (or a few more), and these rows as they were read. Columns to
        ``drop`` may hold anything.
        """

    def read(self, kinds: dict[str, str]) -> Iterator[Part]:
        """All rows, from the first; the columns wanted, as these kinds."""

    @property
    def share_read(self) -> float | None:
        """How much of the data has been read, from 0 to 1; None if nobody knows."""


def make_part(
    raw: dict[str, pa.Array], kinds: dict[str, str], where: Callable[[int], str], rejected: list[Rejected]
) -> Part:
    """Convert columns to their kinds; rows with a bad value are left out."""
    columns, faults = {}, []
    for name, kind in kinds.items():
        columns[name], bad = convert(raw[name], kind)
        if bad is not None and pc.any(bad).as_py():
            faults.append((name, kind, bad.to_numpy(zero_copy_only=False)))
    n = len(next(iter(columns.values()))) if columns else 0
    part = Part(columns, n, rejected, where)
    if not faults:
        return part
    good = np.ones(n, dtype=bool)
    for name, kind, bad in faults:
        for i in np.flatnonzero(bad & good):
            shown = raw[name][int(i)].as_py()
            part.rejected.append((where(int(i)), f"{shown!r} in column {name!r} is not {_a(kind)}"))
        good &= ~bad
    return part.keep(good)


def _a(kind: str) -> str:
    return {"integer": "a whole number", "text": "text in UTF-8"}.get(kind, f"a {kind}")


def as_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array of what pyarrow gives in chunks."""
    if isinstance(values, pa.Array):
        return values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks or [pa.array([], values.type)])
