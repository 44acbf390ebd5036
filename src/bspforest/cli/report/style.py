"""The style sheet of the page, and the colour of text on its colours."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

THEMES = ("light", "dark")
INKS = {"black": "#000000", "white": "#ffffff"}  # one of them has a contrast of at least 4.58 with any colour
RIGHT, WRONG, CELL = "c0", "alarm", "page"  # colours of the confusion matrix, and of the cells below them


@cache
def read_style() -> str:
    """Return the style sheet."""
    return resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")


@cache
def read_themes() -> dict[str, dict[str, str]]:
    """Return the named colours of each theme, from the style sheet."""
    rules = re.findall(r":root \{(.*?)\}", read_style(), re.S)
    return {name: dict(re.findall(r"--([\w-]+): (#\w{6})\b", rule)) for name, rule in zip(THEMES, rules, strict=True)}


def choose_inks(colour: str, opacity: float) -> str:
    """Return the classes of text on a cell of the confusion matrix: the ink with more contrast, for each theme."""
    return " ".join(f"{theme}-{_choose_ink(colours, colour, opacity)}" for theme, colours in read_themes().items())


def _choose_ink(colours: dict[str, str], colour: str, opacity: float) -> str:
    ground = blend(colours[colour], colours[CELL], opacity)
    return max(INKS, key=lambda ink: find_contrast(parse_colour(INKS[ink]), ground))


def parse_colour(text: str) -> tuple[float, ...]:
    """Return red, green and blue, from 0 to 1.

    >>> parse_colour("#ff0033")
    (1.0, 0.0, 0.2)
    """
    return tuple(int(text[k : k + 2], 16) / 255 for k in (1, 3, 5))


def blend(over: str, below: str, opacity: float) -> tuple[float, ...]:
    """Return a colour of some opacity on another one."""
    pairs = zip(parse_colour(over), parse_colour(below), strict=True)
    return tuple(opacity * a + (1 - opacity) * b for a, b in pairs)


def find_contrast(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG 2 defines it.

    >>> round(find_contrast((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)), 6)
    21.0
    """
    high, low = sorted((_find_luminance(first), _find_luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _find_luminance(colour: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
