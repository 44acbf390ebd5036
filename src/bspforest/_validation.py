"""Checks of parameters, rows, labels and weights. Each raises before anything is changed."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from ._magnitude import MAX_MAGNITUDE, check_column, check_magnitude, is_moderate
from ._sklearn_compat import Interval, StrOptions, check_sample_weight
from .forest.forest import OnlineForest
from .tables.values import is_missing, shorten

# What the parameters that shape a forest may be, in every interface.
FOREST_CONSTRAINTS: dict[str, list] = {
    "n_estimators": [Interval(Integral, 1, None, closed="left")],
    "cuts": [StrOptions({"auto", "pairs", "axes", "isotropic"})],
    "budget": [StrOptions({"auto", "minimax"}), Interval(Real, 0, None, closed="right"), callable],
    "budget_scale": [Interval(Real, 0, None, closed="neither")],
    "min_samples_split": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
    "scaling": [StrOptions({"auto", "minmax", "quantile"}), None, tuple, list],
    "window": [Interval(Integral, 1, None, closed="left"), str, None],
    "prediction": [StrOptions({"mean", "ridge"})],
    "feature_weights": [StrOptions({"learned"}), "array-like", None],
}

# What the parameters of ridge predictions may be.
JOINT_CONSTRAINTS: dict[str, list] = {
    "bandwidth": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "ridge": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "half_life": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), None],
}


def read_rows(estimator: Any, X: Any, *, reset: bool, min_rows: int = 1) -> tuple[np.ndarray, bool]:
    """Return X as float64 rows, and whether any number is missing (NaN); infinite and too large ones are refused.

    Plain arrays take a short cut: validation costs more than learning a row.
    """
    plain = (
        type(X) is np.ndarray
        and not reset
        and X.dtype == np.float64
        and X.ndim == 2
        and X.flags.c_contiguous
        and X.shape[1] == estimator.n_features_in_
        and len(X) >= min_rows
        and not hasattr(estimator, "feature_names_in_")
    )
    if not plain:
        X = validate_data(
            estimator, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False, ensure_min_samples=min_rows
        )
    if is_moderate(X):
        return X, False
    large = np.abs(X) > MAX_MAGNITUDE
    if large.any():
        column = int(np.argmax(large.any(axis=0)))
        names = getattr(estimator, "feature_names_in_", None)
        check_column(f"column {column}" + ("" if names is None else f" ({names[column]!r})"), X[:, column])
    return X, True


def check_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Return one finite weight per row, none negative and not all zero."""
    if sample_weight is None:
        return np.ones(len(X)) if len(X) != 1 else np.array([1.0])  # half the time
    given = np.asarray(sample_weight)
    if not len(X) and given.shape in ((), (0,)):
        return np.ones(0)
    if len(X) and given.shape in ((), (len(X),)) and (given == 0).all():
        raise ValueError("sample_weight is zero for every row; at least one must be positive")
    w = check_sample_weight(sample_weight, X, dtype=np.float64)
    if not np.isfinite(w).all():
        raise ValueError(f"sample_weight must be finite, got {w[np.argmin(np.isfinite(w))]}")
    check_magnitude("sample_weight", w)
    if len(w) and w.min() < 0:
        raise ValueError(f"sample_weight must not be negative, got {w.min()} in row {int(w.argmin())}")
    return w


def check_targets(name: str, X: np.ndarray, y: Any) -> np.ndarray:
    """Return y as finite float64 numbers, one per row of X, or several columns of them. ``name`` is that of the estimator."""
    y = _check_y_given(name, y)
    if not (type(y) is np.ndarray and y.dtype == np.float64 and y.ndim == 1 and len(y) == len(X)):
        given = np.asarray(y)
        if given.dtype.kind not in "biufc":
            _check_numbers(name, given)
        if given.ndim == 2 and given.shape[1] > 1:
            y = check_array(y, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0, input_name="y")
        else:
            y = column_or_1d(y, dtype=np.float64, warn=True)
        check_consistent_length(X, y)
    if is_moderate(y):
        return y
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y).reshape(len(y), -1).all(axis=1)))
        what = "NaN" if np.isnan(y[row]).any() else "infinity"
        raise ValueError(f"Input y contains {what} in row {row}; finite numbers are expected.")
    check_magnitude("y", y)
    return y


def _check_numbers(name: str, y: np.ndarray) -> None:
    """Raise if a label of a regressor is missing, or text or an object that is no number."""
    if y.dtype.kind in "mM":
        y = y.astype(f"{y.dtype.kind}8[us]")  # for the message; nanoseconds would be whole numbers
    for row, values in enumerate(y if y.ndim else []):
        for value in np.atleast_1d(values).ravel().tolist():
            if is_missing(value):
                raise ValueError(f"Input y contains NaN: the label in row {row} is {value!r}.")
            try:
                float(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"{name} expects labels that are numbers, but y has {shorten(value)} ({type(value).__name__}) in row {row}: "
                    f"convert them, or use {name.replace('Regressor', 'Classifier')} for classes"
                ) from None


def check_labels(name: str, X: np.ndarray, y: Any) -> np.ndarray:
    """Return y as labels of classes, one per row of X. ``name`` is that of the estimator."""
    y = _check_y_given(name, y)
    _refuse_missing("Input y", y)
    if not (type(y) is np.ndarray and y.ndim == 1 and len(y) == len(X)):
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"Input y contains NaN or infinity in row {int(np.argmin(np.isfinite(y)))}.")
    if len(y) and y.dtype.kind not in "iub":
        check_classification_targets(y)
    return y


def _refuse_missing(name: str, labels: Any) -> None:
    """Raise if a label among objects is missing. Lists are looked at before numpy makes text of NaN."""
    if type(labels) is np.ndarray and labels.dtype != object:
        return
    values = labels if isinstance(labels, list | tuple) else np.asarray(labels)
    if isinstance(values, np.ndarray) and (values.dtype != object or values.ndim > 2):
        return
    for row, value in enumerate(values):
        if is_missing(value[0] if isinstance(value, np.ndarray) and len(value) else value):
            raise ValueError(f"{name} contains NaN: the label in row {row} is {value!r}.")


def _check_y_given(name: str, y: Any) -> Any:
    if y is None:
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    return y


def check_classes(classes: Any) -> np.ndarray:
    """Return the parameter ``classes`` of `partial_fit`, sorted."""
    _refuse_missing("classes", classes)
    given = np.asarray(classes)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1 or not given.size:
        raise ValueError(f"classes must be a list of labels, at least one, got {classes!r}")
    return unique_labels(given)


def encode_labels(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the index of each label among the classes, which are sorted; raise for a label that is not among them."""
    if not len(y):
        return np.empty(0, dtype=np.intp)
    mixed = {y.dtype.kind, classes.dtype.kind} == {
        "i",
        "u",
    }  # numpy compares these as float64, which merges large numbers
    if y.dtype == object or mixed:  # what it holds need not compare with the classes
        known = {label: k for k, label in enumerate(classes.tolist())}
        index = np.array([known.get(label, -1) for label in y.tolist()], dtype=np.intp)
        unseen = index < 0
    else:
        try:
            index = np.searchsorted(classes, y)
        except TypeError:
            raise ValueError(
                f"y contains labels of type {y.dtype}, which cannot be compared with the classes {classes.tolist()}"
            ) from None
        index[index == len(classes)] = 0
        unseen = classes[index] != y
    if np.any(unseen):
        unknown = y.tolist()[np.argmax(unseen)]
        raise ValueError(f"y contains the class {unknown!r}, which is not among the classes {classes.tolist()}")
    return index


def check_ids(ids: Any, forest: OnlineForest) -> np.ndarray:
    """Return row numbers to be forgotten, each of a row that is held and given once; or those of a mask of the rows held."""
    given = np.atleast_1d(np.asarray(ids))
    if given.dtype == bool:
        if given.shape != (forest.n_held,):
            raise ValueError(f"a mask of the rows to forget has shape {given.shape}, but {forest.n_held} rows are held")
        return forest.rows.held_ids()[given]
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"ids must be whole numbers in one dimension, got {given.dtype} of shape {given.shape}")
    n_seen = forest.n_seen
    if given.size and (given.min() < 0 or given.max() >= n_seen):
        bad = given[(given < 0) | (given >= n_seen)][0]
        known = f"rows seen so far have ids 0 to {n_seen - 1}" if n_seen else "no rows have been seen so far"
        raise ValueError(f"unknown id {bad}: {known}")
    wanted = given.astype(np.int64)
    gone = wanted[forest.rows.slots_of(wanted) < 0]
    if gone.size:
        raise ValueError(f"id {gone[0]} is already forgotten")
    values, counts = np.unique(wanted, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"id {values[counts > 1][0]} is given more than once")
    return wanted


def check_keys(keys: Any, forest: OnlineForest, n: int) -> np.ndarray | None:
    """Return the keys of n rows as the forest holds them; None if none are given."""
    if keys is None:
        return None
    given = list(keys) if not isinstance(keys, str) else [keys]
    if len(given) != n:
        raise ValueError(f"X has {n} rows, but keys has {len(given)} entries")
    return forest.keys.encode(given)


def find_ids_of_keys(keys: Any, forest: OnlineForest) -> np.ndarray:
    """Return the rows held that have one of some keys, each of which some row must have."""
    given = [keys] if isinstance(keys, str) or np.ndim(keys) == 0 else list(keys)
    encoded = forest.keys.encode(given)
    ids = forest.keys.find(encoded)
    unknown = [
        key
        for key, found in zip(given, np.isin(encoded, forest.keys.entries) & (encoded != b""), strict=True)
        if not found
    ]
    if unknown:
        listed = ", ".join(map(repr, unknown[:10])) + (f" and {len(unknown) - 10} more" if len(unknown) > 10 else "")
        raise ValueError(
            f"no row that is held has the key {listed}"
            if len(unknown) == 1
            else f"no row that is held has the keys {listed}"
        )
    return ids


def check_quantiles(quantiles: Any) -> np.ndarray:
    """Return quantiles as an array of numbers in [0, 1]."""
    try:
        q = np.atleast_1d(np.array(quantiles, dtype=np.float64, order="C"))
    except (TypeError, ValueError):
        raise ValueError(f"quantiles must be numbers in [0, 1], got {quantiles!r}") from None
    if q.ndim != 1 or not ((q >= 0) & (q <= 1)).all():
        raise ValueError(f"quantiles must be numbers in [0, 1], got {quantiles!r}")
    return q
