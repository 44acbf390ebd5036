"""Dask arrays and dataframes: their partitions as chunks to learn, and lazy predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask
import dask.array
import numpy as np
from dask.base import is_dask_collection
from distributed import Client

__all__ = ["is_dask_collection", "predict_lazily", "read_chunks"]


def split(collection: Any) -> list[Any]:
    """Return the partitions of a collection, which are along rows, as delayed objects."""
    if isinstance(collection, dask.array.Array) and collection.ndim == 2:
        collection = collection.rechunk({1: -1})
    return list(np.ravel(collection.to_delayed()))


def read_chunks(client: Client, *columns: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the partitions of collections together, computed one ahead. None stays None; others are cut to the same lengths.

    The first one is a Dask collection. Those that are, too, must have as many partitions, of the same lengths.
    """
    parts = [split(column) if is_dask_collection(column) else None for column in columns]
    n_parts = len(parts[0] or ())
    for column in parts:
        if column is not None and len(column) != n_parts:
            raise ValueError(f"X has {n_parts} partitions, but another collection has {len(column)}")

    known = getattr(columns[0], "chunks", ((np.nan,),))[0]
    for column in columns[1:]:
        if column is None or np.isnan(sum(known)):
            continue
        if isinstance(column, dask.array.Array) and not np.array_equal(column.chunks[0], known):
            raise ValueError(f"X has partitions of {known} rows, but another collection of {column.chunks[0]}")
        if not is_dask_collection(column) and len(column) != sum(known):
            raise ValueError(f"X has {sum(known)} rows, but there are {len(column)} labels, weights or keys")

    def start(k: int) -> Any:
        return client.compute([part[k] for part in parts if part is not None]) if k < n_parts else None

    first, ahead = 0, start(0)
    for k in range(n_parts):
        found = client.gather(ahead)
        ahead = start(k + 1)
        n = len(found[0])
        if any(len(part) != n for part in found):
            raise ValueError(
                f"partition {k} of X has {n} rows, but that of another collection {[len(p) for p in found[1:]]}"
            )
        computed = iter(found)
        yield tuple(
            next(computed) if part is not None else None if column is None else column[first : first + n]
            for part, column in zip(parts, columns, strict=True)
        )
        first += n


def predict_lazily(
    client: Client, local: Any, X: Any, method: str, width: int | None, dtype: Any, **options: Any
) -> Any:
    """Return what a method of a forest returns for a collection, as a Dask array, or a tuple of them with ``return_std``.

    The forest is scattered once, and each partition is predicted where it is.
    """
    forest = dask.delayed(client.scatter(local, hash=False))
    n_results = 2 if options.get("return_std") else 1
    ask = dask.delayed(call, pure=False, nout=n_results if n_results > 1 else None)
    parts = [ask(forest, method, part, options) for part in split(X)]
    lengths = X.chunks[0] if isinstance(X, dask.array.Array) else len(parts) * (np.nan,)
    results = []
    for r in range(n_results):
        blocks = [
            dask.array.from_delayed(
                part[r] if n_results > 1 else part, (n,) if width is None else (n, width), dtype=dtype
            )
            for part, n in zip(parts, lengths, strict=True)
        ]
        results.append(dask.array.concatenate(blocks, allow_unknown_chunksizes=True))
    return tuple(results) if n_results > 1 else results[0]


def call(forest: Any, method: str, X: Any, options: dict[str, Any]) -> Any:
    """Return what a method of a forest returns."""
    return getattr(forest, method)(X, **options)
