"""Damaged and forged model files raise a `ModelFileError`; they never crash the process or load as a wrong forest."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import hostile
import numpy as np
import pytest
from hostile import Content, array_of, make_forest, same

import bspforest
from bspforest import ModelFileError
from bspforest.trees.layout import NOTHING

SUPPORT = Path(__file__).parents[1] / "support"

# Files of each sort and each kind of forest: 20 are 600 files in all; BSPFOREST_MUTATIONS=500 makes 13,000 of them.
MUTATIONS = os.environ.get("BSPFOREST_MUTATIONS", "8")


def test_damaged_and_forged_files():
    """Run in a separate process to notice crashes, and with a memory limit to notice absurd allocations."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(SUPPORT / "hostile.py"), "0", MUTATIONS],
        capture_output=True,
        text=True,
        timeout=120 + 10 * int(MUTATIONS),
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30)),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["failures"] == []
    assert result["refused"] > 150 and result["used"] > 10


def leaf_with(content, least):
    leaves = array_of(content, "leaves")
    return int(np.flatnonzero(leaves["n_points"] >= least)[0])


def forge_cycle(content):
    cuts, state = array_of(content, "cuts"), array_of(content, "state")
    cuts["left"][state["root"][0]] = state["root"][0]


def forge_shared_leaf(content):
    cuts = array_of(content, "cuts")
    v = int(np.flatnonzero((cuts["right"] < 0) & (cuts["right"] != NOTHING) & (cuts["left"] >= 0))[0])
    w = int(np.flatnonzero((cuts["right"] < 0) & (cuts["right"] != NOTHING) & (np.arange(len(cuts)) != v))[0])
    cuts["right"][w] = cuts["right"][v]


def forge_ring(content):
    k = leaf_with(content, 2)
    last = array_of(content, "leaves")["last"][k]
    array_of(content, "links")[last] = last


def forge_heap(content):
    """Swap two entries of the queue, with their leaves: all agrees but the order."""
    queue, leaves = array_of(content, "queue"), array_of(content, "leaves")
    queue[[0, len(queue) - 1]] = queue[[len(queue) - 1, 0]]
    leaves["due"][queue["leaf"]] = np.arange(len(queue))


FORGERIES = {
    "cycle": (forge_cycle, "refer to the same record"),
    "shared leaf": (forge_shared_leaf, "not consistent"),
    "child out of range": (lambda i: array_of(i, "cuts")["left"].__setitem__(0, 2**30), "refers to a record"),
    "ring": (forge_ring, "ring"),
    "link out of range": (lambda i: array_of(i, "links").__setitem__(slice(None), 2**30), "ring"),
    "count": (lambda i: array_of(i, "leaves")["n_points"].__setitem__(leaf_with(i, 2), 1), "not consistent"),
    "NaN time": (lambda i: array_of(i, "cuts")["time"].__setitem__(array_of(i, "state")["root"][0], np.nan), "time"),
    "heap": (forge_heap, "queue"),
    "leaf's place in the queue": (
        lambda i: array_of(i, "leaves")["due"].__setitem__(array_of(i, "queue")["leaf"][0], 10**6),
        "queue",
    ),
    "negative dimension": (lambda i: array_of(i, "cuts")["j"].__setitem__(slice(None), -1), "dimension"),
    "dimension": (lambda i: array_of(i, "cuts")["i"].__setitem__(slice(None), 3), "dimension"),
    "slope": (lambda i: array_of(i, "cuts")["a"].__setitem__(slice(None), np.nan), "place of a cut"),
    "other slope": (lambda i: array_of(i, "cuts")["b"].__setitem__(slice(None), -np.inf), "place of a cut"),
    "offset": (lambda i: array_of(i, "cuts")["p"].__setitem__(slice(None), np.inf), "place of a cut"),
    "bound": (lambda i: array_of(i, "cuts")["low_j"].__setitem__(slice(None), np.nan), "bounds of a cut"),
    "wide bound": (lambda i: array_of(i, "cuts")["high_i"].__setitem__(slice(None), 1e30), "bounds of a cut"),
    "NaN box": (lambda i: array_of(i, "boxes").__setitem__((slice(None), 1), np.nan), "box of a node"),
    "box": (lambda i: array_of(i, "boxes").__setitem__((slice(None), 0), 1e30), "box of a node"),
    "random stream": (lambda i: [array_of(i, "state")[f"s{k}"].fill(0) for k in range(4)], "random stream"),
    "free list": (lambda i: array_of(i, "state")["free_leaf"].__setitem__(0, 10**6), "free records"),
    "free list lost": (lambda i: array_of(i, "state")["free_cut"].__setitem__(0, -1), "free records"),
    "negative size": (lambda i: array_of(i, "state")["n_cuts"].__setitem__(0, -5), "negative"),
    "id held twice": (lambda i: array_of(i, "ids").__setitem__(-1, array_of(i, "ids")[0]), "slot"),
    "NaN row": (lambda i: array_of(i, "rows").__setitem__((3, 1), np.nan), "not finite"),
    "negative weight": (lambda i: array_of(i, "sample_weight").__setitem__(3, -1.0), "negative"),
    "range": (lambda i: array_of(i, "range").__setitem__((1, 0), -5.0), "upside down"),
    "leaf sum": (lambda i: array_of(i, "leaf_sums").__setitem__((leaf_with(i, 2), 0), np.nan), "sum over a leaf"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_with_correct_checksums(tmp_path, name):
    """Each forgery is refused for the right reason."""
    forge, match = FORGERIES[name]
    content = Content(make_forest("pairs", 0, "mean"))
    assert len(array_of(content, "queue")) > 3 and array_of(content, "state")["free_cut"][0] >= 0
    content.write(tmp_path / "m")
    bspforest.load(tmp_path / "m")
    forge(content)
    content.write(tmp_path / "m")
    with pytest.raises(ModelFileError, match=match):
        bspforest.load(tmp_path / "m")


JOINT_FORGERIES = {
    "NaN dual": (lambda i: array_of(i, "terms").__setitem__((3, 0), np.nan), "term or a residual is not finite"),
    "infinite residual": (lambda i: array_of(i, "residuals").__setitem__((3, 0), np.inf), "term or a residual"),
    "NaN sum": (lambda i: array_of(i, "sums").__setitem__((0, 0), np.nan), "sum over a node is not finite"),
    "label": (lambda i: array_of(i, "y").__setitem__((3, 0), np.inf), "label or weight is not finite"),
}


def add_to_sum(content, change):
    array_of(content, "sums")[array_of(content, "state")["root"][0], 0] += change


@pytest.mark.parametrize("name", JOINT_FORGERIES)
@pytest.mark.parametrize("kind", [kind for kind in hostile.KINDS if "ridge" in kind], ids=str)
def test_forged_joint_values(tmp_path, kind, name):
    """What is not finite is refused."""
    forge, match = JOINT_FORGERIES[name]
    content = Content(make_forest(*kind))
    add_to_sum(content, 1e-13)  # rounding
    content.write(tmp_path / "m")
    bspforest.load(tmp_path / "m")
    forge(content)
    content.write(tmp_path / "m")
    with pytest.raises(ModelFileError, match=match):
        bspforest.load(tmp_path / "m")


def test_honest_deep_trees(tmp_path):
    """Rows that differ in one feature each, by less and less, make a chain of cuts."""
    n = 95
    X = np.zeros((n, 150))
    X[np.arange(n), np.arange(n)] = 2.0 ** -np.arange(n)
    forest = bspforest.BSPForestRegressor(
        2, cuts="axes", budget=np.inf, min_samples_split=2, scaling=None, random_state=0
    ).fit(X, np.arange(n))
    forest.save(tmp_path / "m")
    assert same(bspforest.load(tmp_path / "m"), forest)
    assert max(tree.max_depth for tree in forest.trees_) > 90


@pytest.mark.parametrize("kind", hostile.KINDS, ids=str)
@pytest.mark.parametrize("damage", ["link out of range", "CRC", "missing", "no state"])
def test_trees_are_built_again_from_whole_rows(tmp_path, kind, damage):
    """The error names the way out, and the forest that is built again holds the same rows and goes on learning."""
    path, forest = tmp_path / "m", make_forest(*kind)
    content = Content(forest)
    if damage == "link out of range":
        array_of(content, "links")[:] = 2**30
    elif damage == "missing":
        del content.arrays["cuts"]
    elif damage == "no state":
        del content.arrays["state"]
    content.write(path)
    if damage == "CRC":
        data = path.read_bytes()
        where = data.index(array_of(content, "links", 1).tobytes())
        path.write_bytes(data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :])
    with pytest.raises(ModelFileError, match="The rows are whole: load"):
        bspforest.load(path)
    built = bspforest.load(path, rebuild=True)
    for ours, theirs in zip(built.held_rows(), forest.held_rows(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    hostile.use_up(built)
