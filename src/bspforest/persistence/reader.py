"""Read model files. Everything in them is checked before it is used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import joblib
import numpy as np

from ..engine import arrays as layout
from ..engine.arrays import BY_SLOT
from ..engine.coordinates import MOST_KNOTS, Coordinates
from ..engine.forest import OnlineForest
from ..engine.kernels.checksum import checksum
from ..engine.keys import LONGEST, KeyTable
from ..engine.parallel import run_parts
from ..engine.rows import RowTable
from .atomic_file import (
    READS_IN_THREADS,
    NotARegularFileError,
    count_data_bytes,
    open_regular,
    read_ahead,
    read_all,
)
from .compression import CODEC, check_ratio, count_threads, read_compressed
from .format1 import STATE_1, convert_state, convert_tree, upgrade_layout
from .header import LARGEST_HEADER, ModelFileError, check_int, expect, get_entry, make_estimator, parse, upgrade
from .validation import FullCheck, TreeChecker, check_finite
from .writer import COMMON, COMPRESSED, FORMAT, MAGIC, PER_TREE, PREAMBLE, check_byte_order

if TYPE_CHECKING:
    from .header import AnyForest

# The arrays of all trees are as large as those of the largest tree. Trees of one forest are alike, so a file that needs
# many times its own size in memory was not written by `save`.
MOST_SPREAD, ALWAYS_FINE = 16, 2**25

# Arrays that format 1 did not have. It held mean values, for which they are empty.
SINCE_FORMAT_2 = ("duals", "residuals", "sums", "given", "stds", "weights", "knots", "keys")

# Bytes that may be missing on disk: holes of a sparse file, which take memory when they are read.
MOST_HOLES = 2**24


def load(path: str | os.PathLike[str], *, check: bool | Literal["fully"] = True) -> AnyForest:
    """Load a forest from a file, bit for bit as it was saved. It learns on as the saved one would have.

    Files from untrusted sources are safe to load, and the loaded forest is safe to use. The check has two steps: what
    prediction relies on (sizes, nodes, rows, label statistics) is checked when the file is loaded; what only learning and
    forgetting rely on (every point on its side of the cuts) takes longer and is checked before the first of them. Errors
    are raised before anything is changed.

    Parameters
    ----------
    path : path-like
    check : bool or "fully", default=True
        "fully" does both steps at once. False checks sizes and checksums but not that the trees are valid. That detects
        damage, so it is enough for files that you have written yourself; a forged file could crash the process.

    Returns
    -------
    BSPForestClassifier or BSPForestRegressor

    Raises
    ------
    ModelFileError
        A ValueError: the file is not a model file, is damaged, or is not consistent. The first `partial_fit` or `forget`
        may raise it too.
    """
    return load_with_extra(path, check=check)[0]


def load_with_extra(
    path: str | os.PathLike[str], *, check: bool | Literal["fully"] = True
) -> tuple[AnyForest, dict[str, Any] | None]:
    """Load a forest as `load` does, together with the ``extra`` that was saved with it.

    Parameters
    ----------
    path : path-like
    check : bool or "fully", default=True
        What to check: see `load`.

    Returns
    -------
    forest : BSPForestClassifier or BSPForestRegressor
    extra : dict or None
    """
    if not isinstance(check, bool) and check != "fully":
        raise ValueError(f"check must be True, False or 'fully', got {check!r}")
    with _open_model(path) as fd:
        front = read_front(fd)
        estimator = Reader(fd, front, check=check).read()
        if check is True:
            estimator._forest.verify = FullCheck(os.fspath(path))
        return estimator, front.header["extra"]


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a model file: parameters, versions, row counts and ``extra``. Do not read the forest.

    The header's checksum and the size of the file are checked, and nothing else.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict
    """
    with _open_model(path) as fd:
        return read_front(fd).header


@contextmanager
def _open_model(path: str | os.PathLike[str]) -> Iterator[int]:
    """Open a file for reading; name it in all errors of the block."""
    name = os.fspath(path)
    try:
        fd = open_regular(name)
    except NotARegularFileError as error:
        raise ModelFileError(f"{name}: {error.strerror}") from None
    try:
        yield fd
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None
    except EOFError:
        raise ModelFileError(f"{name}: the file became shorter while it was read") from None
    except MemoryError as error:
        raise ModelFileError(f"{name}: there is not enough memory to load it") from error
    finally:
        os.close(fd)


class Front(NamedTuple):
    """What precedes the blocks of a file."""

    format: int
    compressed: bool
    header: dict[str, Any]
    n_blocks: int
    table_at: int
    table_sum: int
    size: int


def read_front(fd: int) -> Front:
    """Read the preamble and the header."""
    check_byte_order()
    status = os.fstat(fd)
    data = bytearray(PREAMBLE.size)
    expect(status.st_size >= len(data), f"too short to be a bspforest model file: {status.st_size} bytes")
    read_all(fd, data, 0)
    magic, number, header_size, n_blocks, size, header_sum, table_sum, own_sum = PREAMBLE.unpack(data)
    expect(magic == MAGIC, "not a bspforest model file")
    compressed, version = number >= COMPRESSED, number % COMPRESSED
    expect(
        number < 2 * COMPRESSED and 1 + compressed <= version <= FORMAT,
        f"the file has format {number}; this version of bspforest reads formats up to {FORMAT}",
    )
    data[-8:] = bytes(8)
    expect(checksum(np.frombuffer(data, np.uint32)) == own_sum, "the preamble is damaged: its checksum is wrong")
    expect(size == status.st_size, f"the file has {status.st_size:,} bytes instead of {size:,}; was it truncated?")
    holes = size - count_data_bytes(fd, size - MOST_HOLES)
    expect(
        holes <= MOST_HOLES, f"{holes:,} of its {size:,} bytes are holes; copy it with `cp --sparse=never` to load it"
    )
    expect(header_size <= LARGEST_HEADER and header_size % 8 == 0, f"the header would have {header_size:,} bytes")
    table_at = PREAMBLE.size + header_size
    expect(table_at + 8 * n_blocks * (1 + compressed) <= size, f"{n_blocks:,} blocks do not fit the file")
    text = bytearray(header_size)
    read_all(fd, text, PREAMBLE.size)
    expect(checksum(np.frombuffer(text, np.uint32)) == header_sum, "the header is damaged: its checksum is wrong")
    header = parse(text)
    get_entry(header, "extra", (dict, type(None)))
    expect(("compression" in header) == compressed, "the header says otherwise whether the file is compressed")
    if compressed:
        _check_compression(get_entry(header, "compression", dict), size)
    if version == 1:
        upgrade(header)
        upgrade_layout(header)
    return Front(version, compressed, header, n_blocks, table_at, table_sum, size)


def _check_compression(entry: dict[str, Any], size: int) -> None:
    """Check what the header says of compression; in particular, that a small file does not ask for much memory."""
    codec, n_bytes = get_entry(entry, "codec", str), check_int(entry.get("bytes"), "the size of all blocks")
    expect(codec == CODEC, f"the file is compressed by {codec[:50]!r}; this version of bspforest reads {CODEC!r}")
    check_ratio(n_bytes, size)


class Reader:
    """Reads the blocks of one file and checks them as `load` promises."""

    def __init__(self, fd: int, front: Front, *, check: bool | Literal["fully"]) -> None:
        self.fd, self.front, self.check = fd, front, check
        missing = SINCE_FORMAT_2 if front.format == 1 else ()
        self.common = [name for name in COMMON if name not in missing]
        self.per_tree = {name: count for name, count in PER_TREE.items() if name not in missing}
        self.shape = get_entry(front.header, "forest", dict)
        table = np.empty((1 + front.compressed, front.n_blocks), np.uint64)
        self.offset = read_all(fd, table, front.table_at)
        expect(checksum(table) == front.table_sum, "the table of checksums is damaged")
        self.checksums = table[0]
        self.size = front.size  # without compression
        self.starts: list[int] = []  # of compressed blocks, and where the last one ends
        if front.compressed:
            self.size = self.offset + front.header["compression"]["bytes"]
            self.starts = [self.offset, *(self.offset + np.cumsum(table[1].astype(object))).tolist()]
            expect(self.starts[-1] == front.size, "the sizes of the blocks do not add up to the size of the file")

    def read(self) -> AnyForest:
        """Return the estimator, checked."""
        n_trees, d = self._get_count("n_trees", 1), self._get_count("n_features", 1)
        n_slots, n_ids, n_free = self._get_count("n_slots"), self._get_count("n_ids"), self._get_count("n_free")
        n_outputs, n_columns = self._get_count("n_outputs", 1), self._get_count("n_columns")
        n_knots, n_stds = self._get_count("n_knots"), 0 if self._get_count("n_classes") else n_columns
        n_key_bytes = self._get_count("key_bytes")
        fits = n_key_bytes <= LONGEST and n_key_bytes % 8 == 0
        expect(fits, f"keys have {n_key_bytes} bytes; expected a multiple of 8, at most {LONGEST}")
        expect(n_knots <= MOST_KNOTS, f"there are {n_knots} knots; expected at most {MOST_KNOTS}")
        n_blocks = self.front.n_blocks
        expect(n_blocks == len(self.common) + n_trees, f"there are {n_blocks} blocks for {n_trees} trees")
        wanted: dict[str, tuple[tuple[int, ...], Any]] = {
            "state": ((n_trees,), STATE_1 if self.front.format == 1 else layout.STATE),
            "ids": ((n_ids,), np.int32),
            "free": ((n_free,), np.int32),
            "rows": ((n_slots, d), np.float64),
            "labels": ((n_slots, 1 + n_outputs), np.float64),
            "range": ((2, d), np.float64),
            "duals": ((n_slots, n_columns), np.float64),
            "residuals": ((n_slots, n_columns), np.float64),
            "given": ((n_slots, d if n_knots else 0), np.float64),
            "stds": ((n_slots, n_stds), np.float64),
            "weights": ((d,), np.float64),
            "knots": ((2, d, n_knots), np.float64),
            "keys": ((n_ids, n_key_bytes), np.uint8),
        }
        needed = sum(count_bytes(shape, np.dtype(kind)) for shape, kind in wanted.values())
        expect(self.offset + needed <= self.size, "the file is too short for the sizes in its header")
        columns = 8 * (n_outputs + 3 * n_columns)  # of the empty forest, which is made first
        expect(columns <= MOST_SPREAD * self.size + ALWAYS_FINE, f"there are {n_outputs:,} outputs")
        estimator = make_estimator(self.front.header)
        common = {name: layout.empty(*wanted[name]) for name in COMMON}
        for k, name in enumerate(self.common):
            self._read_common(k, common[name])
            self.offset += common[name].nbytes
        if self.front.format == 1:
            common["state"] = convert_state(common["state"])
            common["weights"][:] = 1.0
        forest = estimator._forest
        self._set_table(forest, common["ids"], common["free"], n_slots)
        self._set_keys(forest, common["keys"], common["ids"])
        self._set_coordinates(forest, common["range"], common["weights"], common["knots"])
        check_rows(common["rows"], common["given"], common["labels"], forest.trees.arrays.n_classes)
        check_finite(forest.values, *(common[name] for name in ("labels", "duals", "residuals", "stds")))
        forest.trees.arrays = self._allocate(forest, common, n_slots)
        self._read_trees(forest, n_slots)
        return estimator

    def _get_count(self, name: str, least: int = 0) -> int:
        return check_int(self.shape.get(name), name, least, 2**31 - 1)

    def _read_common(self, k: int, array: np.ndarray) -> None:
        if self.front.compressed:
            self._read_compressed(k, [array], count_threads())
        else:
            read_all(self.fd, array.reshape(-1).view(np.uint8), self.offset)
        expect(checksum(array) == self.checksums[k], f"block {self.common[k]!r} is damaged: its checksum is wrong")

    def _read_compressed(self, k: int, arrays: list[np.ndarray], n_threads: int) -> None:
        """Fill the arrays of a compressed block."""
        offset, end = self.starts[k : k + 2]
        for array in arrays:
            offset = read_compressed(self.fd, array, offset, end, n_threads)
        expect(offset == end, "a compressed block is too long")

    def _set_table(self, forest: OnlineForest, ids: np.ndarray, free: np.ndarray, n_slots: int) -> None:
        """Set which rows are held, and in which slots."""
        held = ids[ids >= 0]
        slots = np.concatenate([held, free])
        expect(len(slots) == n_slots, f"{len(held)} rows are held and {len(free)} slots free, but there are {n_slots}")
        inside = ids.min(initial=0) >= -1 and slots.min(initial=0) >= 0 and slots.max(initial=-1) < n_slots
        expect(inside, "a row is held in a slot that does not exist")
        expect((np.bincount(slots, minlength=n_slots) == 1).all(), "two rows are held in the same slot")
        expect(len(ids) == 0 or ids[0] >= 0, "the oldest row is not held")
        expect(self._get_count("n_held") == len(held), f"{len(held)} rows are held, not {self.shape['n_held']}")
        expect(
            forest.config.window is None or len(held) <= forest.config.window,
            f"{len(held)} held rows exceed the window",
        )
        forest.rows = RowTable.restore(check_int(self.shape.get("n_seen"), "n_seen", len(ids)), ids, free)

    def _set_keys(self, forest: OnlineForest, keys: np.ndarray, ids: np.ndarray) -> None:
        """Set the keys of rows."""
        expect(not keys[ids < 0].any(), "a row that is not held has a key")
        try:
            bytes(keys).decode()
        except UnicodeDecodeError:
            raise ModelFileError("a key is not valid text") from None
        forest.keys = KeyTable.restore(forest.keys.salt, forest.n_seen - len(ids), keys)

    def _set_coordinates(
        self, forest: OnlineForest, low_high: np.ndarray, weights: np.ndarray, knots_ranks: np.ndarray
    ) -> None:
        low, high = low_high
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(low_high).all() and np.isfinite(high - low).all()
        expect(finite, "the range of a feature is not finite")
        expect((low <= high).all(), "the range of a feature is upside down")
        expect(((weights >= 0) & (weights <= 1)).all(), "the weight of a feature is not between 0 and 1")
        knots, ranks = (np.ascontiguousarray(part) for part in knots_ranks)
        increasing = np.isfinite(knots).all() and (np.diff(knots, axis=1) >= 0).all()
        expect(increasing, "the knots of a feature are not finite, or not in order")
        expect(((ranks >= 0) & (ranks <= 1)).all(), "a rank is not between 0 and 1")
        scaling = self.shape["scaling"]
        expect(knots.shape[1] == 0 or scaling in ("auto", "quantile"), f"there are ranks, but scaling is {scaling!r}")
        if scaling == "range":
            expect((low < high).all(), "the range of a feature is empty")
            forest.config = replace(forest.config, scaling=(low, high))
        coordinates = Coordinates(low, high, np.array(weights), knots, ranks)
        forest.trees.coordinates = coordinates
        forest.trees.arrays.scaling[:] = coordinates.to_scaling()

    def _allocate(self, forest: OnlineForest, common: dict[str, np.ndarray], n_slots: int) -> layout.ForestArrays:
        """Allocate arrays for the trees, to be filled."""
        state, old = common["state"], forest.trees.arrays
        expect(
            min(state[key].min() for key in ("n_cuts", "n_boxes", "n_leaves", "n_due")) >= 0,
            "a tree has a negative size",
        )
        n_trees = len(state)
        room = max(n_slots, 1)
        least = {"queue": room // old.min_split + 1, "links": room}
        shapes = {}
        total = 0
        for name, key in PER_TREE.items():
            array = getattr(old, name)
            used = n_slots if key is None else int(state[key].max())
            shapes[name] = (n_trees, max(least.get(name, 1), used), *array.shape[2:])
            total += count_bytes(shapes[name], array.dtype)
        expect(
            total <= MOST_SPREAD * self.size + ALWAYS_FINE,
            f"the trees would take {total:,} bytes of memory, far more than the {self.size:,} of the file",
        )
        arrays: dict[str, Any] = {name: layout.empty(shape, getattr(old, name).dtype) for name, shape in shapes.items()}
        held: dict[str, Any] = {name: common[name] if n_slots else getattr(old, name) for name in BY_SLOT}
        return old._replace(state=state, **arrays, **held)

    def _read_trees(self, forest: OnlineForest, n_slots: int) -> None:
        """Read and check all trees, in threads."""
        arrays = forest.trees.arrays
        starts = self._find_starts(arrays, n_slots)
        checker, fully = TreeChecker(forest) if self.check else None, self.check == "fully"

        def read(first: int, last: int) -> None:
            scratch = checker.make_scratch() if checker else None
            for m in range(first, last):
                parts = self._read_tree(arrays, m, n_slots, starts[m])
                if m + 1 < last:  # fetched while this tree is checked
                    read_ahead(self.fd, starts[m + 1], starts[m + 2] - starts[m + 1])
                intact = checksum(*parts) == self.checksums[len(self.common) + m]
                expect(intact, f"tree {m} is damaged: its checksum is wrong")
                if self.front.format == 1:
                    convert_tree(arrays, m)
                if checker and scratch:
                    checker.check(m, scratch, fully=fully)

        n_threads = checker.count_threads(fully=fully) if checker else joblib.cpu_count()
        run_parts(read, forest.trees.n_trees, n_threads if READS_IN_THREADS else 1, self.front.size)

    def _read_tree(self, arrays: layout.ForestArrays, m: int, n_slots: int, offset: int) -> list[np.ndarray]:
        """Read the block of tree ``m`` into the arrays; return what was read, for its checksum."""
        parts = [
            getattr(arrays, name)[m, : n_slots if key is None else arrays.state[m][key]]
            for name, key in self.per_tree.items()
        ]
        if self.front.compressed:
            self._read_compressed(len(self.common) + m, parts, n_threads=1)
        else:
            for part in parts:
                offset = read_all(self.fd, part.reshape(-1).view(np.uint8), offset)
        return parts

    def _find_starts(self, arrays: layout.ForestArrays, n_slots: int) -> list[int]:
        """Return where the block of each tree starts in the file, and where the last one ends: at the end of the file."""
        sizes = np.zeros(len(arrays.state), dtype=object)  # integers of any size
        for name, key in self.per_tree.items():
            one = getattr(arrays, name)[0, :1].nbytes
            sizes += one * (n_slots if key is None else arrays.state[key].astype(object))
        starts = [self.offset, *(self.offset + np.cumsum(sizes)).tolist()]
        expect(starts[-1] == self.size, "the sizes of the trees do not add up to the size of the file")
        return self.starts[len(self.common) :] if self.front.compressed else starts


def count_bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Return the size of an array, as an integer that does not overflow."""
    return int(np.prod(shape, dtype=object)) * dtype.itemsize


def check_rows(rows: np.ndarray, given: np.ndarray, labels: np.ndarray, n_classes: int) -> None:
    """Check that rows are finite, weights not negative, and labels of the known classes."""
    expect(np.isfinite(rows).all() and np.isfinite(given).all(), "a row has a value that is not finite")
    finite = np.isfinite(labels).all() and (labels[:, 1] >= 0).all()
    expect(finite, "a label or weight is not finite, or a weight is negative")
    if n_classes:
        y = labels[:, 0]
        known = (y >= 0).all() and (y < n_classes).all() and (y == np.floor(y)).all()
        expect(known, "a label is none of the classes")
