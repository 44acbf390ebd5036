"""Trees of forged files are safe to use: what is not checked when they are read costs little, and is noticed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hostile import Content, array_of

import bspforest
from bspforest import BSPForestRegressor

FAMILIES = ["pairs", "axes", "isotropic"]


def make_leaf(cuts, d, path, **changes):
    """Save a forest of one leaf with a forged pending cut, and return its rows."""
    X = np.random.default_rng(0).random((60, d))
    forest = BSPForestRegressor(1, cuts=cuts, budget=1e-9, scaling=None, random_state=0, prediction="mean").fit(
        X, X[:, 0]
    )
    content = Content(forest)
    queue, nodes = array_of(content, "queue"), array_of(content, "cuts")
    assert len(queue) == len(nodes) == 1
    for name, value in changes.items():
        nodes[name] = value
    queue["time"] = nodes["time"]
    content.write(path)
    return X


@pytest.mark.parametrize("cuts", FAMILIES)
@pytest.mark.parametrize("d", [2, 200])
def test_an_absurdly_late_cut_costs_little(tmp_path, cuts, d):
    """Candidates up to that time are not drawn for ever. Failed with no limit for finite times."""
    X = make_leaf(cuts, d, tmp_path / "m", time=1e200)
    for z in (X[0] * 0.999, np.full(d, 0.5), np.full(d, 3.0)):
        forest = bspforest.load(tmp_path / "m")
        begun = time.process_time()
        forest.partial_fit(z[np.newaxis], [1.0])
        assert time.process_time() - begun < 5.0


@pytest.mark.parametrize("cuts", ["pairs", "axes"])
def test_a_cut_that_separates_nothing_is_noticed(tmp_path, cuts):
    """When it is to be applied, it raises, and the trees are built again from the rows. Crashed without the test in the kernel."""
    X = make_leaf(cuts, 3, tmp_path / "m", p=1e6, time=2e-9)
    forest = bspforest.load(tmp_path / "m").set_params(budget=1.0)
    forest._forest.config = (
        BSPForestRegressor(1, cuts=cuts, budget=1.0, scaling=None, prediction="mean").fit(X, X[:, 0])._forest.config
    )
    with pytest.raises(AssertionError, match="a cut does not separate its points"):
        forest.partial_fit(X[:1], [1.0])
    assert forest.n_samples_ == 61
    assert forest.predict(X).shape == (60,)
    assert min(tree.n_leaves for tree in forest.trees_) > 1
