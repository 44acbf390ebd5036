"""Size and time of compressed model files, and of other codecs on the same bytes.

``python benchmarks/compression.py files`` compares saving and loading with and without compression, and
``python benchmarks/compression.py codecs`` measures codecs on the common blocks and four trees of each model in chunks
of a MiB, as they are and shuffled. Datasets are read from the folder named by BSPFOREST_DATA; what needs one is skipped, with a
notice, if it is not there. Codecs that are not installed are left out. All times are CPU times, which other processes and slow
disks change least; several threads compress and load.
"""

from __future__ import annotations

import importlib
import lzma
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor, datasets
from bspforest.persistence.compression import FRAME, deflate, inflate, split
from bspforest.persistence.writer import COMMON, make_content

ROUNDS, TREES_MEASURED = 3, 4

Codec = tuple[Callable[[bytes], Any], Callable[[Any, int], Any]]


def make_models() -> Iterator[tuple[str, Any]]:
    """Yield fitted forests of 20 trees, with their names."""
    jobs = [
        ("airline, 50,000 rows, joint", datasets.load_airline, 50_000, BSPForestRegressor, "joint"),
        ("airline, 200,000 rows, mean", datasets.load_airline, 200_000, BSPForestRegressor, "mean"),
        ("uk_prices, 50,000 rows, joint", datasets.load_uk_prices, 50_000, BSPForestRegressor, "joint"),
        ("letter, 20,000 rows, joint", datasets.load_letter, None, BSPForestClassifier, "joint"),
        ("letter, 20,000 rows, mean", datasets.load_letter, None, BSPForestClassifier, "mean"),
        ("usps, 9,298 rows, joint", datasets.load_usps, None, BSPForestClassifier, "joint"),
        ("usps, 9,298 rows, mean", datasets.load_usps, None, BSPForestClassifier, "mean"),
    ]
    for name, load, n, kind, values in jobs:
        try:
            data = load()
        except (OSError, ValueError) as error:
            print(f"{name} is skipped: {error}")
            continue
        yield name, kind(20, values=values, random_state=0).fit(data.data[:n], data.target[:n])
    rng = np.random.default_rng(0)
    X = rng.random((50_000, 10))
    for values in ("joint", "mean"):
        yield f"uniform, 50,000 rows, {values}", BSPForestRegressor(20, values=values, random_state=0).fit(X, X[:, 0])


def measure(call: Callable[[], Any]) -> float:
    """Return the shortest CPU time of some calls, of all threads, in seconds."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def bench_files(folder: Path) -> None:
    """Print the size of files, and the time to save and load them, without and with compression."""
    print(
        "| model | MB | compressed | ratio | save, s | compressed | load, s | compressed |\n|---|---|---|---|---|---|---|---|"
    )
    for name, forest in make_models():
        sizes, saves, loads = [], [], []
        for compress in (False, True):
            path = folder / f"{compress}.bsp"
            saves.append(measure(lambda f=forest, path=path, compress=compress: f.save(path, compress=compress)))
            loads.append(measure(lambda path=path: bspforest.load(path)))
            sizes.append(os.path.getsize(path))
        print(
            f"| {name} | {sizes[0] / 1e6:.0f} | {sizes[1] / 1e6:.0f} | {sizes[0] / sizes[1]:.2f} | {saves[0]:.2f} | "
            f"{saves[1]:.2f} | {loads[0]:.2f} | {loads[1]:.2f} |",
            flush=True,
        )


def find_codecs() -> dict[str, Codec]:
    """Return functions that compress bytes and decompress them to a known size, by name."""
    codecs: dict[str, Codec] = {}
    for level in (1, 6):
        codecs[f"zlib {level}"] = (lambda data, n=level: zlib.compress(data, n), lambda data, _: zlib.decompress(data))
    codecs["lzma 0"] = (lambda data: lzma.compress(data, preset=0), lambda data, _: lzma.decompress(data))
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ImportError:
        pass
    else:
        for level in (1, 3, 9):
            codecs[f"zstandard {level}"] = (
                zstandard.ZstdCompressor(level=level).compress,
                lambda data, _: zstandard.ZstdDecompressor().decompress(data),
            )
    try:
        arrow: Any = importlib.import_module("pyarrow")
    except ImportError:
        pass
    else:
        for codec in ("zstd", "lz4"):
            codecs[f"pyarrow {codec}"] = (
                lambda data, codec=codec: arrow.compress(data, codec=codec),
                lambda data, n, codec=codec: arrow.decompress(data, decompressed_size=n, codec=codec),
            )
    return codecs


def bench_codecs(_: Path) -> None:
    """Print ratio and speed of codecs, of the bytes as they are and shuffled."""
    print("| model | codec | bytes | ratio | MB/s | MB/s back |\n|---|---|---|---|---|---|")
    codecs = find_codecs()
    for name, forest in make_models():
        content = forest._read_refreshed(lambda forest=forest: make_content(forest, None))
        blocks = [content.blocks[k] for k in range(len(COMMON) + TREES_MEASURED)]
        chunks = [chunk for block in blocks for array in block for chunk in split(array)]
        shuffled = [chunk.T.tobytes() for chunk in chunks]
        for codec, (compress, decompress) in codecs.items():
            print_row(name, codec, "as they are", [chunk.tobytes() for chunk in chunks], compress, decompress)
            print_row(name, codec, "shuffled", shuffled, compress, decompress)
        print_row(
            name, "as in model files", "shuffled", chunks, deflate, lambda data, n: inflate(data[FRAME.size :], n)
        )


def print_row(name: str, codec: str, kind: str, data: list[Any], compress: Any, decompress: Any) -> None:
    """Measure a codec and print a row of the table."""
    sizes = [chunk.nbytes if isinstance(chunk, np.ndarray) else len(chunk) for chunk in data]
    started = time.process_time()
    stored = [compress(chunk) for chunk in data]
    between = time.process_time()
    for each, n in zip(stored, sizes, strict=True):
        decompress(each, n)
    times = between - started, time.process_time() - between
    total = sum(sizes)
    speeds = " | ".join(f"{total / 1e6 / t:.0f}" for t in times)
    print(f"| {name} | {codec} | {kind} | {total / sum(map(len, stored)):.2f} | {speeds} |", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        {"files": bench_files, "codecs": bench_codecs}[sys.argv[1]](Path(folder))
