"""From the arguments of a command to the parameters of a forest, and to how its data is read."""

from __future__ import annotations

import argparse
from typing import Any

from .data.stream import DataOptions
from .errors import UsageError

# The arguments of a forest, the parameters they stand for, and their defaults in the command.
FOREST: dict[str, tuple[str, Any]] = {
    "trees": ("n_estimators", 100),
    "cuts": ("cuts", "pairs"),
    "budget_scale": ("budget_scale", 1.0),
    "min_samples_split": ("min_samples_split", 4),
    "window": ("window", None),
    "refinement": ("refinement", "exact"),
    "seed": ("random_state", 0),
    "jobs": ("n_jobs", None),
}


def make_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """The parameters of a new forest."""
    if options.min_samples_split == 1:
        raise UsageError("--min-samples-split must be at least 2")
    if options.seed is not None and not 0 <= options.seed < 2**32:
        raise UsageError("--seed must be from 0 to 4294967295")
    check_jobs(options)
    given = {name: getattr(options, argument) for argument, (name, _) in FOREST.items()}
    return {name: default if given[name] is None else given[name] for name, default in FOREST.values()}


def check_jobs(options: argparse.Namespace) -> None:
    """An error for a number of threads that means nothing."""
    if options.jobs == 0:
        raise UsageError("--jobs must not be 0; -1 is all processors")


def data_options(options: argparse.Namespace) -> DataOptions:
    """How DATA is to be read."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(options.delimiter, options.delimiter)
    if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
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
