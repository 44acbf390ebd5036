"""Sums over trees whose rounding does not depend on threads, nor on where the trees are.

Trees are summed in blocks of `TREES_PER_BLOCK`, one after another. The sums of blocks are added in pairs, and these in pairs again, up to a
single one. A worker that has some of the blocks adds the pairs that are wholly among them; the client adds the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..trees.layout import TREES_PER_BLOCK


def count_blocks(n_trees: int) -> int:
    """Return the number of blocks of so many trees."""
    return -(-n_trees // TREES_PER_BLOCK)


def list_pairs(n_blocks: int) -> Iterator[tuple[int, int, int]]:
    """Yield pairs in the order in which they are added: the first block of each half, and the end of the second.

    >>> list(list_pairs(5))
    [(0, 1, 2), (2, 3, 4), (0, 2, 4), (0, 4, 5)]
    """
    width = 1
    while width < n_blocks:
        for k in range(0, n_blocks - width, 2 * width):
            yield k, k + width, min(n_blocks, k + 2 * width)
        width *= 2


def fold_share(blocks: np.ndarray, first: int, n_blocks: int) -> np.ndarray:
    """Add the pairs that are wholly in a share of the blocks, from number ``first`` on, in place; return what is left, in order."""
    last = first + len(blocks)
    left = np.ones(len(blocks), bool)
    for k, other, end in list_pairs(n_blocks):
        if first <= k and end <= last:
            blocks[k - first] += blocks[other - first]
            left[other - first] = False
    return blocks[left]


def list_left(first: int, last: int, n_blocks: int) -> list[int]:
    """Return the numbers of the blocks that `fold_share` leaves of those from ``first`` to ``last``.

    >>> list_left(3, 8, 8), list_left(0, 5, 8)
    ([3, 4], [0, 4])
    """
    added = {other for k, other, end in list_pairs(n_blocks) if first <= k and end <= last}
    return [k for k in range(first, last) if k not in added]


def fold_shares(shares: list[tuple[int, int, np.ndarray]], n_blocks: int) -> np.ndarray:
    """Return the sum of all blocks, from shares: their first and last block, and what `fold_share` left of them."""
    known = {
        k: block
        for first, last, blocks in shares
        for k, block in zip(list_left(first, last, n_blocks), blocks, strict=True)
    }
    for k, other, _ in list_pairs(n_blocks):
        if other in known:
            known[k] = known[k] + known.pop(other)
    return known[0]
