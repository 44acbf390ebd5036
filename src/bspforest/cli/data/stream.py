"""Chunks of rows for a forest: a fixed number of rows each, without the rows that cannot be used."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import MalformedRowError
from ..formatting import format_count
from ..terminal import print_errors
from .arrow import pa
from .blocks import Block, RejectedRow, Source
from .column_kinds import TEXT
from .schema import Schema
from .target import Target

SKIP_ROWS = 65_536  # read at a time by `Stream.skip`
MAX_REPORTED = 5  # skipped rows that are reported one by one, and notices


@dataclass
class Chunk:
    """Rows for a forest, their labels, keys, and columns to copy to the output."""

    table: pa.Table
    y: np.ndarray | None = None
    kept: dict[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.table.num_rows

    def __getitem__(self, rows: slice) -> Chunk:
        return Chunk(
            self.table[rows],
            None if self.y is None else self.y[rows],
            {name: values[rows] for name, values in self.kept.items()},
        )


class Stream:
    """The rows of a source in chunks.

    Parameters
    ----------
    source : Source
    schema : Schema
    target : Target or None
        None: rows have no labels.
    on_error : str
        At rows that cannot be used: ``"stop"`` raises `MalformedRowError` at the first, ``"skip"`` reports and skips them, and
        ``"skip-unlabelled"`` skips those without a label and stops at others.
    keep : tuple of str
        Columns to copy to the output.

    Attributes
    ----------
    n_rows : int
        Rows returned so far.
    n_skipped : int
        Malformed rows skipped so far.
    n_new_classes : int
        Classes in the rows returned that were not known when the stream was opened.
    crc : tuple of int
        Checksums of all rows returned, of their labels, and of columns to copy, such as keys.
    first : list or None
        Number of rows of the first chunk, and their checksums.
    quiet : bool
        Whether to skip rows without a report.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        target: Target | None,
        *,
        on_error: str = "stop",
        keep: tuple[str, ...] = (),
    ) -> None:
        self.source = source
        self.schema = schema
        self.target = target
        self.n_rows = 0
        self.n_skipped = 0
        self.crc = (0, 0, 0)
        self.first: list[Any] | None = None
        self.quiet = False
        self._n_notices = 0
        self.n_new_classes = 0
        self._new_classes: dict[int, str] = {}  # by code: where each was found
        self._on_error = on_error
        self._keep = keep
        self._blocks = self._encode_blocks()
        self._waiting: list[Chunk] = []

    def next(self, n: int) -> Chunk | None:
        """Return the next n rows, fewer only at the end, and None after it."""
        have = sum(map(len, self._waiting))
        while have < n and (more := next(self._blocks, None)) is not None:
            if len(more):
                self._waiting.append(more)
                have += len(more)
        if not have:
            return None
        chunk = self._take(min(n, have))
        self._add_classes(chunk)
        rows, labels, keys = self.crc
        for column in chunk.kept.values():
            keys = zlib.crc32("".join(f"{text}\0" for text in column.to_pylist()).encode(), keys)
        self.crc = (
            zlib.crc32(self.schema.digest(chunk.table).data, rows),
            labels if chunk.y is None else zlib.crc32(chunk.y.data, labels),
            keys,
        )
        self.n_rows += len(chunk)
        self.first = self.first or [self.n_rows, list(self.crc)]
        return chunk

    def skip_to(self, n_rows: int) -> bool:
        """Pass over rows without learning them until ``n_rows`` are read; return False if there are fewer."""
        while self.n_rows < n_rows:
            if self.next(min(SKIP_ROWS, n_rows - self.n_rows)) is None:
                return False
        return True

    def _encode_blocks(self) -> Iterator[Chunk]:
        kinds = dict(self.schema.kinds)
        if self.target is not None:
            kinds[self.target.name] = self.target.kind
        kinds |= {name: TEXT for name in self._keep if name not in kinds}
        for block in self.source.read(kinds):
            self._notify(block.notices)
            yield self._encode(block)

    def _encode(self, block: Block) -> Chunk:
        """Encode a block of the source as a chunk of any size."""
        for name in (*self.schema.kinds, *([self.target.name] if self.target is not None else ())):
            block.columns[name] = self.source.notation.drop_markers(block.columns[name])
        while (found := self.schema.find_infinite(block.columns)) is not None:
            bad, name = found
            for i in map(int, np.flatnonzero(bad)):
                block.reject(i, f"an infinite number in column {name!r}")
            block = block.keep(~bad)
        y = None
        if self.target is not None:
            values = block.columns[self.target.name]
            known = len(self.target.by_code)
            y, bad_labels = self.target.encode(values)
            for code, value in enumerate(self.target.by_code[known:], known):
                self._new_classes[code] = f"new class {value!r} in {block.locate(int(np.argmax(y == code)))}"
            if bad_labels is not None:
                for i in map(int, np.flatnonzero(bad_labels)):
                    value = values[i].as_py()
                    block.reject(i, self.target.explain(value), is_unlabelled=self.target.is_empty(value))
                block, y = block.keep(~bad_labels), y[~bad_labels]
        if block.rejected:
            self._reject(block.rejected)
        return Chunk(self.schema.make_table(block.columns), y, {name: block.columns[name] for name in self._keep})

    def _add_classes(self, chunk: Chunk) -> None:
        """Count the classes in a chunk as known. They may have been read long before, with the block of their first row."""
        if self.target is None or self.target.classes is None or chunk.y is None:
            return
        first = len(self.target.classes)
        for code in range(first, first + len(self.target.add_classes(chunk.y))):
            found = self._new_classes.pop(code)
            self.n_new_classes += 1
            if self.n_new_classes <= MAX_REPORTED and not self.quiet:
                print_errors(f"{found}; {format_count(code + 1, 'class')} now")
            if self.n_new_classes == MAX_REPORTED + 1 and not self.quiet:
                print_errors("further new classes are learned without a notice")

    def _notify(self, notices: list[str]) -> None:
        """Print the first notices of the source."""
        for notice in notices:
            self._n_notices += 1
            if self._n_notices <= MAX_REPORTED and not self.quiet:
                print_errors(f"{self.source.name}, {notice}")
            if self._n_notices == MAX_REPORTED + 1 and not self.quiet:
                print_errors("further ones are skipped without a notice")

    def _reject(self, rejected: list[RejectedRow]) -> None:
        """Raise an error for the first rejected row, or report the rows as skipped."""
        faults = {"stop": rejected, "skip": [], "skip-unlabelled": [row for row in rejected if not row.is_unlabelled]}
        if fatal := faults[self._on_error]:
            first = min(fatal, key=lambda row: row.location.number)
            raise MalformedRowError(
                self.source.name, str(first.location), first.reason, is_unlabelled=first.is_unlabelled
            )
        for location, reason, _ in rejected:
            self.n_skipped += 1
            if self.n_skipped <= MAX_REPORTED and not self.quiet:
                print_errors(f"skipped: {location}: {reason}")
            if self.n_skipped == MAX_REPORTED + 1 and not self.quiet:
                print_errors("skipped: further rows are counted, not shown")

    def _take(self, n: int) -> Chunk:
        """Remove n rows from those that wait, and return them."""
        pieces, lacking = [], n
        while lacking:
            piece = self._waiting.pop(0)
            if len(piece) > lacking:
                self._waiting.insert(0, piece[lacking:])
                piece = piece[:lacking]
            pieces.append(piece)
            lacking -= len(piece)
        if len(pieces) == 1:
            return pieces[0]
        return Chunk(
            pa.concat_tables([piece.table for piece in pieces]),
            None if pieces[0].y is None else np.concatenate([piece.y for piece in pieces if piece.y is not None]),
            {name: pa.concat_arrays([piece.kept[name] for piece in pieces]) for name in pieces[0].kept},
        )
