"""The demo runs, and shows what it says."""

from __future__ import annotations

import pytest

from bspforest import demo


def test_demo(tmp_path, capsys):
    demo.main(["--rows", "2000", "--trees", "5", "--output", str(tmp_path / "new" / "demo.png")])
    shown = capsys.readouterr()
    assert "BSP forest, online" in shown.out
    assert "refitted every 400 rows" in shown.out
    assert "2,000/2,000 rows" in shown.err
    assert (tmp_path / "new" / "demo.png").read_bytes()[1:4] == b"PNG"


def test_demo_refuses_nonsense(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--rows", "5"])
    assert "at least 2000 rows" in capsys.readouterr().err
