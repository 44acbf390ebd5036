"""Progress on standard error, and compiling before the stream starts."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from bspforest import precompile
from bspforest.cli.main import main
from bspforest.cli.progress import RowProgress
from bspforest.forest.forest import OnlineForest

# Fails if a kernel is compiled, or read from numba's cache, after the stream has started.
COUNT_KERNELS = """
import sys
from numba.core.dispatcher import Dispatcher
from bspforest.cli.main import main
from bspforest.cli.progress import RowProgress

def compiled():
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith("bspforest.")]
    found = {name: getattr(f, "shared", f) for module in modules for name, f in module.items()}
    kernels = {name: getattr(f, "_kernel", f) for name, f in found.items()}
    kernels = {name: f for name, f in kernels.items() if isinstance(f, Dispatcher)}
    return {(name, len(kernel.overloads)) for name, kernel in kernels.items() if kernel.overloads}

begin = RowProgress.begin
RowProgress.begin = lambda self: (begin(self), before.update(compiled()))
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


def test_nothing_is_compiled_while_a_stream_is_learned(data):
    command = ["evaluate", data, "--target", "y", "--trees", "2", "--chunk-rows", "10", "--window", "30"]
    end = subprocess.run(
        [sys.executable, "-c", COUNT_KERNELS, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert end.returncode == 0, end.stderr


def test_kernels_are_compiled_before_learning(data, tmp_path, monkeypatch, capsys):
    happened = []

    def compile_all(tell):
        happened.append("compile")
        for k in range(3):
            tell(k + 1, 3)
        return 3

    learn = OnlineForest.learn
    monkeypatch.setattr(precompile, "are_compiled", lambda: False)
    monkeypatch.setattr(precompile, "compile_all", compile_all)
    monkeypatch.setattr(OnlineForest, "learn", lambda *args, **kw: (happened.append("learn"), learn(*args, **kw))[1])
    options = ["--target", "y", "--trees", "2"]
    model = ["--model", str(tmp_path / "m.bsp")]
    for command in (["evaluate", data, *options], ["learn", data, *options, *model]):
        happened.clear()
        assert main(command) == 0
        assert happened[:2] == ["compile", "learn"] and happened.count("compile") == 1, command
        assert capsys.readouterr().err.startswith("Compiling the kernels, once on a machine ...\n")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(["compile"]) == 0
    assert "machine: 2 of 3\033[K\r" in sys.stderr.getvalue() and "machine: 3 of 3\033[K\n" in sys.stderr.getvalue()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_is_one_line(monkeypatch):
    monkeypatch.setattr("bspforest.cli.progress.time.monotonic", iter(range(100)).__next__)
    stream = Terminal()
    progress = RowProgress(None, stream)
    progress.begin()
    assert stream.getvalue() == "\rwaiting for the first rows ...\033[K"
    progress.show(10, 0.25, lambda: "RMSE 1.0")
    progress.close()
    lines = stream.getvalue().split("\r")[2:]
    assert lines[0].startswith("10 rows (25% read)") and lines[0].endswith("RMSE 1.0\033[K") and lines[1] == "\033[K"
