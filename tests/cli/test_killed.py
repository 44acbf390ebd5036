"""Real processes that are killed or interrupted, and pipes."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from cli_child import Children
from hostile import same
from own_process import in_own_process

import bspforest
from bspforest.cli.data.csv_cleaning import Piece
from bspforest.cli.data.csv_source import CsvSource
from bspforest.cli.main import main
from bspforest.files import load_with_extra

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals and named pipes")

N = 8_000
COMMAND = [sys.executable, "-m", "bspforest.cli"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Return a file with missing values, text and malformed rows."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("killed") / "stream.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "kind", "y"])
        for k, (a, b) in enumerate(rng.random((N, 2)).tolist()):
            writer.writerow([a, "" if k % 5 == 0 else b, f"k, {k % 3}", a + 2 * b + k % 3])
            if k % 1000 == 700:
                writer.writerow(["bad", b, "k", 0])
    return path


def options(data: Path | str, model: Path) -> list[str]:
    """Return the arguments of ``learn``, with a window of 3,000 rows so that rows are forgotten."""
    return [
        *("learn", str(data), "--target", "y", "--model", str(model), "--trees", "20", "--window", "3000"),
        *("--chunk-rows", "100", "--checkpoint-rows", "200", "--on-error", "skip", "--resume"),
    ]


@pytest.fixture(scope="module")
def children(tmp_path_factory):
    """Return a server that starts processes."""
    server = Children(tmp_path_factory.mktemp("killed") / "log")
    yield server
    server.close()


@pytest.fixture(scope="module")
def undisturbed(data, children, tmp_path_factory) -> tuple[Path, float]:
    """Return the model of a run without interruption, and the seconds it took."""
    model = tmp_path_factory.mktemp("killed") / "undisturbed.bsp"
    begun = time.monotonic()
    children.start(options(data, model))
    assert children.wait() == 0, children.log.read_text()
    return model, time.monotonic() - begun


def check_same(model: Path, undisturbed: Path) -> None:
    """Check that each row was learned once: forests and records are identical."""
    (one, extra), (other, expected) = load_with_extra(model), load_with_extra(undisturbed)
    assert one.n_samples_seen_ == N
    for notes in (extra, expected):
        del notes["command"]["sources"][0]["name"], notes["command"]["sources"][0]["path"]
    assert extra == expected
    assert same(one, other)


def wait_for_checkpoint(children, model: Path, then: float) -> int | None:
    """Wait until the model is saved once more, then some seconds; return the exit code if the process has ended."""

    def stamp() -> tuple[int, int] | None:
        return (model.stat().st_ino, model.stat().st_mtime_ns) if model.exists() else None

    before = stamp()
    while stamp() == before:
        if (code := children.wait(0.005)) is not None:
            return code
    return children.wait(then)


@pytest.mark.long
def test_killed_twenty_times(data, undisturbed, children, tmp_path):
    """Kill at random moments and soon after checkpoints, and resume: the result is that of an undisturbed run.

    This was seen to fail with the position of the previous chunk in a checkpoint, without the means that replace missing
    numbers, and with a resume that starts one row too early.
    """
    rng = np.random.default_rng(1)
    model = tmp_path / "m.bsp"
    longest = 0.4 * min(undisturbed[1], 3.0)  # a disk that others keep busy must not stretch the test
    kills, positions = 0, set()
    while True:
        process = children.start(options(data, model))
        if kills >= 20:
            code = children.wait()
        elif kills % 2:
            code = wait_for_checkpoint(children, model, rng.uniform(0.0, longest / 4))
        else:
            code = children.wait(rng.uniform(0.02, longest))
        if code is None:
            os.kill(process, signal.SIGKILL)
            assert children.wait() in (-signal.SIGKILL, 0)
            kills += 1
            if model.exists():  # complete, whenever the process was killed
                _, extra = load_with_extra(model)
                positions.add(extra["command"]["sources"][0]["rows"])
        else:
            assert code == 0, children.log.read_text()
            check_same(model, undisturbed[0])
            if kills >= 20:
                break
            model.unlink()  # it ended before enough kills: start again
    assert len(positions) >= 5  # the kills hit many positions
    assert {left.name for left in tmp_path.iterdir()} <= {
        "m.bsp",
        ".m.bsp.lock",
    }  # temporary files of killed processes are removed


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(number, code, data, undisturbed, children, tmp_path):
    """After Ctrl-C or SIGTERM while reading a pipe, the rows learned are saved and reported."""
    model, pipe = tmp_path / "m.bsp", tmp_path / "pipe"
    os.mkfifo(pipe)
    command = options(pipe, model)
    command[command.index("--checkpoint-rows") + 1] = "3000"  # one, and no second before 6,000 rows
    process = children.start(command)
    lines = data.read_bytes().splitlines(keepends=True)
    with open(pipe, "wb", buffering=0) as stream:
        stream.write(b"".join(lines[:3500]))
        while not model.exists():
            assert children.wait(0.02) is None, children.log.read_text()
        # More than the buffer of a pipe: once it is written, the process has learned the rows before.
        stream.write(b"".join(lines[3500:5900]))
        os.kill(process, number)
        assert children.wait(60) == code, children.log.read_text()
    said = children.log.read_text()
    assert "interrupted" in said and "Traceback" not in said
    _, extra = load_with_extra(model)
    n = extra["command"]["sources"][0]["rows"]
    assert 3000 < n < 6000
    assert f"{n:,} rows of {pipe} are learned and saved in {model}; --resume continues after them" in said
    children.start(options(data, model))  # the same rows, now from a file
    assert children.wait() == 0, children.log.read_text()
    check_same(model, undisturbed[0])


INTERRUPT_WHILE_IMPORTING = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numba":
            os.kill(os.getpid(), signal.SIGINT)

import bspforest.cli.main
assert not {"numpy", "sklearn", "numba"} & set(sys.modules), "help would wait for these"
sys.meta_path.insert(0, Finder())
sys.exit(bspforest.cli.main.main(["demo"]))
"""


def test_interrupted_while_importing():
    """`--help` does not wait for slow imports, and Ctrl-C during them prints one line."""
    end = subprocess.run([sys.executable, "-c", INTERRUPT_WHILE_IMPORTING], capture_output=True, text=True, timeout=120)
    assert end.returncode == 130
    assert end.stderr == "bspforest: interrupted\n"


def test_terminated_in_the_background(data, tmp_path):
    """A shell starts ``bspforest ... &`` with SIGINT ignored; SIGTERM still saves the rows learned."""
    model, pipe, log = tmp_path / "m.bsp", tmp_path / "pipe", tmp_path / "log"
    os.mkfifo(pipe)
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "bspforest.cli", *options(pipe, model)],
            stdout=out,
            stderr=out,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
    text = data.read_bytes()
    with open(pipe, "wb", buffering=0) as stream:
        stream.write(text[: len(text) // 2])
        while not model.exists():
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 143, log.read_text()
    assert "are learned and saved in" in log.read_text()


@in_own_process
def test_no_signal_is_lost_while_a_block_is_parsed():
    """With pyarrow's own signal handlers, about one in forty was lost, and the command waited for its pipe for ever."""
    block = b"".join(b"%d,%d\n" % (k, k * k) for k in range(3_000))
    source = CsvSource(io.BytesIO(b"a,b\n" + block), "test")
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        for k in range(400):
            timer = threading.Timer(k % 20 / 2_000, os.kill, (os.getpid(), signal.SIGTERM))
            timer.start()
            end = time.monotonic() + 10
            while not received and time.monotonic() < end:
                source._read_piece(Piece(block, 1, [], []), {"a": "number", "b": "number"})
            assert received, f"signal {k}"
            timer.join()
            received.clear()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_pipes_in_a_shell(data, tmp_path):
    """Run ``cat | learn`` and ``predict | head``."""
    model = tmp_path / "m.bsp"
    shell = " ".join(COMMAND)
    learned = subprocess.run(
        f"cat {data} | {shell} learn - --target y --model {model} --trees 3 --on-error skip",
        shell=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert learned.returncode == 0, learned.stderr
    assert learned.stdout.startswith(
        "Task: regression ('y' holds numbers)\n"
        "Column 'a': numbers, so 'bad' is a mistake (--na-values bad if it marks a gap, --text a if the column is text)\n"
        "8,000 rows learned in "
    )
    assert ", 8 malformed rows skipped; 8,000 rows held by 3 trees\n" in learned.stdout
    assert "skipped: line 703: 'bad' in column 'a' is not a number\n" in learned.stderr
    head = subprocess.run(
        ["bash", "-c", f"{shell} predict {model} {data} --on-error skip | head -2; echo ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    lines = head.stdout.splitlines()
    assert lines[0] == "prediction" and float(lines[1]) > 0
    assert lines[2] in ("0", "141")  # 141: the pipe was closed before all was written
    assert "Traceback" not in head.stderr and "BrokenPipe" not in head.stderr


def test_new_class_in_a_pipe(tmp_path, monkeypatch, capsys):
    """A class that is not in the first 1,000 rows of a pipe is learned when it comes, or known in advance by --classes."""
    rows = "a,c\n" + "".join(f"{k % 10},{'x' if k % 3 else 'y'}\n" for k in range(1200)) + "1,z\n" + "2,x\n" * 300
    command = ["learn", "-", "--target", "c", "--model", str(tmp_path / "m.bsp"), "--trees", "2"]

    def run(*more: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(rows.encode()))))
        code = main([*command, *more])
        return code, capsys.readouterr().err

    for options, said in (
        ((), "new class 'z' in line 1202; 3 classes now\n"),
        (("--overwrite", "--classes", "x,y,z"), ""),
    ):
        assert run(*options) == (0, said)
        forest = bspforest.load(tmp_path / "m.bsp")
        assert forest.classes_.tolist() == ["x", "y", "z"] and forest.n_samples_ == 1501


def test_failed_checkpoint_is_reported(data, children, tmp_path):
    """The folder is moved away while the command runs."""
    folder = tmp_path / "gone"
    folder.mkdir()
    children.start(options(data, folder / "m.bsp"))
    while not (folder / "m.bsp").exists():
        time.sleep(0.005)
    folder.rename(tmp_path / "moved")
    code, said = children.wait(), children.log.read_text()
    assert code == 1, said
    assert "No such file or directory" in said and "Traceback" not in said
    assert (tmp_path / "moved" / "m.bsp").exists()
    bspforest.load(tmp_path / "moved" / "m.bsp")
