"""Files that a command must not replace: devices, named pipes, sockets and folders."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import threading

import pytest

from bspforest.cli.output_files import describe_special

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes and sockets")

KINDS = {
    "pipe": "a named pipe",
    "socket": "a socket",
    "folder": "a folder",
    "device": "a device",
    "link": "a named pipe",
}


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,b,y\n" + "".join(f"{k % 7},{k % 5},{k / 8}\n" for k in range(60)))
    return path


@pytest.fixture
def model(run, data, tmp_path):
    path = tmp_path / "m.bsp"
    assert run("learn", data, "--target", "y", "--trees", 2, "--model", path)[0] == 0
    return path


@pytest.fixture(params=KINDS)
def special(request, tmp_path, monkeypatch):
    """A path that is not a regular file, and what it is."""
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = tmp_path / request.param
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "link":
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    elif request.param == "folder":
        path.mkdir()
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")  # its file stays when it is closed
    else:
        path = make_device(path)
    before = path.stat()
    yield path, KINDS[request.param]
    after = path.stat()
    assert (after.st_ino, stat.S_IFMT(after.st_mode)) == (before.st_ino, stat.S_IFMT(before.st_mode))


def make_device(path):
    """Make a null device of our own: if it is replaced after all, the system keeps the real one."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except OSError:
        pytest.skip("devices cannot be made here")
    return path


def test_models_do_not_replace_special_files(special, model, data, run):
    path, kind = special
    learn = ("learn", data, "--target", "y", "--trees", 2, "--model", path)
    for command in (
        learn,
        (*learn, "--overwrite"),
        (*learn, "--resume"),
        (*learn, "--append"),
        ("forget", model, "--ids", "3", "-o", path),
        ("forget", model, "--ids", "3", "-o", path, "--overwrite"),
        ("predict", model, data, "-o", path, "--overwrite"),
    ):
        code, _, err = run(*command)
        assert code == 2 and f"{path} is {kind}, expected a regular file" in err, command


def test_special_files_are_not_opened_as_models(special, data, run):
    """Opening a named pipe that nobody writes to would wait for ever."""
    path, kind = special
    for command in (
        ("info", path),
        ("predict", path, data),
        ("forget", path, "--ids", "3"),
        ("plot", path, "--dims", "a", "b", "-o", "p.png"),
    ):
        code, _, err = run(*command)
        assert code == 1 and err == f"bspforest: {path} is {kind}, expected a model file\n", command


def test_scores_are_written_to_pipes_and_devices_in_place(special, data, run):
    path, kind = special
    command = ("evaluate", data, "--target", "y", "--trees", 2, "--chunk-rows", 20, "--json", path)
    if kind in ("a folder", "a socket"):
        code, out, err = run(*command)
        assert (code, out) == (2, "") and f"--json {path} is {kind}, expected a file" in err
        return
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()), daemon=True)
    reader.start()
    assert run(*command)[0] == 0
    reader.join(60)
    assert kind == "a device" or json.loads(received[0])["rows"] == 60


@pytest.mark.parametrize("command", ["evaluate", "plot", "demo"])
def test_pictures_do_not_replace_folders(command, model, data, run, tmp_path):
    folder = tmp_path / "p.png"
    folder.mkdir()
    arguments = {
        "evaluate": ("evaluate", data, "--target", "y", "--plot", folder),
        "plot": ("plot", model, "--dims", "a", "b", "-o", folder),
        "demo": ("demo", "-o", folder),
    }[command]
    code, out, err = run(*arguments)
    assert (code, out) == (2, "") and f"{folder} is a folder, expected a file" in err


def test_regular_and_missing_files_are_not_special(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "missing")
    assert [describe_special(tmp_path / name) for name in ("file", "link", "missing", "dangling")] == [None] * 4
