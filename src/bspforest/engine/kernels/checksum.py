"""A 64-bit checksum at memory speed, for the blocks of a model file. It detects damage, not forgery."""

from __future__ import annotations

import numpy as np

from .jit import always_inline, entry_point

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio; odd, so multiplying by it is one-to-one
_R32, _R29 = np.uint64(32), np.uint64(29)
LANES = 8


@always_inline
def stir(h, word):
    """Mix a word into ``h``. One-to-one in each argument, so that a change of a single word always shows."""
    h = (h ^ word) * _ODD
    return h ^ (h >> _R29)


@always_inline
def word_at(words, k):
    """Return the 64-bit word that starts at ``words[k]``."""
    return np.uint64(words[k]) | (np.uint64(words[k + np.uint64(1)]) << _R32)


@always_inline
def stir_groups(words, n_groups, lanes):
    """Mix groups of 16 uint32 into eight lanes, side by side: in one lane each multiplication waits for the one before."""
    h0, h1, h2, h3, h4, h5, h6, h7 = lanes
    step = np.uint64(2 * LANES)
    k = np.uint64(0)
    for _ in range(n_groups):
        h0 = stir(h0, word_at(words, k))
        h1 = stir(h1, word_at(words, k + np.uint64(2)))
        h2 = stir(h2, word_at(words, k + np.uint64(4)))
        h3 = stir(h3, word_at(words, k + np.uint64(6)))
        h4 = stir(h4, word_at(words, k + np.uint64(8)))
        h5 = stir(h5, word_at(words, k + np.uint64(10)))
        h6 = stir(h6, word_at(words, k + np.uint64(12)))
        h7 = stir(h7, word_at(words, k + np.uint64(14)))
        k += step
    return h0, h1, h2, h3, h4, h5, h6, h7


@always_inline
def finish(words, k, n, seed, lanes):
    """Return the checksum of n uint32: those in the lanes, then ``words`` from k on, fewer than a group."""
    one, two = np.uint64(1), np.uint64(2)
    h = stir(seed, n)
    for lane in lanes:
        h = stir(h, lane)
    while k + two <= np.uint64(words.shape[0]):
        h = stir(h, word_at(words, k))
        k += two
    if k < np.uint64(words.shape[0]):
        h = stir(h, np.uint64(words[k]))
        k += one
    return stir(h, n)


@entry_point(lambda: (as_words(np.empty(1, np.uint32)), np.uint64(0)))
def checksum_words(words, seed):
    """Return the checksum of an array of uint32 that follows an array with checksum ``seed``: 16 GB/s."""
    n_groups = words.shape[0] // (2 * LANES)
    lanes = stir_groups(words, n_groups, (seed, seed, seed, seed, seed, seed, seed, seed))
    return finish(words, np.uint64(2 * LANES * n_groups), np.uint64(words.shape[0]), seed, lanes)


@entry_point(lambda: (as_words(np.empty(1, np.uint32)), np.uint64(0), np.empty(LANES, np.uint64), np.uint64(0)))
def checksum_chunk(words, seed, lanes, n):
    """Mix one chunk of an array of n uint32 into ``lanes``, and return the checksum if the chunk is the last one.

    All chunks but the last must be whole groups of 64 bytes. Before the first, all lanes must be ``seed``.
    """
    n_groups = words.shape[0] // (2 * LANES)
    mixed = stir_groups(
        words, n_groups, (lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7])
    )
    lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7] = mixed
    return finish(words, np.uint64(2 * LANES * n_groups), n, seed, mixed)


def as_words(array: np.ndarray) -> np.ndarray:
    """Return the bytes of a contiguous array as uint32, read-only: one type for all callers, so that kernels compile once."""
    words = array.reshape(-1).view(np.uint32)
    words.flags.writeable = False
    return words


def checksum(*arrays: np.ndarray) -> int:
    """Return the checksum of the bytes of some arrays, in order. Each must be contiguous and a multiple of 4 bytes."""
    h = np.uint64(len(arrays))
    with np.errstate(over="ignore"):  # uncompiled, numpy would warn of the intended overflow
        for array in arrays:
            h = np.uint64(checksum_words(as_words(array), h))
    return int(h)


class ChunkedChecksum:
    """The checksum of one array that is given in chunks, all but the last of them multiples of 64 bytes.

    Parameters
    ----------
    size : int
        The bytes of the whole array.
    """

    def __init__(self, size: int) -> None:
        self.value = 0
        self._n_words = np.uint64(size // 4)
        self._lanes = np.ones(LANES, dtype=np.uint64)

    def update(self, chunk: np.ndarray) -> None:
        """Take the next chunk. After the last one, ``value`` is what `checksum` returns for the whole array."""
        with np.errstate(over="ignore"):
            self.value = int(checksum_chunk(as_words(chunk), np.uint64(1), self._lanes, self._n_words))
