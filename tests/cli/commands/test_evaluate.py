"""``bspforest evaluate``: scores, baselines, output."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn import metrics

from bspforest import BSPForestClassifier, BSPForestRegressor


def test_scores_of_numbers_match_a_loop_in_python(numbers, run, tmp_path):
    path, X, y = numbers
    forest = BSPForestRegressor(10, random_state=3)
    errors, importances = [], {}
    for start in range(0, 600, 50):
        if start:
            errors.append(forest.predict(X[start : start + 50]) - y[start : start + 50])
        forest.partial_fit(X[start : start + 50], y[start : start + 50])
        importances[start + 50] = dict(zip("abc", forest.feature_importances_, strict=True))
    error = np.concatenate(errors)
    code, out, err = run(
        *("evaluate", path, "--target", "y", "--trees", 10, "--seed", 3, "--chunk-rows", 50, "--score-window", 100),
        *("--against", "majority,no-change,mondrian,batch-rf-every-300", "--json", tmp_path / "s.json"),
        *("--plot", tmp_path / "new" / "s.png"),
    )
    assert (code, err) == (0, "")
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["task"] == "regression" and found["rows"] == 600 and found["rows_scored"] == 550
    assert found["models"][0]["overall"]["RMSE"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-9)
    assert found["models"][0]["last"]["MAE"] == pytest.approx(np.abs(error[-100:]).mean(), rel=1e-9)
    assert found["models"][0]["curve"]["rows"] == list(range(50, 551, 50))
    assert [model["name"] for model in found["models"]][1:] == [
        *("mean", "no change", "Mondrian forest", "random forest, refitted every 300 rows")
    ]
    rows = [200, 300, 450, 600]
    assert found["importances"] == [{"rows": n, "shares": pytest.approx(importances[n])} for n in rows]
    rmse = np.sqrt(np.mean(error**2))
    assert out.startswith("Task: regression ('y' holds numbers)\n600 rows, 3 columns; 550 predicted and then learned")
    assert re.search(rf"^BSP forest +{rmse:.4f} ", out, re.M)
    assert re.search(r"^Importances of features in percent\nrows +b +a +c\n200 ", out, re.M)
    assert "last 100" in out and out.endswith(f"Picture: {tmp_path / 'new' / 's.png'}\n")
    assert (tmp_path / "new" / "s.png").read_bytes()[1:4] == b"PNG"


def test_trivial_models_do_not_flatten_the_curves_of_others(numbers, run, tmp_path):
    """Fails if the scale reaches up to the error of predicting the label before, which is far above both forests."""
    command = ("evaluate", numbers[0], "--target", "y", "--trees", 5, "--chunk-rows", 50, "--score-window", 100)

    def read(against):
        out = run(*command, "--against", against, "--json", tmp_path / "s.json")[1]
        found = json.loads((tmp_path / "s.json").read_text())["models"]
        ((low, high, note),) = re.findall(r"^RMSE along the stream, from ([\d.]+) to ([\d.]+)(.*)$", out, re.M)
        values = {model["name"]: model["curve"]["values"] for model in found}
        return out, (float(low), float(high)), note, values

    out, scale, note, values = read("mondrian,no-change,majority")
    shown = [value for name in ("BSP forest", "Mondrian forest") for value in values[name]]
    assert scale == pytest.approx((min(shown), max(shown)), abs=1e-4)
    assert note == " (beyond this range: no change, mean)"
    assert re.search(r"^no change +█+$", out, re.M) and re.search(r"^Mondrian forest  \S*[▂▃▄▅▆]", out, re.M)
    _, scale, note, values = read("no-change")  # only one other model: all are compared
    assert scale[1] == pytest.approx(max(values["no change"]), abs=1e-4) and note == ""


def test_scores_of_classes_match_a_loop_in_python(classes, run):
    """Including a class that only occurs late in the file."""
    path, X, y = classes
    forest, names, probabilities = BSPForestClassifier(5, random_state=0), ["high", "late", "low"], []
    for start in range(0, 1600, 100):
        if start:
            probabilities.append(forest.predict_proba(X[start : start + 100]))
        forest.partial_fit(X[start : start + 100], y[start : start + 100], classes=names)
    probabilities = np.concatenate(probabilities)
    code, out, err = run(
        "evaluate", path, "--target", "kind", "--trees", 5, "--against", "majority,no-change", "--json", "-"
    )
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["classes"] == ["high", "late", "low"]
    predicted = np.array(names)[probabilities.argmax(axis=1)]
    assert found["models"][0]["overall"] == {
        "accuracy": pytest.approx(metrics.accuracy_score(y[100:], predicted)),
        "log loss": pytest.approx(metrics.log_loss(y[100:], probabilities, labels=names)),
        "kappa": pytest.approx(metrics.cohen_kappa_score(y[100:], predicted)),
    }
    last = np.repeat(y[99:1599:100], 100)  # no change: the last label before the chunk
    assert found["models"][2]["overall"]["accuracy"] == pytest.approx(np.mean(y[100:] == last))
    assert found["models"][2]["overall"]["log loss"] is None


def test_river_baselines(numbers, classes, run):
    pytest.importorskip("river")
    for path, target in ((numbers[0], "y"), (classes[0], "kind")):
        code, out, _ = run(
            *("evaluate", path, "--target", target, "--trees", 3, "--max-rows", 300, "--against", "hoeffding,river-arf")
        )
        assert code == 0
        assert "river's Hoeffding tree" in out and "river's adaptive random forest" in out and "300 rows" in out


def test_progress_goes_to_standard_error(numbers, run, monkeypatch):
    monkeypatch.setattr("bspforest.cli.progress.time.monotonic", iter(range(0, 10**6, 7)).__next__)
    _, out, err = run("evaluate", numbers[0], "--target", "y", "--trees", 3, "--progress")
    assert re.search(r"^\d+ rows \(\d+% read\)  [\d,]+ rows/s  RMSE 0\.\d+$", err, re.M)
    assert "rows/s" not in out


def test_revisions_are_listed_with_progress(numbers, run):
    command = ("evaluate", numbers[0], "--target", "y", "--trees", 3, "--max-rows", 300)
    assert "\nafter " not in run(*command)[1]
    assert re.search(
        r"^\nafter 100 rows: feature weights .*\nafter 200 rows: feature weights ", run(*command, "--progress")[1], re.M
    )
    assert "\nafter " not in run(*command, "--progress", "--prediction", "mean")[1]
