"""``bspforest demo``: predict and learn a simulated stream that changes, beside a Mondrian forest and a batch forest.

The stream is Friedman's function of five features among ten; the others are noise. Halfway, the other five begin to decide, and the
first five are noise. Every row is first predicted, then learned. The batch random forest is refitted from time to time on all rows so
far. On the way, the online forest learns a few rows with wrong labels, and forgets them later.
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
from ..pictures import Recovery, check_picture, draw_recovery
from ..progress import compile_kernels
from ..terminal import print_lines

FEATURES, RELEVANT, NOISE, CHUNK_ROWS = 10, 5, 1.0, 100
WRONG_ROWS = 20  # to be forgotten


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if options.rows < 2_000:
        raise UsageError("--rows must be at least 2000")
    check_picture(options.output, "--output")
    X, y, change = make_stream(options.rows)
    window = min(1_000, options.rows // 4)
    parameters = make_parameters(options)
    forest, runners = _make_runners(parameters, refit_every=options.rows // 5, window=window)
    mistake, witness = Mistake(runners[0], forest, options.rows), Witness(forest, change)
    compile_kernels()
    print_lines(
        f"{format_count(options.rows, 'row')}, each predicted and then learned; {format_count(options.trees, 'tree')}.",
        f"At row {change:,} the stream changes: x1 to x5 decided until then, x6 to x10 do from there on.",
    )
    _run_stream(runners, mistake, witness, X, y)
    print_lines("", *_format_scores(runners, change, window), "", *witness.describe(), "", *mistake.describe())
    mean, std = forest.predict(X[-5:], return_std=True)
    shown = ", ".join(f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, std, strict=True))
    print_lines("", f"Predictions for the last five rows, with a standard deviation: {shown}")
    curves = {runner.name: runner.scores.curve for runner in runners}
    span = (mistake.begins_at, mistake.forgotten_at, f"{WRONG_ROWS} wrong labels,\n then forgotten")
    try:
        draw_recovery(curves, window, (NOISE, "noise"), span, witness.recall(), options.output)
    except NoMatplotlibError as error:  # the table is useful without it
        print_lines(f"No picture: {error}")
    else:
        print_lines(f"Picture: {options.output}")
    return 0


def make_stream(n_rows: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return rows and labels, and the row, at the beginning of a chunk, from which the order of the features is reversed."""
    X, y, _ = make_friedman(n_rows, FEATURES, noise=NOISE, random_state=0)
    change = n_rows // 2 // CHUNK_ROWS * CHUNK_ROWS
    X[change:] = X[change:, ::-1].copy()
    return X, y, change


def _make_runners(parameters: dict[str, Any], refit_every: int, window: int) -> tuple[Any, list[Runner]]:
    """Return the online forest, and the runners of all models."""
    model = ForestModel(0, **parameters)
    mondrian = make_baseline("mondrian", 0, FEATURES, parameters, window)
    mondrian.name = "Mondrian forest, online"
    batch = make_baseline(f"batch-rf-every-{refit_every}", 0, FEATURES, {**parameters, "n_jobs": -1}, window)
    return model.forest, [Runner("BSP forest, online", model, 0, window), mondrian, batch]


class Mistake:
    """Rows with wrong labels, which only the online forest learns, and which it forgets after a quarter of the stream.

    They are spread over a part of the stream, so that the curve of scores does not show a single bad chunk.
    """

    def __init__(self, runner: Runner, forest: Any, n_rows: int) -> None:
        self._runner, self._forest = runner, forest
        self.begins_at, self.forgotten_at = (int(part * n_rows) // CHUNK_ROWS * CHUNK_ROWS for part in (0.2, 0.25))
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


class Witness:
    """Follows how far back the forest looks, and what it takes for important, while the stream changes."""

    def __init__(self, forest: Any, change: int) -> None:
        self._forest, self._change = forest, change
        self._looks_back = forest.prediction == "ridge"  # means give all rows the same weight
        self._half_lives: list[tuple[int, float]] = []
        self._counted: list[tuple[int, float]] = []
        self._shares: list[np.ndarray] = []

    def look(self, row: int) -> None:
        """Note what can be seen once all rows up to ``row`` are learned."""
        if row == self._change:
            self._shares = [self._forest.feature_importances_]
        if self._looks_back:
            half_life = self._forest.half_life_
            self._half_lives.append((row, half_life))
            self._counted.append((row, count_rows(self._forest.n_samples_, half_life)))

    def _find_noticed(self) -> tuple[int, float] | None:
        """Return the row by which the forest had shortened its half-life after the change, and to what."""
        before = [half_life for row, half_life in self._half_lives if row <= self._change]
        later = ((row, half_life) for row, half_life in self._half_lives if row > self._change)
        return next((found for found in later if found[1] < before[-1]), None)

    def recall(self) -> Recovery:
        """Return what was seen, for the picture."""
        noticed = self._find_noticed() if self._looks_back else None
        before, after = self._shares[0], self._forest.feature_importances_
        shares = {f"x{k}": (float(b), float(a)) for k, (b, a) in enumerate(zip(before, after, strict=True), start=1)}
        return Recovery(self._change, None if noticed is None else noticed[0], self._counted, shares)

    def describe(self) -> list[str]:
        """Return what happened."""
        lines = []
        if self._looks_back:
            lines.append(self._describe_notice())
        before, after = (100 * shares for shares in (self._shares[0], self._forest.feature_importances_))
        lines.append(
            f"Importance of x1 to x{RELEVANT} together: {before[:RELEVANT].sum():.1f} % before the change, "
            f"{after[:RELEVANT].sum():.1f} % at the end."
        )
        return lines

    def _describe_notice(self) -> str:
        noticed = self._find_noticed()
        if noticed is None:
            return "The BSP forest did not notice the change."
        row, half_life = noticed
        counts = [round(counted) for at, counted in self._counted if at in (self._change, row)]
        return (
            f"The BSP forest noticed the change by row {row:,}, without being told, and chose a half-life of "
            f"{format_count(round(half_life), 'row')}: {counts[0]:,} rows counted before, {counts[1]:,} then, "
            f"{round(self._counted[-1][1]):,} at the end."
        )


def count_rows(n: int, half_life: float) -> float:
    """Return the sum of the weights of n rows."""
    return n if half_life == np.inf else float(np.sum(np.exp2(-np.arange(n) / half_life)))


def _run_stream(runners: list[Runner], mistake: Mistake, witness: Witness, X: np.ndarray, y: np.ndarray) -> None:
    """Predict and learn all rows, with a progress bar."""
    progress = Progress(len(X), "stream", "rows", enabled=True)
    for start in range(0, len(X), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        mistake.happen(start)
        for runner in runners:
            runner.step(X[rows], y[rows], first=start == 0)
        witness.look(start + len(X[rows]))
        progress.advance(len(X[rows]), f"RMSE {runners[0].scores.recent()['RMSE']:.2f}" if start else "")


def _format_scores(runners: list[Runner], change: int, window: int) -> list[str]:
    """Return a table of RMSE over all rows, and over as many as ``window`` before the change, after it, and at the end."""
    table = [["", "RMSE", "before the change", f"next {window:,}", f"last {window:,}", "seconds"]]
    for runner in runners:
        points = runner.scores.curve
        scored = change - CHUNK_ROWS  # the first chunk is only learned
        scores = [runner.scores.overall()["RMSE"]]
        scores += [next(score for row, score in points if row >= at) for at in (scored, scored + window)]
        scores.append(runner.scores.recent()["RMSE"])
        table.append([runner.name, *(f"{score:.2f}" for score in scores), f"{runner.seconds:.1f}"])
    return format_table(table)
