"""Model files: a forest in one file, without pickle, read back bit for bit.

A file is, little-endian and without gaps: a preamble of 64 bytes, the header (JSON, `bspforest._header`), a table with a checksum
for each block, and the blocks. The first blocks are what all trees share (`COMMON`); then comes a block for each tree, with the
part in use of each of its arrays (`PER_TREE`). Files are written beside their place and renamed.

Kernels do not check bounds, so `load` is where a file is trusted or not: it checks every index, size and order that they rely on.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import _layout as layout
from ._check import WRONG, check_tree, make_checks
from ._checksum import checksum
from ._file import READS_IN_THREADS, read_all, replacing, write_all
from ._header import LARGEST_HEADER, ModelFileError, describe, dump, entry, expect, make_estimator, parse, whole
from ._scrub import scrub_trees
from ._threads import run_parts
from .base import BSPForest
from .core import OnlineForest, spread

__all__ = ["ModelFileError", "Saver", "load", "load_with_extra", "read_header", "save"]

FORMAT = 1
MAGIC = b"\x89bspf\r\n\x1a"  # as PNG's: a transfer that mends line ends, or drops the eighth bit, shows

# Magic, format, bytes of the header, blocks, bytes of the file, checksum of the header, of the table, of all before.
PREAMBLE = struct.Struct("<8s7Q")

COMMON = ("state", "ids", "free", "rows", "labels", "range")

# The arrays of a tree, each with the count in its state that says how much of it is in use; links are as many as rows.
PER_TREE = {
    "cuts": "n_cuts",
    "boxes": "n_cuts",
    "leaves": "n_leaves",
    "values": "n_leaves",
    "queue": "n_due",
    "links": None,
}

# Trees of one forest are alike. A file that asks for many times its own size in memory is not one of ours.
MOST_SPREAD, ALWAYS_FINE = 64, 2**28


class Image(NamedTuple):
    """All that goes into a file: the header, and the arrays of each block."""

    header: bytes
    blocks: list[list[np.ndarray]]


def _wipe(forest: OnlineForest) -> np.ndarray:
    """Zero whatever is not in use, and return the free slots in the order in which they will be taken, from the end."""
    arrays, table = forest.arrays, forest.table
    n_slots = min(table.n_slots, len(arrays.rows))
    free = np.array(table._free, dtype=np.int32)
    if len(free) + table.n_held != n_slots:  # slots that were lost when memory ran out
        lost = np.ones(n_slots, dtype=bool)
        lost[free] = lost[table.held_slots()] = False
        free = np.concatenate([np.flatnonzero(lost).astype(np.int32), free])
    arrays.rows[free] = 0.0
    arrays.labels[free] = 0.0
    scrub_trees(arrays, 0, forest.n_trees, free)
    return free


def make_image(estimator: BSPForest, extra: dict[str, Any] | None) -> Image:
    """What is to be written, as views of the forest's arrays: valid until it learns or forgets."""
    check_is_fitted(estimator)
    header = describe(estimator, extra)
    forest = estimator._forest
    header["forest"] |= {"n_slots": 2**31, "n_ids": 2**31, "n_free": 2**31}
    dump({"format": FORMAT, **header})  # if it cannot be, nothing is touched
    free = _wipe(forest)
    arrays, table = forest.arrays, forest.table
    n_slots = len(free) + table.n_held
    ids = table._slots[: len(table)]
    low_high = np.stack(forest.scaling if isinstance(forest.scaling, tuple) else forest._range)
    common = [arrays.state, ids, free, arrays.rows[:n_slots], arrays.labels[:n_slots], low_high]
    header["forest"] |= {"n_slots": n_slots, "n_ids": len(ids), "n_free": len(free)}
    blocks = [[array] for array in common]
    for m in range(forest.n_trees):
        counts = {name: n_slots if key is None else int(arrays.state[m][key]) for name, key in PER_TREE.items()}
        blocks.append([getattr(arrays, name)[m, : counts[name]] for name in PER_TREE])
    return Image(dump({"format": FORMAT, **header}), blocks)


def write_image(image: Image, path: Path, *, overwrite: bool) -> None:
    """Write a file, and put it in its place when it is whole and on disk."""
    _only_little_endian()
    header, blocks = image
    table = np.zeros(len(blocks), dtype=np.uint64)
    with replacing(path, overwrite=overwrite) as fd:
        start = offset = PREAMBLE.size + len(header) + table.nbytes
        for k, arrays in enumerate(blocks):
            table[k] = checksum(*arrays)
            for array in arrays:
                offset = write_all(fd, array.reshape(-1).view(np.uint8), offset)
        front = _preamble(header, table, offset) + header + table.tobytes()
        assert len(front) == start
        write_all(fd, front, 0)


def _preamble(header: bytes, table: np.ndarray, size: int) -> bytes:
    fields = (FORMAT, len(header), len(table), size, checksum(np.frombuffer(header, np.uint32)), checksum(table))
    words = np.frombuffer(PREAMBLE.pack(MAGIC, *fields, 0), np.uint32)
    return PREAMBLE.pack(MAGIC, *fields, checksum(words))


def _only_little_endian() -> None:
    if sys.byteorder != "little":
        raise NotImplementedError("model files can be written and read on little-endian machines only")


def save(
    forest: BSPForest, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None, overwrite: bool = True
) -> None:
    """Save a fitted forest in a file, so that `load` gives back the same, to the last bit.

    The file is complete and on disk when this returns; a crash before leaves the file that was there. It holds no trace of
    rows that are forgotten.

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
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._room = np.empty(0, dtype=np.uint8)

    def save(self, forest: BSPForest, extra: dict[str, Any] | None = None) -> None:
        """Wait until the save before is done, then save the forest as it is now."""
        self.wait()
        if not self.overwrite and self.path.exists():
            raise FileExistsError(errno.EEXIST, "file exists, and is not to be overwritten", str(self.path))
        image = self._copy(make_image(forest, extra))
        self._thread = threading.Thread(target=self._write, args=(image,), name="bspforest-save")
        self._thread.start()

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
        for arrays in image.blocks:
            copies = []
            for array in arrays:
                copy = self._room[at : at + array.nbytes]
                copy[:] = array.reshape(-1).view(np.uint8)
                copies.append(copy)
                at += array.nbytes + -array.nbytes % 8
            blocks.append(copies)
        return Image(image.header, blocks)

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is None:
            self.wait()
        elif self._thread is not None:
            self._thread.join()  # the error on its way goes first


# ----------------------------------------------------------------------------------------------------------------------
# Loading


class _Front(NamedTuple):
    """What stands before the blocks."""

    header: dict[str, Any]
    n_blocks: int
    table_at: int
    table_sum: int
    size: int


def _read_front(fd: int) -> _Front:
    """Read the preamble and the header."""
    _only_little_endian()
    status = os.fstat(fd)
    expect(stat.S_ISREG(status.st_mode), "not a regular file")
    data = bytearray(PREAMBLE.size)
    expect(status.st_size >= len(data), f"too short to be a bspforest model file: {status.st_size} bytes")
    read_all(fd, data, 0)
    magic, number, header_size, n_blocks, size, header_sum, table_sum, own_sum = PREAMBLE.unpack(data)
    expect(magic == MAGIC, "not a bspforest model file")
    expect(number == FORMAT, f"the file has format {number}; this version of bspforest reads format {FORMAT}")
    data[-8:] = bytes(8)
    expect(checksum(np.frombuffer(data, np.uint32)) == own_sum, "the preamble is damaged: its checksum is wrong")
    expect(size == status.st_size, f"the file has {status.st_size:,} bytes, {size:,} are expected: truncated?")
    expect(header_size <= LARGEST_HEADER and header_size % 8 == 0, f"the header would have {header_size:,} bytes")
    table_at = PREAMBLE.size + header_size
    expect(table_at + 8 * n_blocks <= size, f"{n_blocks:,} blocks do not fit the file")
    text = bytearray(header_size)
    read_all(fd, text, PREAMBLE.size)
    expect(checksum(np.frombuffer(text, np.uint32)) == header_sum, "the header is damaged: its checksum is wrong")
    header = parse(bytes(text))
    entry(header, "extra", (dict, type(None)))
    return _Front(header, n_blocks, table_at, table_sum, size)


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a model file, with parameters, versions, numbers of rows and ``extra``, without reading the forest.

    That the file is not truncated and the header not damaged is checked, but nothing else.
    """
    with _opened(path) as file:
        return _read_front(file.fileno()).header


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


def load(path: str | os.PathLike[str]) -> Any:
    """The forest that was saved in a file, to the last bit: it goes on learning as the saved one would have.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    BSPForestClassifier or BSPForestRegressor

    Raises
    ------
    ModelFileError
        A ValueError: the file is not a model file, is damaged, or is not consistent. Files from strangers are safe to load.
    """
    return load_with_extra(path)[0]


def load_with_extra(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any] | None]:
    """As `load`, with the ``extra`` that was saved beside the forest."""
    with _opened(path) as file:
        front = _read_front(file.fileno())
        return _Reader(file.fileno(), front).read(), front.header["extra"]


class _Reader:
    """Reads the blocks of one file."""

    def __init__(self, fd: int, front: _Front) -> None:
        self.fd, self.front = fd, front
        self.offset = front.table_at
        self.shape = entry(front.header, "forest", dict)
        self.checksums = np.empty(front.n_blocks, np.uint64)
        self.offset = read_all(fd, self.checksums, self.offset)
        expect(checksum(self.checksums) == front.table_sum, "the table of checksums is damaged")

    def count(self, name: str, least: int = 0) -> int:
        return whole(self.shape.get(name), name, least, 2**31 - 1)

    def read(self) -> BSPForest:
        """The estimator, checked."""
        n_trees, d = self.count("n_trees", 1), self.count("n_features", 1)
        n_slots, n_ids, n_free = self.count("n_slots"), self.count("n_ids"), self.count("n_free")
        expect(
            self.front.n_blocks == len(COMMON) + n_trees, f"there are {self.front.n_blocks} blocks for {n_trees} trees"
        )
        wanted: dict[str, tuple[tuple[int, ...], Any]] = {
            "state": ((n_trees,), layout.STATE),
            "ids": ((n_ids,), np.int32),
            "free": ((n_free,), np.int32),
            "rows": ((n_slots, d), np.float64),
            "labels": ((n_slots, 2), np.float64),
            "range": ((2, d), np.float64),
        }
        bytes_of = {
            name: int(np.prod(shape, dtype=object)) * np.dtype(kind).itemsize for name, (shape, kind) in wanted.items()
        }
        expect(
            self.offset + sum(bytes_of.values()) <= self.front.size, "the file is too short for the sizes in its header"
        )
        estimator = make_estimator(self.front.header)
        common = {name: self._read_common(k, *wanted[name]) for k, name in enumerate(COMMON)}
        forest = estimator._forest
        self._set_table(forest, common["ids"], common["free"], n_slots)
        self._set_scaling(forest, common["range"])
        self._check_rows(common["rows"], common["labels"], forest.arrays.n_classes)
        forest.arrays = self._allocate(forest, common, n_slots)
        self._read_trees(forest, n_slots)
        return estimator

    def _read_common(self, k: int, shape: tuple[int, ...], kind: Any) -> np.ndarray:
        array = np.empty(shape, dtype=kind)
        self.offset = read_all(self.fd, array.reshape(-1).view(np.uint8), self.offset)
        expect(checksum(array) == self.checksums[k], f"block {COMMON[k]!r} is damaged: its checksum is wrong")
        return array

    def _set_table(self, forest: OnlineForest, ids: np.ndarray, free: np.ndarray, n_slots: int) -> None:
        """Which rows are held, and where."""
        held = ids[ids >= 0]
        slots = np.concatenate([held, free])
        expect(len(slots) == n_slots, f"{len(held)} rows are held and {len(free)} places free, but there are {n_slots}")
        inside = ids.min(initial=0) >= -1 and slots.min(initial=0) >= 0 and slots.max(initial=-1) < n_slots
        expect(inside, "a row is held in a place that does not exist")
        expect((np.bincount(slots, minlength=n_slots) == 1).all(), "two rows are held in one place")
        expect(len(ids) == 0 or ids[0] >= 0, "the oldest row is not held")
        expect(self.count("n_held") == len(held), f"{len(held)} rows are held, not {self.shape['n_held']}")
        expect(forest.window is None or len(held) <= forest.window, f"{len(held)} rows are more than the window")
        table = forest.table
        table.n_seen = whole(self.shape.get("n_seen"), "n_seen", max(len(ids), 1))
        table.n_held = len(held)
        table._first = table.n_seen - len(ids)
        table._slots = layout.resize_rows(ids, max(16, len(ids)))
        table._free = free.tolist()
        table.n_slots = n_slots

    def _set_scaling(self, forest: OnlineForest, low_high: np.ndarray) -> None:
        low, high = low_high
        with np.errstate(over="ignore", invalid="ignore"):
            expect(
                np.isfinite(low_high).all() and np.isfinite(high - low).all(), "the range of a feature is not finite"
            )
        expect((low <= high).all(), "the range of a feature is upside down")
        if self.shape["scaling"] == "range":
            expect((low < high).all(), "the range of a feature is empty")
            forest.scaling = (low, high)
        else:
            forest._range = (low, high)
        if self.shape["scaling"] is not None:
            forest.arrays.scaling[:] = spread(low, high)

    def _check_rows(self, rows: np.ndarray, labels: np.ndarray, n_classes: int) -> None:
        expect(np.isfinite(rows).all(), "a row has a number that is not finite")
        expect(
            np.isfinite(labels).all() and (labels[:, 1] >= 0).all(),
            "a label or weight is not finite, or a weight negative",
        )
        if n_classes:
            y = labels[:, 0]
            expect(
                (y >= 0).all() and (y < n_classes).all() and (y == np.floor(y)).all(), "a label is none of the classes"
            )

    def _allocate(self, forest: OnlineForest, common: dict[str, np.ndarray], n_slots: int) -> layout.Forest:
        """Arrays with room for what the trees use, to be filled."""
        state, old = common["state"], forest.arrays
        expect(min(state[key].min() for key in ("n_cuts", "n_leaves", "n_due")) >= 0, "a tree has a negative size")
        n_trees = len(state)
        room = max(n_slots, 1)
        least = {"cuts": 1, "boxes": 1, "leaves": 1, "values": 1, "queue": room // old.min_split + 1, "links": room}
        shapes = {}
        total = 0
        for name, key in PER_TREE.items():
            array = getattr(old, name)
            used = n_slots if key is None else int(state[key].max())
            shapes[name] = (n_trees, max(least[name], used), *array.shape[2:])
            total += int(np.prod(shapes[name], dtype=object)) * array.itemsize
        expect(
            total <= MOST_SPREAD * self.front.size + ALWAYS_FINE,
            f"the trees would take {total:,} bytes of memory, far more than the {self.front.size:,} of the file",
        )
        arrays: dict[str, Any] = {
            name: np.empty(shape, dtype=getattr(old, name).dtype) for name, shape in shapes.items()
        }
        held: dict[str, Any] = {name: common[name] if n_slots else getattr(old, name) for name in ("rows", "labels")}
        return old._replace(state=state, **arrays, **held)

    def _read_trees(self, forest: OnlineForest, n_slots: int) -> None:
        """Read all trees, in threads, and check them."""
        arrays = forest.arrays
        sizes = np.zeros(forest.n_trees, dtype=object)  # whole numbers of any size
        for name, key in PER_TREE.items():
            one = getattr(arrays, name)[0, :1].nbytes
            sizes += one * (n_slots if key is None else arrays.state[key].astype(object))
        starts = self.offset + np.concatenate([[0], np.cumsum(sizes)])
        expect(starts[-1] == self.front.size, "the sizes of the trees do not add up to that of the file")

        held = np.zeros(n_slots, dtype=np.uint8)
        held[forest.table.held_slots()] = 1
        tame = bool(np.abs(arrays.labels[:n_slots]).max(initial=0.0) < 1e100)

        def read(first: int, last: int) -> None:
            checks = make_checks(
                n_slots, arrays.cuts.shape[1], arrays.leaves.shape[1], forest.n_features, arrays.values.shape[2]
            )
            for m in range(first, last):
                parts = []
                offset = int(starts[m])
                for name, key in PER_TREE.items():
                    part = getattr(arrays, name)[m, : n_slots if key is None else arrays.state[m][key]]
                    offset = read_all(self.fd, part.reshape(-1).view(np.uint8), offset)
                    parts.append(part)
                expect(
                    checksum(*parts) == self.checksums[len(COMMON) + m], f"tree {m} is damaged: its checksum is wrong"
                )
                wrong = check_tree(arrays, m, held, forest.n_held, forest.budget, tame, checks)
                expect(wrong == 0, f"tree {m} is not consistent: {WRONG[wrong]}")

        run_parts(read, forest.n_trees, joblib.cpu_count() if READS_IN_THREADS else 1, self.front.size)
