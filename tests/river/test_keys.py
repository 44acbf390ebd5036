"""Test forgetting by key and predictive distributions in river's conventions."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from river import proba

from bspforest.river import BSPForestClassifier, BSPForestRegressor

rng = np.random.default_rng(0)
ROWS = [{"a": float(a), "b": float(b)} for a, b in rng.random((120, 2))]


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_forget_one(values):
    """After it, the forest holds the other rows only, and predicts without those forgotten."""
    model = BSPForestRegressor(10, prediction=values, seed=0)
    for k, x in enumerate(ROWS):
        model.learn_one(x, 100.0 if k % 10 == 0 else x["a"], key=f"user-{k % 10}")
    assert max(model.predict_one(x) for x in ROWS[:50]) > 5
    model.forget_one("user-0")
    assert model._forest.n_held == 108
    assert max(model.predict_one(x) for x in ROWS) < 2
    with pytest.raises(ValueError, match="no row that is held has the key 'user-0'"):
        model.forget_one("user-0")
    with pytest.raises(ValueError, match="nothing has been learned"):
        BSPForestRegressor().forget_one("a")


def test_keys_survive_new_features_and_copies():
    """A new feature builds the forest afresh, with new numbers of rows."""
    model = BSPForestClassifier(5, seed=0)
    for k, x in enumerate(ROWS[:30]):
        model.learn_one(x, k % 2, key=k // 2)
    model.learn_one({**ROWS[30], "c": 1.0}, 0)
    model = pickle.loads(pickle.dumps(model))
    model.learn_many(pd.DataFrame(ROWS[31:35]), [1, 0, 1, 2], keys=[7, None, "x", "y"])
    model.forget_one(7)
    assert model._forest.n_held == 32
    model.forget_one("y")
    assert model._forest.n_held == 31
    with pytest.raises(ValueError, match="X has 2 rows, but keys has 1 entries"):
        model.learn_many(pd.DataFrame(ROWS[:2]), [0, 1], keys=["a"])
    with pytest.raises(TypeError, match="a key must be text or a whole number"):
        model.learn_one(ROWS[0], 1, key=0.5)
    assert model._forest.n_held == 31


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_predictive_distribution(values):
    model = BSPForestRegressor(20, prediction=values, seed=0)
    assert isinstance(model.predict_one(ROWS[0], with_dist=True), proba.Gaussian)
    noise = rng.normal(size=(2000, 3))
    inside = 0
    for k, (a, b, e) in enumerate(noise):
        x, y = {"a": a, "b": b}, a + 0.5 * e
        if k >= 1000:
            found = model.predict_one(x, with_dist=True)
            assert found.mu == pytest.approx(model.predict_one(x))
            inside += abs(y - found.mu) < 1.645 * found.sigma
        model.learn_one(x, y)
    assert 0.84 < inside / 1000 < (0.97 if values == "ridge" else 0.99)  # means are cautious


@pytest.mark.parametrize("values", ["ridge", "mean"])
@pytest.mark.parametrize("x", [{"a": 1.0}, {"a": "red"}])
def test_forgetting_the_only_key(values, x):
    """Failed with a segmentation fault for means, and with an AssertionError for ridge."""
    frame = pd.DataFrame([x])
    model, new = BSPForestRegressor(3, prediction=values, seed=0), BSPForestRegressor(3)
    model.learn_one(x, 5.0, key="only")
    model.forget_one("only")
    assert model.predict_one(x) == new.predict_one(x) == 0.0
    assert model.predict_many(frame).tolist() == [0.0]
    assert model.predict_one(x, with_dist=True).mu == new.predict_one(x, with_dist=True).mu
    assert model.feature_importances_ == {}
    model.learn_one(x, 7.0)
    assert model.predict_one(x) == pytest.approx(7.0)
    model = BSPForestClassifier(3, prediction=values, seed=0)
    model.learn_one(x, "yes", key="only")
    model.forget_one("only")
    assert model.predict_proba_one(x) == {} and model.predict_one(x) is None
    assert model.predict_many(frame).tolist() == [None] and model.predict_proba_many(frame).shape == (1, 0)
    assert pickle.loads(pickle.dumps(model)).predict_one(x) is None
    model.learn_one({**x, "b": 2.0}, "no")
    assert model.predict_one(x) == "no"
