"""What a person sees: progress, and what happens before the clock starts."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from bspforest import BSPForestRegressor
from bspforest.cli.main import main
from bspforest.cli.report import Ticker

# Counts the kernels that are compiled, or fetched from numba's cache, after the clock has started.
COUNT_KERNELS = """
import sys
from numba.core.dispatcher import Dispatcher
from bspforest.cli.main import main
from bspforest.cli.report import Ticker

def compiled():
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith("bspforest.")]
    kernels = {name: f for module in modules for name, f in module.items() if isinstance(f, Dispatcher)}
    return {(name, len(kernel.overloads)) for name, kernel in kernels.items() if kernel.overloads}

begin = Ticker.begin
Ticker.begin = lambda self: (begin(self), before.update(compiled()))
before = set()
assert main(sys.argv[1:]) == 0
assert before, "no kernels are seen"
assert compiled() == before, compiled() - before
"""


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,b,y\n" + "".join(f"{k % 7},{k % 5},{k / 8}\n" for k in range(120)))
    return str(path)


def test_nothing_is_compiled_in_mid_stream(data):
    command = ["evaluate", data, "--target", "y", "--trees", "2", "--chunk-rows", "10", "--window", "30"]
    end = subprocess.run(
        [sys.executable, "-c", COUNT_KERNELS, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert end.returncode == 0, end.stderr


def test_every_command_that_forgets_compiles_that_first(data, tmp_path, monkeypatch):
    forgets = []
    monkeypatch.setattr(BSPForestRegressor, "forget", lambda self, ids: forgets.append(ids))
    options = ["--target", "y", "--trees", "2"]
    model = ["--model", str(tmp_path / "m.bsp")]
    for command, expected in (
        (["evaluate", data, *options], 0),
        (["evaluate", data, *options, "--window", "50"], 1),
        (["learn", data, *options, *model], 0),
        (["learn", data, *options, *model, "--window", "50", "--overwrite"], 1),
        (["learn", data, *options, *model, "--resume"], 1),  # the saved model has the window
    ):
        forgets.clear()
        assert main(command) == 0
        assert len(forgets) == expected, command


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_is_one_line(monkeypatch):
    monkeypatch.setattr("bspforest.cli.report.time.monotonic", iter(range(100)).__next__)
    stream = Terminal()
    ticker = Ticker(None, stream)
    ticker.begin()
    assert stream.getvalue() == "\rwaiting for the first rows ...\033[K"
    ticker.show(10, 0.25, lambda: "RMSE 1.0")
    ticker.close()
    lines = stream.getvalue().split("\r")[2:]
    assert lines[0].startswith("10 rows (25% read)") and lines[0].endswith("RMSE 1.0\033[K") and lines[1] == "\033[K"
