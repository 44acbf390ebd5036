"""Arguments about DATA that several commands share, and the options they stand for."""

from __future__ import annotations

import argparse

from .argument_types import names
from .data.options import DataOptions
from .errors import UsageError

FORMATS = """\
DATA is a CSV file (also .gz, .bz2, .xz, .zst, .lz4), a Parquet file or a folder of them, an Arrow
IPC file or a NumPy archive (.npz with X and y); "-" is standard input, CSV or an Arrow stream.
It is read in blocks, never as a whole."""

COLUMNS = """\
Numbers and booleans are used as they are. A text column becomes one column of 0 and 1 for each of
its values in the first 1,000 rows (at most 32), and one for all others. Missing numbers are
replaced by the mean so far; if any is missing in the first 1,000 rows, a column of 0 and 1 marks
them. Dates are refused: leave them out with --drop, or replace them by numbers."""


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about how DATA is read."""
    group = parser.add_argument_group("reading")
    group.add_argument("--delimiter", metavar="C", help="between the fields of CSV (default: detected)")
    group.add_argument("--no-header", action="store_true", help="the first line is data; columns are named c1, c2, ...")
    group.add_argument(
        "--on-error",
        choices=["stop", "skip"],
        default="stop",
        help="at a malformed row: stop with its line number, or skip and count it (default: stop)",
    )


def add_column_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about the columns of DATA."""
    group = parser.add_argument_group("columns")
    group.add_argument("--target", metavar="COL", required=True, help="the column to predict")
    group.add_argument(
        "--task",
        choices=["classification", "regression"],
        help="default: classification if the target is text, boolean or at most 20 different whole numbers",
    )
    group.add_argument(
        "--classes",
        metavar="A,B,...",
        help="all classes that can occur (default: those in DATA, which is then read twice; for a pipe, those in its "
        "first 1,000 rows)",
    )
    group.add_argument("--drop", type=names, metavar="COL,...", default=(), help="columns to leave out")
    group.add_argument(
        "--text", type=names, metavar="COL,...", default=(), help="columns whose numbers are codes, not quantities"
    )
    group.add_argument(
        "--number",
        type=names,
        metavar="COL,...",
        default=(),
        help="columns of numbers, in which any other value is a mistake",
    )


def make_data_options(options: argparse.Namespace) -> DataOptions:
    """Return how DATA is to be read."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(options.delimiter, options.delimiter)
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise UsageError(f"--delimiter must be one character, got {options.delimiter!r}")
    return DataOptions(
        options.data,
        delimiter=delimiter,
        header=not options.no_header,
        skip=options.on_error == "skip",
        drop=getattr(options, "drop", ()),
        text=getattr(options, "text", ()),
        number=getattr(options, "number", ()),
    )
