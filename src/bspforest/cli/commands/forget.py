"""``bspforest forget``: remove rows from a model file, exactly."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np

from ...persistence import identify, lock_model, save
from ..errors import UsageError
from ..model.record import KEY, check_regular, load_forest
from ..output_files import check_new
from ..terminal import print_lines

LONGEST_RANGE = 10**9  # rows; more than any model holds


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    output = options.output or options.model
    if options.output:
        check_new(options.output, "--output", overwrite=options.overwrite)
    ids = _read_ids(options)
    check_regular(options.model)
    with lock_model(output, wait=options.wait) as lock:  # from reading to writing: no other change is lost
        before = identify(output)
        forest, extra, record = load_forest(options.model, to_change=True)
        forest.forget(ids)
        if extra is not None and record is not None:
            encoder = record.make_encoder()
            encoder.recount(forest.held_rows().X)
            extra[KEY]["columns"] = encoder.to_json()
        overwrite = options.overwrite or not options.output
        save(forest, output, extra=extra, overwrite=overwrite, lock=lock, expected=before)
    print_lines(f"{len(ids):,} rows forgotten, {forest.n_samples_:,} held: {output}")
    return 0


def _read_ids(options: argparse.Namespace) -> np.ndarray:
    """Return the rows given by ``--ids`` or ``--ids-from``."""
    if options.ids is not None:
        entries = options.ids.split(",")
    elif options.ids_from == "-":
        entries = sys.stdin.read().split("\n")
    else:
        entries = Path(options.ids_from).read_text(encoding="utf-8").split("\n")
    ranges = [_parse_range(entry.strip()) for entry in entries if entry.strip()]
    if not ranges:
        raise UsageError("no rows are given")
    return np.concatenate(ranges)


def _parse_range(entry: str) -> np.ndarray:
    """Return the rows of one entry.

    >>> _parse_range("100-102").tolist()
    [100, 101, 102]
    """
    found = re.fullmatch(r"(\d{1,18})\s*(?:-\s*(\d{1,18}))?", entry)
    if not found or (found[2] and int(found[2]) < int(found[1])):
        raise UsageError(f"{entry!r} is neither a row number such as 17 nor a range such as 100-199")
    first, last = int(found[1]), int(found[2] or found[1])
    if last - first > LONGEST_RANGE:
        raise UsageError(f"{entry!r} names more rows than any model holds")
    return np.arange(first, last + 1)
