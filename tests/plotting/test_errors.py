"""Test that errors of the displays say what to do instead."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bspforest import BSPForestRegressor
from bspforest.plotting import (
    CutDisplay,
    GrowthDisplay,
    PartitionDisplay,
    ProcessDisplay,
    SliceDisplay,
    SurfaceDisplay,
)
from bspforest.reference import Box, draw_partition, make_box


def fitted(d: int = 2):
    X = np.random.default_rng(0).random((30, d))
    return BSPForestRegressor(2, random_state=0).fit(X, X[:, 0])


INVALID = {
    "not fitted": (lambda: PartitionDisplay.from_estimator(BSPForestRegressor()), NotFittedError, "call fit or partial_fit"),
    "no rows held": (lambda: SurfaceDisplay.from_estimator(fitted().forget(range(30))), ValueError, "holds no rows"),
    "another estimator": (lambda: SurfaceDisplay.from_estimator(RandomForestClassifier()), TypeError, "got RandomForestClassifier"),
    "pipeline": (
        lambda: PartitionDisplay.from_estimator(make_pipeline(StandardScaler(), BSPForestRegressor())),
        TypeError,
        r"pass pipeline\[-1\]",
    ),
    "three features": (lambda: PartitionDisplay.from_estimator(fitted(3)), ValueError, r"choose two to show, e.g. dims=\(0, 1\)"),
    "one feature": (lambda: SurfaceDisplay.from_estimator(fitted(1)), ValueError, "at least two features"),
    "one dim": (lambda: SurfaceDisplay.from_estimator(fitted(3), dims="ab"), ValueError, "two features, by number or name"),
    "same dims": (lambda: SurfaceDisplay.from_estimator(fitted(3), dims=(1, 1)), ValueError, "two different features"),
    "unknown dim": (lambda: SurfaceDisplay.from_estimator(fitted(3), dims=(1, 3)), ValueError, "number from 0 to 2"),
    "unknown name": (lambda: SurfaceDisplay.from_estimator(fitted(3), dims=(1, "b")), ValueError, "the features are"),
    "value of a feature shown": (
        lambda: SurfaceDisplay.from_estimator(fitted(3), dims=(1, 2), values={1: 0}),
        ValueError,
        "one of the two features shown",
    ),
    "infinite value": (
        lambda: SurfaceDisplay.from_estimator(fitted(3), dims=(1, 2), values={0: np.inf}),
        ValueError,
        "finite number, got inf",
    ),
    "tree": (lambda: PartitionDisplay.from_estimator(fitted(), tree=2), ValueError, "from 0 to 1, got 2"),
    "extent": (lambda: PartitionDisplay.from_estimator(fitted(), extent=(1, 0, 0, 1)), ValueError, "left, right, bottom, top"),
    "hulls": (lambda: PartitionDisplay.from_estimator(fitted()).plot(hulls="all"), ValueError, "'nested', 'leaves' or None"),
    "grid": (lambda: SurfaceDisplay.from_estimator(fitted(), grid_resolution=1), ValueError, "at least 2, got 1"),
    "reach": (lambda: SurfaceDisplay.from_estimator(fitted(), reach=0), ValueError, "reach must be positive"),
    "unknown reach": (lambda: SurfaceDisplay.from_estimator(fitted(), reach="far"), ValueError, 'positive, "auto" or None, got'),
    "two outputs": (
        lambda: SurfaceDisplay.from_estimator(BSPForestRegressor(2).fit(np.eye(4)[:, :2], np.eye(4)[:, :2])),
        ValueError,
        r"this forest has 2: fit one on y\[:, k\]",
    ),
    "too few axes": (
        lambda: SurfaceDisplay.from_estimator(fitted()).plot(plt.subplot()),
        ValueError,
        "2 axes, got 1; pass one with uncertainty=False",
    ),
    "growth with three features": (
        lambda: GrowthDisplay.from_stream(BSPForestRegressor(), np.ones((5, 3)), np.ones(5)),
        ValueError,
        "choose two columns",
    ),
    "growth too long": (
        lambda: GrowthDisplay.from_stream(BSPForestRegressor(), np.ones((600, 2)), np.ones(600)),
        ValueError,
        "too many: choose some",
    ),
    "growth NaN": (
        lambda: GrowthDisplay.from_stream(BSPForestRegressor(), [[0, 0], [0, np.nan]], [0, 0]),
        ValueError,
        "contains NaN",
    ),
    "growth labels": (
        lambda: GrowthDisplay.from_stream(BSPForestRegressor(), np.ones((5, 2)), np.ones(4)),
        ValueError,
        "one label for each of 5 rows",
    ),
    "growth steps": (
        lambda: GrowthDisplay.from_stream(BSPForestRegressor(), np.ones((5, 2)), np.ones(5), steps=[6]),
        ValueError,
        "from 1 to 5",
    ),
    "a forest, not a process": (lambda: ProcessDisplay.from_partition(fitted()), TypeError, "use PartitionDisplay"),
    "explode": (
        lambda: ProcessDisplay.from_partition(draw_partition(make_box([0, 0], [1, 1]), 1.0, 0)).plot(explode=1),
        ValueError,
        "in three dimensions",
    ),
    "four dimensions": (
        lambda: ProcessDisplay.from_partition(draw_partition(make_box([0] * 4, [1] * 4), 0.1, 0)),
        ValueError,
        "only partitions in two or three dimensions",
    ),
    "2d axes": (
        lambda: ProcessDisplay.from_partition(draw_partition(make_box([0] * 3, [1] * 3), 0.1, 0)).plot(plt.subplot()),
        ValueError,
        'projection="3d"',
    ),
    "cut of a square": (
        lambda: CutDisplay.from_block(draw_partition(make_box([0, 0], [1, 1]), 5.0, 0)),
        ValueError,
        "drawn in three dimensions",
    ),
    "no cut": (
        lambda: CutDisplay.from_block(draw_partition(make_box([0] * 3, [1] * 3), 0.0, 0)),
        ValueError,
        "choose one of partition.cut_blocks",
    ),
    "Mondrian cut": (
        lambda: CutDisplay.from_block(draw_partition(make_box([0] * 3, [1] * 3), 9.0, 0, shape=Box)),
        ValueError,
        "Mondrian cut",
    ),
    "slice outside": (
        lambda: SliceDisplay.from_partition(draw_partition(make_box([0, 0], [1, 1]), 1.0, 0), [0, 0], [2, 1]),
        ValueError,
        "end must lie in the domain",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID)
def test_invalid_arguments(case):
    call, kind, message = INVALID[case]
    with pytest.raises(kind, match=message):
        call()


def test_matplotlib_is_needed_only_to_draw():
    program = """
import sys
sys.modules["matplotlib"] = None  # simulate that it is not installed
import numpy as np
from bspforest import BSPForestRegressor
from bspforest.plotting import PartitionDisplay
X = np.random.default_rng(0).random((20, 2))
display = PartitionDisplay.from_estimator(BSPForestRegressor(1, random_state=0).fit(X, X[:, 0]))
try:
    display.plot()
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "PartitionDisplay needs matplotlib: pip install 'bspforest[plot]'"
