"""Scores along a stream, compared with scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from bspforest.cli.evaluation.scores import MOST_POINTS, ClassScores, NumberScores


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


def test_curves_have_a_limited_number_of_points():
    scores = NumberScores(window=10)
    for k in range(5000):
        scores.add(np.array([float(k)]), np.array([0.0]))
    assert MOST_POINTS / 2 <= len(scores.curve) <= MOST_POINTS
    assert scores.curve[-1][0] > 4900
