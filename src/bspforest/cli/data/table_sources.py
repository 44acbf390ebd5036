"""Read typed data: Parquet files and folders, Arrow IPC files and streams, and NumPy archives."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from ..errors import CommandError
from ..formatting import format_count
from .arrow import pa, pc, pq
from .blocks import Block, Location, make_block
from .column_kinds import kind_of_text, kind_of_type
from .notation import PLAIN, Notation

BATCH = 16_384  # rows


class TableSource:
    """A sequence of typed batches. ``total`` is the number of rows, if known in advance."""

    notation = PLAIN

    def __init__(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, name: str, total: int | None = None
    ) -> None:
        self.name = name
        self.columns = list(schema.names)
        self._schema = schema
        self._batches = iter(batches)
        self._held: list[pa.RecordBatch] = []
        self._total = total
        self._rows = 0

    @property
    def share_read(self) -> float | None:
        return self._rows / self._total if self._total else None

    def sample(self, n: int, drop: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, pa.Array]]:
        rows = 0
        while rows < n and (batch := next(self._batches, None)) is not None:
            self._held.append(batch)
            rows += len(batch)
        if not rows:
            raise CommandError(f"{self.name} has no rows")
        names = [name for name in self.columns if name not in drop]
        merged = {name: _merge(name, [batch.column(name) for batch in self._held], self.notation) for name in names}
        return {name: kind for name, (kind, _) in merged.items()}, {name: v[:n] for name, (_, v) in merged.items()}

    def read(self, kinds: dict[str, str]) -> Iterator[Block]:
        while self._held:
            yield self._read_batch(self._held.pop(0), kinds)
        for batch in self._batches:
            yield self._read_batch(batch, kinds)

    def _read_batch(self, batch: pa.RecordBatch, kinds: dict[str, str]) -> Block:
        before = self._rows
        self._rows += len(batch)
        raw = {name: batch.column(name) for name in kinds}
        return make_block(raw, kinds, lambda i: Location("row", before + i + 1), [], self.notation)


def _merge(name: str, pieces: list[pa.Array], notation: Notation = PLAIN) -> tuple[str, pa.Array]:
    """Return the kind of a column, and its pieces as one array.

    The files of a folder may differ in type: the widest is taken.

    >>> kind, values = _merge("x", [pa.array([1, 2]), pa.array([0.5])])
    >>> kind, values.to_pylist()
    ('number', [1.0, 2.0, 0.5])
    """
    for piece in pieces:
        kind_of_type(name, piece.type)  # raises an error for types that no column may have
    pieces = [piece.dictionary_decode() if pa.types.is_dictionary(piece.type) else piece for piece in pieces]
    schemas = [pa.schema([(name, piece.type)]) for piece in pieces]
    try:
        common = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:  # such as numbers and text: handle them as in a text file
        values = pa.concat_arrays([pc.cast(piece, pa.string()) for piece in pieces])
        return kind_of_text(values, notation), values
    return kind_of_type(name, common), pa.concat_arrays([pc.cast(piece, common, safe=False) for piece in pieces])


# ----------------------------------------------------------------------------------------------------------------------
# Parquet


def open_parquet(path: Path) -> TableSource:
    """Open a Parquet file."""
    file = pq.ParquetFile(path)
    return TableSource(
        file.iter_batches(BATCH, use_threads=False), file.schema_arrow, str(path), file.metadata.num_rows
    )


def open_parquet_folder(path: Path, files: list[Path]) -> TableSource:
    """Open all Parquet files of a folder in the order of their names; ``year=2024`` in a path becomes a column."""
    first = _partition_of(path, files[0])
    schema = pq.read_schema(files[0])
    for name, value in first.items():
        schema = schema.append(pa.field(name, value.type))

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            extra = _partition_of(path, file)
            with pq.ParquetFile(file) as opened:
                names = [*opened.schema_arrow.names, *extra]
                check_columns(names, schema.names, str(file))
                for batch in opened.iter_batches(BATCH, use_threads=False):
                    for name, value in extra.items():
                        batch = batch.append_column(name, pa.repeat(value, len(batch)))
                    yield batch

    return TableSource(batches(), schema, str(path))


def _partition_of(folder: Path, file: Path) -> dict[str, pa.Scalar]:
    """Return the columns that are encoded in the path of a file."""
    pairs = (part.split("=", 1) for part in file.relative_to(folder).parts[:-1] if "=" in part)
    return {name: pa.scalar(int(value) if value.isdecimal() else value) for name, value in pairs}


def check_columns(found: list[str], expected: list[str], name: str) -> None:
    """Refuse data whose columns are not the expected ones."""
    missing = [column for column in expected if column not in found]
    new = [column for column in found if column not in expected]
    if missing:
        raise CommandError(f"{name} lacks the column {missing[0]!r}; it has {', '.join(found)}")
    if new:
        raise CommandError(f"{name} has a new column, {new[0]!r}; expected: {', '.join(expected)}")


# ----------------------------------------------------------------------------------------------------------------------
# Arrow IPC


def open_ipc_file(path: Path) -> TableSource:
    """Open an Arrow IPC (Feather) file through a memory map."""
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    batches = (piece for k in range(reader.num_record_batches) for piece in _pieces(reader.get_batch(k)))
    return TableSource(batches, reader.schema, str(path))


def open_ipc_stream(stream: BinaryIO, name: str) -> TableSource:
    """Open a stream in the Arrow IPC format."""
    reader = pa.ipc.open_stream(stream)
    return TableSource((piece for batch in reader for piece in _pieces(batch)), reader.schema, name)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), BATCH):
        yield batch.slice(start, BATCH)


# ----------------------------------------------------------------------------------------------------------------------
# NumPy archives


def open_npz(path: Path) -> TableSource:
    """Open a NumPy archive.

    The columns are those of ``X``, with names from ``feature_names`` if present, and ``y``. Without a two-dimensional
    ``X``, each one-dimensional array is a column. Arrays are read in batches, unless ``X`` is stored by columns.
    """
    with ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(path))
        arrays = {
            name.removesuffix(".npy"): _header(archive, name) for name in archive.namelist() if name.endswith(".npy")
        }
        if "X" in arrays and len(arrays["X"][0]) == 2:
            names = _feature_names(archive, arrays)
            wanted = {"X": names, **({"y": ["y"]} if "y" in arrays else {})}
        else:
            wanted = {name: [name] for name, (shape, _, _) in arrays.items() if len(shape) == 1}
        if not wanted:
            raise CommandError(f"{path} has neither a two-dimensional array X nor one-dimensional arrays")
        lengths = {name: arrays[name][0][0] for name in wanted}
        total = min(lengths.values())
        if max(lengths.values()) != total:
            raise CommandError(f"{path}: arrays differ in length: {lengths}")
        columns = [column for group in wanted.values() for column in group]
        readers = [_open_array(stack, archive, path, name, *arrays[name]) for name in wanted]
        types = [_arrow_type(name, arrays[name][1]) for name, group in wanted.items() for _ in group]
        closing = stack.pop_all()

    def batches() -> Iterator[pa.RecordBatch]:
        with closing:
            for start in range(0, total, BATCH):
                n = min(BATCH, total - start)
                values = [array[:, k] for array in (read(start, n) for read in readers) for k in range(array.shape[1])]
                yield pa.record_batch([pa.array(column, from_pandas=True) for column in values], names=columns)

    schema = pa.schema(list(zip(columns, types, strict=True)))
    return TableSource(batches(), schema, str(path), total)


Header = tuple[tuple[int, ...], np.dtype, bool]  # shape, type, whether stored by columns


def _read_header(member: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(member)
    return shape, dtype, by_columns and len(shape) > 1


def _header(archive: zipfile.ZipFile, name: str) -> Header:
    with archive.open(name) as member:
        return _read_header(member)


def _feature_names(archive: zipfile.ZipFile, arrays: dict[str, Header]) -> list[str]:
    d = arrays["X"][0][1]
    if "feature_names" in arrays and arrays["feature_names"][0] == (d,):
        with archive.open("feature_names.npy") as member:
            return [str(name) for name in np.lib.format.read_array(member, allow_pickle=False)]
    return [f"x{k}" for k in range(d)]


def _arrow_type(name: str, dtype: np.dtype) -> pa.DataType:
    if dtype.kind == "U":
        return pa.string()
    if dtype.kind not in "biuf":
        raise CommandError(f"the array {name} holds {dtype}, expected numbers, booleans or text")
    return pa.from_numpy_dtype(dtype)


def _open_array(
    stack: ExitStack,
    archive: zipfile.ZipFile,
    path: Path,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    by_columns: bool,
) -> Callable[[int, int], np.ndarray]:
    """Return a function that reads rows ``start`` to ``start + n``, to be called in order."""
    if by_columns:
        whole = stack.enter_context(np.load(path, allow_pickle=False))[name]
        return lambda start, n: whole[start : start + n]
    member = stack.enter_context(archive.open(f"{name}.npy"))
    _read_header(member)
    width = int(np.prod(shape[1:], dtype=np.int64))

    def read(start: int, n: int) -> np.ndarray:
        data = member.read(n * width * dtype.itemsize)
        if len(data) < n * width * dtype.itemsize:
            raise CommandError(
                f"{path}: the array {name} ends at row {start}, expected {format_count(shape[0], 'row')}"
            )
        return np.frombuffer(data, dtype).reshape(n, width)

    return read
