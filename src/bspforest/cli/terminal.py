"""Standard streams: print lines that are safe for a terminal, and cope with streams that are closed."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any


def printable(text: str) -> str:
    r"""Escape everything a terminal could interpret, such as control characters in the name of a column.

    >>> print(printable("red \x1b[31m, new\nline, é"))
    red \x1b[31m, new\nline, é
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_lines(*lines: str) -> None:
    """Print lines on standard output, at once."""
    for line in map(printable, lines):
        try:
            print(line)
        except UnicodeEncodeError:  # such as bars where the encoding is not UTF-8
            encoding = sys.stdout.encoding
            print(line.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def print_errors(*lines: str) -> None:
    """Print lines on standard error. That nobody can read them is no reason to fail."""
    with contextlib.suppress(OSError):
        for line in lines:
            print(printable(line), file=sys.stderr, flush=True)


def print_json(content: Any) -> None:
    """Print JSON on standard output, in ASCII if the encoding there does not have all characters."""
    text = format_json(content)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(content, indent=2)
    print_lines(*text.split("\n"))


def format_json(content: Any) -> str:
    r"""Return indented JSON, with characters that a terminal could interpret escaped.

    >>> format_json("\x9b31m é")
    '"\\u009b31m é"'
    """
    text = json.dumps(content, indent=2, ensure_ascii=False)
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def open_closed_streams() -> None:
    """Connect standard streams that are closed, as by ``2>&-``, to the null device.

    Otherwise the next file that is opened takes the place of the stream, and could get messages written into it.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free descriptor, which is this one. Child processes inherit it, as they would the stream.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 open until the process ends


def is_closed(stream: Any) -> bool:
    """Return whether `open_closed_streams` has replaced a stream. One that is redirected keeps its name."""
    return getattr(stream, "name", None) == os.devnull


def discard_output() -> None:
    """Drop output that cannot be written, on which Python would fail again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):  # not a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
