"""Read what users pass as X: arrays, frames with gaps and categories, sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from .._magnitude import is_moderate
from .._validation import read_rows
from ..tables.encoder import TableEncoder
from ..tables.reading import BOOLEAN, NUMBER, Table, is_frame, read_table
from ..tables.suspects import warn_of_suspects
from ..tables.values import DATES, DURATIONS
from ..trees.memory import find_available

# Sparse rows are read in blocks of so many bytes, as dense ones.
BLOCK_BYTES = 2**26

# Sparse rows that are learned must not take more than this share of the memory available, as dense ones.
MAX_SHARE = 0.5

# Values in arrays of objects that are no numbers: columns have to be looked at one by one.
KINDS = (str, *DATES, *DURATIONS)


def read_input(estimator: Any, X: Any, *, reset: bool, min_rows: int = 1) -> np.ndarray | Table:
    """Return X as finite float64 rows, or as a table if there are gaps or categories, or were any before.

    Plain arrays of numbers take a short cut.
    """
    encoder = None if reset else estimator._encoder
    if sparse.issparse(X):
        X = densify(estimator, X)
    X = _keep_text(X)
    if not _may_hold_text(X):
        rows, has_gaps = read_rows(estimator, X, reset=reset, min_rows=min_rows)
        by_type = estimator.categorical_features is None or _is_from_dtype(estimator)
        return rows if encoder is None and by_type and not has_gaps else _name(estimator, read_table(rows))
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    table = _name(estimator, read_table(X))
    if table.n_rows < min_rows or not table.n_columns:
        raise ValueError(
            f"Found array with {table.n_rows} sample(s) and {table.n_columns} feature(s) while a minimum of {min_rows} "
            "sample(s) and 1 feature(s) is required."
        )
    plain = _read_plain(table, estimator) if encoder is None else None
    return table if plain is None else plain


def _read_plain(table: Table, estimator: Any) -> np.ndarray | None:
    """Return a table as rows, if it holds nothing but numbers, without gaps and none too large."""
    if estimator.categorical_features is not None and not _is_from_dtype(estimator):
        return None
    if not all(table.find_kind(k) in (NUMBER, BOOLEAN) for k in range(table.n_columns)):
        return None
    rows = np.stack([table.get_numbers(k) for k in range(table.n_columns)], axis=1)
    return np.ascontiguousarray(rows) if is_moderate(rows) else None


def _is_from_dtype(estimator: Any) -> bool:
    return isinstance(estimator.categorical_features, str)


def _keep_text(X: Any) -> Any:
    """Return lists with text or dates in them as an array of objects; numpy would make text of the numbers, too."""
    if isinstance(X, np.ndarray) or is_frame(X) or not isinstance(X, Sequence) or isinstance(X, str | bytes):
        return X
    try:
        is_mixed = np.asarray(X).dtype.kind in "USOmM"
    except ValueError:  # rows of different lengths, which the checks of arrays explain
        return X
    return np.array(X, dtype=object) if is_mixed else X


def _may_hold_text(X: Any) -> bool:
    """Return whether columns have to be looked at one by one."""
    if is_frame(X):
        dtypes = getattr(X, "dtypes", None)
        return dtypes is None or not all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in dtypes)
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        return False
    return X.dtype.kind in "USmM" or (X.dtype == object and any(isinstance(value, KINDS) for value in X.flat))


def _name(estimator: Any, table: Table) -> Table:
    """Name the columns of a table of rows as the frames before did."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and len(names) == len(table.names):
        table.names = [f"column {name!r}" for name in names]
    return table


def begin_encoding(estimator: Any, table: Table) -> tuple[TableEncoder | None, np.ndarray]:
    """Return an encoder that has learned a table, and its rows; no encoder if they are numbers without gaps."""
    categorical = find_categorical(estimator.categorical_features, estimator, table.n_columns)
    encoder = TableEncoder.begin(table, get_names(estimator), categorical, estimator.max_categories)
    texts = [k for k, column in enumerate(encoder.columns) if column.is_text and not categorical[k]]
    if texts and estimator.categorical_features is None:
        raise ValueError(f"{table.names[texts[0]]} holds text, but categorical_features is None: use 'from_dtype'")
    warn_of_suspects(table, texts)  # not of columns that the user has named
    encoder, rows = encoder.learn(table)
    return (None if encoder.is_plain else encoder), rows


def get_names(estimator: Any) -> list[str]:
    """Return the names of the columns; without any, x0, x1, and so on."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{k}" for k in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def find_categorical(given: Any, estimator: Any, n: int) -> list[bool]:
    """Return which columns are named as categories; of the others, the types tell.

    ``given`` is the parameter ``categorical_features``.
    """
    if given is None or isinstance(given, str):
        return [False] * n
    entries = np.asarray(given)
    if entries.dtype.kind == "b":
        if entries.shape != (n,):
            raise ValueError(f"categorical_features is a mask of shape {entries.shape}, but X has {n} columns")
        return entries.tolist()
    if entries.ndim != 1 or (entries.size and entries.dtype.kind not in "iuUO"):
        raise ValueError(
            "categorical_features must be 'from_dtype', None, a mask, or a list of names or indices of columns"
        )
    names = list(getattr(estimator, "feature_names_in_", []))
    chosen = [False] * n
    for entry in entries.tolist():
        if isinstance(entry, str):
            if entry not in names:
                known = f"its columns are {', '.join(names)}" if names else "it has no names of columns"
                raise ValueError(f"categorical_features names {entry!r}, which X does not have: {known}")
            chosen[names.index(entry)] = True
        elif isinstance(entry, int) and -n <= entry < n:
            chosen[entry] = True
        else:
            raise ValueError(f"categorical_features has the entry {entry!r}, but X has {n} columns")
    return chosen


# ----------------------------------------------------------------------------------------------------------------------
# Sparse matrices


def densify(estimator: Any, X: Any) -> np.ndarray:
    """Return sparse rows as dense ones, if there is enough memory for them."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got a sparse array of {X.ndim}")
    needed = 8 * X.shape[0] * X.shape[1]
    available = find_available()
    if needed > MAX_SHARE * available:
        raise MemoryError(
            f"X is sparse, and its {X.shape[0]:,} x {X.shape[1]:,} entries would take {needed / 1e9:.1f} GB as the dense rows "
            f"that a {type(estimator).__name__} holds, more than {MAX_SHARE:.0%} of the {available / 1e9:.1f} GB of memory "
            "available: reduce the columns first, for instance with TruncatedSVD or SelectKBest, or learn fewer rows"
        )
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X holds complex numbers")
    return X.toarray(order="C") if X.format in ("csr", "csc", "coo") else X.tocsr().toarray(order="C")


def read_in_blocks(compute: Callable[[Any], Any], X: Any) -> Any:
    """Return what ``compute`` returns for X, an array or several; of a large sparse matrix, block by block."""
    if not sparse.issparse(X) or X.ndim != 2 or 8 * X.shape[0] * X.shape[1] <= BLOCK_BYTES:
        return compute(X)
    rows = X.tocsr()
    size = max(1, BLOCK_BYTES // (8 * X.shape[1]))
    parts = [compute(rows[start : start + size]) for start in range(0, rows.shape[0], size)]
    if isinstance(parts[0], tuple):
        return tuple(None if some[0] is None else np.concatenate(some) for some in zip(*parts, strict=True))
    return np.concatenate(parts)
