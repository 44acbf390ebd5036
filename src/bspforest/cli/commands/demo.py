"""``bspforest demo``: predict and learn a simulated stream, beside a Mondrian forest and a batch forest.

The stream is Friedman's function of five features among ten; the others are noise. Every row is first predicted, then learned.
The batch random forest is refitted from time to time on all rows so far: what that gains over learning each row once can be
seen. On the way, the online forest learns a few rows with wrong labels, and forgets them later.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from ...datasets import make_friedman
from ...progress import Progress
from ..errors import NoMatplotlibError, UsageError
from ..evaluation.baselines import ForestModel, make_baseline
from ..evaluation.runner import Runner
from ..forest_arguments import make_parameters
from ..formatting import format_count, format_table
from ..pictures import check_picture, draw_curves
from ..progress import compile_kernels
from ..terminal import print_lines

FEATURES, RELEVANT, NOISE, CHUNK_ROWS = 10, 5, 1.0, 100
WRONG_ROWS = 20  # to be forgotten


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if options.rows < 2_000:
        raise UsageError("--rows must be at least 2000")
    check_picture(options.output, "--output")
    X, y, _ = make_friedman(options.rows, FEATURES, noise=NOISE, random_state=0)
    window = min(1_000, options.rows // 4)
    forest, runners = _make_runners(make_parameters(options), refit_every=options.rows // 5, window=window)
    mistake = Mistake(runners[0], forest, options.rows)
    compile_kernels()
    print_lines(
        f"{format_count(options.rows, 'row')}, each predicted and then learned; {format_count(options.trees, 'tree')}."
    )
    _run_stream(runners, mistake, X, y)
    print_lines("", *_format_scores(runners, window), "", *mistake.describe())
    shares = {f"x{k}": float(share) for k, share in enumerate(forest.feature_importances_, start=1)}
    print_lines("", *_format_shares(shares))
    mean, std = forest.predict(X[-5:], return_std=True)
    shown = ", ".join(f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, std, strict=True))
    print_lines("", f"Predictions for the last five rows, with a standard deviation: {shown}")
    curves = {runner.name: runner.scores.curve for runner in runners}
    span = (mistake.begins_at, mistake.forgotten_at, f"{WRONG_ROWS} wrong labels, then forgotten")
    floor = (NOISE, "noise")
    try:
        draw_curves(curves, "RMSE", window, "Predict, then learn", options.output, floor, span, shares)
    except NoMatplotlibError as error:  # the table is useful without it
        print_lines(f"No picture: {error}")
    else:
        print_lines(f"Picture: {options.output}")
    return 0


def _make_runners(parameters: dict[str, Any], refit_every: int, window: int) -> tuple[Any, list[Runner]]:
    """Return the online forest, and the runners of all models."""
    model = ForestModel(0, **parameters)
    mondrian = make_baseline("mondrian", 0, FEATURES, parameters, window)
    mondrian.name = "Mondrian forest, online"
    batch = make_baseline(f"batch-rf-every-{refit_every}", 0, FEATURES, {**parameters, "n_jobs": -1}, window)
    return model.forest, [Runner("BSP forest, online", model, 0, window), mondrian, batch]


class Mistake:
    """Rows with wrong labels, which only the online forest learns, and which it forgets halfway through the stream.

    They are spread over a part of the stream, so that the curve of scores does not show a single bad chunk.
    """

    def __init__(self, runner: Runner, forest: Any, n_rows: int) -> None:
        self._runner, self._forest = runner, forest
        self.begins_at, self.forgotten_at = (int(part * n_rows) // CHUNK_ROWS * CHUNK_ROWS for part in (0.45, 0.5))
        self._X, self._y, _ = make_friedman(WRONG_ROWS, FEATURES, noise=NOISE, random_state=1)
        self._parts = np.array_split(np.arange(WRONG_ROWS), (self.forgotten_at - self.begins_at) // CHUNK_ROWS)
        self._ids: list[int] = []
        self._errors = (np.nan, np.nan)

    def happen(self, row: int) -> None:
        """Learn or forget what is due before a row of the stream."""
        if self.begins_at <= row < self.forgotten_at:
            self._learn(self._parts[(row - self.begins_at) // CHUNK_ROWS])
        elif row == self.forgotten_at:
            self._forget()

    def _learn(self, rows: np.ndarray) -> None:
        """Learn some of the rows, with labels twice as large as they are."""
        if not len(rows):
            return
        begun = time.perf_counter()
        first = self._forest.n_samples_seen_
        self._forest.partial_fit(self._X[rows], 2 * self._y[rows])
        self._ids += range(first, first + len(rows))
        self._runner.seconds += time.perf_counter() - begun

    def _forget(self) -> None:
        """Forget the rows, and note the errors there before and after."""
        before = self._measure()
        begun = time.perf_counter()
        self._forest.forget(self._ids)
        after = self._measure()  # inside the time: forgetting leaves work to the next prediction
        self._runner.seconds += time.perf_counter() - begun
        self._errors = before, after

    def _measure(self) -> float:
        return float(np.sqrt(np.mean((self._forest.predict(self._X) - self._y) ** 2)))

    def describe(self) -> list[str]:
        """Return what happened."""
        before, after = self._errors
        return [
            f"From row {self.begins_at:,} on, the BSP forest alone learned {WRONG_ROWS} more rows, with labels twice as large as they are.",
            f"After row {self.forgotten_at:,}, it forgot exactly these. Their RMSE, with the right labels: {before:.2f} before, "
            f"{after:.2f} after.",
        ]


def _run_stream(runners: list[Runner], mistake: Mistake, X: np.ndarray, y: np.ndarray) -> None:
    """Predict and learn all rows, with a progress bar."""
    progress = Progress(len(X), "stream", "rows", enabled=True)
    for start in range(0, len(X), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        mistake.happen(start)
        for runner in runners:
            runner.step(X[rows], y[rows], first=start == 0)
        progress.advance(len(X[rows]), f"RMSE {runners[0].scores.recent()['RMSE']:.2f}" if start else "")


def _format_scores(runners: list[Runner], window: int) -> list[str]:
    table = [["", "RMSE", f"last {window:,}", "seconds"]]
    for runner in runners:
        overall, recent = runner.scores.overall()["RMSE"], runner.scores.recent()["RMSE"]
        table.append([runner.name, f"{overall:.2f}", f"{recent:.2f}", f"{runner.seconds:.1f}"])
    return format_table(table)


def _format_shares(shares: dict[str, float]) -> list[str]:
    names = list(shares)
    relevant = ", ".join(f"{name} {100 * shares[name]:.1f}" for name in names[:RELEVANT])
    noise = 100 * sum(shares[name] for name in names[RELEVANT:])
    return [
        f"Importances in percent: {relevant}; {names[RELEVANT]} to {names[-1]}, which are noise, {noise:.1f} together"
    ]
