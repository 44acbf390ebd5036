"""One row at a time through the river interface: predict_one and learn_one with 10 trees, next to river's AMFRegressor.

The two models take turns on one stream, so that a slow phase of the machine affects both. Turns are long enough for each
model to have its data in the caches again. The results are medians over turns. ``python benchmarks/river_one.py`` prints a
table; ``--profile`` shows where the time of the forest is spent.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

import numpy as np
from river import base
from river.forest import AMFRegressor

from bspforest.river import BSPForestRegressor

N_ROWS = 1000  # per line of the table
TURN = 200  # rows before the other model takes its turn


def make_stream(n: int, d: int = 8, seed: int = 0) -> list[tuple[dict, float]]:
    """Return uniform features, and noise as labels as in benchmarks/run.py."""
    rng = np.random.default_rng(seed)
    names = [f"x{k}" for k in range(d)]
    X, y = rng.random((n, d)).tolist(), rng.random(n).tolist()
    return [(dict(zip(names, x, strict=True)), label) for x, label in zip(X, y, strict=True)]


def run_pairs(model: base.Regressor, rows: list[tuple[dict, float]]) -> float:
    """Return the CPU time of predict_one and learn_one for all rows."""
    started = time.process_time()
    for x, y in rows:
        model.predict_one(x)
        model.learn_one(x, y)
    return time.process_time() - started


def show_profile(stream: list[tuple[dict, float]]) -> None:
    """Print a profile of the forest on the last rows of the stream."""
    model = BSPForestRegressor(10, seed=0, prediction="mean")
    run_pairs(model, stream[:-N_ROWS])
    with cProfile.Profile() as profile:
        run_pairs(model, stream[-N_ROWS:])
    pstats.Stats(profile).sort_stats("tottime").print_stats(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    stream = make_stream(args.rows)
    run_pairs(BSPForestRegressor(2, prediction="mean"), stream[:50])  # compile
    if args.profile:
        show_profile(stream)
        return
    models = [BSPForestRegressor(10, seed=0, prediction="mean"), AMFRegressor(10, seed=0)]
    print("| rows held | BSPForestRegressor, µs per row | AMFRegressor, µs per row | ratio |\n|---|---|---|---|")
    ratios = []
    for start in range(0, args.rows, N_ROWS):
        turns = range(start, min(start + N_ROWS, args.rows), TURN)
        times = np.array([[run_pairs(model, stream[k : k + TURN]) for model in models] for k in turns])
        ours, theirs = np.median(times, axis=0) / TURN * 1e6
        ratios.append(np.median(times[:, 1] / times[:, 0]))
        print(f"| {start:,} to {start + N_ROWS:,} | {ours:.0f} | {theirs:.0f} | {ratios[-1]:.1f} |", flush=True)
    print(f"\nlearn_one + predict_one, speed relative to AMFRegressor, median over the stream: {np.median(ratios):.1f}")
    print("target: at least 15")


if __name__ == "__main__":
    main()
