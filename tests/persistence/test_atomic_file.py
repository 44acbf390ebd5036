"""Files are replaced completely or not at all: when processes die, disks fill up, and others write too."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import socket
import stat
import subprocess
import time
from itertools import count

import hostile
import numpy as np
import pytest
from hostile import make_forest

import bspforest
from bspforest import BSPForestRegressor, ModelFileError
from bspforest.persistence import Saver, load_with_extra, save
from bspforest.persistence.atomic_file import PREFIX, NotARegularFileError


def make_stream(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.integers(0, 3, n)


def test_paths(tmp_path):
    X, y = make_stream(30)
    forest = BSPForestRegressor(2, random_state=0).fit(X, y)
    forest.save(str(tmp_path / "a"), overwrite=False)
    with pytest.raises(FileExistsError):
        forest.save(tmp_path / "a", overwrite=False)
    os.chmod(tmp_path / "a", 0o640)
    (tmp_path / "link").symlink_to("a")
    forest.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    with pytest.raises(FileNotFoundError):
        forest.save(tmp_path / "missing" / "a")
    with pytest.raises(FileNotFoundError):
        bspforest.load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        forest.save(tmp_path)
    (tmp_path / "text").write_text("not a model\n" * 20)
    with pytest.raises(ModelFileError, match="not a bspforest model file"):
        bspforest.load(tmp_path / "text")
    assert sorted(os.listdir(tmp_path)) == ["a", "link", "text"]


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a character device", "a directory", "a block device"])
def test_only_regular_files_are_replaced(tmp_path, kind, overwrite):
    """Nothing else is replaced, not through links either, and nothing is written."""
    special = tmp_path / "special"
    if kind == "a pipe":
        os.mkfifo(special)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(special))
    elif kind == "a directory":
        special.mkdir()
    else:
        try:
            number = (
                os.makedev(1, 3) if kind == "a character device" else os.makedev(7, 200)
            )  # as /dev/null; a loop device
            os.mknod(special, 0o600 | (stat.S_IFCHR if kind == "a character device" else stat.S_IFBLK), number)
        except PermissionError:
            pytest.skip("making devices is not allowed here")
    (tmp_path / "link").symlink_to("special")
    before = special.lstat()
    forest = make_forest(*hostile.KINDS[0])
    expected = IsADirectoryError if kind == "a directory" else NotARegularFileError
    for path in (special, tmp_path / "link"):
        with pytest.raises(expected, match=f"is {kind}, not a regular file"):
            save(forest, path, overwrite=overwrite)
        with pytest.raises(expected), Saver(path) as saver:
            saver.save(forest)
    after = special.lstat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "special"]


def test_a_pipe_that_has_no_name_is_not_replaced(tmp_path):
    """The link /dev/fd/N leads to a pipe that realpath cannot name."""
    if not os.path.isdir("/dev/fd"):
        pytest.skip("needs /dev/fd")
    reading, writing = os.pipe()
    try:
        with pytest.raises(NotARegularFileError, match="is a pipe"):
            save(make_forest(*hostile.KINDS[0]), f"/dev/fd/{writing}")
    finally:
        os.close(reading)
        os.close(writing)


def save_for_ever(path, seed):
    X = np.random.default_rng(0).random((2000, 3))
    forests = [BSPForestRegressor(5, random_state=seed).fit(X[:n], X[:n, 0]) for n in (1000, 2000)]
    for k in count():
        save(forests[k % 2], path, extra={"k": k, "n": forests[k % 2].n_samples_})


def start_saver(path, seed):
    """Start a process that saves two forests in turn."""
    process = multiprocessing.get_context("fork").Process(target=save_for_ever, args=(path, seed))
    process.start()
    return process


def load_whole(path):
    """Load a file of `save_for_ever`, and return how many it had saved before."""
    forest, extra = load_with_extra(path)
    assert forest.n_samples_ == extra["n"]
    return extra["k"]


def find_temporary(folder):
    return {name for name in os.listdir(folder) if name.startswith(PREFIX)}


def test_killed_while_saving(tmp_path):
    """A process killed at any moment leaves a complete file. The next save removes the temporary one."""
    path, rng = tmp_path / "m", np.random.default_rng(0)
    deadline = time.monotonic() + 120
    rounds = left = 0
    make_forest(*hostile.KINDS[0]).save(path, extra={"k": -1, "n": 80})
    while rounds < 20 or not left:  # until some were killed while writing
        before = find_temporary(tmp_path)
        process = start_saver(path, 0)
        while find_temporary(tmp_path) <= before:
            assert process.is_alive() and time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(0.01 * rng.random())
        process.kill()
        process.join()
        load_whole(path)
        rounds += 1
        left += len(find_temporary(tmp_path))
    make_forest(*hostile.KINDS[0]).save(path)
    assert os.listdir(tmp_path) == ["m"]


def test_two_processes_save_while_a_third_loads(tmp_path):
    path = tmp_path / "m"
    deadline = time.monotonic() + 120
    savers = [start_saver(path, seed) for seed in (0, 1)]
    seen, loads = set(), 0
    try:
        while loads < 60 or len(seen) < 4:
            assert all(process.is_alive() for process in savers) and time.monotonic() < deadline
            if path.exists():
                seen.add(load_whole(path))
                loads += 1
    finally:
        for process in savers:
            process.kill()
            process.join()


def test_file_size_limit(tmp_path):
    """If a file cannot grow, as on a full disk, the old file is unchanged and no temporary file is left."""
    X, y = make_stream(3000)
    forest = BSPForestRegressor(5, random_state=0).fit(X[:300], y[:300])
    forest.save(tmp_path / "m")
    old = (tmp_path / "m").read_bytes()
    forest.partial_fit(X, y)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (10, 5000, 100_000):
        with Saver(tmp_path / "m") as saver:
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
                with pytest.raises(OSError, match="File too large") as caught:
                    forest.save(tmp_path / "m")
                saver.save(forest)
                with pytest.raises(OSError, match="File too large"):
                    saver.save(forest)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.errno == errno.EFBIG
        assert (tmp_path / "m").read_bytes() == old
        assert os.listdir(tmp_path) == ["m"]


def test_full_disk(tmp_path):
    """Save to a small file system that is mounted for the test, where that is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system is not allowed here")
    try:
        X, y = make_stream(3000)
        forest = BSPForestRegressor(5, random_state=0).fit(X[:100], y[:100])
        forest.save(disk / "m")
        old = (disk / "m").read_bytes()
        forest.partial_fit(X, y)
        with pytest.raises(OSError) as caught:  # noqa: PT011
            forest.save(disk / "m")
        assert caught.value.errno == errno.ENOSPC
        assert (disk / "m").read_bytes() == old and os.listdir(disk) == ["m"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)
