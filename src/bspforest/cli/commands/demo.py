"""``bspforest demo``: predict and learn a simulated stream, beside a Mondrian forest and a batch forest.

The stream is Friedman's function of five features among eight. Every row is first predicted, then learned. The batch
random forest is refitted from time to time on all rows so far: what that gains over learning each row once can be seen.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ...datasets import make_friedman
from ...engine.progress import Progress
from ..errors import NoMatplotlibError, UsageError
from ..evaluation.baselines import ForestModel, make_baseline
from ..evaluation.runner import Runner
from ..forest_arguments import make_parameters
from ..formatting import format_table
from ..pictures import check_picture, draw_curves
from ..progress import compile_kernels
from ..terminal import print_lines

FEATURES, NOISE, CHUNK_ROWS = 8, 1.0, 100


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if options.rows < 2_000:
        raise UsageError("--rows must be at least 2000")
    check_picture(options.output, "--output")
    X, y, _ = make_friedman(options.rows, FEATURES, noise=NOISE, random_state=0)
    window = min(1_000, options.rows // 4)
    forest, runners = _make_runners(make_parameters(options), refit_every=options.rows // 5, window=window)
    compile_kernels()
    print_lines(f"{options.rows:,} rows, each predicted and then learned; {options.trees} trees.")
    _run_stream(runners, X, y)
    print_lines("", *_format_scores(runners, window))
    mean, std = forest.predict(X[-5:], return_std=True)
    shown = ", ".join(f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, std, strict=True))
    print_lines("", f"Predictions for the last five rows, with a standard deviation: {shown}")
    curves = {runner.name: runner.scores.curve for runner in runners}
    try:
        draw_curves(curves, "RMSE", window, "Predict, then learn", options.output, floor=(NOISE, "noise"))
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


def _run_stream(runners: list[Runner], X: np.ndarray, y: np.ndarray) -> None:
    """Predict and learn all rows, with a progress bar."""
    progress = Progress(len(X), "stream", "rows", enabled=True)
    for start in range(0, len(X), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        for runner in runners:
            runner.step(X[rows], y[rows], first=start == 0)
        progress.advance(len(X[rows]), f"RMSE {runners[0].scores.recent()['RMSE']:.2f}" if start else "")


def _format_scores(runners: list[Runner], window: int) -> list[str]:
    table = [["", "RMSE", f"last {window:,}", "seconds"]]
    for runner in runners:
        overall, recent = runner.scores.overall()["RMSE"], runner.scores.recent()["RMSE"]
        table.append([runner.name, f"{overall:.2f}", f"{recent:.2f}", f"{runner.seconds:.1f}"])
    return format_table(table)
