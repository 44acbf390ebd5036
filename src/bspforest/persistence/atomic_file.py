"""Replace files atomically: write a new file in the same folder, then rename it."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: files left by killed writers stay where they are
    fcntl = None

# A system call writes or reads at most 2 GiB.
AT_ONCE = 2**30

PREFIX, SUFFIX = ".bspforest-", ".tmp"

# The first bytes of a file, which are part of its identity: the preamble of a model.
IDENTIFYING = 64


# Kinds of files that are neither read nor replaced, by the type bits of their mode.
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class NotARegularFileError(OSError):
    """Raised for a path that exists and is a device, a named pipe or a socket."""


def check_regular(path: Path | str, status: os.stat_result) -> None:
    """Raise IsADirectoryError or `NotARegularFileError` unless this is the status of a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        return
    message = f"is {KINDS.get(kind, 'a special file')}, not a regular file"
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, message, str(path))
    raise NotARegularFileError(errno.EINVAL, message, str(path))


def open_regular(path: Path | str) -> int:
    """Open a regular file for reading; raise an error for anything else without opening it.

    Opening a named pipe waits for a writer, and opening a device may do anything. So the path is checked first, and if it
    becomes a named pipe before it is opened, O_NONBLOCK keeps that from waiting.
    """
    check_regular(path, os.stat(path))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags)
    try:
        check_regular(path, os.fstat(fd))
    except OSError:
        os.close(fd)
        raise
    return fd


def write_all(fd: int, data: Any, offset: int) -> int:
    """Write all bytes at ``offset``; return where they end."""
    view = memoryview(data).cast("B")
    while len(view):
        done = _pwrite(fd, view[:AT_ONCE], offset)
        view = view[done:]
        offset += done
    return offset


def read_all(fd: int, data: Any, offset: int) -> int:
    """Fill ``data`` with the bytes at ``offset``; return where they end. Raise EOFError if the file is too short."""
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


class FileIdentity(NamedTuple):
    """What tells a file from one that replaces it.

    Inodes are reused, and times have a resolution of some milliseconds. So the first bytes are part of it: those of a model
    hold checksums of all the others.

    Parameters
    ----------
    device, inode : int
        Where the file is.
    modified_ns : int
        When it was last changed, in nanoseconds.
    size : int
        Its size in bytes.
    start : bytes
        Its first bytes.
    """

    device: int
    inode: int
    modified_ns: int
    size: int
    start: bytes


def identify(path: Path | str) -> FileIdentity | None:
    """Return a token that tells a file from one that replaces it; None if there is no file.

    If the file may change, call this before reading it: then a change in between shows later.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    FileIdentity or None
    """
    try:
        fd = open_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (PermissionError, IsADirectoryError, NotARegularFileError):
        return _make_identity(os.stat(path), b"")
    try:
        start = bytearray(IDENTIFYING)
        n = _pread(fd, memoryview(start), 0)
        return _make_identity(os.fstat(fd), bytes(start[:n]))
    finally:
        os.close(fd)


def _make_identity(status: os.stat_result, start: bytes) -> FileIdentity:
    return FileIdentity(status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, start)


def count_data_bytes(fd: int, enough: int) -> int:
    """Return how many bytes of a file are on disk, without its holes; stop counting at ``enough``.

    The allocated size tells at once in most cases. It is smaller than the data where a file system compresses, so if it is
    not enough, the holes themselves are looked for.
    """
    status = os.fstat(fd)
    allocated = getattr(status, "st_blocks", status.st_size) * 512
    if allocated >= enough or not hasattr(os, "SEEK_DATA"):
        return min(allocated, status.st_size)
    total = end = 0
    with contextlib.suppress(OSError):  # no more data, or holes are not supported
        while total < enough:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
            total += end - start
    return max(total, min(allocated, status.st_size))


def read_ahead(fd: int, offset: int, size: int) -> None:
    """Ask the system to fetch these bytes from disk in the background."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # only a hint, which some file systems reject
            os.posix_fadvise(fd, offset, size, os.POSIX_FADV_WILLNEED)


# Threads may read the same file concurrently only where reading does not move a shared position.
READS_IN_THREADS = hasattr(os, "preadv")


@contextlib.contextmanager
def replacing(path: Path, *, overwrite: bool, check: Callable[[], None] | None = None) -> Iterator[int]:
    """Yield a new file to write to, and rename it to ``path`` if the block succeeds; else remove it.

    The data is on disk before the rename, and the rename is on disk before this returns. Whatever happens, ``path`` is
    either the old file or the complete new one. ``check`` is called before anything is written and again right before
    the rename; if it raises an error, the old file stays.
    """
    if check is not None:
        check()
    _check_replaceable(path, overwrite=overwrite)
    path = Path(os.path.realpath(path))  # a link stays, its target is replaced
    remove_stale(path.parent)
    fd, temporary = _create(path.parent)
    try:
        try:
            with contextlib.suppress(OSError, AttributeError):  # keep the permissions
                os.fchmod(fd, path.stat().st_mode & 0o777)
            yield fd
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        if fcntl is None:  # Windows cannot rename open files
            os.close(fd)
        try:
            _check_replaceable(path, overwrite=overwrite)
            if check is not None:
                check()
            _rename(temporary, path, overwrite=overwrite)
        finally:
            if fcntl is not None:
                os.close(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(path.parent)


def _check_replaceable(path: Path, *, overwrite: bool) -> None:
    """Raise an error unless ``path``, following links, is a regular file that may be overwritten, or does not exist."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return
    check_regular(path, status)
    if not overwrite:
        raise FileExistsError(errno.EEXIST, "file exists, and is not to be overwritten", str(path))


def _rename(temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Rename a file; without ``overwrite``, fail if ``path`` exists."""
    if overwrite:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)  # unlike renaming, fails if the file exists by now
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(errno.EEXIST, "file exists, and is not to be overwritten", str(path)) from None
        os.replace(temporary, path)
    else:
        os.unlink(temporary)


def _create(folder: Path) -> tuple[int, Path]:
    """Create a file in a folder, locked while it is open, which tells `remove_stale` that its writer is alive."""
    while True:
        temporary = folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is None:
            return fd, temporary
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # `remove_stale` of another process was faster
            pass
        except OSError:  # a file system without locks
            return fd, temporary
        else:
            if os.fstat(fd).st_nlink:
                return fd, temporary
        os.close(fd)
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def remove_stale(folder: Path) -> None:
    """Remove files that killed writers have left in a folder: those with our kind of name that are not locked."""
    if fcntl is None:
        return
    for temporary in folder.glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            fd = os.open(temporary, os.O_RDWR)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(temporary)
            finally:
                os.close(fd)


def _sync_directory(folder: Path) -> None:
    """Wait until changes of a folder are on disk."""
    with contextlib.suppress(OSError):  # some systems cannot open directories
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
