"""Importances of features along a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..formatting import format_table

FIRST_ROWS = 200  # fewer say little
GROWTH, FINE_GROWTH = 1.5, 1.2  # rows at a point, relative to the point before: for tables, and for pictures
MAX_COLUMNS, MAX_LINES, LONGEST_NAME = 6, 10, 16  # of the table


class ImportanceTracker:
    """Takes the importances of a forest at a few points along a stream.

    Parameters
    ----------
    forest : BSPForestRegressor or BSPForestClassifier
    names : sequence of str
        Names of the features.
    growth : float
        Rows at a point, relative to the point before.

    Attributes
    ----------
    points : list of (int, ndarray)
        Rows seen, and the share of each feature.
    """

    def __init__(self, forest: Any, names: Sequence[str], growth: float = GROWTH) -> None:
        self._forest, self._names, self._growth = forest, names, growth
        self.points: list[tuple[int, np.ndarray]] = []

    def update(self) -> None:
        """Add a point if the forest has seen enough rows since the last one."""
        due = self._growth * self.points[-1][0] if self.points else FIRST_ROWS
        if self._forest.n_samples_seen_ >= due:
            self._add()

    def finish(self) -> None:
        """Add the end of the stream."""
        if not self.points or self._forest.n_samples_seen_ > self.points[-1][0]:
            self._add()

    def _add(self) -> None:
        self.points.append((self._forest.n_samples_seen_, self._forest.feature_importances_))

    def describe(self) -> list[str]:
        """Return a table: the features that are most important at the end, in percent. No lines if importances are unknown."""
        if not self.points or np.isnan(self.points[-1][1]).any():
            return []
        best = np.argsort(-self.points[-1][1], kind="stable")[:MAX_COLUMNS]
        step = -(-len(self.points) // MAX_LINES)
        table = [["rows", *(_shorten(self._names[k]) for k in best)]]
        for rows, shares in self.points[::-1][::step][::-1]:
            table.append([f"{rows:,}", *(f"{100 * shares[k]:.1f}" for k in best)])
        more = f", the {len(best)} most important of {len(self._names)}" if len(best) < len(self._names) else ""
        return [f"Importances of features in percent{more}", *format_table(table)]

    def to_json(self) -> list[dict[str, Any]]:
        """Return all points; shares that are unknown are None."""
        return [
            {
                "rows": rows,
                "shares": {
                    name: None if np.isnan(share) else float(share)
                    for name, share in zip(self._names, shares, strict=True)
                },
            }
            for rows, shares in self.points
        ]


def _shorten(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
