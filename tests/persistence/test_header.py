"""Forged headers raise a `ModelFileError`, and cost no memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hostile import array_of, copy_content, make_forest, same, with_header

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor, ModelFileError
from bspforest.engine.arrays import MOST_FEATURES
from bspforest.engine.kernels.checksum import checksum
from bspforest.persistence import read_header
from bspforest.persistence.header import LARGEST_HEADER, MOST_MEMORY, estimate_memory
from bspforest.persistence.writer import Content, _make_preamble, write_content


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


JOINT_HEADERS = {
    "other values": ("values", "median", "expected mean or joint"),
    "mean values with label columns": ("values", "mean", "1 label columns; expected 0"),
    "no outputs": ("n_outputs", 0, "n_outputs is 0"),
    "more outputs than labels": ("n_outputs", 2, "too short|label columns"),
    "absurdly many outputs": ("n_outputs", 2**31 - 1, "too short|outputs"),
    "no label columns": ("n_columns", 0, "0 label columns; expected 1"),
    "no state": ("joint", None, "joint in the header is of type NoneType"),
    "more state": ("joint.more", 1, "joint has other entries"),
    "negative bandwidth": ("joint.choice", [-1.0, 1.0, 1.0], "bandwidth is -1.0"),
    "ridge of zero": ("joint.choice", [1.0, 0, 1.0], "ridge is 0"),
    "ridge of text": ("joint.choice", [1.0, "1", 1.0], "ridge is 1; expected a positive number"),
    "negative error": ("joint.choice", [1.0, 1.0, -1.0], "the validation error is -1.0"),
    "short choice": ("joint.choice", [1.0, 1.0], "not a list of three"),
    "no choice": ("joint.choice", None, "bandwidth and ridge are missing"),
    "bandwidth beyond floats": ("joint.choice", [10**400, 1.0, 1.0], "OverflowError"),
    "given ridge": ("joint.given_ridge", True, "given_ridge is True"),
    "mean label of text": ("joint.mean", ["1"], "a mean label is not a number"),
    "infinite mean label": ("joint.mean", [{"float": "inf"}], "a mean label is not finite"),
    "two mean labels": ("joint.mean", [1.0, 2.0], "2 mean labels for 1 label columns"),
    "negative seed": ("joint.seed", -1, "seed is -1"),
    "more rows than seen": (
        "joint.held_at_solve",
        10**6,
        "held_at_solve is 1000000; expected an integer from 0 to 120",
    ),
    "flag": ("joint.is_settled", 1, "is_settled in the header is of type int"),
    "negative time": ("joint.unit", -1.0, "unit is -1.0"),
}


@pytest.mark.parametrize("name", JOINT_HEADERS)
def test_forged_headers_of_joint_values(tmp_path, name):
    key, value, match = JOINT_HEADERS[name]
    content = copy_content(make_forest("pairs", "exact", 0, "joint"))
    write_content(content, tmp_path / "m", overwrite=True)
    bspforest.load(tmp_path / "m")

    def change(header):
        part = header["forest"]["joint"] if key.startswith("joint.") else header["forest"]
        part[key.removeprefix("joint.")] = value

    write_content(with_header(content, change), tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError, match=match):
        bspforest.load(tmp_path / "m")


def test_numbers_of_joint_values_survive(tmp_path):
    """JSON knows neither NaN nor infinity."""
    X = np.random.default_rng(0).random((30, 2))
    given = {"bandwidth": 3, "ridge": 0.5, "metric": None, "scaling": "minmax"}  # nothing is left to be decided
    forest = BSPForestRegressor(2, values="joint", random_state=0, **given).fit(X, X)
    forest.save(tmp_path / "m")
    loaded = bspforest.load(tmp_path / "m")
    assert np.isnan(loaded.validation_error_) and (loaded.bandwidth_, loaded.ridge_) == (3.0, 0.5)
    assert type(loaded.bandwidth_) is float and loaded.get_params() == forest.get_params()
    forest._forest.values.choice = forest._forest.values.choice._replace(error=np.inf)
    forest.save(tmp_path / "m")
    assert bspforest.load(tmp_path / "m").validation_error_ == np.inf
    assert loaded._forest.values.mean.tolist() == forest._forest.values.mean.tolist()


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


def repeat(pattern, size):
    """Return a JSON list of about this many bytes."""
    return "[" + ",".join([pattern] * (size // (len(pattern) + 1))) + "]"


def make_keys(size):
    keys = np.random.default_rng(0).integers(0, 10**6, size // 12)
    return "[{" + ",".join(f'"{key:06}":1' for key in keys) + "}]"


# JSON that takes much memory when parsed: patterns to repeat, and functions of the size.
EXPENSIVE = {
    "lists": "[]",
    "objects": "{}",
    "nested lists": "[[[[[[]]]]]]",
    "nested objects": '{"":{"":{"":0}}}',
    "objects with entries": '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}',
    "integers": "999",
    "fractions": "0.5",
    "text": '"ab"',
    "escaped text": '"\\ud83d\\ude00"',
    "many keys": make_keys,
    "long text": lambda size: '["' + "a" * size + '"]',
    "long text with escapes": lambda size: '["' + "a" * size + '\\ud83d\\ude00"]',
}


def make_expensive(name, size):
    """Return JSON of about this many bytes."""
    pattern = EXPENSIVE[name]
    return (repeat(pattern, size) if isinstance(pattern, str) else pattern(size)).encode()


def measure_parsing(data):
    """Return the peak memory of parsing, beyond the data."""
    tracemalloc.start()
    try:
        json.loads(data.decode("ascii"))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_estimates_of_memory_are_upper_bounds():
    for name in EXPENSIVE:
        data = make_expensive(name, 300_000)
        assert measure_parsing(data) <= estimate_memory(data), name


READ_WITHIN_LIMIT = """
import os, resource, sys
import bspforest
from bspforest.engine.kernels.checksum import checksum
from bspforest.persistence import read_header
good, *paths = sys.argv[1:]
bspforest.load(good)  # loads all kernels
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
for path in paths:
    if os.fork():
        os.wait()
        continue
    allocated = os.stat(path).st_blocks * 512
    resource.setrlimit(resource.RLIMIT_AS, (used + allocated + 64 * 2**20, resource.RLIM_INFINITY))
    for call in (read_header, bspforest.load):
        try:
            call(path)
            print("read", flush=True)
        except bspforest.ModelFileError as error:
            print(error, flush=True)
    os._exit(0)
"""


def read_within_limit(good, *paths):
    """Read files, each in a process that may use 64 MB beyond the file's size on disk; return two lines per file."""
    command = [sys.executable, "-c", READ_WITHIN_LIMIT, *map(str, [good, *paths])]
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}  # no address space is set aside for threads
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
@pytest.mark.parametrize("size", [60_000_000, 8_000_000])
@pytest.mark.parametrize("pattern", ["[]", '"abcdefgh"'])
def test_large_headers_are_refused_before_memory_is_spent(tmp_path, size, pattern):
    """Seen to need up to 1.8 GB for 60 MB when the limit was 64 MB."""
    content = copy_content(make_forest("pairs", "exact", 0))
    write_content(content, tmp_path / "good", overwrite=True)
    data = content.header.rstrip().removesuffix(b"}") + b', "more": ' + repeat(pattern, size).encode() + b"}"
    forged = Content(data + b" " * (-len(data) % 8), content.blocks)
    write_content(forged, tmp_path / "m", overwrite=True)
    printed = read_within_limit(tmp_path / "good", tmp_path / "m")
    assert len(printed) == 2 and all("the header would " in line for line in printed), printed


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_the_largest_headers_that_are_accepted_fit_the_limit(tmp_path):
    """Each kind of JSON, as much of it as is accepted."""
    content = copy_content(make_forest("pairs", "exact", 0))
    write_content(content, tmp_path / "good", overwrite=True)
    paths = []
    for name in EXPENSIVE:
        sample = make_expensive(name, 100_000)
        size = min(0.97 * MOST_MEMORY * len(sample) / estimate_memory(sample), LARGEST_HEADER - 50_000)
        data = content.header.rstrip().removesuffix(b"}") + b', "more": ' + make_expensive(name, int(size)) + b"}"
        forged = Content(data + b" " * (-len(data) % 8), content.blocks)
        paths.append(tmp_path / name)
        write_content(forged, paths[-1], overwrite=True)
    assert read_within_limit(tmp_path / "good", *paths) == ["read", "read"] * len(paths)


@pytest.mark.parametrize("name", ["feature_{:06}_of_the_second_sensor", "größe_{:06}"])
def test_names_of_the_most_features_fit(tmp_path, name):
    columns = [name.format(k) for k in range(MOST_FEATURES)]
    X = pd.DataFrame(np.random.default_rng(0).random((5, MOST_FEATURES)), columns=columns)
    forest = BSPForestRegressor(1, cuts="axes", budget=1e-9, random_state=0).fit(X, X.iloc[:, 0])
    forest.save(tmp_path / "m")
    assert bspforest.load(tmp_path / "m").feature_names_in_.tolist() == X.columns.tolist()


def test_what_load_would_refuse_is_not_saved(tmp_path):
    forest = make_forest("pairs", "exact", 0)
    for extra in ({"a": [[]] * 800_000}, {"a": "x" * 9_000_000}):
        with pytest.raises(ValueError, match="feature names, classes and extra"):
            forest.save(tmp_path / "m", extra=extra)
    classes = np.array(["a", "b" * 2_000, "c"])
    classifier = BSPForestClassifier(1, random_state=0).fit(np.eye(3), classes)
    classifier.save(tmp_path / "m")
    assert bspforest.load(tmp_path / "m").classes_.tolist() == classes.tolist()
    classifier.classes_ = np.array([*(str(k) for k in range(3000)), "b" * 2_000])
    with pytest.raises(ValueError, match="classes_ takes 24,008,000 bytes"):
        classifier.save(tmp_path / "m")


def test_padded_arrays_of_text_are_refused(tmp_path):
    """Ten thousand short strings and a long one: as an array they would take 4 GB."""
    content = copy_content(make_forest("pairs", "exact", 0))
    array = {"array": ["a"] * 10_000 + ["b" * 100_000], "dtype": "<U100000", "shape": [10_001]}
    forged = with_header(content, lambda h: h["parameters"].__setitem__("scaling", array))
    write_content(forged, tmp_path / "m", overwrite=True)
    assert read_header(tmp_path / "m")["estimator"] == "BSPForestRegressor"
    with pytest.raises(ModelFileError, match="an array of 10001 times <U100000"):
        bspforest.load(tmp_path / "m")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory and sparse files")
def test_sparse_files_are_refused_before_memory_is_spent(tmp_path):
    """A file of 6 GB, nearly all of it a hole. Its first block of 400 MB was read when only its length was checked."""
    content = copy_content(make_forest("pairs", "exact", 0))
    write_content(content, tmp_path / "good", overwrite=True)
    size, n_slots = 6 * 2**30, 10**8
    header = with_header(content, lambda h: h["forest"].update(n_slots=n_slots, n_free=n_slots - 80)).header
    state, ids = array_of(content, "state"), array_of(content, "ids")
    table = np.zeros(len(content.blocks), dtype=np.uint64)
    table[:2] = checksum(state), checksum(ids)
    front = _make_preamble(header, table, size) + header + table.tobytes()
    (tmp_path / "m").write_bytes(front + state.tobytes() + ids.tobytes())
    os.truncate(tmp_path / "m", size)
    if os.stat(tmp_path / "m").st_blocks * 512 > 2**20:
        pytest.skip("this file system has no sparse files")
    printed = read_within_limit(tmp_path / "good", tmp_path / "m")
    assert len(printed) == 2 and all("are holes; copy it with" in line for line in printed), printed


@pytest.mark.skipif(sys.platform != "linux", reason="needs sparse files")
def test_files_with_small_holes_are_loaded(tmp_path):
    """Rows of zeros that a copy has turned into holes."""
    forest = BSPForestRegressor(1, random_state=0).fit(np.zeros((60_000, 20)), np.zeros(60_000))
    forest.save(tmp_path / "m")
    subprocess.run(["cp", "--sparse=always", tmp_path / "m", tmp_path / "sparse"], check=True)
    status = os.stat(tmp_path / "sparse")
    if status.st_blocks * 512 > status.st_size / 2:
        pytest.skip("this file system has no sparse files")
    assert same(bspforest.load(tmp_path / "sparse"), forest)
