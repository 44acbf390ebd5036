"""The files that a command writes: checks before it reads any data, and writing."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from ..replacing import replacing
from .errors import CommandError, UsageError

SPECIAL = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def describe_special(path: Path) -> str | None:
    """Return what a path is if it exists and is not a regular file, else None. Links are followed."""
    if not path.exists():
        return None
    return SPECIAL.get(stat.S_IFMT(path.stat().st_mode))


def check_replaceable(path: Path, option: str, *, hint: str = "") -> None:
    """Refuse a path to which no file can be renamed: a folder, a device, a named pipe, or in a missing folder."""
    if (special := describe_special(path)) is not None:
        raise UsageError(f"{option} {path} is {special}, expected a regular file{hint}")
    _check_folder(path, option)


def check_new(path: Path, option: str, *, overwrite: bool, hint: str = "") -> None:
    """As `check_replaceable`, and refuse a file that exists unless it is to be overwritten."""
    check_replaceable(path, option, hint=hint)
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists already: --overwrite replaces it")


def check_writable(path: Path, option: str, *, creates_folder: bool = False) -> None:
    """Refuse a path that cannot be opened for writing. Devices and named pipes can be."""
    if (special := describe_special(path)) in ("a folder", "a socket"):
        raise UsageError(f"{option} {path} is {special}, expected a file")
    if not creates_folder:
        _check_folder(path, option)


def write_file(data: bytes, path: Path, option: str) -> None:
    """Replace a file at once; a device or a named pipe, such as /dev/stderr, is written to."""
    try:
        if describe_special(path) is not None:
            path.write_bytes(data)
            return
        with replacing(path) as file:
            file.write(data)
    except BrokenPipeError:  # the reader has gone, which is no error
        raise
    except OSError as error:  # its own message would name a temporary file
        raise CommandError(f"{option} {path}: {error.strerror or error}") from None


def _check_folder(path: Path, option: str) -> None:
    """Refuse a path in a folder that does not exist or takes no files. A link is followed, as it is when it is written."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise UsageError(f"{option} {path}: the link leads to itself")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {target.parent}")
    if describe_special(path) is not None:
        return
    try:
        with tempfile.TemporaryFile(dir=target.absolute().parent):
            pass
    except OSError as error:
        raise UsageError(f"{option} {path}: {target.parent} takes no files ({error.strerror})") from None
