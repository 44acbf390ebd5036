"""Saving a model while it goes on learning."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ...persistence import saver as persistence
from ...persistence.atomic_file import identify
from ..errors import CommandError


class ReplacedError(CommandError):
    """Someone else has written the model file."""


class Checkpoints:
    """Saves a forest every so many rows or seconds, in the background: see `bspforest.persistence.Saver`.

    A file that someone else has written since is not replaced; ``overwrite``: one that is there now is.
    """

    def __init__(self, path: Path, rows: int | None, seconds: float | None, *, overwrite: bool) -> None:
        self._saver = persistence.Saver(path, overwrite=overwrite)
        self._saver.written = identify(path)
        self._rows = rows
        self._seconds = seconds
        self._since = 0
        self._last = time.monotonic()
        self._writing: dict[str, Any] | None = None
        self.saved: dict[str, Any] | None = None  # the extra of the latest save that is on disk

    def due(self, n: int) -> bool:
        """Whether it is time to save, now that n more rows are learned, and the checkpoint before is written.

        Learning does not wait for a slow disk: checkpoints then come as soon as it lets them.
        """
        self._since += n
        if self._saver.busy:
            return False
        self.wait()
        if self._rows is not None and self._since >= self._rows:
            return True
        return self._seconds is not None and time.monotonic() - self._last >= self._seconds

    def start(self, forest: Any, extra: dict[str, Any]) -> None:
        """Save in the background."""
        try:
            self._check_unchanged()
            self._saver.save(forest, extra)
            self._writing = extra
        except MemoryError:  # for the copy; without one it is slower, and safe
            self.finish(forest, extra)
        except (OSError, ValueError) as error:
            raise CommandError(f"a checkpoint could not be saved: {error}") from error
        self._since, self._last = 0, time.monotonic()

    def finish(self, forest: Any, extra: dict[str, Any]) -> None:
        """Save now, whatever became of the checkpoint before."""
        self.settle()
        try:
            self._check_unchanged()
            persistence.save(forest, self._saver.path, extra=extra, overwrite=self._saver.overwrite)
            self._saver.overwrite, self._saver.written = True, identify(self._saver.path)
            self.saved = extra
        except (OSError, MemoryError, ValueError) as error:
            raise CommandError(f"the model could not be saved: {error}") from error

    def settle(self) -> bool:
        """Wait until the checkpoint in the background is written; whether it could be."""
        try:
            self.wait()
        except CommandError:
            return False
        return True

    def wait(self) -> None:
        """Until the checkpoint in the background is written; an error if it could not be."""
        writing, self._writing = self._writing, None
        try:
            self._saver.wait()
        except (OSError, MemoryError) as error:
            raise CommandError(f"a checkpoint could not be saved: {error}") from error
        self.saved = writing or self.saved

    def _check_unchanged(self) -> None:
        if self._saver.overwrite and identify(self._saver.path) not in (None, self._saver.written):
            raise ReplacedError(
                f"{self._saver.path} was changed by another program meanwhile, and is left as it is: what was learned since "
                "the last save is not in it"
            )
