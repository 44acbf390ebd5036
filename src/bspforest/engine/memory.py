"""Memory of arrays: it begins at a cache line, and large arrays lie, where there are such, in huge pages, also when they grow."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable

import numpy as np

# A cache line. Records begin at one: numpy's own arrays do not, and then every 64-byte record lies in two.
CACHE_LINE = 64

# Arrays of trees of this many bytes are huge: they grow in place, which mostly means that they are never held twice (not where malloc has a
# hole for them, up to 32 MB), and needs no fresh memory for what they hold already: that costs more than learning hundreds of rows.
IN_PLACE_FROM = 2**22

# A huge page, and what malloc may keep around a piece of memory. Linux, from 6.7 on, puts a piece that is a whole number of huge pages
# where such pages begin, and moves it by them; elsewhere they are lost when an array moves. (Learning one row with 100 trees takes up to
# 1.1 times as long in small pages.)
HUGE_PAGE = 2**21
MALLOC_HEADER = 32


def _find_madvise() -> Callable[[int, int, int], int] | None:
    """What Linux calls for telling it how memory will be used; None if there is no such thing here, or NUMPY_MADVISE_HUGEPAGE is 0."""
    if not hasattr(mmap, "MADV_HUGEPAGE") or os.environ.get("NUMPY_MADVISE_HUGEPAGE") == "0":
        return None
    try:
        call = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    call.restype = ctypes.c_int
    return call


_madvise = _find_madvise()


def _advise(owner: np.ndarray) -> None:
    """Ask for huge pages. So does numpy, but not for the first page, and Linux moves only memory that it was told the same of."""
    if _madvise is not None and owner.nbytes >= IN_PLACE_FROM:
        start = owner.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
        end = -(-(owner.ctypes.data + owner.nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
        _madvise(start, end - start, mmap.MADV_HUGEPAGE)  # which may say no


def _room(size: int) -> int:
    """How much memory an array of ``size`` bytes gets: whole cache lines, or huge pages, wherever it begins."""
    size += CACHE_LINE + -size % CACHE_LINE
    return size if size < IN_PLACE_FROM else -(-(size + MALLOC_HEADER) // HUGE_PAGE) * HUGE_PAGE - MALLOC_HEADER


def view_as(owner: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The first bytes of ``owner`` from a cache line on, as an array."""
    start = -owner.ctypes.data % CACHE_LINE
    return owner[start : start + int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)


def empty(shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """As `numpy.empty`, beginning at a cache line, and alone in its last one."""
    dtype = np.dtype(dtype)
    owner = np.empty(_room(int(np.prod(shape)) * dtype.itemsize), np.uint8)
    _advise(owner)
    return view_as(owner, shape, dtype)


def is_from_empty(array: np.ndarray) -> bool:
    """Does ``array`` come from `empty`?"""
    owner = array.base
    return isinstance(owner, np.ndarray) and owner.ndim == 1 and owner.dtype == np.uint8 and owner.flags.owndata


def _resize(owner: np.ndarray, size: int, before: int, kept: int) -> None:
    """Give ``owner`` memory for an array of ``size`` bytes. The first ``kept`` bytes of the old one began ``before`` bytes after its start."""
    owner.resize(_room(size), refcheck=False)
    _advise(owner)
    realign(owner, before, kept)


def _shift(owner: np.ndarray, start: int, end: int, by: int) -> None:
    """Move the bytes from ``start`` to ``end``. No memory is needed for that, while numpy copies records that overlap, and there may be none."""
    step = max(abs(by), 2**20)  # parts that do not overlap where they go, unless that makes them too small
    parts = range(start, end, step) if by else ()
    for a in parts if by < 0 else reversed(parts):
        b = min(a + step, end)
        owner[a + by : b + by] = owner[a:b]


def realign(owner: np.ndarray, before: int, size: int) -> None:
    """After ``owner`` has moved: the first ``size`` bytes of what is in it began ``before`` bytes after its start; now, at a cache line."""
    _shift(owner, before, before + size, -owner.ctypes.data % CACHE_LINE - before)


def resize_trees(array: np.ndarray, capacity: int) -> np.ndarray:
    """``array`` with ``capacity`` entries a tree, what fits of the old ones kept. The old array is no longer valid.

    A huge array grows in place. If there is no memory, the old array is as it was.
    """
    n_trees, old = array.shape[:2]
    shape = (n_trees, capacity, *array.shape[2:])
    if capacity <= old or capacity > 2 * old or array.nbytes < IN_PLACE_FROM or not is_from_empty(array):
        new = empty(shape, array.dtype)
        kept = min(old, capacity)
        for m in range(n_trees):  # tree by tree: pages beyond what is kept stay untouched
            new[m, :kept] = array[m, :kept]
        return new
    owner: np.ndarray = array.base  # type: ignore[assignment]
    one = array[0].nbytes
    more = one // old * (capacity - old)
    _resize(owner, n_trees * (one + more), array.ctypes.data - owner.ctypes.data, array.nbytes)
    first = -owner.ctypes.data % CACHE_LINE
    for m in range(n_trees - 1, 0, -1):
        _shift(owner, first + m * one, first + (m + 1) * one, m * more)
    return view_as(owner, shape, array.dtype)


def shrink_trees(array: np.ndarray, capacity: int, kept: int) -> np.ndarray:
    """An array of `empty` with ``capacity`` entries a tree, of more, the first ``kept`` trees kept. The old array is no longer valid."""
    n_trees, old = array.shape[:2]
    entry = array[0, :1].nbytes
    owner: np.ndarray = array.base  # type: ignore[assignment]
    first = -owner.ctypes.data % CACHE_LINE
    for m in range(1, kept):
        start = first + m * old * entry
        _shift(owner, start, start + capacity * entry, -m * (old - capacity) * entry)
    _resize(owner, n_trees * capacity * entry, first, kept * capacity * entry)
    return view_as(owner, (n_trees, capacity, *array.shape[2:]), array.dtype)


def resize_rows(array: np.ndarray, capacity: int) -> np.ndarray:
    """``array`` with room for ``capacity`` rows, what fits of the old ones kept."""
    new = empty((capacity, *array.shape[1:]), array.dtype)
    kept = min(len(array), capacity)
    new[:kept] = array[:kept]
    return new
