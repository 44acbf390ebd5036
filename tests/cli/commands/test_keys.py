"""Keys, new categories and first gaps in the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from csv_files import write_rows

import bspforest
from bspforest.estimators.encoding import EncodedRows

NAMES = ["who", "size", "town", "y"]


def make_rows(n, towns=("Bath", "York"), gaps=False):
    rng = np.random.default_rng(n)
    rows = []
    for k in range(n):
        size = "" if gaps and k % 4 == 0 else round(float(rng.random()), 3)
        rows.append([f"user-{k % 7}", size, towns[k % len(towns)], round(float(rng.random()), 3)])
    return rows


@pytest.fixture
def learned(run, tmp_path):
    data, model = write_rows(tmp_path / "d.csv", NAMES, make_rows(70)), tmp_path / "m.bsp"
    code, out, _ = run("learn", data, "--target", "y", "--key", "who", "--model", model, "--trees", 3)
    assert code == 0 and "70 rows learned" in out
    return data, model


def write_keys(path, *keys):
    path.write_text("\n".join(keys) + "\n\n")
    return path


def test_forget_by_key(learned, run, tmp_path):
    data, model = learned
    assert b"user-3" in model.read_bytes()
    assert bspforest.load(model).feature_names_in_.tolist() == ["size", "town"]  # the key is not learned
    assert json.loads(run("info", model, "--json")[1])["key"] == "who"
    code, out, _ = run("forget", model, "--keys", write_keys(tmp_path / "k.txt", "user-3", "user-5", "user-3"))
    assert code == 0 and out == f"20 rows forgotten, 50 held: {model}\n"
    assert b"user-3" not in model.read_bytes() and b"user-4" in model.read_bytes()
    before = model.read_bytes()
    code, _, err = run("forget", model, "--keys", write_keys(tmp_path / "k.txt", "user-3", "user-4", "eve"))
    assert code == 1 and "no row that is held has the keys 'user-3', 'eve'" in err
    assert model.read_bytes() == before
    code, _, err = run("forget", model, "--keys", write_keys(tmp_path / "k.txt", ""))
    assert code == 2 and "no keys are given" in err
    # The same data is recognised, and goes on with its keys.
    more = write_rows(data, NAMES, [*make_rows(70), ["eve", 0.5, "Bath", 1.0]])
    assert run("learn", more, "--target", "y", "--model", model, "--resume")[0] == 0
    assert bspforest.load(model).held_keys()[-1] == "eve"


def test_forget_single_keys(learned, run, tmp_path):
    model = learned[1]
    code, out, _ = run("forget", model, "--key", "user-3", "--key", "user-5")
    assert (code, out) == (0, f"20 rows forgotten, 50 held: {model}\n")
    code, _, err = run("forget", model, "--key", "user-3")
    assert code == 1 and "user-3" in err
    missing = tmp_path / "ord 11"
    code, _, err = run("forget", model, "--keys", missing)
    assert code == 2 and err == (
        f"bspforest: there is no file {missing}: --keys names a file with one key per line; for one key: --key '{missing}'\n"
    )
    code, _, err = run("forget", model, "--key", " ")
    assert code == 2 and "--key: the key is empty" in err
    code, _, err = run("forget", model, "--key", "user-1", "--ids", "3")
    assert code == 2 and "not allowed with argument" in err


def test_models_without_keys(run, tmp_path):
    data, model = write_rows(tmp_path / "d.csv", NAMES, make_rows(20)), tmp_path / "m.bsp"
    assert run("learn", data, "--target", "y", "--drop", "who", "--model", model, "--trees", 2)[0] == 0
    code, _, err = run("forget", model, "--keys", write_keys(tmp_path / "k.txt", "user-3"))
    assert code == 2 and f"--keys: {model} was learned without --key, so its rows have no keys; see --ids" in err
    code, _, err = run("forget", model, "--key", "user-3")
    assert code == 2 and f"bspforest: --key: {model} was learned without --key" in err
    code, _, err = run("learn", data, "--target", "y", "--model", model, "--resume", "--key", "who")
    assert code == 2 and "--key who" in err and "cannot be changed" in err
    code, _, err = run("learn", data, "--target", "y", "--key", "y", "--model", tmp_path / "n.bsp")
    assert code == 2 and "--key y: the target cannot be the key" in err
    code, _, err = run("learn", data, "--target", "y", "--key", "whom", "--model", tmp_path / "n.bsp")
    assert code == 2 and "has no column 'whom'. Did you mean 'who'?" in err


def test_hashed_keys(run, tmp_path):
    data, model = write_rows(tmp_path / "d.csv", NAMES, make_rows(20)), tmp_path / "m.bsp"
    command = ("learn", data, "--target", "y", "--key", "who", "--hash-keys", "--model", model, "--trees", 2)
    assert run(*command)[0] == 0
    assert b"user-" not in model.read_bytes()
    code, out, _ = run("forget", model, "--keys", write_keys(tmp_path / "k.txt", "user-3"))
    assert code == 0 and "3 rows forgotten" in out


def test_rows_without_a_key(run, tmp_path):
    rows = make_rows(6)
    rows[2][0] = ""
    data, model = write_rows(tmp_path / "d.csv", NAMES, rows), tmp_path / "m.bsp"
    assert run("learn", data, "--target", "y", "--key", "who", "--model", model, "--trees", 2)[0] == 0
    assert bspforest.load(model).held_keys() == ["user-0", "user-1", None, "user-3", "user-4", "user-5"]


def test_new_categories_and_first_gaps_come_at_any_time(learned, run, tmp_path):
    """In data that is appended, chunks of one row; and forgetting takes them back."""
    _, model = learned
    more = write_rows(tmp_path / "more.csv", NAMES, make_rows(20, ("York", "Hull", ""), gaps=True))
    code, out, _ = run("learn", more, "--target", "y", "--model", model, "--append")
    assert code == 0 and "20 rows learned" in out
    features = json.loads(run("info", model, "--json")[1])["features"]
    assert features == ["size", "size=(missing)", "town=Bath", "town=York", "town=Hull", "town=(missing)"]
    assert run("forget", model, "--ids", "70-89")[0] == 0
    assert json.loads(run("info", model, "--json")[1])["features"] == ["size", "town=Bath", "town=York"]
    assert b"Hull" not in model.read_bytes()
    asked = write_rows(tmp_path / "asked.csv", NAMES[:3], [["x", "", "Rome"], ["y", 0.5, ""]])
    code, out, _ = run("predict", model, asked)
    assert code == 0 and len(out.splitlines()) == 3


def test_a_resumed_run_gives_the_same_forest(run, tmp_path):
    """Bit for bit, with new categories after the break."""
    rows = [*make_rows(70), *make_rows(30, ("Hull", "Leeds"), gaps=True)]
    data, whole, parts = tmp_path / "all.csv", tmp_path / "whole.bsp", tmp_path / "parts.bsp"
    options = ("--target", "y", "--key", "who", "--trees", 3, "--chunk-rows", 10, "--model")
    assert run("learn", write_rows(data, NAMES, rows), *options, whole)[0] == 0
    assert run("learn", write_rows(data, NAMES, rows[:60]), *options, parts)[0] == 0
    assert run("learn", write_rows(data, NAMES, rows), *options, parts, "--resume")[0] == 0
    one, other = bspforest.load(whole), bspforest.load(parts)
    np.testing.assert_array_equal(one.held_rows().X, other.held_rows().X)
    asked = EncodedRows(one.held_rows().X)
    np.testing.assert_array_equal(one.predict(asked), other.predict(asked))


@pytest.mark.parametrize("new", ["aardvark", "middle", "zebra"])
def test_new_category_gap_and_class_one_row_at_a_time(new, run, tmp_path):
    """After a solve, which forgetting a row brings, answers are those of the same rows in one batch, on the same trees."""
    rng = np.random.default_rng(0)
    rows = []
    for k in range(80):
        late = k >= 60
        size = "" if late and k % 3 == 0 else round(float(rng.random()), 3)
        town = "Hull" if late and k % 4 == 0 else ("Bath", "York")[k % 2]
        kind = new if late and k % 5 == 0 else ("cat", "newt")[int(rng.random() < 0.5)]
        rows.append([size, town, kind])
    names = ["size", "town", "kind"]
    whole, first = write_rows(tmp_path / "whole.csv", names, rows), write_rows(tmp_path / "first.csv", names, rows[:60])
    last, asked = write_rows(tmp_path / "last.csv", names, rows[60:]), tmp_path / "asked.csv"
    write_rows(asked, names[:2], [[0.5, "Bath"], ["", "Hull"], [0.1, "Rome"]])
    batch, online = tmp_path / "batch.bsp", tmp_path / "online.bsp"
    options = ("--target", "kind", "--trees", 5)
    assert run("learn", whole, *options, "--model", batch, "--chunk-rows", 80)[0] == 0
    assert run("learn", first, *options, "--model", online, "--chunk-rows", 1)[0] == 0
    code, _, err = run("learn", last, *options, "--model", online, "--append")
    assert code == 0 and f"new class {new!r} in line 2; 3 classes now" in err
    answers = []
    for model in (batch, online):
        assert run("forget", model, "--ids", 3)[0] == 0
        answers.append(run("predict", model, asked, "--proba")[1])
    assert answers[0] == answers[1] and f"p({new})" in answers[0]
