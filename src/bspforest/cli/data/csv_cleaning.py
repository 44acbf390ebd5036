"""Blank the lines of CSV that are not rows: repeated headers, and rows with a quote that is never closed.

A blank line keeps its line end, so that the lines after it keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .blocks import Location, RejectedRow
from .csv_records import LINE_END, count_lines, quoted_line_end, record_ends

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_FIELD = 131_072  # bytes of a quoted field with line ends, as in Python's csv module
LONGEST_SHOWN = 60  # characters of a malformed row in a message

_NUMBERS = re.compile(rb'[-+.\deE"\s,;|]*')


class Piece(NamedTuple):
    """Some records of a file: their bytes, the line on which they begin, and what was blanked in them."""

    data: bytes
    line: int
    rejected: list[RejectedRow]
    repeated: list[Location]  # of the header


def blank_unclosed(
    data: bytes, line: int, quoted: re.Pattern[bytes], delimiter: str, *, at_end: bool
) -> tuple[bytes, list[RejectedRow]]:
    """Blank the rows in which a quote is opened and never closed, and return them as rejected.

    ``data`` begins with a record, on this ``line`` of the file, and goes on after its end unless ``at_end``. A quote that is not
    closed where ``data`` ends may be closed later.
    """
    found = list(_find_unclosed(data, quoted, delimiter, at_end)) if b'"' in data else []
    rejected = [
        RejectedRow(Location("line", line + count_lines(data[:start])), f"{reason}: {show(data[start:end])!r}")
        for start, end, reason in found
    ]
    return _blank(data, [(start, end) for start, end, _ in found]), rejected


def _find_unclosed(
    data: bytes, quoted: re.Pattern[bytes], delimiter: str, at_end: bool
) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and fault of the records with a quote that is not closed; they end with the line of the quote.

    A quoted field with line ends must be short, and followed by a delimiter or a line end. Otherwise its last quote is most likely
    the first one of a later field.
    """
    is_followed = re.compile(rb"[ \t]*(?:%b|[\r\n]|\Z)" % re.escape(delimiter.encode()))
    may_open = quoted_line_end(delimiter)
    at = record = 0  # no field that begins before has a line end from here on
    while (hint := may_open.search(data, at)) is not None:
        line = max(at, _find_line(data, at, hint.start()))
        fields = quoted.finditer(data, line)
        field = next((field for field in fields if not field[1] or _has_line_end(data, *field.span())), None)
        if field is None:
            return
        start, end = field.span()
        record = max(record, _find_line(data, at, start))
        is_short = end - start <= LONGEST_FIELD or not _has_line_end(data, start, end)
        if is_short and not field[1] and not at_end:
            return
        if is_short and field[1] and is_followed.match(data, end):
            at = end
            continue
        line_end = LINE_END.search(data, start)
        at = line_end.end() if line_end else len(data)
        never = "never closed" if is_short else f"not closed within {LONGEST_FIELD:,} bytes"
        yield record, at, f"a quote is opened and {never}"
        record = at


def _find_line(data: bytes, start: int, end: int) -> int:
    """Return where the line begins that is at ``end``, if it begins after ``start``; else 0."""
    return max(data.rfind(b"\n", start, end), data.rfind(b"\r", start, end)) + 1


def _has_line_end(data: bytes, start: int, end: int) -> bool:
    return data.find(b"\n", start, end) >= 0 or data.find(b"\r", start, end) >= 0


def find_header(record: bytes) -> bytes | None:
    """Return the header to look for in the file; None if it could as well be a row of numbers."""
    header = record.strip()
    return None if _NUMBERS.fullmatch(header) else header


def blank_headers(
    data: bytes, line: int, quoted: re.Pattern[bytes], header: bytes | None
) -> tuple[bytes, list[Location]]:
    """Blank the records that are the header once more, as in files that were concatenated, and return where they are."""
    if header is None or header not in data:
        return data, []
    pattern = re.compile(rb"^(?:%b)?%b[ \t]*(?=[\r\n]|\Z)" % (BYTE_ORDER_MARK, re.escape(header)), re.MULTILINE)
    found = [match.span() for match in pattern.finditer(data)]
    if found:
        begins = {0, *record_ends(data, quoted)}
        found = [(start, end) for start, end in found if start in begins]
    return _blank(data, found), [Location("line", line + count_lines(data[:start])) for start, _ in found]


def _blank(data: bytes, places: Iterable[tuple[int, int]]) -> bytes:
    """Remove everything but the line ends at these places, which are in order."""
    pieces, at = [], 0
    for start, end in places:
        pieces += [data[at:start], *LINE_END.findall(data, start, end)]
        at = end
    return b"".join([*pieces, data[at:]]) if at else data


def show(record: bytes | str) -> str:
    """Return the beginning of a record for a message."""
    text = record.decode("utf-8", errors="replace") if isinstance(record, bytes) else record
    text = text.strip("\r\n")
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."
