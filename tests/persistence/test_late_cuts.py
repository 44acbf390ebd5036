"""A forged file cannot make learning a row take for ever; honest forests are never taken for forged ones."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hostile import array_of, copy_content, with_header

import bspforest
from bspforest import BSPForestRegressor, ModelFileError
from bspforest.persistence.validation import check_fully
from bspforest.persistence.writer import write_content

FAMILIES = ["pairs", "axes", "isotropic"]


def make_leaf(cuts, d, path, at):
    """Save a forest of one leaf whose pending cut is at time ``at``, and return its rows."""
    X = np.random.default_rng(0).random((60, d))
    forest = BSPForestRegressor(1, cuts=cuts, budget=1e-9, scaling=None, random_state=0, values="mean").fit(X, X[:, 0])
    content = copy_content(forest)
    queue, nodes = array_of(content, "queue"), array_of(content, "cuts")
    assert len(queue) == len(nodes) == 1
    queue["time"] = nodes["time"] = at
    write_content(content, path, overwrite=True)
    return X


@pytest.mark.parametrize("cuts", FAMILIES)
def test_a_late_pending_cut_is_refused(tmp_path, cuts):
    """Times of 1e5 passed when a wait of 1e6 over the longest side was allowed; a row and tree then took up to 9 s."""
    make_leaf(cuts, 200, tmp_path / "m", 1e5)
    with pytest.raises(ModelFileError, match="absurdly late"):
        bspforest.load(tmp_path / "m", check="fully")
    forest = bspforest.load(tmp_path / "m")
    with pytest.raises(ModelFileError, match="absurdly late"):
        forest.partial_fit(np.full((1, 200), 0.5), [1.0])


@pytest.mark.parametrize("cuts", FAMILIES)
@pytest.mark.parametrize("d", [2, 200])
def test_the_latest_cut_that_is_accepted_costs_little(tmp_path, cuts, d):
    """Find the latest time that is accepted, and learn rows in its leaf, inside and outside of its box."""
    early, late = 0.0, 1e9
    X = make_leaf(cuts, d, tmp_path / "m", late)
    for _ in range(60):
        middle = early + (late - early) / 2 if early else late / 2
        make_leaf(cuts, d, tmp_path / "m", middle)
        try:
            bspforest.load(tmp_path / "m", check="fully")
            early = middle
        except ModelFileError:
            late = middle
    make_leaf(cuts, d, tmp_path / "m", early)
    longest = 0.0
    for z in (X[0] * 0.999, np.full(d, 0.5), np.full(d, 3.0)):
        forest = bspforest.load(tmp_path / "m", check="fully")
        begun = time.process_time()
        forest.partial_fit(z[np.newaxis], [1.0])
        longest = max(longest, time.process_time() - begun)
    assert longest < 2.0


@pytest.mark.parametrize("cuts", FAMILIES)
def test_many_cuts_that_are_each_a_little_late_are_refused(tmp_path, cuts):
    """All times, and the budget, forty times as late: none is absurd by itself, but along a path they add up."""
    X = np.random.default_rng(0).random((3000, 2))
    forest = BSPForestRegressor(2, cuts=cuts, budget=30.0, scaling=(0, 1), random_state=0, values="mean").fit(
        X, X[:, 0]
    )
    content = copy_content(forest)
    write_content(content, tmp_path / "m", overwrite=True)
    bspforest.load(tmp_path / "m", check="fully")
    for m in range(2):
        for name in ("cuts", "queue"):
            array_of(content, name, m)["time"] *= 40.0
    budget = 40.0 * json.loads(content.header)["forest"]["budget"]
    content = with_header(content, lambda h: h["forest"].__setitem__("budget", budget))
    write_content(content, tmp_path / "m", overwrite=True)
    bspforest.load(tmp_path / "m")
    with pytest.raises(ModelFileError, match="absurdly late"):
        bspforest.load(tmp_path / "m", check="fully")


def make_uniform(rng, n, d):
    return rng.random((n, d))


def make_one_hot(rng, n, d):
    """Isotropic cuts miss most of the ball around such rows: they keep 7 in d candidates."""
    return np.eye(d)[rng.integers(0, d, n)] * rng.random((n, 1))


def make_scales(rng, n, d):
    return rng.random((n, d)) * 10.0 ** -np.arange(d)


def make_hidden(rng, n, d):
    """All columns but two are 1, which by rounding hides differences of the others from nearly all pairs."""
    X = np.ones((n, d))
    X[:, :2] = 1e-20 * rng.random((n, 2))
    return X


@pytest.mark.parametrize("cuts", FAMILIES)
@pytest.mark.parametrize("make", [make_uniform, make_one_hot, make_scales, make_hidden])
def test_honest_forests_are_accepted(cuts, make):
    """Thousands of trees per family; also after inserting and forgetting, and with all points separated."""
    rng = np.random.default_rng(0)
    for d, n_trees in ((2, 600), (7, 300), (60, 100)):
        n_trees //= 20 if make is make_hidden else 1  # each row draws a thousand candidates in vain
        X = make(rng, 120, d)
        y = rng.random(120)
        for budget, refinement in (("minimax", "exact"), (np.inf, "exact"), ("minimax", "redraw")):
            forest = BSPForestRegressor(
                n_trees if refinement == "exact" else 5,
                cuts=cuts,
                budget=budget,
                budget_scale=3.0,
                refinement=refinement,
                scaling=None,
                min_samples_split=2,
                random_state=0,
                values="mean",
            ).fit(X[:60], y[:60])
            check_fully(forest._forest, "batch")
            forest.partial_fit(X[60:110], y[60:110])
            for k in range(110, 120):
                forest.partial_fit(X[k : k + 1], y[k : k + 1])
            check_fully(forest.forget(np.arange(0, 120, 3))._forest, "stream")
