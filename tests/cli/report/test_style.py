"""Colours of text, read back from the page."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bspforest.cli.report import charts
from bspforest.cli.report.style import INKS, blend, find_contrast, parse_colour, read_style, read_themes

GROUNDS = {"right": "c0", "wrong": "alarm"}  # the colours of cells, checked below


def test_the_style_sheet_has_these_colours():
    style = read_style()
    for kind, colour in GROUNDS.items():
        assert f".{kind} {{ fill: var(--{colour}); }}" in style
    assert ".cell { fill: var(--page); }" in style
    themes = read_themes()
    assert themes["light"].keys() == themes["dark"].keys() >= {"page", "c0", "alarm"}
    for ink, colour in INKS.items():
        for theme in themes:
            assert f"svg .{theme}-{ink} {{ fill: {colour}; }}" in style
    assert re.search(r"@media screen and \(prefers-color-scheme: dark\) \{ svg \.dark-black", style)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_in_every_cell_has_contrast(theme):
    """Fails if text is chosen by share alone: middle blue in the dark had 3.2."""
    colours, seen = read_themes()[theme], set()
    for share in np.linspace(0, 1, 201):
        shares = np.array([[share, 1 - share], [share, 1 - share]])
        picture = charts.draw_confusion(shares, np.full((2, 2), 7), ["no", "yes"])
        cells = re.findall(
            r'class="(right|wrong)" fill-opacity="([\d.]+)".*?class="cell-text middle ([^"]*)".*?class="cell-count middle ([^"]*)"',
            picture,
        )
        assert len(cells) == 4
        for kind, opacity, *classes in cells:
            ground = blend(colours[GROUNDS[kind]], colours["page"], float(opacity))
            for names in classes:
                (ink,) = re.findall(rf"{theme}-(\w+)", names)
                seen.add((kind, ink))
                assert find_contrast(parse_colour(INKS[ink]), ground) >= 4.5
    assert theme == "light" or len(seen) == 4  # dark cells get dark text once they are bright enough


def test_contrast_of_known_colours():
    assert find_contrast(parse_colour("#777777"), parse_colour("#ffffff")) == pytest.approx(4.48, abs=0.005)
    assert blend("#ff0000", "#0000ff", 0.25) == pytest.approx((0.25, 0.0, 0.75))
