"""The only place where pyarrow is imported."""

from __future__ import annotations

from .errors import CommandError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq
except ImportError as error:
    raise CommandError(f"reading data needs pyarrow ({error}): pip install 'bspforest[cli]'") from None

__all__ = ["pa", "pa_csv", "pc", "pq"]
