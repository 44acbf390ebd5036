"""Messages and exit codes for wrong data, files and commands."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from csv_files import write_rows

import bspforest
from bspforest import BSPForestRegressor
from bspforest.files import load_with_extra

MALFORMED = (
    "a,b,y\n"
    + "".join(f"{k % 7},{k % 3},{k % 2}\n" for k in range(1200))
    + "1,x,0\n1,2\n1,2,\n1,2,7.5\n1,inf,1\n3,2,1\n"
)


def test_malformed_rows(run, tmp_path, monkeypatch):
    monkeypatch.setattr("bspforest.cli.data.csv_source.BLOCK", 1000)
    path, model = tmp_path / "m.csv", tmp_path / "m.bsp"
    path.write_text(MALFORMED)
    command = ("learn", path, "--target", "y", "--model", model, "--trees", 3, "--chunk-rows", 500)
    code, _, err = run(*command)
    assert code == 1
    assert f"{path}, line 1202: 'x' in column 'b' is not a number (--on-error skip" in err
    assert f"1,000 rows of {path} are learned and saved in {model}; --resume continues after them" in err
    code, out, err = run(*command, "--resume", "--on-error", "skip")
    assert code == 0 and "Continuing after 1,000 rows" in out and "5 malformed rows skipped" in out
    for line in (
        "1202: 'x'",
        "1203: 2 fields",
        "1204: no value in the target",
        "1205: '7.5' in column 'y'",
        "1206: an infinite",
    ):
        assert f"skipped: line {line}" in err
    forest, extra = load_with_extra(model)
    assert forest.n_samples_ == 1201
    assert extra["command"]["sources"][0]["skipped"] == 5
    code, _, err = run("evaluate", path, "--target", "y", "--trees", 2)
    assert code == 1 and "line 1202" in err
    code, out, _ = run("evaluate", path, "--target", "y", "--trees", 2, "--on-error", "skip")
    assert code == 0 and "5 malformed rows skipped" in out


def test_missing_and_new_columns(numbers, run, tmp_path):
    path, X, y = numbers
    model = tmp_path / "m.bsp"
    run("learn", path, "--target", "y", "--model", model, "--trees", 2)
    less = write_rows(tmp_path / "less.csv", ["a", "b", "y"], np.column_stack([X[:, :2], y]).tolist())
    more = write_rows(tmp_path / "more.csv", ["a", "b", "c", "d", "y"], np.column_stack([X, X[:, 0], y]).tolist())
    for command in (("learn", less, "--target", "y", "--model", model, "--append"), ("predict", model, less)):
        code, _, err = run(*command)
        assert code == 1 and "lacks the column 'c'" in err
    for command in (("learn", more, "--target", "y", "--model", model, "--append"), ("predict", model, more)):
        code, _, err = run(*command)
        assert code == 1 and "a new column, 'd'" in err
    assert run("predict", model, more, "--drop", "d")[0] == 0


def test_wrong_commands(numbers, run, tmp_path):
    path = numbers[0]
    for arguments, code, message in (
        ((), 2, "required: COMMAND"),
        (("learn", path), 2, "--target"),
        (("evaluate", path, "--target", "Y"), 2, "Did you mean 'y'?"),
        (("evaluate", path, "--target", "y", "--trees", "0"), 2, "whole number of at least 1"),
        (("evaluate", path, "--target", "y", "--jobs", "0"), 2, "--jobs must be from 1 to 8192"),
        (
            ("learn", path, "--target", "y", "--model", tmp_path / "m.bsp", "--jobs", "10000"),
            2,
            "--jobs must be from 1",
        ),
        (("evaluate", path, "--target", "y", "--prediction", "median"), 2, "invalid choice: 'median'"),
        (("evaluate", path, "--target", "y", "--ridge", "0"), 2, "invalid number above 0, or \"auto\" value: '0'"),
        (("demo", "--bandwidth", "wide"), 2, 'invalid number above 0, or "auto" value'),
        (("demo", "--feature-weights", "given"), 2, "argument --feature-weights: invalid choice: 'given' (choose from"),
        (("evaluate", path, "--target", "y", "--scaling", "ranks"), 2, "argument --scaling: invalid choice: 'ranks'"),
        (
            ("evaluate", path, "--target", "y", "--prediction", "mean", "--feature-weights", "none"),
            2,
            "--feature-weights has no effect with --prediction mean",
        ),
        (
            ("evaluate", path, "--target", "y", "--prediction", "mean", "--ridge", "1"),
            2,
            "--ridge has no effect with --prediction mean",
        ),
        (("evaluate", path, "--target", "y", "--budget-scale", "2"), 2, "--budget-scale needs --prediction mean"),
        (("evaluate", path, "--target", "y", "--against", "magic"), 2, "--against magic: choose from mondrian"),
        (("evaluate", path, "--target", "y", "--classes", "a,b"), 2, "--classes is for classification"),
        (("evaluate", path, "--target", "y", "--drop", "y"), 2, "cannot be dropped"),
        (("evaluate", path, "--target", "y", "--chunk-rows", "1000"), 1, "smaller --chunk-rows"),
        (("evaluate", tmp_path / "no.csv", "--target", "y"), 1, "No such file"),
        (("learn", path, "--target", "y", "--model", tmp_path / "no" / "m.bsp"), 2, "there is no folder"),
        (("learn", path, "--target", "y", "--model", tmp_path), 2, "is a folder"),
        (("predict", path, path), 1, "not a bspforest model file"),
        (("info", tmp_path / "no.bsp"), 1, "No such file"),
    ):
        found, _, err = run(*arguments)
        assert (found, message in err) == (code, True), (arguments, found, err)


def test_model_saved_from_python(numbers, run, tmp_path):
    _, X, y = numbers
    BSPForestRegressor(2, random_state=0).fit(X, y).save(tmp_path / "m.bsp")
    assert run("info", tmp_path / "m.bsp")[0] == 0
    code, _, err = run("predict", tmp_path / "m.bsp", numbers[0])
    assert code == 1 and "saved from Python" in err


@pytest.mark.parametrize("command", ["", "demo", "evaluate", "learn", "predict", "forget", "info", "plot", "compile"])
def test_help(command, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = run(*([command] if command else []), "--help")
    assert code == 0 and out.startswith("usage: bspforest")
    assert command == "" or f"\nexamples:\n  bspforest {command}" in out
    assert max(map(len, out.splitlines())) <= 120


def test_without_pyarrow(numbers):
    """In a process of its own: modules that are imported anew would be others than those of other tests."""
    program = (
        "import sys; sys.modules['pyarrow'] = None; from bspforest.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "evaluate", str(numbers[0]), "--target", "y"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install 'bspforest[cli]'" in done.stderr


def test_messy_file_end_to_end(run, tmp_path):
    """Quotes, a byte order mark, CRLF, blank lines, a quoted line end, missing values, text, booleans, two malformed rows."""
    rng = np.random.default_rng(0)
    X, colours = rng.random((900, 2)).round(6), ["red", "green, dark", 'b"lue', "line\r\nend"]
    rows = [b'\xef\xbb\xbf"a", b ,colour,flag,y\r\n\r\n']
    expected = []
    for k, (a, b) in enumerate(X.tolist()):
        colour, gap = colours[k % 4], k % 10 == 9
        quoted = '"' + colour.replace('"', '""') + '"' if k % 4 else colour
        y = a + b + k % 4
        rows.append(f'"{a!r}",{"" if gap else repr(b)},{quoted},{"true" if k % 2 else "FALSE"},{y!r}\r\n'.encode())
        rows.append(b"\r\n" if k % 50 == 0 else b"")
        expected.append([a, np.nan if gap else b, gap, *(colour == c for c in colours), k % 2, y])
    path, model = tmp_path / "messy.csv", tmp_path / "m.bsp"
    path.write_bytes(b"".join(rows) + b"1,2,red\r\n" + b'0.5,"0.5,red",true,1.0\r\n')
    lines = 2 + 900 + 18 + 225
    command = ("learn", path, "--target", "y", "--model", model, "--trees", 4)
    code, _, err = run(*command)
    assert code == 1 and f"{path}, line {lines + 1}: 3 fields where 5 are expected: '1,2,red'" in err
    code, out, err = run(*command, "--on-error", "skip", "--resume")
    assert code == 0 and "900 rows learned" in out and "2 malformed rows skipped" in out
    assert f"line {lines + 2}: 4 fields where 5 are expected" in err
    table = np.array(expected, dtype=float)
    seen = np.where(np.isnan(table[:, 1]), 0, table[:, 1]).cumsum() / (~np.isnan(table[:, 1])).cumsum()
    table[:, 1] = np.where(np.isnan(table[:, 1]), seen, table[:, 1])
    np.testing.assert_allclose(bspforest.load(model).held_rows().X, table[:, :-1], rtol=1e-12)
    np.testing.assert_array_equal(bspforest.load(model).held_rows().y, table[:, -1])
    found = json.loads(run("info", model, "--json")[1])
    assert found["features"] == ["a", "b", "b=(missing)", *(f"colour={c}" for c in colours), "flag"]


def test_rows_without_a_target_are_skipped_alone(run, tmp_path):
    """Fails if other malformed rows are skipped as well, or if the hint does not name the option."""
    rows = [[k % 7, k % 3] for k in range(40)] + [[5, ""], [6, 1]]
    path = write_rows(tmp_path / "d.csv", ["a", "y"], rows)
    command = ("evaluate", path, "--target", "y", "--trees", 2, "--chunk-rows", 10)
    code, _, err = run(*command)
    assert code == 1 and err.endswith(
        "line 42: no value in the target 'y' (--on-error skip-unlabelled leaves out rows without a target, "
        "--on-error skip every malformed row)\n"
    )
    code, out, err = run(*command, "--on-error", "skip-unlabelled")
    assert code == 0 and "41 rows, 1 column" in out and "1 malformed row skipped" in out
    assert err == "skipped: line 42: no value in the target 'y'\n"
    for row in (["x", 1], [1], ["inf", ""]):
        write_rows(tmp_path / "d.csv", ["a", "y"], [*rows, row])
        code, _, err = run(*command, "--on-error", "skip-unlabelled", "--number", "a")
        assert code == 1 and "line 44: " in err and err.endswith("(--on-error skip leaves such rows out)\n")


@pytest.mark.parametrize(
    ("word", "share", "note"),
    [
        (
            "unknown",
            1,
            "numbers, so 'unknown' is a mistake (--na-values unknown if it marks a gap, --text a if the column is text)",
        ),
        (
            "not known",
            9,
            "text, because 'not known' is not a number (--na-values 'not known' if it marks a gap, --number a if it is a mistake)",
        ),
        ("none, yet", 1, "numbers, so 'none, yet' is a mistake (--text a if the column is text)"),
    ],
)
def test_a_word_among_numbers_may_mark_a_gap(word, share, note, run, tmp_path):
    rows = [[word if k < share else k / 7, k / 3] for k in range(60)]
    path = write_rows(tmp_path / "d.csv", ["a", "y"], rows)
    _, out, _ = run("evaluate", path, "--target", "y", "--trees", 2, "--chunk-rows", 10)
    assert f"Column 'a': {note}\n" in out


def test_numbers_are_in_ascii(run):
    for command in (("explore", "--port", "٨٠٨٠"), ("evaluate", "d.csv", "--target", "y", "--trees", "١٠")):
        code, _, err = run(*command)
        assert code == 2 and "invalid " in err


def test_an_interrupt_while_arguments_are_parsed(run, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bspforest.cli.main.make_parser", interrupt)
    assert run("info", "m.bsp") == (130, "", "bspforest: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("d.csv --drop a b", "b (several columns are given as --drop a,b)"),
        ("d.csv --drop=a, b c --trees 2", "b c (several columns are given as --drop a,b,c)"),
        ("d.csv --classes u v", "v (several values are given as --classes u,v)"),
        ("--drop a b d.csv", "d.csv (several columns are given as --drop A,B,...)"),
        ("d.csv --trees 2 b", "b"),
        ("d.csv --tress 2", "--tress 2"),
        ("d.csv e.csv", "e.csv"),
    ],
)
def test_arguments_left_over(arguments, message, run):
    code, _, err = run("evaluate", "--target", "y", *arguments.split())
    assert code == 2 and err.startswith("usage: bspforest evaluate DATA --target COL [options]\n")
    assert err.endswith(f"bspforest evaluate: error: unrecognized arguments: {message}\n")


# ----------------------------------------------------------------------------------------------------------------------
# Regressions


def test_missing_target_values_are_no_class(run, tmp_path):
    path = write_rows(tmp_path / "d.csv", ["a", "y"], [[1, "x"], [2, ""], [3, "z"]])
    code, _, err = run("learn", path, "--target", "y", "--model", tmp_path / "m.bsp")
    assert code == 1 and "line 3: no value in the target 'y'" in err
    code, out, _ = run("learn", path, "--target", "y", "--model", tmp_path / "m.bsp", "--on-error", "skip")
    assert code == 0 and "2 classes: x, z" in out
    assert bspforest.load(tmp_path / "m.bsp").n_samples_ == 2


def test_two_features_of_one_name(run, tmp_path):
    """They are told apart by their places."""
    path = write_rows(tmp_path / "d.csv", ["x", "x=u", "y"], [["u", 1, 0.5], ["v", 2, 0.25], ["u", 3, 0.125]])
    assert run("learn", path, "--target", "y", "--model", tmp_path / "m.bsp")[0] == 0
    assert json.loads(run("info", tmp_path / "m.bsp", "--json")[1])["features"] == ["x=u", "x=v", "x=u"]
    assert bspforest.load(tmp_path / "m.bsp").held_rows().X.tolist() == [[1, 0, 1], [0, 1, 2], [1, 0, 3]]


def test_append_recognises_a_file_under_another_path(run, numbers, tmp_path, monkeypatch):
    model = tmp_path / "m.bsp"
    assert run("learn", numbers[0], "--target", "y", "--model", model)[0] == 0
    monkeypatch.chdir(Path(numbers[0]).parent)
    code, _, err = run("learn", "./numbers.csv", "--target", "y", "--model", model, "--append")
    assert code == 2 and "has learned 600 rows of it already" in err


def test_outputs_are_checked_before_a_long_run(run, numbers, tmp_path):
    code, out, err = run("evaluate", numbers[0], "--target", "y", "--plot", tmp_path / "x.xyz")
    assert code == 2 and ".png, .svg or .pdf" in err and not out
    code, out, err = run("evaluate", numbers[0], "--target", "y", "--json", tmp_path / "no" / "x.json")
    assert code == 2 and "there is no folder" in err and not out
    assert run("evaluate", numbers[0], "--target", "y", "--json", numbers[0])[0] == 2
    model = tmp_path / "m.bsp"
    assert run("learn", numbers[0], "--target", "y", "--model", model, "--trees", 2)[0] == 0
    code, _, err = run("plot", model, "--dims", "a", "b", "-o", tmp_path / "picture")
    assert code == 2 and ".png, .svg or .pdf" in err and not list(tmp_path.glob("picture*"))
    code, _, err = run("forget", model, "--ids", "1", "-o", tmp_path / "no" / "m.bsp")
    assert code == 2 and f"there is no folder {tmp_path / 'no'}" in err


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_truncated_compressed_data(suffix, run, numbers, tmp_path):
    data = {"gz": gzip, "bz2": bz2, "xz": lzma}[suffix].compress(Path(numbers[0]).read_bytes())
    path = tmp_path / f"d.csv.{suffix}"
    path.write_bytes(data[: len(data) // 2])
    code, _, err = run("evaluate", path, "--target", "y", "--trees", 2)
    assert code == 1 and err.splitlines()[-1].startswith(f"bspforest: {path}: ") and "mistake" not in err


def test_unclosed_quotes(run, tmp_path):
    """The row is malformed, and the rows after it are learned."""
    path, model = tmp_path / "d.csv", tmp_path / "m.bsp"
    rows = [f'{k % 7},"{"uv"[k % 2]}",{k / 8}' for k in range(60)]
    rows[20], rows[59] = '1,"u,1.5', '1,"v'
    path.write_text("\n".join(["a,t,y", *rows]))
    command = ("learn", path, "--target", "y", "--model", model, "--trees", 2)
    code, _, err = run(*command)
    assert code == 1 and f"{path}, line 22: a quote is opened and never closed: '1,\"u,1.5' (--on-error skip" in err
    code, out, err = run(*command, "--on-error", "skip")
    assert code == 0 and "58 rows learned" in out and "2 malformed rows skipped" in out
    assert err == (
        "skipped: line 22: a quote is opened and never closed: '1,\"u,1.5'\n"
        "skipped: line 61: a quote is opened and never closed: '1,\"v'\n"
    )


def test_repeated_headers(run, tmp_path):
    """They are skipped with a notice in all commands that read data, and are no malformed rows."""
    path, model = tmp_path / "d.csv", tmp_path / "m.bsp"
    part = "a,y\n" + "".join(f"{k % 7},{k / 8}\n" for k in range(30))
    path.write_text(part * 8)
    lines = [f"{path}, line {31 * k + 1}: the header once more, which is skipped\n" for k in range(1, 6)]
    expected = "".join(lines) + "further ones are skipped without a notice\n"
    code, out, err = run("learn", path, "--target", "y", "--model", model, "--trees", 2)
    assert (code, err) == (0, expected) and "240 rows learned" in out and "malformed" not in out
    assert run("learn", path, "--target", "y", "--model", model, "--resume")[::2] == (0, "")
    assert run("evaluate", path, "--target", "y", "--trees", 2)[::2] == (0, expected)
    code, out, err = run("predict", model, path)
    assert (code, err, len(out.split())) == (0, expected, 241)
