"""Compress the blocks of a model file, chunk by chunk.

A chunk is at most a MiB of one array, a whole number of its items. Its bytes are shuffled, first those at position 0 of all items,
then those at position 1 and so on, which puts exponents beside exponents; then they are deflated. Both are undone chunk by
chunk, so that neither side holds a second copy of an array.

Measured with `benchmarks/compression.py codecs` on nine models of 80 to 180 MB, in CPU time: zlib at level 1 compresses 1.4 to 5.7
times, at 55 to 195 MB/s. Shuffling, with flat planes stored as they are, compresses 1 to 7 % more on six models, at 1.2 to 2.9 times
the speed; it loses 3 % on one, and 8 and 19 % on the two of the USPS digits. Zstandard at level 3, shuffled, would
compress 3 to 18 % more than this, at 330 to 580 MB/s, but is in the standard library from Python 3.14 on only; lzma would compress 1
to 81 % more, at 0.06 to 0.3 of the speed.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..engine.parallel import run_parts
from .atomic_file import READS_IN_THREADS, read_all
from .fields import ModelFileError, expect

# The entry in the header of a compressed file.
CODEC = "shuffle+deflate"

# Before each chunk: the bytes stored, and the bytes that they inflate to.
FRAME = struct.Struct("<II")

# Bytes of a chunk. Larger ones compress no better: with 4 MiB the ratio differs by 1 % at most, either way.
LARGEST_CHUNK = 2**20

# No chunk deflates to less than this share, so that a small file cannot ask for much memory. Zeros would deflate to a thousandth.
MOST_RATIO = 64

# What deflating may add to a chunk of noise: a few bytes for each of the blocks that it is stored in.
MOST_ADDED = 2**14

# The level of zlib. Level 6 compresses 3 to 14 % more and takes three to four times as long.
LEVEL = 1

# Bits per byte from which a plane is stored as it is, such as those of low digits. This makes compression 1.1 to 2.2 times as fast,
# and costs up to 8 % of the ratio. The entropy is estimated from so many bytes.
FLAT = 7.8
SAMPLED = 4096

# Bytes deflated by each thread before they are written, and the most threads that do it.
BATCH = 2**21
MOST_THREADS = 8

# The blocks of deflate that hold nothing: one to fill up with, and one that ends a chunk.
EMPTY, END = b"\x00\x00\x00\xff\xff", b"\x03\x00"


class Chunk(NamedTuple):
    """Where a chunk is in the file, and which bytes of its array it holds."""

    offset: int
    stored: int
    start: int
    end: int


def count_threads() -> int:
    """Return how many threads to use."""
    return min(os.cpu_count() or 1, MOST_THREADS)


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def split(array: np.ndarray) -> Iterator[np.ndarray]:
    """Return the chunks of a contiguous array: bytes in one row per item."""
    items = array.reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize)
    step = LARGEST_CHUNK // array.dtype.itemsize
    return (items[start : start + step] for start in range(0, len(items), step))


def deflate(items: np.ndarray) -> bytes:
    """Return a chunk as it is stored, with its frame."""
    parts = []
    compressor: Any = None
    was_flat = None
    for plane in np.ascontiguousarray(items.T):
        is_flat = _estimate_bits(plane) > FLAT
        if is_flat != was_flat:
            if compressor is not None:
                parts.append(compressor.flush(zlib.Z_FULL_FLUSH))  # ends at a whole byte, so that another one can go on
            compressor = zlib.compressobj(0 if is_flat else LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
            was_flat = is_flat
        parts.append(compressor.compress(plane.data))
    parts.append(compressor.flush(zlib.Z_FULL_FLUSH))
    lacking = items.nbytes // MOST_RATIO + 1 - sum(map(len, parts)) - len(END)
    parts += [EMPTY * max(0, -(-lacking // len(EMPTY))), END]
    stored = sum(map(len, parts))
    assert stored <= items.nbytes + MOST_ADDED
    return b"".join([FRAME.pack(stored, items.nbytes), *parts])


def _estimate_bits(plane: np.ndarray) -> float:
    """Return the entropy of some of the bytes, in bits per byte."""
    sample = plane[:: max(1, len(plane) // SAMPLED)]
    counts = np.bincount(sample)
    counts = counts[counts > 0]
    return float(np.log2(len(sample)) - counts @ np.log2(counts) / len(sample))


def deflate_all(chunks: Iterable[tuple[int, np.ndarray]], n_threads: int) -> Iterator[tuple[int, bytes]]:
    """Return numbered chunks as they are stored, with their numbers and in order; deflate some at a time, in threads."""
    batch: list[tuple[int, np.ndarray]] = []
    size = 0
    for k, chunk in chunks:
        batch.append((k, chunk))
        size += chunk.nbytes
        if size >= BATCH * n_threads:
            yield from _deflate_batch(batch, size, n_threads)
            batch, size = [], 0
    yield from _deflate_batch(batch, size, n_threads)


def _deflate_batch(batch: list[tuple[int, np.ndarray]], size: int, n_threads: int) -> Iterator[tuple[int, bytes]]:
    done = [b""] * len(batch)

    def run(first: int, last: int) -> None:
        for j in range(first, last):
            done[j] = deflate(batch[j][1])

    run_parts(run, len(batch), n_threads, size)
    return ((k, data) for (k, _), data in zip(batch, done, strict=True))


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def read_compressed(fd: int, array: np.ndarray, offset: int, end: int, n_threads: int = 1) -> int:
    """Fill a contiguous array from the chunks at ``offset``; return where they end, which is at ``end`` or before."""
    size, content = array.dtype.itemsize, array.reshape(-1).view(np.uint8)
    chunks = _find_chunks(fd, len(content), size, offset, end)

    def run(first: int, last: int) -> None:
        for chunk in chunks[first:last]:
            data = bytearray(chunk.stored)
            read_all(fd, data, chunk.offset)
            planes = np.frombuffer(inflate(data, chunk.end - chunk.start), np.uint8).reshape(size, -1)
            items = content[chunk.start : chunk.end].reshape(-1, size)
            for k, plane in enumerate(planes):  # two to four times as fast as assigning planes.T
                items[:, k] = plane

    run_parts(run, len(chunks), n_threads if READS_IN_THREADS else 1, len(content))
    return chunks[-1].offset + chunks[-1].stored if chunks else offset


def _find_chunks(fd: int, n_bytes: int, size: int, offset: int, end: int) -> list[Chunk]:
    """Return the chunks of an array of ``n_bytes`` bytes and items of ``size`` bytes, checked to lie before ``end``."""
    chunks = []
    start = 0
    frame = bytearray(FRAME.size)
    while start < n_bytes:
        expect(offset + FRAME.size <= end, "a compressed block is too short")
        offset = read_all(fd, frame, offset)
        stored, n = FRAME.unpack(frame)
        expect(0 < n <= min(LARGEST_CHUNK, n_bytes - start) and n % size == 0, f"a chunk would have {n:,} bytes")
        expect(stored <= n + MOST_ADDED and offset + stored <= end, f"a chunk of {n:,} bytes is stored in {stored:,}")
        check_ratio(n, stored)
        chunks.append(Chunk(offset, stored, start, start + n))
        offset, start = offset + stored, start + n
    return chunks


def inflate(data: bytes | bytearray, size: int) -> bytes:
    """Return the ``size`` bytes of a chunk, still shuffled. Never inflate more than that."""
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = decompressor.decompress(data, size + 1)
    except zlib.error as error:
        raise ModelFileError(f"a chunk is damaged: {error}") from None
    expect(len(content) <= size, f"a chunk inflates to more than its {size:,} bytes")
    whole = len(content) == size and decompressor.eof and not decompressor.unused_data
    expect(whole, f"a chunk is damaged: it does not inflate to {size:,} bytes")
    return content


def check_ratio(content: int, stored: int) -> None:
    """Raise an error if so much content cannot have been stored in so few bytes."""
    expect(
        content <= MOST_RATIO * stored,
        f"{stored:,} bytes would inflate to {content:,}, more than {MOST_RATIO} times as many",
    )
