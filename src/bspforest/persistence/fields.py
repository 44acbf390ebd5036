"""Values in the header of a model file: how JSON holds them, and checks of what is read."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

# Largest array of strings in the header. Numpy pads all of them to the longest.
LARGEST_TEXT_ARRAY = 16 * 2**20

# Row counts and ids are at most this, so that their sums fit int64.
LARGEST_COUNT = 2**62


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
