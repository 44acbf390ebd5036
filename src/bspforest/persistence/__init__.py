"""Model files: a forest in one file, without pickle, restored bit for bit.

A file is little-endian and has no gaps: a preamble of 64 bytes, the header (JSON, see `bspforest.persistence.header`), a
table with one checksum per block, and the blocks. The first blocks hold what all trees share (`writer.COMMON`); then comes
one block per tree with the used part of each of its arrays (`writer.PER_TREE`). Files are written next to their final path
and renamed; `bspforest.persistence.file_lock` keeps writers apart.

Format 2 added joint values: duals, residuals and sums of duals, all empty for mean values. Files of format 1 load as mean values;
there every cut node had a box, and keeps it.

Compressed files have 256 added to their format: see `bspforest.persistence.compression`. docs/guide/model-files.md describes the bytes.

Kernels do not check bounds, so `load` must reject every file that could make them read or write where they must not. See
`bspforest.persistence.validation` for what is checked when.
"""

from .atomic_file import FileIdentity, NotARegularFileError, identify
from .file_lock import LockOwner, ModelChangedError, ModelLock, ModelLockedError, lock_model
from .header import ModelFileError
from .reader import load, load_with_extra, read_header
from .saver import Saver
from .writer import save

__all__ = [
    "FileIdentity",
    "LockOwner",
    "ModelChangedError",
    "ModelFileError",
    "ModelLock",
    "ModelLockedError",
    "NotARegularFileError",
    "Saver",
    "identify",
    "load",
    "load_with_extra",
    "lock_model",
    "read_header",
    "save",
]
