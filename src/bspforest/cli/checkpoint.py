"""Saving a model while it goes on learning."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import persistence
from ..persistence import Image, make_image, write_image
from .errors import CommandError


class Checkpoints:
    """Saves a forest every so many rows or seconds.

    The forest's arrays are copied, and a thread writes the copy while learning goes on: the forest is in memory twice. A file
    is whole or not there at all: see `bspforest.persistence`.

    A copy of the process (fork), which would share memory until it changes, was measured and costs more: between two
    checkpoints 10,000 rows touch nearly every page, and a page fault costs ten times what copying the page does.
    """

    def __init__(self, path: Path, rows: int | None, seconds: float | None) -> None:
        self.path = path
        self._rows = rows
        self._seconds = seconds
        self._since = 0
        self._last = time.monotonic()
        self._buffer = np.empty(0, np.uint8)
        self._writer: threading.Thread | None = None
        self._error: BaseException | None = None

    def due(self, n: int) -> bool:
        """Whether it is time to save, now that n more rows are learned, and the checkpoint before is written.

        Learning does not wait for a slow disk: checkpoints then come as soon as it lets them.
        """
        self._since += n
        if self._writer is not None:
            if self._writer.is_alive():
                return False
            self.wait()
        if self._rows is not None and self._since >= self._rows:
            return True
        return self._seconds is not None and time.monotonic() - self._last >= self._seconds

    def start(self, forest: Any, extra: dict[str, Any]) -> None:
        """Save in the background."""
        self.wait()
        image = make_image(forest, extra)
        try:
            image = self._copy(image)
        except MemoryError:  # slower, but safe
            self.finish(forest, extra)
        else:
            self._writer = threading.Thread(target=self._write, args=(image,), name="checkpoint")
            self._writer.start()
        self._since, self._last = 0, time.monotonic()

    def finish(self, forest: Any, extra: dict[str, Any]) -> None:
        """Save now."""
        self.wait()
        persistence.save(forest, self.path, extra=extra)

    def wait(self) -> None:
        """Until the checkpoint in the background is written; an error if it could not be."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        if self._error is not None:
            error, self._error = self._error, None
            raise CommandError(f"a checkpoint could not be saved: {error}") from error

    def _copy(self, image: Image) -> Image:
        """An image of its own, in a buffer that is used again: fresh memory costs more than the copy."""
        size = sum(_padded(array.nbytes) for block in image.blocks for array in block)
        if size > len(self._buffer):
            self._buffer = np.empty(0, np.uint8)
            self._buffer = np.empty(2 * size, np.uint8)
        blocks, at = [], 0
        for block in image.blocks:
            copies = []
            for array in block:
                copy = self._buffer[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
                np.copyto(copy, array)
                copies.append(copy)
                at += _padded(array.nbytes)
            blocks.append(copies)
        return Image(image.header, blocks)

    def _write(self, image: Image) -> None:
        try:
            write_image(image, self.path, overwrite=True)
        except BaseException as error:
            self._error = error


def _padded(n: int) -> int:
    return -(-n // 64) * 64
