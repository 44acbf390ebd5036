"""``bspforest demo``: scores, the picture, and its options."""

from __future__ import annotations

import re
import sys

import numpy as np

from bspforest import BSPForestRegressor
from bspforest.cli.commands import demo
from bspforest.cli.main import main
from bspforest.datasets import make_friedman


def test_demo(tmp_path, capsys):
    assert main(["demo", "--rows", "2000", "--trees", "5", "--output", str(tmp_path / "new" / "demo.png")]) == 0
    shown = capsys.readouterr()
    assert "BSP forest, online" in shown.out
    assert "refitted every 400 rows" in shown.out
    assert (
        "From row 900 on, the BSP forest alone learned 20 more rows, with labels twice as large as they are."
        in shown.out
    )
    assert re.search(
        r"^Importances in percent: x1 [\d.]+, .*; x6 to x10, which are noise, [\d.]+ together$", shown.out, re.M
    )
    assert "2,000/2,000 rows" in shown.err
    assert (tmp_path / "new" / "demo.png").read_bytes()[1:4] == b"PNG"


def test_scores_and_curves_match_a_loop_in_python(tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(demo, "draw_curves", lambda *arguments: drawn.extend(arguments))
    assert main(["demo", "--rows", "2000", "--trees", "2", "--output", str(tmp_path / "d.svg")]) == 0
    X, y, _ = make_friedman(2000, 10, random_state=0)
    X_wrong, y_wrong, _ = make_friedman(20, 10, random_state=1)
    forest = BSPForestRegressor(2, random_state=0).partial_fit(X[:100], y[:100])
    errors, wrong = [], []
    for rows in (slice(start, start + 100) for start in range(100, 2000, 100)):
        if rows.start == 900:
            forest.partial_fit(X_wrong, 2 * y_wrong)
        if rows.start == 1000:
            wrong.append(forest.predict(X_wrong) - y_wrong)
            forest.forget(range(900, 920))
            wrong.append(forest.predict(X_wrong) - y_wrong)
        errors.append(forest.predict(X[rows]) - y[rows])
        forest.partial_fit(X[rows], y[rows])
    expected = [(100 * k, np.sqrt(np.mean(np.square(errors[max(k - 5, 0) : k])))) for k in range(1, 20)]
    curves, *_, floor, span, shares = drawn
    np.testing.assert_allclose(curves["BSP forest, online"], expected, rtol=1e-9)
    assert floor == (1.0, "noise") and span == (900, 1000, "20 wrong labels, then forgotten")
    np.testing.assert_allclose([shares[f"x{k}"] for k in range(1, 11)], forest.feature_importances_, rtol=1e-9)
    overall, recent = np.sqrt(np.mean(np.square(errors))), expected[-1][1]
    out = capsys.readouterr().out
    assert re.search(rf"BSP forest, online +{overall:.2f} +{recent:.2f} ", out)
    before, after = (np.sqrt(np.mean(np.square(error))) for error in wrong)
    assert f"Their RMSE, with the right labels: {before:.2f} before, {after:.2f} after." in out


def test_demo_with_means(tmp_path, capsys):
    """Beside a Mondrian forest, which has means whatever is asked."""
    tables = {}
    for values in ("ridge", "mean"):
        command = [
            "demo",
            "--rows",
            "2000",
            "--trees",
            "20",
            "--prediction",
            values,
            "--output",
            str(tmp_path / "d.svg"),
        ]
        assert main(command) == 0
        rows = re.findall(r"^(BSP|Mondrian) forest, online +([\d.]+) +([\d.]+)", capsys.readouterr().out, re.M)
        tables[values] = {name: scores for name, *scores in rows}
    assert tables["ridge"]["Mondrian"] == tables["mean"]["Mondrian"]
    assert float(tables["ridge"]["BSP"][0]) < float(tables["mean"]["BSP"][0])


def test_demo_without_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo", "--rows", "2000", "--trees", "2", "--output", str(tmp_path / "d.png")]) == 0
    out = capsys.readouterr().out
    assert "No picture: a picture needs matplotlib" in out and "Mondrian forest, online" in out


def test_demo_refuses_invalid_options(capsys):
    assert main(["demo", "--rows", "5"]) == 2
    assert "--rows must be at least 2000" in capsys.readouterr().err
    assert main(["demo", "--output", "picture.xyz"]) == 2
    assert ".png, .svg or .pdf" in capsys.readouterr().err
