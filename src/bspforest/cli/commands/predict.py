"""``bspforest predict``: predict the rows of a stream with a saved model, as CSV or Parquet."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...replacing import replacing
from ..data.arrow import pa, pa_csv, pq
from ..data.column_kinds import TEXT, TYPES
from ..data.schema import Schema
from ..data.stream_setup import open_known_stream
from ..data.target import Target
from ..data_arguments import make_data_options
from ..errors import CommandError, UsageError
from ..forest_arguments import check_jobs
from ..formatting import format_count
from ..model.record import load_model
from ..output_files import check_new
from ..progress import RowProgress
from ..terminal import is_closed, print_errors, print_lines

CHUNK_ROWS = 4_096
PREDICTION = "prediction"


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_jobs(options.jobs)
    _check_output(options)
    to_file = options.output != "-"
    forest, record = load_model(options.model)
    known, target = record.make_schema(), record.make_target()
    _check_task(options, target.task)
    schema = _make_schema(known, target, options)
    forest.set_params(n_jobs=options.jobs)
    how = make_data_options(options, record.na_values)
    stream = open_known_stream(how, known, None, ignored=(*record.list_ignored(), target.name), keep=options.keep)
    shares_terminal = not to_file and sys.stdout.isatty()  # with the predictions
    progress = RowProgress(False if shares_terminal and options.progress is None else options.progress)
    with _open_output(options) as out:
        try:
            while (chunk := stream.next(CHUNK_ROWS)) is not None:
                columns = [*chunk.kept.values(), *_predict(forest, target, chunk.table, options)]
                out.write(pa.table(columns, schema=schema))
                progress.show(stream.n_rows, stream.source.share_read)
            if not stream.n_rows:
                out.write(schema.empty_table())
        finally:
            progress.close()
    if stream.n_skipped:
        has = "it has" if stream.n_skipped == 1 else "they have"
        print_errors(f"{format_count(stream.n_skipped, 'malformed row')} skipped: {has} no prediction")
    if to_file:
        print_lines(f"{format_count(stream.n_rows, 'row')} predicted: {options.output}")
    return 0


def _check_output(options: argparse.Namespace) -> None:
    """Refuse an output file that could not be written, before any data is read."""
    if options.output != "-":
        hint = "; -o - writes to standard output"
        check_new(Path(options.output), "-o", overwrite=options.overwrite, hint=hint)
    elif is_closed(sys.stdout):
        raise CommandError("standard output is closed: write the predictions to a file with -o")


def _check_task(options: argparse.Namespace, task: str) -> None:
    """Refuse options that are not for the task of the model."""
    if task == "regression" and options.proba:
        raise UsageError(
            f"--proba is for classification, but {options.model} predicts numbers: use --std or --quantiles"
        )
    if task == "classification" and (options.std or options.quantiles):
        raise UsageError(f"--std and --quantiles are for regression, but {options.model} predicts classes: use --proba")


def _make_schema(columns: Schema, target: Target, options: argparse.Namespace) -> pa.Schema:
    """Return the columns of the output: those kept, then those of `_predict`."""
    fields = [(name, TYPES[columns.kinds.get(name, TEXT)]) for name in options.keep]
    fields.append((PREDICTION, pa.float64() if target.classes is None else TYPES[target.kind]))
    fields += [(f"p({label})", pa.float64()) for label in target.classes or () if options.proba]
    fields += [("std", pa.float64())] if options.std else []
    fields += [(f"q{share:g}", pa.float64()) for share in options.quantiles]
    names = [name for name, _ in fields]
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise UsageError(f"two columns of the output would be named {name!r}: see --keep and --quantiles")
    return pa.schema(fields)


def _predict(forest: Any, target: Target, X: pa.Table, options: argparse.Namespace) -> list[np.ndarray]:
    """Return the columns of predictions, in the order of `_make_schema`."""
    if target.classes is not None:
        probabilities = forest.predict_proba(X)
        return [target.names[probabilities.argmax(axis=1)], *(probabilities.T if options.proba else ())]
    q = np.array(options.quantiles) if options.quantiles else None
    mean, std, quantiles = forest._predict_labels(X, options.std, q)
    return [mean, *([std] if options.std else ()), *(quantiles.T if options.quantiles else ())]


# ----------------------------------------------------------------------------------------------------------------------
# Output


class Output(Protocol):
    """Where predictions are written, as tables with the same columns."""

    def write(self, table: pa.Table) -> None: ...


class _CsvOutput:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._has_header = False

    def write(self, table: pa.Table) -> None:
        if not self._has_header:  # pyarrow would quote all names
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(table.column_names)
            self._stream.write(header.getvalue().encode())
            self._has_header = True
        try:
            self._stream.write(_format(table, "none"))
        except pa.ArrowInvalid:  # some text contains a comma, a quote or a line end: pyarrow then quotes all text
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
def _open_output(options: argparse.Namespace) -> Iterator[Output]:
    """Open the output. A file appears under its name when it is complete, and not at all after an error."""
    if options.output == "-":
        yield _CsvOutput(sys.stdout.buffer)
        return
    path = Path(options.output)
    with replacing(path, overwrite=options.overwrite) as stream:
        if path.suffix in (".parquet", ".pq"):
            out = _ParquetOutput(stream)
            yield out
            out.close()
        else:
            yield _CsvOutput(stream)
