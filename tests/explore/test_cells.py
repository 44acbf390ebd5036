"""Cells of a tree in the plane: they tile it, and rows lie in the cells of their leaves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bspforest import BSPForestRegressor
from bspforest.explore.cells import find_alive, find_cells, split_polygon

LIMITS = np.array([[-0.1, -1.0], [1.1, 4.0]])


def measure_area(polygon):
    return 0.5 * sum(x * v - u * y for (x, y), (u, v) in zip(polygon, polygon[1:] + polygon[:1], strict=True))


def lies_inside(polygon, point, slack=1e-9):
    """Return whether a point lies in a convex polygon whose corners are in counterclockwise order."""
    (px, py), pairs = point, zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return all((u - x) * (py - y) - (v - y) * (px - x) >= -slack for (x, y), (u, v) in pairs)


@pytest.fixture(scope="module", params=[("pairs", "ridge"), ("pairs", "mean"), ("axes", "ridge"), ("axes", "mean")])
def forest(request):
    """Return a forest of features in different units."""
    rng = np.random.default_rng(1)
    X = rng.random((80, 2)) * [1.0, 3.0]
    cuts, values = request.param
    forest = BSPForestRegressor(4, cuts=cuts, prediction=values, scaling="minmax", random_state=0)
    return forest.partial_fit(X, X @ [1.0, 2.0])


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_cells_tile_the_plane_and_hold_their_rows(forest, share):
    for m, tree in enumerate(forest.trees_):
        times = np.sort(tree.time[tree.children_left >= 0])
        time = math.inf if share == 1.0 else times[int(share * len(times))]
        cells = find_cells(tree, LIMITS, time)
        areas = [measure_area(polygon) for polygon in cells.polygons]
        assert min(areas) > 0
        assert sum(areas) == pytest.approx(1.2 * 5.0)
        # Cuts of the leaves that the plane shows; one that lies outside the limits has no line.
        assert len(cells.polygons) == len(cells.cuts) + 1
        assert sorted(cut[4] for cut in cells.cuts) == [t for t in times if t <= time]
        by_node = dict(zip(cells.nodes, cells.polygons, strict=True))
        nodes = find_alive(tree, time)[forest.trees_.held_leaves(m)]
        assert set(nodes) == set(by_node)
        for node, row in zip(nodes, forest.held_rows().X.tolist(), strict=True):
            assert lies_inside(by_node[node], row)
            others = [v for v, polygon in by_node.items() if lies_inside(polygon, row, -1e-9)]
            assert others in ([node], [])


def test_leaves_of_all_cuts_are_those_of_apply(forest):
    held = forest.held_rows().X
    leaves = forest.apply(held)
    for m, tree in enumerate(forest.trees_):
        cells = find_cells(tree, LIMITS, math.inf)
        assert set(cells.nodes) == set(leaves[:, m])
        assert len(cells.nodes) == tree.n_leaves
        np.testing.assert_array_equal(find_alive(tree, math.inf), np.arange(tree.n_nodes))


def test_a_cut_beyond_a_corner_splits_nothing():
    square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    assert split_polygon(square, 1.0, 1.0, 5.0) == (square, [], [])
    assert split_polygon(square, 1.0, 1.0, -5.0) == ([], square, [])
