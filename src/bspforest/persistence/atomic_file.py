"""Files that are whole or not there: written beside their place, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: stale files are then left where they are
    fcntl = None

# One call of the system writes or reads at most 2 GiB.
AT_ONCE = 2**30

PREFIX, SUFFIX = ".bspforest-", ".tmp"


def write_all(fd: int, data: Any, offset: int) -> int:
    """Write all bytes at ``offset``; where they end."""
    view = memoryview(data).cast("B")
    while len(view):
        done = _pwrite(fd, view[:AT_ONCE], offset)
        view = view[done:]
        offset += done
    return offset


def read_all(fd: int, data: Any, offset: int) -> int:
    """Fill ``data`` with the bytes at ``offset``; where they end. EOFError if the file is too short."""
    view = memoryview(data).cast("B")
    while len(view):
        done = _pread(fd, view[:AT_ONCE], offset)
        if done == 0:
            raise EOFError
        view = view[done:]
        offset += done
    return offset


def _pwrite(fd: int, view: memoryview, offset: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, view, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.write(fd, view)


def _pread(fd: int, view: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(fd, [view], offset)
    os.lseek(fd, offset, os.SEEK_SET)
    data = os.read(fd, len(view))
    view[: len(data)] = data
    return len(data)


def identify(path: Path) -> tuple[int, int, int] | None:
    """What tells a file from one that takes its place; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def read_ahead(fd: int, offset: int, size: int) -> None:
    """Let the system fetch these bytes from the disk, while something else is done."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # a hint: not every file system takes it
            os.posix_fadvise(fd, offset, size, os.POSIX_FADV_WILLNEED)


# Threads may read one file at once only where reading does not move a common position.
READS_IN_THREADS = hasattr(os, "preadv")


@contextlib.contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[int]:
    """A new file to write to, which takes the place of ``path`` when the block ends well, and leaves no trace if not.

    The file is on disk before it gets its name, and the name is on disk before this returns: whatever happens, ``path`` is
    the old file or the new one, whole.
    """
    path = Path(os.path.realpath(path))  # a link stays, what it points to is replaced
    if not overwrite and path.exists():
        raise FileExistsError(errno.EEXIST, "file exists, and is not to be overwritten", str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a directory, a file is expected", str(path))
    remove_stale(path.parent)
    fd, beside = _create(path.parent)
    try:
        try:
            with contextlib.suppress(OSError, AttributeError):  # as permissions were
                os.fchmod(fd, path.stat().st_mode & 0o777)
            yield fd
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        if fcntl is None:  # Windows does not rename open files
            os.close(fd)
        try:
            _rename(beside, path, overwrite=overwrite)
        finally:
            if fcntl is not None:
                os.close(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    _sync_directory(path.parent)


def _rename(beside: Path, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(beside, path)
        return
    try:
        os.link(beside, path)  # unlike renaming, fails if the file has come to exist
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(errno.EEXIST, "file exists, and is not to be overwritten", str(path)) from None
        os.replace(beside, path)
    else:
        os.unlink(beside)


def _create(folder: Path) -> tuple[int, Path]:
    """A new file in a folder, locked for as long as it is open, which shows `remove_stale` that its writer lives."""
    while True:
        beside = folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
        fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is None:
            return fd, beside
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # taken for stale in the moment before it was locked
            pass
        except OSError:  # a file system without locks
            return fd, beside
        else:
            if os.fstat(fd).st_nlink:
                return fd, beside
        os.close(fd)
        with contextlib.suppress(OSError):
            os.unlink(beside)


def remove_stale(folder: Path) -> None:
    """Remove what killed writers have left in a folder: files with our kind of name that nobody holds locked."""
    if fcntl is None:
        return
    for beside in folder.glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            fd = os.open(beside, os.O_RDWR)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(beside)
            finally:
                os.close(fd)


def _sync_directory(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets one open a directory
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
