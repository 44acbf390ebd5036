"""Write model files: the file format, and what of a forest goes into it."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..engine.forest import OnlineForest
from ..engine.kernels.checksum import checksum
from ..engine.kernels.wipe import wipe_trees
from ..estimators.base import BSPForest
from .atomic_file import replacing, write_all
from .header import describe, dump

FORMAT = 1

# Like PNG's signature: text-mode transfers, which change line ends or drop the eighth bit, damage it.
MAGIC = b"\x89bspf\r\n\x1a"

# Magic, format, bytes of the header, blocks, bytes of the file; checksums of the header, of the table, of the preamble.
PREAMBLE = struct.Struct("<8s7Q")

# Blocks that all trees share, one array each.
COMMON = ("state", "ids", "free", "rows", "labels", "range")

# The arrays in the block of a tree, each with the count in its state that says how much of it is used; links have n_slots.
PER_TREE = {
    "cuts": "n_cuts",
    "boxes": "n_cuts",
    "leaves": "n_leaves",
    "values": "n_leaves",
    "queue": "n_due",
    "links": None,
}


class Content(NamedTuple):
    """The content of a file: the header, and the arrays of each block."""

    header: bytes
    blocks: list[list[np.ndarray]]


def save(
    forest: BSPForest, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None, overwrite: bool = True
) -> None:
    """Save a fitted forest to a file, from which `load` restores it bit for bit.

    The file is complete and on disk when this returns; if it fails before, the old file is unchanged. Rows that were
    forgotten with `forget` leave no trace in it. Rows that a window dropped may still show in the range of
    ``scaling="minmax"``.

    Parameters
    ----------
    forest : BSPForestClassifier or BSPForestRegressor
    path : path-like
    extra : dict or None
        Anything JSON can hold, kept in the header of the file.
    overwrite : bool, default=True
        If False and the file exists, raise FileExistsError.

    Examples
    --------
    >>> import bspforest, os, tempfile
    >>> forest = bspforest.BSPForestRegressor(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bsp")
    >>> forest.save(path)
    >>> bspforest.load(path).partial_fit([[4.0]], [4]).n_samples_
    5
    """
    write_content(make_content(forest, extra), Path(path), overwrite=overwrite)


def make_content(estimator: BSPForest, extra: dict[str, Any] | None) -> Content:
    """Return what to write, as views of the forest's arrays. They are valid until it learns or forgets."""
    check_is_fitted(estimator)
    header = describe(estimator, extra)
    header["forest"] |= {"n_slots": 2**31, "n_ids": 2**31, "n_free": 2**31}
    dump({"format": FORMAT, **header})  # raises before anything is changed
    forest = estimator._forest
    arrays = forest.trees.arrays
    n_slots = min(forest.rows.n_slots, len(arrays.rows))
    ids, free = forest.rows.export_slots(n_slots)
    _wipe_unused(forest, free)
    low_high = np.stack(forest.scaling if isinstance(forest.scaling, tuple) else forest._range)
    common = [arrays.state, ids, free, arrays.rows[:n_slots], arrays.labels[:n_slots], low_high]
    header["forest"] |= {"n_slots": n_slots, "n_ids": len(ids), "n_free": len(free)}
    blocks = [[array] for array in common]
    for m in range(forest.trees.n_trees):
        counts = {name: n_slots if key is None else int(arrays.state[m][key]) for name, key in PER_TREE.items()}
        blocks.append([getattr(arrays, name)[m, : counts[name]] for name in PER_TREE])
    return Content(dump({"format": FORMAT, **header}), blocks)


def _wipe_unused(forest: OnlineForest, free: np.ndarray) -> None:
    """Zero the rows in free slots, and the free records of all trees."""
    arrays = forest.trees.arrays
    arrays.rows[free] = 0.0
    arrays.labels[free] = 0.0
    wipe_trees(arrays, 0, forest.trees.n_trees, free)


def write_content(content: Content, path: Path, *, overwrite: bool) -> None:
    """Write a file, and move it to its path when it is complete and on disk."""
    check_byte_order()
    header, blocks = content
    table = np.zeros(len(blocks), dtype=np.uint64)
    with replacing(path, overwrite=overwrite) as fd:
        start = offset = PREAMBLE.size + len(header) + table.nbytes
        for k, arrays in enumerate(blocks):
            table[k] = checksum(*arrays)
            for array in arrays:
                offset = write_all(fd, array.reshape(-1).view(np.uint8), offset)
        front = _make_preamble(header, table, offset) + header + table.tobytes()
        assert len(front) == start
        write_all(fd, front, 0)


def _make_preamble(header: bytes, table: np.ndarray, size: int) -> bytes:
    fields = (FORMAT, len(header), len(table), size, checksum(np.frombuffer(header, np.uint32)), checksum(table))
    words = np.frombuffer(PREAMBLE.pack(MAGIC, *fields, 0), np.uint32)
    return PREAMBLE.pack(MAGIC, *fields, checksum(words))


def check_byte_order() -> None:
    """Raise an error on big-endian machines."""
    if sys.byteorder != "little":
        raise NotImplementedError("model files can be written and read on little-endian machines only")


make_image = make_content  # the name under which tests of the command line import it
