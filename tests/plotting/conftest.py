"""Fixtures for the plotting tests."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import make_moons

from bspforest import BSPForestRegressor
from bspforest.reference import draw_partition, make_box


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(80, noise=0.12, random_state=2)


@pytest.fixture(scope="module")
def friedman():
    rng = np.random.default_rng(0)
    X = rng.random((600, 4))
    return BSPForestRegressor(3, budget_scale=3, random_state=1, prediction="mean").fit(
        X, X[:, 0] + X[:, 1] ** 2 + X[:, 3]
    )


@pytest.fixture(scope="module")
def square():
    return draw_partition(make_box([0, 0], [2, 1]), 4.0, random_state=3)


@pytest.fixture(scope="module")
def cube():
    return draw_partition(make_box([0, 0, 0], [1, 1, 1]), 0.9, random_state=8)
