"""Test how numbers are written in pictures, and that ticks of whole numbers are whole."""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest

from bspforest.plotting.numerals import NUMBER, WHOLE, YEAR, find_kinds, format_ticks, format_value
from bspforest.plotting.style import set_limits


def test_kinds():
    columns = {
        YEAR: [[1000, 2200], [2013, 2013]],
        WHOLE: [[999, 2000], [2000, 2201], [0, 1], [-2000, -1999]],
        NUMBER: [[2000, 2000.5], [0.1, 1.0]],
    }
    for kind, examples in columns.items():
        for example in examples:
            assert find_kinds(np.array(example, dtype=float).reshape(-1, 1)) == (kind,)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (2013.0, YEAR, "2013"),
        (2013.5, YEAR, "2013.5"),
        (12345.0, WHOLE, "12,345"),
        (3.0, WHOLE, "3"),
        (2.5, WHOLE, "2.5"),
        (2013.37, NUMBER, "2,013"),
        (0.12345, NUMBER, "0.123"),
        (1e-9, NUMBER, "1e-09"),
    ],
)
def test_single_values(value, kind, text):
    assert format_value(value, kind) == text


@pytest.mark.parametrize(
    ("ticks", "kind", "texts"),
    [
        ([2010, 2015], YEAR, ["2010", "2015"]),
        ([1000, 1500], WHOLE, ["1,000", "1,500"]),
        ([0.1 + 0.2, 0.4], NUMBER, ["0.3", "0.4"]),
        ([1000.25, 1000.5], NUMBER, ["1,000.25", "1,000.50"]),
        ([-5e5, 0, 1.5e6], NUMBER, ["\u22120.5M", "0", "1.5M"]),
        ([1e-9, 2e-9], NUMBER, ["1e\u221209", "2e\u221209"]),
        ([0, 5e9], NUMBER, ["0", "5e+09"]),
        ([], NUMBER, []),
    ],
)
def test_ticks(ticks, kind, texts):
    assert format_ticks(np.array(ticks, dtype=float), kind) == texts


def get_labels(axis):
    axis.axes.figure.canvas.draw()
    low, high = sorted(axis.get_view_interval())
    shown = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [label.get_text() for label in shown], [label.get_window_extent() for label in shown]


@pytest.mark.parametrize("width", [2.0, 4.0, 12.0])
@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        ((2011.9, 2014.1), YEAR),
        ((1990, 2024), YEAR),
        ((0.5, 3.5), WHOLE),
        ((0, 900_000), NUMBER),
        ((0.001, 0.002), NUMBER),
    ],
)
def test_labels_along_axes(width, limits, kind):
    """Labels do not overlap, have no offset, and are whole if the values are. Seen to fail with matplotlib's own ticks."""
    figure, ax = plt.subplots(figsize=(width, 3), layout="constrained")
    low, high = limits
    set_limits(ax, np.array([[low, low], [high, high]]), ["x", "y"], (kind, kind))
    for axis in (ax.xaxis, ax.yaxis):
        texts, boxes = get_labels(axis)
        values = np.array([float(text.replace(",", "")) for text in texts])
        assert len(values) > 0 and ((values >= low) & (values <= high)).all()
        assert axis.get_offset_text().get_text() == ""
        if kind != NUMBER:
            np.testing.assert_array_equal(values, np.round(values))
            assert not any("." in text for text in texts)
        if kind == YEAR:
            assert all(len(text) == 4 for text in texts)
        if axis is ax.xaxis:
            assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert len(get_labels(ax.xaxis)[0]) >= (1 if width < 3 else 2)
    plt.close(figure)
