"""Files as people have them: other notations of numbers and missing values, ids, columns and classes that come and go."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hostile import same

import bspforest
from bspforest import BSPForestClassifier

X = np.random.default_rng(0).random((120, 2)).round(4)
Y = (X[:, 0] + 2 * X[:, 1]).round(4)


def write(path, header, rows, delimiter=";"):
    """Write rows of anything as text."""
    path.write_text("".join(delimiter.join(map(str, row)) + "\n" for row in [header, *rows]))
    return path


def with_comma(value):
    return f"{value:.4f}".replace(".", ",")


# ----------------------------------------------------------------------------------------------------------------------
# Decimal commas


@pytest.fixture
def commas(tmp_path):
    """Return a file of numbers with decimal commas."""
    return write(tmp_path / "de.csv", "aby", [map(with_comma, (*x, y)) for x, y in zip(X, Y, strict=True)])


def test_decimal_comma(commas, run, tmp_path):
    """Features and target are read as from a file with decimal points."""
    points = write(tmp_path / "en.csv", "aby", np.column_stack([X, Y]).tolist(), ",")
    options = ("--target", "y", "--trees", 2, "--model")
    code, out, err = run("learn", commas, *options, tmp_path / "de.bsp", "--decimal", ",")
    assert (code, err) == (0, "") and out.startswith("Task: regression ('y' holds numbers)\n120 rows learned")
    assert run("learn", points, *options, tmp_path / "en.bsp")[0] == 0
    assert same(bspforest.load(tmp_path / "de.bsp"), bspforest.load(tmp_path / "en.bsp"))
    predicted = run("predict", tmp_path / "de.bsp", commas, "--decimal", ",")
    assert predicted[0] == 0 and predicted == run("predict", tmp_path / "en.bsp", points)
    assert "No new rows" in run("learn", commas, *options, tmp_path / "de.bsp", "--decimal", ",", "--resume")[1]
    code, _, err = run("predict", tmp_path / "de.bsp", commas)
    first = with_comma(X[0, 0])
    assert (
        code == 1
        and (
            f"{commas}, line 2: '{first}' in column 'a' is not a number; --decimal , reads numbers with a decimal comma (--on"
        )
        in err
    )
    code, _, err = run("predict", tmp_path / "de.bsp", write(tmp_path / "mixed.csv", "ab", X), "--decimal", ",")
    assert code == 1 and f"'{X[0, 0]}' in column 'a' is not a number with --decimal , (--on-error" in err


def test_decimal_comma_is_suggested(commas, run):
    out = run("evaluate", commas, "--target", "y", "--trees", 2, "--chunk-rows", 60)[1]
    for name in "aby":
        assert (
            f"Column '{name}': text, because its numbers have a decimal comma (--decimal , reads them as numbers)"
            in out
        )
    assert "if it is an identifier" not in out


def test_decimal_comma_and_delimiter(commas, run, tmp_path):
    points = write(tmp_path / "en.csv", "aby", np.column_stack([X, Y]).tolist(), ",")
    code, _, err = run("evaluate", points, "--target", "y", "--decimal", ",", "--delimiter", ",")
    assert code == 2 and "--decimal , and --delimiter , are the same character, which cannot be both" in err
    code, _, err = run("evaluate", points, "--target", "y", "--decimal", ",")
    assert (
        code == 2 and f"--decimal ,: the fields of {points} are separated by ','" in err and "--delimiter names" in err
    )
    command = ("--target", "c3", "--decimal", ",", "--no-header", "--trees", 2, "--chunk-rows", 60)
    commas.write_text(commas.read_text().split("\n", 1)[1])  # the first line has as many commas as semicolons
    assert run("evaluate", commas, *command)[0] == 0


# ----------------------------------------------------------------------------------------------------------------------
# Markers of missing values

MARKED = [
    [-999 if k % 10 == 3 else a, "unknown" if k % 7 == 2 else "uv"[k % 2], y]
    for k, (a, y) in enumerate(zip(X[:, 0], Y, strict=True))
]
EMPTY = [["" if a == -999 else a, "" if t == "unknown" else t, y] for a, t, y in MARKED]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_markers_of_missing_values(suffix, run, tmp_path):
    """The model is that of a file in which the values are missing, also where it is predicted, resumed and appended to."""
    marked, empty = write(tmp_path / "m.csv", "aty", MARKED[:100]), write(tmp_path / "e.csv", "aty", EMPTY[:100])
    rest, missing = write(tmp_path / "m2.csv", "aty", MARKED[100:]), write(tmp_path / "e2.csv", "aty", EMPTY[100:])
    if suffix == "parquet":
        marked, rest = (to_parquet(path) for path in (marked, rest))
    options = ("--target", "y", "--trees", 2, "--model")
    with_marks, without = tmp_path / "m.bsp", tmp_path / "e.bsp"
    code, _, err = run("learn", marked, *options, with_marks, "--na-values", "-999,unknown")
    assert (code, err) == (0, "")
    assert run("learn", empty, *options, without)[0] == 0
    assert same(bspforest.load(with_marks), bspforest.load(without))
    assert run("learn", rest, *options, with_marks, "--append")[0] == 0
    assert run("learn", missing, *options, without, "--append")[0] == 0
    assert "No new rows" in run("learn", rest, *options, with_marks, "--resume")[1]
    assert "No new rows" in run("learn", rest, *options, with_marks, "--resume", "--na-values", "unknown,-999")[1]
    assert same(bspforest.load(with_marks), bspforest.load(without))
    predicted = run("predict", with_marks, marked)
    assert predicted[0] == 0 and predicted == run("predict", without, empty)
    code, _, err = run("learn", rest, *options, with_marks, "--resume", "--na-values", "-1")
    assert code == 2 and f"--na-values -1: {with_marks} was learned with --na-values -999,unknown, which" in err
    code, _, err = run("learn", missing, *options, without, "--resume", "--na-values", "-1")
    assert code == 2 and "was learned with --na-values none" in err


def to_parquet(path):
    table = pa_csv.read_csv(path, parse_options=pa_csv.ParseOptions(delimiter=";"))
    pq.write_table(table, path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def test_markers_in_any_column(run, tmp_path):
    """Of numbers written otherwise, with other markers among them, in the target, and in columns that are only copied."""
    rows = [[k % 5, "u", "x"] for k in range(20)]
    rows[3][0], rows[4][0], rows[5][0], rows[6][2] = "-", " -9", "-9.0", "none"
    path, model = write(tmp_path / "d.csv", "aty", rows), tmp_path / "m.bsp"
    command = ("learn", path, "--target", "y", "--model", model, "--trees", 1, "--na-values=-,-9,none")
    code, _, err = run(*command)
    assert code == 1 and "line 8: no value in the target 'y'" in err
    code, out, _ = run(*command, "--on-error", "skip")
    assert code == 0 and "1 class: x\n" in out and "19 rows learned" in out
    held = bspforest.load(model).held_rows().X
    assert held[:, 1].tolist() == [0, 0, 0, 1, 1, 1] + [0] * 13
    new = write(tmp_path / "new.csv", ["id", "a", "t"], [["-9", 1, "u"], ["2", "-", "u"]])
    assert run("predict", model, new, "--keep", "id")[1] == "id,prediction\n-9,x\n2,x\n"


# ----------------------------------------------------------------------------------------------------------------------
# Hints about columns


def test_column_that_may_be_an_id(run, tmp_path):
    """Not one that ends early, has a gap, or is text."""
    rows = [
        [k + 5, k if k < 11 else 0, k if k != 7 else "", f"{k}.0", k, a, y]
        for k, (a, y) in enumerate(zip(X[:, 0], Y, strict=True))
    ]
    path = write(tmp_path / "d.csv", ["id", "early", "gap", "also", "code", "a", "y"], rows)
    options = ("--target", "y", "--trees", 2, "--text", "code")
    notes = [
        f"Column '{name}' rises by one each row: if it is an id, leave it out with --drop {name}\n"
        for name in ("id", "also")
    ]
    for command in (("evaluate", path, "--chunk-rows", 60), ("learn", path, "--model", tmp_path / "m.bsp")):
        code, out, err = run(*command, *options)
        assert (code, err) == (0, "") and all(note in out for note in notes) and out.count("rises by one") == 2
    assert "rises" not in run("evaluate", path, "--chunk-rows", 60, *options, "--drop", "id,also")[1]
    few = write(tmp_path / "few.csv", ["id", "y"], [[k, k % 3 / 7] for k in range(9)])
    assert "rises" not in run("evaluate", few, "--target", "y", "--trees", 2, "--chunk-rows", 3)[1]


def test_columns_that_are_not_those_of_the_model(run, tmp_path):
    path, model = write(tmp_path / "d.csv", "aby", np.column_stack([X, Y])), tmp_path / "m.bsp"
    assert run("learn", path, "--target", "y", "--model", model, "--trees", 2)[0] == 0

    def explain(header, rows, *options):
        new = write(tmp_path / "new.csv", header, rows)
        code, _, err = run("predict", model, new, *options)
        assert code == 1 and err.startswith(f"bspforest: {new} ")
        return err.removeprefix(f"bspforest: {new} ").rstrip("\n")

    lacks = "lacks the column 'b', which the model needs; it has"
    assert explain(["a", "x"], X) == f"{lacks} a, x"
    assert explain(["a", "B"], X) == f"{lacks} a, B. If 'B' is the same, rename it"
    assert explain(["a,b"], [["1,2"]], "--delimiter", ";").endswith(
        "it has a,b. Is its delimiter another one? See --delimiter"
    )
    more = "has a new column, 'c', which the model does not know: leave it out with --drop c,d"
    assert explain("abcd", np.column_stack([X, X])) == more
    assert run("predict", model, tmp_path / "new.csv", "--drop", "c,d")[0] == 0
    code, _, err = run("predict", model, tmp_path / "new.csv", "--keep", "D", "--drop", "c,d")
    assert code == 2 and "has no column 'D'. Did you mean 'd'?" in err
    unnamed = tmp_path / "unnamed.bsp"
    options = ("--target", "c3", "--trees", 2, "--model", unnamed, "--no-header")
    path.write_text(path.read_text().split("\n", 1)[1])
    assert run("learn", path, *options)[0] == 0
    code, _, err = run("predict", unnamed, path)
    assert code == 1 and err.endswith(". The model was learned with --no-header, which names columns c1, c2, ...\n")


def test_columns_are_dropped_from_appended_data(run, tmp_path):
    """A column that the model does not know may be left out, then and later, but none that it knows."""
    path, model = write(tmp_path / "d.csv", "aby", np.column_stack([X, Y])), tmp_path / "m.bsp"
    options = ("--target", "y", "--model", model)
    assert run("learn", path, *options, "--trees", 2)[0] == 0
    more = write(tmp_path / "more.csv", "abcy", np.column_stack([X, X[:, 0], Y]))
    code, _, err = run("learn", more, *options, "--append")
    assert code == 1 and "which the model does not know: leave it out with --drop c" in err
    assert run("learn", more, *options, "--append", "--drop", "c")[0] == 0
    assert "No new rows" in run("learn", more, *options, "--resume")[1]
    assert run("predict", model, more)[0] == 0
    for name in "ay":
        code, _, err = run("learn", more, *options, "--resume", "--drop", name)
        assert code == 2 and f"--drop {name}: {model} was learned with this column, which cannot be changed" in err


# ----------------------------------------------------------------------------------------------------------------------
# Classes that come later

KINDS = np.where(X[:, 0] > X[:, 1], "m", "p").astype(object)
KINDS[70], KINDS[85:90], KINDS[110] = "z", "a", "n"  # after all others, before all others, among them
CHUNKS = ("--chunk-rows", 20, "--trees", 3)


def kind_rows(first, last, extra=()):
    return [[*x, *extra, kind] for x, kind in zip(X[first:last], KINDS[first:last], strict=True)]


def give(monkeypatch, path):
    """Let standard input be a file."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(path.read_bytes()))))


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    """Return a file whose first rows, of which a pipe's classes are found, lack three classes."""
    monkeypatch.setattr("bspforest.cli.data.stream_setup.SAMPLE_ROWS", 50)
    monkeypatch.setattr("bspforest.cli.data.csv_source.BLOCK", 300)
    return write(tmp_path / "kinds.csv", ["a", "b", "kind"], kind_rows(0, 120))


NEW = "new class 'z' in line 72; 3 classes now\nnew class 'a' in line 87; 4 classes now\nnew class 'n' in line 112; 5 classes now\n"


def learn_in_python(values):
    """Return the forest of a loop over chunks, with classes as they come."""
    forest, known = BSPForestClassifier(3, random_state=0, prediction=values), ["m", "p"]
    for start in range(0, 120, 20):
        rows = slice(start, start + 20)
        before, known = known, sorted({*known, *KINDS[rows]})
        X_new, y = X[rows], KINDS[rows].astype(str)
        if start == 0 or before == known:
            forest.partial_fit(X_new, y, classes=known)
        else:
            forest._add_classes(np.array(known), np.searchsorted(known, before), X_new, y)
    return forest


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_new_classes_in_a_pipe(values, pipe, run, tmp_path, monkeypatch):
    model = tmp_path / "m.bsp"
    give(monkeypatch, pipe)
    command = ("--target", "kind", "--model", model, *CHUNKS, "--prediction", values)
    code, out, err = run("learn", "-", *command, "--checkpoint-rows", 20)
    assert (code, err) == (0, NEW)
    assert "\n2 classes: m, p\n" in out and "\n5 classes: a, m, n, p, z\n" in out
    forest = bspforest.load(model)
    assert forest.classes_.tolist() == ["a", "m", "n", "p", "z"] and same(forest, learn_in_python(values))
    assert forest.held_rows().y.tolist() == KINDS.tolist()
    give(monkeypatch, pipe)
    assert run("learn", "-", *command, "--resume")[:2] == (
        0,
        "Continuing after 120 rows\nNo new rows in standard input\n",
    )
    out = run("predict", model, pipe, "--proba")[1]
    assert out.startswith("prediction,p(a),p(m),p(n),p(p),p(z)\n")
    assert [line.split(",")[0] for line in out.split()[1:]] == forest.predict(X).tolist()
    assert run("forget", model, "--ids", 70)[0] == 0


@pytest.mark.parametrize("stop", [60, 80, 100, 120])
def test_resumed_and_appended_classes(stop, pipe, run, tmp_path, monkeypatch):
    """A run that was stopped goes on with the same codes of classes, as checksums of the rows show."""
    part, model = tmp_path / "part.csv", tmp_path / "m.bsp"
    command = ("--target", "kind", "--model", model, *CHUNKS)
    give(monkeypatch, write(part, ["a", "b", "kind"], kind_rows(0, stop)))
    assert run("learn", "-", *command)[0] == 0
    give(monkeypatch, pipe)
    code, _, err = run("learn", "-", *command, "--resume")
    assert code == 0 and err == "".join(
        line for line in NEW.splitlines(keepends=True) if int(line.split()[5][:-1]) > stop + 1
    )
    assert same(bspforest.load(model), learn_in_python("ridge"))
    more = write(tmp_path / "more.csv", ["a", "b", "kind"], [[0.5, 0.5, "b"], [0.1, 0.2, "b"], [0.3, 0.3, "zz"]])
    assert (
        run("learn", more, *command, "--append")[2]
        == "new class 'b' in line 2; 6 classes now\nnew class 'zz' in line 4; 7 classes now\n"
    )
    code, _, err = run("learn", more, *command, "--append")
    assert code == 2 and "has learned 3 rows of it already" in err
    assert bspforest.load(model).classes_.tolist() == ["a", "b", "m", "n", "p", "z", "zz"]


def test_classes_named_in_advance(pipe, run, tmp_path):
    """Others are malformed, also when the model is continued."""
    model = tmp_path / "m.bsp"
    command = ("--target", "kind", "--model", model, *CHUNKS)
    message = "a new class, 'z', in the target 'kind', which is not among --classes: a, m, p, q"
    code, _, err = run("learn", pipe, *command, "--classes", "q,p,m,a")
    assert code == 1 and f"line 72: {message} (--on-error skip" in err and "40 rows of" in err
    code, out, err = run("learn", pipe, *command, "--resume", "--on-error", "skip")
    assert code == 0 and "2 malformed rows skipped" in out and err.startswith(f"skipped: line 72: {message}\n")
    assert bspforest.load(model).classes_.tolist() == ["a", "m", "p", "q"]


@pytest.mark.parametrize("kinds", [("1", "2", "0"), ("true", "false"), ("1.0", "2.0", "0.5")])
def test_new_classes_of_any_kind(kinds, run, tmp_path):
    """Also if classes have been whole numbers so far, which are their own labels in Python."""
    rows = [[*x, kinds[0] if a else kinds[1]] for x, a in zip(X, X[:, 0] > X[:, 1], strict=True)]
    if len(kinds) == 2:
        rows[:100] = [[*row[:2], "true"] for row in rows[:100]]
    path, more, model = tmp_path / "d.csv", tmp_path / "more.csv", tmp_path / "m.bsp"
    options = ("--target", "y", "--model", model, *CHUNKS)
    assert run("learn", write(path, "aby", rows[:100]), *options, "--task", "classification")[0] == 0
    last = [*rows[100:], [0.5, 0.5, kinds[-1]]]
    code, _, err = run("learn", write(more, "aby", last), *options, "--append")
    assert (
        code == 0 and "new class" in err and ("in Python, the model uses their indices" in err) == (kinds[-1] == "0.5")
    )
    forest = bspforest.load(model)
    assert forest.n_samples_ == 121 and len(forest.classes_) == len(kinds)
    assert json.loads(run("info", model, "--json")[1])["classes"] == sorted(map(json.loads, kinds))
    assert set(run("predict", model, path)[1].split()[1:]) <= {kind.removesuffix(".0") for kind in kinds} | set(kinds)
    assert run("learn", more, *options, "--resume")[0] == 0


def test_failure_leaves_no_class_without_rows(run, tmp_path):
    """The chunk that brings a class is refused: the model has neither its rows nor the class, and can be resumed."""
    rows = [[k % 7, k % 3, "uv"[k % 2]] for k in range(60)]
    path, model = write(tmp_path / "d.csv", "aby", rows[:40]), tmp_path / "m.bsp"
    command = ("learn", path, "--target", "y", "--model", model, *CHUNKS)
    assert run(*command)[0] == 0
    write(path, "aby", [*rows, ["1.7e308", 0, "a"]])
    code, _, err = run(*command, "--resume")
    assert (
        code == 1 and "is 1.7e+308, but numbers" in err and f"60 rows of {path} are learned and saved in {model}" in err
    )
    assert bspforest.load(model).classes_.tolist() == ["u", "v"]
    write(path, "aby", [*rows, [1, 1, "a"]])
    assert run(*command, "--resume")[::2] == (0, "new class 'a' in line 62; 3 classes now\n")
    assert bspforest.load(model).classes_.tolist() == ["a", "u", "v"]


def test_many_new_classes(run, tmp_path):
    path, model = tmp_path / "d.csv", tmp_path / "m.bsp"
    command = ("learn", path, "--target", "y", "--model", model, *CHUNKS)
    write(path, "ay", [[k % 7, "u"] for k in range(40)])
    assert run(*command)[0] == 0
    write(path, "ay", [[k % 7, "u" if k < 40 else f"c{k}"] for k in range(60)])
    code, out, err = run(*command, "--resume")
    assert (
        code == 0
        and err.count("new class 'c") == 5
        and err.endswith("further new classes are learned without a notice\n")
    )
    assert "\n21 classes: c40, c41, " in out


def test_evaluation_with_new_classes(pipe, run, monkeypatch):
    """The row that brings a class is a miss. Scores are those of a loop in Python."""
    give(monkeypatch, pipe)
    baselines = "majority,no-change,mondrian,batch-rf-every-40,hoeffding"
    code, out, err = run("evaluate", "-", "--target", "kind", *CHUNKS, "--json", "-", "--against", baselines)
    assert (code, err) == (0, NEW)
    found = json.loads(out)
    assert found["classes"] == ["a", "m", "n", "p", "z"] and found["rows_scored"] == 100
    order = ["m", "p", "z", "a", "n"]  # codes in order of appearance
    forest, right = BSPForestClassifier(3, random_state=0), []
    codes = np.array([order.index(kind) for kind in KINDS])
    for start in range(0, 120, 20):
        rows, n = slice(start, start + 20), max(2, codes[: start + 20].max() + 1)
        if start:
            right += (forest.predict(X[rows]) == codes[rows]).tolist()
        if start and n > forest.n_classes_:
            forest._add_classes(np.arange(n), np.arange(forest.n_classes_), X[rows], codes[rows])
        else:
            forest.partial_fit(X[rows], codes[rows], classes=range(n))
    assert found["models"][0]["overall"]["accuracy"] == pytest.approx(np.mean(right))
    assert not right[70 - 20] and not any(right[85 - 20 : 90 - 20])
    accuracies = [model["overall"]["accuracy"] for model in found["models"]]
    assert all(0.2 < accuracy < 1 for accuracy in accuracies)
