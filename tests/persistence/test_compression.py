"""Compressed files hold the same bytes as others, in less space; damaged and forged ones raise a `ModelFileError`."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
import tracemalloc
import zlib
from pathlib import Path

import hostile
import numpy as np
import pytest
import resumable
from hostile import copy_content, make_forest, same, with_header

import bspforest
from bspforest import BSPForestRegressor, ModelFileError
from bspforest.engine.kernels.checksum import checksum
from bspforest.persistence import Saver, compression, load_with_extra, read_header, save
from bspforest.persistence.compression import FRAME, LARGEST_CHUNK, MOST_RATIO, deflate, inflate
from bspforest.persistence.writer import COMMON, PER_TREE, PREAMBLE, write_content


def read_plainly(data):
    """Return the table and the blocks of a compressed file, as docs/guide/model-files.md says and without any check."""
    n_header, n_blocks = struct.unpack_from("<QQ", data, 16)
    table = np.frombuffer(data, np.uint64, 2 * n_blocks, 64 + n_header).reshape(2, n_blocks)
    at = 64 + n_header + table.nbytes
    blocks = []
    for size in table[1].tolist():
        end, chunks = at + size, []
        while at < end:
            stored, n = struct.unpack_from("<II", data, at)
            planes = zlib.decompress(data[at + 8 : at + 8 + stored], -15)
            assert len(planes) == n
            chunks.append(planes)
            at += 8 + stored
        blocks.append(chunks)
    assert at == len(data)
    return table, blocks


def count_bytes(chunks):
    """Return how often each byte occurs: shuffling does not change that."""
    return np.bincount(np.frombuffer(b"".join(chunks), np.uint8), minlength=256).tolist()


@pytest.mark.parametrize("kind", hostile.KINDS, ids=str)
def test_round_trip(kind, tmp_path):
    """Fails if two planes are exchanged, or if what is not in use is not wiped."""
    forest = make_forest(*kind)
    forest.save(tmp_path / "plain", extra={"a": 1})
    forest.save(tmp_path / "m", extra={"a": 1}, compress=True)
    with Saver(tmp_path / "background", compress=True) as saver:
        saver.save(forest, extra={"a": 1})
    plain = (tmp_path / "plain").read_bytes()
    n_header, n_blocks = struct.unpack_from("<QQ", plain, 16)
    for name in ("m", "background"):
        loaded, extra = load_with_extra(tmp_path / name, check="fully")
        assert same(loaded, forest) and extra == {"a": 1}
        data = (tmp_path / name).read_bytes()
        assert len(data) < 0.8 * len(plain)
        table, blocks = read_plainly(data)
        assert table[0].tobytes() == plain[64 + n_header :][: 8 * n_blocks]
        content = plain[64 + n_header + 8 * n_blocks :]
        for chunks in blocks:
            size = sum(map(len, chunks))
            assert count_bytes(chunks) == count_bytes([content[:size]])
            content = content[size:]
        assert not content
    X = np.random.default_rng(0).random((30, 3))
    for each in (forest, loaded):
        each.partial_fit(X, np.arange(30) % 3)
    assert same(loaded, forest)


@pytest.mark.parametrize("kind", resumable.KINDS)
def test_joint_values_of_all_kinds(kind, tmp_path):
    forest = resumable.start(kind, None)
    for k in range(resumable.FIRST, resumable.FIRST + 40):
        resumable.step(forest, kind, k)
    forest.save(tmp_path / "m", compress=True)
    assert same(bspforest.load(tmp_path / "m", check="fully"), forest)


def test_a_forest_without_rows(tmp_path):
    forest = make_forest(*hostile.KINDS[0])
    forest.forget(forest.held_rows().ids).save(tmp_path / "m", compress=True)
    assert same(bspforest.load(tmp_path / "m", check="fully"), forest)


def test_arrays_of_many_chunks(tmp_path, monkeypatch):
    """Large arrays are split, also where rows are wiped in parts; any number of threads writes and reads the same bytes."""
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 6))
    forest = BSPForestRegressor(3, values="mean", random_state=0).fit(X, X[:, 0]).forget(np.arange(0, 20_000, 7))
    save(forest, tmp_path / "m", extra={}, compress=True)
    monkeypatch.setattr("bspforest.persistence.header.datetime", FixedTime)
    files = []
    for n_threads, batch, chunk, copied in ((1, 2**21, 2**16, 2**24), (3, 2**14, 2**16, 2**24), (8, 1, 2**14, 10_000)):
        monkeypatch.setattr(compression, "MOST_THREADS", n_threads)
        monkeypatch.setattr("os.cpu_count", lambda: 8)
        monkeypatch.setattr(compression, "BATCH", batch)
        monkeypatch.setattr(compression, "LARGEST_CHUNK", chunk)
        monkeypatch.setattr("bspforest.persistence.writer.MOST_COPIED", copied)
        save(forest, tmp_path / "m", extra={}, compress=True)
        files.append((tmp_path / "m").read_bytes())
        monkeypatch.setattr(compression, "LARGEST_CHUNK", LARGEST_CHUNK)
        assert same(bspforest.load(tmp_path / "m", check="fully"), forest)
    assert files[0] == files[1] != files[2]
    assert max(map(len, read_plainly(files[2])[1])) > 20


class FixedTime:
    """The time of all saves."""

    @staticmethod
    def now(zone):
        """Return a time that does not change."""
        return FixedTime

    @staticmethod
    def isoformat(timespec):
        """Return it as text."""
        return "2000-01-01T00:00:00+00:00"


def test_other_files_are_as_before(tmp_path):
    """Readers from before compression read files that are not compressed, and refuse the others by their format."""
    forest = make_forest(*hostile.KINDS[4])
    forest.save(tmp_path / "plain")
    forest.save(tmp_path / "m", compress=True)
    plain, compressed = ((tmp_path / name).read_bytes() for name in ("plain", "m"))
    assert struct.unpack_from("<Q", plain, 8) == (2,) and struct.unpack_from("<Q", compressed, 8) == (258,)
    assert "compression" not in read_header(tmp_path / "plain")
    content = copy_content(forest)
    n_bytes = sum(array.nbytes for block in content.blocks for array in block)
    n_header = int.from_bytes(plain[16:24], "little")
    assert len(plain) == 64 + n_header + 8 * len(content.blocks) + n_bytes
    assert read_header(tmp_path / "m")["compression"] == {"codec": "shuffle+deflate", "bytes": n_bytes}


CHUNKS = {
    "zeros": np.zeros((2**17, 8), np.uint8),
    "noise": np.random.default_rng(0).integers(0, 256, (2**14, 64)).astype(np.uint8),
    "numbers": np.arange(1000.0).view(np.uint8).reshape(-1, 8),
    "one item": np.arange(12, dtype=np.uint8).reshape(1, 12),
    "noise beside zeros": np.pad(
        np.random.default_rng(1).integers(0, 256, (5000, 4)).astype(np.uint8), ((0, 0), (0, 4))
    ),
}


@pytest.mark.parametrize("name", CHUNKS)
def test_chunks(name):
    """What is flat is stored as it is, and nothing is stored in less than a 64th: fails without filling up zeros."""
    items = CHUNKS[name]
    data = deflate(items)
    stored, n = FRAME.unpack_from(data)
    assert stored == len(data) - FRAME.size and n == items.nbytes
    assert items.nbytes / MOST_RATIO <= stored <= 1.001 * items.nbytes + 50
    assert inflate(data[FRAME.size :], n) == items.T.tobytes()
    if name == "noise beside zeros":
        assert stored < 0.52 * n
    if name == "zeros":
        assert stored < 1.01 * n / MOST_RATIO


def test_data_that_compress_extremely_well(tmp_path):
    """The rows are all zero but for one feature. What is written is accepted."""
    X = np.zeros((3000, 300))
    X[:, 0] = np.arange(3000)
    forest = BSPForestRegressor(1, values="mean", scaling=None, budget=0.001, random_state=0).fit(X, X[:, 0])
    forest.save(tmp_path / "m", compress=True)
    assert same(bspforest.load(tmp_path / "m", check="fully"), forest)
    assert (tmp_path / "m").stat().st_size < forest.nbytes_ / 30


# ----------------------------------------------------------------------------------------------------------------------
# Damage


def reframe(data, stored=None, n=None):
    """Return a stored chunk with another frame."""
    old = FRAME.unpack_from(data)
    return FRAME.pack(old[0] if stored is None else stored, old[1] if n is None else n) + data[FRAME.size :]


def frame(n, body):
    """Return a body with a frame that says that it inflates to n bytes."""
    return FRAME.pack(len(body), n) + body


def deflate_plainly(content):
    """Return the deflated bytes."""
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    return compressor.compress(content) + compressor.flush()


def make_noise(n):
    """Return n random bytes."""
    return np.random.default_rng(0).bytes(n)


def get_size(data):
    """Return how many bytes a chunk holds."""
    return FRAME.unpack_from(data)[1]


CHUNK_FORGERIES = {
    "a bomb": (lambda data: frame(get_size(data), deflate_plainly(bytes(2**23))), "inflates to more than|is stored in"),
    "one byte more": (
        lambda data: frame(get_size(data), deflate_plainly(make_noise(get_size(data) + 1))),
        "inflates to more",
    ),
    "one byte less": (
        lambda data: frame(get_size(data), deflate_plainly(make_noise(get_size(data) - 1))),
        "does not inflate",
    ),
    "no end": (lambda data: frame(get_size(data), data[FRAME.size : -2]), "does not inflate"),
    "more after the end": (lambda data: frame(get_size(data), data[FRAME.size :] + b"\0"), "does not inflate"),
    "not deflated": (lambda data: frame(get_size(data), b"\xff" * (len(data) - FRAME.size)), "damaged: Error -3"),
    "nothing": (lambda data: b"", "too short|a chunk"),
    "half a frame": (lambda data: data[:4], "too short"),
    "no content": (lambda data: reframe(data, n=0), "would have 0 bytes"),
    "half an item": (lambda data: reframe(data, n=get_size(data) - 1), "a chunk would have"),
    "more than the array": (lambda data: reframe(data, n=get_size(data) + 64), "a chunk would have"),
    "less than the array": (lambda data: reframe(data, n=get_size(data) - 64), "too short"),
    "beyond the block": (lambda data: reframe(data, stored=len(data)), "is stored in"),
    "beyond all": (lambda data: reframe(data, stored=2**32 - 1), "is stored in"),
    "another chunk": (lambda data: data + data, "too long"),
}


@pytest.mark.parametrize("name", CHUNK_FORGERIES)
@pytest.mark.parametrize("block", ["rows", "tree"])
def test_forged_chunks(name, block, tmp_path, monkeypatch):
    """All checksums are right, but a chunk is not. Fails, for each of them, without one of the checks in `compression`."""
    forge, match = CHUNK_FORGERIES[name]
    content = copy_content(make_forest(*hostile.KINDS[0]), compress=True)
    wanted = content.blocks[COMMON.index("rows")][0] if block == "rows" else content.blocks[-1][-2]
    forged = []

    def deflate_wrongly(items):
        data = deflate(items)
        if items.base is not None and np.shares_memory(items, wanted):
            data = forge(data)
            forged.append(data)
        return data

    monkeypatch.setattr(compression, "deflate", deflate_wrongly)
    write_content(content, tmp_path / "m", overwrite=True)
    assert len(forged) == 1
    with pytest.raises(ModelFileError, match=match) as error:
        bspforest.load(tmp_path / "m")
    assert str(error.value).startswith(f"{tmp_path / 'm'}: ")


def test_other_content_with_right_chunks(tmp_path, monkeypatch):
    """A chunk that inflates to as many other bytes has the wrong checksum."""
    content = copy_content(make_forest(*hostile.KINDS[0]), compress=True)
    monkeypatch.setattr(compression, "deflate", lambda items: deflate(items ^ (items.shape[1] == 8)))
    write_content(content, tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError, match="block 'rows' is damaged: its checksum is wrong"):
        bspforest.load(tmp_path / "m")


HEADER_FORGERIES = {
    "more content": (lambda h: h["compression"].__setitem__("bytes", h["compression"]["bytes"] + 8), "do not add up"),
    "less content": (lambda h: h["compression"].__setitem__("bytes", h["compression"]["bytes"] - 8), "do not add up"),
    "no content": (lambda h: h["compression"].__setitem__("bytes", 0), "too short for the sizes"),
    "too much content": (lambda h: h["compression"].__setitem__("bytes", 10**12), "more than 64 times as many"),
    "not a number": (lambda h: h["compression"].__setitem__("bytes", "many"), "the size of all blocks is many"),
    "another codec": (lambda h: h["compression"].__setitem__("codec", "lzma"), "reads 'shuffle.deflate'"),
    "no codec": (lambda h: h["compression"].pop("codec"), "lacks 'codec'"),
    "no entry": (lambda h: h.pop("compression"), "says otherwise"),
    "a list": (lambda h: h.__setitem__("compression", []), "of type list"),
}


@pytest.mark.parametrize("name", HEADER_FORGERIES)
def test_forged_headers(name, tmp_path):
    forge, match = HEADER_FORGERIES[name]
    content = copy_content(make_forest(*hostile.KINDS[0]), compress=True)
    write_content(with_header(content, forge), tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError, match=match):
        bspforest.load(tmp_path / "m")


@pytest.mark.parametrize(("number", "compressed"), [(257, True), (259, True), (514, True), (2, True), (258, False)])
def test_forged_formats(number, compressed, tmp_path):
    """There are no compressed files of format 1, other formats are unknown, and the number must agree with the header."""
    content = copy_content(make_forest(*hostile.KINDS[0]), compress=compressed)
    write_content(content, tmp_path / "m", overwrite=True)
    data = bytearray((tmp_path / "m").read_bytes())
    fields = [*PREAMBLE.unpack_from(data)[:-1]]
    fields[1] = number
    words = np.frombuffer(PREAMBLE.pack(*fields, 0), np.uint32)
    data[: PREAMBLE.size] = PREAMBLE.pack(*fields, checksum(words))
    (tmp_path / "m").write_bytes(data)
    match = "says otherwise" if number in (2, 258) else f"format {number}; this version of bspforest reads"
    with pytest.raises(ModelFileError, match=match):
        bspforest.load(tmp_path / "m")


def test_a_block_that_is_stored_elsewhere(tmp_path, monkeypatch):
    """The bytes of the blocks are in the table, and must add up to the size of the file."""
    content = copy_content(make_forest(*hostile.KINDS[0]), compress=True)
    true = compression.deflate_all

    def count_wrongly(chunks, n_threads):
        for k, data in true(chunks, n_threads):
            yield (k + 1 if k == 3 else k), data

    monkeypatch.setattr("bspforest.persistence.writer.deflate_all", count_wrongly)
    write_content(content, tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError, match="too short"):
        bspforest.load(tmp_path / "m")


def test_a_bomb_takes_no_memory(tmp_path, monkeypatch):
    """128 MiB of zeros, deflated to half a MB, are given up after a chunk. Fails without a limit for zlib."""
    content = copy_content(make_forest(*hostile.KINDS[0]), compress=True)
    bomb = deflate_plainly(bytes(2**27))
    monkeypatch.setattr(compression, "MOST_ADDED", 2**30)
    monkeypatch.setattr(
        compression, "deflate", lambda items: frame(items.nbytes, bomb) if items.nbytes > 1000 else deflate(items)
    )
    write_content(content, tmp_path / "m", overwrite=True)
    bspforest.load(Path(__file__).parent / "data" / "format1-regressor.bsp")  # imports and compiles
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="inflates to more than"):
            bspforest.load(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_a_small_file_cannot_ask_for_much_memory(tmp_path):
    """Sizes that agree with each other are refused if they are more than 64 times the file."""

    def claim(header):
        header["forest"] |= {"n_slots": 10**8, "n_ids": 10**8, "n_held": 10**8, "n_free": 0}
        header["compression"]["bytes"] = 10**10

    content = copy_content(make_forest(*hostile.KINDS[0]), compress=True)
    write_content(with_header(content, claim), tmp_path / "m", overwrite=True)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="more than 64 times as many"):
            bspforest.load(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("check", [True, False])
def test_truncated_and_damaged_anywhere(tmp_path, check):
    """Any damage is refused, or in bytes that do not matter (between two parts of a chunk) makes no difference."""
    forest = make_forest(*hostile.KINDS[4])
    path = tmp_path / "m"
    forest.save(path, compress=True)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(good), 150).tolist():
        bad = bytearray(good)
        bad[at] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        try:
            assert same(bspforest.load(path, check=check), forest)
        except ModelFileError:
            refused += 1
    assert refused > 140
    for at in rng.integers(0, len(good), 20).tolist():
        path.write_bytes(good[:at])
        with pytest.raises(ModelFileError, match=r"truncated|too short"):
            bspforest.load(path, check=check)


def test_damaged_and_forged_files():
    """As in test_validation.py, where the files are not compressed."""
    arguments = [sys.executable, "-X", "faulthandler", hostile.__file__, "1", "10", "compress"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["failures"] == []
    assert result["refused"] > 1000 and result["refused_late"] > 2 and result["used"] > 20


# ----------------------------------------------------------------------------------------------------------------------
# Writing


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("how", ["save", "Saver"])
def test_a_save_that_fails_keeps_the_old_file(how, error, tmp_path, monkeypatch):
    """Chunks are compressed and written; then something fails, in the thread that compresses."""
    threads = set(threading.enumerate())
    path = tmp_path / "m"
    old = make_forest(*hostile.KINDS[0])
    old.save(path, compress=True)
    before = path.read_bytes()
    calls = []

    def fail_later(items):
        calls.append(len(os.listdir(tmp_path)))
        if len(calls) > 12:
            raise error
        return deflate(items)

    monkeypatch.setattr(compression, "deflate", fail_later)
    monkeypatch.setattr(compression, "BATCH", 1)
    forest = make_forest(*hostile.KINDS[1])
    saver = Saver(path, compress=True)
    if how == "Saver":
        saver.save(forest)
    with pytest.raises(error if isinstance(error, type) else OSError):
        saver.wait() if how == "Saver" else forest.save(path, compress=True)
    assert len(calls) > 12 and max(calls) > 1  # a temporary file was there
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["m"]
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("n_threads", [1, 3])
def test_few_chunks_are_compressed_at_a_time(n_threads):
    """What is compressed is handed on after 2 MiB per thread; fails if all of it is collected first."""
    items = np.random.default_rng(0).integers(0, 256, (2**15, 8)).astype(np.uint8)
    taken = 0

    def take():
        nonlocal taken
        for k in range(100):
            taken += 1
            yield k, items

    for k, data in compression.deflate_all(take(), n_threads):
        assert (taken - k) * items.nbytes <= n_threads * compression.BATCH
        assert inflate(data[FRAME.size :], items.nbytes) == items.T.tobytes()
    assert taken == 100


MEMORY = """
import resource, sys
import numpy as np
import bspforest
from bspforest import BSPForestRegressor
from bspforest.persistence import compression

def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

compression.MOST_THREADS = 2
path = sys.argv[1]
rng = np.random.default_rng(0)
X = rng.random((100_000, 100))
forest = BSPForestRegressor(2, values="mean", budget=0.001, random_state=0).fit(X, X[:, 0])
forest.save(path, compress=True)  # compiles, if need be, and starts threads
n_bytes = forest.nbytes_
resource.setrlimit(resource.RLIMIT_AS, (used() + 60 * 2**20, resource.RLIM_INFINITY))
forest.save(path, compress=True)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
del forest
resource.setrlimit(resource.RLIMIT_AS, (used() + n_bytes + 60 * 2**20, resource.RLIM_INFINITY))
bspforest.load(path, check=False)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_no_second_copy_of_the_forest(tmp_path):
    """Rows of 80 MB are compressed and inflated with 60 MB to spare; fails if a block is compressed in one piece."""
    subprocess.run([sys.executable, "-c", MEMORY, str(tmp_path / "m")], check=True, timeout=120)


def test_per_tree_blocks_end_where_the_table_says(tmp_path):
    """Trees are read in any order, each from where it starts."""
    forest = make_forest(*hostile.KINDS[5])
    forest.save(tmp_path / "m", compress=True)
    table, blocks = read_plainly((tmp_path / "m").read_bytes())
    assert table.shape == (2, len(COMMON) + 3)
    counts = forest._forest.trees.arrays.state["n_cuts"]
    assert list(PER_TREE)[-1] == "sums"
    for m, chunks in enumerate(blocks[len(COMMON) :]):
        assert len(chunks[-1]) == counts[m] * 8 * 3
