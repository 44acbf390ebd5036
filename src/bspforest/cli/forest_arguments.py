"""Arguments about the forest, and the parameters of the estimator they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .argument_types import automatic, automatic_count, count, half_life, positive, rows_or_size
from .errors import UsageError

MAX_JOBS = 8192  # as in a model file
NONE = "none"  # in the command what None is in Python: an argument that is None was not given


class ForestArgument(NamedTuple):
    """An argument, the parameter of the estimator it sets, and its default in the command."""

    parameter: str
    default: Any
    help: str
    type: Callable[[str], Any] = str
    choices: tuple[str, ...] | None = None


FOREST_ARGUMENTS = {
    "trees": ForestArgument("n_estimators", 200, "number of trees", count),
    "cuts": ForestArgument(
        "cuts",
        "auto",
        "oblique or Mondrian, by held-out error; oblique; Mondrian; or in any direction",
        choices=("auto", "pairs", "axes", "isotropic"),
    ),
    "prediction": ForestArgument(
        "prediction",
        "ridge",
        "ridge: all nodes around a row contribute, with weights found by ridge regression; mean: the mean label of the leaves, "
        "as in the paper, faster and with less memory",
        choices=("ridge", "mean"),
    ),
    "scaling": ForestArgument(
        "scaling",
        "auto",
        "scale features by their ranges (minmax), by ranks (quantile), or not at all; auto: ranges or ranks by held-out error, "
        "ranges for means",
        choices=("auto", "minmax", "quantile", NONE),
    ),
    "feature_weights": ForestArgument(
        "feature_weights",
        "learned",
        "ridge: learn a weight for each feature if that lowers the held-out error; none: equal weights",
        choices=("learned", NONE),
    ),
    "bandwidth": ForestArgument(
        "bandwidth", "auto", "ridge: larger gives smaller nodes more weight; auto: by held-out error", automatic
    ),
    "ridge": ForestArgument("ridge", "auto", "ridge: penalty of ridge regression; auto: by held-out error", automatic),
    "budget_scale": ForestArgument("budget_scale", 1.0, "means: how far trees grow; tune it first", positive),
    "min_samples_split": ForestArgument(
        "min_samples_split",
        "auto",
        "nodes with fewer rows are not cut; auto: 32 with the default number of trees, 4 for means",
        automatic_count,
    ),
    "half_life": ForestArgument(
        "half_life",
        "auto",
        "ridge: rows weigh half as much for each N rows that they are older; auto: by replaying the latest rows; none: all alike",
        half_life,
    ),
    "window": ForestArgument(
        "window", None, "hold only the latest N rows, or as many as fit into a size such as 2GB", rows_or_size
    ),
    "seed": ForestArgument("random_state", 0, "seed of the random numbers", int),
    "jobs": ForestArgument("n_jobs", None, "threads, without effect on the result (default: 1)", int),
}


def add_forest_arguments(parser: argparse.ArgumentParser, names: Iterable[str] = FOREST_ARGUMENTS) -> None:
    """Add arguments about the forest. An argument that is not given is None."""
    group = parser.add_argument_group("the forest")
    for name in names:
        argument = FOREST_ARGUMENTS[name]
        default = "" if argument.default is None else f" (default: {argument.default})"
        group.add_argument(
            "--" + name.replace("_", "-"),
            type=argument.type,
            choices=argument.choices,
            metavar=None if argument.choices else "F" if argument.type in (positive, automatic) else "N",
            help=argument.help + default,
        )


def make_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of a new forest. Arguments that a command does not have count as not given."""
    given = {name: getattr(options, name, None) for name in FOREST_ARGUMENTS}
    if given["min_samples_split"] == 1:
        raise UsageError("--min-samples-split must be at least 2")
    if given["seed"] is not None and not 0 <= given["seed"] < 2**32:
        raise UsageError("--seed must be from 0 to 4294967295")
    check_jobs(given["jobs"])
    _check_values(given)
    return {
        argument.parameter: argument.default if given[name] is None else None if given[name] == NONE else given[name]
        for name, argument in FOREST_ARGUMENTS.items()
    }


def get_arguments(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that stand for the parameters of a forest."""
    arguments = {name: parameters[argument.parameter] for name, argument in FOREST_ARGUMENTS.items()}
    return {
        name: NONE if value is None and FOREST_ARGUMENTS[name].default is not None else value
        for name, value in arguments.items()
    }


def _check_values(given: dict[str, Any]) -> None:
    """Refuse arguments that need other values than those chosen: they would have no effect."""
    if given["prediction"] == "mean":
        for name in ("feature_weights", "bandwidth", "ridge", "half_life"):
            if given[name] is not None:
                raise UsageError(f"--{name.replace('_', '-')} has no effect with --prediction mean")
    elif given["budget_scale"] is not None:
        raise UsageError(
            "--budget-scale needs --prediction mean: with ridge regression, trees grow until nodes are small"
        )


def check_jobs(jobs: int | None) -> None:
    """Refuse a number of threads with which a model file could not be read again."""
    if jobs is not None and not 1 <= abs(jobs) <= MAX_JOBS:
        raise UsageError(f"--jobs must be from 1 to {MAX_JOBS}, or negative: -1 means all processors")
