"""Reading CSV in blocks, with the line number of everything that is wrong.

The file is cut into blocks at the ends of records, and pyarrow parses each block by itself. So a row's line can be
found by looking at one block, with blank lines and quoted line breaks counted; pyarrow's own reader counts records,
without them.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from ..errors import CommandError
from .arrow import pa, pa_csv, pc
from .blocks import Part, Rejected, as_array, make_part
from .column_kinds import FALSE, MISSING, TRUE, TYPES, kind_of_text

BLOCK = 1 << 20
LONGEST = 1 << 24  # of a record; a quote that is never closed must not fill the memory
_LINE_END = re.compile(rb"\r\n?|\n")


class CsvSource:
    """A CSV file or pipe: UTF-8, the first record names the columns unless ``header`` is False."""

    def __init__(
        self, stream: BinaryIO, name: str, *, delimiter: str | None = None, header: bool = True, size: int | None = None
    ) -> None:
        self.name = name
        self._stream = stream
        self._size = size
        self._bytes = 0
        self._line = 1  # of the next record
        self._tail = b""
        self._start()
        first = self._next_record()
        self._delimiter = delimiter or _guess_delimiter(first)
        self._quoted = _quoted_field(self._delimiter)
        self.columns = self._name_columns(first, header)
        self._held: list[tuple[bytes, int]] = []

    # ------------------------------------------------------------------------------------------------------------------
    # The beginning

    def _start(self) -> None:
        while len(self._tail) < 4 and self._read_more():
            pass
        if self._tail.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise CommandError(f"{self.name} is UTF-16, and UTF-8 is expected: iconv -f UTF-16 -t UTF-8 converts it")
        self._tail = self._tail.removeprefix(b"\xef\xbb\xbf")
        self._quoted = _quoted_field(",")

    def _next_record(self) -> bytes:
        """The first record that is not blank, left where it is."""
        while True:
            for end in _record_ends(self._tail, self._quoted):
                cut_short = end == len(self._tail) and self._tail.endswith(b"\r")  # its \n may follow
                if self._tail[:end].strip() and not cut_short:
                    return self._tail[:end]
            if not self._read_more():
                if not self._tail.strip():
                    raise CommandError(f"{self.name} is empty: a line with the names of the columns is expected")
                return self._tail

    def _name_columns(self, first: bytes, header: bool) -> list[str]:
        text = io.StringIO(first.decode("utf-8", errors="replace").lstrip("\r\n"), newline="")
        fields = next(csv.reader(text, delimiter=self._delimiter))
        if not header:
            return [f"c{k + 1}" for k in range(len(fields))]
        self._tail = self._tail[len(first) :]
        self._line += _count_lines(first)
        names = [field.strip() for field in fields]
        for name in names:
            if names.count(name) > 1:
                raise CommandError(f"{self.name} has two columns named {name!r}: the names must differ")
        return names

    # ------------------------------------------------------------------------------------------------------------------
    # Blocks of whole records

    @property
    def share_read(self) -> float | None:
        return self._bytes / self._size if self._size else None

    def _read_more(self) -> bool:
        """Append what comes next to the tail; False at the end of the file."""
        # From a pipe, take what is there: rows that come slowly are not to be waited for by the megabyte.
        try:
            more = self._stream.read1(BLOCK) if hasattr(self._stream, "read1") else self._stream.read(BLOCK)
        except (OSError, EOFError, lzma.LZMAError) as error:  # compressed data that is damaged or cut off, for instance
            raise CommandError(f"{self.name}: {error}") from error
        self._bytes += len(more)
        self._tail += more
        return bool(more)

    def _blocks(self) -> Iterator[tuple[bytes, int]]:
        """Blocks of whole records, and the line on which each begins."""
        while True:
            more = self._read_more()
            if not more:
                self._check_closed()
            end = _last_record_end(self._tail, self._quoted) if more else len(self._tail)
            if end:
                block, self._tail = self._tail[:end], self._tail[end:]
                line, self._line = self._line, self._line + _count_lines(block)
                if block.strip():
                    yield block, line
            elif len(self._tail) > LONGEST:
                raise CommandError(
                    f"{self.name}, line {self._line}: no end of the record within {LONGEST >> 20} MB; "
                    "is a quote not closed, or is this no CSV file?"
                )
            if not more:
                return

    def _check_closed(self) -> None:
        """An error if the file ends within quotes: the rest of it would pass for one value."""
        spans = list(self._quoted.finditer(self._tail)) if b'"' in self._tail else []
        if spans and not spans[-1][1]:
            line = self._line + _count_lines(self._tail[: spans[-1].start()])
            raise CommandError(f"{self.name}, line {line}: a quote is opened and never closed")

    # ------------------------------------------------------------------------------------------------------------------
    # Rows

    def sample(self, n: int, drop: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, pa.Array]]:
        parts, rows = [], 0
        types = {name: pa.binary() for name in self.columns if name not in drop}
        for block, line in self._blocks():
            self._held.append((block, line))
            parts.append(self._parse(block, types, []))
            rows += len(parts[-1])
            if rows >= n:
                break
        if not rows:
            raise CommandError(f"{self.name} has no rows, only the names of the columns")
        first = {name: as_array(values) for name, values in _columns_of(pa.concat_tables(parts)[:n])}
        first = {name: _decode(values)[0] for name, values in first.items()}
        return {name: kind_of_text(values) for name, values in first.items()}, first

    def read(self, kinds: dict[str, str]) -> Iterator[Part]:
        while self._held:
            yield self._read_block(*self._held.pop(0), kinds)
        for block, line in self._blocks():
            yield self._read_block(block, line, kinds)

    def _read_block(self, block: bytes, line: int, kinds: dict[str, str]) -> Part:
        ragged: list[pa_csv.InvalidRow] = []
        lines: list[int] = []

        def where(i: int) -> str:
            if not lines:
                left_out = {row.number - 1 for row in ragged}
                every = _record_lines(block, line, self._quoted)
                lines.extend(at for k, at in enumerate(every) if k not in left_out)
            return f"line {lines[i]}"

        try:
            table = self._parse(block, {name: TYPES[kind] for name, kind in kinds.items()}, ragged)
            columns = {name: as_array(values) for name, values in _columns_of(table)}
            part = Part(columns, len(table), [], where)
        except pa.ArrowInvalid:  # some value does not fit: find all that do not
            ragged.clear()
            table = self._parse(block, {name: pa.binary() for name in kinds}, ragged)
            part = _part_of_bytes({name: as_array(values) for name, values in _columns_of(table)}, kinds, where)
        if ragged:
            every = _record_lines(block, line, self._quoted)
            part.rejected += [_describe_ragged(every[row.number - 1], row) for row in ragged]
            part.rejected.sort(key=lambda found: int(found[0].split()[1]))
        return part

    def _parse(self, block: bytes, types: dict[str, pa.DataType], ragged: list[pa_csv.InvalidRow]) -> pa.Table:
        """A block as a table; rows with too many or too few fields are put into ``ragged``."""

        def skip(row: pa_csv.InvalidRow) -> str:
            ragged.append(row)
            return "skip"

        return pa_csv.read_csv(
            pa.BufferReader(block),
            # One thread: only then are rows numbered.
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=self.columns),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._delimiter, invalid_row_handler=skip, newlines_in_values=True
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=MISSING,
                true_values=TRUE,
                false_values=FALSE,
            ),
        )


def _columns_of(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    return zip(table.column_names, table.columns, strict=True)


def _decode(values: pa.Array) -> tuple[pa.Array, list[int]]:
    """Bytes as text, and which of them are not UTF-8; those become null."""
    try:
        return pc.cast(values, pa.string()), []
    except pa.ArrowInvalid:
        pass
    text, bad = [], []
    for i, value in enumerate(values.to_pylist()):
        try:
            text.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            text.append(None)
            bad.append(i)
    return pa.array(text, pa.string()), bad


def _part_of_bytes(raw: dict[str, pa.Array], kinds: dict[str, str], where) -> Part:
    """A part from fields that are bytes still, without those that are not of their column's kind."""
    text: dict[str, pa.Array] = {}
    rejected: list[Rejected] = []
    good = [True] * len(next(iter(raw.values())))
    for name, values in raw.items():
        text[name], bad = _decode(values)
        for i in bad:
            if good[i]:
                rejected.append((where(i), f"{values[i].as_py()!r} in column {name!r} is not text in UTF-8"))
            good[i] = False
    if rejected:
        kept = [i for i, fine in enumerate(good) if fine]
        text = {name: values.take(pa.array(kept, pa.int64())) for name, values in text.items()}
        return make_part(text, kinds, lambda i: where(kept[i]), rejected)
    return make_part(text, kinds, where, rejected)


def _describe_ragged(line: int, row: pa_csv.InvalidRow) -> Rejected:
    shown = row.text if len(row.text) <= 60 else row.text[:57] + "..."
    return f"line {line}", f"{row.actual_columns} fields where {row.expected_columns} are expected: {shown!r}"


# ----------------------------------------------------------------------------------------------------------------------
# Records and lines


def _quoted_field(delimiter: str) -> re.Pattern[bytes]:
    """A field in quotes: from a quote at the beginning of a field to the next that is not doubled, or to the end."""
    before = re.escape(delimiter.encode()) + rb"\r\n"
    return re.compile(rb'(?:(?<=[%b])|\A)"[^"]*+(?:""[^"]*+)*+("|\Z)' % before)


def _record_ends(block: bytes, quoted: re.Pattern[bytes]) -> Iterator[int]:
    """The places just after each line end that is not quoted."""
    spans = iter(quoted.finditer(block)) if b'"' in block else iter(())
    span = next(spans, None)
    for found in _LINE_END.finditer(block):
        while span is not None and span.end() <= found.start():
            span = next(spans, None)
        if span is None or found.start() < span.start():
            yield found.end()


def _last_record_end(block: bytes, quoted: re.Pattern[bytes]) -> int:
    """The place after the last line end that is not quoted; 0 if there is none."""
    end = len(block)
    if b'"' in block:
        for span in reversed([found.span() for found in quoted.finditer(block)]):
            last = block.rfind(b"\n", 0, end)
            if last >= span[1] or last < 0:
                break
            if last > span[0]:
                end = span[0]
    return block.rfind(b"\n", 0, end) + 1


def _record_lines(block: bytes, line: int, quoted: re.Pattern[bytes]) -> list[int]:
    """The line on which each record begins that is not blank."""
    lines, start = [], 0
    for end in [*_record_ends(block, quoted), len(block)]:
        record = block[start:end]
        if record.strip(b"\r\n"):
            lines.append(line)
        line += _count_lines(record)
        start = end
    return lines


def _count_lines(block: bytes) -> int:
    returns = block.count(b"\r")
    return block.count(b"\n") + (returns - block.count(b"\r\n") if returns else 0)


def _guess_delimiter(header: bytes) -> str:
    """The most frequent of the usual ones."""
    return max(",;\t|", key=lambda mark: header.count(mark.encode()))
