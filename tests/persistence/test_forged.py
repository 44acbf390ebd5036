"""Model files that are damaged, forged or from another time end in a `ModelFileError`, never in a crash or a wrong forest."""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import hostile
import numpy as np
import pytest
from hostile import array_of, copy_image, make_forest, same, with_header

import bspforest
from bspforest import ModelFileError
from bspforest.engine.arrays import NOTHING
from bspforest.persistence.validation import TreeCheck
from bspforest.persistence.writer import write_image

SUPPORT = Path(__file__).parents[1] / "support"


def test_damaged_and_forged_files():
    """In a process of its own, so that a crash is seen; and with a limit of memory, so that an absurd allocation is."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(SUPPORT / "hostile.py"), "0", "60"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30)),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["failures"] == []
    assert result["refused"] > 1500 and result["refused_late"] > 10 and result["used"] > 50


def leaf_with(image, least):
    leaves = array_of(image, "leaves")
    return int(np.flatnonzero(leaves["n_points"] >= least)[0])


def forge_cycle(image):
    cuts, state = array_of(image, "cuts"), array_of(image, "state")
    cuts["left"][state["root"][0]] = state["root"][0]


def forge_shared_leaf(image):
    cuts = array_of(image, "cuts")
    v = int(np.flatnonzero((cuts["right"] < 0) & (cuts["right"] != NOTHING) & (cuts["left"] >= 0))[0])
    w = int(np.flatnonzero((cuts["right"] < 0) & (cuts["right"] != NOTHING) & (np.arange(len(cuts)) != v))[0])
    cuts["right"][w] = cuts["right"][v]


def forge_ring(image):
    k = leaf_with(image, 2)
    last = array_of(image, "leaves")["last"][k]
    array_of(image, "links")[last] = last


def forge_side(image):
    """A cut moved to the other side of its points: the children no longer partition their parent."""
    cuts, root = array_of(image, "cuts"), array_of(image, "state")["root"][0]
    cuts["p"][root] += 0.2


def forge_pending(image):
    queue, cuts = array_of(image, "queue"), array_of(image, "cuts")
    cuts["p"][queue["cut"][0]] = 1e6


def forge_late(image):
    """The last of the pending cuts, so late that learning a row would take for ever; all else agrees."""
    queue, cuts = array_of(image, "queue"), array_of(image, "cuts")
    queue["time"][-1] = cuts["time"][queue["cut"][-1]] = 1e200


def forge_heap(image):
    """Two entries of the queue exchanged, with their leaves: all agrees but the order."""
    queue, leaves = array_of(image, "queue"), array_of(image, "leaves")
    queue[[0, len(queue) - 1]] = queue[[len(queue) - 1, 0]]
    leaves["due"][queue["leaf"]] = np.arange(len(queue))


def forge_box(image):
    cuts, boxes = array_of(image, "cuts"), array_of(image, "boxes")
    root = array_of(image, "state")["root"][0]
    boxes[root, 1] += 0.01
    for side, k in (("i", cuts["i"][root]), ("j", cuts["j"][root])):
        cuts[f"high_{side}"][root] = boxes[root, 1, k]


FORGERIES = {
    "cycle": (forge_cycle, "refers to a record"),
    "shared leaf": (forge_shared_leaf, "not consistent"),
    "child out of range": (lambda i: array_of(i, "cuts")["left"].__setitem__(0, 2**30), "refers to a record"),
    "ring": (forge_ring, "ring"),
    "link out of range": (lambda i: array_of(i, "links").__setitem__(slice(None), 2**30), "ring"),
    "count": (lambda i: array_of(i, "leaves")["n_points"].__setitem__(leaf_with(i, 2), 1), "not consistent"),
    "NaN time": (lambda i: array_of(i, "cuts")["time"].__setitem__(array_of(i, "state")["root"][0], np.nan), "time"),
    "late time": (forge_late, "absurdly late"),
    "no partition": (forge_side, "wrong side"),
    "pending cut": (forge_pending, "does not part"),
    "heap": (forge_heap, "queue"),
    "leaf's place in the queue": (
        lambda i: array_of(i, "leaves")["due"].__setitem__(array_of(i, "queue")["leaf"][0], 10**6),
        "queue",
    ),
    "box": (forge_box, "box"),
    "dimension": (lambda i: array_of(i, "cuts")["i"].__setitem__(slice(None), 3), "cut is not"),
    "random stream": (lambda i: [array_of(i, "state")[f"s{k}"].fill(0) for k in range(4)], "random stream"),
    "free list": (lambda i: array_of(i, "state")["free_leaf"].__setitem__(0, 10**6), "free records"),
    "free list lost": (lambda i: array_of(i, "state")["free_cut"].__setitem__(0, -1), "neither in use nor free"),
    "negative size": (lambda i: array_of(i, "state")["n_cuts"].__setitem__(0, -5), "negative"),
    "id held twice": (lambda i: array_of(i, "ids").__setitem__(-1, array_of(i, "ids")[0]), "held"),
    "NaN row": (lambda i: array_of(i, "rows").__setitem__((3, 1), np.nan), "not finite"),
    "negative weight": (lambda i: array_of(i, "labels").__setitem__((3, 1), -1.0), "negative"),
    "range": (lambda i: array_of(i, "range").__setitem__((1, 0), -5.0), "upside down"),
    "weight sum": (lambda i: array_of(i, "values").__setitem__((leaf_with(i, 2), 0), 99.0), "statistics"),
}


# Asking a forest does not rely on these.
LATE = {"late time", "no partition", "pending cut", "heap", "leaf's place in the queue", "box"}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_with_right_checksums(tmp_path, name):
    """Each of these is refused for the reason it was made for."""
    forge, match = FORGERIES[name]
    image = copy_image(make_forest("pairs", "exact", 0))
    assert len(array_of(image, "queue")) > 3 and array_of(image, "state")["free_cut"][0] >= 0
    write_image(image, tmp_path / "m", overwrite=True)
    bspforest.load(tmp_path / "m", check="fully")
    forge(image)
    write_image(image, tmp_path / "m", overwrite=True)
    for check in {"fully"} if name in LATE else {"fully", True}:
        with pytest.raises(ModelFileError, match=match):
            bspforest.load(tmp_path / "m", check=check)


CHANGES = {
    "a row": lambda forest: forest.partial_fit([[0.5, 0.5, 0.5]], [1.0]),
    "rows": lambda forest: forest.partial_fit(np.full((20, 3), 0.5), np.ones(20)),
    "forget": lambda forest: forest.forget(forest._forest.rows.held_ids()[:1]),
    "forget all": lambda forest: forest.forget(forest._forest.rows.held_ids()),
    "a copy": lambda forest: pickle.loads(pickle.dumps(forest)).partial_fit([[0.5, 0.5, 0.5]], [1.0]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", sorted(LATE))
def test_what_only_changes_rely_on_is_checked_before_the_first(tmp_path, name, change):
    """Such a forest answers; every attempt to change it is refused, and leaves it as it was."""
    forge, match = FORGERIES[name]
    image = copy_image(make_forest("pairs", "exact", 0))
    forge(image)
    write_image(image, tmp_path / "m", overwrite=True)
    forest = bspforest.load(tmp_path / "m")
    hostile.ask(forest, np.random.default_rng(0).random((50, 3)))
    forest.partial_fit(np.empty((0, 3)), [])
    forest.forget([])
    for _ in range(2):
        with pytest.raises(ModelFileError, match=f"{tmp_path / 'm'}: .*{match}"):
            CHANGES[change](forest)
    assert same(forest, bspforest.load(tmp_path / "m"))


def test_forgeries_anywhere_in_a_large_tree():
    """Points are tested a thousand at a time: whatever the walk is at by then, what they show is told."""
    rng = np.random.default_rng(0)
    forest = bspforest.BSPForestRegressor(1, random_state=0).fit(rng.random((20_000, 3)), rng.random(20_000))._forest
    check, cuts = TreeCheck(forest), forest.trees.arrays.cuts[0]
    check.check(0, fully=True)
    parted = np.flatnonzero(cuts["right"][: forest.trees.arrays.state["n_cuts"][0]] != NOTHING)
    for v in rng.choice(parted, 200, replace=False):
        before = cuts["p"][v]
        cuts["p"][v] = rng.choice([-9.0, 9.0])
        check.check(0, fully=False)
        with pytest.raises(ModelFileError, match="wrong side"):
            check.check(0, fully=True)
        cuts["p"][v] = before
    check.check(0, fully=True)


def test_a_forest_is_checked_once(tmp_path, monkeypatch):
    """Before its first change, and never again."""
    make_forest(*hostile.KINDS[0]).save(tmp_path / "m")
    calls = []
    monkeypatch.setattr("bspforest.persistence.validation.check_fully", lambda *args: calls.append(args))
    forest = bspforest.load(tmp_path / "m")
    assert not calls
    for _ in range(2):
        forest.partial_fit([[0.5, 0.5, 0.5]], [1.0])
        assert len(calls) == 1 and calls[0][1] == str(tmp_path / "m")
    bspforest.load(tmp_path / "m", check="fully").partial_fit([[0.5, 0.5, 0.5]], [1.0])
    assert len(calls) == 1
    for wrong in ("full", 1, None):  # 1 equals True, and must not pass for less than it
        with pytest.raises(ValueError, match=f"check must be True, False or 'fully', got {wrong!r}"):
            bspforest.load(tmp_path / "m", check=wrong)


def test_trees_that_are_deep_by_nature(tmp_path):
    """Rows that differ in one feature each, by less and less: thousands of cuts, one below the other."""
    n = 95
    X = np.zeros((n, 150))
    X[np.arange(n), np.arange(n)] = 2.0 ** -np.arange(n)
    forest = bspforest.BSPForestRegressor(
        2, cuts="axes", budget=np.inf, min_samples_split=2, scaling=None, random_state=0
    ).fit(X, np.arange(n))
    forest.save(tmp_path / "m")
    for check in (True, "fully"):
        assert same(bspforest.load(tmp_path / "m", check=check), forest)
    assert max(tree.max_depth for tree in forest.trees_) > 90


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
    "random state cut off": ("parameters", "random_state", {"RandomState": [[1]]}, "ValueError"),
    "random state of text": ("parameters", "random_state", {"RandomState": [["x"] * 624, 2, 3, 4]}, "Error"),
    "place outside a random state": (
        "parameters",
        "random_state",
        {"RandomState": [[1] * 624, 10**8, 0, 0.0]},
        "the place in a random state is 100000000",
    ),
    "unknown parameter": ("parameters", "colour", 1, "colour"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_forged_headers(tmp_path, name):
    """Whatever the header holds, the error is a `ModelFileError`."""
    part, key, value, match = HEADERS[name]
    image = copy_image(make_forest("pairs", "exact", 0))
    write_image(with_header(image, lambda h: h[part].__setitem__(key, value)), tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError, match=match):
        bspforest.load(tmp_path / "m")


def test_absurd_sizes_are_refused_before_memory_is_asked_for(tmp_path):
    image = copy_image(make_forest("pairs", "exact", 0))
    for name in ("n_trees", "n_features", "n_slots", "n_ids", "n_free"):
        forged = with_header(image, lambda h, name=name: h["forest"].__setitem__(name, 2**31 - 1))
        write_image(forged, tmp_path / "m", overwrite=True)
        tracemalloc.start()
        with pytest.raises(ModelFileError):
            bspforest.load(tmp_path / "m")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**24, "nothing of that size is even asked for"


def test_a_later_format_is_told(tmp_path):
    forest = make_forest(*hostile.KINDS[0])
    forest.save(tmp_path / "m")
    data = bytearray((tmp_path / "m").read_bytes())
    data[8] = 2
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match="format 2; this version of bspforest reads format 1"):
        bspforest.load(tmp_path / "m")


def test_unchecked_loading_still_sees_damage(tmp_path):
    forest = make_forest(*hostile.KINDS[0])
    forest.save(tmp_path / "m")
    assert same(bspforest.load(tmp_path / "m", check=False), forest)
    data = bytearray((tmp_path / "m").read_bytes())
    for at in range(9, len(data), len(data) // 50):
        bad = data.copy()
        bad[at] ^= 4
        (tmp_path / "m").write_bytes(bad)
        with pytest.raises(ModelFileError):
            bspforest.load(tmp_path / "m", check=False)
