"""Records of CSV and the lines on which they begin, with quoted line ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

LINE_END = re.compile(rb"\r\n?|\n")


def quoted_field(delimiter: str) -> re.Pattern[bytes]:
    """Match a quoted field: from a quote at the beginning of a field to the next one that is not doubled, or to the end."""
    return re.compile(_opening_quote(delimiter) + rb'[^"]*+(?:""[^"]*+)*+("|\Z)')


def quoted_line_end(delimiter: str) -> re.Pattern[bytes]:
    """Match the beginning of a quoted field up to its first line end, or to the end of the data."""
    return re.compile(_opening_quote(delimiter) + rb'[^"\r\n]*+(?:""[^"\r\n]*+)*+(?:[\r\n]|\Z)')


def _opening_quote(delimiter: str) -> bytes:
    """Return the pattern of a quote at the beginning of a field. The quote comes first, which `re` searches three times as fast."""
    return rb'"(?<![^%b\r\n]")' % re.escape(delimiter.encode())


def record_ends(block: bytes, quoted: re.Pattern[bytes]) -> Iterator[int]:
    """Yield the offset after each line end that is not quoted."""
    spans = iter(quoted.finditer(block)) if b'"' in block else iter(())
    span = next(spans, None)
    for found in LINE_END.finditer(block):
        while span is not None and span.end() <= found.start():
            span = next(spans, None)
        if span is None or found.start() < span.start():
            yield found.end()


def last_record_end(block: bytes, quoted: re.Pattern[bytes]) -> int:
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


def record_lines(block: bytes, line: int, quoted: re.Pattern[bytes]) -> list[int]:
    """Return the line on which each record begins, without blank records."""
    lines, start = [], 0
    for end in [*record_ends(block, quoted), len(block)]:
        record = block[start:end]
        if record.strip(b"\r\n"):
            lines.append(line)
        line += count_lines(record)
        start = end
    return lines


def count_lines(block: bytes) -> int:
    returns = block.count(b"\r")
    return block.count(b"\n") + (returns - block.count(b"\r\n") if returns else 0)
