"""The sections of a report: a heading, pictures, their numbers as tables, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..formatting import format_count, format_number, format_percent
from . import charts
from .charts import NARROW, WIDE, Curve
from .collect import BINS, LEVELS, ClassNotes, NumberNotes
from .contents import Report
from .markup import Html, data, element, join, table
from .words import describe_drift, describe_no_drift, describe_revision, thin

MAX_TABLE_ROWS = 40
MAX_CLASSES = 12  # of the confusion matrix; all others are one
MAX_FEATURES = 8  # whose importances are drawn; all others are one
MAX_DRIFTS = 6  # listed at once; the others on request
STYLES = 7  # of lines


def make_section(title: str, *children: Any, class_: str | None = None) -> Html:
    """Return a section with a heading."""
    return element("section", element("h2", title), *children, class_=class_)


def make_figure(title: str, pictures: Sequence[Html], caption: Any, numbers: Html, legend: Html | None = None) -> Html:
    """Return a picture, or one for wide and one for narrow windows, with a caption and its numbers."""
    details = element("details", element("summary", "The numbers"), numbers)
    heading = element("h3", title) if title else None
    return element("figure", heading, legend, *_show_pictures(pictures), element("figcaption", caption), details)


def _show_pictures(pictures: Sequence[Html]) -> list[Html]:
    kinds = ("wide", "narrow") if len(pictures) == 2 else ("any",)
    return [element("div", picture, class_=f"picture {kind}") for picture, kind in zip(pictures, kinds, strict=True)]


def make_legend(entries: Iterable[tuple[str, str]]) -> Html:
    """Return what styles of lines stand for."""
    items = [element("li", element("span", class_=f"chip {style}"), name) for style, name in entries]
    return element("ul", *items, class_="legend")


def show_errors(report: Report) -> Html:
    """Return the error over time of all models, with drift marked, and their scores."""
    is_class = isinstance(report.notes, ClassNotes)
    main = report.runners[0].scores.main
    curves = []
    for k, runner in enumerate(report.runners):
        points = [
            (report.n_first + row, value)
            for row, value in runner.scores.draw_over(report.curve_rows)
            if math.isfinite(value)
        ]
        if is_class:
            points = [(row, 100 * (1 - value)) for row, value in points]
        curves.append(Curve(runner.name, points, f"s{k % STYLES}"))
    window = format_count(report.curve_rows, "row")
    if report.curve_rows < report.score_window:
        window += f" (fewer than the {report.score_window:,} of the scores, to show abrupt changes in a short stream)"
    suffix = " %" if is_class else ""
    label = "wrong predictions" if is_class else f"error ({main})"
    draw = partial(charts.draw_curves, curves, report.drifts, report.n_rows, label=label, suffix=suffix)
    pictures = [draw(width=width, title="Error over time") for width in (WIDE, NARROW)]
    own = thin(curves[0].points, MAX_TABLE_ROWS)
    known = [dict(curve.points) for curve in curves]
    numbers = table(
        ["row", *(curve.name for curve in curves)],
        [[f"{row:,}", *(_show(points.get(row), suffix) for points in known)] for row, _ in own],
    )
    what = "The share of wrong predictions" if is_class else "The root mean squared error"
    caption = f"{what} over the latest {window}, each predicted before it was learned. Lower is better."
    legend = make_legend((curve.style, curve.name) for curve in curves) if len(curves) > 1 else None
    picture = make_figure("", pictures, caption, numbers, legend)
    return make_section("Error over time", picture, _list_drifts(report), _compare(report))


def _show(value: float | None, suffix: str) -> str:
    return "–" if value is None else f"{value:.1f} %" if suffix else format_number(value)


def _list_drifts(report: Report) -> Html:
    drifts = report.drifts
    if not drifts:
        return element("p", f"Drift: {describe_no_drift(report)}", class_="note")
    means = (
        "A numbered mark is drift: from there on the error was clearly higher than before, by more than chance explains and by "
        "at least a fifth. The shaded rows were needed to be certain."
    )
    items = [element("li", describe_drift(drift, report), value=k) for k, drift in enumerate(drifts, 1)]
    shown = [element("ol", *items[:MAX_DRIFTS], class_="drifts")]
    if len(items) > MAX_DRIFTS:
        more = element("ol", *items[MAX_DRIFTS:], class_="drifts")
        shown.append(element("details", element("summary", f"{len(items) - MAX_DRIFTS} more"), more))
    return join([element("p", means, class_="note"), *shown])


def _compare(report: Report) -> Html:
    columns = report.runners[0].scores.columns
    last = f"last {report.n_recent:,}"
    header = ["", *columns, *(f"{column}, {last}" for column in columns), "seconds"]
    rows = []
    for runner in report.runners:
        scores = [*runner.scores.overall().values(), *runner.scores.recent().values()]
        seconds = data(runner.seconds, f"{runner.seconds:.1f}")
        rows.append([runner.name, *(data(score, format_number(score)) for score in scores), seconds])
    return join([element("h3", "All scores"), table(header, rows, class_="scores")])


def show_probabilities(report: Report, notes: ClassNotes) -> Html:
    """Return calibration and confusion."""
    bins = [
        [
            f"{100 * k / BINS:.0f} to {100 * (k + 1) / BINS:.0f} %",
            f"{n:,.0f}",
            *(data(value / n, format_percent(value / n)) for value in (sure, right)),
        ]
        for k, (n, sure, right) in enumerate(notes.bins)
        if n
    ]
    error = notes.calibration_error
    caption = join(
        [
            "If the forest says it is 80 % sure, it should be right in 80 % of cases: on the dotted line. Bars show how many rows "
            "there are. The mean distance (expected calibration error) is ",
            data(error, format_percent(error)),
            ".",
        ]
    )
    calibration = make_figure(
        "How sure, how right",
        [charts.draw_reliability(notes.bins, len(report.classes))],
        caption,
        table(["probability of the predicted class", "rows", "mean probability", "correct"], bins),
    )
    counts, names = collapse_classes(notes.confusion, report.classes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rare = f" The {names[-1]} count as one class." if len(names) < len(notes.confusion) else ""
    confusion = make_figure(
        "What is taken for what",
        [charts.draw_confusion(shares, counts, names)],
        "Each line is a true class, each column what was predicted, in percent of the line. Correct predictions are blue, on the "
        f"diagonal; wrong ones are orange.{rare}",
        table(
            ["true class", *(f"predicted {name}" for name in names)],
            [[name, *(f"{n:,}" for n in row)] for name, row in zip(names, counts, strict=True)],
        ),
    )
    return make_section("Can probabilities be trusted?", element("div", calibration, confusion, class_="pair"))


def collapse_classes(confusion: np.ndarray, classes: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return the confusion matrix of the most frequent classes, by code, with all others as one."""
    n = len(confusion)
    frequent = np.argsort(-confusion.sum(axis=1), kind="stable")[: n if n <= MAX_CLASSES else MAX_CLASSES]
    order = sorted(frequent.tolist())
    names = [classes[code] for code in order]
    group = np.full(n, len(order))
    group[order] = np.arange(len(order))
    if n > len(order):
        names.append(f"{n - len(order)} others")
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (group[:, None], group[None, :]), confusion)
    return counts, names


def show_intervals(report: Report, notes: NumberNotes) -> Html:
    """Return the coverage of intervals, overall and over time."""
    overall = notes.coverage.mean
    periods = [(report.n_first + row, means) for row, means in notes.coverage.list_means()]
    # The last period may have few rows, whose share says little.
    if len(periods) > 1 and periods[-1][0] - periods[-2][0] < notes.coverage.width / 2:
        periods.pop()
    curves = [
        Curve(f"{100 * level:.0f} % intervals", [(row, 100 * float(means[k])) for row, means in periods], f"s{k}")
        for k, level in enumerate(LEVELS)
    ]
    targets = [100 * level for level in LEVELS]
    draw = partial(
        charts.draw_curves, curves, report.drifts, report.n_rows, label="labels in their intervals", suffix=" %"
    )
    pictures = [
        draw(width=width, title="Coverage over time", targets=targets, top_value=100.0) for width in (WIDE, NARROW)
    ]
    items = [
        element("li", f"{100 * level:.0f} % intervals contain ", data(float(share), format_percent(float(share))))
        for level, share in zip(LEVELS, overall, strict=False)
    ]
    width = float(overall[-1])
    items.append(element("li", "90 % intervals are ", data(width, format_number(width)), " wide on average"))
    numbers = table(
        ["up to row", *(f"in {100 * level:.0f} % intervals" for level in LEVELS), "width of 90 % intervals"],
        [
            [f"{row:,}", *(format_percent(float(share)) for share in means[:-1]), format_number(float(means[-1]))]
            for row, means in thin(periods, MAX_TABLE_ROWS)
        ],
    )
    caption = (
        f"The share of labels inside their interval, over {format_count(notes.coverage.width, 'row')} at a time. Each curve should "
        "stay near its dotted line: below it, predictions are less certain than they claim."
    )
    legend = make_legend((curve.style, curve.name) for curve in curves)
    picture = make_figure("", pictures, caption, numbers, legend)
    return make_section("Can intervals be trusted?", element("ul", *items, class_="plain"), picture)


def show_residuals(report: Report, notes: NumberNotes) -> Html:
    """Return predictions against labels, and a histogram of residuals."""
    rows = notes.sample.rows
    some = f"A random sample of {len(rows):,} rows. " if notes.sample.n_seen > len(rows) else ""
    quantiles = np.quantile(rows, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    names = ["5 %", "25 %", "50 %", "75 %", "95 %"]
    spread = [[name, *map(format_number, pair)] for name, pair in zip(names, quantiles.tolist(), strict=True)]
    density = make_figure(
        "Predicted and observed",
        [charts.draw_density(rows, report.target if len(report.target) <= 20 else "value")],
        f"{some}The stronger the colour, the more rows; those on the dotted line are predicted exactly. The outermost hundredth on "
        "each side is not shown.",
        table(["share of rows below", "observed", "predicted"], spread),
    )
    counts, edges = charts.count_residuals(rows)
    total = max(int(counts.sum()), 1)
    bars = [
        [f"{format_number(low)} to {format_number(high)}", format_percent(n / total)]
        for low, high, n in zip(edges, edges[1:], counts, strict=False)
    ]
    bias, side = join(["On average predictions are ", data(notes.bias, format_number(abs(notes.bias)))]), " too low."
    if notes.bias == 0 or format_number(abs(notes.bias)) == format_number(0.0):
        bias, side = join(["On average predictions are neither too high nor too low"]), "."
    elif notes.bias > 0:
        side = " too high."
    residuals = make_figure(
        "How far off",
        [charts.draw_residuals(rows)],
        join([some, bias, side, " The outermost bars hold everything beyond."]),
        table(["prediction minus observed", "share of rows"], bars),
    )
    return make_section("Residuals", element("div", density, residuals, class_="pair"))


def show_importances(report: Report) -> Html | None:
    """Return the importances of features over time, one small picture each."""
    points = report.known_importances
    if not points:
        return None
    last = points[-1][1]
    best = np.argsort(-last, kind="stable")[:MAX_FEATURES]
    rest = np.setdiff1d(np.arange(len(last)), best)
    groups = [(report.features[k], [k]) for k in best]
    whole = {report.features[k]: report.whole_features[k] for k in best if len(report.whole_features)}
    if len(rest):
        groups.append((f"{len(rest)} others together", rest.tolist()))
    lines = [(name, [(rows, float(shares[group].sum())) for rows, shares in points]) for name, group in groups]
    highest = max(share for _, line in lines for _, share in line)
    cards = []
    for name, line in lines:
        picture = charts.draw_share(line, report.n_rows, highest, name)
        share = line[-1][1]
        cards.append(
            element(
                "li",
                element("span", name, class_="name", title=_find_whole(name, whole)),
                data(share, format_percent(share)),
                picture,
            )
        )
    numbers = table(
        ["rows", *(name for name, _ in lines)],
        [
            [f"{line[0]:,}", *(format_percent(values[k][1]) for _, values in lines)]
            for k, line in thin(list(enumerate(points)), MAX_TABLE_ROWS)
        ],
    )
    caption = (
        "The share of each feature in what the predictions vary by, from the beginning of the stream (left) to its end (right, with "
        "the number). All pictures have the same scale."
    )
    details = element("details", element("summary", "The numbers"), numbers)
    figure = element("figure", element("ul", *cards, class_="shares"), element("figcaption", caption), details)
    return make_section("Which features matter, over time", figure)


def _find_whole(name: str, whole: dict[str, str]) -> str | None:
    """Return the whole of a name that was shortened, else None."""
    return None if whole.get(name, name) == name else whole[name]


def show_revisions(report: Report) -> Html:
    """Return what the forest revised when."""
    title = "What was revised when"
    revisions = report.revisions
    if not revisions:
        return make_section(
            title, element("p", "This forest does not revise itself: it has nothing to choose on the way.")
        )
    intro = (
        "Whenever the rows seen have grown by half, or the loss has risen, the forest tries other weights of features, other scales and other smoothing on "
        "rows held out, and changes what lowers the error clearly."
    )
    changes = zip([None, *revisions[:-1]], revisions, strict=True)
    words = [[f"{after.n_samples_seen:,}", describe_revision(after, before)] for before, after in changes]
    lines = [[f"{revision.n_samples_seen:,}", revision.describe()] for revision in revisions]
    legend = make_legend([("dot", "features weighed anew"), ("ring", "weights kept")])
    caption = "The held-out error after each revision; a line above a point shows by how much the revision lowered it."
    plain = table(["after rows", "what changed"], words, class_="words")
    exact = element(
        "details", element("summary", "The numbers"), table(["after rows", "in detail"], lines, class_="detail")
    )
    pictures = [charts.draw_revisions(revisions, report.n_rows, width) for width in (WIDE, NARROW)]
    figure = element("figure", legend, *_show_pictures(pictures), element("figcaption", caption))
    return make_section(title, element("p", intro), figure, plain, exact)


def show_making(report: Report) -> Html:
    """Return how the report was made."""
    entries = [
        element("div", element("dt", name), element("dd", value)) for name, value in report.settings.items() if value
    ]
    how = (
        f"Rows were taken in order, {format_count(report.chunk_rows, 'row')} at a time: all were predicted, scored, and only then "
        f"learned. The first {format_count(report.n_first, 'row')} were only learned. So every number here is about rows that the "
        "model had not seen."
    )
    return make_section("How this was made", element("p", how), element("dl", *entries), class_="made")
