"""Scores along a stream, compared with scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from bspforest.cli.evaluation.scores import MAX_POINTS, ClassScores, NumberScores


def test_scores_match_scikit_learn():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 700)
    probabilities = rng.dirichlet(np.ones(3), 700)
    predicted = probabilities.argmax(axis=1)
    scores = ClassScores(window=200, n_classes=3)
    for k in range(0, 700, 50):
        scores.add(truth[k : k + 50], predicted[k : k + 50], probabilities[k : k + 50])
    for found, rows in ((scores.overall(), slice(None)), (scores.recent(), slice(500, None))):
        assert found["accuracy"] == pytest.approx(metrics.accuracy_score(truth[rows], predicted[rows]))
        assert found["log loss"] == pytest.approx(metrics.log_loss(truth[rows], probabilities[rows], labels=[0, 1, 2]))
        assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(truth[rows], predicted[rows]))
    y, guess = rng.normal(1e6, 2, 700), rng.normal(1e6, 2, 700)
    numbers = NumberScores(window=200)
    for k in range(0, 700, 50):
        numbers.add(y[k : k + 50], guess[k : k + 50])
    for found, rows in ((numbers.overall(), slice(None)), (numbers.recent(), slice(500, None))):
        assert found["RMSE"] == pytest.approx(metrics.root_mean_squared_error(y[rows], guess[rows]))
        assert found["MAE"] == pytest.approx(metrics.mean_absolute_error(y[rows], guess[rows]))
        assert found["R²"] == pytest.approx(metrics.r2_score(y[rows], guess[rows]))


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_a_curve_over_fewer_rows_is_that_of_a_shorter_window(chunk):
    rng = np.random.default_rng(0)
    truth, predicted = rng.normal(size=900), rng.normal(size=900)
    classes = rng.integers(0, 3, (2, 900))
    for long, short, add in (
        (NumberScores(500), NumberScores(100), lambda s, rows: s.add(truth[rows], predicted[rows])),
        (ClassScores(500, 3), ClassScores(100, 3), lambda s, rows: s.add(classes[0, rows], classes[1, rows], None)),
    ):
        assert long.draw_over(100) == []
        for start in range(0, 900, chunk):
            add(long, slice(start, start + chunk))
            add(short, slice(start, start + chunk))
        np.testing.assert_allclose(long.draw_over(100), short.curve)
        assert long.draw_over(500) == long.curve


def test_a_curve_over_fewer_rows_of_a_long_stream():
    """Points are dropped on the way: each is still the mean of the latest rows, of 100 or a few more."""
    errors = np.abs(np.random.default_rng(0).normal(size=5003))
    scores = NumberScores(window=1000)
    for error in errors:
        scores.add(np.array([error]), np.array([0.0]))
    points = scores.draw_over(100)
    assert [row for row, _ in points] == [row for row, _ in scores.curve]
    step = points[1][0] - points[0][0]
    assert step == 8
    for row, value in points[50:]:
        n = -(-100 // step) * step
        assert value == pytest.approx(np.sqrt(np.mean(errors[row - n : row] ** 2)))


def test_curves_have_a_limited_number_of_points():
    scores = NumberScores(window=10)
    for k in range(5000):
        scores.add(np.array([float(k)]), np.array([0.0]))
    assert MAX_POINTS / 2 <= len(scores.curve) <= MAX_POINTS
    assert scores.curve[-1][0] > 4900
