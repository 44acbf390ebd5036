"""Two commands that write one model file: one at a time, and none undoes the other."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bspforest
from bspforest.files import ModelLockedError, lock_model

COMMAND = [sys.executable, "-m", "bspforest.cli"]


def start(*arguments):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_forget_at_once_forget_both(run, numbers, tmp_path):
    """Without the lock both report success, and one set of rows is still held."""
    model = tmp_path / "model.bsp"
    assert run("learn", numbers[0], "--target", "y", "--model", model, "--trees", 3)[0] == 0
    both = [start("forget", model, "--ids", ids, "--wait", 60) for ids in ("0-99", "100-199")]
    for process in both:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert bspforest.load(model).held_rows().ids.tolist() == list(range(200, 600))


def test_forget_beside_a_running_learn_is_refused_and_names_it(numbers, tmp_path):
    """Without the lock the next checkpoint undoes it, silently."""
    model = tmp_path / "model.bsp"
    learn = start("learn", "-", "--target", "y", "--model", model, "--trees", 3, "--checkpoint-rows", 100)
    lines = Path(numbers[0]).read_text().splitlines(keepends=True)
    learn.stdin.write("".join(lines[:1] + lines[1:] * 20))
    learn.stdin.flush()
    end = time.monotonic() + 60
    while not model.exists() and time.monotonic() < end:
        time.sleep(0.05)
    forget = start("forget", model, "--ids", "0-9")
    _, said = forget.communicate(timeout=60)
    assert forget.returncode == 1 and str(learn.pid) in said and "--wait" in said
    waiting = start("forget", model, "--ids", "0-9", "--wait", 60)
    time.sleep(0.5)
    learn.communicate(timeout=60)
    assert learn.returncode == 0
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, said
    assert bspforest.load(model).held_rows().ids.tolist()[0] == 10


def test_learn_names_who_writes_the_model(run, numbers, tmp_path):
    model = tmp_path / "model.bsp"
    with lock_model(model):
        code, _, said = run("learn", numbers[0], "--target", "y", "--model", model, "--trees", 3)
    assert code == 1 and "is being written" in said and "--wait" in said


def test_the_lock_ends_with_its_block(tmp_path):
    """Failed: it was held for as long as its variable had a value."""
    model = tmp_path / "m"
    with lock_model(model) as lock, pytest.raises(ModelLockedError, match=str(os.getpid())), lock_model(model):
        pass
    assert not lock.is_locked
    with lock_model(model):
        pass
