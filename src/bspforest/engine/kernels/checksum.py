"""A checksum of 64 bits at memory speed, for the blocks of a model file."""

from __future__ import annotations

import numpy as np

from ..arrays import freeze
from .jit import always_inline, entry_point

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: odd, so multiplying by it loses nothing
_R32, _R29 = np.uint64(32), np.uint64(29)
_LANES = 8


@always_inline
def stir(h, word):
    """Mix a word into ``h``: one-to-one in each of the two, so that no change of a single word goes unseen."""
    h = (h ^ word) * _ODD
    return h ^ (h >> _R29)


@always_inline
def word_at(words, k):
    return np.uint64(words[k]) | (np.uint64(words[k + np.uint64(1)]) << _R32)


@entry_point(lambda: (freeze(np.empty(1, np.uint32)), np.uint64(0)))
def checksum_words(words, seed):
    """The checksum of some uint32, as they follow a block with the checksum ``seed``.

    Eight lanes side by side, because each multiplication waits for the one before it: 7 GB/s.
    """
    n = np.uint64(words.shape[0])
    one, two = np.uint64(1), np.uint64(2)
    step = np.uint64(2 * _LANES)
    h0 = h1 = h2 = h3 = h4 = h5 = h6 = h7 = seed
    k = np.uint64(0)
    while k + step <= n:
        h0 = stir(h0, word_at(words, k))
        h1 = stir(h1, word_at(words, k + np.uint64(2)))
        h2 = stir(h2, word_at(words, k + np.uint64(4)))
        h3 = stir(h3, word_at(words, k + np.uint64(6)))
        h4 = stir(h4, word_at(words, k + np.uint64(8)))
        h5 = stir(h5, word_at(words, k + np.uint64(10)))
        h6 = stir(h6, word_at(words, k + np.uint64(12)))
        h7 = stir(h7, word_at(words, k + np.uint64(14)))
        k += step
    h = stir(seed, n)
    for lane in (h0, h1, h2, h3, h4, h5, h6, h7):
        h = stir(h, lane)
    while k + two <= n:
        h = stir(h, word_at(words, k))
        k += two
    if k < n:
        h = stir(h, np.uint64(words[k]))
        k += one
    return stir(h, n)


def checksum(*arrays: np.ndarray) -> int:
    """The checksum of the bytes of some arrays, one after the other. Each is contiguous, a multiple of 4 bytes."""
    h = np.uint64(len(arrays))
    with np.errstate(over="ignore"):  # where kernels run uncompiled, numpy would remark on the overflow that is meant
        for array in arrays:
            words = freeze(array.reshape(-1).view(np.uint32))  # as those of a file
            h = np.uint64(checksum_words(words, h))
    return int(h)
