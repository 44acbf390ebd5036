"""Saving a model while it goes on learning."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import persistence
from .errors import CommandError

# Linux alone: a copy of the process is cheap there, and safe for one that has nothing but arrays to write.
IN_BACKGROUND = sys.platform == "linux"


class Checkpoints:
    """Saves a forest every so many rows or seconds.

    A checkpoint is written by a copy of the process (fork), which shares its memory until one of them changes it: learning
    goes on meanwhile. A file is whole or not there at all; see `bspforest.persistence`.
    """

    def __init__(self, path: Path, rows: int | None, seconds: float | None) -> None:
        self.path = path
        self._rows = rows
        self._seconds = seconds
        self._since = 0
        self._last = time.monotonic()
        self._writer: tuple[int, int] | None = None  # process, and the pipe that says what went wrong

    def due(self, n: int) -> bool:
        """Whether it is time to save, now that n more rows are learned."""
        self._since += n
        if self._rows is not None and self._since >= self._rows:
            return True
        return self._seconds is not None and time.monotonic() - self._last >= self._seconds

    def start(self, forest: Any, extra: dict[str, Any]) -> None:
        """Save in the background, after the checkpoint before has been written."""
        self.wait()
        self._since, self._last = 0, time.monotonic()
        if IN_BACKGROUND:
            self._writer = _fork(lambda: persistence.save(forest, self.path, extra=extra))
        else:
            self.finish(forest, extra)

    def finish(self, forest: Any, extra: dict[str, Any]) -> None:
        """Save now."""
        self.wait()
        persistence.save(forest, self.path, extra=extra)

    def wait(self) -> None:
        """Until the checkpoint in the background is written; an error if it could not be."""
        if self._writer is None:
            return
        (process, pipe), self._writer = self._writer, None
        with os.fdopen(pipe, "rb") as reader:
            message = reader.read().decode()
        _, status = os.waitpid(process, 0)
        if status:
            raise CommandError(f"a checkpoint could not be saved: {message or f'its writer ended with status {status}'}")


def _fork(call: Callable[[], None]) -> tuple[int, int]:
    """Run ``call`` in a copy of this process: its id, and a pipe that gives the message of an error."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Python warns of forks beside threads, such as those that idle in BLAS. The copy runs no code that waits for them.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        os.close(write)
        return process, read
    code = 1
    try:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which waits for us
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(read)
        call()
        code = 0
    except BaseException as error:
        os.write(write, str(error).encode())
    finally:
        os._exit(code)
