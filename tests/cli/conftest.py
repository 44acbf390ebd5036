"""What the tests of the command share."""

from __future__ import annotations

import numpy as np
import pytest
from csv_files import write_rows

from bspforest.cli.main import main


@pytest.fixture
def run(capsys):
    """Run a command: its exit code, and what it said on standard output and standard error."""

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
    """600 rows of three numbers and a target of numbers: the file, X and y."""
    rng = np.random.default_rng(0)
    X = rng.random((600, 3))
    y = X @ [1.0, 2.0, 0.0] + 0.1 * rng.normal(size=600)
    path = tmp_path_factory.mktemp("data") / "numbers.csv"
    return write_rows(path, ["a", "b", "c", "y"], np.column_stack([X, y]).tolist()), X, y
