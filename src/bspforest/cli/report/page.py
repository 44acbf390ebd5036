"""The page of a report: one HTML file that needs nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..formatting import format_count, format_number, format_percent, shorten
from .collect import LEVELS, ClassNotes
from .contents import Report
from .markup import Html, data, element, join
from .sections import (
    show_errors,
    show_importances,
    show_intervals,
    show_making,
    show_probabilities,
    show_residuals,
    show_revisions,
)
from .style import read_style
from .words import list_findings, write_verdict

LONGEST_NAME = 60  # characters of a column, a class or a file

# Nothing is loaded and no script is run, whatever the names in the data are.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def make_page(report: Report) -> str:
    """Return the HTML of a report. Long names are shortened; the whole ones show under the mouse."""
    whole = {
        "h1": report.target if len(report.target) > LONGEST_NAME else None,
        "facts": report.source if len(report.source) > LONGEST_NAME else None,
    }
    report = _shorten_names(report)
    title = f"How well {report.target} was predicted"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} – {report.source}"),
        element("style", Html(read_style())),
    )
    notes = report.notes
    if isinstance(notes, ClassNotes):
        middle = [show_probabilities(report, notes)]
    else:
        middle = [show_intervals(report, notes), show_residuals(report, notes)]
    sections = [show_errors(report), *middle, show_importances(report), show_revisions(report), show_making(report)]
    body = element("body", element("main", _make_header(title, report, whole), *sections))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _shorten_names(report: Report) -> Report:
    return replace(
        report,
        source=shorten(report.source, LONGEST_NAME),
        target=shorten(report.target, LONGEST_NAME),
        features=[shorten(name, LONGEST_NAME) for name in report.features],
        classes=[shorten(name, LONGEST_NAME) for name in report.classes],
        whole_features=report.features,
    )


def _make_header(title: str, report: Report, whole: dict[str, str | None]) -> Html:
    facts = f"{report.source}: {format_count(report.n_rows, 'row')}, {format_count(len(report.features), 'column')}"
    if report.n_skipped:
        facts += f", {format_count(report.n_skipped, 'malformed row')} skipped"
    stopped = (
        element("p", "Interrupted: these are the scores so far.", class_="stopped") if report.interrupted else None
    )
    findings = element("ul", *(element("li", finding) for finding in list_findings(report)), class_="findings")
    return element(
        "header",
        element("p", facts, class_="facts", title=whole["facts"]),
        element("h1", title, title=whole["h1"]),
        stopped,
        element("p", write_verdict(report), class_="verdict"),
        findings,
        element("ul", *_make_tiles(report), class_="tiles"),
    )


def _make_tiles(report: Report) -> list[Html]:
    """Return the key figures."""
    notes = report.notes
    overall, recent = report.runners[0].scores.overall(), report.runners[0].scores.recent()
    drifts = len(report.drifts)
    if isinstance(notes, ClassNotes):
        share, error = notes.majority[1], notes.calibration_error
        tiles = [
            _make_tile("Correct", data(overall["accuracy"], format_percent(overall["accuracy"])), "of all rows"),
            _make_tile(
                "Correct lately",
                data(recent["accuracy"], format_percent(recent["accuracy"])),
                f"of the last {report.n_recent:,}",
            ),
            _make_tile("Most frequent class", data(share, format_percent(share)), "if it were always predicted"),
            _make_tile("Kappa", data(overall["kappa"], format_number(overall["kappa"])), "0 is guessing, 1 is perfect"),
            _make_tile("Calibration error", data(error, format_percent(error)), "mean gap of probabilities"),
        ]
    else:
        covered = float(notes.coverage.mean[len(LEVELS) - 1])
        tiles = [
            _make_tile("Mean error", data(overall["MAE"], format_number(overall["MAE"])), "absolute, all rows (MAE)"),
            _make_tile(
                "Mean error lately",
                data(recent["MAE"], format_number(recent["MAE"])),
                f"the last {report.n_recent:,} rows",
            ),
            _make_tile("RMSE", data(overall["RMSE"], format_number(overall["RMSE"])), "large errors count more"),
            _make_tile("Explained", data(overall["R²"], format_percent(overall["R²"])), "of the variance (R²)"),
            _make_tile("In 90 % intervals", data(covered, format_percent(covered)), "of the labels"),
        ]
    tiles.append(_make_tile("Drift", data(drifts, f"{drifts:,}"), "clear rises of the error"))
    return tiles


def _make_tile(name: str, number: Html, meaning: str) -> Html:
    parts: list[Any] = [element("span", name, class_="name"), number, element("span", meaning, class_="meaning")]
    return element("li", join(parts))
