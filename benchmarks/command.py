"""Overhead of the command ``bspforest``: reading, encoding and checkpoints relative to learning, quantiles relative to predicting.

``python benchmarks/command.py`` prints a table for 100,000 rows of 8 columns and a target in a CSV file, with 10 trees. With
more trees the overhead is the same or smaller; ``--trees 100`` measures that.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bspforest.cli.main import main

Row = tuple[str, str, str]  # quantity, measured value, target
ROWS, COLUMNS = 100_000, 8


def write_csv(path: Path) -> None:
    """Write a simulated dataset."""
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, COLUMNS))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 10 * X[:, 3] + rng.normal(size=ROWS)
    header = ",".join([*(f"x{k}" for k in range(COLUMNS)), "y"])
    np.savetxt(path, np.column_stack([X, y]), fmt="%.6f", delimiter=",", header=header, comments="")


def run_command(*arguments: object) -> tuple[float, float]:
    """Run a command and return its wall time and the CPU time of this thread."""
    wall, thread = time.perf_counter(), time.thread_time()
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([str(argument) for argument in arguments]) == 0
    return time.perf_counter() - wall, time.thread_time() - thread


def bench_evaluate(data: Path, folder: Path, trees: int, rounds: int) -> Iterator[Row]:
    """Measure the fraction of the time that is not spent in the forest."""
    shares = []
    for _ in range(rounds):
        wall, _ = run_command("evaluate", data, "--target", "y", "--trees", trees, "--json", folder / "scores.json")
        forest = json.loads((folder / "scores.json").read_text())["models"][0]["seconds"]
        shares.append((wall - forest) / wall)
    what = f"evaluate, {trees} trees: fraction of the time for reading, encoding and bookkeeping"
    yield what, f"{min(shares):.1%}", "at most 25%"


def bench_checkpoints(data: Path, folder: Path, trees: int, rounds: int) -> Iterator[Row]:
    """Compare learning with and without checkpoints, in turn."""
    best: dict[int, np.ndarray] = {}
    for _ in range(rounds):
        for every in (10_000, 10 * ROWS):
            seconds = run_command(
                *(
                    "learn",
                    data,
                    "--target",
                    "y",
                    "--model",
                    folder / "m.bsp",
                    "--overwrite",
                    "--prediction",
                    "mean",
                    "--trees",
                    trees,
                ),
                *("--checkpoint-rows", every),
            )
            best[every] = np.minimum(best.get(every, np.inf), seconds)
    wall, thread = best[10_000] / best[10 * ROWS] - 1
    what = f"learn, {trees} trees, a checkpoint every 10,000 rows ({(folder / 'm.bsp').stat().st_size / 1e6:.0f} MB at the end)"
    yield f"{what}: increase of the time", f"{wall:+.1%}", "at most 10%"
    yield f"{what}: increase of the CPU time of the learning thread", f"{thread:+.1%}", ""


def bench_predict(data: Path, folder: Path, trees: int, rounds: int) -> Iterator[Row]:
    """Compare predicting with standard deviations and quantiles with predicting alone, in turn."""
    model, learned, asked, out = (folder / name for name in ("p.bsp", "learned.csv", "asked.csv", "p.csv"))
    lines = data.read_text().splitlines(keepends=True)
    learned.write_text("".join(lines[:50_001]))
    asked.write_text("".join(lines[:1] + lines[-60_000:]))
    for values in ("mean", "ridge"):
        learning = ("learn", learned, "--target", "y", "--model", model, "--overwrite", "--prediction", values)
        run_command(*learning, "--trees", trees)
        best: dict[tuple[str, ...], float] = {}
        for _ in range(rounds):
            for options in ((), ("--std", "--quantiles", "0.05,0.5,0.95")):
                seconds, _ = run_command("predict", model, asked, "-o", out, "--overwrite", *options)
                best[options] = min(best.get(options, np.inf), seconds)
        alone, all_of_it = best.values()
        what = f"predict --std --quantiles 0.05,0.5,0.95 of 60,000 rows, {trees} trees of 50,000, {values} values"
        yield f"{what} ({all_of_it:.1f} s): time relative to predict", f"{all_of_it / alone:.2f}", "at most 3"


def print_table() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| quantity | measured | target |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_csv(folder / "data.csv")
        run_command("evaluate", folder / "data.csv", "--target", "y", "--trees", 2, "--max-rows", 2000)  # compile
        run_command(
            *(
                "learn",
                folder / "data.csv",
                "--target",
                "y",
                "--prediction",
                "mean",
                "--trees",
                2,
                "--model",
                folder / "w.bsp",
            ),
            *("--checkpoint-rows", 50_000),
        )
        for bench in (bench_evaluate, bench_checkpoints, bench_predict):
            for row in bench(folder / "data.csv", folder, options.trees, options.rounds):
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    print_table()
