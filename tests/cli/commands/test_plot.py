"""``bspforest plot``: pictures of a saved model."""

from __future__ import annotations


def test_plot(numbers, run, tmp_path):
    model, picture = tmp_path / "m.bsp", tmp_path / "new" / "p.png"
    run("learn", numbers[0], "--target", "y", "--model", model, "--trees", 3)
    assert run("plot", model, "--dims", "a", "c", "--at", "b=0.5", "-o", picture)[0] == 0
    assert picture.read_bytes()[1:4] == b"PNG"
    code, _, err = run("plot", model, "--dims", "a", "z", "-o", picture)
    assert code == 2 and "no feature 'z'" in err
