"""Replace files as a whole, one writer at a time.

A file is written under a temporary name in the same folder and renamed when it is on disk. Writers of a model hold a lock on a
file next to it, which the system frees when their process ends.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import filelock


class ModelLockedError(OSError):
    """Raised if another process or thread is writing a model."""

    def __str__(self) -> str:
        return str(self.strerror)


@contextlib.contextmanager
def lock_model(path: str | os.PathLike[str], wait: float = 0.0) -> Iterator[filelock.BaseFileLock]:
    """Hold the lock on the model at ``path``, which need not exist yet, in a ``with`` statement.

    Hold it to read a model, change it and write it back without losing what others write. The system frees it when its process
    ends. Reading needs no lock, because models are replaced as a whole.

    Parameters
    ----------
    path : path-like
    wait : float, default=0.0
        Seconds to wait for another writer.

    Yields
    ------
    filelock.BaseFileLock
        To be passed to `save` as ``lock``.

    Raises
    ------
    ModelLockedError
        Another writer has the lock.

    Examples
    --------
    >>> import bspforest, os, tempfile
    >>> from bspforest.files import load_with_extra, lock_model, save
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bsp")
    >>> save(bspforest.BSPForestRegressor(random_state=0).fit([[0.0], [1.0]], [0, 1]), path)
    >>> with lock_model(path, wait=60.0) as lock:
    ...     forest, extra = load_with_extra(path)
    ...     save(forest.partial_fit([[2.0]], [2]), path, extra=extra, lock=lock)
    >>> bspforest.load(path).n_samples_
    3
    """
    if not wait >= 0:
        raise ValueError(f"wait must be a number of seconds, at least 0, got {wait!r}")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():  # the lock would make it
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    lock = filelock.FileLock(target.with_name(f".{target.name[:100]}.lock"), thread_local=False)
    try:
        lock.acquire(timeout=min(wait, 1e9))
    except filelock.Timeout:
        owner = "another process"
        with contextlib.suppress(OSError, ValueError):
            owner = f"process {int(Path(lock.lock_file).read_text()[:20])}"
        message = f"{target.name} is being written by {owner}; wait for it, or use --wait (in Python, wait=)"
        raise ModelLockedError(errno.EAGAIN, message, str(target)) from None
    with contextlib.suppress(OSError):  # Windows lets nobody write to a locked file
        Path(lock.lock_file).write_text(str(os.getpid()))
    try:
        yield lock
    finally:
        lock.release()


def check_replaceable(path: Path, *, overwrite: bool = True) -> None:
    """Raise an error unless ``path`` is a regular file that may be overwritten, or does not exist."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a directory, not a regular file", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    if path.exists() and not overwrite:
        raise FileExistsError(errno.EEXIST, "file exists, and is not to be overwritten", str(path))


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """Yield a new file to write to, and rename it to ``path`` if the block succeeds; else remove it.

    The data is on disk before the rename, and the rename is on disk before this returns. Whatever happens, ``path`` is either
    the old file or the complete new one. A link stays, and its target is replaced.
    """
    path = Path(os.path.realpath(path))
    check_replaceable(path, overwrite=overwrite)
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            with contextlib.suppress(OSError, AttributeError):  # keep the permissions
                os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        check_replaceable(path, overwrite=overwrite)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some systems cannot open directories
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def identify(path: Path) -> tuple[int, ...] | None:
    """Return what tells a file from one that replaces it; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that killed writers of a model have left. The caller has the lock, so no writer is alive."""
    path = Path(os.path.realpath(path))
    for left in path.parent.glob(f".{glob.escape(path.name[:100])}.{'[0-9a-f]' * 16}.tmp"):
        left.unlink(missing_ok=True)
