"""``bspforest learn``: a terminal that closes, and another key column than before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from csv_files import write_rows

import bspforest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals and named pipes")


def test_hangup_saves_what_was_learned(tmp_path):
    """Failed with exit code -1 and the rows since the last checkpoint lost: only SIGINT and SIGTERM were handled."""
    model, pipe, log = tmp_path / "m.bsp", tmp_path / "pipe", tmp_path / "log"
    os.mkfifo(pipe)
    rows = np.random.default_rng(0).random((3000, 3)).round(4).tolist()
    lines = ["a,b,y\n", *(",".join(map(str, row)) + "\n" for row in rows)]
    command = ["learn", pipe, "--target", "y", "--model", model, "--trees", "5"]
    command += ["--chunk-rows", "100", "--checkpoint-rows", "1000"]
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "bspforest.cli", *map(str, command)],
            stdout=out,
            stderr=out,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )
    try:
        with open(pipe, "wb", buffering=0) as stream:
            stream.write("".join(lines[:2001]).encode())
            end = time.monotonic() + 120
            while not model.exists():
                assert process.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.02)
            stream.write("".join(lines[2001:2900]).encode())
            time.sleep(1.0)  # it has learned the chunks that are complete, and waits for more
            process.send_signal(signal.SIGHUP)
            assert process.wait(60) == 128 + signal.SIGHUP, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    said = log.read_text()
    n = bspforest.load(model).n_samples_seen_
    assert n > 1000 and f"{n:,} rows of" in said and "--resume continues after them" in said, said
    assert "Traceback" not in said


def test_hangup_is_ignored_where_it_was(tmp_path):
    """``nohup bspforest learn`` goes on: a hangup that is ignored stays so."""
    data = write_rows(tmp_path / "d.csv", ["a", "b", "y"], np.random.default_rng(0).random((3000, 3)).tolist())
    model = tmp_path / "m.bsp"
    command = ["learn", data, "--target", "y", "--model", model, "--trees", "5", "--checkpoint-rows", "500"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bspforest.cli", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    for _ in range(40):
        if process.poll() is None:
            process.send_signal(signal.SIGHUP)
        time.sleep(0.05)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert bspforest.load(model).n_samples_seen_ == 3000


@pytest.mark.parametrize(("before", "after"), [("who", "town"), ("who", None), (None, "who")])
def test_resume_with_another_key(before, after, run, tmp_path):
    """Refused with a message that names both columns; without --key, the saved one is used.

    Failed for a column that the model had not been told to keep as key.
    """
    rng = np.random.default_rng(0)
    rows = [[f"user-{k % 7}", f"town-{k % 3}", *map(repr, rng.random(2).tolist())] for k in range(60)]
    names = ["who", "town", "size", "y"]
    data, model = tmp_path / "d.csv", tmp_path / "m.bsp"
    command = ["learn", write_rows(data, names, rows[:40]), "--target", "y", "--model", model, "--trees", 2]
    key = [] if before is None else ["--key", before]
    assert run(*command, *key)[0] == 0
    write_rows(data, names, rows)
    code, _, err = run(*command, "--resume", *([] if after is None else ["--key", after]))
    if after is None:
        assert code == 0 and bspforest.load(model).held_keys()[-1] == rows[-1][0]
        return
    assert code == 2, err
    assert f"--key {after}" in err and f"--key {'none' if before is None else before}" in err.replace("None", "none")
    assert bspforest.load(model).n_samples_seen_ == 40
