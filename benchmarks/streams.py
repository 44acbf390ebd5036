"""Each row is predicted and then learned: bspforest beside the stream learners of CapyMOA and river.

The peers are those of CapyMOA with 100 trees (ARF, SRP and SGBT; for regression ARF, SOKNL and SGBT) and river's ARF with its default of
10, all with default parameters otherwise. CapyMOA is optional: ``pip install capymoa``, and Java 17 or later. `stream_data.py` has the streams.

``python benchmarks/streams.py`` prints Markdown tables, and progress to stderr. Each result is kept in the file given by ``--out``, and
the next run continues from there. ``--streams Electricity "Friedman gra" --models bspforest --trees 25 200`` runs a part, ``--settings
half_life=None`` adds a bspforest with other parameters. Times are processor times. Run ``bspforest compile`` first.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import forest as river_forest
from river import preprocessing
from stream_data import STREAMS, Stream

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.river.base import RiverForest

CLIP = 1e-6  # probabilities are clipped to [CLIP, 1 - CLIP] in the log loss
LEVEL = 0.9  # of intervals
SETTLED = 200  # the longest learn call is sought after so many rows
WARM_UP = 600  # rows that a small forest learns first, so that loading kernels is not timed
WITHOUT_INTERVALS = 1000  # rows whose intervals do not count
PEER_TREES = 100  # of CapyMOA
N_MARKS = 20  # how often the rows stored and the memory are noted


# ----------------------------------------------------------------------------------------------------------------------
# Models. Each has rows in its own form, so that making them is not timed: predict returns probabilities or a number.


class OwnForest:
    """The forest of bspforest, one row per call."""

    def __init__(self, stream: Stream, trees: int | None, settings: dict[str, Any], seed: int) -> None:
        kind = BSPForestClassifier if stream.n_classes else BSPForestRegressor
        given = settings if trees is None else {"n_estimators": trees, **settings}
        self.forest = kind(random_state=seed, **given)
        self._stream = stream
        self._classes = {"classes": range(stream.n_classes)} if stream.n_classes else {}
        self.predict = self._predict_classes if stream.n_classes else self._predict_number

    def iterate(self) -> Iterator[np.ndarray]:
        """Return the rows one by one."""
        return (self._stream.X[k : k + 1] for k in range(len(self._stream.X)))

    def _predict_classes(self, x: np.ndarray) -> np.ndarray:
        return self.forest.predict_proba(x)[0]

    def _predict_number(self, x: np.ndarray) -> float:
        return self.forest.predict(x)[0]

    def find_interval(self, x: np.ndarray) -> np.ndarray:
        """Return the ends of the interval of a label."""
        return self.forest.predict_quantiles(x, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])[0]

    def learn(self, x: np.ndarray, y: Any) -> None:
        """Learn a row."""
        self.forest.partial_fit(x, [y], **self._classes)

    def count_bytes(self) -> int:
        """Return the memory of the forest."""
        return self.forest.nbytes_


class RiverModel:
    """A model of river, which takes dictionaries."""

    def __init__(self, stream: Stream, make: Callable[[], Any]) -> None:
        self._stream, self._model = stream, make()
        self.predict = self._predict_classes if stream.n_classes else self._model.predict_one
        self.learn = self._model.learn_one

    def iterate(self) -> Iterator[dict]:
        """Return the rows one by one."""
        return (dict(enumerate(row)) for row in self._stream.X.tolist())

    def _predict_classes(self, x: dict) -> np.ndarray:
        shares = self._model.predict_proba_one(x)
        return np.array([shares.get(k, 0.0) for k in range(self._stream.n_classes)])

    def count_bytes(self) -> int:
        """Return the memory of every object that can be reached from the model; what river holds in C or Rust is missing."""
        return RiverForest._raw_memory_usage.fget(self._model)  # type: ignore[attr-defined]


class CapyModel:
    """A model of CapyMOA, which takes instances of a schema."""

    def __init__(self, stream: Stream, kind: str) -> None:
        from capymoa import classifier, regressor
        from capymoa.stream import NumpyStream

        target = "categorical" if stream.n_classes else "numeric"
        self._n_classes = stream.n_classes
        self._instances = NumpyStream(stream.X, stream.y, target_type=target)
        self._before = self._count_heap()
        make = getattr(classifier if stream.n_classes else regressor, kind)
        # SGBT for regression boosts 10 times, with 10 trees each.
        sized = {} if kind.startswith("StreamingGradient") else {"ensemble_size": PEER_TREES}
        self._model = make(self._instances.get_schema(), random_seed=1, **sized)
        self.predict = self._predict_classes if stream.n_classes else self._predict_number

    def iterate(self) -> Iterator[Any]:
        """Return the instances one by one."""
        return iter(self._instances)

    def _predict_classes(self, x: Any) -> np.ndarray:
        shares = self._model.predict_proba(x)
        votes = np.zeros(self._n_classes)
        if shares is not None:
            votes[: len(shares)] = shares
        return votes

    def _predict_number(self, x: Any) -> float:
        value = self._model.predict(x)
        return 0.0 if value is None else float(value)

    def learn(self, x: Any, y: Any) -> None:
        """Learn a row."""
        self._model.train(x)

    def count_bytes(self) -> int:
        """Return by how much the heap of Java has grown."""
        return max(0, self._count_heap() - self._before)

    @staticmethod
    def _count_heap() -> int:
        from jpype import java

        gc.collect()
        machine = java.lang.Runtime.getRuntime()
        machine.gc()
        return int(machine.totalMemory() - machine.freeMemory())


class NoChange:
    """Predict the label before."""

    def __init__(self, stream: Stream) -> None:
        self._shares = np.eye(stream.n_classes)
        self._stream, self._last = stream, 0

    def iterate(self) -> Iterator[None]:
        """Return nothing, as often as there are rows."""
        return (None for _ in self._stream.y)

    def predict(self, x: None) -> Any:
        """Return the label before."""
        return self._shares[self._last] if self._stream.n_classes else self._last

    def learn(self, x: None, y: Any) -> None:
        """Keep the label."""
        self._last = y

    def count_bytes(self) -> int:
        """Return the memory of a number."""
        return 8


ARF, SGBT = "AdaptiveRandomForest", "StreamingGradientBoosted"
CAPYMOA = {
    True: {"ARF": f"{ARF}Classifier", "SRP": "StreamingRandomPatches", "SGBT": f"{SGBT}Trees"},
    False: {"SOKNL": "SOKNL", "ARF": f"{ARF}Regressor", "SGBT": f"{SGBT}Regression"},
}


def list_models(classify: bool, options: argparse.Namespace) -> dict[str, Callable[[Stream], Any]]:
    """Return a function for each chosen model that makes it for a stream, by name; those of bspforest first."""
    models: dict[str, Callable[[Stream], Any]] = {}
    for trees in options.trees:
        for settings in [{}, *options.settings]:
            parts = [f"{trees or 'default'} trees", *(f"{key}={value}" for key, value in settings.items())]
            models[f"bspforest, {', '.join(parts)}"] = partial(
                OwnForest, trees=trees, settings=settings, seed=options.seed
            )
    for name, kind in CAPYMOA[classify].items():
        models[f"CapyMOA {name}"] = partial(CapyModel, kind=kind)
    make = partial(river_forest.ARFClassifier, seed=options.seed)
    if not classify:
        make = lambda: preprocessing.StandardScaler() | river_forest.ARFRegressor(seed=options.seed)  # noqa: E731
    models["river ARF"] = partial(RiverModel, make=make)
    models["no change"] = NoChange
    return {name: make for name, make in models.items() if name.startswith(tuple(options.models))}


def find_capymoa() -> str:
    """Return why CapyMOA does not run here; empty if it does."""
    try:
        import capymoa.classifier  # noqa: F401  starts Java
    except ImportError:
        return "not installed"
    except Exception:  # whatever Java or its bridge say
        return "no Java"
    return ""


# ----------------------------------------------------------------------------------------------------------------------
# The protocol


class Loss(NamedTuple):
    """What one prediction cost."""

    main: float  # whether the class is wrong, or the squared error
    log: float  # NaN in regression


def measure(answer: Any, y: Any, n_classes: int) -> Loss:
    """Return the losses of probabilities or a number. Without any vote, all classes have the same probability."""
    if not n_classes:
        return Loss((float(answer) - float(y)) ** 2, math.nan)
    total = answer.sum()
    shares = answer / total if 0 < total < np.inf else np.full(n_classes, 1 / n_classes)
    return Loss(float(shares.argmax() != y), -math.log(min(max(float(shares[y]), CLIP), 1 - CLIP)))


def test_then_train(model: Any, stream: Stream, budget: float) -> dict[str, Any]:
    """Predict each row and then learn it, until the rows end or the model has taken ``budget`` seconds of processor time.

    The first row is learned only. Time is that of predicting and learning, without intervals.
    """
    is_own = isinstance(model, OwnForest)
    losses, marks, covered, spent = [], [], [], []
    learning, longest = 0.0, (0.0, 0)  # the longest learn call, and its row
    every = max(1, len(stream.y) // N_MARKS)
    for k, (x, y) in enumerate(zip(model.iterate(), stream.y.tolist(), strict=True)):
        started = time.process_time()
        answer = model.predict(x) if k else None
        predicted = time.process_time()
        if is_own and not stream.n_classes and k >= WITHOUT_INTERVALS:
            low, high = model.find_interval(x)
            covered.append(low <= y <= high)
        n_held = model.forest.n_samples_ if is_own and k else 1  # rows leave in the call, so count them before
        begun = time.process_time()
        model.learn(x, y)
        learned = time.process_time() - begun
        if k:
            losses.append(measure(answer, y, stream.n_classes))
        if is_own and k >= SETTLED:
            longest = max(longest, (learned / (n_held / 10 * learning / k), k + 1))
        if is_own and (k + 1) % every == 0:
            marks.append([k + 1, model.forest.n_samples_, model.count_bytes()])
        learning += learned
        spent.append(predicted - started + learned)
        if k % 100 == 0 and sum(spent) > budget:
            break
    return {
        "rows": len(spent),
        "score": find_score(losses, stream.n_classes),
        "log_loss": float(np.mean([loss.log for loss in losses])),
        "quarters": [
            find_score([losses[k] for k in part], stream.n_classes) for part in np.array_split(range(len(losses)), 4)
        ],
        "coverage": float(np.mean(covered)) if covered else None,
        "seconds": sum(spent),
        "late_ms": 1000 * float(np.mean(spent[-max(1, len(spent) // 10) :])),
        "bytes": model.count_bytes(),
        "longest": longest[0] or None,
        "longest_at": longest[1],
        "marks": marks,
        "revisions": describe_revisions(model.forest) if is_own else None,
    }


def warm_up() -> None:
    """Load all kernels."""
    for name in ("inverted label", "Friedman gra"):
        stream = STREAMS[name](WARM_UP)
        assert stream is not None
        test_then_train(OwnForest(stream, 5, {}, 0), stream, np.inf)


def find_score(losses: list[Loss], n_classes: int) -> float:
    """Return the accuracy, or the root of the mean squared error."""
    mean = float(np.mean([loss.main for loss in losses]))
    return 1 - mean if n_classes else math.sqrt(mean)


def describe_revisions(forest: Any) -> list[list[float]]:
    """Return after which rows a forest chose its half-life, and which."""
    revisions = forest.revisions_ if forest.prediction == "ridge" else []
    return [[revision.n_samples_seen, min(revision.half_life, sys.float_info.max)] for revision in revisions]


# ----------------------------------------------------------------------------------------------------------------------
# Results and tables


class Results:
    """The results by stream, rows asked for, and model; those of a file, if there is one, and of this run, which it gets at once."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries: dict[tuple, dict[str, Any]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                self._keep(json.loads(line))

    def _keep(self, entry: dict[str, Any]) -> None:
        self._entries[entry["stream"], entry["asked"], entry["seed"], entry["model"]] = entry

    def get(self, *key: Any) -> dict[str, Any] | None:
        """Return a result, if there is one."""
        return self._entries.get(key)

    def add(self, entry: dict[str, Any]) -> None:
        """Keep a result."""
        self._keep(entry)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")


def format_score(result: dict[str, Any], classify: bool) -> str:
    """Format the main scores of a result; a star marks a model that was stopped."""
    star = "" if result["rows"] == result["of"] else "*"
    if classify:
        return f"{100 * result['score']:.1f}{star} / {result['log_loss']:.3f}"
    return f"{result['score']:.4g}{star}"


def print_table(head: list[str], lines: list[list[str]]) -> None:
    """Print a Markdown table."""
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def print_tables(classify: bool, table: dict[str, dict[str, dict[str, Any]]], missing: str) -> None:
    """Print scores with the best in bold, then costs, then more about bspforest; ``table`` has results by stream and model."""
    names = list(dict.fromkeys(name for results in table.values() for name in results))
    if missing:
        names += [f"CapyMOA {name}" for name in CAPYMOA[classify] if f"CapyMOA {name}" not in names]
    scores, costs, details, wins = [], [], [], dict.fromkeys(names, 0)
    for stream, results in table.items():
        reached = {name: result for name, result in results.items() if result["rows"] == result["of"]}
        best = None
        if reached:
            pick = max if classify else min
            best = pick(result["score"] for result in reached.values())
        cells, cost = [], []
        for name in names:
            result = results.get(name)
            if result is None:
                cells.append(missing if name.startswith("CapyMOA") else "")
                cost.append(cells[-1])
                continue
            shown = format_score(result, classify)
            if name in reached and result["score"] == best:
                shown, wins[name] = f"**{shown}**", wins[name] + 1
            cells.append(shown)
            cost.append(f"{result['seconds']:.0f} / {result['bytes'] / 2**20:.0f}")
            if name.startswith("bspforest"):
                details.append(describe_own(stream, name, result, classify))
        n = max(result["of"] for result in results.values())
        scores.append([stream, f"{n:,}", *cells])
        costs.append([stream, *cost])
    scores.append(["best on", "", *(str(wins[name]) for name in names)])
    print(f"\n{'Accuracy in % / log loss' if classify else 'RMSE'}:")
    print_table(["stream", "rows", *names], scores)
    print("\nSeconds of processor time / MiB at the end:")
    print_table(["stream", *names], costs)
    print("\nbspforest in more detail:")
    more = [] if classify else [f"labels in {100 * LEVEL:.0f} % intervals"]
    head = ["stream", "model", f"{'accuracy' if classify else 'RMSE'} by quarter", *more, "ms per row at the end"]
    print_table(
        [*head, "rows stored", "longest learn", "half-life at the end"],
        details,
    )


def describe_own(stream: str, name: str, result: dict[str, Any], classify: bool) -> list[str]:
    """Return a line of the table about bspforest."""
    quarters = ", ".join(f"{100 * score:.1f}" if classify else f"{score:.3g}" for score in result["quarters"])
    covered = "" if result["coverage"] is None else f"{100 * result['coverage']:.1f} %"
    last = result["revisions"][-1][1] if result["revisions"] else sys.float_info.max
    return [
        *(stream, name, quarters, *([] if classify else [covered]), f"{result['late_ms']:.2f}"),
        f"{result['marks'][-1][1]:,}" if result["marks"] else "",
        f"{result['longest']:.2f}" if result["longest"] else "",
        "all rows" if last == sys.float_info.max else f"{last:,.0f}",
    ]


# ----------------------------------------------------------------------------------------------------------------------
# The command


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
    except TypeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return settings


def parse_trees(text: str) -> int | None:
    """Return a number of trees, or None for the default of bspforest."""
    if text == "default":
        return None
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of trees or 'default', got {text!r}")
    return int(text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=12_000, help="rows of each stream, at most (default: 12000)")
    parser.add_argument("--streams", nargs="+", default=list(STREAMS), metavar="NAME", help="default: all")
    parser.add_argument("--models", nargs="+", default=[""], help="only models whose name begins with one of these")
    parser.add_argument(
        "--trees", nargs="+", type=parse_trees, default=[100], help="of bspforest, or 'default' (default: 100)"
    )
    parser.add_argument(
        "--settings",
        type=parse_settings,
        action="append",
        default=[],
        metavar="NAME=VALUE,...",
        help="also a bspforest with these parameters, for instance half_life=None; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the models; streams are the same for all seeds")
    parser.add_argument("--minutes", type=float, default=10, help="stop a model on a stream after this (default: 10)")
    parser.add_argument(
        "--out", type=Path, help="file with a line of JSON per result; results it has are not run again"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.streams) - set(STREAMS):
        parser.error(f"no stream {sorted(unknown)[0]!r}; there are {', '.join(STREAMS)}")
    if arguments.rows < 5:
        parser.error(f"--rows must be at least 5, got {arguments.rows}")
    return arguments


def main() -> None:
    options = parse_arguments()
    results, missing = Results(options.out), find_capymoa()
    streams = [stream for name in options.streams if (stream := STREAMS[name](options.rows)) is not None]
    is_warm = False
    for classify in (True, False):
        chosen = [stream for stream in streams if bool(stream.n_classes) == classify]
        models = list_models(classify, options)
        # Model by model, so that an interrupted run has something of every stream.
        for name, make in models.items():
            for stream in chosen:
                key = stream.name, options.rows, options.seed, name
                if results.get(*key) or (missing and name.startswith("CapyMOA")):
                    continue
                if name.startswith("bspforest") and not is_warm:
                    warm_up()
                    is_warm = True
                result = test_then_train(make(stream), stream, 60 * options.minutes)
                entry = dict(zip(("stream", "asked", "seed", "model"), key, strict=True)) | {"of": len(stream.y)}
                results.add(entry | result)
                shown = format_score(entry | result, classify)
                print(f"{stream.name}, {name}: {shown}, {result['seconds']:.0f} s", file=sys.stderr, flush=True)
        table = {
            stream.name: {
                name: result
                for name in models
                if (result := results.get(stream.name, options.rows, options.seed, name))
            }
            for stream in chosen
        }
        if table := {name: found for name, found in table.items() if found}:
            print_tables(classify, table, missing)


if __name__ == "__main__":
    main()
