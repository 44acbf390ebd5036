"""What is in a model file: a header and arrays, described here and checked when they are read.

The rows are the truth, and the trees are a cache of them: if only trees are damaged, they can be built again. Kernels do not
check bounds, so every array is checked before it is used: sizes and rows here, trees in `bspforest.trees.check_trees`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import platform
import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from . import __version__
from .file_header import ModelFileError, check_int, check_ridge, decode, encode, expect
from .forest.config import AUTO_CUTS, FAMILIES, ForestConfig
from .forest.forest import OnlineForest
from .forest.keys import LONGEST, SALT_BYTES, KeyTable
from .forest.means import MeanPrediction
from .forest.ridge import RidgePrediction
from .forest.rows import RowTable
from .tables.state import describe_encoder, make_encoder
from .trees import layout
from .trees.check_trees import USED, BrokenTreeError, check_trees
from .trees.coordinates import Coordinates

if TYPE_CHECKING:
    from .estimators.base import BSPForest

FORMAT = 1

# The arrays of a file: type and shape. Sizes with the same letter are equal: d features, s slots, m trees, t terms of a row, ...
# First the rows, as given, and all that cannot be computed from them,
ROWS: dict[str, tuple[Any, str]] = {
    "ids": (np.int32, "i"),
    "free": (np.int32, "f"),
    "keys": (np.uint8, "iw"),
    "rows": (np.float64, "sd"),
    "y": (np.float64, "so"),
    "sample_weight": (np.float64, "s"),
    "range": (np.float64, "2d"),
    "feature_weights": (np.float64, "d"),
    "knots": (np.float64, "2dk"),
}

# then what can: trees, and what predictions found.
CACHES: dict[str, tuple[Any, str]] = {
    "state": (layout.STATE, "m"),
    "terms": (np.float64, "st"),
    "residuals": (np.float64, "sq"),
    "stds": (np.float64, "se"),
    "cuts": (layout.CUT, "mc"),
    "boxes": (np.float32, "mczd"),
    "sums": (np.float64, "mcv"),
    "leaves": (layout.LEAF, "ml"),
    "leaf_sums": (np.float64, "mlt"),
    "queue": (layout.DUE, "mu"),
    "links": (np.int32, "ms"),
}

MEMBERS = ROWS | CACHES

# Arrays of trees, with the count in a tree's state that says how much is used. Links have one entry per slot.
TREES = {**USED, "links": None}

# Trees that are built again from rows, at most.
MAX_TREES = 100_000

# Bytes read or written at a time.
AT_ONCE = 2**22


# ----------------------------------------------------------------------------------------------------------------------
# Describing a forest


def describe(estimator: BSPForest, extra: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a fitted estimator, which share nothing with it."""
    name, kinds = type(estimator).__name__, find_estimators()
    if type(estimator) is not kinds.get(name):
        raise TypeError(f"a model file holds a {' or a '.join(kinds)}, not a {type(estimator).__qualname__}")
    if extra is not None and not isinstance(extra, dict):
        raise TypeError(f"extra must be a dict, got {type(extra).__name__}")
    parameters = {**estimator.get_params(deep=False), **estimator._fit_parameters}
    own = estimator._forest
    used, state = own.trees.coordinates, own.prediction.export_state()
    given = "none" if own.config.scaling is None else "given range"
    header = {
        "format": FORMAT,
        "bspforest": __version__,
        "versions": find_versions(),
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "estimator": name,
        "parameters": {key: encode(value, key) for key, value in parameters.items()},
        "feature_names": encode(getattr(estimator, "feature_names_in_", None), "feature_names_in_"),
        "classes": encode(getattr(estimator, "classes_", None), "classes_"),
        "encoder": None if estimator._encoder is None else describe_encoder(estimator._encoder),
        "forest": {
            "n_trees": own.trees.n_trees,
            "n_features": own.trees.n_features,
            "n_held": int(own.n_held),
            "n_seen": int(own.n_seen),
            "budget": encode(float(own.budget), "budget_"),
            "cuts": own.cuts,
            "scaling": used.kind if own.config.is_scaled_by_rows else given,
            "held_at_scaling": int(own.held_at_scaling),
            "learned_since": int(own.learned_since),
            "key_salt": own.keys.salt.hex(),
        },
        "prediction": {key: encode(value, key) for key, value in state.items()},
        "extra": extra,
    }
    return header, export_arrays(own)


def export_arrays(forest: OnlineForest) -> dict[str, np.ndarray]:
    """Return the arrays of a forest by the names of members. They are copies, and zero where nothing is in use."""
    n_slots = min(forest.rows.n_slots, len(forest.trees.arrays.rows))
    ids, free = forest.rows.export_slots(n_slots)
    copy, used = forest.snapshot(), forest.trees.coordinates
    trees, arrays, labels = copy.trees, copy.trees.arrays, copy.labels
    found = {
        "ids": ids.copy(),
        "free": free,
        "keys": forest.keys.export(forest.n_seen - len(ids), len(ids)),
        "range": np.stack([used.low, used.high]),
        "feature_weights": used.weights,
        "knots": np.stack([used.knots, used.ranks]),
        "state": arrays.state,
    }
    by_slot = {"rows": trees.given, "y": labels.y, "sample_weight": labels.weights, "terms": arrays.terms}
    by_slot |= {"residuals": labels.residuals, "stds": labels.stds}
    found |= {name: array[:n_slots] for name, array in by_slot.items()}
    for name, count in TREES.items():
        found[name] = getattr(arrays, name)[:, : n_slots if count is None else arrays.state[count].max()]
    # Plain records instead of numpy's own class, which the npy format cannot name.
    return {
        name: found[name].view(kind.descr) if (kind := np.dtype(MEMBERS[name][0])).names else found[name]
        for name in MEMBERS
    }


def find_versions() -> dict[str, str]:
    """Return the versions of Python and the packages that matter, for a reader of the header."""
    packages = ("numpy", "numba", "scikit-learn")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}


def find_estimators() -> dict[str, Any]:
    """Return the classes that files may name. They stand above this module."""
    module = importlib.import_module("bspforest.estimators")
    return {name: getattr(module, name) for name in ("BSPForestClassifier", "BSPForestRegressor")}


# ----------------------------------------------------------------------------------------------------------------------
# Restoring it


def restore(archive: zipfile.ZipFile, header: dict[str, Any], rebuild: bool) -> Any:
    """Return the estimator in an open file: first what is known of rows, then the trees, read or built again."""
    shape = header["forest"]
    rows = _read_arrays(archive, ROWS, d=check_int(shape["n_features"], "n_features", 1, 2**31 - 1))
    is_known = not rebuild and "state.npy" in archive.namelist()
    limit = archive.getinfo("state.npy").file_size // layout.STATE.itemsize if is_known else MAX_TREES
    check_int(shape["n_trees"], "n_trees", 1, limit)  # before memory is allocated for them
    expect(rows["y"].shape[1] >= 1, "there are no labels")
    coordinates = make_coordinates(rows["range"], rows["feature_weights"], rows["knots"])
    estimator = _make_estimator(header, rows["y"].shape[1], coordinates)
    forest = estimator._forest
    _set_rows(forest, rows, shape)
    if rebuild:
        forest.torn = True
        forest.make_whole()
        return estimator
    try:
        _set_trees(forest, len(rows["rows"]), archive)
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        hint = "The rows are whole: load(path, rebuild=True) builds the trees again from them"
        raise ModelFileError(f"{explain(error)}. {hint}") from error
    return estimator


def explain(error: Exception) -> str:
    """Return what is wrong with a file, given what was raised when it was read."""
    if isinstance(error, ModelFileError | BrokenTreeError):
        return str(error)
    return f"not a bspforest model file, or a damaged one: {type(error).__name__}: {str(error)[:500]}"


def _read_arrays(archive: zipfile.ZipFile, members: dict[str, tuple[Any, str]], **sizes: int) -> dict[str, np.ndarray]:
    """Return arrays of the types and shapes in a table, some of whose sizes are known."""
    arrays = {}
    for name, (kind, shape) in members.items():
        arrays[name] = _read_array(archive, name, np.dtype(kind))
        expect(arrays[name].ndim == len(shape), f"{name} has {arrays[name].ndim} dimensions")
        for letter, n in zip(shape, arrays[name].shape, strict=True):
            known = int(letter) if letter.isdigit() else sizes.setdefault(letter, n)
            expect(n == known, f"{name} has the shape {arrays[name].shape}, where {known} was expected instead of {n}")
    return arrays


def _read_array(archive: zipfile.ZipFile, name: str, kind: np.dtype) -> np.ndarray:
    """Return an array, aligned to cache lines."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        expect(version == (1, 0), f"{name} has version {version} of the npy format")
        shape, fortran, found = np.lib.format.read_array_header_1_0(member)
        expect(found == kind and found.names == kind.names and not fortran, f"{name} has the type {str(found)[:100]}")
        expect(math.prod(shape) * kind.itemsize <= info.file_size, f"{name} is too short")
        array = layout.empty(shape, kind)
        left = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        while chunk := member.read(AT_ONCE):  # to the end, where zipfile checks the CRC
            expect(len(chunk) <= len(left), f"{name} is too long")
            left[: len(chunk)] = chunk
            left = left[len(chunk) :]
        expect(not left, f"{name} is too short")
        return array


def _make_estimator(header: dict[str, Any], n_outputs: int, coordinates: Coordinates) -> Any:
    """Return the estimator of a header, with a forest that holds no rows."""
    shape, kinds = header["forest"], find_estimators()
    expect(header["estimator"] in kinds, f"the estimator is {str(header['estimator'])[:50]!r}")
    estimator = kinds[header["estimator"]](**{key: decode(value) for key, value in header["parameters"].items()})
    n_trees = estimator.n_estimators
    expect(type(n_trees) is int and n_trees == shape["n_trees"], "n_estimators is not the number of trees")
    estimator.n_features_in_ = shape["n_features"]
    if header["encoder"] is not None:
        encoder = estimator._encoder = make_encoder(header["encoder"])
        expect(encoder.width == shape["n_features"], f"the encoder makes {encoder.width} features")
        estimator.n_features_in_ = len(encoder.columns)
    estimator._validate_params()
    estimator._keep_parameters()
    if header["feature_names"] is not None:
        names = estimator.feature_names_in_ = decode(header["feature_names"])
        expect(names.shape == (estimator.n_features_in_,) and names.dtype == object, "feature names are wrong")
    n_classes = 0
    if header["estimator"] == "BSPForestClassifier":
        classes = estimator.classes_ = decode(header["classes"])
        n_classes = len(classes)
        in_order = classes.ndim == 1 and n_classes and (classes[:-1] < classes[1:]).all()
        expect(in_order and n_outputs == 1, "classes are not in order, or there are several outputs")
    estimator._forest = _make_forest(estimator._make_config(n_classes, n_outputs), header, coordinates)
    if estimator._encoder is not None:
        estimator._forest.trees.groups = estimator._encoder.describe_layout().groups
    estimator._set_threads()
    return estimator


def _make_forest(config: ForestConfig, header: dict[str, Any], coordinates: Coordinates) -> OnlineForest:
    """Return the forest of a header, without its rows."""
    shape = header["forest"]
    possible = AUTO_CUTS if config.cuts == "auto" else (config.cuts,)
    expect(shape["cuts"] in possible, f"the cuts are {str(shape['cuts'])[:50]!r}")
    coordinates = coordinates.cut_by(FAMILIES[shape["cuts"]])
    n_seen, n_held = check_int(shape["n_seen"], "n_seen"), check_int(shape["n_held"], "n_held")
    rule = _restore_prediction(header["prediction"], config, coordinates, n_seen, n_held)
    # The trees are replaced, or, if they are built again, have random streams of their own.
    forest = OnlineForest(config, np.random.SeedSequence([rule.seed, n_seen]), rule)
    ranked = coordinates.uses_ranks
    expect(not ranked or config.scaling in ("auto", "quantile"), "there are ranks, but not in the scaling")
    forest.trees.set_coordinates(coordinates)
    budget = decode(shape["budget"])
    expect(type(budget) is float and budget >= 0, "the budget is not a number of at least 0")
    forest.budget = budget
    forest.held_at_scaling = check_int(shape["held_at_scaling"], "held_at_scaling")
    forest.learned_since = check_int(shape["learned_since"], "learned_since")
    salt = bytes.fromhex(shape["key_salt"])
    expect(len(salt) in (0, SALT_BYTES), f"the salt of keys has {len(salt)} bytes; expected {SALT_BYTES}")
    forest.keys = KeyTable(salt)
    return forest


def _restore_prediction(
    state: Any, config: ForestConfig, coordinates: Coordinates, n_seen: int, n_held: int
) -> MeanPrediction | RidgePrediction:
    """Return the prediction rule with the state of the header."""
    state = {key: decode(value) for key, value in state.items()}
    if not config.n_columns:
        centre = state["centre"]
        expect(type(centre) is float and math.isfinite(centre), "the centre of labels is not a number")
        return MeanPrediction(centre=centre)
    check_ridge(state, n_seen, n_held, config.n_columns)
    rule = RidgePrediction.from_state(state, coordinates)
    if rule.search is not None and rule.search.result is not None:
        planned = rule.search.result.coordinates
        families = (planned.family, coordinates.family) if config.cuts != "auto" else ()
        same = len(planned.low) == config.n_features and len(set(families)) < 2
        expect(same, "the revision that was going on is of other features or cuts")
        make_coordinates(
            np.stack([planned.low, planned.high]), planned.weights, np.stack([planned.knots, planned.ranks])
        )
    return rule


def _set_rows(forest: OnlineForest, found: dict[str, np.ndarray], shape: dict[str, Any]) -> None:
    """Check the rows, and set which are stored where, with which keys and coordinates."""
    ids, free, n_slots = found["ids"], found["free"], len(found["rows"])
    held = ids[ids >= 0]
    slots = np.concatenate([held, free])
    expect(ids.min(initial=0) >= -1 and len(slots) == n_slots, "a row is stored in a slot that does not exist")
    expect(np.array_equal(np.sort(slots), np.arange(n_slots)), "two rows are stored in the same slot")
    expect(len(ids) == 0 or ids[0] >= 0, "the oldest row is not stored")
    expect(shape["n_held"] == len(held), f"{len(held)} rows are stored, not {shape['n_held']}")
    window = forest.config.window
    expect(window is None or len(held) <= window, f"{len(held)} rows exceed the window")
    expect(shape["n_seen"] >= len(ids), f"n_seen is less than {len(ids)}")
    forest.rows = RowTable.restore(shape["n_seen"], ids, free)
    expect(found["keys"].shape[1] <= LONGEST, "keys are too long")
    expect(not found["keys"][ids < 0].any(), "a row that is not stored has a key")
    found["keys"].tobytes().decode()  # raises if a key is no text
    forest.keys = KeyTable.restore(forest.keys.salt, forest.n_seen - len(ids), found["keys"])
    check_rows(found["rows"], found["y"], found["sample_weight"], forest.config.n_classes)
    forest._make_room(max(n_slots, 1), spare=False)
    forest.trees.store(slice(n_slots), found["rows"])
    forest.labels.store(slice(n_slots), found["y"], found["sample_weight"])


def _set_trees(forest: OnlineForest, n_slots: int, archive: zipfile.ZipFile) -> None:
    """Read the trees, and check them."""
    old, labels = forest.trees.arrays, forest.labels
    sizes = {"d": forest.config.n_features, "m": forest.config.n_trees, "s": n_slots, "z": old.boxes.shape[2]}
    sizes |= {"t": old.terms.shape[1], "v": old.sums.shape[2]}
    sizes |= {"q": labels.residuals.shape[1], "e": labels.stds.shape[1]}
    found: dict[str, Any] = _read_arrays(archive, CACHES, **sizes)
    check_found(found)
    labels.residuals[:n_slots] = found.pop("residuals")
    labels.stds[:n_slots] = found.pop("stds")
    old.terms[:n_slots] = found.pop("terms")
    for name in TREES:  # kernels need room for one
        least = max(n_slots, 1) // old.min_split + 1 if name == "queue" else 1
        if found[name].shape[1] < least:
            found[name] = layout.resize_trees(found[name], least)
    forest.trees.arrays = old._replace(**found)
    check_trees(forest.trees, forest.rows.held_slots(), forest.budget, joblib.cpu_count())


def make_coordinates(low_high: np.ndarray, weights: np.ndarray, knots_ranks: np.ndarray) -> Coordinates:
    """Return the map from features to coordinates, checked."""
    low, high = low_high
    with np.errstate(all="ignore"):
        finite = np.isfinite(low_high).all() and np.isfinite(high - low).all()
    expect(finite and (low <= high).all(), "the range of a feature is not finite, or upside down")
    expect((np.isfinite(weights) & (weights >= 0)).all(), "the weight of a feature is not finite, or negative")
    knots, ranks = (np.ascontiguousarray(part) for part in knots_ranks)
    increasing = np.isfinite(knots).all() and (np.diff(knots, axis=1) >= 0).all()
    expect(increasing, "the knots of a feature are not finite, or not in order")
    expect(((ranks >= 0) & (ranks <= 1)).all(), "a rank is not between 0 and 1")
    return Coordinates(low, high, np.array(weights), knots, ranks)


def check_rows(rows: np.ndarray, y: np.ndarray, weights: np.ndarray, n_classes: int) -> None:
    """Check that rows and labels are finite, weights not negative, and labels of the known classes."""
    expect(np.isfinite(rows).all(), "a row has a value that is not finite")
    finite = np.isfinite(y).all() and np.isfinite(weights).all() and (weights >= 0).all()
    expect(finite, "a label or weight is not finite, or a weight is negative")
    if n_classes:
        known = (y >= 0).all() and (y < n_classes).all() and (y == np.floor(y)).all()
        expect(known, "a label is none of the classes")


def check_found(found: dict[str, np.ndarray]) -> None:
    """Check that what predictions keep per row is finite. Residuals and deviations may be NaN: unknown."""
    terms, residuals, stds = (found[name] for name in ("terms", "residuals", "stds"))
    expect(np.isfinite(terms).all() and not np.isinf(residuals).any(), "a term or a residual is not finite")
    expect(not (stds < 0).any() and not np.isinf(stds).any(), "a standard deviation is negative or infinite")
