"""Test-then-train on streams: each row is predicted and then learned, by BSPForest with default parameters and by river's models.

The peers are ARF, AMF and SRP of river with as many trees and otherwise default parameters; the baselines are the majority class
(or the mean label) and the previous label. All models get the same dicts through the same two calls. As in `river_scores.py`, AMF
is preceded by a `MinMaxScaler`, and ARF and SRP for regression by a `StandardScaler`; BSPForest scales features itself.

The streams are Electricity and flights from New York (``stream_elec.npz`` and ``nycflights13.npz`` in the folder named by
BSPFOREST_DATA, skipped with a notice if there is no such file), the numeric single-output datasets inside the package of river,
and Friedman's function of ten features whose order is reversed halfway.

``python benchmarks/streams.py`` prints Markdown tables, and progress to stderr; ``python benchmarks/streams.py Electricity Bananas
--rows 1000`` runs a part. ``--ablation prediction=mean`` adds a BSPForest with other parameters. Run ``bspforest compile`` first.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import datasets, dummy, ensemble, forest, preprocessing, stats

from bspforest.datasets import make_friedman
from bspforest.river import BSPForestClassifier, BSPForestRegressor
from bspforest.river.base import RiverForest

CLIP = 1e-15  # probabilities are clipped to [CLIP, 1 - CLIP] in the log loss
SETTLED = 200  # the longest learn call is sought after so many rows
WARM_UP = 1000  # rows that a throwaway forest learns first, so that loading kernels is not timed


class Stream(NamedTuple):
    """Rows in the order in which they are predicted and learned."""

    name: str
    classify: bool
    rows: list[tuple[dict, Any]]  # features and label


class Result(NamedTuple):
    """The scores and costs of a model on the rows it reached."""

    n_rows: int  # rows reached; fewer than the stream has if the model was stopped
    score: float  # accuracy or RMSE
    log_loss: float  # NaN for regression
    seconds: float
    memory: int  # bytes
    longest: float  # longest learn call, relative to learning a tenth of the rows held one by one


# ----------------------------------------------------------------------------------------------------------------------
# The protocol


def test_then_train(model: Any, stream: Stream, budget: float) -> Result:
    """Predict each row and then learn it, until the rows end or the model has taken ``budget`` seconds.

    The first row is learned only. Labels are predicted as the most probable ones, as river does. Time is that of the two calls.
    """
    predict = model.predict_proba_one if stream.classify else model.predict_one
    measure = measure_label if stream.classify else measure_number
    losses = []
    n_rows, predicting, learning, longest = 0, 0.0, 0.0, 0.0
    for x, y in stream.rows:
        if predicting + learning > budget and losses:
            break
        started = time.perf_counter()
        answer = predict(x) if n_rows else None
        predicted = time.perf_counter()
        model.learn_one(x, y)
        learned = time.perf_counter()
        if n_rows:
            losses.append(measure(answer, y))
        if n_rows >= SETTLED:
            n_held = min(n_rows, getattr(model, "window", None) or n_rows)
            longest = max(longest, (learned - predicted) / (n_held / 10 * learning / n_rows))
        predicting += predicted - started
        learning += learned - predicted
        n_rows += 1
    first, second = np.mean(losses, axis=0)
    score = 1 - first if stream.classify else math.sqrt(first)
    return Result(n_rows, score, second, predicting + learning, count_bytes(model), longest)


def measure_label(shares: dict, y: Any) -> tuple[float, float]:
    """Return whether the most probable label is wrong, and the log loss. Labels that are not named have probability 0."""
    if not shares:
        return 1.0, -math.log(CLIP)
    share = shares.get(y, 0.0) / (sum(shares.values()) or 1.0)
    return float(max(shares, key=shares.__getitem__) != y), -math.log(min(max(share, CLIP), 1 - CLIP))


def measure_number(value: float, y: float) -> tuple[float, float]:
    """Return the squared error, and NaN for the log loss."""
    return (value - y) ** 2, math.nan


def count_bytes(model: Any) -> int:
    """Return the memory of a model at the end: every object that can be reached from it, and the data of arrays, once.

    One count for all models, because that of river takes the data of arrays twice. What river holds in C or Rust is missing.
    """
    return RiverForest._raw_memory_usage.fget(model)  # type: ignore[attr-defined]


# ----------------------------------------------------------------------------------------------------------------------
# Models


def make_models(classify: bool, trees: int, seed: int, ablations: list[dict]) -> dict[str, Callable[[], Any]]:
    """Return a function for each model that makes it; BSPForest with default parameters first, then the ablations."""
    kind = BSPForestClassifier if classify else BSPForestRegressor
    models: dict[str, Callable] = {}
    for n in dict.fromkeys([trees, 100]):
        models[f"BSPForest, {n} trees"] = lambda n=n: kind(n, seed=seed)
    for settings in ablations:
        name = ", ".join(f"{key}={value}" for key, value in settings.items())
        models[f"BSPForest, {trees} trees, {name}"] = lambda settings=settings: kind(trees, seed=seed, **settings)
    if classify:
        return models | {
            "ARF": lambda: forest.ARFClassifier(trees, seed=seed),
            "AMF": lambda: preprocessing.MinMaxScaler() | forest.AMFClassifier(trees, seed=seed),
            "SRP": lambda: ensemble.SRPClassifier(n_models=trees, seed=seed),
            "majority class": dummy.PriorClassifier,
            "no change": dummy.NoChangeClassifier,
        }
    return models | {
        "ARF": lambda: preprocessing.StandardScaler() | forest.ARFRegressor(trees, seed=seed),
        "AMF": lambda: preprocessing.MinMaxScaler() | forest.AMFRegressor(trees, seed=seed),
        "SRP": lambda: preprocessing.StandardScaler() | ensemble.SRPRegressor(n_models=trees, seed=seed),
        "mean": lambda: dummy.StatisticRegressor(stats.Mean()),
        "no change": lambda: dummy.StatisticRegressor(stats.Shift(0)),
    }


def parse_settings(text: str) -> dict[str, Any]:
    """Return parameters given as ``name=value,name=value``; a value that is no Python literal is a string."""
    settings = {}
    for pair in text.split(","):
        name, found, value = pair.partition("=")
        if not found:
            raise argparse.ArgumentTypeError(f"expected name=value, got {pair!r}")
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value
    try:
        BSPForestRegressor(**settings)  # to refuse them now rather than after the first streams
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return settings


# ----------------------------------------------------------------------------------------------------------------------
# Streams


def number_features(x: dict) -> dict:
    """Replace each time by three numbers: days since 1970, month, hour."""
    numbers = {}
    for key, value in x.items():
        if isinstance(value, datetime):
            days = value.replace(tzinfo=None) - datetime(1970, 1, 1)
            numbers |= {f"{key} day": days.total_seconds() / 86_400, f"{key} month": value.month}
            numbers[f"{key} hour"] = value.hour
        else:
            numbers[key] = value
    return numbers


def find_shipped() -> dict[str, Callable[[int | None], Stream]]:
    """Return a function for each numeric dataset with a single output inside the package of river that reads it."""
    tasks = {datasets.base.BINARY_CLF: True, datasets.base.MULTI_CLF: True, datasets.base.REG: False}
    found: dict[str, Callable] = {}
    for name, kind in sorted(vars(datasets).items()):
        if not isinstance(kind, type) or not issubclass(kind, datasets.base.FileDataset):
            continue
        if issubclass(kind, datasets.base.RemoteDataset) or (data := kind()).task not in tasks:
            continue
        x, _ = next(iter(data))
        if all(isinstance(value, int | float) for value in number_features(x).values()):
            classify = tasks[data.task]
            found[name] = lambda limit, name=name, data=data, classify=classify: Stream(
                name, classify, [(number_features(x), y) for x, y in islice(data, limit)]
            )
    return found


def make_stream(name: str, classify: bool, X: np.ndarray, y: np.ndarray) -> Stream:
    """Make a stream of the rows of arrays."""
    names = [f"x{k}" for k in range(X.shape[1])]
    rows = [(dict(zip(names, row, strict=True)), label) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    return Stream(name, classify, rows)


def read_archive(name: str, file: str, classify: bool, limit: int | None) -> Stream | None:
    """Read a stream from the folder named by BSPFOREST_DATA; None, with a notice, if there is no such file."""
    path = Path(os.environ.get("BSPFOREST_DATA", ".")) / file
    if not path.exists():
        print(f"{name} skipped: BSPFOREST_DATA names no folder with {file}", file=sys.stderr)
        return None
    with np.load(path, allow_pickle=False) as data:
        return make_stream(name, classify, data["X"][:limit].astype(float), data["y"][:limit])


def simulate_drift(n: int) -> Stream:
    """Simulate Friedman's function of ten features, whose order is reversed halfway: five other features matter then."""
    X, y, _ = make_friedman(n, 10, random_state=0)
    X[n // 2 :] = X[n // 2 :, ::-1].copy()
    return make_stream("FriedmanDrift", False, X, y)


STREAMS: dict[str, Callable[[int | None], Stream | None]] = {
    "Electricity": lambda limit: read_archive("Electricity", "stream_elec.npz", True, limit),
    **find_shipped(),
    "NYCFlights": lambda limit: read_archive("NYCFlights", "nycflights13.npz", False, limit or 50_000),
    "FriedmanDrift": lambda limit: simulate_drift(limit or 20_000),
}

# ----------------------------------------------------------------------------------------------------------------------
# Tables


def print_header(classify: bool) -> None:
    """Print the header of the table of one task."""
    scores = ["accuracy (%)", "log loss"] if classify else ["RMSE"]
    columns = ["stream", "model", "rows", *scores, "seconds", "MiB", "longest learn"]
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def print_result(stream: Stream, name: str, result: Result) -> None:
    """Print a row of the table; if the model was stopped, with the rows it reached."""
    n, whole = result.n_rows, len(stream.rows)
    rows = f"{n:,}" if n == whole else f"stopped at {n:,} of {whole:,}"
    scores = [f"{100 * result.score:.2f}", f"{result.log_loss:.3f}"] if stream.classify else [f"{result.score:.4g}"]
    longest = f"{result.longest:.2f}" if name.startswith("BSPForest") and n > SETTLED else ""
    cells = [stream.name, name, rows, *scores, f"{result.seconds:.1f}", f"{result.memory / 2**20:.2f}", longest]
    print(f"| {' | '.join(cells)} |", flush=True)


def explain(minutes: float) -> str:
    """Return what the columns are."""
    return (
        "\nEach row is predicted and then learned. Seconds are those of both calls together; MiB is the memory of the model at the "
        "end. The longest learn call is relative to learning a tenth of the rows held one by one, at the mean time per row until "
        f"then, after the first {SETTLED} rows. A model that takes more than {minutes:g} minutes on a stream is stopped, and its "
        f"scores are those of the rows it reached. Probabilities are at least {CLIP:g} in "
        "the log loss."
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("streams", nargs="*", metavar="STREAM", help=f"default: all of {', '.join(STREAMS)}")
    parser.add_argument("--trees", type=int, default=10, help="of all models; BSPForest also with 100 (default: 10)")
    parser.add_argument("--rows", type=int, help="only the first rows of each stream")
    parser.add_argument("--seed", type=int, default=0, help="seed of the models; streams are the same for all seeds")
    parser.add_argument("--minutes", type=float, default=10, help="stop a model on a stream after this (default: 10)")
    parser.add_argument("--models", nargs="+", default=[""], help="only models whose name begins with one of these")
    parser.add_argument(
        "--ablation",
        action="append",
        default=[],
        type=parse_settings,
        metavar="NAME=VALUE,...",
        help="also a BSPForest with these parameters, for instance prediction=mean; may be repeated",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.streams) - set(STREAMS):
        parser.error(f"no stream {sorted(unknown)[0]!r}; there are {', '.join(STREAMS)}")
    if arguments.rows is not None and arguments.rows < 2:
        parser.error("--rows must be at least 2, as the first row is only learned")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    budget = 60 * arguments.minutes
    streams = [STREAMS[name](arguments.rows) for name in arguments.streams or STREAMS]
    for classify in (True, False):
        chosen = [stream for stream in streams if stream is not None and stream.classify == classify]
        models = make_models(classify, arguments.trees, arguments.seed, arguments.ablation)
        models = {name: make for name, make in models.items() if name.startswith(tuple(arguments.models))}
        if not chosen or not models:
            continue
        print_header(classify)
        for stream in chosen:
            for name, make in models.items():
                print(f"{stream.name}: {name}", file=sys.stderr, flush=True)
                if name.startswith("BSPForest"):
                    test_then_train(make(), stream._replace(rows=stream.rows[:WARM_UP]), budget)
                print_result(stream, name, test_then_train(make(), stream, budget))
    print(explain(arguments.minutes))


if __name__ == "__main__":
    main()
