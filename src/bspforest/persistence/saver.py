"""Save a forest again and again while it keeps learning."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..engine.parallel import run_parts
from .atomic_file import FileIdentity, identify
from .file_lock import ModelLock, hold
from .writer import WAIT, Content, ForestBlocks, make_content, write_content

if TYPE_CHECKING:
    from ..estimators.base import BSPForest


def round_up(size: int) -> int:
    """Return the next multiple of 8: records start at multiples of 8 bytes."""
    return size + -size % 8


class Saver:
    """Saves a forest to one file repeatedly, in the background.

    `save` copies the forest, which takes a few percent of the time it took to learn it, and writes the copy in a thread
    while learning continues. The copy needs as much memory as the forest. Write errors are raised by the next `save`, or
    by `wait`.

    Parameters
    ----------
    path : path-like
    overwrite : bool, default=True
        If False and the file exists at the first `save`, raise FileExistsError.
    compress : bool, default=False
        Write smaller files, in more time: see `bspforest.persistence.save`. A single thread compresses, in the background.
    lock : ModelLock or None
        The lock on this model from `lock_model`, if the caller holds it. Else it is taken while a file is written.
    wait : float, default=10.0
        Seconds that writing waits for the lock, if it is to be taken and somebody else has it.
    expected : FileIdentity, None or "any", default="any"
        What `identify` returned for ``path`` before the model was read; None if there was no file. Every save then checks
        that nobody else has written the file since; if somebody has, it raises `ModelChangedError`.

    Attributes
    ----------
    written : FileIdentity or None
        The file that was saved last.

    Examples
    --------
    >>> import bspforest, os, tempfile
    >>> from bspforest.persistence import Saver
    >>> forest = bspforest.BSPForestRegressor(random_state=0)
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bsp")
    >>> with Saver(path) as saver:
    ...     for k in range(3):
    ...         saver.save(forest.partial_fit([[float(k)]], [k]), extra={"row": k})
    >>> bspforest.load(path).n_samples_
    3
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = True,
        compress: bool = False,
        lock: ModelLock | None = None,
        wait: float = WAIT,
        expected: FileIdentity | Literal["any"] | None = "any",
    ) -> None:
        self.path = Path(path)
        self.overwrite = overwrite
        self.compress = compress
        self.lock = lock
        self.lock_wait = wait
        self.expected = expected
        self.written: FileIdentity | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._buffer = np.empty(0, dtype=np.uint8)

    def save(self, forest: BSPForest, extra: dict[str, Any] | None = None) -> None:
        """Wait until the previous save is done, then save the forest as it is now.

        Parameters
        ----------
        forest : BSPForestClassifier or BSPForestRegressor
        extra : dict or None
            Anything JSON can hold, to be kept in the header of the file.
        """
        self.wait()
        if not self.overwrite and self.path.exists():
            raise FileExistsError(errno.EEXIST, "file exists, and is not to be overwritten", str(self.path))
        check_is_fitted(forest)
        content = forest._read_refreshed(
            lambda: self._copy(make_content(forest, extra, compress=self.compress)), finished=True
        )
        thread = threading.Thread(target=self._write, args=(content,), name="bspforest-save")
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            self._write(content)
            self.wait()
        else:
            self._thread = thread

    @property
    def busy(self) -> bool:
        """Whether the last save is still being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Return when the last save is on disk; raise its error if it failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _write(self, content: Content) -> None:
        try:
            with hold(self.path, self.lock, self.lock_wait) as held:
                write_content(content, held.path, overwrite=self.overwrite, expected=self.expected, n_threads=1)
                self.written = identify(held.path)
            self.overwrite = True  # from now on it is our own file
            if self.expected != "any":
                self.expected = self.written
        except BaseException as error:
            self._error = error

    def _copy(self, content: Content) -> Content:
        """Copy the blocks into a buffer that is kept for the next save: fresh memory takes twice as long."""
        source = content.blocks
        assert isinstance(source, ForestBlocks)
        views = [source.view(k) for k in range(len(source))]
        total = sum(round_up(view.nbytes) for block in views for view in block)
        if total > len(self._buffer):
            self._buffer = np.empty(0, dtype=np.uint8)
            self._buffer = np.empty(max(total, 2 * total if total < 2**30 else total + total // 8), dtype=np.uint8)
        blocks = []
        offset = 0
        for block in views:
            copies = []
            for view in block:
                copies.append(self._buffer[offset : offset + view.nbytes].view(view.dtype).reshape(view.shape))
                offset += round_up(view.nbytes)
            blocks.append(copies)

        def copy(first: int, last: int) -> None:
            for k in range(first, last):
                source.fill(k, blocks[k])

        # The caller waits for this, and one thread does not saturate the memory bandwidth.
        run_parts(copy, len(blocks), min(4, os.cpu_count() or 1), total)
        return content._replace(blocks=blocks)

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is None:
            self.wait()
        elif self._thread is not None:
            self._thread.join()  # the error of the block goes first
