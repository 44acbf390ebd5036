"""The frame of a picture in SVG: axes, grid, labels. Colours and fonts are those of the page's style sheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .markup import Html, element
from .scales import Scale, format_ticks

CHARACTER = 7.0  # width of a character of a tick, in pixels
LINE = 18.0  # height of a line of text


class Plot:
    """A picture with two axes.

    Parameters
    ----------
    width, height : float
        Size in pixels, ticks and labels included.
    x, y : (float, float)
        Ranges of the axes.
    suffixes : (str, str)
        Behind the ticks of each axis.
    labels : (str, str)
        Below the horizontal axis, and above the vertical one.
    is_log : bool
        Whether the horizontal axis is logarithmic.
    top : float
        Room above the frame, besides that for the label.
    bottom : float
        Room between the frame and the ticks of the horizontal axis.
    """

    def __init__(
        self,
        width: float,
        height: float,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        suffixes: tuple[str, str] = ("", ""),
        labels: tuple[str, str] = ("", ""),
        is_log: bool = False,
        top: float = 0.0,
        bottom: float = 0.0,
    ) -> None:
        self.width, self.height = width, height
        self._labels = labels
        above = 10.0 + (LINE if labels[1] else 0.0)
        ground = height - 24.0 - (LINE if labels[0] else 0.0)
        self.y = Scale(*y, ground - bottom, above + top)
        y_ticks = self.y.find_ticks(5)
        y_names = format_ticks(y_ticks, suffixes[1])
        left = 10.0 + CHARACTER * max(map(len, y_names), default=0)
        self.x = Scale(*x, left, width - 22.0, is_log)
        x_ticks = self.x.find_ticks(max(3, int((width - left) / 75)))
        x_names = format_ticks(x_ticks, suffixes[0])
        if is_log:
            x_names = [f"{tick:,.0f}" for tick in x_ticks]
        self.shapes: list[Html] = []
        for tick, name in zip(y_ticks, y_names, strict=True):
            self.add("line", x1=left, x2=self.x.end, y1=self.y(tick), y2=self.y(tick), class_="grid")
            self.add("text", name, x=left - 6, y=self.y(tick) + 4, class_="tick end")
        for tick, name in zip(x_ticks, x_names, strict=True):
            place = min(self.x(tick), width - CHARACTER * len(name) / 2)
            self.add("text", name, x=place, y=ground + 18, class_="tick middle")

    def add(self, name: str, /, *children: Any, **attributes: Any) -> None:
        """Add a shape."""
        self.shapes.append(element(name, *children, **attributes))

    def add_line(self, points: Iterable[tuple[float, float]], class_: str) -> None:
        """Add a line through points in the units of the axes."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.add("polyline", points=path, class_=f"line {class_}")

    def finish(self, title: str, description: str) -> Html:
        """Return the picture."""
        below, above = self._labels
        if below:
            self.add("text", below, x=(self.x.start + self.x.end) / 2, y=self.height - 6, class_="label middle")
        if above:
            self.add("text", above, x=4, y=14, class_="label")
        return make_picture(self.width, self.height, title, description, self.shapes)


def make_picture(width: float, height: float, title: str, description: str, shapes: Sequence[Html]) -> Html:
    """Return a picture with a name and a description for those who do not see it."""
    names = element("title", title), element("desc", description)
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *names, *shapes, viewBox=box, width=f"{width:g}", height=f"{height:g}", role="img")
