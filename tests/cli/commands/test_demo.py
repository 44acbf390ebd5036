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
    assert main(["demo", "--rows", "4000", "--trees", "10", "--output", str(tmp_path / "new" / "demo.png")]) == 0
    shown = capsys.readouterr()
    assert "refitted every 800 rows" in shown.out
    assert (
        "From row 800 on, the BSP forest alone learned 20 more rows, with labels twice as large as they are."
        in shown.out
    )
    noticed, counted = re.search(
        r"noticed the change by row (\S+), without being told, and chose a half-life of \d+ rows: [\d,]+ rows counted before, ([\d,]+) then,",
        shown.out,
    ).groups()
    assert 2_000 < int(noticed.replace(",", "")) <= 2_300 and int(counted.replace(",", "")) < 500
    before, after = re.search(
        r"^Importance of x1 to x5 together: ([\d.]+) % before .*, ([\d.]+) % at the end.$", shown.out, re.M
    ).groups()
    assert float(before) > 80 and float(after) < 40
    # The forest recovers; the others, which weigh all rows alike, do not.
    rows = re.findall(
        r"^(BSP|Mondrian|random) forest.*? +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+$", shown.out, re.M
    )
    at_the_end = {name: float(last) for name, _, _, _, last in rows}
    assert at_the_end["BSP"] < 0.7 * min(at_the_end["Mondrian"], at_the_end["random"])
    assert "4,000/4,000 rows" in shown.err
    assert (tmp_path / "new" / "demo.png").read_bytes()[1:4] == b"PNG"


def test_scores_and_curves_match_a_loop_in_python(tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(demo, "draw_recovery", lambda *arguments: drawn.extend(arguments))
    assert main(["demo", "--rows", "2000", "--trees", "2", "--output", str(tmp_path / "d.svg")]) == 0
    X, y, _ = make_friedman(2000, 10, random_state=0)
    X[1000:] = X[1000:, ::-1].copy()
    X_wrong, y_wrong, _ = make_friedman(20, 10, random_state=1)
    forest = BSPForestRegressor(2, random_state=0).partial_fit(X[:100], y[:100])
    errors, wrong, counted, before = [], [], [(100, 100)], None
    for rows in (slice(start, start + 100) for start in range(100, 2000, 100)):
        if rows.start == 400:
            forest.partial_fit(X_wrong, 2 * y_wrong)
        if rows.start == 500:
            wrong.append(forest.predict(X_wrong) - y_wrong)
            forest.forget(range(400, 420))
            wrong.append(forest.predict(X_wrong) - y_wrong)
        errors.append(forest.predict(X[rows]) - y[rows])
        forest.partial_fit(X[rows], y[rows])
        counted.append((rows.stop, sum(0.5 ** (age / forest.half_life_) for age in range(forest.n_samples_))))
        if rows.stop == 1000:
            before = forest.feature_importances_
    expected = [(100 * k, np.sqrt(np.mean(np.square(errors[max(k - 5, 0) : k])))) for k in range(1, 20)]
    curves, _, floor, span, recovery, _ = drawn
    np.testing.assert_allclose(curves["BSP forest, online"], expected, rtol=1e-9)
    assert floor == (1.0, "noise") and span[:2] == (400, 500) and recovery.changed == 1000
    np.testing.assert_allclose(recovery.counted, counted, rtol=1e-9)
    np.testing.assert_allclose(
        [recovery.shares[f"x{k}"] for k in range(1, 11)], np.transpose([before, forest.feature_importances_]), rtol=1e-9
    )
    overall, next_rows = np.sqrt(np.mean(np.square(errors))), expected[13][1]
    out = capsys.readouterr().out
    scores = [overall, expected[8][1], next_rows, expected[-1][1]]
    assert re.search(r"BSP forest, online +" + " +".join(f"{score:.2f}" for score in scores) + " ", out)
    first, second = (np.sqrt(np.mean(np.square(error))) for error in wrong)
    assert f"Their RMSE, with the right labels: {first:.2f} before, {second:.2f} after." in out


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
        out = capsys.readouterr().out
        assert ("half-life" in out) == (values == "ridge")
        rows = re.findall(r"^(BSP|Mondrian) forest, online +([\d.]+) +([\d.]+)", out, re.M)
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
