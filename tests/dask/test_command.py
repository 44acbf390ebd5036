"""``bspforest learn --dask``: the model is that of a run without a cluster."""

from __future__ import annotations

import numpy as np
import pytest
from csv_files import write_rows

import bspforest
from bspforest.cli.main import main


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.random((600, 3))
    path = tmp_path_factory.mktemp("data") / "numbers.csv"
    return write_rows(path, ["a", "b", "c", "y"], np.column_stack([X, X @ [1.0, 2.0, 0.0]]).tolist()), X


def learn(data, model, *more):
    arguments = ["learn", data, "--target", "y", "--model", model, "--trees", 20, "--chunk-rows", 150, *more]
    return main([str(argument) for argument in arguments])


def test_model_is_the_same(data, client, tmp_path, capsys):
    """Learn on a cluster at an address, and on one of the command's own, resumed: the forests are the same."""
    path, X = data
    assert learn(path, tmp_path / "plain.bsp") == 0
    assert learn(path, tmp_path / "there.bsp", "--dask", client.scheduler.address, "--checkpoint-rows", 300) == 0
    assert "Dask dashboard: http" in capsys.readouterr().out
    half = tmp_path / "half.csv"
    with open(path) as lines:
        half.write_text("".join(line for k, line in enumerate(lines) if k <= 300))
    assert learn(half, tmp_path / "here.bsp") == 0
    assert learn(path, tmp_path / "here.bsp", "--resume", "--dask", "local:1") == 0
    plain, there, here = (bspforest.load(tmp_path / f"{name}.bsp") for name in ("plain", "there", "here"))
    assert np.array_equal(plain.predict(X), there.predict(X))
    assert np.array_equal(plain.predict(X), here.predict(X))
    assert plain.get_params() == there.get_params()


@pytest.mark.parametrize("where", ["local:", "local:0", "local:many"])
def test_number_of_processes(data, tmp_path, capsys, where):
    assert learn(data[0], tmp_path / "m.bsp", "--dask", where) == 2
    assert "local:N" in capsys.readouterr().err
