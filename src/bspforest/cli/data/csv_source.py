"""Read CSV in blocks, and report the line number of every malformed row.

The file is cut into blocks at the ends of records, and pyarrow parses each block separately. The line of a row is then
found by scanning one block, including blank lines and quoted line breaks, which pyarrow's own record numbers leave out.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from ..errors import CommandError
from .arrow import pa, pa_csv, pc
from .blocks import Block, Location, RejectedRow, as_array, make_block
from .column_kinds import FALSE, MISSING, TRUE, TYPES, kind_of_text

BLOCK = 1 << 20  # bytes
LONGEST = 1 << 24  # bytes of a record: a quote that is never closed must not fill the memory
_LINE_END = re.compile(rb"\r\n?|\n")


class CsvSource:
    """A CSV file or pipe in UTF-8. The first record names the columns unless ``header`` is False."""

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
    # The byte order mark and the names of the columns

    def _start(self) -> None:
        while len(self._tail) < 4 and self._read_more():
            pass
        if self._tail.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise CommandError(f"{self.name} is in UTF-16, expected UTF-8: iconv -f UTF-16 -t UTF-8 converts it")
        self._tail = self._tail.removeprefix(b"\xef\xbb\xbf")
        self._quoted = _quoted_field(",")

    def _next_record(self) -> bytes:
        """Return the first record that is not blank, without consuming it."""
        while True:
            for end in _record_ends(self._tail, self._quoted):
                cut_short = end == len(self._tail) and self._tail.endswith(b"\r")  # its \n may follow
                if self._tail[:end].strip() and not cut_short:
                    return self._tail[:end]
            if not self._read_more():
                if not self._tail.strip():
                    raise CommandError(f"{self.name} is empty: expected a line with the names of the columns")
                return self._tail

    def _name_columns(self, first: bytes, header: bool) -> list[str]:
        text = io.StringIO(first.decode("utf-8", errors="replace").lstrip("\r\n"), newline="")
        fields = next(csv.reader(text, delimiter=self._delimiter))
        if not header:
            return [f"c{k + 1}" for k in range(len(fields))]
        self._tail = self._tail[len(first) :]
        self._line += _count_lines(first)
        names = [field.strip() for field in fields]
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise CommandError(f"{self.name} has two columns named {name!r}: the names must differ")
        return names

    # ------------------------------------------------------------------------------------------------------------------
    # Blocks of whole records

    @property
    def share_read(self) -> float | None:
        return self._bytes / self._size if self._size else None

    def _read_more(self) -> bool:
        """Append the next bytes to the tail, and return False at the end of the file."""
        # From a pipe, take the bytes available now instead of waiting for a whole block.
        try:
            more = self._stream.read1(BLOCK) if hasattr(self._stream, "read1") else self._stream.read(BLOCK)
        except (OSError, EOFError, lzma.LZMAError) as error:  # such as damaged or truncated compressed data
            raise CommandError(f"{self.name}: {error}") from error
        self._bytes += len(more)
        self._tail += more
        return bool(more)

    def _blocks(self) -> Iterator[tuple[bytes, int]]:
        """Yield blocks of whole records, and the line on which each begins."""
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
                    "is a quote not closed, or is this not a CSV file?"
                )
            if not more:
                return

    def _check_closed(self) -> None:
        """Refuse a file that ends within quotes: the rest of it would be read as one value."""
        spans = list(self._quoted.finditer(self._tail)) if b'"' in self._tail else []
        if spans and not spans[-1][1]:
            line = self._line + _count_lines(self._tail[: spans[-1].start()])
            raise CommandError(f"{self.name}, line {line}: a quote is opened and never closed")

    # ------------------------------------------------------------------------------------------------------------------
    # Rows

    def sample(self, n: int, drop: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, pa.Array]]:
        tables, rows = [], 0
        types = {name: pa.binary() for name in self.columns if name not in drop}
        for block, line in self._blocks():
            self._held.append((block, line))
            tables.append(self._parse(block, types, []))
            rows += len(tables[-1])
            if rows >= n:
                break
        if not rows:
            raise CommandError(f"{self.name} has no rows, only the names of the columns")
        first = {name: as_array(values) for name, values in _columns_of(pa.concat_tables(tables)[:n])}
        first = {name: _decode(values)[0] for name, values in first.items()}
        return {name: kind_of_text(values) for name, values in first.items()}, first

    def read(self, kinds: dict[str, str]) -> Iterator[Block]:
        while self._held:
            yield self._read_block(*self._held.pop(0), kinds)
        for block, line in self._blocks():
            yield self._read_block(block, line, kinds)

    def _read_block(self, data: bytes, first_line: int, kinds: dict[str, str]) -> Block:
        ragged: list[pa_csv.InvalidRow] = []
        lines: list[int] = []

        def locate(i: int) -> Location:
            if not lines:
                left_out = {row.number - 1 for row in ragged}
                all_lines = _record_lines(data, first_line, self._quoted)
                lines.extend(line for k, line in enumerate(all_lines) if k not in left_out)
            return Location("line", lines[i])

        try:
            table = self._parse(data, {name: TYPES[kind] for name, kind in kinds.items()}, ragged)
            columns = {name: as_array(values) for name, values in _columns_of(table)}
            block = Block(columns, len(table), [], locate)
        except pa.ArrowInvalid:  # some value is not of its column's kind: find all of them
            ragged.clear()
            table = self._parse(data, {name: pa.binary() for name in kinds}, ragged)
            block = _make_block_of_bytes({name: as_array(values) for name, values in _columns_of(table)}, kinds, locate)
        if ragged:
            all_lines = _record_lines(data, first_line, self._quoted)
            block.rejected += [_reject_ragged(all_lines[row.number - 1], row) for row in ragged]
            block.rejected.sort(key=lambda row: row.location.number)
        return block

    def _parse(self, block: bytes, types: dict[str, pa.DataType], ragged: list[pa_csv.InvalidRow]) -> pa.Table:
        """Parse a block as a table, and append rows with too many or too few fields to ``ragged``."""

        def skip(row: pa_csv.InvalidRow) -> str:
            ragged.append(row)
            return "skip"

        return pa_csv.read_csv(
            pa.BufferReader(block),
            # pyarrow numbers the rows only with one thread.
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
    """Decode UTF-8, and return the indices of values that are not UTF-8, which become null."""
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


def _make_block_of_bytes(raw: dict[str, pa.Array], kinds: dict[str, str], locate: Callable[[int], Location]) -> Block:
    """Decode and convert fields read as bytes, and reject the rows with a value that is not of its column's kind."""
    text: dict[str, pa.Array] = {}
    rejected: list[RejectedRow] = []
    good = [True] * len(next(iter(raw.values())))
    for name, values in raw.items():
        text[name], bad = _decode(values)
        for i in bad:
            if good[i]:
                rejected.append(
                    RejectedRow(locate(i), f"{values[i].as_py()!r} in column {name!r} is not text in UTF-8")
                )
            good[i] = False
    if rejected:
        kept = [i for i, fine in enumerate(good) if fine]
        text = {name: values.take(pa.array(kept, pa.int64())) for name, values in text.items()}
        return make_block(text, kinds, lambda i: locate(kept[i]), rejected)
    return make_block(text, kinds, locate, rejected)


def _reject_ragged(line: int, row: pa_csv.InvalidRow) -> RejectedRow:
    shown = row.text if len(row.text) <= 60 else row.text[:57] + "..."
    reason = f"{row.actual_columns} fields where {row.expected_columns} are expected: {shown!r}"
    return RejectedRow(Location("line", line), reason)


# ----------------------------------------------------------------------------------------------------------------------
# Records and lines


def _quoted_field(delimiter: str) -> re.Pattern[bytes]:
    """Match a quoted field: from a quote at the beginning of a field to the next one that is not doubled, or to the end."""
    before = re.escape(delimiter.encode()) + rb"\r\n"
    return re.compile(rb'(?:(?<=[%b])|\A)"[^"]*+(?:""[^"]*+)*+("|\Z)' % before)


def _record_ends(block: bytes, quoted: re.Pattern[bytes]) -> Iterator[int]:
    """Yield the offset after each line end that is not quoted."""
    spans = iter(quoted.finditer(block)) if b'"' in block else iter(())
    span = next(spans, None)
    for found in _LINE_END.finditer(block):
        while span is not None and span.end() <= found.start():
            span = next(spans, None)
        if span is None or found.start() < span.start():
            yield found.end()


def _last_record_end(block: bytes, quoted: re.Pattern[bytes]) -> int:
    """Return the offset after the last line end that is not quoted, or 0."""
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
    """Return the line on which each record begins, without blank records."""
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
    """Return the most frequent of the usual delimiters."""
    return max(",;\t|", key=lambda mark: header.count(mark.encode()))
