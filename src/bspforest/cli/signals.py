"""Keep signals out of a few steps that belong together, such as learning a chunk and recording that it was learned."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Those that end a command: Ctrl-C, a polite kill, a closed terminal.
ENDING = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Call the handlers of signals that end the command once the block exits. In other threads, do nothing.

    Examples
    --------
    >>> with defer_interrupts():
    ...     pass  # what must not be torn apart
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[tuple[int, Any]] = []
    heeded = [number for number in ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, lambda *given: caught.append(given)) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number, frame in caught:
            handler = before[signal.Signals(number)]
            if callable(handler):
                handler(number, frame)
            elif handler == signal.SIG_DFL:
                signal.raise_signal(number)
