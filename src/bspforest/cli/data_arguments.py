"""Arguments about DATA that several commands share, and the options they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .argument_types import names
from .data.options import DataOptions
from .errors import UsageError

FORMATS = """\
DATA is a CSV file (also .gz, .bz2, .xz, .zst, .lz4), a Parquet file or a folder of them, an Arrow
IPC file or a NumPy archive (.npz with X and y); "-" is standard input, CSV or an Arrow stream.
It is read in blocks, never as a whole."""

COLUMNS = """\
Numbers and booleans are used as they are. A text column becomes one feature of 0 and 1 for each of
its values, at most 64, and one for all others; an empty value is a value. Missing numbers are
replaced by the mean so far, and marked by a feature of 0 and 1. New values and first gaps may come
at any time. Markers such as NA, ? and null are known; --na-values adds others, which in a text
column count as empty. Dates are refused: leave them out with --drop, or replace them by numbers."""


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about how DATA is read."""
    group = parser.add_argument_group("reading")
    group.add_argument("--delimiter", metavar="C", help="between the fields of CSV (default: detected)")
    group.add_argument(
        "--decimal",
        choices=[".", ","],
        metavar="C",
        help='decimal point of numbers in text, such as "," in 1,5 (default: .)',
    )
    group.add_argument("--no-header", action="store_true", help="the first line is data; columns are named c1, c2, ...")
    group.add_argument(
        "--on-error",
        choices=["stop", "skip", "skip-unlabelled"],
        default="stop",
        help="at a malformed row: stop with its line number, skip and count it, or skip it only if the target is empty "
        "(default: stop)",
    )


def add_column_arguments(parser: argparse.ArgumentParser, *, needs_target: bool = True) -> None:
    """Add the arguments about the columns of DATA."""
    group = parser.add_argument_group("columns")
    add_target_arguments(group, required=needs_target)
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


def add_target_arguments(group: argparse._ArgumentGroup, *, required: bool = True) -> None:
    """Add the arguments about the target, and about what is missing in any column."""
    group.add_argument("--target", metavar="COL", required=required, help="the column to predict")
    group.add_argument(
        "--task",
        choices=["classification", "regression"],
        help="default: classification if the target is text, boolean or at most 20 different whole numbers",
    )
    group.add_argument(
        "--classes",
        metavar="A,B,...",
        help="all classes that can occur: rows of others are malformed (default: those in DATA, which is then read twice; "
        "of a pipe, those in its first 1,000 rows. New ones are learned as they come)",
    )
    group.add_argument(
        "--na-values",
        type=names,
        metavar="A,B,...",
        default=(),
        help="additional markers of missing values, such as -999 or unknown; saved with the model",
    )


def add_key_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about keys of rows."""
    group = parser.add_argument_group("keys")
    group.add_argument(
        "--key",
        metavar="COL",
        help="a column that names each row, or whose it is, for `bspforest forget --key`; not learned",
    )
    group.add_argument(
        "--hash-keys", action="store_true", help="keep only salted hashes of keys, which do not tell what they are"
    )


def make_data_options(options: argparse.Namespace, na_values: Sequence[str] | None = None) -> DataOptions:
    """Return how DATA is to be read, with the markers of missing values given, or with those of a model."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(options.delimiter, options.delimiter)
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise UsageError(f"--delimiter must be one character, got {options.delimiter!r}")
    if options.decimal is not None and options.decimal == delimiter:
        raise UsageError(
            f"--decimal {options.decimal} and --delimiter {delimiter} are the same character, which cannot be both"
        )
    return DataOptions(
        options.data,
        delimiter=delimiter,
        decimal=options.decimal or ".",
        na_values=tuple(options.na_values if na_values is None else na_values),
        header=not options.no_header,
        on_error=options.on_error,
        drop=getattr(options, "drop", ()),
        text=getattr(options, "text", ()),
        number=getattr(options, "number", ()),
        key=getattr(options, "key", None),
    )
