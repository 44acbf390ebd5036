"""Running kernels: in threads, without being torn apart by Ctrl-C, and with a progress bar."""

from __future__ import annotations

import _signal  # what `signal` wraps in enumerations, which cost more than learning a row
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TextIO

# Below this many (row, tree) pairs, about a hundredth of a second, starting threads costs more than it gains.
WORTH_THREADS = 10_000


def run_parts(
    call: Callable[[int, int], Any], n: int, n_threads: int, work: int, stop: threading.Event | None = None
) -> list[Any]:
    """``call(first, last)`` on up to ``n_threads`` parts of ``range(n)``; their results in order.

    This thread does the first part, whose data its core has at hand, and those for which the system has no other thread. If a part
    fails, or is interrupted, ``stop`` is set, for calls that look at it to end early.
    """
    if n_threads <= 1 or n <= 1 or work < WORTH_THREADS:
        return [call(0, n)]
    ends = [n * k // n_threads for k in range(n_threads + 1)]
    parts = [(a, b) for a, b in pairwise(ends) if a < b]
    results: list[Any] = [None] * len(parts)
    failures: list[BaseException] = []

    def run(k: int) -> None:
        try:
            results[k] = call(*parts[k])
        except BaseException as failure:
            failures.append(failure)
            if stop is not None:
                stop.set()

    threads: list[threading.Thread] = []
    try:
        for k in range(1, len(parts)):
            thread = threading.Thread(target=run, args=(k,), name="bspforest")
            try:
                thread.start()
            except RuntimeError:
                run(k)
            else:
                threads.append(thread)
        run(0)
        for thread in threads:
            thread.join()
    except BaseException:
        if stop is not None:
            stop.set()
        for thread in threads:
            thread.join()
        raise
    if failures:
        raise failures[0]
    return results


class undivided:
    """Hold back Ctrl-C until the block is done, so that what it does is done wholly.

    A class, because a generator would cost a single row twice as much.
    """

    __slots__ = ("_before", "_caught")

    def __enter__(self) -> None:
        self._before: Any = None
        if threading.get_ident() != threading.main_thread().ident:
            return  # only the main thread is interrupted
        before = _signal.getsignal(_signal.SIGINT)
        if callable(before):  # else ignored, or not handled by Python
            self._caught: tuple[int, Any] | None = None
            _signal.signal(_signal.SIGINT, self._hold)
            self._before = before

    def _hold(self, number: int, frame: Any) -> None:
        self._caught = number, frame

    def __exit__(self, *failure: object) -> None:
        if self._before is not None:
            _signal.signal(_signal.SIGINT, self._before)
            if self._caught is not None:
                self._before(*self._caught)


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
