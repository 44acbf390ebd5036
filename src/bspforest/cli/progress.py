"""Progress of the commands on standard error: rows of a stream, and kernels compiled before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from .. import precompile
from ..progress import StatusLine
from .formatting import format_count

COMPILING = "Compiling the kernels, once on a machine"


class RowProgress:
    """Rows done, the rate, and how much of the data is read. Unlike for a progress bar, the total is not known."""

    def __init__(self, enabled: bool | None, stream: TextIO | None = None) -> None:
        self._line = StatusLine(enabled=enabled, stream=stream)
        self._start = time.monotonic()
        self._rows_at_start: int | None = None

    def begin(self) -> None:
        """Show on a terminal that the first rows are awaited."""
        if self._line.enabled and self._line.is_terminal:
            self._line.draw("waiting for the first rows ...")

    def show(self, rows: int, share_read: float | None, note: Callable[[], str] = str) -> None:
        """Show the number of rows done, if it is time to. ``note`` is only called when it is shown."""
        now = time.monotonic()
        if self._rows_at_start is None:  # the first chunk may be slow: a pipe starts late, `predict` compiles kernels
            self._rows_at_start, self._start = rows, now
        if self._line.is_due(now):
            rate = (rows - self._rows_at_start) / max(now - self._start, 1e-9)
            read = f" ({min(share_read, 1.0):.0%} read)" if share_read is not None else ""
            self._line.draw(f"{format_count(rows, 'row')}{read}  {rate:,.0f} rows/s  {note()}".rstrip())

    def close(self) -> None:
        """Erase the line, so that other output takes its place."""
        self._line.clear()


def compile_kernels() -> int:
    """Compile all kernels before any clock starts, and return how many were not in the cache."""
    if precompile.are_compiled():
        return 0
    line = StatusLine(enabled=True)
    line.draw(f"{COMPILING} ...")

    def show(done: int, n: int) -> None:
        if line.is_terminal:
            line.draw(f"{COMPILING}: {done} of {n}")

    n = precompile.compile_all(tell=show)
    line.finish()
    precompile.are_compiled()  # loads them
    return n
