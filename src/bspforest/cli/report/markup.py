"""HTML and SVG as text in which everything that comes from data is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..terminal import printable

VOID = {"meta", "br"}


class Html(str):
    """Markup, which is inserted as it is. All other text is escaped."""


def escape(value: Any) -> Html:
    r"""Return text as markup; control characters and characters that turn the direction of text are shown by their codes.

    >>> escape("<b>\x00 & \u202e")
    '&lt;b&gt;\\x00 &amp; \\u202e'
    """
    if isinstance(value, Html):
        return value
    return Html(html.escape(printable(str(value))).replace(" %", "&nbsp;%"))  # no line break between number and sign


def element(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Return an element. Attributes are named as in HTML, with ``_`` for ``-``, and ``class_``; those that are None are left out.

    >>> element("p", "a < b", element("br"), class_="note", data_row=3.14159)
    '<p class="note" data-row="3.14">a &lt; b<br></p>'
    """
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(shown)}"')
    begin = f"<{' '.join(parts)}>"
    return Html(begin) if name in VOID else Html(f"{begin}{join(children)}</{name}>")


def join(children: Iterable[Any]) -> Html:
    """Return several pieces of text or markup as one; None is left out."""
    return Html("".join(escape(child) for child in children if child is not None))


def data(value: float, shown: str) -> Html:
    """Return a number as it is shown, with its exact value for programs."""
    return element("data", shown, value=repr(float(value)) if math.isfinite(value) else "")


def table(header: Sequence[Any], rows: Iterable[Sequence[Any]], *, class_: str | None = None) -> Html:
    """Return a table, in a box that scrolls sideways if it is too wide. The first cell of each row is its heading."""
    head = element("tr", *(element("th", cell, scope="col") for cell in header))
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    made = element("table", element("thead", head), element("tbody", *body), class_=class_)
    return element("div", made, class_="scroll", tabindex=0)
