"""Arguments that several commands share: their types, their groups, and what the help says about data."""

from __future__ import annotations

import argparse
import math

FORMATS = """\
DATA is a CSV file (also .gz, .bz2, .xz, .zst, .lz4), a Parquet file or a folder of them, an Arrow
IPC file or a NumPy archive (.npz with X and y); "-" is standard input, CSV or an Arrow stream.
It is read in blocks, never as a whole."""

COLUMNS = """\
Numbers and booleans are used as they are. Text columns become one column of 0 and 1 for each of
their values in the first 1,000 rows (at most 32), and one for all others. Missing numbers are
filled by the mean so far, with a column that says where if the first 1,000 rows have any. Dates
are refused: --drop them, or give the parts that matter as numbers."""


def count(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text.replace("_", "").replace(",", ""))
    if value < 1:
        raise ValueError
    return value


count.__name__ = "whole number of at least 1"


def positive(text: str) -> float:
    """A number above 0."""
    value = float(text)
    if not (0 < value < math.inf):
        raise ValueError
    return value


positive.__name__ = "number above 0"


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def fractions(text: str) -> tuple[float, ...]:
    """Numbers from 0 to 1 with commas between them."""
    values = tuple(float(part) for part in text.split(","))
    if not all(0 <= value <= 1 for value in values):
        raise ValueError
    return values


fractions.__name__ = "list of numbers from 0 to 1"


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How DATA is read."""
    group = parser.add_argument_group("reading")
    group.add_argument("--delimiter", metavar="C", help="between the fields of CSV (default: found in the first line)")
    group.add_argument("--no-header", action="store_true", help="the first line is data; columns are named c1, c2, ...")
    group.add_argument(
        "--on-error",
        choices=["stop", "skip"],
        default="stop",
        help="at a malformed row: stop with its line number, or count it and leave it out (default: stop)",
    )


def add_columns(parser: argparse.ArgumentParser) -> None:
    """What its columns are."""
    group = parser.add_argument_group("columns")
    group.add_argument("--target", metavar="COL", required=True, help="the column to predict")
    group.add_argument(
        "--task",
        choices=["classification", "regression"],
        help="default: classification if the target is text, boolean or up to 20 different whole numbers",
    )
    group.add_argument(
        "--classes",
        metavar="A,B,...",
        help="all classes that can occur "
        "(default: those in DATA, which is read twice; in the first 1,000 rows of a pipe)",
    )
    group.add_argument("--drop", type=names, metavar="COL,...", default=(), help="columns to leave out")
    group.add_argument(
        "--text", type=names, metavar="COL,...", default=(), help="columns of numbers that are codes, not sizes"
    )
    group.add_argument(
        "--number",
        type=names,
        metavar="COL,...",
        default=(),
        help="columns in which anything but a number is a mistake",
    )


def add_forest(parser: argparse.ArgumentParser) -> None:
    """The parameters of a forest."""
    group = parser.add_argument_group("the forest")
    group.add_argument("--trees", type=count, metavar="N", help="default: 100")
    group.add_argument(
        "--cuts", choices=["pairs", "axes", "isotropic"], help="oblique, Mondrian, or any direction (default: pairs)"
    )
    group.add_argument(
        "--budget-scale", type=positive, metavar="F", help="how far trees grow; tune it first (default: 1)"
    )
    group.add_argument(
        "--min-samples-split", type=count, metavar="N", help="nodes with fewer rows are not cut (default: 4)"
    )
    group.add_argument(
        "--window", type=count, metavar="N", help="remember the latest N rows only, and forget older ones"
    )
    group.add_argument(
        "--refinement", choices=["exact", "redraw"], help="redraw: the paper's Algorithm 4 as printed (default: exact)"
    )
    group.add_argument("--seed", type=int, metavar="N", help="default: 0")
    group.add_argument("--jobs", type=int, metavar="N", help="threads; the result is the same (default: 1)")


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Whether progress is shown."""
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="progress on standard error (default: only on a terminal)",
    )
