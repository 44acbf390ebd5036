"""The demo runs, and shows what it says."""

from __future__ import annotations

import re
import sys

import pytest

from bspforest.cli.commands import demo
from bspforest.cli.main import main
from bspforest.datasets import make_friedman


def test_demo(tmp_path, capsys):
    assert main(["demo", "--rows", "2000", "--trees", "5", "--output", str(tmp_path / "new" / "demo.png")]) == 0
    shown = capsys.readouterr()
    assert "BSP forest, online" in shown.out
    assert "refitted every 400 rows" in shown.out
    assert "2,000/2,000 rows" in shown.err
    assert (tmp_path / "new" / "demo.png").read_bytes()[1:4] == b"PNG"


def test_the_stream_and_the_picture_are_those_of_the_library(tmp_path, capsys, monkeypatch):
    """Friedman's function from `datasets`, and the curves as `evaluate` draws them, over the noise."""
    drawn = {}
    monkeypatch.setattr(demo, "draw_curves", lambda curves, *others, **floor: drawn.update(curves, **floor))
    assert main(["demo", "--rows", "2000", "--trees", "2", "--output", str(tmp_path / "d.svg")]) == 0
    X, y, _ = make_friedman(2000, 8, random_state=0)
    runner = demo.Runner("same", demo.BSPForestRegressor(2, random_state=0))
    for start in range(0, 2000, 100):
        runner.step(X, y, start, start + 100)
    assert drawn["BSP forest, online"] == runner.curve(500)
    assert [row for row, _ in runner.curve(500)] == list(range(500, 1901))
    assert runner.curve(500)[-1][1] == pytest.approx(runner.rmse(500))
    assert drawn["floor"] == (1.0, "noise")
    assert re.search(rf"BSP forest, online +{runner.rmse():.2f} ", capsys.readouterr().out)


def test_demo_without_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo", "--rows", "2000", "--trees", "2", "--output", str(tmp_path / "d.png")]) == 0
    out = capsys.readouterr().out
    assert "No picture: a picture needs matplotlib" in out and "Mondrian forest, online" in out


def test_demo_refuses_nonsense(capsys):
    assert main(["demo", "--rows", "5"]) == 2
    assert "--rows must be at least 2000" in capsys.readouterr().err
    assert main(["demo", "--output", "picture.xyz"]) == 2
    assert ".png, .svg or .pdf" in capsys.readouterr().err
