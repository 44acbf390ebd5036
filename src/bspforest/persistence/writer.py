"""Write model files: the file format, and what of a forest goes into it."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..engine.arrays import BY_SLOT
from ..engine.forest import OnlineForest
from ..engine.kernels.checksum import ChunkedChecksum, checksum
from ..engine.kernels.wipe import wipe_trees
from .atomic_file import FileIdentity, replacing, write_all
from .compression import CODEC, count_threads, deflate_all
from .compression import split as split_into_chunks
from .file_lock import ModelLock, check_unchanged, hold
from .header import describe, dump

if TYPE_CHECKING:
    from ..estimators.base import BSPForest

FORMAT = 2

# Added to the format of a file whose blocks are compressed, so that readers that cannot inflate them refuse it by its format.
COMPRESSED = 256

# Like PNG's signature: text-mode transfers, which change line ends or drop the eighth bit, damage it.
MAGIC = b"\x89bspf\r\n\x1a"

# Magic, format, bytes of the header, blocks, bytes of the file; checksums of the header, of the table, of the preamble.
PREAMBLE = struct.Struct("<8s7Q")

# The map from features to coordinates.
COORDINATES = ("range", "weights", "knots")

# Blocks that all trees share, one array each. Those by slot are zero at free slots; those of joint values are empty for mean values.
COMMON = (
    "state",
    "ids",
    "free",
    "rows",
    "labels",
    "range",
    "duals",
    "residuals",
    "given",
    "stds",
    "weights",
    "knots",
    "keys",
)

# The arrays in the block of a tree, each with the count in its state that says how much of it is used; links have n_slots.
PER_TREE = {
    "cuts": "n_cuts",
    "boxes": "n_boxes",
    "leaves": "n_leaves",
    "values": "n_leaves",
    "queue": "n_due",
    "links": None,
    "sums": "n_cuts",
}

# Seconds to wait for another process that is writing the same model: a save of some GB.
WAIT = 10.0

# Largest array that is copied as a whole to be wiped; larger ones are copied and written in chunks of this many bytes.
MOST_COPIED = 2**24


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return the bytes of a contiguous array. Numpy copies them much faster than records."""
    return array.reshape(-1).view(np.uint8)


class Content(NamedTuple):
    """The content of a file: the header, and the arrays of each block."""

    header: bytes
    blocks: Sequence[list[np.ndarray]]
    compressed: bool = False


class ForestBlocks(Sequence[list[np.ndarray]]):
    """The blocks of a forest, with everything that is not in use wiped.

    The forest is only read, so other threads may predict from it or save it at the same time. A block is a list of views
    where there is nothing to wipe, else of copies, made when it is asked for. The blocks are valid until the forest learns
    or forgets.
    """

    def __init__(self, forest: OnlineForest) -> None:
        self._arrays = forest.trees.arrays
        self.n_slots = min(forest.rows.n_slots, len(self._arrays.rows))
        self.ids, self.free = forest.rows.export_slots(self.n_slots)
        used = forest.trees.coordinates
        coordinates = {
            "range": np.stack([used.low, used.high]),
            "weights": used.weights,
            "knots": np.stack([used.knots, used.ranks]),
        }
        self.keys = forest.keys.export(forest.n_seen - len(self.ids), len(self.ids))
        self._others = {
            "state": self._arrays.state,
            "ids": self.ids,
            "free": self.free,
            "keys": self.keys,
            **coordinates,
        }

    def __len__(self) -> int:
        return len(COMMON) + len(self._arrays.state)

    def __getitem__(self, k: int) -> list[np.ndarray]:  # type: ignore[override]
        views = self.view(k)
        if not self._has_unused(k):
            return views
        copies = [np.empty_like(view) for view in views]
        self.fill(k, copies)
        return copies

    def view(self, k: int) -> list[np.ndarray]:
        """Return the arrays of a block as they are, not wiped."""
        arrays, n_slots = self._arrays, self.n_slots
        if k < len(COMMON):
            name = COMMON[k]
            if name in BY_SLOT:
                return [getattr(arrays, name)[:n_slots]]
            return [self._others[name]]
        m = k - len(COMMON)
        state = arrays.state[m]
        return [
            getattr(arrays, name)[m, : n_slots if count is None else state[count]] for name, count in PER_TREE.items()
        ]

    def fill(self, k: int, copies: list[np.ndarray]) -> None:
        """Copy a block to arrays of the same shapes, and wipe them."""
        for copy, view in zip(copies, self.view(k), strict=True):
            as_bytes(copy)[:] = as_bytes(view)
        if not self._has_unused(k):
            return
        if k < len(COMMON):
            copies[0][self.free] = 0.0
            return
        m = k - len(COMMON)
        tree: dict[str, Any] = {name: copy[np.newaxis] for name, copy in zip(PER_TREE, copies, strict=True)}
        wipe_trees(self._arrays._replace(state=self._arrays.state[m : m + 1], **tree), 0, 1, self.free)

    def split(self, k: int) -> Iterator[np.ndarray] | None:
        """Return an iterator over wiped copies of parts of a block, if it is one array too large to be copied whole."""
        views = self.view(k)
        if k < len(COMMON) and self._has_unused(k) and views[0].nbytes > MOST_COPIED:
            return self._split(views[0])
        return None

    def _split(self, array: np.ndarray) -> Iterator[np.ndarray]:
        step = max(8, MOST_COPIED // array[:1].nbytes // 8 * 8)  # 8 rows are a multiple of 64 bytes, as checksums need
        free = np.sort(self.free)
        for start in range(0, len(array), step):
            chunk = array[start : start + step].copy()
            first, last = np.searchsorted(free, [start, start + len(chunk)])
            chunk[free[first:last] - start] = 0.0
            yield chunk

    def _has_unused(self, k: int) -> bool:
        """Return whether a block has something to wipe."""
        if k < len(COMMON):
            return COMMON[k] in BY_SLOT and len(self.free) > 0
        state = self._arrays.state[k - len(COMMON)]
        return len(self.free) > 0 or any(state[name] >= 0 for name in ("free_cut", "free_box", "free_leaf"))


def save(
    forest: BSPForest,
    path: str | os.PathLike[str],
    *,
    extra: dict[str, Any] | None = None,
    overwrite: bool = True,
    compress: bool = False,
    lock: ModelLock | None = None,
    wait: float = WAIT,
    expected: FileIdentity | Literal["any"] | None = "any",
) -> None:
    """Save a fitted forest to a file, from which `load` restores it bit for bit.

    The file is complete and on disk when this returns; if it fails before, the old file is unchanged. The forest is only
    read: other threads may predict from it or save it meanwhile; those that learn or forget wait. (Joint values are first
    solved afresh if rows were forgotten.) Rows that were forgotten with `forget` leave no trace in it. Rows that a window dropped may still show in the range of
    features.

    Parameters
    ----------
    forest : BSPForestClassifier or BSPForestRegressor
    path : path-like
    extra : dict or None
        Anything JSON can hold, kept in the header of the file.
    overwrite : bool, default=True
        If False and the file exists, raise FileExistsError.
    compress : bool, default=False
        Write a smaller file, in more time: 1.4 to 5 times smaller, at about 100 MB/s per core. Versions of bspforest that
        cannot read compressed files say so.
    lock : ModelLock or None
        The lock on this model from `lock_model`, if the caller holds it. Else it is taken while the file is written.
    wait : float, default=10.0
        Seconds to wait for the lock, if it is to be taken and somebody else has it.
    expected : FileIdentity, None or "any", default="any"
        What `identify` returned for ``path`` before the model was read; None if there was no file.

    Raises
    ------
    ModelLockedError
        Somebody else is writing the model.
    ModelChangedError
        The file at ``path`` is not the expected one. It stays as it is.

    Examples
    --------
    >>> import bspforest, os, tempfile
    >>> forest = bspforest.BSPForestRegressor(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bsp")
    >>> forest.save(path)
    >>> bspforest.load(path).partial_fit([[4.0]], [4]).n_samples_
    5
    """
    check_is_fitted(forest)
    with hold(Path(path), lock, wait) as held:
        forest._read_refreshed(
            lambda: write_content(
                make_content(forest, extra, compress=compress), held.path, overwrite=overwrite, expected=expected
            ),
            finished=True,
        )


def make_content(estimator: BSPForest, extra: dict[str, Any] | None, *, compress: bool = False) -> Content:
    """Return what to write. The blocks are valid until the forest learns or forgets.

    The caller reads the forest with `_read_refreshed`, so that nothing of forgotten labels is left in it.
    """
    header = describe(estimator, extra)
    blocks = ForestBlocks(estimator._forest)
    header["forest"] |= {"n_slots": blocks.n_slots, "n_ids": len(blocks.ids), "n_free": len(blocks.free)}
    header["forest"]["key_bytes"] = blocks.keys.shape[1]
    if compress:
        n_bytes = sum(view.nbytes for k in range(len(blocks)) for view in blocks.view(k))
        header["compression"] = {"codec": CODEC, "bytes": n_bytes}
    return Content(dump({"format": FORMAT, **header}), blocks, compress)


def write_content(
    content: Content,
    path: Path,
    *,
    overwrite: bool,
    expected: FileIdentity | Literal["any"] | None = "any",
    n_threads: int | None = None,
) -> None:
    """Write a file, and move it to its path when it is complete and on disk. The caller holds the lock on it.

    Compression uses ``n_threads`` threads.
    """
    check_byte_order()
    header, blocks, compressed = content
    # One row of checksums and, in compressed files, one of the bytes that each block is stored in.
    table = np.zeros((2 if compressed else 1, len(blocks)), dtype=np.uint64)
    with replacing(path, overwrite=overwrite, check=lambda: check_unchanged(path, expected)) as fd:
        start = PREAMBLE.size + len(header) + table.nbytes
        pieces = _take_pieces(blocks, table[0])
        if compressed:
            end = _write_compressed(fd, pieces, table[1], start, n_threads or count_threads())
        else:
            end = start
            for _, array in pieces:
                end = write_all(fd, as_bytes(array), end)
        front = _make_preamble(header, table, end) + header + table.tobytes()
        assert len(front) == start
        write_all(fd, front, 0)


def _take_pieces(blocks: Sequence[list[np.ndarray]], checksums: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the arrays of all blocks in order, large ones in parts, with the number of the block; note its checksum."""
    for k in range(len(blocks)):
        parts = blocks.split(k) if isinstance(blocks, ForestBlocks) else None
        if parts is None:
            arrays = blocks[k]
            checksums[k] = checksum(*arrays)
            for array in arrays:
                yield k, array
            del arrays  # copies, which are not needed while those of the next block are made
        else:
            total = ChunkedChecksum(blocks.view(k)[0].nbytes)  # type: ignore[attr-defined]
            for part in parts:
                total.update(part)
                yield k, part
            checksums[k] = total.value


def _write_compressed(
    fd: int, pieces: Iterator[tuple[int, np.ndarray]], sizes: np.ndarray, offset: int, n_threads: int
) -> int:
    """Compress and write arrays at ``offset``; note the bytes of each block, and return where they end."""
    chunks = ((k, chunk) for k, array in pieces for chunk in split_into_chunks(array))
    for k, data in deflate_all(chunks, n_threads):
        offset = write_all(fd, data, offset)
        sizes[k] += len(data)
    return offset


def _make_preamble(header: bytes, table: np.ndarray, size: int) -> bytes:
    """Return the preamble of a file; its table has two rows if it is compressed."""
    table = np.atleast_2d(table)
    number = FORMAT + COMPRESSED * (len(table) == 2)
    fields = (number, len(header), table.shape[1], size, checksum(np.frombuffer(header, np.uint32)), checksum(table))
    words = np.frombuffer(PREAMBLE.pack(MAGIC, *fields, 0), np.uint32)
    return PREAMBLE.pack(MAGIC, *fields, checksum(words))


def check_byte_order() -> None:
    """Raise an error on big-endian machines."""
    if sys.byteorder != "little":
        raise NotImplementedError("model files can be written and read on little-endian machines only")
