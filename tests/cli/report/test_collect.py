"""What is noted of a stream, compared with all rows at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn import metrics

from bspforest.cli.report.collect import (
    BINS,
    LEVELS,
    MAX_PERIODS,
    QUANTILES,
    SAMPLE_ROWS,
    ClassNotes,
    NumberNotes,
    Periods,
    Sample,
)


def test_confusion_and_calibration_match_numpy():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), 1000)
    truth = np.array([rng.choice(3, p=p) for p in probabilities])
    notes = ClassNotes()
    for k in range(0, 1000, 70):
        notes.add(truth[k : k + 70], probabilities[k : k + 70])
    predicted, sureness = probabilities.argmax(axis=1), probabilities.max(axis=1)
    np.testing.assert_array_equal(notes.confusion, metrics.confusion_matrix(truth, predicted))
    expected = 0.0
    edges = np.linspace(0, 1, BINS + 1)
    for low, high in itertools.pairwise(edges):
        rows = (sureness >= low) & (sureness < high)
        if rows.any():
            expected += rows.mean() * abs(sureness[rows].mean() - (truth == predicted)[rows].mean())
    assert notes.calibration_error == pytest.approx(expected)
    assert 0.0 < expected < 0.1
    assert notes.majority == (np.bincount(truth).argmax(), np.bincount(truth).max() / 1000)


def test_few_rows_explain_a_calibration_error():
    """The error that true probabilities would have by chance is about that of simulated ones."""
    rng = np.random.default_rng(0)
    errors, chances = [], []
    for _ in range(100):
        probabilities = rng.dirichlet(np.ones(2), 200)
        notes = ClassNotes()
        notes.add((rng.random(200) < probabilities[:, 1]).astype(int), probabilities)
        errors.append(notes.calibration_error)
        chances.append(notes.chance_error)
    assert np.mean(chances) == pytest.approx(np.mean(errors), rel=0.1)


def test_overconfidence_is_a_calibration_error():
    notes = ClassNotes()
    notes.add(np.array([0, 1] * 50), np.tile([0.9, 0.1], (100, 1)))  # 90 % sure, 50 % right
    assert notes.calibration_error == pytest.approx(0.4)


def test_a_new_class_is_counted_as_wrong():
    notes = ClassNotes()
    notes.add(np.array([0, 1]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    notes.add(np.array([3, 0]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert notes.confusion.shape == (4, 4)
    assert notes.confusion[3, 0] == 1 and notes.confusion[0, 0] == 2 and notes.confusion.sum() == 4


def test_coverage_matches_numpy():
    rng = np.random.default_rng(1)
    truth, predicted = rng.normal(size=900), np.zeros(900)
    quantiles = np.tile(np.quantile(rng.normal(size=100_000), QUANTILES), (900, 1)) + 0.1
    notes = NumberNotes()
    for k in range(0, 900, 40):
        notes.add(truth[k : k + 40], predicted[k : k + 40], quantiles[k : k + 40])
    for k, level in enumerate(LEVELS):
        low = quantiles[:, QUANTILES.index(round(0.5 - level / 2, 6))]
        high = quantiles[:, QUANTILES.index(round(0.5 + level / 2, 6))]
        inside = (low <= truth) & (truth <= high)
        assert notes.coverage.mean[k] == pytest.approx(inside.mean())
        assert inside.mean() == pytest.approx(level, abs=0.05)
        end, means = notes.coverage.list_means()[3]
        assert means[k] == pytest.approx(inside[end - notes.coverage.width : end].mean())
    assert notes.coverage.mean[-1] == pytest.approx((quantiles[:, -1] - quantiles[:, 0]).mean())
    assert notes.bias == pytest.approx(-truth.mean())


def test_periods_are_means_of_equally_many_rows():
    values = np.random.default_rng(0).random((1000, 2))
    periods = Periods(2)
    for part in np.split(values, [1, 30, 31, 500]):
        periods.add(part)
    means = periods.list_means()
    assert periods.width == 16 and MAX_PERIODS / 2 <= len(means) <= MAX_PERIODS
    for end, mean in means[:-1]:
        np.testing.assert_allclose(mean, values[end - 16 : end].mean(axis=0))
    assert means[-1][0] == 1000
    np.testing.assert_allclose(means[-1][1], values[992:].mean(axis=0))
    np.testing.assert_allclose(periods.mean, values.mean(axis=0))


def test_a_sample_is_uniform_limited_and_the_same_for_any_chunks():
    rows = np.column_stack([np.arange(60_000.0), np.zeros(60_000)])
    whole, parts, few = Sample(), Sample(), Sample()
    whole.add(rows)
    for k in range(0, 60_000, 1_700):
        parts.add(rows[k : k + 1_700])
    few.add(rows[:50])
    assert len(whole.rows) == SAMPLE_ROWS
    np.testing.assert_array_equal(whole.rows, parts.rows)
    assert np.quantile(whole.rows[:, 0], [0.25, 0.5, 0.75]) == pytest.approx([15_000, 30_000, 45_000], abs=1000)
    np.testing.assert_array_equal(few.rows, rows[:50])
