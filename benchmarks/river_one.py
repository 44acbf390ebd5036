"""One row at a time through river's interface: predict_one, then learn_one, 10 trees, beside river's AMFRegressor.

Both take turns over one stream, so that a slow spell of the machine hits both; turns are long enough for each to find its data
in the caches again, as it would alone. The figures are medians over turns. ``python benchmarks/river_one.py`` prints a table; ``--profile`` shows where the forest's time goes.
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

PART = 1000  # rows a line of the table
TURN = 200  # rows before the other one's turn


def make_stream(n: int, d: int = 8, seed: int = 0) -> list[tuple[dict, float]]:
    """Uniform features and the label that benchmarks/run.py uses: noise."""
    rng = np.random.default_rng(seed)
    names = [f"x{k}" for k in range(d)]
    X, y = rng.random((n, d)).tolist(), rng.random(n).tolist()
    return [(dict(zip(names, x, strict=True)), label) for x, label in zip(X, y, strict=True)]


def run_pairs(model: base.Regressor, rows: list[tuple[dict, float]]) -> float:
    """Seconds of this process for predict_one and learn_one of all rows; what else the machine does is not counted."""
    begun = time.process_time()
    for x, y in rows:
        model.predict_one(x)
        model.learn_one(x, y)
    return time.process_time() - begun


def show_profile(stream: list[tuple[dict, float]]) -> None:
    model = BSPForestRegressor(10, seed=0)
    run_pairs(model, stream[:-PART])
    with cProfile.Profile() as profile:
        run_pairs(model, stream[-PART:])
    pstats.Stats(profile).sort_stats("tottime").print_stats(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    stream = make_stream(args.rows)
    run_pairs(BSPForestRegressor(2), stream[:50])  # compile
    if args.profile:
        show_profile(stream)
        return
    models = [BSPForestRegressor(10, seed=0), AMFRegressor(10, seed=0)]
    print("| rows held | BSPForestRegressor, µs a pair | AMFRegressor, µs a pair | ratio |\n|---|---|---|---|")
    ratios = []
    for start in range(0, args.rows, PART):
        turns = range(start, min(start + PART, args.rows), TURN)
        times = np.array([[run_pairs(model, stream[k : k + TURN]) for model in models] for k in turns])
        ours, theirs = np.median(times, axis=0) / TURN * 1e6
        ratios.append(np.median(times[:, 1] / times[:, 0]))
        print(f"| {start:,} to {start + PART:,} | {ours:.0f} | {theirs:.0f} | {ratios[-1]:.1f} |", flush=True)
    print(f"\nlearn_one + predict_one, times as fast as AMFRegressor, median over the stream: {np.median(ratios):.1f}")
    print("asked: at least 15")


if __name__ == "__main__":
    main()
