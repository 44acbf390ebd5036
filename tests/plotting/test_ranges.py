"""Test that outliers do not stretch ranges, and which part of a plane rows cover."""

from __future__ import annotations

import numpy as np
import pytest

from bspforest.plotting.ranges import close_gaps, fill_margins, find_covered, find_limits, find_range, find_reach

EVEN = np.arange(101.0)  # without a twentieth at each end: 5 to 95, so that outliers are below -40 or above 140


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (EVEN, (0, 100)),
        (np.append(EVEN, 1e6), (0, 100)),
        (np.append(EVEN, [-1e6, 1e6]), (0, 100)),
        (np.append(EVEN, [130.0, 1e6]), (0, 130)),  # the outermost value that is no outlier
        (np.append(EVEN, 110.0), (0, 110)),
        (np.append(EVEN, 120.0), (0, 120)),
        (np.append(EVEN, [np.nan, np.inf]), (0, 100)),
        (np.append(EVEN[:9], []), (0, 8)),
        (np.append(EVEN[:8], 1e6), (0, 1e6)),  # nine values
        (np.append(EVEN[:9], 1e6), (0, 8)),  # ten
        (np.append(EVEN[:9], 20.0), (0, 8)),  # interpolated, the quantile would be 14.6
        (np.r_[np.zeros(97), 1, 1, 1], (0, 1)),  # a rare indicator
        (np.r_[np.zeros(970), EVEN[1:31], 1e6], (0, 30)),  # mostly zeros
        (np.full(50, 7.0), (7, 7)),
        (np.array([np.nan]), (0, 1)),
    ],
)
def test_ranges(values, expected):
    """Seen to fail with interpolated quantiles (20), and without the distinct values (mostly zeros)."""
    shuffled = np.random.default_rng(0).permutation(values)
    assert find_range(shuffled) == expected


@pytest.mark.parametrize("draw", ["uniform", "normal"])
@pytest.mark.parametrize("n", [50, 1000, 20_000])
def test_usual_values_are_all_shown(draw, n):
    values = getattr(np.random.default_rng(n), draw)(size=n)
    assert find_range(values) == (values.min(), values.max())


def test_limits_have_a_margin():
    points = np.stack([np.append(EVEN, 1e6), np.append(0.01 * EVEN, 0.5)], axis=1)
    np.testing.assert_allclose(find_limits(points, None, robust=True), [[-5, -0.05], [105, 1.05]])
    np.testing.assert_allclose(find_limits(points, None)[:, 0], [-5e4, 1.05e6])
    np.testing.assert_array_equal(find_limits(points, (1, 2, 3, 4), robust=True), [[1, 3], [2, 4]])


def make_grid(m: int) -> np.ndarray:
    return np.stack(np.meshgrid(np.arange(m), np.arange(m)), axis=-1).reshape(-1, 2) / (m - 1.0)


def test_reach_of_a_grid():
    """Rows of a grid are 0.1 apart; repeated rows and outliers make no difference."""
    limits = np.array([[0.0, 0.0], [1.0, 1.0]])
    rows = np.concatenate([make_grid(11)] * 3 + [np.array([[50.0, 50.0], [0.0, 90.0]])])
    assert find_reach(rows, limits) == pytest.approx(0.3)
    assert find_reach(rows, 2 * limits) == pytest.approx(0.15)  # a fraction of the axes
    assert find_reach(np.zeros((5, 2)), limits) == np.inf
    assert find_reach(make_grid(301), limits) == 0.01


def test_two_clusters_are_covered_but_not_what_lies_between():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.uniform(0, 0.2, (500, 2)), rng.uniform(0.8, 1, (500, 2))])
    limits = np.array([[0.0, 0.0], [1.0, 1.0]])
    places = rng.random((4000, 2))
    covered = find_covered(close_gaps(places, rows, limits), rows, limits, find_reach(rows, limits))
    inside = (places < 0.2).all(axis=1) | (places > 0.8).all(axis=1)
    far = np.abs(places - 0.5).max(axis=1) < 0.2
    assert covered[inside].all() and not covered[far].any() and far.sum() > 100
    assert covered.mean() < 0.15  # 0.08 if the edges were sharp


def test_gaps_between_years_are_covered():
    """Seen to fail without `close_gaps`: only stripes next to the years are covered."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.choice([2010.0, 2011.0, 2012.0, 2020.0], 800), rng.random(800)], axis=1)
    limits = find_limits(rows, None)
    reach = find_reach(rows, limits)
    assert reach < 0.05
    year, other = np.meshgrid(np.linspace(2010, 2020, 101), np.linspace(0.05, 0.95, 10))
    places = np.stack([year.ravel(), other.ravel()], axis=1)
    covered = find_covered(close_gaps(places, rows, limits), rows, limits, reach)
    years = places[:, 0]
    near = (years <= 2012.5) | (years >= 2019.5)
    assert covered[near].all() and not covered[(years > 2013.1) & (years < 2018.9)].any()


def test_places_among_many_values_stay():
    rng = np.random.default_rng(0)
    rows, places = rng.random((1000, 2)), rng.random((50, 2))
    assert np.abs(close_gaps(places, rows, find_limits(rows, None)) - places).max() < 1e-3


def test_margins_are_covered_beside_full_edges():
    """Of 40 pixels, 2 are a margin. The left edge is full, the bottom half full, the top empty."""
    shown = np.zeros((40, 40), dtype=bool)
    shown[2:30, 2:20] = True
    shown[30:38, 2] = True
    expected = shown.copy()
    expected[2:38, :2] = True
    fill_margins(shown)
    np.testing.assert_array_equal(shown, expected)
