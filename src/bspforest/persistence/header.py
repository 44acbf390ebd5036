"""The header of a model file: everything about an estimator that is not in large arrays, as JSON."""

from __future__ import annotations

import json
import math
import platform
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np

from ..engine import arrays as layout
from ..engine.config import FAMILIES, ConstantBudget, ForestConfig, MinimaxBudget
from ..engine.forest import OnlineForest
from ..estimators import BSPForestClassifier, BSPForestRegressor
from ..estimators.base import BSPForest

ESTIMATORS: dict[str, type[BSPForest]] = {
    "BSPForestClassifier": BSPForestClassifier,
    "BSPForestRegressor": BSPForestRegressor,
}

# More than any list of features and classes needs; less than would fill a memory when parsed.
LARGEST_HEADER = 64 * 2**20

# Numbers of rows and ids stay below this, so that sums of them fit int64.
MANY = 2**62

# More threads than any machine has.
MOST_THREADS = 8192

# The record types of the arrays. A file written with others is refused, not misread.
LAYOUT = {
    name: [list(field) for field in np.dtype(getattr(layout, name)).descr] for name in ("CUT", "LEAF", "DUE", "STATE")
}


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged, or was written by a version that cannot be read."""


# ----------------------------------------------------------------------------------------------------------------------
# Values


def encode(value: Any, name: str) -> Any:
    """A value as JSON that `decode` turns back into the same value, or an error that calls it ``name``."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        value = value.item()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [encode(part, name) for part in value]}
    if isinstance(value, list):
        return [encode(part, name) for part in value]
    if isinstance(value, np.ndarray):
        return encode_array(value, name)
    if isinstance(value, np.random.RandomState):
        kind, *state = cast(tuple[Any, ...], value.get_state(legacy=True))
        if kind == "MT19937":
            return {"RandomState": encode([state[0], int(state[1]), int(state[2]), float(state[3])], name)}
    if callable(value):
        raise ValueError(
            f"{name} is a function, which a model file cannot hold: give a number or a name instead, or pickle the forest"
        )
    raise ValueError(f"{name} is of type {type(value).__name__}, which a model file cannot hold")


def encode_array(array: np.ndarray, name: str) -> dict[str, Any]:
    kind = array.dtype.kind
    entries = array.ravel().tolist()
    plain = kind in "biuU" or (kind == "f" and array.dtype.itemsize <= 8)
    if not plain and not (kind == "O" and all(type(entry) is str for entry in entries)):
        raise ValueError(
            f"{name} is an array of {array.dtype}, which a model file cannot hold: numbers, booleans and strings are expected"
        )
    if kind == "f":
        entries = [encode(entry, name) for entry in entries]
    return {"array": entries, "dtype": array.dtype.str if kind != "O" else "object", "shape": list(array.shape)}


def decode(value: Any) -> Any:
    """What `encode` was given."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"float"}:
        return float(value["float"])
    if value.keys() == {"tuple"}:
        return tuple(decode(part) for part in value["tuple"])
    if value.keys() == {"array", "dtype", "shape"}:
        return decode_array(value)
    if value.keys() == {"RandomState"}:
        key, place, *gauss = decode(value["RandomState"])
        whole(place, "the place in a random state", 0, len(key))  # numpy would read there unchecked
        random = np.random.RandomState()
        random.set_state(("MT19937", key, place, *gauss))
        return random
    raise ModelFileError(f"the header has an entry of unknown kind: {', '.join(map(repr, value))[:200]}")


def decode_array(value: dict[str, Any]) -> np.ndarray:
    entries, shape = decode(value["array"]), value["shape"]
    expect(isinstance(entries, list) and isinstance(value["dtype"], str), "an array in the header is not one")
    dtype = np.dtype(object if value["dtype"] == "object" else value["dtype"])
    size = dtype.itemsize if dtype.kind == "U" else 0
    longest = max((len(entry) for entry in entries if isinstance(entry, str)), default=0)
    expect(dtype.kind in "biufUO" and size <= 4 * max(longest, 1), f"the header has an array of type {dtype}")
    kinds: Any = {"b": bool, "i": int, "u": int, "f": (int, float), "U": str, "O": str}[dtype.kind]
    expect(all(isinstance(entry, kinds) for entry in entries), f"an array in the header is not of its type {dtype}")
    return np.array(entries, dtype=dtype).reshape([whole(n, "a shape in the header") for n in shape])


def expect(holds: Any, message: str) -> None:
    """A `ModelFileError` with this message unless something holds."""
    if not holds:
        raise ModelFileError(message)


def whole(value: Any, name: str, least: int = 0, most: int = MANY) -> int:
    """``value``, if it is a whole number within bounds."""
    if type(value) is not int or not least <= value <= most:
        raise ModelFileError(f"{name} is {str(value)[:50]}, a whole number from {least} to {most} is expected")
    return value


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def describe(estimator: BSPForest, extra: dict[str, Any] | None) -> dict[str, Any]:
    """The header of a fitted estimator, without what concerns the arrays."""
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise TypeError(f"a model file holds a {' or a '.join(ESTIMATORS)}, not a {type(estimator).__qualname__}")
    if extra is not None and not isinstance(extra, dict):
        raise TypeError(f"extra must be a dict, got {type(extra).__name__}")
    estimator._check_parameters()
    parameters = estimator.get_params(deep=False)
    names = getattr(estimator, "feature_names_in_", None)
    classes = getattr(estimator, "classes_", None)
    return {
        "bspforest": _version(),
        "versions": _versions(),
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
        budget_of = encode(getattr(budget, "budget", budget), "budget")  # says that it is a function
    arrays = forest.trees.arrays
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
    }


def _version() -> str:
    from .. import __version__

    return __version__


def _versions() -> dict[str, str]:
    import numba
    import sklearn

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scikit-learn": sklearn.__version__,
    }


def dump(header: dict[str, Any]) -> bytes:
    """The header as bytes, a multiple of 8 of them."""
    try:
        text = json.dumps(header, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"extra must be a dict that JSON can hold: {error}") from error
    if json.loads(text)["extra"] != header["extra"]:
        raise ValueError("extra must be a dict that JSON gives back unchanged: keys are strings, sequences are lists")
    data = text.encode("ascii")
    if len(data) > LARGEST_HEADER:
        raise ValueError(
            f"feature names, classes and extra are {len(data):,} bytes, at most {LARGEST_HEADER:,} can be held"
        )
    return data + b" " * (-len(data) % 8)


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def parse(data: bytes) -> dict[str, Any]:
    """The header of a file as a dict; only that it is one is checked."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        header = json.loads(data.decode("ascii"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is not JSON: {error}") from None
    expect(isinstance(header, dict), "the header is not a JSON object")
    return header


def entry(header: dict[str, Any], name: str, kind: Any) -> Any:
    """An entry of the header, of this type."""
    expect(name in header, f"the header lacks {name!r}")
    expect(isinstance(header[name], kind), f"{name} in the header is a {type(header[name]).__name__}")
    return header[name]


def make_estimator(header: dict[str, Any]) -> BSPForest:
    """The estimator that a header describes, its forest still without trees. The file is known to be as large as
    ``n_features`` asks for.
    """
    try:
        return _make_estimator(header)
    except ModelFileError:
        raise
    except (TypeError, ValueError, OverflowError, IndexError, KeyError, RecursionError) as error:
        raise ModelFileError(f"the header describes no forest: {type(error).__name__}: {str(error)[:500]}") from error


def _make_estimator(header: dict[str, Any]) -> BSPForest:
    expect(entry(header, "layout", dict) == LAYOUT, "the trees are laid out as another version of bspforest does it")
    name = entry(header, "estimator", str)
    expect(name in ESTIMATORS, f"the estimator is {name[:50]!r}, one of {', '.join(ESTIMATORS)} is expected")
    parameters = {key: decode(value) for key, value in entry(header, "parameters", dict).items()}
    estimator = ESTIMATORS[name](**parameters)
    shape = entry(header, "forest", dict)
    estimator.n_features_in_ = d = shape["n_features"]
    estimator._check_parameters()
    expect(not callable(estimator.budget), "budget is a function")
    if estimator.n_jobs is not None:
        expect(whole(estimator.n_jobs, "n_jobs", -MOST_THREADS, MOST_THREADS) != 0, "n_jobs is 0")
    n_classes = whole(shape.get("n_classes"), "n_classes")
    names, classes = header.get("feature_names"), header.get("classes")
    if names is not None:
        estimator.feature_names_in_ = _labels(names, "feature_names", d)
        expect(estimator.feature_names_in_.dtype == object, "feature names are not strings")
    expect((classes is not None) == isinstance(estimator, BSPForestClassifier), "classes are for classifiers only")
    expect((classes is not None) == (n_classes > 0), f"there are {n_classes} classes in the trees of a {name}")
    if isinstance(estimator, BSPForestClassifier):
        estimator.classes_ = _labels(classes, "classes", n_classes)
        expect(len(set(estimator.classes_.tolist())) == n_classes, "two classes are the same")
        expect((estimator.classes_[:-1] < estimator.classes_[1:]).all(), "classes are not in order")
    estimator._forest = _make_forest(shape)
    return estimator


def _labels(value: Any, name: str, n: int) -> np.ndarray:
    expect(isinstance(value, dict), f"{name} in the header is not an array")
    array = decode(value)
    expect(isinstance(array, np.ndarray) and array.shape == (n,), f"{name} in the header is not an array of {n}")
    return array


def number(value: Any, name: str, least: float) -> float:
    """``value``, if it is a number of at least ``least`` (infinity included)."""
    value = decode(value)
    expect(type(value) in (int, float) and value >= least, f"{name} is {str(value)[:50]}, at least {least} is expected")
    return float(value)


def _make_forest(header: dict[str, Any]) -> OnlineForest:
    d = header["n_features"]
    budget_of = entry(header, "budget_of", dict)
    expect(len(budget_of) == 1 and budget_of.keys() <= {"minimax", "constant"}, "the kind of budget is unknown")
    scaling, window = entry(header, "scaling", (str, type(None))), header.get("window")
    expect(scaling in (None, "minmax", "range"), f"scaling is {str(scaling)[:50]!r}")
    cuts = entry(header, "cuts", str)
    expect(cuts in FAMILIES, f"cuts is {cuts[:50]!r}, one of {', '.join(FAMILIES)} is expected")
    if "minimax" in budget_of:
        scale = number(budget_of["minimax"], "budget_scale", 0.0)
        expect(0 < scale < math.inf, f"budget_scale is {scale}, a positive number is expected")
    budget: MinimaxBudget | ConstantBudget
    if "minimax" in budget_of:
        budget = MinimaxBudget(d, scale)
    else:
        budget = ConstantBudget(number(budget_of["constant"], "budget", 0.0))
    config = ForestConfig(
        n_trees=1,
        n_features=d,
        n_classes=header["n_classes"],
        cuts=cuts,
        budget=budget,
        min_samples_split=whole(header.get("min_samples_split"), "min_samples_split", 2, 2**31 - 1),
        redraw=entry(header, "redraw", bool),
        scaling=scaling if scaling != "range" else None,
        window=None if window is None else whole(window, "window", 1, 2**63 - 1),
    )
    forest = OnlineForest(config, np.random.SeedSequence(0))
    forest.budget = number(header.get("budget"), "budget", 0.0)
    forest.held_at_scaling = whole(header.get("held_at_scaling"), "held_at_scaling")
    forest.learned_since = whole(header.get("learned_since"), "learned_since")
    return forest
