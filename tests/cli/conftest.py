"""Fixtures for the tests of the command: running it, and data."""

from __future__ import annotations

import numpy as np
import pytest
from csv_files import write_rows

from bspforest.cli.main import main


@pytest.fixture
def run(capsys):
    """Return a function that runs a command, and returns its exit code, standard output and standard error."""

    def call(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse
            code = end.code
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        return code, shown.out, shown.err

    return call


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Return a file of 600 rows with three numbers and a number to predict, and its X and y."""
    rng = np.random.default_rng(0)
    X = rng.random((600, 3))
    y = X @ [1.0, 2.0, 0.0] + 0.1 * rng.normal(size=600)
    path = tmp_path_factory.mktemp("data") / "numbers.csv"
    return write_rows(path, ["a", "b", "c", "y"], np.column_stack([X, y]).tolist()), X, y


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Return a file of 1600 rows with three named classes, of which one comes late, and its X and y."""
    rng = np.random.default_rng(1)
    X = rng.random((1600, 2))
    y = np.where(np.arange(1600) >= 1200, "late", np.where(X[:, 0] + X[:, 1] > 1, "high", "low"))
    path = tmp_path_factory.mktemp("data") / "classes.csv"
    return (
        write_rows(
            path, ["a", "b", "kind"], [[*map(repr, row), label] for row, label in zip(X.tolist(), y, strict=True)]
        ),
        X,
        y,
    )
