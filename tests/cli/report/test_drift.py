"""Drift: rises of the error are found where they are, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from bspforest.cli.report.drift import DriftDetector


def find_drifts(*parts):
    detector = DriftDetector()
    for part in parts:
        detector.add(part)
    return detector.drifts


def correlated(rng, n, correlation=0.5):
    """Return normal numbers whose neighbours correlate."""
    return lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], rng.normal(size=n))


RISES = {
    "classes": lambda rng, n, after: rng.random(n) < (0.31 if after else 0.08),
    "normal": lambda rng, n, after: rng.normal(scale=2.0 if after else 1.0, size=n),
    "heavy tails": lambda rng, n, after: (2.5 if after else 1.0) * rng.standard_t(3, n),
    "correlated": lambda rng, n, after: (2.5 if after else 1.0) * correlated(rng, n),
    "a bias": lambda rng, n, after: rng.normal(size=n) + (3.0 if after else 0.0),
    "perfect before": lambda rng, n, after: rng.random(n) < (0.2 if after else 0.0),
}


@pytest.mark.parametrize("kind", RISES)
@pytest.mark.parametrize("seed", range(3))
def test_an_abrupt_rise_is_marked_once_and_soon(kind, seed):
    rng = np.random.default_rng(seed)
    before, after = RISES[kind](rng, 3000, False), RISES[kind](rng, 2000, True)
    (drift,) = find_drifts(before, after)
    assert abs(drift.row - 3000) <= 100
    assert 3000 < drift.noticed <= 3500
    assert drift.before == pytest.approx(np.abs(before.astype(float)).mean(), rel=0.1, abs=0.01)
    assert drift.after == pytest.approx(np.abs(after.astype(float)).mean(), rel=0.4)


STATIONARY = {
    "rarely wrong": lambda rng, n: rng.random(n) < 0.01,
    "often wrong": lambda rng, n: rng.random(n) < 0.4,
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(2.5, n),
    "correlated": lambda rng, n: correlated(rng, n),
    "exact": lambda rng, n: np.zeros(n),
    "constant": lambda rng, n: np.full(n, 0.3),
}


@pytest.mark.parametrize("kind", STATIONARY)
def test_a_stationary_stream_has_no_marks(kind):
    for seed in range(4):
        assert find_drifts(STATIONARY[kind](np.random.default_rng(seed), 20_000)) == [], seed


def test_long_spells_of_wrong_predictions_are_rarely_marked():
    """Spells of some 60 rows: without allowing for how much neighbouring blocks resemble each other, there are 13 marks."""
    marks = [find_drifts(correlated(np.random.default_rng(seed), 10_000, 0.97) > 0.8) for seed in range(20)]
    assert sum(map(len, marks)) <= 3


@pytest.mark.parametrize("scale", [100, 1000, 5000])
def test_a_model_that_learns_does_not_drift(scale):
    """The error falls, fast or slowly: only a rise counts."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rates = 0.05 + 0.45 * np.exp(-np.arange(20_000) / scale)
        assert find_drifts(rng.random(20_000) < rates) == []
        assert find_drifts(rng.normal(scale=rates)) == []
        assert find_drifts(rng.random(3000) < 0.4, rng.random(3000) < 0.1) == []


def test_a_rise_after_a_fall_is_compared_with_the_low():
    rng = np.random.default_rng(0)
    (drift,) = find_drifts(*(rng.random(3000) < rate for rate in (0.4, 0.1, 0.4)))
    assert abs(drift.row - 6000) <= 64
    assert drift.before == pytest.approx(0.1, abs=0.02)


def test_every_rise_of_several_is_marked():
    rng = np.random.default_rng(1)
    drifts = find_drifts(*(rng.random(2000) < rate for rate in (0.1, 0.4, 0.1, 0.4, 0.1)))
    assert [round(drift.row, -3) for drift in drifts] == [2000, 6000]


def test_a_certain_but_small_rise_is_not_marked():
    rng = np.random.default_rng(0)
    assert find_drifts(rng.random(60_000) < 0.3, rng.random(60_000) < 0.32) == []
    assert len(find_drifts(rng.random(60_000) < 0.3, rng.random(60_000) < 0.42)) == 1


def test_a_slow_rise_is_marked():
    for seed in range(3):
        rates = np.concatenate([np.full(10_000, 0.1), np.linspace(0.1, 0.3, 30_000)])
        drifts = find_drifts(np.random.default_rng(seed).random(40_000) < rates)
        assert drifts
        assert all(drift.noticed > 10_000 and drift.row > 8_000 and drift.after > drift.before for drift in drifts)


def test_chunks_do_not_matter():
    rng = np.random.default_rng(2)
    errors = np.concatenate([rng.random(1500) < 0.1, rng.random(500) < 0.5])
    expected = find_drifts(errors)
    assert len(expected) == 1
    assert find_drifts(*np.split(errors, range(1, 2000))) == expected
    assert find_drifts(*np.split(errors, range(7, 2000, 77))) == expected


def test_memory_is_logarithmic():
    detector = DriftDetector()
    detector.add(np.random.default_rng(0).random(200_000))
    assert detector._buckets[:, 0].sum() == 200_000 // 32  # nothing was forgotten
    assert len(detector._buckets) < 100
