"""Model files: a forest in one zip file of ``.npy`` arrays and a ``header.json``, restored bit for bit, without pickle.

``np.load`` and every zip program open the file, and its CRCs detect damage. The header holds the parameters of the fit and
all that is small. `bspforest.file_content` describes both, and docs/guide/model-files.md.

`bspforest.replacing` keeps other writers away, and the old file until the new one is on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import filelock
import numpy as np
from sklearn.utils.validation import check_is_fitted

from .file_content import AT_ONCE, FORMAT, describe, explain, restore
from .file_header import MAX_HEADER, ModelFileError, dump_header, expect
from .replacing import ModelLockedError, check_replaceable, identify, lock_model, remove_leftovers, replacing

if TYPE_CHECKING:
    from .estimators import BSPForestClassifier, BSPForestRegressor
    from .estimators.base import BSPForest

    AnyForest: TypeAlias = BSPForestClassifier | BSPForestRegressor

__all__ = [
    "ModelFileError",
    "ModelLockedError",
    "Saver",
    "load",
    "load_with_extra",
    "lock_model",
    "read_header",
    "save",
]

# Deflate at its fastest level: level 6 takes three times as long for files that are a tenth smaller.
LEVEL = 1

# Deflated data is never smaller by more than this factor: a small file must not ask for much memory.
MAX_RATIO = 1100

# Seconds to wait for another process that is writing the same model.
WAIT = 10.0


# ----------------------------------------------------------------------------------------------------------------------
# Saving


def save(
    forest: BSPForest,
    path: str | os.PathLike[str],
    *,
    extra: dict[str, Any] | None = None,
    overwrite: bool = True,
    compress: bool = False,
    lock: filelock.BaseFileLock | None = None,
    wait: float = WAIT,
) -> None:
    """Save a fitted forest to a file, from which `load` restores it bit for bit.

    The file is complete and on disk when this returns. If saving fails, the old file stays. Forgotten rows leave no trace in
    the file; rows that a window dropped may still show in the range of features. Parameters that were changed since `fit`, and
    have no effect until the next one, are saved as they were for the fit.

    Parameters
    ----------
    forest : BSPForestClassifier or BSPForestRegressor
    path : path-like
    extra : dict or None
        Anything JSON can hold, kept in the header of the file.
    overwrite : bool, default=True
        If False and the file exists, raise FileExistsError.
    compress : bool, default=False
        Write a smaller file, in more time.
    lock : BaseFileLock or None
        The lock from `lock_model`, if the caller has it. Else it is taken while the file is written.
    wait : float, default=10.0
        Seconds to wait for another writer.

    Examples
    --------
    >>> import bspforest, os, tempfile
    >>> forest = bspforest.BSPForestRegressor(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bsp")
    >>> forest.save(path)
    >>> bspforest.load(path).partial_fit([[4.0]], [4]).n_samples_
    5
    """
    check_replaceable(Path(path), overwrite=overwrite)
    write = take_copy(forest, extra, compress=compress)
    with contextlib.nullcontext() if lock is not None else lock_model(path, wait):
        write(path, overwrite)


def take_copy(
    forest: BSPForest, extra: dict[str, Any] | None, *, compress: bool = False
) -> Callable[[str | os.PathLike[str], bool], None]:
    """Return a function that writes the forest as it is now to a path. The forest may change meanwhile."""
    check_is_fitted(forest)
    header, arrays = forest._read(lambda: describe(forest, extra))
    header |= {"compressed": compress, "bytes": sum(array.nbytes for array in arrays.values())}
    text = dump_header(header)

    def write(path: str | os.PathLike[str], overwrite: bool) -> None:
        remove_leftovers(path)
        with replacing(path, overwrite=overwrite) as file:
            write_members(file, text, arrays, compress=compress)

    return write


def write_members(file: IO[bytes], header: bytes, arrays: dict[str, np.ndarray], *, compress: bool = False) -> None:
    """Write a header and arrays as a zip file."""
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind, compresslevel=LEVEL) as archive:
        archive.writestr("header.json", header)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=array.nbytes > 2**30) as member:
                np.lib.format.write_array_header_1_0(member, np.lib.format.header_data_from_array_1_0(array))
                data = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
                for start in range(0, len(data), AT_ONCE):
                    member.write(data[start : start + AT_ONCE])


class Saver:
    """Saves a forest to one file repeatedly, in the background.

    `save` copies the forest and writes the copy in a thread while learning continues. Write errors are raised by the next
    `save`, or by `wait`.

    Parameters
    ----------
    path : path-like
    overwrite : bool, default=True
        If False and the file exists at the first `save`, raise FileExistsError.
    compress : bool, default=False
    lock : BaseFileLock or None
        The lock from `lock_model`, if the caller has it. Else it is taken while a file is written.

    Examples
    --------
    >>> import bspforest, os, tempfile
    >>> from bspforest.files import Saver
    >>> forest = bspforest.BSPForestRegressor(random_state=0)
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bsp")
    >>> with Saver(path) as saver:
    ...     for k in range(3):
    ...         saver.save(forest.partial_fit([[float(k)]], [k]), extra={"row": k})
    >>> bspforest.load(path).n_samples_
    3
    """

    def __init__(self, path: Any, *, overwrite: bool = True, compress: bool = False, lock: Any = None) -> None:
        self.path, self.overwrite, self.compress, self.lock = Path(path), overwrite, compress, lock
        self.written = identify(self.path)  # the file that was there, then the one that was written last
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, forest: BSPForest, extra: dict[str, Any] | None = None) -> None:
        """Wait until the previous save is done, then save the forest as it is now.

        Parameters
        ----------
        forest : BSPForestClassifier or BSPForestRegressor
        extra : dict or None
            Anything JSON can hold, kept in the header of the file.
        """
        self.wait()
        check_replaceable(self.path, overwrite=self.overwrite)
        write = take_copy(forest, extra, compress=self.compress)
        self._thread = threading.Thread(target=self._write, args=(write,), name="bspforest-save")
        try:
            self._thread.start()
        except RuntimeError:  # no thread is left
            self._thread = None
            self._write(write)

    def _write(self, write: Callable[[Path, bool], None]) -> None:
        try:
            with contextlib.nullcontext() if self.lock is not None else lock_model(self.path, WAIT):
                write(self.path, self.overwrite)
            self.overwrite, self.written = True, identify(self.path)  # from now on it is our own file
        except BaseException as error:
            self._error = error

    @property
    def busy(self) -> bool:
        """Whether the last save is still being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Return when the last save is on disk; raise its error if it failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is None:
            self.wait()
        elif self._thread is not None:
            self._thread.join()  # the error of the block goes first


# ----------------------------------------------------------------------------------------------------------------------
# Loading


def load(path: str | os.PathLike[str], rebuild: bool = False) -> AnyForest:
    """Return the forest in a model file, checked, as it was when it was saved.

    Parameters
    ----------
    path : path-like
    rebuild : bool, default=False
        Build the trees again from the rows. For a file whose trees are damaged: the error says so.

    Returns
    -------
    BSPForestClassifier or BSPForestRegressor

    Raises
    ------
    ModelFileError
        The file is not a model file, or it is damaged, inconsistent, or of another format.
    """
    return load_with_extra(path, rebuild)[0]


def load_with_extra(path: str | os.PathLike[str], rebuild: bool = False) -> tuple[AnyForest, dict[str, Any] | None]:
    """Return the forest in a model file, and the ``extra`` that was given to `save`.

    Parameters
    ----------
    path, rebuild
        As in `load`.

    Returns
    -------
    forest : BSPForestClassifier or BSPForestRegressor
    extra : dict or None
    """
    with _opened(path) as archive:
        header = _read_header(archive)
        return restore(archive, header, rebuild), header["extra"]


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a model file as a dict, without loading the forest. Its entries are not checked.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict
    """
    with _opened(path) as archive:
        return _read_header(archive)


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Open a model file for reading. Whatever is wrong in it, by whichever library, raises a `ModelFileError` with its name."""
    check_replaceable(Path(path))  # opening a named pipe would wait for a writer
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                size = sum(member.file_size for member in archive.infolist())
                expect(size <= MAX_RATIO * os.fstat(file.fileno()).st_size, "its members cannot be as large as it says")
                yield archive
        except MemoryError:
            raise
        except Exception as error:
            raise ModelFileError(f"{os.fspath(path)}: {explain(error)}") from error


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    size = archive.getinfo("header.json").file_size
    expect(size <= MAX_HEADER, f"the header would have {size:,} bytes")
    header = json.loads(archive.read("header.json"))
    expect(header["format"] == FORMAT, f"the file has format {str(header['format'])[:50]}, expected {FORMAT}")
    expect(isinstance(header["extra"], dict | None), "extra in the header is not an object")
    return header
