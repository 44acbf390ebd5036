"""The header of a model file: everything about an estimator that is not in large arrays, as JSON."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import math
import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from .. import __version__
from ..engine import arrays as layout
from ..engine.config import FAMILIES, ConstantBudget, ForestConfig, MinimaxBudget, count_columns
from ..engine.forest import OnlineForest
from ..engine.values import Values
from ..values.joint import JointValues

if TYPE_CHECKING:
    from ..estimators import BSPForestClassifier, BSPForestRegressor
    from ..estimators.base import BSPForest

    AnyForest: TypeAlias = BSPForestClassifier | BSPForestRegressor

# The classes that files may name, and where they are. They are imported by name, because they stand above this package.
ESTIMATORS = {"BSPForestClassifier": "bspforest.estimators", "BSPForestRegressor": "bspforest.estimators"}

# Largest header in bytes, and what parsing it may cost in memory; see `estimate_memory`. The names of 100,000 features take
# 2 MB and 16 MB; a list of empty lists would cost 30 times its size.
LARGEST_HEADER = 8 * 2**20
MOST_MEMORY = 64 * 2**20

# Largest array of strings in the header. Numpy pads all of them to the longest.
LARGEST_TEXT_ARRAY = 16 * 2**20

# Row counts and ids are at most this, so that their sums fit int64.
LARGEST_COUNT = 2**62

# More threads than any machine has.
MOST_THREADS = 8192

# The record types of the arrays. A file written with other types is rejected instead of misread.
LAYOUT = {
    name: [list(field) for field in np.dtype(getattr(layout, name)).descr] for name in ("CUT", "LEAF", "DUE", "STATE")
}


class ModelFileError(ValueError):
    """Raised for files that are not model files, are damaged or inconsistent, or have an unsupported format."""


def expect(condition: Any, message: str) -> None:
    """Raise a `ModelFileError` with this message unless the condition holds."""
    if not condition:
        raise ModelFileError(message)


def check_int(value: Any, name: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
    """Return ``value`` if it is an integer within bounds."""
    if type(value) is not int or not least <= value <= most:
        raise ModelFileError(f"{name} is {str(value)[:50]}; expected an integer from {least} to {most}")
    return value


def check_number(value: Any, name: str, least: float) -> float:
    """Return the decoded ``value`` if it is a number of at least ``least``, possibly infinite."""
    value = decode(value)
    expect(type(value) in (int, float) and value >= least, f"{name} is {str(value)[:50]}; expected at least {least}")
    return float(value)


def get_entry(header: dict[str, Any], name: str, kind: Any) -> Any:
    """Return an entry of the header, which must be of this type."""
    expect(name in header, f"the header lacks {name!r}")
    expect(isinstance(header[name], kind), f"{name} in the header is of type {type(header[name]).__name__}")
    return header[name]


# ----------------------------------------------------------------------------------------------------------------------
# Values


def encode(value: Any, name: str) -> Any:
    """Return a value as JSON that `decode` turns back into the same value; errors call it ``name``."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        value = value.item()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [encode(element, name) for element in value]}
    if isinstance(value, list):
        return [encode(element, name) for element in value]
    if isinstance(value, np.ndarray):
        return encode_array(value, name)
    if isinstance(value, np.random.RandomState):
        kind, *state = cast(tuple[Any, ...], value.get_state(legacy=True))
        if kind == "MT19937":
            return {"RandomState": encode([state[0], int(state[1]), int(state[2]), float(state[3])], name)}
    if callable(value):
        raise ValueError(
            f"{name} is a function, which a model file cannot hold; use a number or a name instead, or pickle the forest"
        )
    raise ValueError(f"{name} is of type {type(value).__name__}, which a model file cannot hold")


def encode_array(array: np.ndarray, name: str) -> dict[str, Any]:
    """Return an array of numbers, booleans or strings as JSON."""
    kind = array.dtype.kind
    entries = array.ravel().tolist()
    plain = kind in "biuU" or (kind == "f" and array.dtype.itemsize <= 8)
    if not plain and not (kind == "O" and all(type(entry) is str for entry in entries)):
        raise ValueError(
            f"{name} is an array of {array.dtype}, which a model file cannot hold; expected numbers, booleans or strings"
        )
    if kind == "U" and array.nbytes > LARGEST_TEXT_ARRAY:
        raise ValueError(
            f"{name} takes {array.nbytes:,} bytes, at most {LARGEST_TEXT_ARRAY:,} can be held; use an array of objects"
        )
    if kind == "f":
        entries = [encode(entry, name) for entry in entries]
    return {"array": entries, "dtype": array.dtype.str if kind != "O" else "object", "shape": list(array.shape)}


def decode(value: Any) -> Any:
    """Return the value that `encode` was given."""
    if isinstance(value, list):
        return [decode(element) for element in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"float"}:
        return float(value["float"])
    if value.keys() == {"tuple"}:
        return tuple(decode(element) for element in value["tuple"])
    if value.keys() == {"array", "dtype", "shape"}:
        return decode_array(value)
    if value.keys() == {"RandomState"}:
        key, position, *gauss = decode(value["RandomState"])
        check_int(position, "the position of a random state", 0, len(key))  # numpy would read there unchecked
        random = np.random.RandomState()
        random.set_state(("MT19937", key, position, *gauss))
        return random
    raise ModelFileError(f"the header has an entry of unknown kind: {', '.join(map(repr, value))[:200]}")


def decode_array(value: dict[str, Any]) -> np.ndarray:
    """Return the array that `encode_array` was given."""
    entries, shape = decode(value["array"]), value["shape"]
    expect(isinstance(entries, list) and isinstance(value["dtype"], str), "an array in the header is malformed")
    dtype = np.dtype(object if value["dtype"] == "object" else value["dtype"])
    size = dtype.itemsize if dtype.kind == "U" else 0
    longest = max((len(entry) for entry in entries if isinstance(entry, str)), default=0)
    small = size <= 4 * max(longest, 1) and size * len(entries) <= LARGEST_TEXT_ARRAY
    expect(dtype.kind in "biufUO" and small, f"the header has an array of {len(entries)} times {dtype}")
    kinds: Any = {"b": bool, "i": int, "u": int, "f": (int, float), "U": str, "O": str}[dtype.kind]
    expect(all(isinstance(entry, kinds) for entry in entries), f"an array in the header is not of its type {dtype}")
    return np.array(entries, dtype=dtype).reshape([check_int(n, "a shape in the header") for n in shape])


def find_estimator(name: str) -> Any:
    """Return the class that a file may name."""
    return getattr(importlib.import_module(ESTIMATORS[name]), name)


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def describe(estimator: BSPForest, extra: dict[str, Any] | None) -> dict[str, Any]:
    """Return the header of a fitted estimator, without the sizes of its arrays."""
    name = type(estimator).__name__
    if name not in ESTIMATORS or type(estimator) is not find_estimator(name):
        raise TypeError(f"a model file holds a {' or a '.join(ESTIMATORS)}, not a {type(estimator).__qualname__}")
    if extra is not None and not isinstance(extra, dict):
        raise TypeError(f"extra must be a dict, got {type(extra).__name__}")
    estimator._check_parameters()
    parameters = estimator.get_params(deep=False)
    names = getattr(estimator, "feature_names_in_", None)
    classes = getattr(estimator, "classes_", None)
    return {
        "bspforest": __version__,
        "versions": _find_versions(),
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "estimator": name,
        "parameters": {key: encode(value, key) for key, value in parameters.items()},
        "feature_names": None if names is None else encode_array(names, "feature_names_in_"),
        "classes": None if classes is None else encode_array(classes, "classes_"),
        "forest": _describe_forest(estimator._forest),
        "layout": LAYOUT,
        "extra": extra,
    }


def _describe_forest(forest: OnlineForest) -> dict[str, Any]:
    config = forest.config
    budget = config.budget
    if isinstance(budget, MinimaxBudget):
        budget_of = {"minimax": encode(budget.scale, "budget_scale")}
    elif isinstance(budget, ConstantBudget):
        budget_of = {"constant": encode(budget.value, "budget")}
    else:
        budget_of = encode(getattr(budget, "budget", budget), "budget")  # raises: a function cannot be saved
    arrays = forest.trees.arrays
    joint = forest.values.export_state() if isinstance(forest.values, JointValues) else None
    return {
        "n_trees": forest.trees.n_trees,
        "n_features": forest.trees.n_features,
        "n_classes": arrays.n_classes,
        "cuts": {number: name for name, number in FAMILIES.items()}[arrays.family],
        "min_samples_split": int(arrays.min_split),
        "redraw": bool(arrays.redraw),
        "budget_of": budget_of,
        "budget": encode(float(forest.budget), "budget_"),
        "scaling": "range" if isinstance(config.scaling, tuple) else config.scaling,
        "window": config.window,
        "n_seen": int(forest.n_seen),
        "n_held": int(forest.n_held),
        "held_at_scaling": int(forest.held_at_scaling),
        "learned_since": int(forest.learned_since),
        "values": "mean" if joint is None else "joint",
        "n_outputs": config.n_outputs,
        "n_columns": config.n_columns,
        "joint": None if joint is None else {key: encode(value, key) for key, value in joint.items()},
    }


@functools.cache
def _find_versions() -> dict[str, str]:
    """Return the versions of Python and the packages that matter, for a reader of the header."""
    versions = {"python": platform.python_version()}
    for package in ("numpy", "numba", "scikit-learn"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # installed without its metadata
            versions[package] = "unknown"
    return versions


def dump(header: dict[str, Any]) -> bytes:
    """Return the header as bytes, padded to a multiple of 8."""
    try:
        text = json.dumps(header, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"extra must be a dict that JSON can hold: {error}") from error
    if json.loads(text)["extra"] != header["extra"]:
        raise ValueError("extra must be a dict that JSON restores unchanged: keys are strings, sequences are lists")
    data = text.encode("ascii")
    if len(data) > LARGEST_HEADER:
        raise ValueError(
            f"feature names, classes and extra are {len(data):,} bytes, at most {LARGEST_HEADER:,} can be held"
        )
    if (cost := estimate_memory(data)) > MOST_MEMORY:
        raise ValueError(
            f"feature names, classes and extra would take {cost:,} bytes of memory to read, at most {MOST_MEMORY:,} are allowed"
        )
    return data + b" " * (-len(data) % 8)


def estimate_memory(data: bytes | bytearray) -> int:
    """Return an upper bound of the memory that parsing some JSON takes, from the number of values in it.

    The sizes are those of CPython's objects, measured with tracemalloc: see `test_header.py`. Text with escapes may need
    four bytes per character, twice.
    """
    text = 7.5 if b"\\u" in data else 2.1
    counts = {b"[": 96, b"{": 224, b":": 48, b",": 36, b'"': 28}
    return int(text * len(data)) + sum(size * data.count(character) for character, size in counts.items())


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def parse(data: bytearray) -> dict[str, Any]:
    """Return the header of a file as a dict. Check that it is one and takes little memory, and nothing else."""
    cost = estimate_memory(data)
    expect(cost <= MOST_MEMORY, f"the header would take {cost:,} bytes of memory")

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        header = json.loads(data.decode("ascii"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is not JSON: {error}") from None
    expect(isinstance(header, dict), "the header is not a JSON object")
    return header


def upgrade(header: dict[str, Any]) -> None:
    """Add what the header of a file of format 1 lacks: it holds mean values."""
    for name, more in (
        ("parameters", {"values": "mean", "bandwidth": "auto", "ridge": "auto"}),
        ("forest", {"values": "mean", "n_outputs": 1, "n_columns": 0, "joint": None}),
    ):
        get_entry(header, name, dict).update(more)


def make_estimator(header: dict[str, Any]) -> AnyForest:
    """Return the estimator that a header describes, its forest still without trees.

    The caller has checked that the file is large enough for ``n_features``.
    """
    try:
        return _make_estimator(header)
    except ModelFileError:
        raise
    except (TypeError, ValueError, OverflowError, IndexError, KeyError, RecursionError) as error:
        raise ModelFileError(
            f"the header does not describe a forest: {type(error).__name__}: {str(error)[:500]}"
        ) from error


def _make_estimator(header: dict[str, Any]) -> AnyForest:
    layout_matches = get_entry(header, "layout", dict) == LAYOUT
    expect(layout_matches, "the trees have the memory layout of another version of bspforest")
    name = get_entry(header, "estimator", str)
    expect(name in ESTIMATORS, f"the estimator is {name[:50]!r}; expected one of {', '.join(ESTIMATORS)}")
    parameters = {key: decode(value) for key, value in get_entry(header, "parameters", dict).items()}
    estimator = find_estimator(name)(**parameters)
    shape = get_entry(header, "forest", dict)
    estimator.n_features_in_ = d = shape["n_features"]
    estimator._check_parameters()
    expect(not callable(estimator.budget), "budget is a function")
    if estimator.n_jobs is not None:
        expect(check_int(estimator.n_jobs, "n_jobs", -MOST_THREADS, MOST_THREADS) != 0, "n_jobs is 0")
    n_classes = check_int(shape.get("n_classes"), "n_classes")
    names, classes = header.get("feature_names"), header.get("classes")
    if names is not None:
        estimator.feature_names_in_ = _decode_labels(names, "feature_names", d)
        expect(estimator.feature_names_in_.dtype == object, "feature names are not strings")
    expect((classes is not None) == (name == "BSPForestClassifier"), "classes are for classifiers only")
    expect((classes is not None) == (n_classes > 0), f"there are {n_classes} classes in the trees of a {name}")
    if classes is not None:
        estimator.classes_ = _decode_labels(classes, "classes", n_classes)
        in_order = (estimator.classes_[:-1] < estimator.classes_[1:]).all()
        expect(in_order, "classes are not in order, or two are the same")
    estimator._forest = _make_forest(shape)
    return estimator


def _decode_labels(value: Any, name: str, n: int) -> np.ndarray:
    expect(isinstance(value, dict), f"{name} in the header is not an array")
    array = decode(value)
    expect(isinstance(array, np.ndarray) and array.shape == (n,), f"{name} in the header is not an array of {n}")
    return array


def _make_budget(header: dict[str, Any], d: int) -> MinimaxBudget | ConstantBudget:
    budget_of = get_entry(header, "budget_of", dict)
    expect(len(budget_of) == 1 and budget_of.keys() <= {"minimax", "constant"}, "the kind of budget is unknown")
    if "constant" in budget_of:
        return ConstantBudget(check_number(budget_of["constant"], "budget", 0.0))
    scale = check_number(budget_of["minimax"], "budget_scale", 0.0)
    expect(0 < scale < math.inf, f"budget_scale is {scale}; expected a positive number")
    return MinimaxBudget(d, scale)


def _make_forest(header: dict[str, Any]) -> OnlineForest:
    d = header["n_features"]
    scaling, window = get_entry(header, "scaling", (str, type(None))), header.get("window")
    expect(scaling in (None, "minmax", "range"), f"scaling is {str(scaling)[:50]!r}")
    cuts = get_entry(header, "cuts", str)
    expect(cuts in FAMILIES, f"cuts is {cuts[:50]!r}; expected one of {', '.join(FAMILIES)}")
    values = _make_values(header)
    config = ForestConfig(
        n_trees=1,
        n_features=d,
        n_classes=header["n_classes"],
        cuts=cuts,
        budget=_make_budget(header, d),
        min_samples_split=check_int(header.get("min_samples_split"), "min_samples_split", 2, 2**31 - 1),
        redraw=get_entry(header, "redraw", bool),
        scaling=scaling if scaling != "range" else None,
        window=None if window is None else check_int(window, "window", 1, 2**63 - 1),
        n_outputs=header["n_outputs"],
        n_columns=header["n_columns"],
    )
    expect(not (config.redraw and config.n_columns), "joint values are of trees that redraw their cuts")
    forest = OnlineForest(config, np.random.SeedSequence(0), values)
    forest.budget = check_number(header.get("budget"), "budget", 0.0)
    forest.held_at_scaling = check_int(header.get("held_at_scaling"), "held_at_scaling")
    forest.learned_since = check_int(header.get("learned_since"), "learned_since")
    return forest


def _make_values(header: dict[str, Any]) -> Values:
    """Return what the forest keeps beside its trees. The caller has checked that ``n_outputs`` and ``n_columns`` are counts."""
    kind = get_entry(header, "values", str)
    n_classes, n_outputs, n_columns = (header[name] for name in ("n_classes", "n_outputs", "n_columns"))
    expect(kind in ("mean", "joint"), f"values is {kind[:50]!r}; expected mean or joint")
    expect(n_outputs == 1 or (kind == "joint" and not n_classes), f"there are {n_outputs} outputs")
    expected = count_columns(n_classes, n_outputs) if kind == "joint" else 0
    expect(n_columns == expected, f"there are {n_columns} label columns; expected {expected}")
    if kind == "mean":
        return Values()
    given = get_entry(header, "joint", dict)
    state = {key: decode(value) for key, value in given.items()}
    names = JointValues(None, None, 0).export_state().keys()
    expect(state.keys() == names, f"joint has other entries than {', '.join(names)}")
    for name in ("given_bandwidth", "given_ridge"):
        if state[name] is not None:
            state[name] = _check_positive(state[name], name)
            expect(state[name] < math.inf, f"{name} is infinite")
    check_int(state["seed"], "seed", 0, 2**32 - 1)
    for name in ("learned_since_solve", "held_at_solve", "held_at_tuning", "seen_at_tuning"):
        check_int(state[name], name, 0, check_int(header.get("n_seen"), "n_seen"))
    for name in ("in_order", "is_solved", "is_rebuilt", "is_settled"):
        get_entry(state, name, bool)
    expect(type(state["unit"]) in (int, float) and not state["unit"] < 0, f"unit is {str(state['unit'])[:50]}")
    state["unit"] = float(state["unit"])
    choice, mean = state["choice"], get_entry(state, "mean", list)
    if choice is None:  # nothing was ever learned
        expect(header.get("n_held") == 0 and not mean and not state["is_settled"], "bandwidth and ridge are missing")
        return JointValues.from_state(state)
    expect(isinstance(choice, list) and len(choice) == 3, "choice is not a list of three")
    bandwidth, ridge = _check_positive(choice[0], "bandwidth"), _check_positive(choice[1], "ridge")
    expect(type(choice[2]) in (int, float) and not choice[2] < 0, f"the validation error is {str(choice[2])[:50]}")
    state["choice"] = [bandwidth, ridge, float(choice[2])]
    expect(len(mean) == n_columns, f"there are {len(mean)} mean labels for {n_columns} label columns")
    expect(all(type(entry) in (int, float) for entry in mean), "a mean label is not a number")
    return JointValues.from_state(state)


def _check_positive(value: Any, name: str) -> float:
    expect(type(value) in (int, float) and value > 0, f"{name} is {str(value)[:50]}; expected a positive number")
    return float(value)
