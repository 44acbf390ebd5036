"""The commands, run in this process: what they say, what they write, how they end."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from csv_files import write_rows
from sklearn import metrics

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.persistence import load_with_extra


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """1600 rows, three classes by name; the third comes late."""
    rng = np.random.default_rng(1)
    X = rng.random((1600, 2))
    y = np.where(np.arange(1600) >= 1200, "late", np.where(X[:, 0] + X[:, 1] > 1, "high", "low"))
    path = tmp_path_factory.mktemp("data") / "classes.csv"
    return (
        write_rows(
            path, ["a", "b", "kind"], [[*map(repr, row), label] for row, label in zip(X.tolist(), y, strict=True)]
        ),
        X,
        y,
    )


def same_forest(first, second) -> None:
    """Two forests are the same to the last bit."""
    from bspforest.persistence.writer import make_image

    one, other = make_image(first, None), make_image(second, None)
    assert len(one.blocks) == len(other.blocks)
    for a, b in zip(one.blocks, other.blocks, strict=True):
        assert [array.tobytes() for array in a] == [array.tobytes() for array in b]


# ----------------------------------------------------------------------------------------------------------------------
# evaluate


def test_evaluate_says_what_python_finds(numbers, run, tmp_path):
    path, X, y = numbers
    forest = BSPForestRegressor(10, random_state=3)
    errors = []
    for start in range(0, 600, 50):
        if start:
            errors.append(forest.predict(X[start : start + 50]) - y[start : start + 50])
        forest.partial_fit(X[start : start + 50], y[start : start + 50])
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
    rmse = np.sqrt(np.mean(error**2))
    assert out.startswith("Task: regression ('y' holds numbers)\n600 rows, 3 features; 550 predicted and then learned")
    assert re.search(rf"^BSP forest +{rmse:.4f} ", out, re.M)
    assert "last 100" in out and out.endswith(f"Picture: {tmp_path / 'new' / 's.png'}\n")
    assert (tmp_path / "new" / "s.png").read_bytes()[1:4] == b"PNG"


def test_evaluate_finds_late_classes_in_a_file(classes, run):
    path, X, y = classes
    forest, names, shares = BSPForestClassifier(5, random_state=0), ["high", "late", "low"], []
    for start in range(0, 1600, 100):
        if start:
            shares.append(forest.predict_proba(X[start : start + 100]))
        forest.partial_fit(X[start : start + 100], y[start : start + 100], classes=names)
    shares = np.concatenate(shares)
    code, out, err = run(
        "evaluate", path, "--target", "kind", "--trees", 5, "--against", "majority,no-change", "--json", "-"
    )
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["classes"] == ["high", "late", "low"]
    said = np.array(names)[shares.argmax(axis=1)]
    assert found["models"][0]["overall"] == {
        "accuracy": pytest.approx(metrics.accuracy_score(y[100:], said)),
        "log loss": pytest.approx(metrics.log_loss(y[100:], shares, labels=names)),
        "kappa": pytest.approx(metrics.cohen_kappa_score(y[100:], said)),
    }
    last = np.repeat(y[99:1599:100], 100)  # no change: the last label before the chunk
    assert found["models"][2]["overall"]["accuracy"] == pytest.approx(np.mean(y[100:] == last))
    assert found["models"][2]["overall"]["log loss"] is None


def test_river_beside_it(numbers, classes, run):
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


# ----------------------------------------------------------------------------------------------------------------------
# learn, predict, info, forget


def test_learn_is_partial_fit(numbers, run, tmp_path):
    path, X, y = numbers
    model = tmp_path / "m.bsp"
    code, out, _ = run(
        "learn", path, "--target", "y", "--model", model, "--trees", 7, "--chunk-rows", 100, "--checkpoint-rows", 150
    )
    assert code == 0
    assert "600 rows learned" in out and f"Model: {model}" in out
    forest = BSPForestRegressor(7, random_state=0)
    for start in range(0, 600, 100):
        forest.partial_fit(X[start : start + 100], y[start : start + 100])
    same_forest(bspforest.load(model), forest)


def test_predict_gives_what_python_gives(numbers, run, tmp_path):
    path, X, _ = numbers
    model, out_file = tmp_path / "m.bsp", tmp_path / "p.parquet"
    run("learn", path, "--target", "y", "--model", model, "--trees", 7)
    forest = bspforest.load(model)
    mean, std = forest.predict(X, return_std=True)
    code, out, err = run("predict", model, path, "--std", "--quantiles", "0.1,0.9", "--keep", "a")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, err, list(rows[0])) == (0, "", ["a", "prediction", "std", "q0.1", "q0.9"])
    np.testing.assert_array_equal([float(row["prediction"]) for row in rows], mean)
    np.testing.assert_array_equal([float(row["std"]) for row in rows], std)
    np.testing.assert_array_equal([float(row["q0.9"]) for row in rows], forest.predict_quantiles(X, [0.9])[:, 0])
    np.testing.assert_array_equal([float(row["a"]) for row in rows], X[:, 0])
    assert run("predict", model, path, "-o", out_file)[0] == 0
    np.testing.assert_array_equal(pq.read_table(out_file)["prediction"].to_numpy(), mean)
    code, _, err = run("predict", model, path, "-o", out_file)
    assert code == 2 and "--overwrite" in err
    assert run("predict", model, path, "--proba")[0] == 2


def test_predict_classes(classes, run, tmp_path):
    path, X, _ = classes
    model = tmp_path / "m.bsp"
    run("learn", path, "--target", "kind", "--model", model, "--trees", 5)
    forest = bspforest.load(model)
    assert isinstance(forest, BSPForestClassifier)
    unlabelled = write_rows(tmp_path / "new.csv", ["b", "a"], X[:50, ::-1].tolist())
    code, out, _ = run("predict", model, unlabelled, "--proba")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0 and list(rows[0]) == ["prediction", "p(high)", "p(late)", "p(low)"]
    assert [row["prediction"] for row in rows] == forest.predict(X[:50]).tolist()
    np.testing.assert_array_equal([float(row["p(low)"]) for row in rows], forest.predict_proba(X[:50])[:, 2])
    assert run("predict", model, path, "--std")[0] == 2


def test_info_and_forget(numbers, run, tmp_path):
    path = numbers[0]
    model, smaller = tmp_path / "m.bsp", tmp_path / "less.bsp"
    run("learn", path, "--target", "y", "--model", model, "--trees", 4, "--window", 500)
    code, out, _ = run("info", model)
    assert code == 0
    assert re.search(r"^rows +500$", out, re.M) and re.search(r"^rows seen +600$", out, re.M)
    assert re.search(r"^sources +.*numbers.csv: 600 rows, 0 skipped$", out, re.M)
    code, out, _ = run("forget", model, "--ids", "100,300-399", "-o", smaller)
    assert (code, out) == (0, f"101 rows forgotten, 399 held: {smaller}\n")
    expected = bspforest.load(model).forget([100, *range(300, 400)])
    same_forest(bspforest.load(smaller), expected)
    (tmp_path / "ids.txt").write_text("401\n\n403-405\n")
    assert run("forget", smaller, "--ids-from", tmp_path / "ids.txt")[0] == 0
    found = json.loads(run("info", smaller, "--json")[1])
    assert found["rows"] == 395 and found["columns"] == {"a": "number", "b": "number", "c": "number"}
    for ids, code in (("100", 1), ("7-3", 2), ("x", 2), ("9999", 1)):
        found_code, _, err = run("forget", smaller, "--ids", ids)
        assert found_code == code and ids.split("-")[0] in err


def test_plot(numbers, run, tmp_path):
    model, picture = tmp_path / "m.bsp", tmp_path / "new" / "p.png"
    run("learn", numbers[0], "--target", "y", "--model", model, "--trees", 3)
    assert run("plot", model, "--dims", "a", "c", "--at", "b=0.5", "-o", picture)[0] == 0
    assert picture.read_bytes()[1:4] == b"PNG"
    code, _, err = run("plot", model, "--dims", "a", "z", "-o", picture)
    assert code == 2 and "no feature 'z'" in err


# ----------------------------------------------------------------------------------------------------------------------
# Going on


def test_models_are_never_overwritten_silently(numbers, run, tmp_path):
    model = tmp_path / "m.bsp"
    model.write_bytes(b"precious")
    code, _, err = run("learn", numbers[0], "--target", "y", "--model", model)
    assert code == 2 and all(option in err for option in ("--resume", "--append", "--overwrite"))
    assert model.read_bytes() == b"precious"
    code, _, err = run("learn", numbers[0], "--target", "y", "--model", model, "--resume")
    assert code == 1 and "model file" in err
    assert run("learn", numbers[0], "--target", "y", "--model", model, "--trees", 2, "--overwrite")[0] == 0


def test_resume_learns_what_a_file_has_grown_by(numbers, run, tmp_path):
    lines = Path(numbers[0]).read_text().splitlines(keepends=True)
    growing, model = tmp_path / "growing.csv", tmp_path / "m.bsp"
    command = ("learn", growing, "--target", "y", "--model", model, "--trees", 5, "--chunk-rows", 100, "--resume")
    growing.write_text("".join(lines[:301]))
    assert run(*command)[0] == 0
    growing.write_text("".join(lines))
    code, out, _ = run(*command)
    assert code == 0 and "Continuing after 300 rows" in out and "300 rows learned" in out
    assert "No new rows" in run(*command)[1]
    whole = tmp_path / "whole.bsp"
    run("learn", numbers[0], "--target", "y", "--model", whole, "--trees", 5, "--chunk-rows", 100)
    same_forest(bspforest.load(model), bspforest.load(whole))
    other = tmp_path / "other.csv"
    other.write_text("".join(lines[:5] + lines[6:] + lines[5:6]))
    code, _, err = run("learn", other, "--target", "y", "--model", model, "--resume")
    assert code == 1 and "not those that were learned" in err
    other.write_text("".join(lines[:100]))
    code, _, err = run("learn", other, "--target", "y", "--model", model, "--resume")
    assert code == 1 and "has 99 rows, but 600 were learned already" in err
    for extra, named in ((("--trees", 6), "--trees 5"), (("--drop", "a"), "--drop"), (("--text", "a"), "--text a")):
        code, _, err = run("learn", growing, "--target", "y", "--model", model, "--resume", *extra)
        assert code == 2 and named in err


def test_append_learns_other_data_once(numbers, run, tmp_path):
    lines = Path(numbers[0]).read_text().splitlines(keepends=True)
    first, second, model = tmp_path / "1.csv", tmp_path / "2.csv", tmp_path / "m.bsp"
    first.write_text("".join(lines[:301]))
    second.write_text("".join(lines[:1] + lines[301:]))
    options = ("--target", "y", "--model", model, "--trees", 5, "--chunk-rows", 100)
    assert run("learn", second, *options, "--append")[0] == 2
    run("learn", first, *options)
    assert run("learn", second, *options, "--append")[0] == 0
    for path in (first, second):
        code, _, err = run("learn", path, *options, "--append")
        assert code == 2 and "300 rows of it already" in err
    assert "No new rows" in run("learn", second, *options, "--resume")[1]
    whole = tmp_path / "whole.bsp"
    run("learn", numbers[0], *options[:2], "--model", whole, *options[4:])
    same_forest(bspforest.load(model), bspforest.load(whole))
    _, extra = load_with_extra(model)
    assert [source["rows"] for source in extra["command"]["sources"]] == [300, 300]
