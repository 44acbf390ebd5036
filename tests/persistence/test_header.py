"""Forged headers raise a `ModelFileError`, and cost no memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hostile import copy_content, make_forest, with_header

import bspforest
from bspforest import ModelFileError
from bspforest.persistence.writer import write_content


def nested(depth):
    return [nested(depth - 1)] if depth else []


HEADERS = {
    "number beyond floats": ("forest", "budget", 10**400, "OverflowError"),
    "float of a list": ("parameters", "budget", {"float": []}, "TypeError"),
    "tuple of a number": ("parameters", "scaling", {"tuple": 5}, "TypeError"),
    "deep list": ("parameters", "scaling", nested(900), "RecursionError|pair"),
    "unknown dtype": ("parameters", "scaling", {"array": [], "dtype": "what", "shape": [0]}, "TypeError"),
    "shape of a number": ("parameters", "scaling", {"array": [], "dtype": "<i8", "shape": 5}, "TypeError"),
    "number beyond its dtype": (
        "parameters",
        "scaling",
        {"array": [2**70], "dtype": "<i8", "shape": [1]},
        "OverflowError",
    ),
    "short random state": ("parameters", "random_state", {"RandomState": [[1], 0, 3, 4]}, "ValueError|IndexError"),
    "truncated random state": ("parameters", "random_state", {"RandomState": [[1]]}, "ValueError"),
    "random state of text": ("parameters", "random_state", {"RandomState": [["x"] * 624, 2, 3, 4]}, "Error"),
    "position outside a random state": (
        "parameters",
        "random_state",
        {"RandomState": [[1] * 624, 10**8, 0, 0.0]},
        "the position of a random state is 100000000",
    ),
    "unknown parameter": ("parameters", "colour", 1, "colour"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_forged_headers(tmp_path, name):
    """Whatever the header holds, loading raises a `ModelFileError`."""
    part, key, value, match = HEADERS[name]
    content = copy_content(make_forest("pairs", "exact", 0))
    write_content(with_header(content, lambda h: h[part].__setitem__(key, value)), tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError, match=match):
        bspforest.load(tmp_path / "m")


def test_absurd_sizes_are_refused_before_memory_is_allocated(tmp_path):
    content = copy_content(make_forest("pairs", "exact", 0))
    for name in ("n_trees", "n_features", "n_slots", "n_ids", "n_free"):
        forged = with_header(content, lambda h, name=name: h["forest"].__setitem__(name, 2**31 - 1))
        write_content(forged, tmp_path / "m", overwrite=True)
        tracemalloc.start()
        with pytest.raises(ModelFileError):
            bspforest.load(tmp_path / "m")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**24
