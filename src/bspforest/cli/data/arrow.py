"""Import pyarrow, which is optional, in one place."""

from __future__ import annotations

from ..errors import CommandError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq
except ImportError as error:
    raise CommandError(f"reading data needs pyarrow ({error}): pip install 'bspforest[cli]'") from None

# While pyarrow parses, it replaces Python's signal handlers by its own, and about one SIGTERM or Ctrl-C in forty that
# arrives meanwhile is lost (pyarrow 26). A block is parsed in milliseconds, so Python's own handlers can wait for it.
pa.enable_signal_handlers(False)

__all__ = ["pa", "pa_csv", "pc", "pq"]
