"""The page as one HTML file: the sources in the folder ``page`` put together, with nothing to load from elsewhere."""

from __future__ import annotations

import json
import secrets
from functools import cache
from importlib.resources import files
from typing import Any

STYLES = ("style.css",)
SCRIPTS = ("colours.js", "plane.js", "curve.js", "page.js")


@cache
def _read(name: str) -> str:
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")


def make_page(choices: dict[str, Any]) -> tuple[str, str]:
    """Return the page and its Content-Security-Policy, which allows this page's own scripts, styles and requests only."""
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    # Names of columns are anybody's: "<" could end the script.
    data = json.dumps(choices).replace("<", "\\u003c")
    parts = {
        "{{nonce}}": nonce,
        "{{styles}}": "\n".join(map(_read, STYLES)),
        "{{scripts}}": "\n".join([f"const CHOICES = {data};", *map(_read, SCRIPTS)]),
    }
    page = _read("index.html")
    for name, text in parts.items():
        page = page.replace(name, text)
    return page, policy
