"""Test convex hulls and clipping of polygons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from bspforest.plotting.polygons import clip_line, clip_polygon, find_hull, measure_area


def test_hull_matches_qhull():
    rng = np.random.default_rng(1)
    for n in (3, 4, 10, 200):
        points = rng.normal(size=(n, 2))
        hull = find_hull(points)
        assert measure_area(hull) == pytest.approx(ConvexHull(points).volume)
        assert {tuple(p) for p in hull} == {tuple(p) for p in points[ConvexHull(points).vertices]}
        np.testing.assert_array_equal(hull, find_hull(points[rng.permutation(n)]))


def test_hull_of_degenerate_points():
    line = np.array([[0.0, 0.0], [2.0, 2.0], [1.0, 1.0], [1.0, 1.0]])
    assert find_hull(line).tolist() == [[0.0, 0.0], [2.0, 2.0]]
    assert find_hull(line[2:]).tolist() == [[1.0, 1.0]]


def test_clipped_polygons_add_up_to_the_polygon():
    rng = np.random.default_rng(2)
    for _ in range(200):
        polygon = find_hull(rng.normal(size=(8, 2)))
        normal, offset = rng.normal(size=2), rng.normal()
        left, right = clip_polygon(polygon, normal, offset), clip_polygon(polygon, -normal, -offset)
        assert (left @ normal <= offset + 1e-9).all() and (right @ normal >= offset - 1e-9).all()
        areas = [measure_area(half) if len(half) else 0.0 for half in (left, right)]
        assert min(areas) >= 0 and sum(areas) == pytest.approx(measure_area(polygon))
        ends = clip_line(polygon, normal, offset)
        assert len(ends) == (2 if min(areas) > 0 else 0)
        np.testing.assert_allclose(ends @ normal, offset, atol=1e-12)
