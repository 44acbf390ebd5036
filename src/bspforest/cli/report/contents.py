"""What is in a report: everything the page is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...forest.settings import Revision
from ..evaluation.runner import Runner
from .collect import ClassNotes, NumberNotes
from .drift import Drift

CURVE_POINTS = 20  # independent ones of an error curve, at least, unless they would have too few rows
MIN_CURVE_ROWS = 100


@dataclass
class Report:
    """An evaluation, as far as it went.

    Parameters
    ----------
    source, target : str
        Names of the data and of the column that is predicted.
    features : sequence of str
    classes : list of str
        By code; empty for regression.
    runners : sequence of Runner
        The forest and its baselines.
    notes : ClassNotes or NumberNotes
    n_rows, n_skipped : int
        Rows read, and malformed rows.
    chunk_rows, score_window : int
    importances : list of (int, ndarray)
        Rows seen, and the share of each feature.
    revisions : sequence of Revision
        Empty for means.
    settings : dict
        What the report was made with, in words.
    interrupted : bool
    whole_features : sequence of str
        Names of features before they were shortened, if they were.
    """

    source: str
    target: str
    features: Sequence[str]
    classes: list[str]
    runners: Sequence[Runner]
    notes: ClassNotes | NumberNotes
    n_rows: int
    n_skipped: int
    chunk_rows: int
    score_window: int
    importances: list[tuple[int, np.ndarray]]
    revisions: Sequence[Revision]
    settings: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    whole_features: Sequence[str] = ()

    @property
    def n_first(self) -> int:
        """Rows of the first chunk, which are only learned."""
        return self.notes.n_first

    @property
    def n_scored(self) -> int:
        """Rows that were predicted before they were learned."""
        return self.runners[0].scores.n_rows

    @property
    def n_recent(self) -> int:
        """Rows of the running score at the end."""
        return min(self.score_window, self.n_scored)

    @property
    def curve_rows(self) -> int:
        """Rows of each point of the error curve: fewer than of the running score in a short stream, to show abrupt changes."""
        rows = max(self.n_scored // CURVE_POINTS, MIN_CURVE_ROWS)
        return min(self.score_window, -(-rows // self.chunk_rows) * self.chunk_rows)

    @property
    def drifts(self) -> list[Drift]:
        """Rises of the error, by rows of the stream."""
        return [
            drift._replace(row=drift.row + self.n_first, noticed=drift.noticed + self.n_first)
            for drift in self.notes.detector.drifts
        ]

    @property
    def known_importances(self) -> list[tuple[int, np.ndarray]]:
        """Importances where they are known. They are not for isotropic cuts of very many features."""
        return [(rows, shares) for rows, shares in self.importances if not np.isnan(shares).any()]
