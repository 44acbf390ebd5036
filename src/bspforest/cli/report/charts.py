"""Pictures of a report: curves with marks, calibration, confusion, residuals and revisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...forest.settings import Revision
from ..formatting import format_number, format_percent
from .collect import BINS
from .drawing import Plot, make_picture
from .drift import Drift
from .markup import Html, element
from .style import RIGHT, WRONG, choose_inks

WIDE, NARROW, HALF = 1000.0, 350.0, 420.0  # widths: of the page, of a telephone, of one picture of two side by side
MAX_BANDS = 80  # with numbers that show under the mouse
DENSITY_BINS, SHADES = 36, 8
RESIDUAL_BINS = 41
LABEL_WIDTH, LABEL_ROWS = 20.0, 3  # of the numbers of marks


class Curve(NamedTuple):
    """A line over the rows of a stream."""

    name: str
    points: list[tuple[int, float]]  # finite
    style: str  # class in the style sheet


def draw_curves(
    curves: Sequence[Curve],
    drifts: Sequence[Drift],
    n_rows: int,
    *,
    width: float,
    label: str,
    suffix: str = "",
    title: str,
    targets: Sequence[float] = (),
    top_value: float | None = None,
) -> Html:
    """Draw curves over the rows of a stream, from 0 upwards, with numbered marks where drift begins.

    Parameters
    ----------
    curves : sequence of Curve
        The first is drawn on top.
    drifts : sequence of Drift
    n_rows : int
        Rows of the stream.
    width : float
    label : str
        What the curves show, above the picture.
    suffix : str
        Behind the numbers of the vertical axis.
    title : str
    targets : sequence of float
        Heights of dotted lines.
    top_value : float or None
        End of the vertical axis; by default the largest value.
    """
    highest = max((value for curve in curves for _, value in curve.points), default=1.0)
    plot = Plot(
        width,
        300.0 if width > HALF else 250.0,
        (0.0, float(n_rows)),
        (0.0, top_value or 1.05 * highest or 1.0),
        suffixes=("", suffix),
        labels=("rows of the stream", label),
        top=26.0 if drifts else 0.0,
    )
    _add_marks(plot, drifts)
    for target in targets:
        plot.add_line([(0.0, target), (float(n_rows), target)], "target")
    if width > HALF:
        _add_bands(plot, curves, suffix)
    for curve in reversed(curves):
        if len(curve.points) == 1:
            (row, value), *_ = curve.points
            plot.add("circle", cx=plot.x(row), cy=plot.y(value), r=4, class_=f"dot {curve.style}")
        plot.add_line(curve.points, curve.style)
    ends = [f"{curve.name}: {curve.points[-1][1]:.4g}{suffix} at the end" for curve in curves if curve.points]
    return plot.finish(title, f"{label}. " + "; ".join(ends) + f". {len(drifts)} marks of drift.")


def _add_marks(plot: Plot, drifts: Sequence[Drift]) -> None:
    """Add a line for each drift, a band until it was noticed, and its number, if there is room for it."""
    taken = [-math.inf] * LABEL_ROWS
    for k, drift in enumerate(drifts, 1):
        x, until = plot.x(drift.row), plot.x(drift.noticed)
        height = plot.y.start - plot.y.end
        plot.add("rect", x=x, y=plot.y.end, width=max(until - x, 0.0), height=height, class_="delay")
        plot.add("line", x1=x, x2=x, y1=plot.y.end - 8, y2=plot.y.start, class_="mark")
        free = [row for row in range(LABEL_ROWS) if x - taken[row] >= LABEL_WIDTH]
        if free:
            y = plot.y.end - 12 + free[0] * LABEL_WIDTH
            taken[free[0]] = x
            plot.add("circle", cx=x, cy=y, r=9, class_="badge")
            plot.add("text", k, x=x, y=y + 4, class_="badge-text middle")


def _add_bands(plot: Plot, curves: Sequence[Curve], suffix: str) -> None:
    """Add invisible bands, over which the mouse shows the numbers of all curves."""
    points = curves[0].points if curves else []
    step = -(-len(points) // MAX_BANDS) or 1
    values = [dict(curve.points) for curve in curves]
    left = plot.x.start
    for row, _ in points[step - 1 :: step]:
        lines = [f"row {row:,}"]
        for curve, known in zip(curves, values, strict=True):
            if row in known:
                lines.append(f"{curve.name}: {format_number(known[row])}{suffix}")
        right = plot.x(row)
        box = {"x": left, "y": plot.y.end, "width": max(right - left, 0.0), "height": plot.y.start - plot.y.end}
        # Spaces instead of line breaks, which would be shown as codes.
        plot.add("rect", element("title", "  ·  ".join(lines)), **box, class_="band")
        left = right


def draw_reliability(bins: np.ndarray, n_classes: int) -> Html:
    """Draw the share of correct predictions against the probability that the forest gave, with a bar for the rows of each bin."""
    low = math.floor(BINS / max(n_classes, 2)) / BINS
    strip = 56.0
    labels = "how sure the forest was", "how often it was right"
    x, y = (100 * low, 100.0), (0.0, 100.0)
    plot = Plot(HALF, 380.0, x, y, suffixes=(" %", " %"), labels=labels, bottom=strip + 12)
    plot.add_line([(100 * low, 100 * low), (100.0, 100.0)], "target")
    points = []
    most = bins[:, 0].max()
    for k, (n, sure, right) in enumerate(bins):
        if not n:
            continue
        left, end = plot.x(max(100 * k / BINS, 100 * low)), plot.x(100 * (k + 1) / BINS)
        text = f"{n:,.0f} rows, {format_percent(sure / n)} sure, {format_percent(right / n)} right"
        height = max(strip * n / most, 1.0)
        ground = plot.y.start + 12 + strip
        place = {"x": left + 1, "y": ground - height, "width": max(end - left - 2, 1.0), "height": height}
        plot.add("rect", element("title", text), **place, class_="bar")
        points.append((100 * sure / n, 100 * right / n, n, text))
    plot.add_line([(sure, right) for sure, right, _, _ in points], "s0")
    for sure, right, n, text in points:
        radius = 3 + 4 * math.sqrt(n / most)
        plot.add("circle", element("title", text), cx=plot.x(sure), cy=plot.y(right), r=radius, class_="dot s0")
    return plot.finish(
        "Calibration", "The closer the points are to the dotted line, the more the probabilities can be trusted."
    )


def draw_confusion(shares: np.ndarray, counts: np.ndarray, names: Sequence[str]) -> Html:
    """Draw a confusion matrix: for each true class, a line with the share of each predicted class."""
    n = len(names)
    most = 9 if n > 6 else 12
    short = [name if len(name) <= most else name[: most - 1] + "…" for name in names]
    is_upright = n > 4
    left = 30.0 + 7.0 * max(map(len, short))
    above = 34.0 + (7.0 * max(map(len, short)) if is_upright else 10.0)
    side = (HALF - left - 4) / n
    height = min(side, 84.0)
    label = element("text", "predicted", x=(left + HALF) / 2, y=14, class_="label middle")
    turned = f"rotate(-90 14 {above + n * height / 2:.1f})"
    shapes = [label, element("text", "true", x=14, y=above + n * height / 2, transform=turned, class_="label middle")]
    for k, name in enumerate(short):
        x, y = left + (k + 0.5) * side, above + (k + 0.5) * height
        if is_upright:
            style = {"x": x + 4, "transform": f"rotate(-90 {x + 4:.1f} {above - 6:.1f})", "class_": "tick"}
        else:
            style = {"x": x, "class_": "tick middle"}
        shapes.append(element("text", element("title", names[k]), name, y=above - 6, **style))
        shapes.append(element("text", element("title", names[k]), name, x=left - 8, y=y + 4, class_="tick end"))
    for row in range(n):
        for column in range(n):
            text = f"{counts[row, column]:,} rows of {names[row]} predicted as {names[column]} ({format_percent(shares[row, column])})"
            place = {"x": left + column * side, "y": above + row * height}
            shapes += _draw_cell(text, shares[row, column], counts[row, column], place, side, height, row == column)
    description = (
        "Each line shows how the rows of a true class were predicted; correct predictions are on the diagonal."
    )
    return make_picture(HALF, above + n * height + 4, "Confusion matrix", description, shapes)


def _draw_cell(
    text: str, share: float, count: int, place: dict[str, float], width: float, height: float, is_right: bool
) -> list[Html]:
    kind, opacity = "right" if is_right else "wrong", round(0.9 * share, 3)
    box = {"x": place["x"] + 1, "y": place["y"] + 1, "width": width - 2, "height": height - 2}
    cell = [
        element("rect", **box, class_="cell"),
        element("rect", element("title", text), **box, class_=kind, fill_opacity=opacity),
    ]
    inks = choose_inks(RIGHT if is_right else WRONG, opacity)
    x, y = place["x"] + width / 2, place["y"] + height / 2
    if width >= 60:
        cell.append(element("text", format_percent(share), x=x, y=y - 2, class_=f"cell-text middle {inks}"))
        cell.append(element("text", f"{count:,}", x=x, y=y + 16, class_=f"cell-count middle {inks}"))
    elif share >= 0.005:
        cell.append(element("text", f"{100 * share:.0f}", x=x, y=y + 4, class_=f"cell-count middle {inks}"))
    return cell


def draw_density(rows: np.ndarray, name: str) -> Html:
    """Draw predictions against labels, with a stronger colour where there are more rows."""
    low, high = _find_range(rows)
    plot = Plot(HALF, 360.0, (low, high), (low, high), labels=(f"observed {name}", f"predicted {name}"))
    edges = np.linspace(low, high, DENSITY_BINS + 1)
    counts, _, _ = np.histogram2d(rows[:, 0], rows[:, 1], bins=(edges, edges))
    shades = np.ceil(SHADES * np.sqrt(counts / max(counts.max(), 1))).astype(int)
    width = (plot.x.end - plot.x.start) / DENSITY_BINS
    height = (plot.y.start - plot.y.end) / DENSITY_BINS
    for shade in range(1, SHADES + 1):
        corners = np.argwhere(shades == shade)
        path = "".join(
            f"M{plot.x(edges[i]):.1f} {plot.y(edges[j + 1]):.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z"
            for i, j in corners
        )
        if path:
            plot.add("path", d=path, class_="density", fill_opacity=round(shade / SHADES, 3))
    plot.add_line([(low, low), (high, high)], "target")
    return plot.finish("Predicted against observed", "Rows on the dotted line are predicted exactly.")


def _find_range(values: np.ndarray) -> tuple[float, float]:
    """Return a range that holds all but the smallest and the largest hundredth of the numbers, and is not empty."""
    low, high = (float(value) for value in np.quantile(values, [0.01, 0.99]))
    if high > low:
        return low, high
    margin = abs(low) / 10 or 1.0
    return low - margin, high + margin


def count_residuals(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts of prediction minus label, and the edges of the bins, which are symmetric; the ends hold all beyond."""
    residuals = rows[:, 1] - rows[:, 0]
    half = float(np.quantile(np.abs(residuals), 0.99)) or 1.0
    edges = np.linspace(-half, half, RESIDUAL_BINS + 1)
    return np.histogram(np.clip(residuals, -half, half), bins=edges)[0], edges


def draw_residuals(rows: np.ndarray) -> Html:
    """Draw a histogram of residuals."""
    counts, edges = count_residuals(rows)
    shares = 100 * counts / max(counts.sum(), 1)
    labels = "prediction minus observed", "share of rows"
    plot = Plot(
        HALF, 360.0, (edges[0], edges[-1]), (0.0, 1.05 * float(shares.max())), suffixes=("", " %"), labels=labels
    )
    for k, share in enumerate(shares):
        left, right, top = plot.x(edges[k]), plot.x(edges[k + 1]), plot.y(share)
        text = f"{format_number(edges[k])} to {format_number(edges[k + 1])}: {share:.1f} % of rows"
        box = {"x": left + 0.5, "y": top, "width": right - left - 1, "height": plot.y.start - top}
        plot.add("rect", element("title", text), **box, class_="bar")
    plot.add("line", x1=plot.x(0.0), x2=plot.x(0.0), y1=plot.y.start, y2=plot.y.end, class_="line target")
    return plot.finish("Residuals", "How far predictions were above (right) or below (left) what was observed.")


def draw_share(points: Sequence[tuple[int, float]], n_rows: int, highest: float, name: str) -> Html:
    """Draw the importance of a feature over the rows of a stream, without axes."""
    width, height = 220.0, 56.0
    xs = [1 + (width - 2) * row / max(n_rows, 1) for row, _ in points]
    ys = [height - 2 - (height - 6) * share / (highest or 1.0) for _, share in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    area = f"{xs[0]:.1f},{height - 2} {path} {xs[-1]:.1f},{height - 2}"
    shapes = [
        element("polygon", points=area, class_="area"),
        element("polyline", points=path, class_="line s0"),
        element("line", x1=0, x2=width, y1=height - 1, y2=height - 1, class_="grid"),
        element("circle", cx=xs[-1], cy=ys[-1], r=3.5, class_="dot s0"),
    ]
    description = f"From {format_percent(points[0][1])} after {points[0][0]:,} rows to {format_percent(points[-1][1])} at the end."
    return make_picture(width, height, f"Importance of {name}", description, shapes)


def draw_revisions(revisions: Sequence[Revision], n_rows: int, width: float) -> Html:
    """Draw the held-out error before and after each revision over the rows of the stream, on a logarithmic axis."""
    errors = [error for revision in revisions for error in (revision.error_before, revision.error)]
    highest = max((error for error in errors if math.isfinite(error)), default=1.0)
    labels = "rows of the stream (each step of the axis is ten times as many)", "held-out squared error"
    if width <= HALF:
        labels = "rows of the stream (in powers of ten)", labels[1]
    low = min(revision.n_samples_seen for revision in revisions)
    plot = Plot(width, 240.0, (0.8 * low, 1.2 * n_rows), (0.0, 1.08 * highest or 1.0), labels=labels, is_log=True)
    known = [revision for revision in revisions if math.isfinite(revision.error)]
    plot.add_line([(revision.n_samples_seen, revision.error) for revision in known], "faint")
    for revision in known:
        x, after = plot.x(revision.n_samples_seen), plot.y(revision.error)
        text = element("title", revision.describe())
        if math.isfinite(revision.error_before) and revision.error < revision.error_before:
            before = plot.y(revision.error_before)
            plot.add("line", x1=x, x2=x, y1=before, y2=after, class_="fall")
            plot.add("circle", cx=x, cy=before, r=4, class_="ring")
        style = "dot s0" if revision.feature_weights == "accepted" else "ring s0"
        plot.add("circle", text, cx=x, cy=after, r=6, class_=style)
    return plot.finish("Revisions", f"{len(revisions)} revisions. " + revisions[-1].describe())
