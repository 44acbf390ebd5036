"""``bspforest explore``: what it reads, what it refuses, how it ends. The page is tested in tests/browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection

import numpy as np
import pytest

from bspforest.cli.commands import explore
from bspforest.explore import ExploreServer


@pytest.fixture
def session(monkeypatch):
    """Return a list that gets the session of each server, which stops at once as by Ctrl-C."""
    sessions = []

    def stop(server):
        sessions.append(server.session)
        raise KeyboardInterrupt

    monkeypatch.setattr(ExploreServer, "serve_forever", stop)
    monkeypatch.setattr(explore, "compile_kernels", lambda: 0)
    monkeypatch.setattr(explore.webbrowser, "open", lambda url: pytest.fail("a browser was opened"))
    return sessions


def test_built_in_stream(run, session):
    code, out, err = run("explore", "--stream", "moons", "--trees", 7, "--seed", 3, "--window", 30, "--no-browser")
    assert (code, err) == (0, "")
    assert out.startswith("Open http://127.0.0.1:") and out.endswith("Stopped after 0 rows. Nothing was saved.\n")
    assert session[0].stream.name == "moons"
    assert (session[0].n_trees, session[0].seed, session[0].window) == (7, 3, 30)


def test_two_columns_of_a_file(numbers, run, session):
    path, X, y = numbers
    code, out, _ = run("explore", path, "--target", "y", "--columns", "c", "a", "--no-browser")
    stream = session[0].stream
    assert code == 0 and "Task: regression ('y' holds numbers)" in out
    np.testing.assert_allclose(stream.X, X[:, [2, 0]])
    np.testing.assert_allclose(stream.y, y)
    assert (stream.features, stream.target, stream.classes) == (("c", "a"), "y", ())


def test_text_is_classes(classes, run, session):
    path, _, y = classes
    assert run("explore", path, "--target", "kind", "--columns", "a", "b", "--no-browser")[0] == 0
    stream = session[0].stream
    assert stream.classes == ("high", "late", "low")
    np.testing.assert_array_equal(np.array(stream.classes)[stream.y.astype(int)], y)


def test_other_columns_are_not_read(run, session, tmp_path):
    """Dates, which other commands refuse, and rows with gaps are left out; numbers have the notation that is given."""
    path = tmp_path / "days.csv"
    path.write_text("day;a;b;y\n2024-01-01;1,5;2;3\n2024-01-02;;2;3\n2024-01-03;4;5;6,5\n")
    code, out, _ = run(
        "explore",
        path,
        "--target",
        "y",
        "--columns",
        "a",
        "b",
        "--decimal",
        ",",
        "--task",
        "regression",
        "--no-browser",
    )
    assert code == 0 and "1 row left out, with a gap in 'a' or 'b'" in out
    np.testing.assert_array_equal(session[0].stream.X, [[1.5, 2.0], [4.0, 5.0]])


def test_first_rows_of_a_long_file(run, session, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,b,y\n" + "".join(f"{k},{k % 7},{k / 2}\n" for k in range(5001)))
    code, out, _ = run("explore", path, "--target", "y", "--columns", "a", "b", "--no-browser")
    assert code == 0 and "Only the first 5,000 rows are shown" in out
    assert len(session[0].stream) == 5000


def test_browser_is_opened_where_there_is_a_screen(run, session, monkeypatch):
    opened = []
    monkeypatch.setattr(explore.webbrowser, "open", opened.append)
    monkeypatch.setattr(explore.threading, "Thread", lambda target, args, daemon: _Now(target, args))
    monkeypatch.setattr(explore, "_has_browser", lambda: True)
    _, out, _ = run("explore")
    assert opened == [out.split()[1]]


class _Now:
    """A thread that has run before it was started."""

    def __init__(self, target, args):
        self.start = lambda: target(*args)


COLUMNS = ("--target", "y", "--columns", "a", "b")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--target", "y"), 2, "--target is about the columns of DATA, which is missing"),
        (("--columns", "a", "b"), 2, "--columns is about the columns of DATA, which is missing"),
        (("--task", "regression"), 2, "--task is about the columns of DATA, which is missing"),
        (("--stream", "sea"), 2, "invalid choice: 'sea'"),
        (("--window", "5001"), 2, "--window must be at most 5,000, the rows that the page holds, got 5,001"),
        (("--trees", "0"), 2, "invalid whole number of at least 1 value: '0'"),
        (("--port", "70000"), 2, "invalid port from 0 to 65535 value: '70000'"),
        (("--seed", "-1"), 2, "--seed must be from 0 to 4294967295"),
        (("FILE", "--target", "y"), 2, "DATA needs --target COL, the column to predict, and --columns A B"),
        (("FILE", "--columns", "a", "b"), 2, "DATA needs --target COL, the column to predict, and --columns A B"),
        (("FILE", *COLUMNS, "--stream", "moons"), 2, "--stream is for built-in streams"),
        (("FILE", "--target", "y", "--columns", "a", "a"), 2, "must name three different columns"),
        (("FILE", "--target", "a", "--columns", "a", "b"), 2, "must name three different columns"),
        (("FILE", "--target", "y", "--columns", "a", "bb"), 2, "has no column 'bb'. Did you mean 'b'?"),
        (("FILE", "--target", "z", "--columns", "a", "b"), 2, "has no column 'z'."),
        (("FILE", "--target", "y", "--columns", "a", "name"), 1, "column 'name' holds text, expected numbers"),
        (("FILE", "--target", "y", "--columns", "day", "a"), 1, "column 'day' holds dates or times, expected numbers"),
        (("FILE", "--target", "y", "--columns", "comma", "a"), 1, "--decimal , reads numbers such as 1,5"),
        (("FILE", "--target", "name", "--columns", "a", "b"), 1, "has 12 classes, and the page shows at most 8"),
        (("FILE", "--target", "y", "--columns", "a", "none"), 1, "has no row with numbers in both 'a' and 'none'"),
        (("FILE", "--target", "y", "--columns", "a", "huge"), 1, "column 'huge' has numbers beyond 1e+100"),
        (("FILE", *COLUMNS, "--delimiter", ";;"), 2, "--delimiter must be one character"),
        (("missing.csv", *COLUMNS), 1, "missing.csv"),
    ],
)
def test_bad_input(run, session, tmp_path, arguments, code, message):
    path = tmp_path / "rows.csv"
    names = "abcdefghijkl"
    lines = [f'{k},{k % 5},{k / 3},{names[k]},2024-01-{k + 1:02},"{k},5",,{k}e200' for k in range(12)]
    path.write_text("\n".join(["a,b,y,name,day,comma,none,huge", *lines]) + "\n")
    found, _, err = run("explore", *(path if part == "FILE" else part for part in arguments), "--no-browser")
    assert (found, session) == (code, [])
    assert message in err


def test_port_in_use(run, session):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, _, err = run("explore", "--no-browser", "--port", port)
    assert code == 1 and f"cannot listen on port {port} of 127.0.0.1: Address already in use" in err


PROGRAM = "import sys; from bspforest.cli.main import main; sys.exit(main(sys.argv[1:]))"
on_posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@on_posix
@pytest.mark.parametrize(
    "gaps", [(), (0.02,) * 20, *(pytest.param((gap,), marks=pytest.mark.long) for gap in (0.0, 0.01, 0.05, 0.1))]
)
def test_interrupts_end_the_command(gaps):
    """The first one does; others may follow at any time until the process has ended."""
    command = [sys.executable, "-c", PROGRAM, "explore", "--no-browser", "--trees", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        url = child.stdout.readline().split()[1]
        host, path = url.removeprefix("http://").split("/", 1)
        connection = HTTPConnection(host, timeout=20)
        connection.request("GET", f"/{path}")
        assert connection.getresponse().status == 200
        child.send_signal(signal.SIGINT)
        for gap in gaps:
            time.sleep(gap)
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (0, "")
    assert out.endswith("Stopped after 0 rows. Nothing was saved.\n")


@on_posix
def test_interrupts_work_as_before_after_the_command(run, session):
    assert run("explore", "--no-browser")[0] == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt_before_the_page_is_served(run, session, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(explore, "compile_kernels", interrupt)
    code, _, err = run("explore", "--no-browser")
    assert (code, err, session) == (130, "bspforest: interrupted\n", [])
