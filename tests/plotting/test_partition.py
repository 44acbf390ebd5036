"""Test that PartitionDisplay draws the cells, hulls, cuts and labels of the tree."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.plotting import (
    PartitionDisplay,
)
from bspforest.plotting.polygons import measure_area

BLUE, ORANGE = np.array([0, 0x72, 0xB2]) / 255, np.array([0xE6, 0x9F, 0]) / 255
FAMILIES = ("pairs", "axes", "isotropic")


def corners_of(collection) -> list[np.ndarray]:
    """Return the corners of the polygons drawn."""
    return [path.vertices[:-1] for path in collection.get_paths()]


@pytest.mark.parametrize("cuts", FAMILIES)
def test_cells_tile_the_axes(moons, cuts):
    X, y = moons
    forest = BSPForestClassifier(3, cuts=cuts, budget_scale=2, random_state=1, prediction="mean").fit(X, y)
    display = PartitionDisplay.from_estimator(forest, tree=2).plot()
    tree = forest.trees_[2]
    cells = corners_of(display.cells_)
    assert len(cells) == tree.n_leaves > 5
    areas = [measure_area(cell) for cell in cells]
    (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    assert min(areas) > 0
    assert sum(areas) == pytest.approx((right - left) * (top - bottom))
    assert left < X[:, 0].min() and top > X[:, 1].max()


@pytest.mark.parametrize("cuts", FAMILIES)
def test_points_in_the_hull_of_a_leaf_are_predicted_by_that_leaf(moons, cuts):
    X, y = moons
    forest = BSPForestClassifier(2, cuts=cuts, budget_scale=2, random_state=1, prediction="mean").fit(X, y)
    section = PartitionDisplay.from_estimator(forest, tree=1).section
    np.testing.assert_array_equal(section.leaves, forest.apply(X)[:, 1])
    rng = np.random.default_rng(0)
    for v in section.leaf_nodes:
        held = X[section.leaves == v]
        places = rng.dirichlet(np.ones(len(held)), 20) @ held
        assert (forest.apply(places)[:, 1] == v).all()
        for normal, offset in _sides(section.hulls[v]):
            assert (places @ normal <= offset + 1e-9).all()


def _sides(polygon):
    """Yield the half planes whose intersection is a polygon with counterclockwise corners."""
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        normal = np.array([b[1] - a[1], a[0] - b[0]])
        yield normal, normal @ a


@pytest.mark.parametrize("cuts", FAMILIES)
def test_hulls_are_nested_and_split_by_their_cuts(moons, cuts):
    X, y = moons
    forest = BSPForestClassifier(1, cuts=cuts, budget_scale=2, random_state=3, prediction="mean").fit(X, y)
    section, tree = PartitionDisplay.from_estimator(forest).section, forest.trees_[0]
    for v in range(tree.n_nodes):
        hull = section.hulls[v]
        if v:
            for normal, offset in _sides(section.hulls[tree.parent[v]]):
                assert (hull @ normal <= offset + 1e-12).all()
        if cuts == "axes":
            assert len(hull) == 4
        if tree.children_left[v] < 0:
            continue
        normal = np.zeros(2)
        normal[tree.cut_dims[v]] = tree.cut_normal[v]
        np.testing.assert_allclose(section.cuts[v] @ normal, tree.cut_offset[v], rtol=1e-9)
        on_edge = [abs(section.cuts[v] @ n - o) / np.linalg.norm(n) for n, o in _sides(hull) if n.any()]
        assert np.min(on_edge, axis=0).max() < 1e-9
        assert (section.hulls[tree.children_left[v]] @ normal <= tree.cut_offset[v]).all()
        assert (section.hulls[tree.children_right[v]] @ normal > tree.cut_offset[v]).all()
    assert section.hulls[0].min(axis=0).tolist() == X.min(axis=0).tolist()


@pytest.mark.parametrize(("style", "background"), [("default", 1.0), ("dark_background", 0.0)])
def test_colours_encode_class_shares(moons, style, background):
    X, y = moons
    forest = BSPForestClassifier(1, budget_scale=2, random_state=1, prediction="mean").fit(X, np.array(["a", "b"])[y])
    with plt.style.context(style):
        display = PartitionDisplay.from_estimator(forest).plot()
        np.testing.assert_allclose(display.points_.get_facecolors()[:, :3], np.where(y[:, None] == 0, BLUE, ORANGE))
        cells = display.cells_.get_facecolors()[:, :3]
        assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["a", "b"]
        np.testing.assert_allclose(display.cuts_.get_colors()[0][:3], 1.0 - background)
    for v, cell in zip(display.section.leaf_nodes, cells, strict=True):
        share = y[display.section.leaves == v].mean()  # of the second class
        strength = 0.3 * (0.15 + 0.85 * abs(2 * share - 1))
        expected = background + strength * ((ORANGE if share > 0.5 else BLUE) - background)
        if share != 0.5:
            np.testing.assert_allclose(cell, expected, atol=1e-9)


def test_regression_colours_encode_means():
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    forest = BSPForestRegressor(1, budget_scale=3, random_state=0, prediction="mean").fit(X, X[:, 0])
    display = PartitionDisplay.from_estimator(forest).plot()
    means = [X[display.section.leaves == v, 0].mean() for v in display.section.leaf_nodes]
    shares = (np.array(means) - X[:, 0].min()) / np.ptp(X[:, 0])
    expected = 0.7 + 0.3 * matplotlib.colormaps["viridis"](shares)[:, :3]
    np.testing.assert_allclose(display.cells_.get_facecolors()[:, :3], expected, atol=0.3 / 100)


def test_section_with_more_than_two_features(friedman):
    display = PartitionDisplay.from_estimator(friedman, tree=1, dims=(3, 0), values={1: 0.25}).plot()
    tree, section = friedman.trees_[1], display.section
    (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    cells = corners_of(display.cells_)
    assert sum(map(measure_area, cells)) == pytest.approx((right - left) * (top - bottom))
    assert 1 < len(cells) == len(section.leaf_nodes) < tree.n_leaves
    middle = np.median(friedman.held_rows().X, axis=0)
    for v, cell in zip(section.leaf_nodes, cells, strict=True):
        place = np.array([[cell[:, 1].mean(), 0.25, middle[2], cell[:, 0].mean()]])
        assert tree.leaves_of(place) == v
    assert display.points_ is None and display.hulls_ is None
    assert f"feature\u00a02\u00a0=\u00a0{middle[2]:.3g}" in display.ax_.get_title()
    assert display.ax_.get_xlabel() == "feature 3"


@pytest.mark.parametrize("cuts", ["pairs", "axes"])
def test_hulls_of_features_with_large_offsets(cuts):
    """Rows are assigned to the leaf that holds them even where rounding puts them on the other side of a cut."""
    X = 1e15 + np.floor(np.random.default_rng(0).random((60, 2)) * 100)
    forest = BSPForestRegressor(2, cuts=cuts, budget_scale=4, random_state=0, prediction="mean").fit(X, X[:, 0])
    section = PartitionDisplay.from_estimator(forest).section
    leaves, counts = np.unique(section.leaves, return_counts=True)
    np.testing.assert_array_equal(counts, section.tree.n_points[leaves])
    assert len(leaves) == section.tree.n_leaves


def test_hulls_option(moons):
    forest = BSPForestClassifier(1, budget_scale=2, random_state=1, prediction="mean").fit(*moons)
    display = PartitionDisplay.from_estimator(forest)
    nested = len(display.plot().hulls_.get_segments())
    leaves = len(display.plot(hulls="leaves", points=False, legend=False).hulls_.get_segments())
    assert 0 < leaves < nested
    assert display.points_ is None and display.ax_.get_legend() is None
    assert display.plot(hulls=None).hulls_ is None
