"""A session: rows that arrive, are added and forgotten, and the forests that learn them, all in the same order."""

from __future__ import annotations

import math
from threading import RLock
from typing import Any

import numpy as np

from .learner import ERROR_ROWS, MODELS, HonestErrors, Learner, Row
from .names import MAX_WHOLE, show_name
from .pictures import GRID, View, draw_panel, find_time, read_place
from .streams import MAX_ROWS, STREAMS, PlaneStream, make_stream

# Points of a learning curve that are sent, at most.
MAX_CURVE_POINTS = 400

# Windows offered on the page; None holds all rows.
WINDOWS = (None, 500, 200, 50)


class Refused(ValueError):
    """What was asked cannot be done; nothing has changed."""


class Stale(Refused):
    """What was asked is about rows that were dropped by a start since."""


class Session:
    """Rows in the plane, and one forest for each model that is shown.

    Rows are numbered in the order of arrival, from 0. Forests know these numbers as keys.

    Parameters
    ----------
    stream : PlaneStream
        Where rows come from; `reset` can choose another one.
    n_trees, seed : int
        Of each forest.
    window : int or None
        Hold only the latest rows.

    Attributes
    ----------
    lock : RLock
        Held by every method. Hold it around several calls that belong together.
    n_starts : int
        The number of this start. Rows of one start have numbers that those of another have, too.
    """

    def __init__(self, stream: PlaneStream, *, n_trees: int = 40, seed: int = 0, window: int | None = None) -> None:
        self._given = stream
        self.lock = RLock()
        self.n_trees = n_trees
        self.seed = seed
        self.window = _check_window(window)
        self.revision = 0
        self.n_starts = 0
        self._start(stream)

    def _start(self, stream: PlaneStream) -> None:
        self.stream = stream
        self.rows: dict[int, Row] = {}
        self.learners: dict[str, Learner] = {}
        self._errors: dict[str, HonestErrors] = {}
        self.n_arrived = 0
        self.position = 0
        self._done: list[tuple[str, int, Row]] = []
        self.revision += 1
        self.n_starts += 1

    @property
    def stream_names(self) -> dict[str, str]:
        """The titles of the streams that `reset` can choose, by name."""
        return {self._given.name: self._given.title} | {name: title for name, (title, _, _) in STREAMS.items()}

    # ------------------------------------------------------------------------------------------------------------------
    # Changing

    def check_start(self, start: int) -> None:
        """Refuse a change that is meant for another start, as by a page in another tab."""
        with self.lock:
            if start != self.n_starts:
                raise Stale(
                    f"another page has started the stream '{show_name(self.stream.title)}' since, so nothing was changed here"
                )

    def reset(self, name: str) -> str:
        """Begin a stream again, without any rows."""
        with self.lock:
            if name not in self.stream_names:
                raise Refused(f"stream must be one of {', '.join(self.stream_names)}, got {name!r}")
            self._start(self._given if name == self._given.name else make_stream(name, self.seed))
            return f"{show_name(self.stream.title)}: started again, no rows held."

    def hold(self, window: int | None) -> str:
        """Hold only the latest rows from now on, or all that will come.

        Forests with another window learn the rows held at once, which is exact: see `_keep`.
        """
        with self.lock:
            self.window = _check_window(window)
            for number in list(self.rows)[: -window if window else 0]:
                del self.rows[number]
            self.learners.clear()
            self.revision += 1
            kept = "all rows that come" if window is None else f"the latest {window:,} rows"
            return f"Holding {kept} from now on; {self._count_rows()}."

    def learn(self, n: int, models: tuple[str, ...]) -> str:
        """Let the next n rows of the stream arrive."""
        with self.lock:
            n = min(n, len(self.stream) - self.position)
            self._check_room(n)
            self._keep(models)
            for k in range(self.position, self.position + n):
                x, y = self.stream.X[k].tolist()
                self._arrive(Row(x, y, float(self.stream.y[k])))
            self.position += n
            if not n:
                return f"The stream has ended; {self._count_rows()}."
            return f"{n} row{'s' * (n > 1)} arrived; {self._count_rows()}."

    def add(self, row: Row, models: tuple[str, ...]) -> str:
        """Add a row of the user."""
        with self.lock:
            self._check_row(row)
            self._check_room(1)
            self._keep(models)
            number = self._arrive(row)
            self._done.append(("added", number, row))
            return f"Row {number} added at {self._describe_place(row)}; {self._count_rows()}."

    def forget(self, number: int, models: tuple[str, ...]) -> str:
        """Forget a row, exactly."""
        with self.lock:
            if number not in self.rows:
                raise Refused(f"row {number} is not held: id must be the number of one of the {self._count_rows()}")
            self._keep(models)
            row = self._remove(number)
            self._done.append(("forgotten", number, row))
            return f"Row {number} forgotten at {self._describe_place(row)}; {self._count_rows()}."

    def undo(self, models: tuple[str, ...]) -> str:
        """Forget the row added last, or learn the row again that was forgotten last, whichever came later."""
        with self.lock:
            while self._done and self._done[-1][0] == "added" and self._done[-1][1] not in self.rows:
                self._done.pop()  # it has left the window
            if not self._done:
                return "Nothing to undo."
            if self._done[-1][0] == "forgotten":
                self._check_room(1)
            self._keep(models)
            what, number, row = self._done.pop()
            if what == "added":
                self._remove(number)
                return f"Row {number} forgotten again; {self._count_rows()}."
            return f"Row {number} learned again, as row {self._arrive(row)}; {self._count_rows()}."

    def _check_row(self, row: Row) -> None:
        low, high = self.stream.limits
        for name, value, least, most in zip(("x", "y"), row, low, high, strict=False):
            if not least <= value <= most:
                raise Refused(f"{name} must be between {least:.6g} and {most:.6g}, got {value!r}")
        n = len(self.stream.classes)
        if n and row.label not in range(n):
            raise Refused(f"label must be a whole number from 0 to {n - 1}, got {row.label!r}")

    def _check_room(self, n: int) -> None:
        """Refuse n more rows if more than `MAX_ROWS` would be held. A window, which is no larger, makes room."""
        if n and self.window is None and len(self.rows) + n > MAX_ROWS:
            raise Refused(f"the page holds at most {MAX_ROWS:,} rows: forget some, choose a window, or start again")

    def _arrive(self, row: Row) -> int:
        number = self.n_arrived
        self.n_arrived += 1
        self.revision += 1
        for learner in self.learners.values():
            learner.predict_then_learn(row, number, self.n_arrived)
        self.rows[number] = row
        if self.window is not None:
            self._follow_window(self.window)
        return number

    def _follow_window(self, window: int) -> None:
        """Let rows leave. With ridge predictions they leave in blocks, and other forests follow."""
        numbers = list(self.rows)
        n = min([len(numbers), window, *(learner.n_held for learner in self.learners.values())])
        for learner in self.learners.values():
            for number in numbers[len(numbers) - learner.n_held : len(numbers) - n]:
                learner.forget(number)
        for number in numbers[: len(numbers) - n]:
            del self.rows[number]

    def _remove(self, number: int) -> Row:
        self.revision += 1
        for learner in self.learners.values():
            learner.forget(number)
        return self.rows.pop(number)

    def _keep(self, models: tuple[str, ...]) -> None:
        """Hold a forest for each of these models, and no other.

        A new one learns all rows held at once. That is exact: it has the distribution of a forest that has learned them one by
        one. What it would have predicted before is unknown, so its errors begin here.
        """
        for name in models:
            if name not in self.learners:
                learner = self._make_learner(name)
                learner.learn(list(self.rows.values()), list(self.rows))
                self.learners[name] = learner
        for name in set(self.learners) - set(models):
            del self.learners[name]
            self._errors[name].recent.clear()

    def _make_learner(self, name: str) -> Learner:
        n_classes = len(self.stream.classes)
        errors = self._errors.setdefault(name, HonestErrors(n_classes > 0))
        return Learner(MODELS[name], n_classes, errors, n_trees=self.n_trees, seed=self.seed, window=self.window)

    # ------------------------------------------------------------------------------------------------------------------
    # Reading

    def describe(self, view: View, known: int | None = None) -> dict[str, Any]:
        """Return everything the page shows. Rows are left out if they have not changed since revision ``known``."""
        with self.lock:
            self._keep(view.models)
            time = self._find_time(view)
            state = {
                "revision": self.revision,
                "start": self.n_starts,
                "held": len(self.rows),
                "arrived": self.n_arrived,
                "position": self.position,
                "window": self.window,
                "time": time if math.isfinite(time) else None,
                "can_undo": bool(self._done),
                "stream": self._describe_stream(),
                "panels": [self._describe_panel(name, view, time) for name in view.models],
            }
            if known != self.revision:
                table = np.array(list(self.rows.values())).reshape(-1, 3)
                state["rows"] = {"ids": list(self.rows), **dict(zip(Row._fields, table.T.tolist(), strict=True))}
            return state

    def read_place(self, view: View) -> list[dict[str, Any] | None]:
        """Return the numbers at the place of a view, per panel."""
        with self.lock:
            self._keep(view.models)
            time = self._find_time(view)
            return [read_place(self.learners[name], view, time) for name in view.models]

    def _find_time(self, view: View) -> float:
        return find_time([self.learners[name] for name in view.models], view.budget)

    def _describe_stream(self) -> dict[str, Any]:
        stream = self.stream
        return {
            "name": stream.name,
            "length": len(stream),
            "classes": [show_name(name) for name in stream.classes],
            "features": [show_name(name) for name in stream.features],
            "target": show_name(stream.target),
            "whole": {
                "classes": [show_name(name, MAX_WHOLE) for name in stream.classes],
                "features": [show_name(name, MAX_WHOLE) for name in stream.features],
                "target": show_name(stream.target, MAX_WHOLE),
            },
            "limits": stream.limits.tolist(),
            "scale": list(stream.scale),
            "spread": stream.spread,
        }

    def _describe_panel(self, name: str, view: View, time: float) -> dict[str, Any]:
        learner = self.learners[name]
        error = learner.errors.latest
        panel = {
            "model": name,
            "held": learner.n_held,
            "leaves": learner.count_leaves(time, view.one_tree),
            "error": error if math.isfinite(error) else None,
            "error_rows": len(learner.errors.recent),
            "curve": _thin(learner.errors.curve),
            "place": read_place(learner, view, time),
        }
        return panel | (draw_panel(learner, view, time, self.stream.limits) if learner.n_held else {})

    def _count_rows(self) -> str:
        n = len(self.rows)
        return f"{n:,} row{'s' * (n != 1)} held"

    def _describe_place(self, row: Row) -> str:
        x, y = map(show_name, self.stream.features)
        return f"{x} = {row.x:.3g}, {y} = {row.y:.3g}"


def _check_window(window: int | None) -> int | None:
    """Return a window of at most `MAX_ROWS` rows."""
    if window is not None and window > MAX_ROWS:
        raise Refused(f"the page holds at most {MAX_ROWS:,} rows: window must not be larger, got {window:,}")
    return window


def _thin(curve: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return at most about `MAX_CURVE_POINTS` points of a curve, with the last one."""
    step = 1 + len(curve) // MAX_CURVE_POINTS
    return curve[::-step][::-1]


def describe_choices(session: Session) -> dict[str, Any]:
    """Return what can be chosen on the page, which never changes."""
    return {
        "models": {name: model.title for name, model in MODELS.items()},
        "streams": {name: show_name(title) for name, title in session.stream_names.items()},
        "windows": list(dict.fromkeys([*WINDOWS, session.window])),
        "trees": session.n_trees,
        "error_rows": ERROR_ROWS,
        "grid": GRID,
    }
