"""Measurement of peak memory."""

from __future__ import annotations

import threading
from typing import Self

import psutil


class PeakMemory:
    """Context manager that measures by how many bytes the memory of the process grows at most (``peak``).

    A thread samples the memory fifty times per second; this works because fits release the GIL most of the time.
    """

    peak = 0

    def __enter__(self) -> Self:
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stopped.wait(0.02):
            self._sample()

    def _sample(self) -> None:
        self.peak = max(self.peak, self._process.memory_info().rss - self._before)

    def __exit__(self, *exception: object) -> None:
        self._sample()
        self._stopped.set()
        self._thread.join()
