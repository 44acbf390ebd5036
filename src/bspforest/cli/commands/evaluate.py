"""``bspforest evaluate``: test, then train along a stream, with scores of the forest and of baselines."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ..data.stream import Stream
from ..data.stream_setup import open_new_stream
from ..data_arguments import make_data_options
from ..errors import CommandError, UsageError
from ..evaluation.baselines import ForestModel, make_baseline
from ..evaluation.importances import FINE_GROWTH, GROWTH, ImportanceTracker
from ..evaluation.runner import Runner
from ..forest_arguments import FOREST_ARGUMENTS, get_arguments, make_parameters
from ..formatting import draw_bars, format_count, format_number, format_table
from ..output_files import check_writable, write_file
from ..pictures import check_picture, draw_curves
from ..progress import RowProgress, compile_kernels
from ..report.collect import QUANTILES, ClassNotes, NumberNotes
from ..report.contents import Report
from ..report.page import make_page
from ..report.words import describe_drifts
from ..signals import defer_interrupts
from ..terminal import format_json, is_closed, print_errors, print_json, print_lines, printable


def _check_outputs(options: argparse.Namespace) -> None:
    """Refuse output files that could not be written at the end, before any data is read."""
    if options.plot:
        check_picture(options.plot, "--plot")
    if options.json == "-" and is_closed(sys.stdout):
        raise CommandError("--json -: standard output is closed")
    if options.json and options.json != "-":
        check_writable(Path(options.json), "--json")
    if options.report:
        if options.report.suffix.lower() not in (".html", ".htm"):
            raise UsageError(f"--report {options.report}: expected a .html file")
        check_writable(options.report, "--report")
    outputs = {"--json": options.json, "--plot": options.plot, "--report": options.report}
    given = {option: os.path.realpath(path) for option, path in outputs.items() if path and path != "-"}
    for (one, path), (other, same) in itertools.combinations(given.items(), 2):
        if path == same and (not os.path.exists(path) or os.path.isfile(path)):  # a device takes both
            raise UsageError(f"{one} and {other} name the same file, {outputs[other]}: one would overwrite the other")
    for option, path in outputs.items():
        if path and os.path.exists(path) and os.path.exists(options.data) and os.path.samefile(path, options.data):
            raise UsageError(f"{option} {path}: this is DATA itself, which would be overwritten")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    _check_outputs(options)
    parameters = make_parameters(options)
    stream, notes = open_new_stream(make_data_options(options), options.target, options.task, options.classes)
    target = stream.target
    assert target is not None
    n_classes = len(target.classes or [])
    record = (ClassNotes() if n_classes else NumberNotes()) if options.report else None
    model = ForestModel(n_classes, quantiles=QUANTILES if options.report else None, **parameters)
    names = list(stream.schema.kinds)
    runners = [Runner("BSP forest", model, n_classes, options.score_window)]
    importances = ImportanceTracker(model.forest, names, FINE_GROWTH if options.report else GROWTH)
    for name in options.against:
        runners.append(make_baseline(name, n_classes, len(names), parameters, options.score_window))
    to_table = options.json != "-"
    if to_table:
        print_lines(*notes)
    compile_kernels()
    begun = time.perf_counter()
    interrupted = False
    try:
        _run_stream(stream, runners, importances, record, options)
    except KeyboardInterrupt:  # report the scores so far
        interrupted = True
    seconds = time.perf_counter() - begun
    if not runners[0].scores.n_rows:
        if interrupted:
            raise KeyboardInterrupt
        raise CommandError(
            f"{stream.source.name} has {format_count(stream.n_rows, 'row')}, all in the first chunk, which is only learned: "
            "use a smaller --chunk-rows"
        )
    importances.finish()
    if to_table:
        print_lines(*_describe(stream, runners, seconds, options))
        if table := importances.describe():
            print_lines("", *table)
        if options.progress and parameters["prediction"] == "ridge":
            print_lines("", *(revision.describe() for revision in model.forest.revisions_))
    if options.json:  # first: what is drawn from the scores may fail
        content = _as_json(stream, runners, seconds, options) | {"importances": importances.to_json()}
        _write_json(content, options.json)
    if options.plot:
        title = f"{printable(Path(stream.source.name).name)}: predict, then learn"
        curves = {runner.name: runner.scores.curve for runner in runners}
        draw_curves(curves, runners[0].scores.main, options.score_window, title, options.plot)
        if to_table:
            print_lines(f"Picture: {options.plot}")
    if record is not None:
        report = _make_report(stream, runners, record, importances, seconds, options, interrupted=interrupted)
        write_file(make_page(report).encode(), options.report, "--report")
        if to_table:
            if report.drifts:
                print_lines("", describe_drifts(report), "")
            print_lines(f"Report: {options.report}")
    if interrupted:
        print_errors(f"Interrupted after {format_count(stream.n_rows, 'row')}.")
    return 130 if interrupted else 0


def _run_stream(
    stream: Stream,
    runners: list[Runner],
    importances: ImportanceTracker,
    record: ClassNotes | NumberNotes | None,
    options: argparse.Namespace,
) -> None:
    progress = RowProgress(options.progress)
    progress.begin()
    scores = runners[0].scores
    left = options.max_rows or math.inf
    first = True
    try:
        while left > 0 and (chunk := stream.next(int(min(options.chunk_rows, left)))) is not None:
            assert chunk.y is not None
            predicted = [runner.run(chunk.table, chunk.y, first=first) for runner in runners]
            with defer_interrupts():  # a chunk counts for all models, or for none
                for runner, answers in zip(runners, predicted, strict=True):
                    if answers is not None:
                        runner.score(chunk.y, answers)
                if record is not None and isinstance(runners[0].model, ForestModel):
                    _note(record, chunk.y, predicted[0], runners[0].model.latest_quantiles)
            importances.update()
            first = False
            left -= len(chunk)
            progress.show(
                stream.n_rows,
                stream.source.share_read,
                lambda: f"{scores.main} {format_number(scores.recent()[scores.main])}" if scores.n_rows else "",
            )
    finally:
        progress.close()


def _note(record: ClassNotes | NumberNotes, y: np.ndarray, predicted: np.ndarray | None, quantiles: Any) -> None:
    """Note a chunk for the report, once it is predicted."""
    if predicted is None:
        record.n_first += len(y)
    elif isinstance(record, ClassNotes):
        record.add(y, predicted)
    else:
        record.add(y, predicted, quantiles)


def _describe(stream: Stream, runners: list[Runner], seconds: float, options: argparse.Namespace) -> list[str]:
    """Return the lines of the table and of the curves."""
    first = runners[0].scores
    window = min(options.score_window, first.n_rows)
    skipped = f", {format_count(stream.n_skipped, 'malformed row')} skipped" if stream.n_skipped else ""
    lines = [
        f"{format_count(stream.n_rows, 'row')}, {format_count(len(stream.schema.kinds), 'column')}; {first.n_rows:,} "
        f"predicted and then learned in chunks of {options.chunk_rows:,}{skipped}",
        "",
    ]
    header = ["", *first.columns, *first.columns, "seconds"]
    # Headings of the groups of columns, each above its first column.
    rows = [["", "all rows", "", "", f"last {window:,}", "", "", ""], header]
    for runner in runners:
        scores = [*runner.scores.overall().values(), *runner.scores.recent().values()]
        rows.append([runner.name, *map(format_number, scores), f"{runner.seconds:.1f}"])
    own = sum(runner.seconds for runner in runners)
    lines += [*format_table(rows), "", f"Reading, importances and bookkeeping: {seconds - own:.1f} seconds"]
    return lines + _draw_curves(runners)


def _draw_curves(runners: list[Runner]) -> list[str]:
    """Return the curves of all models as lines of bars.

    Trivial models would flatten those of others, so they do not set the scale where there are others to compare.
    """
    curves = {runner.name: [value for _, value in runner.scores.curve] for runner in runners}
    if sum(math.isfinite(value) for curve in curves.values() for value in curve) <= len(runners):
        return []
    real = [runner for runner in runners if not runner.is_trivial]
    values = [value for runner in (real if len(real) >= 2 else runners) for value in curves[runner.name]]
    low, high = (extreme(filter(math.isfinite, values), default=0.0) for extreme in (min, max))
    beyond = [name for name, curve in curves.items() if any(value < low or value > high for value in curve)]
    note = f" (beyond this range: {', '.join(beyond)})" if beyond else ""
    width = max(map(len, curves))
    return [
        "",
        f"{runners[0].scores.main} along the stream, from {format_number(low)} to {format_number(high)}{note}",
        *(f"{name:{width}}  {draw_bars(curve, low, high)}" for name, curve in curves.items()),
    ]


def _as_json(stream: Stream, runners: list[Runner], seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    target = stream.target
    assert target is not None
    return {
        "bspforest": __version__,
        "data": options.data,
        "target": target.name,
        "task": target.task,
        "classes": target.classes,
        "rows": stream.n_rows,
        "rows_scored": runners[0].scores.n_rows,
        "rows_skipped": stream.n_skipped,
        "columns": list(stream.schema.kinds),
        "chunk_rows": options.chunk_rows,
        "score_window": options.score_window,
        "seconds": seconds,
        "models": [
            {
                "name": runner.name,
                "seconds": runner.seconds,
                "overall": _finite(runner.scores.overall()),
                "last": _finite(runner.scores.recent()),
                "curve": {
                    "score": runner.scores.main,
                    "rows": [row for row, _ in runner.scores.curve],
                    "values": [value if math.isfinite(value) else None for _, value in runner.scores.curve],
                },
            }
            for runner in runners
        ],
    }


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    """Return scores for JSON, which knows neither NaN nor infinity."""
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def _make_report(
    stream: Stream,
    runners: list[Runner],
    record: ClassNotes | NumberNotes,
    importances: ImportanceTracker,
    seconds: float,
    options: argparse.Namespace,
    *,
    interrupted: bool,
) -> Report:
    target = stream.target
    assert target is not None and isinstance(runners[0].model, ForestModel)
    forest = runners[0].model.forest
    return Report(
        source=Path(stream.source.name).name,
        target=target.name,
        features=list(stream.schema.kinds),
        classes=[str(value) for value in target.by_code] if isinstance(record, ClassNotes) else [],
        runners=runners,
        notes=record,
        n_rows=stream.n_rows,
        n_skipped=stream.n_skipped,
        chunk_rows=options.chunk_rows,
        score_window=options.score_window,
        importances=importances.points,
        revisions=forest.revisions_ if forest.prediction == "ridge" else [],
        settings=_list_settings(stream, forest, seconds, options),
        interrupted=interrupted,
    )


def _list_settings(stream: Stream, forest: Any, seconds: float, options: argparse.Namespace) -> dict[str, str]:
    """Return what a report was made with: by what and when, the options given, and the parameters of the forest."""
    made = {
        "bspforest": __version__,
        "made at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "rows read": f"{stream.n_rows:,}",
        "malformed rows skipped": f"{stream.n_skipped:,}",
        "columns": f"{len(stream.schema.kinds):,}",
        "seconds": f"{seconds:.1f}",
    }
    given = {
        name: value for name, value in vars(options).items() if name not in {"command", "debug", *FOREST_ARGUMENTS}
    }
    for name, value in (given | get_arguments(forest.get_params())).items():
        if value is not None and value is not False and value != ():
            shown = ", ".join(value) if isinstance(value, tuple) else "yes" if value is True else f"{value}"
            made["DATA" if name == "data" else "--" + name.replace("_", "-")] = shown
    return made


def _write_json(content: dict[str, Any], where: str) -> None:
    if where == "-":
        print_json(content)
    else:
        write_file((format_json(content) + "\n").encode(), Path(where), "--json")
