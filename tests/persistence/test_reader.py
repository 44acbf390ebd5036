"""Reading files of other formats and files that are not models."""

from __future__ import annotations

import os
import socket
import threading
import time

import hostile
import pytest
from hostile import make_forest

import bspforest
from bspforest import ModelFileError
from bspforest.persistence import read_header
from bspforest.persistence.atomic_file import open_regular


def test_a_later_format_is_named(tmp_path):
    forest = make_forest(*hostile.KINDS[0])
    forest.save(tmp_path / "m")
    data = bytearray((tmp_path / "m").read_bytes())
    data[8] = 3
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match="format 3; this version of bspforest reads formats up to 2"):
        bspforest.load(tmp_path / "m")


def make_special(folder, kind):
    """Return the path of a file that is not a regular one."""
    path = folder / "special"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "a character device":
        path.symlink_to("/dev/zero")
    return path


SPECIAL = ["a pipe", "a socket", "a character device"]


def run_with_timeout(call, seconds=10.0):
    """Return the error of a call that must not block."""
    found = []

    def run():
        try:
            call()
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "blocked"
    return found[0] if found else None


@pytest.mark.parametrize("read", [bspforest.load, read_header])
@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_are_refused_without_opening_them(tmp_path, kind, read):
    """Seen to block for ever on a named pipe before."""
    path = make_special(tmp_path, kind)
    for where in (path, tmp_path / "link"):
        if where != path:
            where.symlink_to(path)
        error = run_with_timeout(lambda where=where: read(where))
        assert isinstance(error, ModelFileError) and str(error) == f"{where}: is {kind}, not a regular file"


def test_directories_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a directory, not a regular file"):
        bspforest.load(tmp_path)


def test_a_file_that_becomes_a_named_pipe_does_not_block(tmp_path):
    """A process keeps exchanging the file for a named pipe, between the check of the path and opening it."""
    path, stop = tmp_path / "m", threading.Event()

    def exchange():
        while not stop.is_set():
            os.mkfifo(tmp_path / "pipe")
            os.replace(tmp_path / "pipe", path)
            (tmp_path / "file").write_bytes(b"not a model")
            os.replace(tmp_path / "file", path)

    path.write_bytes(b"not a model")
    thread = threading.Thread(target=exchange)
    thread.start()
    opened = refused = 0
    try:

        def open_often():
            nonlocal opened, refused
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                try:
                    os.close(open_regular(path))
                    opened += 1
                except OSError:
                    refused += 1

        assert run_with_timeout(open_often, 30.0) is None
    finally:
        stop.set()
        thread.join()
    assert opened and refused
