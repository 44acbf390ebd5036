"""What `save` writes, and what it refuses to write."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.persistence import save


def make_stream(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.integers(0, 3, n)


@pytest.mark.parametrize("scaling", ["minmax", None])
def test_forgotten_rows_leave_no_trace(scaling, tmp_path):
    X, y = make_stream(300)
    y = y.astype(float)
    X[7], y[7] = [-0.123456789, 0.987654321, 55.55555555], 12345.678  # two of them alone at the ends of their ranges
    forest = BSPForestRegressor(5, scaling=scaling, random_state=0).fit(X, y)
    path = tmp_path / "m"
    secrets = [np.float64(v).tobytes() for v in (*X[7], y[7])] + [np.float32(12345.678).tobytes()]
    forest.save(path)
    assert all(s in path.read_bytes() for s in secrets[:4])
    forest.forget([7]).save(path)
    assert not any(s in path.read_bytes() for s in secrets)


def assert_refused(tmp_path, forest, error, match, **kw):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    with pytest.raises(error, match=match):
        save(forest, path, **kw)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


def test_what_cannot_be_saved_is_refused_before_writing(tmp_path):
    X, y = make_stream(30)
    forest = BSPForestRegressor(2).fit(X, y)
    assert_refused(tmp_path, BSPForestRegressor(), NotFittedError, "not fitted")
    assert_refused(tmp_path, BSPForestRegressor(2, budget=np.sqrt).fit(X, y), ValueError, "budget is a function")
    changed = BSPForestRegressor(2, budget=np.sqrt).fit(X, y).set_params(budget="minimax")
    assert_refused(tmp_path, changed, ValueError, "budget is a function")
    assert_refused(tmp_path, forest, ValueError, "JSON", extra={"a": np.arange(3)})
    assert_refused(tmp_path, forest, ValueError, "JSON", extra={"a": float("nan")})
    assert_refused(tmp_path, forest, ValueError, "unchanged", extra={1: "a"})
    assert_refused(tmp_path, forest, TypeError, "dict", extra=[1])
    assert_refused(tmp_path, forest, FileExistsError, "exists", overwrite=False)
    dates = BSPForestClassifier(2).fit(X, y)
    dates.classes_ = np.array(["2020", "2021", "2022"], dtype="M8[Y]")
    assert_refused(tmp_path, dates, ValueError, "classes_ is an array of")
    assert_refused(tmp_path, type("Mine", (BSPForestRegressor,), {})(2).fit(X, y), TypeError, "Mine")
