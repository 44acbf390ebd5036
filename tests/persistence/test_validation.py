"""Damaged and forged model files raise a `ModelFileError`; they never crash the process or load as a wrong forest."""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
from pathlib import Path

import hostile
import numpy as np
import pytest
from hostile import array_of, copy_content, make_forest, same

import bspforest
from bspforest import ModelFileError
from bspforest.engine.arrays import NOTHING
from bspforest.persistence.validation import TreeChecker
from bspforest.persistence.writer import write_content

SUPPORT = Path(__file__).parents[1] / "support"


def test_damaged_and_forged_files():
    """Run in a separate process to notice crashes, and with a memory limit to notice absurd allocations."""
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


def forge_side(content):
    """Move a cut to the other side of its points: the children no longer partition their parent."""
    cuts, root = array_of(content, "cuts"), array_of(content, "state")["root"][0]
    cuts["p"][root] += 0.2


def forge_pending(content):
    queue, cuts = array_of(content, "queue"), array_of(content, "cuts")
    cuts["p"][queue["cut"][0]] = 1e6


def forge_late(content):
    """Make the last pending cut so late that learning a row would take for ever. All else agrees."""
    queue, cuts = array_of(content, "queue"), array_of(content, "cuts")
    queue["time"][-1] = cuts["time"][queue["cut"][-1]] = 1e200


def forge_heap(content):
    """Swap two entries of the queue, with their leaves: all agrees but the order."""
    queue, leaves = array_of(content, "queue"), array_of(content, "leaves")
    queue[[0, len(queue) - 1]] = queue[[len(queue) - 1, 0]]
    leaves["due"][queue["leaf"]] = np.arange(len(queue))


def forge_box(content):
    cuts, boxes = array_of(content, "cuts"), array_of(content, "boxes")
    root = array_of(content, "state")["root"][0]
    box = cuts["box"][root]
    boxes[box, 1] += 0.01
    for side, k in (("i", cuts["i"][root]), ("j", cuts["j"][root])):
        cuts[f"high_{side}"][root] = boxes[box, 1, k]


def without_box(content):
    """Return the nodes in use that have no box."""
    cuts, free = array_of(content, "cuts"), set()
    v = array_of(content, "state")["free_cut"][0]
    while v >= 0:
        free.add(v)
        v = cuts["left"][v]
    return [v for v in np.flatnonzero(cuts["box"] < 0) if v not in free]


def add_to_box(content, change):
    """Change the number of points of a node without a box: by 1, it has one point less."""
    array_of(content, "cuts")["box"][without_box(content)[0]] += change


def forge_shared_box(content):
    """Let two nodes have the same box."""
    box = array_of(content, "cuts")["box"]
    first, second = np.flatnonzero(box >= 0)[:2]
    box[second] = box[first]


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
    "pending cut": (forge_pending, "does not separate"),
    "heap": (forge_heap, "queue"),
    "leaf's place in the queue": (
        lambda i: array_of(i, "leaves")["due"].__setitem__(array_of(i, "queue")["leaf"][0], 10**6),
        "queue",
    ),
    "box": (forge_box, "box"),
    "bound, no box": (lambda i: array_of(i, "cuts")["high_i"].__setitem__(without_box(i)[0], 2.0), "box"),
    "count, no box": (lambda i: add_to_box(i, 1), "box"),
    "large count, no box": (lambda i: array_of(i, "cuts")["box"].__setitem__(without_box(i)[0], ~100), "box"),
    "no box, but one out of range": (
        lambda i: array_of(i, "cuts")["box"].__setitem__(without_box(i)[0], 10**6),
        "refers to a record",
    ),
    "shared box": (forge_shared_box, "refers to a record"),
    "box below none": (
        lambda i: array_of(i, "cuts")["box"].__setitem__(array_of(i, "state")["root"][0], ~4),
        "box does not fit",
    ),
    "negative number of boxes": (lambda i: array_of(i, "state")["n_boxes"].__setitem__(0, -5), "negative"),
    "dimension": (lambda i: array_of(i, "cuts")["i"].__setitem__(slice(None), 3), "cut does not"),
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


# Prediction does not rely on these, so they are refused at the first change.
LATE = {
    "late time",
    "no partition",
    "pending cut",
    "heap",
    "leaf's place in the queue",
    "box",
    "bound, no box",
    "count, no box",
}


def make_content(name):
    """Return the content of a file to forge; nodes without a box only where they are needed."""
    return copy_content(make_forest("pairs", "exact", 0, "mean", 2 if "no box" in name else 4))


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_with_correct_checksums(tmp_path, name):
    """Each forgery is refused for the right reason."""
    forge, match = FORGERIES[name]
    content = make_content(name)
    assert len(array_of(content, "queue")) > 3 and array_of(content, "state")["free_cut"][0] >= 0
    write_content(content, tmp_path / "m", overwrite=True)
    bspforest.load(tmp_path / "m", check="fully")
    forge(content)
    write_content(content, tmp_path / "m", overwrite=True)
    for check in {"fully"} if name in LATE else {"fully", True}:
        with pytest.raises(ModelFileError, match=match):
            bspforest.load(tmp_path / "m", check=check)


JOINT_FORGERIES = {
    "NaN dual": (lambda i: array_of(i, "duals").__setitem__((3, 0), np.nan), "dual or a residual is not finite"),
    "infinite residual": (lambda i: array_of(i, "residuals").__setitem__((3, 0), np.inf), "dual or a residual"),
    "NaN sum": (lambda i: array_of(i, "sums").__setitem__((0, 0), np.nan), "sum of duals is not finite"),
    "label": (lambda i: array_of(i, "labels").__setitem__((3, 0), np.inf), "label or weight is not finite"),
    "sum": (lambda i: add_to_sum(i, 1e-6), "another sum of duals"),
    "dual": (lambda i: array_of(i, "duals").__setitem__((array_of(i, "ids")[0], 0), 99.0), "another sum of duals"),
}


def add_to_sum(content, change):
    array_of(content, "sums")[array_of(content, "state")["root"][0], 0] += change


@pytest.mark.parametrize("name", JOINT_FORGERIES)
@pytest.mark.parametrize("kind", [kind for kind in hostile.KINDS if "joint" in kind], ids=str)
def test_forged_joint_values(tmp_path, kind, name):
    """What is not finite is refused at once, a wrong sum before the first change."""
    forge, match = JOINT_FORGERIES[name]
    content = copy_content(make_forest(*kind))
    add_to_sum(content, 1e-13)  # rounding
    write_content(content, tmp_path / "m", overwrite=True)
    bspforest.load(tmp_path / "m", check="fully")
    forge(content)
    write_content(content, tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError, match=match):
        bspforest.load(tmp_path / "m", check="fully")
    if name not in ("sum", "dual"):
        with pytest.raises(ModelFileError, match=match):
            bspforest.load(tmp_path / "m")
        return
    forest = bspforest.load(tmp_path / "m")
    hostile.read_all(forest, np.random.default_rng(0).random((50, 3)))
    with pytest.raises(ModelFileError, match=f"{tmp_path / 'm'}: .*{match}"):
        forest.partial_fit([[0.5, 0.5, 0.5]], [1])


def test_huge_labels_and_windows_are_accepted(tmp_path, monkeypatch):
    """Values that overflow, and the rounding errors that dropped rows leave, are those of honest forests."""
    for name in ("GROWTH_IN_WINDOW", "GROWTH_BY_CHUNK"):
        monkeypatch.setattr(f"bspforest.values.joint.{name}", 0.1)  # no solve after 6 rows
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 3)), rng.random(200)
    with np.errstate(all="ignore"):
        forest = bspforest.BSPForestRegressor(3, values="joint", bandwidth=1.0, ridge=0.1, random_state=0).fit(
            X, y * 1e300
        )
        forest._forest.trees.arrays.sums[0, 0] = np.inf  # of several labels that are yet larger
        forest.save(tmp_path / "m")
        assert same(bspforest.load(tmp_path / "m", check="fully"), forest)
    few = np.where(np.arange(150) < 5, 1.0, 0.0)  # all others have no weight, hence no duals
    forest = bspforest.BSPForestRegressor(3, values="joint", metric=None, scaling="minmax", window=150, random_state=0)
    forest.fit(X[:150], 1e14 * y[:150], sample_weight=few)
    forest.partial_fit(X[150:156], y[150:156], sample_weight=[0, 0, 0, 0, 0, 1e-300])
    arrays = forest._forest.trees.arrays
    assert np.abs(arrays.duals).max() < 1e-100 and np.abs(arrays.sums[:, :100]).max() > 1e-5
    forest.save(tmp_path / "m")
    assert same(bspforest.load(tmp_path / "m", check="fully"), forest)


@pytest.mark.parametrize("forgery", ["not a number", "itself", "in use", "lost"])
def test_forged_lists_of_free_boxes(tmp_path, forgery):
    """Fails if the list of free boxes is followed unchecked: it may have no end, or end outside of the boxes."""
    X = np.random.default_rng(0).random((120, 3))
    settings = {"values": "mean", "budget": np.inf, "min_samples_split": 2, "scaling": None, "random_state": 0}
    content = copy_content(bspforest.BSPForestRegressor(1, **settings).fit(X, X[:, 0]).forget(np.arange(100)))
    write_content(content, tmp_path / "m", overwrite=True)
    bspforest.load(tmp_path / "m", check="fully")
    boxes, state, cuts = (array_of(content, name) for name in ("boxes", "state", "cuts"))
    free = state["free_box"][0]
    assert free >= 0
    if forgery == "not a number":
        boxes[free, 0, 0] = np.nan
    elif forgery == "itself":
        boxes[free, :2, 0] = free + 1, 0
    elif forgery == "in use":
        boxes[free, :2, 0] = cuts["box"].max() + 1, 0
    else:
        state["free_box"][0] = -1
    write_content(content, tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError, match="neither in use nor free" if forgery == "lost" else "free records"):
        bspforest.load(tmp_path / "m")


CHANGES = {
    "a row": lambda forest: forest.partial_fit([[0.5, 0.5, 0.5]], [1.0]),
    "rows": lambda forest: forest.partial_fit(np.full((20, 3), 0.5), np.ones(20)),
    "forget": lambda forest: forest.forget(forest._forest.rows.held_ids()[:1]),
    "forget all": lambda forest: forest.forget(forest._forest.rows.held_ids()),
    "a copy": lambda forest: pickle.loads(pickle.dumps(forest)).partial_fit([[0.5, 0.5, 0.5]], [1.0]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", sorted(LATE))
def test_the_first_change_is_refused(tmp_path, name, change):
    """A forest with a late forgery predicts. Every attempt to change it is refused and changes nothing."""
    forge, match = FORGERIES[name]
    content = make_content(name)
    forge(content)
    write_content(content, tmp_path / "m", overwrite=True)
    forest = bspforest.load(tmp_path / "m")
    hostile.read_all(forest, np.random.default_rng(0).random((50, 3)))
    forest.partial_fit(np.empty((0, 3)), [])
    forest.forget([])
    for _ in range(2):
        with pytest.raises(ModelFileError, match=f"{tmp_path / 'm'}: .*{match}"):
            CHANGES[change](forest)
    assert same(forest, bspforest.load(tmp_path / "m"))


def test_forgeries_anywhere_in_a_large_tree():
    """Points are tested a thousand at a time; an error is found wherever the walk is by then."""
    rng = np.random.default_rng(0)
    forest = bspforest.BSPForestRegressor(1, random_state=0).fit(rng.random((20_000, 3)), rng.random(20_000))._forest
    checker, cuts = TreeChecker(forest), forest.trees.arrays.cuts[0]
    scratch = checker.make_scratch()
    checker.check(0, scratch, fully=True)
    carried_out = np.flatnonzero(cuts["right"][: forest.trees.arrays.state["n_cuts"][0]] != NOTHING)
    for v in rng.choice(carried_out, 200, replace=False):
        before = cuts["p"][v]
        cuts["p"][v] = rng.choice([-9.0, 9.0])
        checker.check(0, scratch, fully=False)
        with pytest.raises(ModelFileError, match="wrong side"):
            checker.check(0, scratch, fully=True)
        cuts["p"][v] = before
    checker.check(0, scratch, fully=True)


def test_a_forest_is_checked_once(tmp_path, monkeypatch):
    """The full check runs before the first change, and never again."""
    make_forest(*hostile.KINDS[0]).save(tmp_path / "m")
    calls = []
    monkeypatch.setattr("bspforest.persistence.validation.check_fully", lambda forest, name: calls.append(name))
    forest = bspforest.load(tmp_path / "m")
    assert not calls
    for _ in range(2):
        forest.partial_fit([[0.5, 0.5, 0.5]], [1.0])
        assert calls == [str(tmp_path / "m")]
    bspforest.load(tmp_path / "m", check="fully").partial_fit([[0.5, 0.5, 0.5]], [1.0])
    assert len(calls) == 1
    for wrong in ("full", 1, None):  # 1 equals True but is not it
        with pytest.raises(ValueError, match=f"check must be True, False or 'fully', got {wrong!r}"):
            bspforest.load(tmp_path / "m", check=wrong)


def test_honest_deep_trees(tmp_path):
    """Rows that differ in one feature each, by less and less, make a chain of cuts."""
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


def test_loading_without_check_detects_damage(tmp_path):
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
