"""``bspforest predict``: predictions, output files, and options that are refused."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from csv_files import write_rows

import bspforest
from bspforest import BSPForestClassifier


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_predictions_match_python(numbers, run, tmp_path, values):
    path, X, _ = numbers
    model, out_file = tmp_path / "m.bsp", tmp_path / "p.parquet"
    run("learn", path, "--target", "y", "--model", model, "--trees", 7, "--prediction", values)
    forest = bspforest.load(model)
    mean, std = forest.predict(X, return_std=True)
    code, out, err = run("predict", model, path, "--std", "--quantiles", "0.1,0.9", "--keep", "a")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, err, list(rows[0])) == (0, "", ["a", "prediction", "std", "q0.1", "q0.9"])
    np.testing.assert_array_equal([float(row["prediction"]) for row in rows], mean)
    np.testing.assert_array_equal([float(row["std"]) for row in rows], std)
    np.testing.assert_array_equal([float(row["q0.9"]) for row in rows], forest.predict_quantiles(X, [0.9])[:, 0])
    np.testing.assert_array_equal([float(row["a"]) for row in rows], X[:, 0])
    columns = csv.DictReader(io.StringIO(run("predict", model, path, "--quantiles", "0.9")[1]))
    assert [row["q0.9"] for row in columns] == [row["q0.9"] for row in rows] and columns.fieldnames == [
        "prediction",
        "q0.9",
    ]
    assert run("predict", model, path, "-o", out_file)[0] == 0
    np.testing.assert_array_equal(pq.read_table(out_file)["prediction"].to_numpy(), mean)
    code, _, err = run("predict", model, path, "-o", out_file)
    assert code == 2 and "--overwrite" in err
    assert run("predict", model, path, "--proba")[0] == 2


def test_classes_and_probabilities_match_python(classes, run, tmp_path):
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


@pytest.fixture
def models(run, tmp_path):
    """Return a regression and a classification model of the columns a (numbers) and t (text)."""
    rows = [f"{k % 7},{'uv'[k % 2]},{k / 8},{'xyz'[k % 3]}" for k in range(60)]
    data = tmp_path / "d.csv"
    data.write_text("\n".join(["a,t,y,kind", *rows]) + "\n")
    numbers, classes = tmp_path / "numbers.bsp", tmp_path / "classes.bsp"
    assert run("learn", data, "--target", "y", "--drop", "kind", "--trees", 2, "--model", numbers)[0] == 0
    assert run("learn", data, "--target", "kind", "--drop", "y", "--trees", 2, "--model", classes)[0] == 0
    return numbers, classes


def test_data_without_rows(models, run, tmp_path):
    """A table without rows has the same columns and types as one with rows."""
    some, none = tmp_path / "some.csv", tmp_path / "none.csv"
    header = "name,a,t"
    some.write_text(f"{header}\nfirst,1,u\n")
    none.write_text(f"{header}\n")
    for model, asked, names in (
        (models[0], ("--std", "--quantiles", "0.1,0.9"), ["prediction", "std", "q0.1", "q0.9"]),
        (models[0], (), ["prediction"]),
        (models[1], ("--proba",), ["prediction", "p(x)", "p(y)", "p(z)"]),
        (models[1], (), ["prediction"]),
    ):
        tables = []
        for data in (some, none):
            out = tmp_path / "out.parquet"
            assert run("predict", model, data, *asked, "--keep", "name,a", "-o", out, "--overwrite")[0] == 0
            tables.append(pq.read_table(out))
        assert tables[0].schema == tables[1].schema and list(map(len, tables)) == [1, 0]
        assert tables[0].column_names == ["name", "a", *names]
        label = pa.string() if model == models[1] else pa.float64()
        assert tables[0].schema.types[:3] == [pa.string(), pa.float64(), label]
        assert run("predict", model, none, *asked, "--drop", "name")[:2] == (0, ",".join(names) + "\n")
    none.write_text(f"{header}\nfirst,x,u\n")
    code, out, err = run("predict", models[0], none, "--drop", "name", "--on-error", "skip")
    assert (code, out) == (0, "prediction\n") and "1 malformed row skipped: it has no prediction" in err


@pytest.mark.parametrize(
    ("which", "asked", "name"),
    [
        (0, ("--keep", "prediction"), "prediction"),
        (0, ("--keep", "std", "--std"), "std"),
        (1, ("--keep", "p(x)", "--proba"), "p(x)"),
        (0, ("--keep", "q0.5", "--quantiles", "0.5"), "q0.5"),
        (0, ("--quantiles", "0.1,0.1000001"), "q0.1"),
        (0, ("--keep", "a,a"), "a"),
    ],
)
def test_duplicate_output_columns_are_refused(which, asked, name, models, run, tmp_path):
    """They are refused before DATA is opened, which does not exist here."""
    code, _, err = run("predict", models[which], tmp_path / "no.csv", *asked)
    assert code == 2 and f"two columns of the output would be named {name!r}" in err


def test_columns_named_like_outputs_may_be_kept(models, run, tmp_path):
    data = tmp_path / "d.csv"
    data.write_text("std,a,t\n5,1,u\n")
    code, out, _ = run("predict", models[0], data, "--keep", "std")
    assert code == 0 and out.startswith("std,prediction\n5,")


def test_outputs_that_cannot_be_written(models, run, tmp_path):
    data = tmp_path / "d.csv"
    code, _, err = run("predict", models[0], data, "-o", tmp_path / "nodir" / "out.csv")
    assert code == 2 and f"there is no folder {tmp_path / 'nodir'}" in err
    code, _, err = run("predict", models[0], data, "-o", tmp_path, "--overwrite")
    assert code == 2 and "is a folder, expected a regular file; -o - writes to standard output" in err


def test_failed_output_leaves_no_trace(models, run, tmp_path):
    """Temporary files of this run are removed; an existing file keeps its content and permissions."""
    folder, data = tmp_path / "out", tmp_path / "d.csv"
    folder.mkdir()
    out = folder / "p.csv"
    out.write_text("precious")
    out.chmod(0o600)
    data.write_text("a,t\n1,u\nx,v\n")
    command = ("predict", models[0], data, "-o", out, "--overwrite")
    assert run(*command)[0] == 1
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("p.csv", "precious")]
    data.write_text("a,t\n1,u\n")
    assert run(*command)[0] == 0
    assert out.stat().st_mode & 0o777 == 0o600 and np.isfinite(float(out.read_text().split()[1]))
