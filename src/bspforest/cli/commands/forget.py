"""``bspforest forget``: remove rows from a model file, exactly."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path

import numpy as np

from ...files import lock_model, save
from ..errors import UsageError
from ..formatting import format_count
from ..model.record import check_regular, is_compressed, load_forest
from ..output_files import check_new
from ..terminal import print_lines

LONGEST_RANGE = 10**9  # rows; more than any model holds


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    output = options.output or options.model
    if options.output:
        check_new(options.output, "--output", overwrite=options.overwrite)
    by_key = options.key is not None or options.keys is not None
    wanted = {"keys": _read_keys(options)} if by_key else {"ids": _read_ids(options)}
    check_regular(options.model)
    with lock_model(output, wait=options.wait) as lock:  # from reading to writing: no other change is lost
        compress = is_compressed(options.model)
        forest, extra, record = load_forest(options.model)
        if record is not None and record.key is None and by_key:
            option = "--keys" if options.key is None else "--key"
            raise UsageError(
                f"{option}: {options.model} was learned without --key, so its rows have no keys; see --ids"
            )
        n_held = forest.n_samples_
        forest.forget(**wanted, strict=True)  # nobody waits for an answer
        overwrite = options.overwrite or not options.output
        save(forest, output, extra=extra, overwrite=overwrite, compress=compress, lock=lock)
    print_lines(f"{format_count(n_held - forest.n_samples_, 'row')} forgotten, {forest.n_samples_:,} held: {output}")
    return 0


def _read_ids(options: argparse.Namespace) -> np.ndarray:
    """Return the rows given by ``--ids`` or ``--ids-from``."""
    entries = options.ids.split(",") if options.ids is not None else _read_lines(options.ids_from)
    ranges = [_parse_range(entry.strip()) for entry in entries if entry.strip()]
    if not ranges:
        raise UsageError("no rows are given")
    return np.concatenate(ranges)


def _read_keys(options: argparse.Namespace) -> list[str]:
    """Return the keys given by ``--key``, or in the file of ``--keys``, each once."""
    try:
        lines = _read_lines(options.keys) if options.key is None else options.key
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {options.keys}: --keys names a file with one key per line; for one key: --key "
            f"{shlex.quote(options.keys)}"
        ) from None
    keys = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not keys:
        raise UsageError(
            f"--keys {options.keys}: no keys are given" if options.key is None else "--key: the key is empty"
        )
    return keys


def _read_lines(path: str) -> list[str]:
    text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    return text.split("\n")


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
