"""Open a path, or ``-`` for standard input, as a source of rows."""

from __future__ import annotations

import lzma
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..errors import CommandError
from .arrow import pa
from .blocks import Source
from .csv_source import CsvSource
from .notation import PLAIN, Notation
from .table_sources import open_ipc_file, open_ipc_stream, open_npz, open_parquet, open_parquet_folder

# The first bytes decide about the format: a pipe has no file name, and file names can be wrong.
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xfd7zXZ\x00": "xz",
}
_PARQUET, _IPC_FILE, _IPC_STREAM, _ZIP = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff", b"PK\x03\x04"


def open_source(data: str, *, delimiter: str | None = None, header: bool = True, notation: Notation = PLAIN) -> Source:
    """Open DATA: a file, a folder of Parquet files, or ``-`` for standard input."""
    source = _open_path(data, delimiter, header, notation)
    source.notation = notation
    return source


def _open_path(data: str, delimiter: str | None, header: bool, notation: Notation) -> Source:
    if data == "-":
        return _open_stream(sys.stdin.buffer, "standard input", delimiter, header, notation)
    path = Path(data)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith(("_", ".")))
        if not files:
            raise CommandError(f"{path} is a folder without Parquet files (*.parquet)")
        return open_parquet_folder(path, files)
    stream = path.open("rb")
    start = stream.peek(8)[:8]
    if start.startswith((_PARQUET, _IPC_FILE, _ZIP)):
        stream.close()
        opener = {_PARQUET: open_parquet, _IPC_FILE: open_ipc_file, _ZIP: open_npz}
        return next(function for magic, function in opener.items() if start.startswith(magic))(path)
    if not delimiter and ".tsv" in path.suffixes:
        delimiter = "\t"
    size = os.fstat(stream.fileno()).st_size
    return _open_stream(cast(BinaryIO, stream), str(path), delimiter, header, notation, size)


def _open_stream(
    stream: BinaryIO, name: str, delimiter: str | None, header: bool, notation: Notation, size: int | None = None
) -> Source:
    how: dict[str, Any] = {"delimiter": delimiter, "header": header, "notation": notation}
    start = stream.peek(8)[:8]  # type: ignore[attr-defined]
    for magic, codec in _COMPRESSED.items():
        if start.startswith(magic):
            return CsvSource(_unpack(stream, codec), name, **how)
    if start.startswith(_IPC_STREAM):
        return open_ipc_stream(stream, name)
    for magic, what in ((_PARQUET, "Parquet"), (_IPC_FILE, "an Arrow IPC file"), (_ZIP, "a NumPy or zip archive")):
        if start.startswith(magic):
            raise CommandError(f"{name} is {what}, which cannot be read from a pipe: give the file's name")
    return CsvSource(stream, name, size=size, **how)


def _unpack(stream: BinaryIO, codec: str) -> BinaryIO:
    if codec == "xz":
        return cast(BinaryIO, lzma.open(stream))
    return pa.CompressedInputStream(pa.PythonFile(stream), codec)
