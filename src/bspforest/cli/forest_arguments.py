"""Arguments about the forest, and the parameters of the estimator they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from .argument_types import count, positive
from .errors import UsageError

MOST_JOBS = 8192  # as in a model file


class ForestArgument(NamedTuple):
    """An argument, the parameter of the estimator it sets, and its default in the command."""

    parameter: str
    default: Any
    help: str
    type: Callable[[str], Any] = str
    choices: tuple[str, ...] | None = None


FOREST_ARGUMENTS = {
    "trees": ForestArgument("n_estimators", 100, "number of trees", count),
    "cuts": ForestArgument(
        "cuts", "pairs", "oblique, Mondrian, or in any direction", choices=("pairs", "axes", "isotropic")
    ),
    "budget_scale": ForestArgument("budget_scale", 1.0, "how far trees grow; tune it first", positive),
    "min_samples_split": ForestArgument("min_samples_split", 4, "nodes with fewer rows are not cut", count),
    "window": ForestArgument("window", None, "remember the latest N rows only, and forget older ones", count),
    "refinement": ForestArgument(
        "refinement", "exact", "redraw: the paper's Algorithm 4 as printed", choices=("exact", "redraw")
    ),
    "seed": ForestArgument("random_state", 0, "seed of the random numbers", int),
    "jobs": ForestArgument("n_jobs", None, "threads, without effect on the result (default: 1)", int),
}


def add_forest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about the forest. An argument that is not given is None."""
    group = parser.add_argument_group("the forest")
    for name, argument in FOREST_ARGUMENTS.items():
        default = "" if argument.default is None else f" (default: {argument.default})"
        group.add_argument(
            "--" + name.replace("_", "-"),
            type=argument.type,
            choices=argument.choices,
            metavar=None if argument.choices else "F" if argument.type is positive else "N",
            help=argument.help + default,
        )


def make_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of a new forest."""
    if options.min_samples_split == 1:
        raise UsageError("--min-samples-split must be at least 2")
    if options.seed is not None and not 0 <= options.seed < 2**32:
        raise UsageError("--seed must be from 0 to 4294967295")
    check_jobs(options)
    given = {name: getattr(options, name) for name in FOREST_ARGUMENTS}
    return {
        argument.parameter: argument.default if given[name] is None else given[name]
        for name, argument in FOREST_ARGUMENTS.items()
    }


def check_jobs(options: argparse.Namespace) -> None:
    """Refuse a number of threads with which a model file could not be read again."""
    if options.jobs is not None and not 1 <= abs(options.jobs) <= MOST_JOBS:
        raise UsageError(f"--jobs must be from 1 to {MOST_JOBS}, or negative: -1 means all processors")
