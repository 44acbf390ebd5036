"""Concept drift: a forest with a window and one without, on streams that change.

Each row is predicted and then learned, one at a time, through the river interface. There are two streams: a simulated one
whose labels follow a different rule in its second half, and Electricity (45,312 half hours of the market of New South Wales,
in time order), where three of the six features, those of the neighbouring state, are constant for the first 17,424 rows.
Electricity is read from ``stream_elec.npz`` in the folder named by BSPFOREST_DATA, and skipped if there is no such file.

``python benchmarks/drift.py`` prints the accuracy around the change and the memory of both forests after each window;
``--out FOLDER`` also draws a figure.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import psutil

from bspforest.river import BSPForestClassifier

WINDOW = 1000
TREES = 20


class Stream(NamedTuple):
    """A stream of rows with a change."""

    name: str
    X: np.ndarray
    y: np.ndarray
    change: int  # number of the first row after the change


class Run(NamedTuple):
    """The results of a forest on a stream."""

    correct: np.ndarray  # whether the label of each row was predicted correctly
    memory: np.ndarray  # memory of the forest after each window, in bytes
    process: np.ndarray  # memory of the process after each window, in bytes


def simulate(n: int = 24_000, seed: int = 0) -> Stream:
    """Simulate six uniform features; the label is the side of a line in two of them, and the line rotates by 90 degrees."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 6))
    before, after = X[:, 0] + X[:, 1] > 1, X[:, 0] > X[:, 1]
    return Stream("simulated", X, np.where(np.arange(n) < n // 2, before, after), n // 2)


def read_electricity() -> Stream | None:
    """Read the Electricity stream; None if there is no file."""
    path = Path(os.environ.get("BSPFOREST_DATA", ".")) / "stream_elec.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as data:
        X, y = data["X"].astype(float), data["y"]
    return Stream("Electricity", X, y, int(np.argmax(X[:, 3] != X[0, 3])))


def run_stream(stream: Stream, window: int | None, values: str) -> Run:
    """Predict and learn each row of a stream."""
    model = BSPForestClassifier(TREES, window=window, seed=0, prediction=values)
    names = [f"x{k}" for k in range(stream.X.shape[1])]
    correct = np.zeros(len(stream.X), dtype=bool)
    memory, process = [], []
    for k, (x, y) in enumerate(zip(stream.X.tolist(), stream.y.tolist(), strict=True)):
        row = dict(zip(names, x, strict=True))
        correct[k] = model.predict_one(row) == y
        model.learn_one(row, y)
        if (k + 1) % WINDOW == 0:
            memory.append(model._raw_memory_usage)
            process.append(psutil.Process().memory_info().rss)
    return Run(correct, np.array(memory), np.array(process))


def show_recovery(stream: Stream, runs: dict[str, Run]) -> None:
    """Print the accuracy before the change, right after it, after the window has passed it, and at the end."""
    c, w = stream.change, WINDOW
    spans = {
        "5 windows before the change": slice(c - 5 * w, c),
        "1st window after": slice(c, c + w),
        "2nd window after": slice(c + w, c + 2 * w),
        "3rd to 7th window after": slice(c + 2 * w, c + 7 * w),
        "from the change to the end": slice(c, None),
        "whole stream": slice(None),
    }
    print(f"\n## {stream.name}: {len(stream.X):,} rows, change at row {c:,}; accuracy in %\n")
    print("| rows | " + " | ".join(runs) + " |\n|---|" + "---|" * len(runs))
    for name, span in spans.items():
        print(f"| {name} | " + " | ".join(f"{100 * r.correct[span].mean():.1f}" for r in runs.values()) + " |")
    repeated = 100 * np.mean(stream.y[1:] == stream.y[:-1])
    print(f"\nFor comparison, predicting the previous label has an accuracy of {repeated:.1f} %.")


def show_memory(runs: dict[str, Run]) -> None:
    """Print the memory of the forests and of the process."""
    n = len(next(iter(runs.values())).memory)
    marks = sorted({*range(1, min(n, 12) + 1), *range(15, n + 1, 5), n})
    curves = {
        "windowed": runs["windowed"].memory,
        "process (windowed)": runs["windowed"].process,
        "unbounded": runs["unbounded"].memory,
    }
    print(f"\nMemory in KiB by number of windows of {WINDOW:,} rows:\n")
    print("| windows | " + " | ".join(curves) + " |\n|---|" + "---|" * len(curves))
    for mark in marks:
        print(f"| {mark} | " + " | ".join(f"{curve[mark - 1] / 1024:,.0f}" for curve in curves.values()) + " |")
    flat = runs["windowed"].memory[1:]
    print(f"\nwindowed, from the 2nd window on: ratio of largest to smallest memory {flat.max() / flat.min():.2f}")


def draw(results: dict[str, tuple[Stream, dict[str, Run]]], folder: Path) -> Path:
    """Draw the accuracy over the latest window and the memory along each stream, and return the path."""
    figure, axes = plt.subplots(
        2, len(results), figsize=(6 * len(results), 6), sharex="col", squeeze=False, height_ratios=[3, 2]
    )
    colours = {"windowed": "tab:blue", "unbounded": "tab:orange"}
    for (top, bottom), (stream, runs) in zip(axes.T, results.values(), strict=True):
        for name, result in runs.items():
            total = np.concatenate([[0], np.cumsum(result.correct)])
            accuracy = (total[WINDOW:] - total[:-WINDOW]) / WINDOW
            top.plot(np.arange(WINDOW, len(stream.X) + 1), 100 * accuracy, color=colours[name], label=name, lw=1)
            ends = WINDOW * np.arange(1, len(result.memory) + 1)
            bottom.plot(ends, result.memory / 2**20, color=colours[name], marker=".", lw=1)
        for axis in (top, bottom):
            axis.axvline(stream.change, color="grey", ls=":", lw=1)
            axis.grid(alpha=0.3)
        top.set_title(f"{stream.name} (dotted line: change)")
        bottom.set_xlabel("rows")
        bottom.set_ylim(bottom=0)
    axes[0, 0].set_ylabel(f"accuracy over the latest {WINDOW:,} rows (%)")
    axes[1, 0].set_ylabel("memory (MiB)")
    axes[0, 0].legend(loc="lower left")
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "drift.png"
    figure.savefig(path, dpi=110)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the figure")
    parser.add_argument("--prediction", default="ridge", choices=("ridge", "mean"), help="how trees are asked")
    options = parser.parse_args()
    out, values = options.out, options.values
    print(f"{TREES} trees, window {WINDOW:,}, {values} values")
    results = {}
    for stream in (simulate(), read_electricity()):
        if stream is None:
            print("\nElectricity is skipped: there is no stream_elec.npz in the folder named by BSPFOREST_DATA")
            continue
        runs = {"windowed": run_stream(stream, WINDOW, values), "unbounded": run_stream(stream, None, values)}
        results[stream.name] = (stream, runs)
        show_recovery(stream, runs)
        show_memory(runs)
    if out:
        print(f"\n{draw(results, out)}")


if __name__ == "__main__":
    main()
