"""The header of a model file: everything about an estimator that is not in large arrays, as JSON."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import math
import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import __version__
from ..engine import arrays as layout
from ..engine.config import FAMILIES, ConstantBudget, ForestConfig, MinimaxBudget
from ..engine.forest import OnlineForest
from ..engine.keys import SALT_BYTES, KeyTable
from ..tables.encoder import TableEncoder
from ..tables.state import describe_encoder, make_encoder
from ..values.joint import JointValues
from .fields import ModelFileError, check_int, check_number, decode, encode, encode_array, expect, get_entry
from .joint_fields import make_values

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

# More threads than any machine has.
MOST_THREADS = 8192

# The record types of the arrays. A file written with other types is rejected instead of misread.
LAYOUT = {
    name: [list(field) for field in np.dtype(getattr(layout, name)).descr] for name in ("CUT", "LEAF", "DUE", "STATE")
}


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
        "encoder": None if estimator._encoder is None else describe_encoder(estimator._encoder),
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
        "metric": config.metric,
        "n_knots": forest.trees.coordinates.knots.shape[1],
        "window": config.window,
        "n_seen": int(forest.n_seen),
        "n_held": int(forest.n_held),
        "held_at_scaling": int(forest.held_at_scaling),
        "learned_since": int(forest.learned_since),
        "values": "mean" if joint is None else "joint",
        "n_outputs": config.n_outputs,
        "n_columns": config.n_columns,
        "key_salt": forest.keys.salt.hex(),
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
        ("parameters", {"values": "mean", "metric": None, "bandwidth": "auto", "ridge": "auto"}),
        ("forest", {"values": "mean", "n_outputs": 1, "n_columns": 0, "joint": None, "metric": False, "n_knots": 0}),
        ("forest", {"key_bytes": 0, "key_salt": ""}),
    ):
        get_entry(header, name, dict).update(more)
    header["encoder"] = None


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
    estimator.n_features_in_ = shape["n_features"]
    if header["encoder"] is not None:
        estimator._encoder = read_encoder(header["encoder"], shape["n_features"])
        estimator.n_features_in_ = len(estimator._encoder.columns)
    estimator._check_parameters()
    expect(not callable(estimator.budget), "budget is a function")
    if estimator.n_jobs is not None:
        expect(check_int(estimator.n_jobs, "n_jobs", -MOST_THREADS, MOST_THREADS) != 0, "n_jobs is 0")
    n_classes = check_int(shape.get("n_classes"), "n_classes")
    names, classes = header.get("feature_names"), header.get("classes")
    if names is not None:
        estimator.feature_names_in_ = _decode_labels(names, "feature_names", estimator.n_features_in_)
        expect(estimator.feature_names_in_.dtype == object, "feature names are not strings")
    expect((classes is not None) == (name == "BSPForestClassifier"), "classes are for classifiers only")
    expect((classes is not None) == (n_classes > 0), f"there are {n_classes} classes in the trees of a {name}")
    if classes is not None:
        estimator.classes_ = _decode_labels(classes, "classes", n_classes)
        in_order = (estimator.classes_[:-1] < estimator.classes_[1:]).all()
        expect(in_order, "classes are not in order, or two are the same")
    estimator._forest = _make_forest(shape)
    if estimator._encoder is not None:
        estimator._forest.trees.groups = estimator._encoder.describe_layout().groups
    return estimator


def _decode_salt(text: str) -> bytes:
    salt = bytes.fromhex(text)
    expect(len(salt) in (0, SALT_BYTES), f"the salt of keys has {len(salt)} bytes; expected {SALT_BYTES}")
    return salt


def read_encoder(state: Any, n_features: int) -> TableEncoder:
    """Return the encoder that a header describes, checked."""
    expect(isinstance(state, dict) and isinstance(state.get("columns"), list), "the encoder in the header is not one")
    encoder = make_encoder(state)
    expect(encoder.width == n_features, f"the encoder makes {encoder.width} features, but the trees have {n_features}")
    expect(len(encoder.columns) > 0, "the encoder has no columns")
    return encoder


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
    expect(scaling in (None, "auto", "minmax", "quantile", "range"), f"scaling is {str(scaling)[:50]!r}")
    cuts = get_entry(header, "cuts", str)
    expect(cuts in FAMILIES, f"cuts is {cuts[:50]!r}; expected one of {', '.join(FAMILIES)}")
    values = make_values(header)
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
        metric=get_entry(header, "metric", bool),
    )
    expect(
        config.n_columns or not (config.metric or scaling == "auto"), "only joint values learn a metric or a scaling"
    )
    expect(not (config.redraw and config.n_columns), "joint values are of trees that redraw their cuts")
    forest = OnlineForest(config, np.random.SeedSequence(0), values)
    forest.budget = check_number(header.get("budget"), "budget", 0.0)
    forest.held_at_scaling = check_int(header.get("held_at_scaling"), "held_at_scaling")
    forest.learned_since = check_int(header.get("learned_since"), "learned_since")
    forest.keys = KeyTable(_decode_salt(get_entry(header, "key_salt", str)))
    return forest
