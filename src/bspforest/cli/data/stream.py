"""Chunks of rows for a forest, out of a source: encoded, counted, and without the rows that cannot be used."""

from __future__ import annotations

import difflib
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import BadRows, CommandError, UsageError
from .arrow import pa, pc
from .blocks import Part, Source
from .column_kinds import NUMBER, TEXT, convert
from .encoding import Encoder
from .sources import open_source
from .table_sources import check_columns
from .target import Target, make_target, parse_classes, sort_classes

SAMPLE = 1_000  # rows on which the encoding is settled
MOST_CLASSES = 1_000
SHOWN = 5  # rows left out that are reported one by one


@dataclass
class Chunk:
    """Rows for a forest, their labels, and columns that are handed through."""

    X: np.ndarray
    y: np.ndarray | None = None
    kept: dict[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice) -> Chunk:
        return Chunk(
            self.X[rows],
            None if self.y is None else self.y[rows],
            {name: values[rows] for name, values in self.kept.items()},
        )


class Stream:
    """The rows of a source in chunks. Rows that cannot be used end it, or are reported and left out (``skip``)."""

    def __init__(
        self, source: Source, encoder: Encoder, target: Target | None, *, skip: bool = False, keep: tuple[str, ...] = ()
    ) -> None:
        self.source = source
        self.encoder = encoder
        self.target = target
        self.n_rows = 0  # given out
        self.n_skipped = 0
        self.crc = (0, 0)  # of all rows given out, as encoded before gaps are filled, and of their labels
        self.first: list[Any] | None = None  # how many rows the first chunk had, and their crc
        self.quiet = False
        self._skip = skip
        self._keep = keep
        self._parts = self._encode_parts()
        self._waiting: list[Chunk] = []

    def _encode_parts(self) -> Iterator[Chunk]:
        kinds = dict(self.encoder.kinds)
        if self.target is not None:
            kinds[self.target.name] = self.target.kind
        kinds |= {name: TEXT for name in self._keep if name not in kinds}
        for part in self.source.read(kinds):
            yield self._encode(part)

    def _encode(self, part: Part) -> Chunk:
        """A part of the source as a chunk of any size."""
        while (found := self.encoder.find_infinite(part.columns)) is not None:
            bad, name = found
            part.rejected += [
                (part.where(int(i)), f"an infinite number in column {name!r}") for i in np.flatnonzero(bad)
            ]
            part = part.keep(~bad)
        y = None
        if self.target is not None:
            values = part.columns[self.target.name]
            y, bad_labels = self.target.encode(values)
            if bad_labels is not None:
                for i in np.flatnonzero(bad_labels):
                    part.rejected.append((part.where(int(i)), self.target.explain(values[int(i)].as_py())))
                part, y = part.keep(~bad_labels), y[~bad_labels]
        if part.rejected:
            self._reject(part.rejected)
        return Chunk(self.encoder.encode(part.columns), y, {name: part.columns[name] for name in self._keep})

    def _reject(self, rejected: list[tuple[str, str]]) -> None:
        if not self._skip:
            where, why = min(rejected, key=lambda entry: int(entry[0].split()[1]))
            raise BadRows(self.source.name, where, why)
        for where, why in rejected:
            self.n_skipped += 1
            if self.n_skipped <= SHOWN and not self.quiet:
                print(f"skipped: {where}: {why}", file=sys.stderr)
            if self.n_skipped == SHOWN + 1 and not self.quiet:
                print("skipped: further rows are counted, not shown", file=sys.stderr)

    def next(self, n: int, *, learn: bool = True) -> Chunk | None:
        """The next n rows, fewer only at the end; None after it.

        ``learn``: their numbers count for the means that fill gaps.
        """
        have = sum(map(len, self._waiting))
        while have < n and (more := next(self._parts, None)) is not None:
            if len(more):
                self._waiting.append(more)
                have += len(more)
        if not have:
            return None
        chunk = self._take(min(n, have))
        self.crc = (
            zlib.crc32(chunk.X.data, self.crc[0]),
            self.crc[1] if chunk.y is None else zlib.crc32(chunk.y.data, self.crc[1]),
        )
        self.encoder.fill(chunk.X, learn=learn)
        self.n_rows += len(chunk)
        self.first = self.first or [self.n_rows, list(self.crc)]
        return chunk

    def _take(self, n: int) -> Chunk:
        """n rows of those that wait."""
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
            np.concatenate([piece.X for piece in pieces]),
            None if pieces[0].y is None else np.concatenate([piece.y for piece in pieces if piece.y is not None]),
            {name: pa.concat_arrays([piece.kept[name] for piece in pieces]) for name in pieces[0].kept},
        )


# ----------------------------------------------------------------------------------------------------------------------
# Streams for commands


@dataclass
class DataOptions:
    """How DATA is to be read: what the commands' options say."""

    data: str
    delimiter: str | None = None
    header: bool = True
    skip: bool = False
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    number: tuple[str, ...] = ()

    def open(self) -> Source:
        """The source of rows."""
        return open_source(self.data, delimiter=self.delimiter, header=self.header)

    @property
    def can_reopen(self) -> bool:
        """Whether DATA can be read twice: not so for pipes."""
        return os.path.isfile(self.data) or os.path.isdir(self.data)


def start_stream(how: DataOptions, target_name: str, task: str | None, classes: str | None) -> tuple[Stream, list[str]]:
    """A stream with an encoding settled on its first rows, and what its user should know."""
    source = how.open()
    for name in (target_name, *how.drop, *how.text, *how.number):
        check_known(name, source.columns, source.name)
    if target_name in how.drop:
        raise UsageError(f"--drop {target_name}: the target cannot be dropped")
    kinds, first = source.sample(SAMPLE, how.drop)
    given = dict.fromkeys(how.text, TEXT) | dict.fromkeys(how.number, NUMBER)
    kinds |= {name: kind for name, kind in given.items() if name in kinds}
    target, why = make_target(target_name, kinds.pop(target_name), first[target_name], task)
    notes = [f"Task: {target.task} ({why})"]
    encoder = Encoder.fit(first, kinds)
    notes += _notes(first, encoder)
    if target.task == "classification":
        target.classes = _find_classes(how, target, first[target_name], classes)
        shown = ", ".join(map(str, target.classes[:8])) + (", ..." if len(target.classes) > 8 else "")
        notes.append(f"{len(target.classes)} classes: {shown}")
    elif classes is not None:
        raise UsageError("--classes goes with classification; --task classification asks for it")
    return Stream(source, encoder, target, skip=how.skip), notes


def _find_classes(how: DataOptions, target: Target, first: pa.Array, given: str | None) -> list[Any]:
    """The classes: as given, else all in the data, else (a pipe cannot be read twice) those of the first rows."""
    if given is not None:
        return parse_classes(target, given)
    found = pc.unique(convert(first, target.kind)[0])
    if how.can_reopen:
        for part in how.open().read({target.name: target.kind}):
            found = pc.unique(pa.concat_arrays([found, pc.unique(part.columns[target.name])]))
            if len(found) > MOST_CLASSES:
                raise CommandError(
                    f"the target {target.name!r} has more than {MOST_CLASSES} different values; if they are numbers, "
                    "--task regression predicts them as such"
                )
    classes = sort_classes(found)
    if not classes:
        raise CommandError(f"the target {target.name!r} has no values")
    return classes


def _notes(first: dict[str, pa.Array], encoder: Encoder) -> list[str]:
    """What may surprise in the encoding."""
    notes = []
    for column in encoder.columns:
        name, values = column.name, pc.fill_null(convert(first[column.name], TEXT)[0], "")
        bad = convert(values, NUMBER)[1]
        odd = values.filter(bad) if bad is not None else values[:0]
        distinct = pc.count_distinct(values).as_py()
        if column.kind == TEXT and distinct > len(column.categories):
            notes.append(
                f"Column {name!r}: text with {distinct} different values in the first {len(values)} rows; the "
                f"{len(column.categories)} most frequent are told apart (--drop {name} if it is a name or a number)"
            )
        if column.kind == TEXT and 0 < len(odd) < 0.5 * len(values):
            notes.append(
                f"Column {name!r}: text, for {odd[0].as_py()!r} is no number (--number {name} if that is a mistake)"
            )
        if column.kind == NUMBER and len(odd):
            notes.append(f"Column {name!r}: numbers, and {odd[0].as_py()!r} is a mistake (--text {name} if it is not)")
    return notes


def continue_stream(
    how: DataOptions, encoder: Encoder, target: Target | None, ignored: tuple[str, ...] = (), keep: tuple[str, ...] = ()
) -> Stream:
    """A stream with the encoding of a model. Columns ``ignored`` may be there or not."""
    source = how.open()
    expected = list(encoder.kinds) + ([target.name] if target is not None else [])
    found = [name for name in source.columns if name in expected or name not in (*ignored, *how.drop, *keep)]
    check_columns(found, expected, source.name)
    for name in keep:
        check_known(name, source.columns, source.name)
    return Stream(source, encoder, target, skip=how.skip, keep=keep)


def check_known(name: str, columns: list[str], where: str) -> None:
    """An error if there is no such column."""
    if name not in columns:
        lower = {column.lower(): column for column in columns}
        near = [lower[found] for found in difflib.get_close_matches(name.lower(), lower, 1)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"{where} has no column {name!r}.{hint} Its columns: {', '.join(columns)}")
