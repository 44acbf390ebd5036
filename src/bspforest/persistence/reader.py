"""Reading model files: nothing in them is believed before it is checked."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from typing import Any, NamedTuple

import joblib
import numpy as np

from ..engine import arrays as layout
from ..engine.forest import OnlineForest
from ..engine.kernels.checksum import checksum
from ..engine.parallel import run_parts
from ..engine.scaling import spread
from ..estimators.base import BSPForest
from .atomic_file import READS_IN_THREADS, read_ahead, read_all
from .header import LARGEST_HEADER, entry, expect, make_estimator, parse, whole
from .validation import TreeCheck
from .writer import COMMON, FORMAT, MAGIC, PER_TREE, PREAMBLE, only_little_endian

# Trees of one forest are alike. A file that asks for many times its own size in memory is not one of ours.
MOST_SPREAD, ALWAYS_FINE = 64, 2**28


class Front(NamedTuple):
    """What stands before the blocks."""

    header: dict[str, Any]
    n_blocks: int
    table_at: int
    table_sum: int
    size: int


def read_front(fd: int) -> Front:
    """Read the preamble and the header."""
    only_little_endian()
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
    return Front(header, n_blocks, table_at, table_sum, size)


class Reader:
    """Reads the blocks of one file, and checks what is in them; ``check``: also that the trees are trees.

    ``fully``: also what only learning and forgetting rely on.
    """

    def __init__(self, fd: int, front: Front, *, check: bool, fully: bool) -> None:
        self.fd, self.front, self.check, self.fully = fd, front, check, fully
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
        self._check_rows(common["rows"], common["labels"], forest.trees.arrays.n_classes)
        forest.trees.arrays = self._allocate(forest, common, n_slots)
        self._read_trees(forest, n_slots)
        return estimator

    def _read_common(self, k: int, shape: tuple[int, ...], kind: Any) -> np.ndarray:
        array = layout.empty(shape, kind)
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
        expect(
            forest.config.window is None or len(held) <= forest.config.window,
            f"{len(held)} rows are more than the window",
        )
        table = forest.rows
        table.n_seen = whole(self.shape.get("n_seen"), "n_seen", len(ids))
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
            forest.config = replace(forest.config, scaling=(low, high))
        else:
            forest.range = (low, high)
        if self.shape["scaling"] is not None:
            forest.trees.arrays.scaling[:] = spread(low, high)

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

    def _allocate(self, forest: OnlineForest, common: dict[str, np.ndarray], n_slots: int) -> layout.ForestArrays:
        """Arrays with room for what the trees use, to be filled."""
        state, old = common["state"], forest.trees.arrays
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
        arrays: dict[str, Any] = {name: layout.empty(shape, getattr(old, name).dtype) for name, shape in shapes.items()}
        held: dict[str, Any] = {name: common[name] if n_slots else getattr(old, name) for name in ("rows", "labels")}
        return old._replace(state=state, **arrays, **held)

    def _read_trees(self, forest: OnlineForest, n_slots: int) -> None:
        """Read all trees, in threads, and check them."""
        arrays = forest.trees.arrays
        sizes = np.zeros(forest.trees.n_trees, dtype=object)  # whole numbers of any size
        for name, key in PER_TREE.items():
            one = getattr(arrays, name)[0, :1].nbytes
            sizes += one * (n_slots if key is None else arrays.state[key].astype(object))
        starts = self.offset + np.concatenate([[0], np.cumsum(sizes)])
        expect(starts[-1] == self.front.size, "the sizes of the trees do not add up to that of the file")

        def read(first: int, last: int) -> None:
            check = TreeCheck(forest) if self.check else None
            for m in range(first, last):
                parts = []
                offset = int(starts[m])
                for name, key in PER_TREE.items():
                    part = getattr(arrays, name)[m, : n_slots if key is None else arrays.state[m][key]]
                    offset = read_all(self.fd, part.reshape(-1).view(np.uint8), offset)
                    parts.append(part)
                if m + 1 < last:  # while this tree is checked
                    read_ahead(self.fd, offset, int(starts[m + 2] - starts[m + 1]))
                expect(
                    checksum(*parts) == self.checksums[len(COMMON) + m], f"tree {m} is damaged: its checksum is wrong"
                )
                if check is not None:
                    check.check(m, fully=self.fully)

        run_parts(read, forest.trees.n_trees, joblib.cpu_count() if READS_IN_THREADS else 1, self.front.size)
