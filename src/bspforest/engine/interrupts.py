"""Changes that Ctrl-C cannot tear apart."""

from __future__ import annotations

import _signal  # `signal` wraps it in enumerations, which cost more than learning a row
import threading
from typing import Any


class defer_interrupts:
    """Defer SIGINT until the block exits.

    A class, because a generator-based context manager would double the cost of learning a single row.
    """

    __slots__ = ("_before", "_caught")

    def __enter__(self) -> None:
        self._before: Any = None
        if threading.get_ident() != threading.main_thread().ident:
            return  # signal handlers run in the main thread only
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
