"""Read CSV in blocks, and report the line number of every malformed row.

The file is cut into blocks at the ends of records. Lines that are no rows are blanked (`csv_cleaning`), and pyarrow parses each
block separately. The line of a row is then found by scanning one block, including blank lines and quoted line breaks, which
pyarrow's own record numbers leave out.
"""

from __future__ import annotations

import csv
import io
import lzma
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from ..errors import CommandError, UsageError
from ..formatting import format_count
from .arrow import pa, pa_csv, pc
from .blocks import Block, Location, RejectedRow, as_array, make_block
from .column_kinds import FALSE, TRUE, TYPES, kind_of_text
from .csv_cleaning import BYTE_ORDER_MARK, Piece, blank_headers, blank_unclosed, find_header, show
from .csv_records import count_lines, last_record_end, quoted_field, record_ends, record_lines
from .notation import PLAIN, Notation

BLOCK = 1 << 20  # bytes
LONGEST = 1 << 24  # bytes of a record: a file without line ends must not fill the memory


class CsvSource:
    """A CSV file or pipe in UTF-8. The first record names the columns unless ``header`` is False."""

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        *,
        delimiter: str | None = None,
        header: bool = True,
        size: int | None = None,
        notation: Notation = PLAIN,
    ) -> None:
        self.name = name
        self.notation = notation
        self._stream = stream
        self._size = size
        self._bytes = 0
        self._line = 1  # of the next record
        self._tail = b""
        self._start()
        first = self._next_record()
        self._delimiter = delimiter or _guess_delimiter(first, notation.decimal)
        if self._delimiter == notation.decimal == ",":
            raise UsageError(
                f"--decimal ,: the fields of {name} are separated by ',', which cannot be the decimal point as well; "
                "--delimiter names another delimiter"
            )
        self._quoted = quoted_field(self._delimiter)
        self._check_first(first)
        self.columns = self._name_columns(first, header)
        self._header = find_header(first) if header else None
        self._held: list[Piece] = []

    # ------------------------------------------------------------------------------------------------------------------
    # The byte order mark and the names of the columns

    def _start(self) -> None:
        while len(self._tail) < 4 and self._read_more():
            pass
        if self._tail.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise CommandError(f"{self.name} is in UTF-16, expected UTF-8: iconv -f UTF-16 -t UTF-8 converts it")
        self._tail = self._tail.removeprefix(BYTE_ORDER_MARK)
        self._quoted = quoted_field(",")

    def _next_record(self) -> bytes:
        """Return the first record that is not blank, without consuming it."""
        while True:
            for end in record_ends(self._tail, self._quoted):
                cut_short = end == len(self._tail) and self._tail.endswith(b"\r")  # its \n may follow
                if self._tail[:end].strip() and not cut_short:
                    return self._tail[:end]
            if not self._read_more() or len(self._tail) > LONGEST:
                if not self._tail.strip():
                    raise CommandError(f"{self.name} is empty: expected a line with the names of the columns")
                return self._tail

    def _check_first(self, first: bytes) -> None:
        """Refuse a first record that is not one: neither it nor anything after it could be read."""
        _, rejected = blank_unclosed(first, self._line, self._quoted, self._delimiter, at_end=True)
        if rejected:
            raise CommandError(f"{self.name}, {rejected[0].location}: {rejected[0].reason}")
        if len(first) > LONGEST:
            raise CommandError(self._describe_endless())

    def _describe_endless(self) -> str:
        where = f"{self.name}, line {self._line}"
        return f"{where}: no end of the record within {LONGEST >> 20} MB; is this not a CSV file?"

    def _name_columns(self, first: bytes, header: bool) -> list[str]:
        text = io.StringIO(first.decode("utf-8", errors="replace").lstrip("\r\n"), newline="")
        fields = next(csv.reader(text, delimiter=self._delimiter))
        if not header:
            return [f"c{k + 1}" for k in range(len(fields))]
        self._tail = self._tail[len(first) :]
        self._line += count_lines(first)
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

    def _pieces(self) -> Iterator[Piece]:
        """Yield pieces of whole records."""
        rejected: list[RejectedRow] = []
        while True:
            more = self._read_more()
            self._tail, unclosed = blank_unclosed(
                self._tail, self._line, self._quoted, self._delimiter, at_end=not more
            )
            rejected += unclosed
            end = last_record_end(self._tail, self._quoted) if more else len(self._tail)
            if end or (rejected and not more):
                data, self._tail = self._tail[:end], self._tail[end:]
                line, self._line = self._line, self._line + count_lines(data)
                data, repeated = blank_headers(data, line, self._quoted, self._header)
                if data.strip() or rejected or repeated:
                    yield Piece(data, line, rejected, repeated)
                    rejected = []
            elif len(self._tail) > LONGEST:
                raise CommandError(self._describe_endless())
            if not more:
                return

    # ------------------------------------------------------------------------------------------------------------------
    # Rows

    def sample(self, n: int, drop: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, pa.Array]]:
        tables, rows = [], 0
        types = {name: pa.binary() for name in self.columns if name not in drop}
        for piece in self._pieces():
            self._held.append(piece)
            tables.append(self._parse(piece.data, types, []))
            rows += len(tables[-1])
            if rows >= n:
                break
        if not rows:
            raise CommandError(f"{self.name} has no rows, only the names of the columns")
        first = {name: as_array(values) for name, values in _columns_of(pa.concat_tables(tables)[:n])}
        first = {name: _decode(values)[0] for name, values in first.items()}
        return {name: kind_of_text(values, self.notation) for name, values in first.items()}, first

    def read(self, kinds: dict[str, str]) -> Iterator[Block]:
        while self._held:
            yield self._read_piece(self._held.pop(0), kinds)
        for piece in self._pieces():
            yield self._read_piece(piece, kinds)

    def _read_piece(self, piece: Piece, kinds: dict[str, str]) -> Block:
        data, first_line = piece.data, piece.line
        ragged: list[pa_csv.InvalidRow] = []
        lines: list[int] = []

        def locate(i: int) -> Location:
            if not lines:
                left_out = {row.number - 1 for row in ragged}
                all_lines = record_lines(data, first_line, self._quoted)
                lines.extend(line for k, line in enumerate(all_lines) if k not in left_out)
            return Location("line", lines[i])

        try:
            table = self._parse(data, {name: TYPES[kind] for name, kind in kinds.items()}, ragged)
            columns = {name: as_array(values) for name, values in _columns_of(table)}
            block = Block(columns, len(table), [], locate)
        except pa.ArrowInvalid:  # some value is not of its column's kind: find all of them
            ragged.clear()
            table = self._parse(data, {name: pa.binary() for name in kinds}, ragged)
            raw = {name: as_array(values) for name, values in _columns_of(table)}
            block = _make_block_of_bytes(raw, kinds, locate, self.notation)
        if ragged:
            all_lines = record_lines(data, first_line, self._quoted)
            block.rejected += [_reject_ragged(all_lines[row.number - 1], row) for row in ragged]
        block.rejected += piece.rejected
        block.rejected.sort(key=lambda row: row.location.number)
        block.notices += [f"{location}: the header once more, which is skipped" for location in piece.repeated]
        return block

    def _parse(self, block: bytes, types: dict[str, pa.DataType], ragged: list[pa_csv.InvalidRow]) -> pa.Table:
        """Parse a block as a table, and append rows with too many or too few fields to ``ragged``."""

        def skip(row: pa_csv.InvalidRow) -> str:
            ragged.append(row)
            return "skip"

        return pa_csv.read_csv(
            pa.BufferReader(block or b"\n"),  # which must not be empty
            # pyarrow numbers the rows only with one thread.
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=self.columns),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._delimiter, invalid_row_handler=skip, newlines_in_values=True
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=self.notation.missing,
                decimal_point=self.notation.decimal,
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


def _make_block_of_bytes(
    raw: dict[str, pa.Array], kinds: dict[str, str], locate: Callable[[int], Location], notation: Notation
) -> Block:
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
        return make_block(text, kinds, lambda i: locate(kept[i]), rejected, notation)
    return make_block(text, kinds, locate, rejected, notation)


def _reject_ragged(line: int, row: pa_csv.InvalidRow) -> RejectedRow:
    verb = "is" if row.expected_columns == 1 else "are"
    reason = (
        f"{format_count(row.actual_columns, 'field')} where {row.expected_columns} {verb} expected: {show(row.text)!r}"
    )
    return RejectedRow(Location("line", line), reason)


def _guess_delimiter(header: bytes, decimal: str) -> str:
    """Return the most frequent of the usual delimiters; the decimal point only if there is no other."""
    others = [mark for mark in ",;\t|" if mark != decimal]
    best = max(others, key=lambda mark: header.count(mark.encode()))
    return "," if decimal == "," and best.encode() not in header and b"," in header else best
