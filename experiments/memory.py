"""How much memory a call takes at most."""

from __future__ import annotations

import threading
from typing import Self


class PeakMemory:
    """Watch the memory of this process while a block runs; ``peak`` is the most it grew by, in bytes.

    It looks fifty times a second, from another thread: fits run outside Python's lock for most of their time.
    """

    peak = 0

    def __enter__(self) -> Self:
        import psutil

        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self._look()

    def _look(self) -> None:
        self.peak = max(self.peak, self._process.memory_info().rss - self._before)

    def __exit__(self, *exception: object) -> None:
        self._look()
        self._over.set()
        self._thread.join()
