"""The demo runs, and shows what it says."""

from __future__ import annotations

from bspforest.cli.main import main


def test_demo(tmp_path, capsys):
    assert main(["demo", "--rows", "2000", "--trees", "5", "--output", str(tmp_path / "new" / "demo.png")]) == 0
    shown = capsys.readouterr()
    assert "BSP forest, online" in shown.out
    assert "refitted every 400 rows" in shown.out
    assert "2,000/2,000 rows" in shown.err
    assert (tmp_path / "new" / "demo.png").read_bytes()[1:4] == b"PNG"


def test_demo_refuses_nonsense(capsys):
    assert main(["demo", "--rows", "5"]) == 2
    assert "--rows must be at least 2000" in capsys.readouterr().err
