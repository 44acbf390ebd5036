"""Pictures: places and sizes of shapes, read back as numbers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from bspforest.cli.report import charts
from bspforest.cli.report.charts import HALF, NARROW, WIDE, Curve
from bspforest.cli.report.drift import Drift
from bspforest.forest.settings import Revision


def parse(svg):
    return ElementTree.fromstring(svg.replace("&nbsp;", " "))


def find(picture, class_, tag=None):
    """Return the shapes of a class, which may have others, too."""
    return [
        shape
        for shape in picture.iter()
        if set(class_.split()) <= set((shape.get("class") or "").split()) and tag in (None, shape.tag)
    ]


def read_axis(picture, along):
    """Return a function from places to numbers, made from the ticks of an axis."""
    ticks = []
    for shape in find(picture, "tick end" if along == "y" else "tick middle", "text"):
        place = float(shape.get(along)) - (4 if along == "y" else 0)
        ticks.append((place, float(re.sub("[,% ]", "", shape.text))))
    (first, low), (last, high) = ticks[0], ticks[-2]  # the last tick may be moved to stay inside
    return lambda place: low + (float(place) - first) * (high - low) / (last - first)


def read_line(picture, class_):
    """Return the points of a line, in the units of the axes."""
    x, y = read_axis(picture, "x"), read_axis(picture, "y")
    (line,) = find(picture, f"line {class_}", "polyline")
    return [(x(a), y(b)) for a, b in (point.split(",") for point in line.get("points").split())]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_curves_are_where_their_numbers_are(width):
    rng = np.random.default_rng(0)
    rows = np.arange(100, 10_001, 100)
    curves = [
        Curve(name, list(zip(rows.tolist(), (30 * rng.random(100)).tolist(), strict=True)), f"s{k}")
        for k, name in enumerate(["forest", "mean"])
    ]
    drifts = [Drift(4000, 4500, 0.1, 0.3), Drift(4020, 4600, 0.1, 0.3)]
    picture = parse(charts.draw_curves(curves, drifts, 10_000, width=width, label="error", suffix=" %", title="Error"))
    for curve in curves:
        np.testing.assert_allclose(read_line(picture, curve.style), curve.points, atol=10_000 / width)
    x = read_axis(picture, "x")
    assert [x(mark.get("x1")) for mark in find(picture, "mark")] == pytest.approx([4000, 4020], abs=20)
    band = find(picture, "delay")[0]
    assert x(float(band.get("x")) + float(band.get("width"))) == pytest.approx(4500, abs=20)
    badges = find(picture, "badge")
    assert [text.text for text in find(picture, "badge-text")] == ["1", "2"]
    assert badges[0].get("cy") != badges[1].get("cy")  # one below the other, as they are close
    assert picture.get("role") == "img" and picture.find("title").text == "Error"
    assert "forest" in picture.find("desc").text and "2 marks" in picture.find("desc").text
    if width == WIDE:
        assert "row 10,000" in find(picture, "band")[-1].find("title").text


def test_curves_of_one_point_and_of_zeros_can_be_drawn():
    one = parse(charts.draw_curves([Curve("forest", [(100, 0.5)], "s0")], [], 100, width=WIDE, label="", title=""))
    assert len(find(one, "dot s0")) == 1
    zero = charts.draw_curves([Curve("forest", [(1, 0.0), (2, 0.0)], "s0")], [], 2, width=WIDE, label="", title="")
    np.testing.assert_allclose(read_line(parse(zero), "s0"), [(1, 0.0), (2, 0.0)], atol=0.01)
    assert "nan" not in charts.draw_curves([Curve("forest", [], "s0")], [], 100, width=WIDE, label="", title="")


def test_reliability_shows_shares_and_counts():
    bins = np.zeros((20, 3))
    bins[12], bins[19] = (100, 62, 50), (400, 390, 396)
    picture = parse(charts.draw_reliability(bins, 2))
    assert read_line(picture, "s0") == [pytest.approx((62, 50), abs=0.5), pytest.approx((97.5, 99), abs=0.5)]
    heights = [float(bar.get("height")) for bar in find(picture, "bar")]
    assert heights[1] == pytest.approx(4 * heights[0], rel=0.01)
    assert "400 rows" in find(picture, "bar")[1].find("title").text


@pytest.mark.parametrize("n", [2, 5, 13])
def test_confusion_has_a_cell_for_each_pair(n):
    counts = np.random.default_rng(n).integers(0, 100, (n, n))
    shares = counts / counts.sum(axis=1, keepdims=True)
    picture = parse(charts.draw_confusion(shares, counts, [f"class {k}" for k in range(n)]))
    right, wrong = find(picture, "right", "rect"), find(picture, "wrong", "rect")
    assert (len(right), len(wrong)) == (n, n * n - n)
    assert [float(cell.get("fill-opacity")) for cell in right] == pytest.approx(0.9 * np.diag(shares), abs=0.01)
    assert f"{counts[0, 1]} rows of class 0 predicted as class 1" in wrong[0].find("title").text
    xs = [float(cell.get("x")) for cell in right]
    assert xs == sorted(xs) and max(xs) + float(right[0].get("width")) <= HALF
    texts = {text.text for text in picture.iter("text")}
    assert {"predicted", "true"} <= texts


def test_density_and_residuals_count_all_rows():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=3000)
    rows = np.column_stack([truth, truth + 0.2 * rng.normal(size=3000)])
    density = parse(charts.draw_density(rows, "y"))
    squares = sum(path.get("d").count("M") for path in find(density, "density"))
    assert 36 <= squares <= 36 * 8  # a band along the diagonal
    counts, edges = charts.count_residuals(rows)
    assert counts.sum() == 3000 and edges[0] == -edges[-1]
    assert counts[0] >= 3 and counts[-1] >= 3  # those beyond
    picture = parse(charts.draw_residuals(rows))
    y = read_axis(picture, "y")
    shown = [y(bar.get("y")) for bar in find(picture, "bar")]
    np.testing.assert_allclose(shown, 100 * counts / 3000, atol=0.1)


def test_constant_predictions_can_be_drawn():
    rows = np.tile([2.0, 2.0], (50, 1))
    assert find(parse(charts.draw_density(rows, "y")), "density")
    assert "nan" not in charts.draw_residuals(rows)


def test_shares_have_a_common_scale():
    low = parse(charts.draw_share([(200, 0.1), (400, 0.2)], 400, 0.8, "a"))
    high = parse(charts.draw_share([(200, 0.4), (400, 0.8)], 400, 0.8, "b"))

    def height(picture):
        line, ground = find(picture, "line s0")[0], 54.0
        return [ground - float(point.split(",")[1]) for point in line.get("points").split()]

    assert height(high) == pytest.approx([4 * value for value in height(low)], abs=0.5)


def test_revisions_show_the_error_before_and_after():
    revisions = [
        Revision(100, "minmax", "rejected", 3.0, 0.5, 0.5, 1.0, 0.1),
        Revision(200, "quantile", "accepted", 2.0, 0.4, 0.3, 1.0, 0.1),
        Revision(1000, "quantile", "kept", 2.0, np.nan, np.nan, 1.0, 0.1),
    ]
    picture = parse(charts.draw_revisions(revisions, 1500, WIDE))
    y = read_axis(picture, "y")
    (accepted,) = find(picture, "dot s0")
    assert y(accepted.get("cy")) == pytest.approx(0.3, abs=0.005)
    assert "after 200 rows: feature weights accepted" in accepted.find("title").text
    (fall,) = find(picture, "fall")
    assert y(fall.get("y1")) == pytest.approx(0.4, abs=0.005)
    assert "nan" not in ElementTree.tostring(picture, encoding="unicode").replace("error nan", "")
