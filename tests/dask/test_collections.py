"""Dask arrays and dataframes are learned partition by partition and predicted lazily."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.base import is_dask_collection

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.dask import DaskBSPForestClassifier, DaskBSPForestRegressor

COLUMNS = ["a", "b", "c"]


def make_rows(n=300):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.parametrize("frame", [False, True])
def test_regression(client, frame):
    X, y = make_rows()
    local = BSPForestRegressor(20, random_state=0)
    for start in range(0, 300, 100):
        rows = X[start : start + 100]
        local.partial_fit(pd.DataFrame(rows, columns=COLUMNS) if frame else rows, y[start : start + 100])
    if frame:
        lazy = dd.from_pandas(pd.DataFrame(X, columns=COLUMNS), npartitions=3)
        labels = dd.from_pandas(pd.Series(y), npartitions=3)
        X = pd.DataFrame(X, columns=COLUMNS)
    else:
        lazy, labels = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    forest = DaskBSPForestRegressor(20, client=client, random_state=0).fit(lazy, labels)
    assert np.array_equal(forest.predict(X), local.predict(X))
    mean, std = forest.predict(lazy, return_std=True)
    assert is_dask_collection(mean) and is_dask_collection(std)
    for found, expected in zip((mean, std), local.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(found.compute(), expected)


def test_classification(client):
    X, y = make_rows()
    labels = np.where(y > 0, "up", "down")
    local = BSPForestClassifier(20, random_state=0)
    for start in range(0, 300, 150):
        local.partial_fit(X[start : start + 150], labels[start : start + 150], classes=["down", "up"])
    lazy = da.from_array(X, chunks=(150, 3))
    forest = DaskBSPForestClassifier(20, client=client, random_state=0)
    forest.fit(lazy, da.from_array(labels, chunks=150))
    assert np.array_equal(forest.predict_proba(lazy).compute(), local.predict_proba(X))
    assert np.array_equal(forest.predict(lazy).compute(), local.predict(X))


def test_labels_of_this_process(client):
    X, y = make_rows()
    forest = DaskBSPForestRegressor(20, client=client, prediction="mean", random_state=0)
    forest.fit(da.from_array(X, chunks=(100, 3)), y, sample_weight=np.ones(300))
    assert forest.n_samples_ == 300 and np.array_equal(forest.held_rows().y, y)
    lazy = da.from_array(X, chunks=(100, 3))
    with pytest.raises(ValueError, match="3 partitions"):
        forest.partial_fit(lazy, da.from_array(y, chunks=150))
    with pytest.raises(ValueError, match=r"partitions of \(100, 100, 100\) rows"):
        forest.partial_fit(lazy, da.from_array(np.append(y, y), chunks=200))
    with pytest.raises(ValueError, match="300 rows, but there are 299"):
        forest.partial_fit(lazy, y[1:])
    assert forest.n_samples_ == 300
