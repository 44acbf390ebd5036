"""Model files: a forest in one file, without pickle, read back bit for bit.

A file is, little-endian and without gaps: a preamble of 64 bytes, the header (JSON, `bspforest.persistence.header`), a table with a checksum
for each block, and the blocks. The first blocks are what all trees share (`COMMON`); then comes a block for each tree, with the
part in use of each of its arrays (`PER_TREE`). Files are written beside their place and renamed.

Kernels do not check bounds, so `load` is where a file is trusted or not: it checks every index, size and order that asking a forest
relies on. What only learning and forgetting rely on takes three times as long to check, and is checked before the first of them.
"""

from __future__ import annotations

import errno
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..engine.parallel import run_parts
from ..estimators.base import BSPForest
from .atomic_file import identify
from .header import ModelFileError
from .reader import Reader, read_front
from .validation import check_fully
from .writer import Image, make_image, write_image

__all__ = ["ModelFileError", "Saver", "load", "load_with_extra", "read_header", "save"]


def save(
    forest: BSPForest, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None, overwrite: bool = True
) -> None:
    """Save a fitted forest in a file, so that `load` gives back the same, to the last bit.

    The file is complete and on disk when this returns; a crash before leaves the file that was there. It holds no trace of
    rows that `forget` has taken. Of rows that a window has dropped, the range of ``scaling="minmax"`` may be left.

    Parameters
    ----------
    forest : BSPForestClassifier or BSPForestRegressor
    path : path-like
    extra : dict or None
        Anything JSON can hold, to be kept in the header of the file.
    overwrite : bool, default=True
        If False, and the file exists, FileExistsError.

    Examples
    --------
    >>> import bspforest, os, tempfile
    >>> forest = bspforest.BSPForestRegressor(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bsp")
    >>> forest.save(path)
    >>> bspforest.load(path).partial_fit([[4.0]], [4]).n_samples_
    5
    """
    write_image(make_image(forest, extra), Path(path), overwrite=overwrite)


class Saver:
    """Saves a forest in one file again and again, mostly in the background.

    `save` copies the forest, which takes a few percent of the time in which it was learned, and writes the copy in a thread while
    learning goes on. The copy needs as much memory as the forest. Errors of writing are raised by the next `save`, or by `wait`.

    Parameters
    ----------
    path : path-like
    overwrite : bool, default=True
        If False, and the file exists at the first `save`, FileExistsError.

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

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        self.path = Path(path)
        self.overwrite = overwrite
        self.written: tuple[int, int, int] | None = (
            None  # the last file that was saved, as `identify` tells it from others
        )
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._room = np.empty(0, dtype=np.uint8)

    def save(self, forest: BSPForest, extra: dict[str, Any] | None = None) -> None:
        """Wait until the save before is done, then save the forest as it is now."""
        self.wait()
        if not self.overwrite and self.path.exists():
            raise FileExistsError(errno.EEXIST, "file exists, and is not to be overwritten", str(self.path))
        image = self._copy(make_image(forest, extra))
        thread = threading.Thread(target=self._write, args=(image,), name="bspforest-save")
        try:
            thread.start()
        except RuntimeError:  # the system has no thread for it
            self._write(image)
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

    def _write(self, image: Image) -> None:
        try:
            write_image(image, self.path, overwrite=self.overwrite)
            self.written = identify(self.path)  # at once: by the time anyone waits for it, it may be another's
            self.overwrite = True  # what is there now is ours
        except BaseException as error:
            self._error = error

    def _copy(self, image: Image) -> Image:
        """The image with arrays of its own, in memory that is kept for the next: fresh memory costs twice as much time."""
        total = sum(array.nbytes + -array.nbytes % 8 for arrays in image.blocks for array in arrays)
        if total > len(self._room):
            self._room = np.empty(0, dtype=np.uint8)
            self._room = np.empty(max(total, 2 * total if total < 2**30 else total + total // 8), dtype=np.uint8)
        at = 0
        blocks = []
        pairs = []
        for arrays in image.blocks:
            copies = []
            for array in arrays:
                copies.append(self._room[at : at + array.nbytes])
                pairs.append((copies[-1], array.reshape(-1).view(np.uint8)))
                at += array.nbytes + -array.nbytes % 8
            blocks.append(copies)

        def copy(first: int, last: int) -> None:
            for target, source in pairs[first:last]:
                target[:] = source

        # The caller waits for this, and one thread does not use all that the memory can give.
        run_parts(copy, len(pairs), min(4, os.cpu_count() or 1), total)
        return Image(image.header, blocks)

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is None:
            self.wait()
        elif self._thread is not None:
            self._thread.join()  # the error on its way goes first


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a model file, with parameters, versions, numbers of rows and ``extra``, without reading the forest.

    That the file is not truncated and the header not damaged is checked, but nothing else.
    """
    with _opened(path) as file:
        return read_front(file.fileno()).header


class _opened:
    """A file to be read; what is wrong with it is said with its name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path

    def __enter__(self) -> Any:
        self.file = open(self.path, "rb", buffering=0)
        return self.file

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.file.close()
        name = os.fspath(self.path)
        if isinstance(error, ModelFileError):
            raise ModelFileError(f"{name}: {error}") from None
        if isinstance(error, EOFError):
            raise ModelFileError(f"{name}: the file became shorter while it was read") from None
        if isinstance(error, MemoryError):
            raise ModelFileError(f"{name}: there is not enough memory to load it") from error


def load(path: str | os.PathLike[str], *, check: bool | Literal["fully"] = True) -> Any:
    """The forest that was saved in a file, to the last bit: it goes on learning as the saved one would have.

    Files from strangers are safe to load, and what was loaded is safe to use. The check has two parts: sizes, nodes, rows and label
    statistics, which are all that asking a forest relies on, when it is loaded; and that every point is where the cuts say,
    which takes three times as long, before it first learns or forgets. An error is raised before anything is changed.

    Parameters
    ----------
    path : path-like
    check : bool or "fully", default=True
        "fully": both parts at once. If False, checksums and sizes are checked, but not that the trees are trees. Damage is still
        seen, so this is enough for files that you have written; a forged one could crash the process.

    Returns
    -------
    BSPForestClassifier or BSPForestRegressor

    Raises
    ------
    ModelFileError
        A ValueError: the file is not a model file, is damaged, or is not consistent. The first `partial_fit` or `forget` may
        raise it too.
    """
    return load_with_extra(path, check=check)[0]


def load_with_extra(
    path: str | os.PathLike[str], *, check: bool | Literal["fully"] = True
) -> tuple[Any, dict[str, Any] | None]:
    """As `load`, with the ``extra`` that was saved beside the forest."""
    if not isinstance(check, bool) and check != "fully":
        raise ValueError(f"check must be True, False or 'fully', got {check!r}")
    with _opened(path) as file:
        front = read_front(file.fileno())
        forest = Reader(file.fileno(), front, check=bool(check), fully=check == "fully").read()
        if check is True:
            forest._forest.verify = partial(check_fully, name=os.fspath(path))
        return forest, front.header["extra"]
