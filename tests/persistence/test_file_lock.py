"""One writer of a model at a time: no update is lost, and a killed writer blocks nobody."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hostile import KINDS, make_forest

from bspforest import BSPForestRegressor
from bspforest.persistence import (
    ModelChangedError,
    ModelLockedError,
    NotARegularFileError,
    Saver,
    identify,
    load_with_extra,
    lock_model,
    save,
)
from bspforest.persistence.file_lock import find_lock_path

fcntl = pytest.importorskip("fcntl")

fork = multiprocessing.get_context("fork")


def make_model(path: Path):
    forest = BSPForestRegressor(2, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], [-1.0, -1.0])
    save(forest, path)
    return forest


def read_change_write(path: Path, worker: int, rounds: int) -> None:
    """Learn one row at a time, with the number of the round as its label."""
    rng = np.random.default_rng(worker)
    for k in range(rounds):
        with lock_model(path, wait=120.0) as lock:
            before = identify(path)
            forest, _ = load_with_extra(path)
            forest.partial_fit(rng.random((1, 2)), [float(worker * rounds + k)])
            save(forest, path, lock=lock, expected=before)


def test_twenty_processes_lose_no_update(tmp_path):
    path = tmp_path / "m"
    make_model(path)
    workers = [fork.Process(target=read_change_write, args=(path, k, 5)) for k in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 20
    forest, _ = load_with_extra(path, check="fully")
    labels = forest._forest.held_labels()[:, 0]
    assert sorted(labels.tolist()) == [-1.0, -1.0, *map(float, range(100))]
    assert os.listdir(tmp_path) == ["m"]


def count_up(folder: Path, rounds: int) -> None:
    for _ in range(rounds):
        with lock_model(folder / "m", wait=120.0):
            n = int((folder / "count").read_text())
            time.sleep(0.0002)
            (folder / "count").write_text(str(n + 1))


def test_the_lock_file_is_removed_safely(tmp_path):
    """Processes that take the lock in quick succession. Without a look at which file is locked, counts were lost."""
    (tmp_path / "count").write_text("0")
    workers = [fork.Process(target=count_up, args=(tmp_path, 100)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "count").read_text() == "800"
    assert os.listdir(tmp_path) == ["count"]


HOLDER = """
import sys, time
from bspforest.persistence import lock_model
lock = lock_model(sys.argv[1])
print("held", flush=True)
time.sleep(600)
"""


def start_holder(path: Path, *options: str) -> subprocess.Popen:
    """Start another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path), *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_killed_holder_frees_the_lock(tmp_path):
    path = tmp_path / "model.bsp"
    process = start_holder(path, "--rows", "two words", "\x1b[31m")
    try:
        begun = time.monotonic()
        with pytest.raises(ModelLockedError) as caught:
            lock_model(path)
        assert time.monotonic() - begun < 1.0
        error = caught.value
        assert isinstance(error, OSError) and error.errno == errno.EAGAIN and error.filename == str(path)
        assert error.owner.pid == process.pid and error.owner.host == os.uname().nodename
        expected = (
            f"model.bsp is being written by `python -c {path} --rows 'two words' '?[31m'` (process {process.pid} on "
        )
        assert str(error).startswith(expected) and str(error).endswith("wait for it, or use --wait (in Python, wait=)")
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        with pytest.raises(ModelLockedError):
            save(make_forest(*KINDS[0]), path, wait=0.1)
        assert not path.exists()
        process.send_signal(signal.SIGKILL)
        with lock_model(path, wait=10.0):
            pass
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert os.listdir(tmp_path) == []


def test_waiting_for_the_lock(tmp_path):
    path = tmp_path / "m"
    lock = lock_model(path)
    threading.Timer(0.3, lock.release).start()
    begun = time.monotonic()
    with lock_model(path, wait=30.0):
        assert 0.2 < time.monotonic() - begun < 5.0
        with pytest.raises(ModelLockedError, match="by this process, since"):
            lock_model(path, wait=0.1)
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="wait must be"):
            lock_model(path, wait=wrong)


def test_threads_exclude_each_other(tmp_path):
    """Also through a link to the model, and without locks of the operating system."""
    path = tmp_path / "m"
    (tmp_path / "link").symlink_to("m")
    inside, failures = [], []

    def work(k):
        for _ in range(30):
            with lock_model(path if k % 2 else tmp_path / "link", wait=60.0):
                inside.append(k)
                time.sleep(0.0002)
                if len(inside) != 1:
                    failures.append(list(inside))
                inside.remove(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and sorted(os.listdir(tmp_path)) == ["link"]


def test_file_systems_without_locks(tmp_path, monkeypatch):
    """Such as some network file systems, none of which is at hand: flock is made to fail as it does there."""

    def fail(fd, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    test_threads_exclude_each_other(tmp_path)
    (tmp_path / "link").unlink()
    make_model(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]


def test_a_held_lock_is_entered_again(tmp_path):
    path = tmp_path / "m"
    with lock_model(path) as lock:
        with lock:
            assert lock.held
        assert lock.held
        make_model_with(lock, path)
        assert lock.held
    assert not lock.held
    lock.release()
    with pytest.raises(ValueError, match="is released"), lock:
        pass
    with pytest.raises(ValueError, match="is released"):
        save(make_forest(*KINDS[0]), path, lock=lock)
    other = lock_model(tmp_path / "other")
    with pytest.raises(ValueError, match="the lock is for"):
        save(make_forest(*KINDS[0]), path, lock=other)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(other)
    other.release()
    lock_model(path)  # dropped, and so released
    gc.collect()
    lock_model(path).release()


def make_model_with(lock, path):
    """Save in the foreground and in the background with a lock that is held."""
    forest = make_forest(*KINDS[0])
    save(forest, path, lock=lock)
    with Saver(path, lock=lock) as saver:
        saver.save(forest)
        saver.save(forest)


def test_a_child_process_does_not_inherit_the_lock(tmp_path):
    """A child that lives on does not keep the lock when its parent has released it or is killed."""
    path = tmp_path / "m"

    def hold_and_fork(connection):
        lock = lock_model(path)
        child = os.fork()
        if child == 0:
            connection.send(lock.held)
            time.sleep(600)
        connection.send(child)
        time.sleep(600)

    receiving, sending = fork.Pipe(duplex=False)
    holder = fork.Process(target=hold_and_fork, args=(sending,))
    holder.start()
    received = [receiving.recv(), receiving.recv()]
    child = next(entry for entry in received if entry is not False)
    assert False in received
    try:
        with pytest.raises(ModelLockedError):
            lock_model(path)
        holder.kill()
        holder.join()
        os.kill(child, 0)  # it lives
        lock_model(path, wait=10.0).release()
    finally:
        os.kill(child, signal.SIGKILL)


def test_saver_takes_the_lock_while_it_writes(tmp_path):
    path = tmp_path / "m"
    forest = make_model(path)
    with Saver(path, wait=0.1) as saver:
        saver.save(forest)
        saver.wait()
        with lock_model(path):
            saver.save(forest)
            with pytest.raises(ModelLockedError):
                saver.wait()
        saver.save(forest)


def test_a_changed_model_is_not_replaced(tmp_path):
    path = tmp_path / "m"
    forest = make_model(path)
    before = identify(path)
    save(forest, path, expected=before)
    mine = identify(path)
    assert mine != before
    make_model(path)
    theirs = path.read_bytes()
    for expected, what in ((mine, "has been changed"), (None, "has appeared")):
        with pytest.raises(ModelChangedError, match=f"m {what} by another program since it was read"):
            save(forest, path, expected=expected)
    assert path.read_bytes() == theirs
    path.unlink()
    with pytest.raises(ModelChangedError, match="has been removed"):
        save(forest, path, expected=mine)
    save(forest, path, expected=None)
    assert os.listdir(tmp_path) == ["m"]


def test_saver_expects_its_own_file(tmp_path):
    path = tmp_path / "m"
    forest = make_model(path)
    with Saver(path, expected=identify(path)) as saver:
        for _ in range(3):
            saver.save(forest)
        saver.wait()
        assert saver.written == identify(path)
        make_model(path)
        saver.save(forest)
        with pytest.raises(ModelChangedError):
            saver.wait()


def test_files_of_the_same_age_and_size_differ(tmp_path):
    """Inodes are reused and times are coarse; a model's first bytes hold a checksum of the others."""
    path = tmp_path / "m"
    forest = make_model(path)
    status, first = path.stat(), identify(path)
    other = tmp_path / "other"
    save(forest.partial_fit([[0.5, 0.5]], [1.0]).forget([2]), other)
    data = bytearray(other.read_bytes())
    with open(path, "r+b") as file:
        file.write(data[: status.st_size].ljust(status.st_size, b"\0"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = identify(path)
    assert first[:4] == second[:4] and first != second


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "garbage"])
def test_hostile_lock_files(tmp_path, kind):
    """Another user who may write to the folder cannot have files overwritten or block us for ever."""
    path, victim = tmp_path / "m", tmp_path / "victim"
    victim.write_text("precious")
    lock_file = find_lock_path(path)
    if kind == "link":
        lock_file.symlink_to(victim)
        with pytest.raises(OSError, match="symbolic links"):
            lock_model(path)
    elif kind == "pipe":
        os.mkfifo(lock_file)
        with pytest.raises(NotARegularFileError, match="is a pipe"):
            lock_model(path)
    elif kind == "hard link":
        os.link(victim, lock_file)
        lock_model(path).release()
    else:
        for text in (
            "",
            "[",
            "[]",
            '{"pid": "x"}',
            "[" * 10_000,
            '{"pid":1,"host":"\x1b","command":[],"since":"2020-01-01"}',
        ):
            lock_file.write_text(text)
            with open(lock_file) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                with pytest.raises(ModelLockedError, match="is being written by") as caught:
                    lock_model(path)
                assert str(caught.value).isprintable()
    assert victim.read_text() == "precious"


def test_special_files_and_folders_are_named(tmp_path):
    for path, error in (("/dev/null", NotARegularFileError), (tmp_path, IsADirectoryError)):
        with pytest.raises(error):
            lock_model(path)
    with pytest.raises(FileNotFoundError, match="missing/m"):
        lock_model(tmp_path / "missing" / "m")
    lock_model(tmp_path / ("x" * 250)).release()
    assert os.listdir(tmp_path) == []
