"""Allocate cache-aligned arrays, in huge pages where available."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable

import numpy as np

# Bytes of a cache line, to which arrays are aligned. Numpy's own are not: each 64-byte record would lie in two lines.
CACHE_LINE = 64

# Arrays of at least this many bytes ask for huge pages. Numpy asks for them, but not for the first page. Measured with 100 trees
# and 30,000 rows: with numpy's advice only, single rows take 1.3 to 1.5 times as long, predicting 1.04 to 1.1 times.
HUGE_FROM = 2**22


def _find_madvise() -> Callable[[int, int, int], int] | None:
    """Return the system call that asks for huge pages; None if there is none, or if NUMPY_MADVISE_HUGEPAGE is 0."""
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


def empty(shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """Allocate an array as `numpy.empty` does, aligned and padded to cache lines."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    owner = np.empty(size + CACHE_LINE + -size % CACHE_LINE, np.uint8)
    if _madvise is not None and owner.nbytes >= HUGE_FROM:
        start = owner.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
        end = -(-(owner.ctypes.data + owner.nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
        _madvise(start, end - start, mmap.MADV_HUGEPAGE)  # which may refuse
    first = -owner.ctypes.data % CACHE_LINE
    return owner[first : first + size].view(dtype).reshape(shape)


def is_from_empty(array: np.ndarray) -> bool:
    """Return whether ``array`` was allocated by `empty`."""
    owner = array.base
    return isinstance(owner, np.ndarray) and owner.ndim == 1 and owner.dtype == np.uint8 and owner.flags.owndata


def resize_trees(array: np.ndarray, capacity: int) -> np.ndarray:
    """Return a copy of ``array`` with ``capacity`` entries per tree, keeping what fits."""
    new = empty((len(array), capacity, *array.shape[2:]), array.dtype)
    kept = min(array.shape[1], capacity)
    for own, old in zip(new, array, strict=True):  # tree by tree, so that pages beyond what is kept stay untouched
        own[:kept] = old[:kept]
    return new


def resize_rows(array: np.ndarray, capacity: int) -> np.ndarray:
    """Return a copy of ``array`` with room for ``capacity`` rows, keeping what fits."""
    new = empty((capacity, *array.shape[1:]), array.dtype)
    kept = min(len(array), capacity)
    new[:kept] = array[:kept]
    return new


def find_available() -> int:
    """Return how many bytes of memory can be used without swapping; where the system does not tell, half of what there is."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):  # Windows
        return 2**33
