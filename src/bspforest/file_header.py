"""The header of a model file: values as JSON holds them, and checks of what is read."""

from __future__ import annotations

import json
import math
from typing import Any, get_args, get_type_hints

import numpy as np

from .forest.held_out import Order
from .forest.ridge import MAX_REVISIONS
from .forest.settings import Revision

# Largest header in bytes. The names of 100,000 features take 2 MB.
MAX_HEADER = 2**24

# Row counts and ids are at most this, so that their sums fit int64.
MAX_COUNT = 2**62

# Largest array of strings in bytes. Numpy pads all strings to the longest, so a small header could ask for much memory.
MAX_TEXT_ARRAY = 2**28


class ModelFileError(ValueError):
    """Raised for files that are not model files, are damaged or inconsistent, or have an unsupported format."""


def expect(condition: Any, message: str) -> None:
    """Raise a `ModelFileError` with this message unless the condition holds."""
    if not condition:
        raise ModelFileError(message)


def check_int(value: Any, name: str, least: int = 0, most: int = MAX_COUNT) -> int:
    """Return ``value`` if it is an integer within bounds."""
    expect(type(value) is int and least <= value <= most, f"{name} is not an integer from {least} to {most}")
    return value


# ----------------------------------------------------------------------------------------------------------------------
# Values as JSON


def encode(value: Any, name: str) -> Any:
    """Return a value as JSON that `decode` turns back into the same value; errors call it ``name``."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list):
        return [encode(element, name) for element in value]
    if isinstance(value, tuple):
        return {"tuple": encode(list(value), name)}
    if isinstance(value, dict):  # its keys may be numbers, which JSON would turn into text
        return {"pairs": [[encode(key, name), encode(entry, name)] for key, entry in value.items()]}
    if isinstance(value, np.random.RandomState):
        return {"RandomState": encode(value.get_state(legacy=True), name)}
    if isinstance(value, np.ndarray):
        entries = value.ravel().tolist()
        is_text = value.dtype == object and all(type(entry) is str for entry in entries)
        if is_text or value.dtype.kind in "biufU":
            dtype = "object" if is_text else value.dtype.str
            return {"array": encode(entries, name), "dtype": dtype, "shape": list(value.shape)}
    what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"of type {type(value).__name__}"
    raise ValueError(f"{name} is {'a function' if callable(value) else what}, which a model file cannot hold")


def decode(value: Any) -> Any:
    """Return the value that `encode` was given."""
    if isinstance(value, list):
        return [decode(element) for element in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"float"}:
        return float(value["float"])
    if value.keys() == {"tuple"}:
        return tuple(decode(value["tuple"]))
    if value.keys() == {"pairs"}:
        return dict(decode(value["pairs"]))
    if value.keys() == {"array", "dtype", "shape"}:
        return _decode_array(decode(value["array"]), value["dtype"], value["shape"])
    if value.keys() == {"RandomState"}:
        state = decode(value["RandomState"])
        check_int(state[2], "the position of a random state", 0, 624)  # numpy would read there unchecked
        random = np.random.RandomState()
        random.set_state(state)
        return random
    raise ModelFileError(f"the header has an entry of unknown kind: {', '.join(map(repr, value))[:200]}")


def _decode_array(entries: Any, name: str, shape: list[int]) -> np.ndarray:
    dtype = np.dtype(object if name == "object" else name)
    expect(dtype.kind != "U" or dtype.itemsize * len(entries) <= MAX_TEXT_ARRAY, "the header has too much text")
    kind: Any = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}[dtype.kind]
    expect(all(type(entry) is kind for entry in entries), f"an array in the header is not of its type {dtype}")
    return np.array(entries, dtype=dtype).reshape([check_int(n, "a shape in the header") for n in shape])


def dump_header(header: dict[str, Any]) -> bytes:
    """Return a header as JSON."""
    try:
        text = json.dumps(header, allow_nan=False, indent=1)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"extra must be a dict that JSON can hold: {error}") from error
    if json.loads(text)["extra"] != header["extra"]:
        raise ValueError("extra must be a dict that JSON restores unchanged: keys are strings, sequences are lists")
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"feature names, classes and extra are {len(text):,} bytes, at most {MAX_HEADER:,} can be held"
        )
    return text.encode("ascii")


# ----------------------------------------------------------------------------------------------------------------------
# The state of ridge predictions


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a kind: a type, a text, a range of integers, floats that satisfy a function, a list of kinds, or
    one of several kinds."""
    if isinstance(kind, tuple):
        return any(fits(value, each) for each in kind)
    if isinstance(kind, list):
        return type(value) is list and len(value) == len(kind) and all(map(fits, value, kind))
    if isinstance(kind, range):
        return type(value) is int and value in kind
    if isinstance(kind, str):
        return type(value) is str and value == kind
    if kind is None or isinstance(kind, type):
        return value is kind or type(value) is kind
    return type(value) is float and kind(value)


def is_positive(value: float) -> bool:
    return 0 < value < math.inf


def is_not_negative(value: float) -> bool:
    """Return whether a number is at least 0, or NaN: unknown."""
    return not value < 0


def is_half_life(value: float) -> bool:
    """Return whether a number is positive; it may be infinite."""
    return value > 0


def is_share(value: float) -> bool:
    return 0 <= value <= 1


def is_finite(value: float) -> bool:
    return math.isfinite(value)


def check_ridge(state: dict[str, Any], n_seen: int, n_held: int, n_columns: int) -> None:
    """Check the decoded state of ridge predictions, except for the coordinates of a revision that is going on."""
    revision = list(get_type_hints(Revision).values())
    settings = [is_positive, is_positive, is_not_negative, is_not_negative, is_share, is_half_life]
    count = range(n_seen + 1)
    kinds: dict[str, Any] = {
        "given_bandwidth": (None, is_positive),
        "given_ridge": (None, is_positive),
        "given_half_life": (None, is_half_life),
        "seed": range(2**32),
        "order": get_args(Order),
        "unit": is_positive,
        "scale": is_positive,
        "changed": count,
        "alarm": count,
        "detector": dict,
        "calibration": [is_positive, is_positive],
        "solved": [count, count],
        "tuned": [count, count],
        "settings": (None, settings),
        "mean": [float] * (0 if state["settings"] is None else n_columns),
        "revisions": [revision] * min(len(state["revisions"]), MAX_REVISIONS),
        "search": (None, [is_finite, *settings, range(2), list, (None, revision)]),
    }
    expect(state.keys() == kinds.keys(), f"ridge has other entries than {', '.join(kinds)}")
    for name, kind in kinds.items():
        expect(fits(state[name], kind), f"{name} in the header is not what it should be")
    expect(state["settings"] is not None or not n_held, "bandwidth and ridge are missing")
