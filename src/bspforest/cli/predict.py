"""``bspforest predict``: predictions of a saved model for the rows of a stream, as CSV or Parquet."""

from __future__ import annotations

import argparse
import csv
import io
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .arrow import pa, pa_csv, pq
from .errors import UsageError
from .options import check_jobs, data_options
from .record import load_model
from .report import Ticker
from .stream import Chunk, continue_stream
from .target import Target

CHUNK = 4_096
PREDICTION = "prediction"


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    check_jobs(options)
    to_file = options.output != "-"
    if to_file and Path(options.output).exists() and not options.overwrite:
        raise UsageError(f"{options.output} is there already: --overwrite replaces it")
    forest, record = load_model(options.model)
    target = record.make_target()
    _check_asked(options, target.task)
    forest.set_params(n_jobs=options.jobs)
    ignored = (*record.dropped, target.name)
    stream = continue_stream(data_options(options), record.make_encoder(), None, ignored, keep=options.keep)
    ticker = Ticker(options.progress if to_file or options.progress is not None or not sys.stdout.isatty() else False)
    with _open_output(options.output) as out:
        try:
            while (chunk := stream.next(CHUNK, learn=False)) is not None:
                out.write(pa.table(_predict(forest, target, chunk, options)))
                ticker.show(stream.n_rows, stream.source.share_read)
        finally:
            ticker.close()
    if stream.n_skipped:
        print(f"{stream.n_skipped:,} malformed rows skipped: they have no prediction", file=sys.stderr)
    if to_file:
        print(f"{stream.n_rows:,} rows predicted: {options.output}")
    return 0


def _check_asked(options: argparse.Namespace, task: str) -> None:
    """An error for what the model cannot give."""
    if task == "regression" and options.proba:
        raise UsageError(f"--proba goes with classification, and {options.model} predicts numbers: --std, --quantiles")
    if task == "classification" and (options.std or options.quantiles):
        raise UsageError(f"--std and --quantiles go with regression, and {options.model} predicts classes: --proba")


def _predict(
    forest: Any, target: Target, chunk: Chunk, options: argparse.Namespace
) -> dict[str, pa.Array | np.ndarray]:
    """The columns of the output for some rows."""
    columns: dict[str, pa.Array | np.ndarray] = dict(chunk.kept)
    if target.classes is not None:
        shares = forest.predict_proba(chunk.X)
        columns[PREDICTION] = _plain(target.names[shares.argmax(axis=1)])
        if options.proba:
            columns |= {f"p({label})": shares[:, k] for k, label in enumerate(target.classes)}
    elif options.std:
        columns[PREDICTION], columns["std"] = forest.predict(chunk.X, return_std=True)
    else:
        columns[PREDICTION] = forest.predict(chunk.X)
    if options.quantiles:
        values = forest.predict_quantiles(chunk.X, list(options.quantiles))
        columns |= {f"q{share:g}": values[:, k] for k, share in enumerate(options.quantiles)}
    return columns


def _plain(values: np.ndarray) -> np.ndarray:
    return values.astype(object) if values.dtype.kind == "U" else values


# ----------------------------------------------------------------------------------------------------------------------
# Output


class Output(Protocol):
    """Takes tables with the same columns."""

    def write(self, table: pa.Table) -> None: ...


class _CsvOutput:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._begun = False

    def write(self, table: pa.Table) -> None:
        if not self._begun:  # pyarrow would put all names in quotes
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(table.column_names)
            self._stream.write(header.getvalue().encode())
            self._begun = True
        try:
            self._stream.write(_format(table, "none"))
        except pa.ArrowInvalid:  # some text holds a comma, a quote or a line end; pyarrow then quotes all text
            self._stream.write(_format(table, "needed"))
        self._stream.flush()


def _format(table: pa.Table, quoting: str) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(table, sink, pa_csv.WriteOptions(include_header=False, quoting_style=quoting))
    return sink.getvalue()


class _ParquetOutput:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@contextmanager
def _open_output(name: str) -> Iterator[Output]:
    """Where predictions go. A file appears under its name when it is complete, and not at all after an error."""
    if name == "-":
        yield _CsvOutput(sys.stdout.buffer)
        return
    path = Path(name)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as stream:
            if path.suffix in (".parquet", ".pq"):
                out = _ParquetOutput(stream)
                yield out
                out.close()
            else:
                yield _CsvOutput(stream)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
