"""``bspforest demo``: a forest that learns as it predicts, on a simulated stream, beside a Mondrian and a batch forest.

The stream is Friedman's function of five features among eight. Every row is first predicted, then learned. A batch
random forest, refitted from time to time on all rows so far, shows what is lost by learning each row only once.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from ... import BSPForestRegressor
from ...datasets import make_friedman
from ...engine.progress import Progress
from ..errors import NoMatplotlib, UsageError
from ..pictures import check_picture, draw_curves
from ..progress import compile_kernels

NOISE = 1.0


class Runner:
    """A model, and how it fared."""

    def __init__(self, name: str, model, refit_every: int = 0) -> None:
        self.name, self.model, self.refit_every = name, model, refit_every
        self.seconds = 0.0
        self.errors: list[np.ndarray] = []
        self.fitted = 0

    def step(self, X: np.ndarray, y: np.ndarray, start: int, end: int) -> None:
        """Predict rows start to end, then learn them."""
        begun = time.perf_counter()
        if start > 0:
            self.errors.append((self.model.predict(X[start:end]) - y[start:end]) ** 2)
        if not self.refit_every:
            self.model.partial_fit(X[start:end], y[start:end])
        elif end - self.fitted >= self.refit_every or start == 0:
            self.model.fit(X[:end], y[:end])
            self.fitted = end
        self.seconds += time.perf_counter() - begun

    def rmse(self, last: int | None = None) -> float:
        return float(np.sqrt(np.concatenate(self.errors)[-last if last else None :].mean()))

    def curve(self, window: int) -> list[tuple[int, float]]:
        """After how many predictions, the RMSE over the latest ``window`` of them."""
        total = np.concatenate([[0.0], np.cumsum(np.concatenate(self.errors))])
        return list(enumerate(np.sqrt((total[window:] - total[:-window]) / window), start=window))


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.rows < 2_000:
        raise UsageError("--rows must be at least 2000")
    check_picture(options.output, "--output")
    X, y, _ = make_friedman(options.rows, 8, noise=NOISE, random_state=0)
    shared = {"n_estimators": options.trees, "random_state": 0}
    refit = options.rows // 5
    runners = [
        Runner("BSP forest, online", BSPForestRegressor(**shared)),
        # Pair cuts come d - 1 = 7 times as fast as axis cuts; so the two forests have about as many leaves.
        Runner("Mondrian forest, online", BSPForestRegressor(cuts="axes", budget_scale=7, **shared)),
        Runner(f"random forest, refitted every {refit:,} rows", RandomForestRegressor(n_jobs=-1, **shared), refit),
    ]
    compile_kernels()
    print(f"{options.rows:,} rows, each predicted and then learned; {options.trees} trees.", flush=True)
    chunk = 100
    progress = Progress(options.rows, "stream", "rows", enabled=True)
    for start in range(0, options.rows, chunk):
        end = min(start + chunk, options.rows)
        for runner in runners:
            runner.step(X, y, start, end)
        note = f"RMSE {runners[0].rmse(1000):.2f}" if start else ""
        progress.advance(end - start, note)
    last = options.rows // 4
    width = max(len(runner.name) for runner in runners)
    print(f"\n{'':{width}}  RMSE  last {last:,}  seconds")
    column = len(f"last {last:,}")
    for runner in runners:
        print(f"{runner.name:{width}}  {runner.rmse():4.2f}  {runner.rmse(last):>{column}.2f}  {runner.seconds:7.1f}")
    mean, std = runners[0].model.predict(X[-5:], return_std=True)
    shown = ", ".join(f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, std, strict=True))
    print(f"\nThe last five rows, with a standard deviation: {shown}")
    window = min(1000, options.rows // 4)
    curves = {runner.name: runner.curve(window) for runner in runners}
    try:
        draw_curves(curves, "RMSE", window, "Predict, then learn", options.output, floor=(NOISE, "noise"))
    except NoMatplotlib as error:  # the table is worth having without it
        print(f"No picture: {error}")
    else:
        print(f"Picture: {options.output}")
    return 0
