"""Importances along a stream: when they are taken, the table and JSON."""

from __future__ import annotations

import numpy as np

from bspforest.cli.evaluation.importances import ImportanceTracker


class Forest:
    """Has seen rows, and depends on its last feature more and more."""

    n_samples_seen_ = 0

    def __init__(self, d):
        self.d = d

    @property
    def feature_importances_(self):
        last = min(self.n_samples_seen_ / 10_000, 1.0)
        return np.array([*((1 - last) / (self.d - 1) for _ in range(self.d - 1)), last])


def track(forest, names, n_rows, chunk=100):
    tracker = ImportanceTracker(forest, names)
    for n in range(chunk, n_rows + 1, chunk):
        forest.n_samples_seen_ = n
        tracker.update()
    tracker.finish()
    return tracker


def test_points_grow_by_half_and_include_the_end():
    tracker = track(Forest(2), ["a", "b"], 2_100)
    assert [n for n, _ in tracker.points] == [200, 300, 500, 800, 1200, 1800, 2100]
    tracker.finish()
    assert len(tracker.points) == 7
    assert [n for n, _ in track(Forest(2), ["a", "b"], 100).points] == [100]


def test_table_has_the_most_important_features_at_the_end():
    lines = track(Forest(8), [*"abcdefg", "a long name of a feature"], 10_000).describe()
    assert lines[0] == "Importances of features in percent, the 6 most important of 8"
    assert lines[1].split("  ")[0] == "rows" and "a long name of …" in lines[1] and "f" not in lines[1].split()
    assert lines[-1].split() == ["10,000", "100.0", *["0.0"] * 5]
    assert len(lines) <= 12


def test_unknown_importances_are_not_shown():
    forest = Forest(2)
    tracker = track(forest, ["a", "b"], 300)
    tracker.points = [(n, np.full(2, np.nan)) for n, _ in tracker.points]
    assert tracker.describe() == []
    assert tracker.to_json()[-1] == {"rows": 300, "shares": {"a": None, "b": None}}
