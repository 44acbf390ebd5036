"""``bspforest learn``: the model, checkpoints, failures, --resume and --append."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from csv_files import write_rows
from hostile import same

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.cli.commands.learn import Learner
from bspforest.cli.errors import CommandError
from bspforest.cli.model.checkpoint import Checkpoints
from bspforest.files import Saver, load_with_extra, read_header


def write_lines(path, rows):
    path.write_text("\n".join(["a,b,y", *rows]) + "\n")
    return path


GOOD = [f"{k % 7},{k % 5},{k / 8}" for k in range(50)]
BAD = ["x,1,1.5", *GOOD]


@pytest.fixture
def model(run, tmp_path):
    """Return a model of 50 rows."""
    path = tmp_path / "m.bsp"
    data = write_lines(tmp_path / "good.csv", GOOD)
    assert run("learn", data, "--target", "y", "--model", path, "--trees", 2)[0] == 0
    return path


def test_model_is_that_of_partial_fit(numbers, run, tmp_path):
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
    assert same(bspforest.load(model), forest)


def test_compress(numbers, run, tmp_path, monkeypatch):
    """All files are compressed, checkpoints too. --resume keeps a file as it is, unless told otherwise."""
    path, model, plain = tmp_path / "growing.csv", tmp_path / "m.bsp", tmp_path / "plain.bsp"
    lines = Path(numbers[0]).read_text().splitlines(keepends=True)
    options = ("--target", "y", "--trees", 3, "--chunk-rows", 100)
    assert run("learn", numbers[0], *options, "--model", plain)[0] == 0
    written, replace = [], os.replace

    def note(source, target):
        written.append(read_header(source)["compressed"])
        replace(source, target)

    monkeypatch.setattr(os, "replace", note)
    monkeypatch.setattr(Saver, "busy", False)  # else a checkpoint that is slow to write is not followed by others
    command = ("learn", path, *options, "--model", model, "--checkpoint-rows", 100)
    for n, option, expected in (
        (300, "--compress", True),
        (400, None, True),
        (500, "--no-compress", False),
        (600, None, False),
    ):
        path.write_text("".join(lines[: n + 1]))
        written.clear()
        assert run(*command, *([option] if option else []), *(["--resume"] if n > 300 else []))[0] == 0
        assert set(written) == {expected} and read_header(model)["compressed"] == expected
    assert same(bspforest.load(model), bspforest.load(plain))
    assert run(*command, "--overwrite")[0] == 0
    assert not read_header(model)["compressed"]
    forest = bspforest.load(model)
    forest.save(model, extra=load_with_extra(model)[1], compress=True)
    assert run(*command, "--overwrite")[0] == 0
    assert not read_header(model)["compressed"]


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (
            (),
            {
                "prediction": "ridge",
                "bandwidth": "auto",
                "ridge": "auto",
                "feature_weights": "learned",
                "scaling": "auto",
            },
        ),
        (("--feature-weights", "none", "--scaling", "none"), {"feature_weights": None, "scaling": None}),
        (("--scaling", "quantile"), {"scaling": "quantile"}),
        (("--prediction", "mean", "--scaling", "minmax"), {"prediction": "mean", "scaling": "minmax"}),
        (("--bandwidth", 2, "--ridge", 0.5), {"bandwidth": 2.0, "ridge": 0.5}),
        (("--prediction", "mean", "--budget-scale", 2), {"prediction": "mean", "budget_scale": 2.0}),
    ],
)
def test_values_are_kept_and_resumed(options, parameters, numbers, run, tmp_path):
    """Half the file, then all of it with --resume, is the whole file at once."""
    path, X, y = numbers
    model, half = tmp_path / "m.bsp", tmp_path / "growing.csv"
    lines = Path(path).read_text().splitlines(keepends=True)
    half.write_text("".join(lines[:301]))
    command = ("learn", half, "--target", "y", "--model", model, "--trees", 3, "--chunk-rows", 100)
    assert run(*command, *options)[0] == 0
    half.write_text("".join(lines))
    assert run(*command, *options, "--resume")[0] == 0
    forest = BSPForestRegressor(3, random_state=0, **parameters)
    for start in range(0, 600, 100):
        forest.partial_fit(X[start : start + 100], y[start : start + 100])
    loaded = bspforest.load(model)
    assert same(loaded, forest) and loaded.get_params().items() >= parameters.items()
    other = "mean" if loaded.prediction == "ridge" else "ridge"
    code, _, err = run(*command, "--resume", "--prediction", other)
    assert code == 2 and f"was learned with --prediction {loaded.prediction}, which cannot be changed" in err
    used = loaded.scaling or "none"
    code, _, err = run(*command, "--resume", "--scaling", "auto" if used == "none" else "none")
    assert code == 2 and f"was learned with --scaling {used}, which cannot be changed" in err


def test_saving_during_a_revision_does_not_change_the_model(numbers, run, tmp_path):
    """Revisions could go on for several chunks of ten rows, but saving a model finishes them."""
    lines = Path(numbers[0]).read_text().splitlines(keepends=True)
    growing, models = tmp_path / "growing.csv", []
    for name, stops in (("once", [400]), ("often", range(10, 401, 30))):
        model = tmp_path / f"{name}.bsp"
        for n in stops:
            growing.write_text("".join(lines[: n + 1]))
            command = ("learn", growing, "--target", "y", "--model", model, "--trees", 3, "--chunk-rows", 10)
            assert run(*command, "--resume")[0] == 0
        models.append(bspforest.load(model))
    assert same(*models) and len(models[0].revisions_) > 3


def test_existing_models_are_not_overwritten(numbers, run, tmp_path):
    model = tmp_path / "m.bsp"
    model.write_bytes(b"precious")
    code, _, err = run("learn", numbers[0], "--target", "y", "--model", model)
    assert code == 2 and all(option in err for option in ("--resume", "--append", "--overwrite"))
    assert model.read_bytes() == b"precious"
    code, _, err = run("learn", numbers[0], "--target", "y", "--model", model, "--resume")
    assert code == 1 and "model file" in err
    assert run("learn", numbers[0], "--target", "y", "--model", model, "--trees", 2, "--overwrite")[0] == 0


def test_resume_learns_the_rows_added_to_a_file(numbers, run, tmp_path):
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
    assert same(bspforest.load(model), bspforest.load(whole))
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


def test_append_learns_each_file_once(numbers, run, tmp_path):
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
    assert same(bspforest.load(model), bspforest.load(whole))
    _, extra = load_with_extra(model)
    assert [source["rows"] for source in extra["command"]["sources"]] == [300, 300]


@pytest.mark.parametrize(
    ("labels", "task"),
    [("01", None), (("true", "false"), None), (("1.0", "2.0"), "classification"), (("0.5", "2.0"), "classification")],
)
def test_classes_of_any_kind_are_saved_and_loaded(labels, task, run, tmp_path):
    data = write_lines(tmp_path / "d.csv", [f"{k % 7},{k % 2},{labels[k % 2]}" for k in range(40)])
    command = ("learn", data, "--target", "y", "--model", tmp_path / "m.bsp", "--trees", 2)
    assert run(*command, *(("--task", task) if task else ()))[0] == 0
    assert run(*command, "--resume")[:2] == (0, "Continuing after 40 rows\nNo new rows in " + str(data) + "\n")
    code, out, _ = run("predict", tmp_path / "m.bsp", data)
    assert code == 0 and set(out.split()[1:]) <= {label.removesuffix(".0") for label in labels} | set(labels)


# ----------------------------------------------------------------------------------------------------------------------
# What a failed run has saved


@pytest.mark.parametrize("before", ["a model of the command", "a model from Python", "something else"])
def test_failure_before_the_first_save_leaves_the_old_file(before, model, run, tmp_path):
    if before == "a model from Python":
        X = np.arange(40.0).reshape(20, 2)
        BSPForestRegressor(2, random_state=0).fit(X, X[:, 0]).save(model)
    elif before == "something else":
        model.write_bytes(b"precious")
    content = model.read_bytes()
    data = write_lines(tmp_path / "bad.csv", BAD)
    code, _, err = run("learn", data, "--target", "y", "--model", model, "--overwrite", "--trees", 2, "--number", "a")
    assert code == 1
    assert err == (
        f"bspforest: Nothing was saved: {model} is unchanged.\n"
        f"bspforest: {data}, line 2: 'x' in column 'a' is not a number (--on-error skip leaves such rows out)\n"
    )
    assert model.read_bytes() == content


def test_failure_reports_the_rows_saved_of_this_data(model, run, tmp_path, monkeypatch):
    """Nothing of appended data that fails at once; of resumed data, the rows learned before."""
    monkeypatch.setattr("bspforest.cli.data.csv_source.BLOCK", 100)
    data = write_lines(tmp_path / "bad.csv", BAD)
    code, _, err = run("learn", data, "--target", "y", "--model", model, "--append")
    assert code == 1 and err.startswith(f"bspforest: Nothing was saved: {model} is unchanged.\n")
    data = write_lines(tmp_path / "good.csv", [*GOOD, *GOOD[:20], *BAD])
    code, _, err = run("learn", data, "--target", "y", "--model", model, "--resume")
    assert code == 1 and err.startswith(f"bspforest: 50 rows of {data} are learned and saved in {model}; --resume")
    new = tmp_path / "new.bsp"
    code, _, err = run("learn", write_lines(data, BAD), "--target", "y", "--model", new, "--number", "a")
    assert code == 1 and err.startswith("bspforest: Nothing was saved: there is no model file.\n") and not new.exists()


def test_failure_in_a_later_chunk_keeps_the_earlier_ones(run, tmp_path):
    """The forest refuses the second chunk; the first is in the file."""
    data = write_lines(tmp_path / "wide.csv", [*GOOD, "1.7e308,0,1"])
    options = ("--target", "y", "--trees", 2, "--chunk-rows", 50, "--model", tmp_path / "m.bsp")
    code, _, err = run("learn", data, *options)
    assert code == 1 and f"50 rows of {data} are learned and saved" in err and "'a' in row 0 is 1.7e+308" in err


def test_large_numbers_can_be_saved(run, tmp_path):
    data = write_lines(tmp_path / "d.csv", [f"{1e99 + k * 1e96},{'' if k % 9 else k},{k / 8}" for k in range(60)])
    model = tmp_path / "m.bsp"
    command = ("learn", data, "--target", "y", "--model", model, "--trees", 2, "--chunk-rows", 20)
    code, _, err = run(*command, "--checkpoint-rows", 20)
    assert (code, err) == (0, "")
    assert run("predict", model, data)[0] == 0


def test_a_model_that_cannot_be_saved(run, tmp_path, monkeypatch):
    monkeypatch.setattr("bspforest.file_header.MAX_HEADER", 1_000)
    data = write_lines(tmp_path / "d.csv", GOOD)
    code, _, err = run("learn", data, "--target", "y", "--model", tmp_path / "m.bsp", "--trees", 2)
    assert code == 1 and "Nothing was saved: there is no model file" in err
    assert re.search(r"the model could not be saved: .* at most 1,000 can be held", err)


def test_final_save_succeeds_after_a_failed_checkpoint(tmp_path):
    """The folder is missing while a checkpoint is written, and back at the end."""
    folder, away = tmp_path / "here", tmp_path / "away"
    folder.mkdir()
    X = np.random.default_rng(0).random((60, 2))
    forest = BSPForestRegressor(2, random_state=0).fit(X, X[:, 0])
    checkpoints = Checkpoints(folder / "m.bsp", 10, None, overwrite=False)
    checkpoints.finish(forest, {"n": 1})
    folder.rename(away)
    checkpoints.start(forest, {"n": 2})
    assert not checkpoints.settle()
    away.rename(folder)
    checkpoints.finish(forest, {"n": 3})
    assert load_with_extra(folder / "m.bsp")[1] == {"n": 3}


def test_failed_learning_keeps_the_last_checkpoint(run, tmp_path, monkeypatch):
    """When memory runs out, it is not known how much of a chunk was learned; resuming still learns each row once."""
    data, model, whole = write_lines(tmp_path / "d.csv", GOOD), tmp_path / "m.bsp", tmp_path / "whole.bsp"
    options = ("--target", "y", "--trees", 2, "--chunk-rows", 5, "--checkpoint-rows", 10)
    assert run("learn", data, "--model", whole, *options)[0] == 0
    partial_fit = BSPForestRegressor.partial_fit

    def fail(self, X, y, keys):
        partial_fit(self, X, y)
        if self.n_samples_seen_ == 35:
            raise MemoryError
        return self

    with monkeypatch.context() as patch:
        patch.setattr(BSPForestRegressor, "partial_fit", fail)
        code, _, err = run("learn", data, "--model", model, *options)
    assert code == 1 and "out of memory" in err
    learned = bspforest.load(model).n_samples_
    assert (
        learned in (10, 15, 20, 25, 30)
        and f"{learned} rows of {data} are learned and saved in {model}; --resume" in err
    )
    assert run("learn", data, "--model", model, *options, "--resume")[0] == 0
    assert same(bspforest.load(model), bspforest.load(whole))


def while_it_learns(monkeypatch, do):
    """Call a function, as another program would act, after the second chunk is learned."""
    learn = Learner.learn

    def learn_and_do(self):
        n = learn(self)
        if self.n_learned == 10 and n:
            do()
        return n

    monkeypatch.setattr(Learner, "learn", learn_and_do)


def test_model_created_meanwhile_is_not_overwritten(run, tmp_path, monkeypatch):
    data, model = write_lines(tmp_path / "d.csv", GOOD), tmp_path / "m.bsp"
    while_it_learns(monkeypatch, lambda: model.write_bytes(b"precious"))
    code, _, err = run("learn", data, "--target", "y", "--model", model, "--trees", 2, "--chunk-rows", 5)
    assert code == 1 and "file exists, and is not to be overwritten" in err
    assert model.read_bytes() == b"precious"


def test_rows_forgotten_meanwhile_stay_forgotten(run, tmp_path, monkeypatch):
    """The next checkpoint of ``learn`` would undo what another process forgets without taking the lock."""
    data, model = write_lines(tmp_path / "d.csv", GOOD), tmp_path / "m.bsp"
    options = ("--target", "y", "--model", model, "--chunk-rows", 5)
    assert run("learn", data, *options, "--trees", 2)[0] == 0
    more = write_lines(tmp_path / "more.csv", GOOD[:40])

    def forget():
        forest, extra = load_with_extra(model)
        forest.forget([0, 1]).save(tmp_path / "other.bsp", extra=extra)
        (tmp_path / "other.bsp").replace(model)

    with monkeypatch.context() as patch:
        while_it_learns(patch, forget)
        code, _, err = run("learn", more, *options, "--append")
    assert code == 1 and err == (
        f"bspforest: {model} was changed by another program meanwhile, and is left unchanged: the rows learned since the last "
        "save are not in it\n"
    )
    assert bspforest.load(model).n_samples_ == 48
    assert run("learn", more, *options, "--append")[0] == 0
    assert bspforest.load(model).n_samples_ == 88


def test_file_written_by_another_program_is_not_replaced(tmp_path):
    """It was written after a checkpoint, and before the next chunk, which may take long to arrive from a pipe."""
    path = tmp_path / "m.bsp"
    forest = BSPForestRegressor(2, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    checkpoints = Checkpoints(path, 1, None, overwrite=False)
    checkpoints.start(forest, {"n": 1})
    while checkpoints._saver.busy:
        time.sleep(0.01)
    forest.save(path, extra={"n": 2})
    assert checkpoints.due(1)
    for save in (checkpoints.start, checkpoints.finish):
        with pytest.raises(CommandError, match="was changed by another program"):
            save(forest, {"n": 3})
    assert load_with_extra(path)[1] == {"n": 2}


def test_append_new_file_with_an_old_name(run, tmp_path, monkeypatch):
    """As in a daily job. The same rows are refused under any path."""
    data, model = write_lines(tmp_path / "today.csv", GOOD), tmp_path / "m.bsp"
    options = ("--target", "y", "--model", model)
    assert run("learn", data, *options, "--trees", 2)[0] == 0
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    code, _, err = run("learn", "../today.csv", *options, "--append")
    assert code == 2 and "has learned 50 rows of it already; --resume continues after them" in err
    write_lines(data, GOOD[::-1])
    code, _, err = run("learn", data, *options, "--resume")
    assert code == 1 and "--append adds other data" in err
    assert run("learn", "../today.csv", *options, "--append")[0] == 0
    assert bspforest.load(model).n_samples_ == 100
    write_lines(tmp_path / "below" / "today.csv", GOOD[:20])
    assert run("learn", "today.csv", *options, "--append")[0] == 0
    assert bspforest.load(model).n_samples_ == 120


def test_incomplete_last_line(run, tmp_path):
    """The file must not be taken for another one, whose rows would all be learned again."""
    data, model = tmp_path / "d.csv", tmp_path / "m.bsp"
    data.write_text("\n".join(["a,b,y", *GOOD])[:-1])
    options = ("--target", "y", "--model", model, "--chunk-rows", 20)
    assert run("learn", data, *options, "--trees", 2)[0] == 0
    write_lines(data, GOOD)
    code, _, err = run("learn", data, *options, "--resume")
    assert (
        code == 1
        and "its first 20 rows are; if the file was changed since, or its last line was incomplete then" in err
    )
    code, _, err = run("learn", data, *options, "--append")
    assert code == 2 and "has learned 50 rows of it already" in err


# ----------------------------------------------------------------------------------------------------------------------
# Classes that are not whole numbers


def test_classes_with_fractions(run, tmp_path):
    """Predictions and pictures show the numbers; in Python, the labels of the forest are indices."""
    X = np.random.default_rng(0).random((300, 2))
    index = (X[:, 0] * 3).astype(int)
    rows = [f"{a!r},{b!r},{[0.5, 1.0, 10.5][k]}" for (a, b), k in zip(X.tolist(), index, strict=True)]
    data, model, grown = write_lines(tmp_path / "d.csv", rows[:200]), tmp_path / "m.bsp", tmp_path / "p.parquet"
    command = ("--target", "y", "--task", "classification", "--trees", 5, "--chunk-rows", 100)
    assert run("evaluate", data, *command)[0] == 0
    code, out, _ = run("learn", data, *command, "--model", model)
    assert code == 0 and "3 classes: 0.5, 1.0, 10.5\nClasses are not whole numbers: in Python" in out
    write_lines(data, rows)
    assert run("learn", data, *command, "--model", model, "--resume")[0] == 0
    forest = BSPForestClassifier(5, random_state=0)
    for start in (0, 100, 200):
        forest.partial_fit(X[start : start + 100], index[start : start + 100], classes=[0, 1, 2])
    np.testing.assert_array_equal(bspforest.load(model).predict_proba(X), forest.predict_proba(X))
    assert json.loads(run("info", model, "--json")[1])["classes"] == [0.5, 1.0, 10.5]
    expected = np.array([0.5, 1.0, 10.5])[forest.predict(X)]
    for options in ((), ("--proba",)):
        assert run("predict", model, data, *options, "-o", grown, "--overwrite")[0] == 0
        table = pq.read_table(grown)
        np.testing.assert_array_equal(table["prediction"].to_numpy(), expected)
        assert table.column_names == ["prediction", *(["p(0.5)", "p(1.0)", "p(10.5)"] if options else [])]
    assert run("plot", model, "--dims", "a", "b", "-o", tmp_path / "p.svg")[0] == 0
    assert "<!-- 10.5 -->" in (tmp_path / "p.svg").read_text()


# ----------------------------------------------------------------------------------------------------------------------
# Options of a continued run


def test_resume_refuses_other_kinds_of_columns(model, run, tmp_path):
    command = ("learn", tmp_path / "good.csv", "--target", "y", "--model", model, "--resume")
    code, _, err = run(*command, "--text", "a")
    assert code == 2 and f"--text a: {model} was learned with 'a' as number, which cannot be changed" in err
    for option in ("--text", "--number"):
        code, _, err = run(*command, option, "nosuch")
        assert code == 2 and f"{model} has no column 'nosuch'. Its columns: a, b, y" in err
    assert run(*command, "--number", "a,b,y")[0] == 0


def test_continued_models_know_their_columns(run, tmp_path):
    """Fails if the target, the key, dropped columns or markers of missing values have to be given again."""
    rows = [[f"k{k}", "-9" if k % 5 == 0 else k / 7, k % 3, k / 2] for k in range(60)]
    for name, part in (("a", rows[:30]), ("b", rows[30:])):
        write_rows(tmp_path / f"{name}.csv", ["id", "a", "extra", "y"], part)
    models = [tmp_path / "told.bsp", tmp_path / "untold.bsp"]
    told = ("--target", "y", "--key", "id", "--drop", "extra", "--na-values", "-9")
    for model, options in zip(models, (told, ()), strict=True):
        assert run("learn", tmp_path / "a.csv", "--model", model, "--trees", 2, *told)[0] == 0
        code, out, err = run("learn", tmp_path / "b.csv", "--model", model, "--append", *options)
        assert (code, err) == (0, "") and "30 rows learned" in out
        with open(tmp_path / "b.csv", "a") as file:
            file.write("k60,1,1,1\n")
        code, out, err = run("learn", tmp_path / "b.csv", "--model", model, "--resume", *options)
        assert (code, err) == (0, "") and "1 row learned" in out
        write_rows(tmp_path / "b.csv", ["id", "a", "extra", "y"], rows[30:])
    assert same(*map(bspforest.load, models))
    code, _, err = run("learn", tmp_path / "b.csv", "--model", models[0], "--append", "--target", "a")
    assert code == 2 and "--target a: " in err and "was learned with --target y, which cannot be changed" in err


def test_new_models_need_a_target(numbers, run, tmp_path):
    model = tmp_path / "m.bsp"
    message = "bspforest: a new model needs --target COL, the column to predict"
    assert run("learn", numbers[0], "--model", model) == (2, "", f"{message}\n")
    assert run("learn", numbers[0], "--model", model, "--resume") == (
        2,
        "",
        f"{message} ({model} does not exist yet)\n",
    )
    assert run("learn", numbers[0], "--model", model, "--target", "y", "--trees", 2)[0] == 0
    assert run("learn", numbers[0], "--model", model, "--overwrite") == (2, "", f"{message}\n")
    assert bspforest.load(model).n_samples_ == 600


def test_resume_with_the_same_options(run, tmp_path):
    data = write_lines(tmp_path / "d.csv", [f"{k % 7},{k % 5},{k % 3}" for k in range(50)])
    command = ("learn", data, "--target", "y", "--model", tmp_path / "m.bsp", "--trees", 2, "--resume")
    options = ("--text", "a,y", "--drop", "b", "--number", "b")
    assert run(*command, *options)[0] == 0
    code, out, _ = run(*command, *options)
    assert code == 0 and "No new rows" in out
    code, _, err = run(*command, "--number", "a")
    assert code == 2 and "with 'a' as text" in err


# ----------------------------------------------------------------------------------------------------------------------
# Counts in messages


def test_counts_of_one(run, tmp_path):
    """One row, class, tree, feature and malformed row are not called rows, classes, and so on."""
    data, model = tmp_path / "d.csv", tmp_path / "m.bsp"
    data.write_text("a,y\n1,u\n1,2,3\n")
    command = ("learn", data, "--target", "y", "--model", model, "--trees", 1, "--on-error", "skip")
    code, out, _ = run(*command)
    assert code == 0 and "\n1 class: u\n1 row learned in " in out
    assert ", 1 malformed row skipped; 1 row held by 1 tree\n" in out
    assert "Continuing after 1 row\nNo new rows in" in run(*command, "--resume")[1]
    code, _, err = run(*command, "--append")
    assert code == 2 and "the model has learned 1 row of it already; --resume continues after it" in err
    assert ": 1 row, 1 skipped\n" in run("info", model)[1]
    assert run("forget", model, "--ids", 0)[1].startswith("1 row forgotten, 0 held")
    data.write_text("a,y\n2,u\n")
    code, _, err = run(*command, "--resume")
    assert code == 1 and f"the first row of {data} is not the one that was learned" in err
    data.write_text("y\n1.5\n1,5\n")
    code, _, err = run("learn", data, "--target", "y", "--model", model, "--overwrite")
    assert code == 1 and "no columns are left" in err
    data.write_text("a,y\n1,u\n2,u\n2,v,3\n")
    out = run("evaluate", data, "--target", "y", "--chunk-rows", 1, "--trees", 1, "--on-error", "skip")[1]
    assert "2 rows, 1 column; 1 predicted and then learned in chunks of 1, 1 malformed row skipped\n" in out
