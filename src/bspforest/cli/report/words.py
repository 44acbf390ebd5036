"""The findings of a report, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...forest.settings import Revision
from ..formatting import format_count, format_number, format_percent
from .collect import LEVELS, ClassNotes, NumberNotes
from .contents import Report
from .drift import BLOCK_ROWS, MIN_AFTER, MIN_BEFORE, Drift

WELL_CALIBRATED = (
    0.03  # largest mean gap between probabilities and shares of correct predictions, unless few rows explain it
)
WELL_COVERED = 0.03  # the same for the level of intervals and the share of labels in them


def write_verdict(report: Report) -> str:
    """Return one sentence about how good the predictions are."""
    scores = report.runners[0].scores.overall()
    rows = f"Over {format_count(report.n_scored, 'row')}, "
    if isinstance(report.notes, ClassNotes):
        code, share = report.notes.majority
        return (
            f"{rows}{format_percent(scores['accuracy'])} were predicted correctly before they were learned; always predicting the "
            f"most frequent class ({report.classes[code]}) would give {format_percent(share)}."
        )
    explained = ""
    if scores["R²"] > 0:
        explained = f"; the predictions explain {format_percent(scores['R²'])} of the variance of {report.target}"
    elif scores["R²"] <= 0:
        explained = "; always predicting the mean would be as good or better"
    return f"{rows}predictions made before a row was learned were off by {format_number(scores['MAE'])} on average{explained}."


def list_findings(report: Report) -> list[str]:
    """Return sentences about the baselines, probabilities or intervals, drift and features."""
    findings = [compared] if (compared := _compare(report)) else []
    notes = report.notes
    findings.append(_judge_probabilities(notes) if isinstance(notes, ClassNotes) else _judge_intervals(notes))
    if report.drifts:
        findings.append(describe_drifts(report))
    else:
        findings.append(describe_no_drift(report))
    if report.known_importances:
        shares = report.known_importances[-1][1]
        best = sorted(range(len(shares)), key=lambda k: -shares[k])[:3]
        if shares[best[0]] > 0:
            named = ", ".join(f"{report.features[k]} ({format_percent(shares[k])})" for k in best)
            findings.append(f"At the end it depends most on {named}.")
    return findings


def _compare(report: Report) -> str:
    """Return a sentence about the best other model; empty if there is none whose score is known."""
    score = report.runners[0].scores.main
    forest, *others = report.runners
    others = [runner for runner in others if math.isfinite(runner.scores.overall()[score])]
    own = forest.scores.overall()[score]
    if not others or not math.isfinite(own):
        return ""
    if score == "accuracy":
        best = max(others, key=lambda runner: runner.scores.overall()[score])
        value = best.scores.overall()[score]
        better, got = own > value, f"{format_percent(value)} correct"
    else:
        best = min(others, key=lambda runner: runner.scores.overall()[score])
        value = best.scores.overall()[score]
        better, got = (
            own < value,
            f"a root mean squared error of {format_number(value)}, the forest {format_number(own)}",
        )
    return f"The best other model ({best.name}) has {got}: the forest is {'better' if better else 'not better'}."


def _judge_probabilities(notes: ClassNotes) -> str:
    error = notes.calibration_error
    _, sure, right = notes.bins.sum(axis=0)
    points = f"{100 * error:.1f} percentage points"
    if error <= max(WELL_CALIBRATED, 2 * notes.chance_error):
        return f"Its probabilities can be taken at face value: they are off by {points} on average."
    mostly = "too sure of itself" if sure > right else "not sure enough of itself"
    return f"Its probabilities are off by {points} on average: it is {mostly}."


def _judge_intervals(notes: NumberNotes) -> str:
    found = float(notes.coverage.mean[len(LEVELS) - 1])
    share = f"The 90 % intervals contain {format_percent(found)} of the labels"
    chance = math.sqrt(LEVELS[-1] * (1 - LEVELS[-1]) / notes.sample.n_seen)
    if abs(found - LEVELS[-1]) <= max(WELL_COVERED, 2 * chance):
        return f"{share}, about as many as they should."
    return f"{share}: they are too {'narrow' if found < LEVELS[-1] else 'wide'}."


def describe_drifts(report: Report) -> str:
    """Return sentences about all rises of the error, the last of them, and what the forest did. There is one at least."""
    drifts = report.drifts
    times = format_count(len(drifts), "time") if len(drifts) > 1 else "once"
    return f"The error rose {times}. {describe_drift(drifts[-1], report)} {describe_response(report)}".rstrip()


def describe_response(report: Report) -> str:
    """Return a sentence about how far back the forest looked after the last rise; empty if it chose nothing since."""
    since = [revision.half_life for revision in report.revisions if revision.n_samples_seen >= report.drifts[-1].row]
    if not since:
        return ""
    if min(since) == math.inf:
        return "The forest went on to weigh all rows alike."
    return f"The forest then let rows count half as much for each {format_count(round(min(since)), 'row')} of age."


def describe_drift(drift: Drift, report: Report) -> str:
    """Return a sentence about a rise of the error."""
    if isinstance(report.notes, ClassNotes):
        what, before, after = "share of wrong predictions", format_percent(drift.before), format_percent(drift.after)
    else:
        what, before, after = "mean absolute error", format_number(drift.before), format_number(drift.after)
    later = format_count(drift.noticed - drift.row + 1, "row")
    return f"Around row {drift.row:,} the {what} rose from {before} to {after} (certain after {later})."


def describe_no_drift(report: Report) -> str:
    """Return a sentence about a stream without drift."""
    if report.n_scored < (MIN_BEFORE + MIN_AFTER) * BLOCK_ROWS:
        return "The stream is too short to find a rise of the error."
    return "No rise of the error was found along the stream."


def describe_revision(revision: Revision, before: Revision | None) -> str:
    """Return what a revision changed, without terms of the field."""
    if revision.feature_weights == "accepted":
        what = "features were weighed anew"
    elif revision.feature_weights == "rejected":
        what = "other weights of features were tried, and were no better"
    else:
        what = "the weights of features were kept"
    scaled = {"minmax": "by their range", "quantile": "by their ranks"}[revision.scaling]
    if before is None or before.scaling != revision.scaling:
        what += f"; features are {'now ' if before else ''}compared {scaled}"
    if before is None or (before.bandwidth, before.ridge) != (revision.bandwidth, revision.ridge):
        what += "; the smoothing was chosen anew" if before else "; the smoothing was chosen"
    return what[0].upper() + what[1:] + "."


def thin(points: Sequence, most: int) -> list:
    """Return at most ``most`` of the points, evenly, the last one included.

    >>> thin(range(10), 4)
    [0, 3, 6, 9]
    """
    step = -(-len(points) // most) or 1
    return list(points[::-1][::step][::-1])
