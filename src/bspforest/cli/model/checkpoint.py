"""Save a model from time to time while it learns."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ...files import Saver, save
from ...replacing import identify
from ..errors import CommandError


class ReplacedError(CommandError):
    """Another program has changed the model file."""


class Checkpoints:
    """Save a forest every so many rows or seconds, in the background: see `bspforest.files.Saver`.

    A file that another program changes meanwhile is not replaced.

    Parameters
    ----------
    path : Path
    rows, seconds : number or None
        How often to save.
    overwrite : bool
        Whether to replace the file that exists now.
    compress : bool
        Whether to write compressed files.
    lock : BaseFileLock or None
        The lock on the model, if it is held for as long as this is used.

    Attributes
    ----------
    saved : dict or None
        The ``extra`` of the latest save that is on disk.
    """

    def __init__(
        self,
        path: Path,
        rows: int | None,
        seconds: float | None,
        *,
        overwrite: bool,
        compress: bool = False,
        lock: Any = None,
    ) -> None:
        self._lock = lock
        self._saver = Saver(path, overwrite=overwrite, compress=compress, lock=lock)
        self._rows = rows
        self._seconds = seconds
        self._rows_since_save = 0
        self._last_save = time.monotonic()
        self._writing: dict[str, Any] | None = None
        self.saved: dict[str, Any] | None = None

    def due(self, n: int) -> bool:
        """Count n more rows as learned, and return whether it is time to save.

        While the previous checkpoint is still being written, it is not: learning does not wait for a slow disk.
        """
        self._rows_since_save += n
        if self._saver.busy:
            return False
        self.wait()
        if self._rows is not None and self._rows_since_save >= self._rows:
            return True
        return self._seconds is not None and time.monotonic() - self._last_save >= self._seconds

    def start(self, forest: Any, extra: dict[str, Any]) -> None:
        """Start to save in the background."""
        try:
            self._check_unchanged()
            self._saver.save(forest, extra)
            self._writing = extra
        except MemoryError:  # for the copy: save without one, which takes longer
            self.finish(forest, extra)
        except (OSError, ValueError) as error:
            raise CommandError(f"a checkpoint could not be saved: {error}") from error
        self._rows_since_save, self._last_save = 0, time.monotonic()

    def finish(self, forest: Any, extra: dict[str, Any]) -> None:
        """Save now, even if the previous checkpoint failed."""
        self.settle()
        try:
            self._check_unchanged()
            saver = self._saver
            save(forest, saver.path, extra=extra, overwrite=saver.overwrite, compress=saver.compress, lock=self._lock)
            saver.overwrite, saver.written = True, identify(saver.path)
            self.saved = extra
        except (OSError, MemoryError, ValueError) as error:
            raise CommandError(f"the model could not be saved: {error}") from error

    def settle(self) -> bool:
        """Wait until the checkpoint in the background is written, and return whether it succeeded."""
        try:
            self.wait()
        except CommandError:
            return False
        return True

    def wait(self) -> None:
        """Wait until the checkpoint in the background is written, and raise an error if it failed."""
        writing, self._writing = self._writing, None
        try:
            self._saver.wait()
        except (OSError, MemoryError) as error:
            raise CommandError(f"a checkpoint could not be saved: {error}") from error
        if writing is not None:
            self.saved = writing

    def _check_unchanged(self) -> None:
        if self._saver.overwrite and identify(self._saver.path) not in (None, self._saver.written):
            raise ReplacedError(
                f"{self._saver.path} was changed by another program meanwhile, and is left unchanged: the rows learned "
                "since the last save are not in it"
            )
