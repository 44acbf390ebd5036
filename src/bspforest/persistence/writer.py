"""Writing model files: what they consist of (see `bspforest.persistence`) and how it is taken from a forest."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..engine.forest import OnlineForest
from ..engine.kernels.checksum import checksum
from ..engine.kernels.wipe import scrub_trees
from ..estimators.base import BSPForest
from .atomic_file import replacing, write_all
from .header import describe, dump

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


class Image(NamedTuple):
    """All that goes into a file: the header, and the arrays of each block."""

    header: bytes
    blocks: list[list[np.ndarray]]


def _wipe(forest: OnlineForest) -> np.ndarray:
    """Zero whatever is not in use, and return the free slots in the order in which they will be taken, from the end."""
    arrays, table = forest.trees.arrays, forest.rows
    n_slots = min(table.n_slots, len(arrays.rows))
    free = np.array(table._free, dtype=np.int32)
    if len(free) + table.n_held != n_slots:  # slots that were lost when memory ran out
        lost = np.ones(n_slots, dtype=bool)
        lost[free] = lost[table.held_slots()] = False
        free = np.concatenate([np.flatnonzero(lost).astype(np.int32), free])
    arrays.rows[free] = 0.0
    arrays.labels[free] = 0.0
    scrub_trees(arrays, 0, forest.trees.n_trees, free)
    return free


def make_image(estimator: BSPForest, extra: dict[str, Any] | None) -> Image:
    """What is to be written, as views of the forest's arrays: valid until it learns or forgets."""
    check_is_fitted(estimator)
    header = describe(estimator, extra)
    forest = estimator._forest
    header["forest"] |= {"n_slots": 2**31, "n_ids": 2**31, "n_free": 2**31}
    dump({"format": FORMAT, **header})  # if it cannot be, nothing is touched
    free = _wipe(forest)
    arrays, table = forest.trees.arrays, forest.rows
    n_slots = len(free) + table.n_held
    ids = table._slots[: len(table)]
    low_high = np.stack(forest.config.scaling if isinstance(forest.config.scaling, tuple) else forest.range)
    common = [arrays.state, ids, free, arrays.rows[:n_slots], arrays.labels[:n_slots], low_high]
    header["forest"] |= {"n_slots": n_slots, "n_ids": len(ids), "n_free": len(free)}
    blocks = [[array] for array in common]
    for m in range(forest.trees.n_trees):
        counts = {name: n_slots if key is None else int(arrays.state[m][key]) for name, key in PER_TREE.items()}
        blocks.append([getattr(arrays, name)[m, : counts[name]] for name in PER_TREE])
    return Image(dump({"format": FORMAT, **header}), blocks)


def write_image(image: Image, path: Path, *, overwrite: bool) -> None:
    """Write a file, and put it in its place when it is whole and on disk."""
    only_little_endian()
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


def only_little_endian() -> None:
    if sys.byteorder != "little":
        raise NotImplementedError("model files can be written and read on little-endian machines only")
