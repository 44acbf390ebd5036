"""A progress bar for whatever takes more than a second."""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO


class Progress:
    """A progress bar on standard error, silent unless ``enabled``.

    On a terminal it is drawn anew ten times a second at most; elsewhere, as in a log, a line every ten seconds.
    """

    def __init__(self, total: int, label: str, unit: str, *, enabled: bool, stream: TextIO | None = None) -> None:
        self.total = total
        self.label = label
        self.unit = unit
        self.enabled = enabled
        self.done = 0
        self._stream = stream
        self._start = self._drawn = time.monotonic()
        self._terminal = (stream or sys.stderr).isatty() if enabled else False
        self._interval = 0.1 if self._terminal else 10.0
        self._lock = threading.Lock()

    def advance(self, n: int, note: str = "") -> None:
        """``n`` more are done."""
        if not self.enabled:
            return
        with self._lock:
            self.done += n
            now = time.monotonic()
            if now - self._drawn > self._interval or self.done >= self.total:
                self._drawn = now
                self._draw(now - self._start, note)

    def _draw(self, seconds: float, note: str) -> None:
        stream = self._stream or sys.stderr
        share = self.done / max(self.total, 1)
        bar = "#" * round(30 * share)
        rate = self.done / max(seconds, 1e-9)
        left = (self.total - self.done) / rate if rate > 0 else 0.0
        line = f"{self.label} [{bar:<30}] {self.done:,}/{self.total:,} {self.unit}  {rate:,.0f}/s  {left:.0f} s left  {note}"
        if self._terminal:
            stream.write(f"\r{line}\033[K")
        if not self._terminal or self.done >= self.total:
            stream.write("\n" if self._terminal else f"{line}\n")
        stream.flush()


SILENT = Progress(0, "", "", enabled=False)
