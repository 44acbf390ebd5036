"""Where compiled kernels are kept between runs. With `jit` and `compiler`, the only module that imports numba.

Numba's own cache looks at the file in which a kernel stands, not at those it calls, and would go on with old code after a change
elsewhere. Here the folder is named by a hash of all kernel sources, and folders of other versions are removed.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numba
from numba.core import caching
from numba.misc.appdirs import AppDirs

_KERNELS = Path(__file__).parent
_PREDICTING = _KERNELS.parents[1] / "forest" / "kernels"
_PREFIX = "kernels-"


class KernelCacheWarning(UserWarning):
    """Kernels cannot be kept, or a file with one is damaged."""


@functools.cache
def hash_sources() -> str:
    """Return a hash of everything that compiled kernels depend on within the package."""
    total = hashlib.sha256()
    for path in sorted([*_KERNELS.glob("*.py"), *_PREDICTING.glob("*.py"), _KERNELS.parent / "layout.py"]):
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


@functools.cache
def _hash_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _find_places() -> list[Path]:
    """Return the folders that may hold folders of kernels, best first. Other checkouts have others."""
    own = f"bspforest_{hashlib.sha256(str(_KERNELS).encode()).hexdigest()[:16]}"
    chosen = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if chosen:
        return [Path(chosen) / own]
    return [_KERNELS / "__pycache__", Path(AppDirs(appname="numba", appauthor=False).user_cache_dir) / own]


@functools.cache
def find_folder() -> Path | None:
    """Return a folder to keep kernels of this version in, made if need be; None, with a warning, if there is no place."""
    for place in _find_places():
        folder = place / f"{_PREFIX}{hash_sources()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        for other in place.glob(f"{_PREFIX}*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
        return folder
    warnings.warn(
        f"compiled kernels cannot be kept: none of {', '.join(map(str, _find_places()))} is writable. They are compiled again "
        "in each process; set NUMBA_CACHE_DIR to a writable folder",
        KernelCacheWarning,
        stacklevel=2,
    )
    return None


class _Locator(caching._CacheLocator):
    """Tells numba's cache about the folder."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(find_folder())

    def get_source_stamp(self) -> Any:
        return hash_sources(), _hash_file(self._py_file)

    def get_disambiguator(self) -> str:
        return str(self._lineno)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _CheckedFile(caching.IndexDataCacheFile):
    """Files that begin with a hash of what follows: LLVM may crash on damaged code."""

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            raise pickle.UnpicklingError(f"{name} is damaged")
        return pickle.loads(content[32:])


class KernelCache(caching.FunctionCache):
    """The cache of one kernel. A damaged file is named, removed and written anew."""

    _impl_class = _Impl

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file = _CheckedFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super()._load_overload(sig, target_context)
        except OSError:
            raise  # numba's own handling
        except Exception as error:
            index = Path(self._cache_file._index_path)
            warnings.warn(
                f"the compiled kernel {index} is damaged ({type(error).__name__}: {error}); it is removed and compiled again",
                KernelCacheWarning,
                stacklevel=2,
            )
            for path in index.parent.glob(f"{self._impl.filename_base}.*"):
                path.unlink(missing_ok=True)
            return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        try:
            super()._save_overload(sig, data)
        except OSError as error:  # the disk is full, or the folder was removed meanwhile
            warnings.warn(f"a compiled kernel cannot be kept: {error}", KernelCacheWarning, stacklevel=2)


def keep_compiled(dispatcher: Any) -> Any:
    """Let a kernel be kept between runs, where there is a place for it."""
    if hasattr(dispatcher, "py_func") and find_folder() is not None:
        dispatcher._cache = KernelCache(dispatcher.py_func)
    return dispatcher
