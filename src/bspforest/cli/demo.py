"""``bspforest demo``: a forest that learns as it predicts, on a simulated stream, beside a Mondrian and a batch forest.

The stream is Friedman's function of five features among eight. Every row is first predicted, then learned. A batch random
forest, refitted from time to time on all rows so far, shows what is lost by learning each row only once.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from .. import BSPForestRegressor
from .._threads import Progress
from .errors import UsageError
from .report import compile_kernels


def make_stream(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's function with unit noise, and three features that do not matter."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 8))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, signal + rng.normal(size=n)


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

    def curve(self, window: int) -> np.ndarray:
        """RMSE over the latest ``window`` predictions."""
        total = np.concatenate([[0.0], np.cumsum(np.concatenate(self.errors))])
        return np.sqrt((total[window:] - total[:-window]) / window)


def draw(runners: list[Runner], window: int, path: Path) -> None:
    """The error of each model along the stream."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for runner, colour, style in zip(runners, ("#0072B2", "#E69F00", "#666666"), ("-", "-", "--"), strict=True):
        curve = runner.curve(window)
        ax.plot(np.arange(len(curve)) + window, curve, style, color=colour, label=runner.name, linewidth=1.8)
    ax.axhline(1.0, color="#999999", linewidth=0.8)
    ax.annotate("noise", (0.995, 1.0), xycoords=("axes fraction", "data"), va="bottom", ha="right", color="#777777")
    ax.set(xlabel="rows learned", ylabel=f"RMSE of the last {window:,} predictions", title="Predict, then learn")
    ax.set_ylim(bottom=0.9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.rows < 2_000:
        raise UsageError("--rows must be at least 2000")
    X, y = make_stream(options.rows, seed=0)
    shared = {"n_estimators": options.trees, "random_state": 0}
    # Pair cuts come d - 1 = 7 times as fast as axis cuts; with this scale the two forests have about as many leaves.
    refit = options.rows // 5
    runners = [
        Runner("BSP forest, online", BSPForestRegressor(**shared)),
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
    try:
        draw(runners, min(1000, options.rows // 4), options.output)
    except ImportError:
        print("No picture: pip install 'bspforest[cli]' brings matplotlib.")
    else:
        print(f"Picture: {options.output}")
    return 0
