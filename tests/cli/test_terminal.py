"""Standard streams that are closed or full, and names that a terminal would interpret."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import bspforest

COMMAND = f"{sys.executable} -m bspforest.cli"
RED = "\x1b[31m"
needs_shell = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,b,y\n" + "".join(f"{k % 7},{k % 5},{k / 8}\n" for k in range(60)))
    return path


def run_shell(command, folder):
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


# ----------------------------------------------------------------------------------------------------------------------
# Closed and full streams


@needs_shell
@pytest.mark.parametrize("closing", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_learn_with_closed_streams(closing, data, tmp_path):
    """The model is complete, and nothing is written into it that belongs on a stream."""
    options = "--target y --trees 2 --progress --on-error skip --number a"
    data.write_text(data.read_text() + "x,1,2\n")
    end = run_shell(f"{COMMAND} learn d.csv {options} --model m.bsp {closing}", tmp_path)
    assert end.returncode == 0 and "Traceback" not in end.stdout + end.stderr
    assert bspforest.load(tmp_path / "m.bsp").n_samples_ == 60
    assert ("60 rows learned" in end.stdout) == (">&-" not in closing.replace("2>&-", ""))
    assert ("skipped: line 62" in end.stderr) == ("2>&-" not in closing)
    assert "skipped: line 62" not in end.stdout


@needs_shell
@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("learn no.csv --target y --model m.bsp 2>&-", 1, ""),
        ("learn d.csv --target y 2>&-", 2, ""),
        ("learn - --target y --model m.bsp <&-", 1, "standard input is empty"),
        ("evaluate d.csv --target y --trees 2 --chunk-rows 20 --json - >&-", 1, "standard output is closed"),
    ],
)
def test_exit_codes_with_closed_streams(command, code, message, data, tmp_path):
    end = run_shell(f"{COMMAND} {command}", tmp_path)
    assert (end.returncode, end.stdout) == (code, "")
    assert message in end.stderr and "Traceback" not in end.stderr and "mistake" not in end.stderr


@needs_shell
def test_predictions_need_an_open_output(run, data, tmp_path):
    assert run("learn", data, "--target", "y", "--trees", 2, "--model", tmp_path / "m.bsp")[0] == 0
    end = run_shell(f"{COMMAND} predict m.bsp d.csv >&-", tmp_path)
    assert end.returncode == 1 and "standard output is closed" in end.stderr
    end = run_shell(f"{COMMAND} predict m.bsp d.csv -o p.csv >&-", tmp_path)
    assert end.returncode == 0 and len((tmp_path / "p.csv").read_text().splitlines()) == 61


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_output(data, tmp_path):
    """An error on standard output is reported once; one on standard error is not worth failing for."""
    end = run_shell(f"{COMMAND} evaluate d.csv --target y --trees 2 --chunk-rows 20 > /dev/full", tmp_path)
    assert (end.returncode, end.stderr) == (1, "bspforest: [Errno 28] No space left on device\n")
    data.write_text(data.read_text() + "x,1,2\n")
    options = "--target y --trees 2 --number a --on-error skip --progress"
    end = run_shell(f"{COMMAND} learn d.csv {options} --model m.bsp 2> /dev/full", tmp_path)
    assert end.returncode == 0 and "60 rows learned" in end.stdout


def test_output_in_ascii(data, tmp_path):
    """Characters that the encoding of the output does not have are escaped; JSON stays JSON."""
    data.write_text(data.read_text().replace("a,b,y", "é,b,y"))
    command = [sys.executable, "-m", "bspforest.cli", "evaluate", str(data), "--target", "y", "--trees", "2"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for options, expected in (([], "\\u25"), (["--json", "-"], '"\\u00e9"')):
        end = subprocess.run(
            [*command, "--chunk-rows", "5", *options], capture_output=True, env=environment, timeout=120
        )
        assert end.returncode == 0 and expected in end.stdout.decode("ascii"), end.stderr
    assert json.loads(end.stdout)["columns"] == ["é", "b"]


# ----------------------------------------------------------------------------------------------------------------------
# Names that a terminal would interpret


@pytest.fixture
def hostile(tmp_path):
    """A file whose name, columns, categories and classes set the colour of a terminal."""
    path = tmp_path / f"d{RED}.csv"
    rows = "".join(f"{k % 7},{'uv'[k % 2]}{RED},{'xyz'[k % 3]}{RED}\n" for k in range(60))
    path.write_text(f"a{RED},t{RED},kind{RED}\n{rows}")
    return path


def check_escaped(*shown):
    for text in shown:
        assert "\x1b" not in text.replace("\x1b[K", "") and "\x9b" not in text
    assert any("\\x1b[31m" in text or "\\u001b[31m" in text for text in shown)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such file names")
@pytest.mark.filterwarnings("error::UserWarning")
def test_names_are_escaped(hostile, run, tmp_path):
    model, target = tmp_path / f"m{RED}.bsp", f"kind{RED}"
    learn = ("learn", hostile, "--target", target, "--trees", 2, "--model", model)
    commands = [
        (0, *learn, "--progress"),
        (0, "info", model),
        (0, "info", model, "--json"),
        (0, *learn, "--resume"),
        (2, *learn),
        (2, *learn[:3], "no", *learn[4:]),
        (2, *learn, "--append"),
        (0, "evaluate", hostile, "--target", target, "--trees", 2, "--chunk-rows", 20),
        (0, "evaluate", hostile, "--target", target, "--trees", 2, "--chunk-rows", 20, "--json", "-"),
        (0, "predict", model, hostile, "-o", tmp_path / f"p{RED}.csv"),
        (2, "predict", model, hostile, "--std"),
        (1, "predict", model, tmp_path / f"no{RED}.csv"),
        (2, "plot", model, "--dims", "no", "no", "-o", tmp_path / "p.png"),
        (0, "plot", model, "--dims", f"a{RED}", f"t{RED}=u{RED}", "-o", tmp_path / f"p{RED}.png"),
        (0, "forget", model, "--ids", "3"),
        (1, "info", hostile),
        (2, "info", model, f"other{RED}"),
    ]
    for code, *command in commands:
        found, *shown = run(*command)
        assert found == code, (command, shown)
        check_escaped(*shown)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such file names")
def test_malformed_rows_and_debug_output_are_escaped(hostile, run, tmp_path):
    with hostile.open("a") as file:
        file.write(f"{RED},u,x\n1,u,new{RED}\n")
    model = tmp_path / "m.bsp"
    classes = ",".join(f"{name}{RED}" for name in "xyz")
    command = ("learn", hostile, "--target", f"kind{RED}", "--trees", 2, "--classes", classes, "--number", f"a{RED}")
    code, *shown = run(*command, "--model", model, "--on-error", "skip")
    assert code == 0 and "new class" in shown[1]
    check_escaped(*shown)
    code, *shown = run(*command, "--model", tmp_path / "n.bsp")
    assert code == 1
    check_escaped(*shown)


def test_traceback_is_escaped(run, tmp_path, capsys):
    from bspforest.cli.main import main

    assert main(["info", str(tmp_path / f"no{RED}.bsp"), "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    check_escaped(err)


def test_json_escapes_what_json_itself_does_not(run, tmp_path):
    """C1 control characters and right-to-left overrides are valid in JSON as they are."""
    data = tmp_path / "d.csv"
    names = ["a\x9b31m", "b\u202e", "c\U000e0001", "é"]
    data.write_text(",".join([*names, "y"]) + "\n" + "1,2,3,4,5.5\n" * 30)
    model = tmp_path / "m.bsp"
    assert run("learn", data, "--target", "y", "--trees", 2, "--model", model)[0] == 0
    _, out, _ = run("info", model, "--json")
    assert json.loads(out)["features"] == names
    assert all(line.isprintable() for line in out.split("\n")) and "é" in out


def test_file_names_that_are_not_unicode(run, data, tmp_path):
    model = os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.bsp")
    assert run("learn", data, "--target", "y", "--trees", 2, "--model", model)[0] == 0
    code, out, _ = run("forget", model, "--ids", "3")
    assert code == 0 and "m\\udcff.bsp" in out
