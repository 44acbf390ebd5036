"""Progress on standard error, for work that takes more than a second."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TextIO

TERMINAL_INTERVAL = 0.1  # seconds between two updates of the line
LOG_INTERVAL = 10.0  # seconds between two lines where nothing can be redrawn


class StatusLine:
    """One line of text, redrawn in place on a terminal; elsewhere, as in a log, a new line every ten seconds.

    Parameters
    ----------
    enabled : bool or None
        None: only on a terminal.
    stream : file or None
        None: standard error as it is at each write. A process without one shows nothing.
    """

    def __init__(self, *, enabled: bool | None, stream: TextIO | None = None) -> None:
        self._given = stream
        stream = self._stream
        self.is_terminal = enabled is not False and stream is not None and stream.isatty()
        self.enabled = stream is not None and (self.is_terminal if enabled is None else enabled)
        self._interval = TERMINAL_INTERVAL if self.is_terminal else LOG_INTERVAL
        self._drawn = time.monotonic()
        self._open = False

    @property
    def _stream(self) -> TextIO | None:
        return self._given or sys.stderr

    def is_due(self, now: float) -> bool:
        """Return whether it is time to draw again."""
        return self.enabled and now - self._drawn >= self._interval

    def draw(self, text: str) -> None:
        """Replace the line on a terminal, or write a new one."""
        self._drawn = time.monotonic()
        self._write(f"\r{text}\033[K" if self.is_terminal else f"{text}\n")
        self._open = self.is_terminal

    def finish(self) -> None:
        """End the line and keep it, so that other output starts below it."""
        if self._open:
            self._write("\n")
            self._open = False

    def clear(self) -> None:
        """Erase the line, so that other output takes its place."""
        if self._open:
            self._write("\r\033[K")
            self._open = False

    def _write(self, text: str) -> None:
        stream = self._stream
        if stream is not None:
            with contextlib.suppress(OSError):  # a full disk or a closed pipe must not end the work
                stream.write(text)
                stream.flush()


class Progress:
    """A progress bar for a known amount of work. Threads may share it."""

    def __init__(self, total: int, label: str, unit: str, *, enabled: bool, stream: TextIO | None = None) -> None:
        self.total = total
        self.label = label
        self.unit = unit
        self.done = 0
        self._line = StatusLine(enabled=enabled, stream=stream)
        self._start = time.monotonic()
        self._lock = threading.Lock()

    @property
    def enabled(self) -> bool:
        """Return whether anything is shown."""
        return self._line.enabled

    def advance(self, n: int, note: str = "") -> None:
        """Count ``n`` more units as done."""
        if not self.enabled:
            return
        with self._lock:
            self.done += n
            now = time.monotonic()
            if self._line.is_due(now) or self.done >= self.total:
                self._line.draw(self._describe(now - self._start, note))
            if self.done >= self.total:
                self._line.finish()

    def _describe(self, seconds: float, note: str) -> str:
        share = self.done / max(self.total, 1)
        bar = "#" * round(30 * share)
        rate = self.done / max(seconds, 1e-9)
        left = (self.total - self.done) / rate if rate > 0 else 0.0
        amount = f"{self.done:,}/{self.total:,} {self.unit}"
        return f"{self.label} [{bar:<30}] {amount}  {rate:,.0f}/s  {left:.0f} s left  {note}".rstrip()


SILENT = Progress(0, "", "", enabled=False)
