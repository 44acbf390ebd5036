"""The formula for memory and file size agrees with forests of many shapes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor, estimate_size


def make_data(n, d, n_classes=0, n_outputs=1, rows="uniform"):
    """Return rows that are uniform, normal or correlated, and labels."""
    rng = np.random.default_rng(0)
    if rows == "uniform":
        X = rng.random((n, d))
    elif rows == "normal":
        X = rng.normal(size=(n, d))
    else:
        X = rng.normal(size=(n, 1)) + 0.1 * rng.normal(size=(n, d))
    if n_classes:
        return X, rng.permutation(np.arange(n) % n_classes)
    y = X[:, :1] + np.arange(n_outputs)
    return X, y[:, 0] if n_outputs == 1 else y


def make_forest(n_trees, n_classes=0, **parameters):
    """Return a forest whose bandwidth is not looked for, which takes longest."""
    if parameters.get("prediction", "ridge") == "ridge":
        parameters = {"feature_weights": None, "bandwidth": 1.0, "ridge": 0.1} | parameters
    kind = BSPForestClassifier if n_classes else BSPForestRegressor
    return kind(n_trees, random_state=0, **({"scaling": "minmax"} | parameters))


SHAPES = [
    (1000, 3, 10, {}, "uniform"),
    (3000, 8, 5, {}, "normal"),
    (2000, 40, 3, {}, "uniform"),
    (500, 200, 4, {}, "normal"),
    (8000, 2, 10, {}, "correlated"),
    (1000, 5, 5, {"n_outputs": 4}, "uniform"),
    (2000, 3, 1, {"n_outputs": 10}, "uniform"),
    (1000, 5, 5, {"n_classes": 2}, "uniform"),
    (1500, 10, 10, {"n_classes": 7}, "normal"),
    (2000, 30, 2, {"scaling": "quantile"}, "normal"),
    (1000, 6, 4, {"cuts": "isotropic"}, "uniform"),
    (2000, 6, 4, {"cuts": "axes", "min_samples_split": 5}, "normal"),
    (5000, 12, 5, {"prediction": "mean"}, "uniform"),
    (3000, 60, 3, {"prediction": "mean"}, "normal"),
    (4000, 16, 10, {"prediction": "mean", "n_classes": 10}, "normal"),
    (20_000, 10, 4, {"prediction": "mean", "min_samples_split": 8}, "uniform"),
]


@pytest.mark.parametrize(("n", "d", "n_trees", "more", "rows"), SHAPES)
def test_estimates_are_within_10_percent(n, d, n_trees, more, rows, tmp_path):
    """Fails if any of the terms is left out that are large for one of the shapes."""
    n_classes, n_outputs = more.get("n_classes", 0), more.get("n_outputs", 1)
    X, y = make_data(n, d, n_classes, n_outputs, rows)
    parameters = {name: value for name, value in more.items() if name != "n_outputs"}
    forest = make_forest(n_trees, **parameters).fit(X, y)
    expected = estimate_size(n, d, n_trees, **more)
    assert expected.memory == pytest.approx(forest.nbytes_, rel=0.1)
    forest.save(tmp_path / "m")
    assert expected.file == pytest.approx((tmp_path / "m").stat().st_size, rel=0.1)


@pytest.mark.parametrize("n", [1000, 12_000])
def test_estimates_of_large_ensembles_are_closer(n, tmp_path):
    """Fails without any of the terms that are a few percent: links and the queue."""
    X, y = make_data(n, 3)
    forest = make_forest(20).fit(X, y)
    expected = estimate_size(n, 3, 20)
    assert expected.memory == pytest.approx(forest.nbytes_, rel=0.04)
    forest.save(tmp_path / "m")
    assert expected.file == pytest.approx((tmp_path / "m").stat().st_size, rel=0.04)


@pytest.mark.parametrize("rows", ["uniform", "normal", "correlated"])
def test_means_of_few_features_are_bounded(rows, tmp_path):
    """The budget ends before leaves are small: there are fewer nodes than the formula counts."""
    X, y = make_data(5000, 3, rows=rows)
    forest = make_forest(5, prediction="mean").fit(X, y)
    expected = estimate_size(5000, 3, 5, prediction="mean")
    forest.save(tmp_path / "m")
    assert forest.nbytes_ < expected.memory and (tmp_path / "m").stat().st_size < expected.file


def test_streams_have_room_to_grow(tmp_path):
    X, y = make_data(3000, 5)
    forest, largest, smallest = make_forest(5, prediction="ridge"), 0.0, 9.0
    for start in range(0, 3000, 100):
        forest.partial_fit(X[start : start + 100], y[start : start + 100])
        ratio = forest.nbytes_ / estimate_size(start + 100, 5, 5).memory
        if start >= 1000:  # before, the room that is always left counts
            largest, smallest = max(largest, ratio), min(smallest, ratio)
    assert smallest > 0.9 and 1.2 < largest < 1.5 * 1.1
    forest.save(tmp_path / "m")
    assert estimate_size(3000, 5, 5).file == pytest.approx((tmp_path / "m").stat().st_size, rel=0.1)


def test_the_examples_of_the_page():
    """The figures in docs/guide/sizes.md are those that the function returns."""
    page = (Path(__file__).parents[1] / "docs" / "guide" / "sizes.md").read_text()
    examples = re.findall(r"^>>> (round\(bspforest.*?\))(?:  #.*)?\n(.*)$", page, re.M)
    assert len(examples) == 2
    for code, shown in examples:
        assert eval(code, {"bspforest": bspforest}) == float(shown)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="prediction must be"):
        estimate_size(10, 2, prediction="median")
    with pytest.raises(ValueError, match="cuts must be one of"):
        estimate_size(10, 2, cuts="round")
