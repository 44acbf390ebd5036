"""The files that a command writes: checks before it reads any data, and writing."""

from __future__ import annotations

import stat
from pathlib import Path

from ..persistence.atomic_file import replacing, write_all
from .errors import UsageError

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


def write_file(data: bytes, path: Path) -> None:
    """Replace a file at once; a device or a named pipe, such as /dev/stderr, is written to."""
    if describe_special(path) is not None:
        path.write_bytes(data)
        return
    with replacing(path, overwrite=True) as fd:
        write_all(fd, data, 0)


def _check_folder(path: Path, option: str) -> None:
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}")
