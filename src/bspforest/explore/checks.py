"""Check what a page asks for: each error says what was expected, and what came."""

from __future__ import annotations

import json
from typing import Any

from .._magnitude import MAX_MAGNITUDE
from .learner import MODELS
from .pictures import PREDICTION, UNCERTAINTY, View
from .session import Refused, Session

# Rows of the stream that arrive with one request, at most.
MAX_AT_ONCE = 200

# Counts beyond these are mistakes.
MAX_COUNT = 10**9
MAX_DIGITS = 1000


def parse_body(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a request. NaN and infinite numbers are no JSON."""
    try:
        content = json.loads(body, parse_constant=_refuse_constant, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body must be a JSON object: {error}") from None
    if not isinstance(content, dict):
        raise Refused(f"the body must be a JSON object, got {_shorten(content)}")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")


class _Digits(str):
    """A whole number of too many digits to convert, beyond every bound: the check of its field refuses it."""


def _parse_int(text: str) -> int | _Digits:
    return int(text) if len(text) <= MAX_DIGITS else _Digits(text)


def _shorten(value: Any) -> str:
    try:
        text = value if isinstance(value, _Digits) else json.dumps(value)
    except RecursionError:  # read just within the limit, but writing needs more
        return "lists or objects nested too deeply"
    return text if len(text) <= 40 else f"{text[:37]}..."


def get_number(content: dict[str, Any], name: str, low: float = -MAX_MAGNITUDE, high: float = MAX_MAGNITUDE) -> float:
    """Return a finite number between two bounds."""
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        bounds = "" if high == MAX_MAGNITUDE else f" from {low:g} to {high:g}"
        raise Refused(f"{name} must be a finite number{bounds}, got {_shorten(value)}")
    return float(value)


def get_count(content: dict[str, Any], name: str, low: int, high: int) -> int:
    """Return a whole number between two bounds."""
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Refused(f"{name} must be a whole number from {low} to {high}, got {_shorten(value)}")
    return value


def get_choice(content: dict[str, Any], name: str, choices: tuple[str, ...]) -> str:
    """Return one of some texts."""
    value = content.get(name)
    if not isinstance(value, str) or value not in choices:
        raise Refused(f"{name} must be one of {', '.join(choices)}, got {_shorten(value)}")
    return value


def get_flag(content: dict[str, Any], name: str) -> bool:
    """Return a boolean."""
    value = content.get(name)
    if not isinstance(value, bool):
        raise Refused(f"{name} must be true or false, got {_shorten(value)}")
    return value


def get_window(content: dict[str, Any]) -> int | None:
    """Return the window of a session: null for all rows."""
    return None if content.get("window") is None else get_count(content, "window", 1, MAX_COUNT)


def get_view(content: dict[str, Any], session: Session) -> View:
    """Return the view that a request describes."""
    view = content.get("view")
    if not isinstance(view, dict):
        raise Refused(f"view must be a JSON object, got {_shorten(view)}")
    models = view.get("models")
    if not isinstance(models, list) or len(models) != 2 or any(name not in tuple(MODELS) for name in models):
        raise Refused(f"models must be two of {', '.join(MODELS)}, got {_shorten(models)}")
    place = view.get("place")
    if place is not None:
        if not isinstance(place, list) or len(place) != 2:
            raise Refused(f"place must be null or two numbers, got {_shorten(place)}")
        place = tuple(get_number({"place": part}, "place") for part in place)
    return View(
        models=tuple(models),
        shows=get_choice(view, "shows", (PREDICTION, UNCERTAINTY)),
        tree=get_count(view, "tree", 0, session.n_trees - 1),
        is_tree=get_flag(view, "is_tree"),
        has_cuts=get_flag(view, "has_cuts"),
        budget=get_number(view, "budget", 0.0, 1.0),
        place=place,
    )


def get_start(content: dict[str, Any]) -> int:
    """Return the number of the start whose rows a page shows."""
    return get_count(content, "start", 0, MAX_COUNT)


def get_revision(content: dict[str, Any]) -> int | None:
    """Return the revision that a page knows, if any."""
    return None if content.get("revision") is None else get_count(content, "revision", 0, MAX_COUNT)
