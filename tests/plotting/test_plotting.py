"""What is drawn is what the forest and the process are: areas, sides, counts and colours, not only that something is drawn."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.spatial import ConvexHull
from sklearn.datasets import make_moons

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.plotting import (
    CutDisplay,
    GrowthDisplay,
    PartitionDisplay,
    ProcessDisplay,
    SliceDisplay,
    SurfaceDisplay,
)
from bspforest.plotting.growth import place_nodes
from bspforest.plotting.polygons import clip, cross, find_hull, measure_area
from bspforest.reference import draw_partition, make_box

BLUE, ORANGE = np.array([0, 0x72, 0xB2]) / 255, np.array([0xE6, 0x9F, 0]) / 255
FAMILIES = ("pairs", "axes", "isotropic")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(80, noise=0.12, random_state=2)


@pytest.fixture(scope="module")
def friedman():
    rng = np.random.default_rng(0)
    X = rng.random((600, 4))
    return BSPForestRegressor(3, budget_scale=3, random_state=1).fit(X, X[:, 0] + X[:, 1] ** 2 + X[:, 3])


def corners_of(collection) -> list[np.ndarray]:
    """The corners of the polygons that were drawn."""
    return [path.vertices[:-1] for path in collection.get_paths()]


# ----------------------------------------------------------------------------------------------------------------------
# Polygons


def test_hull_is_qhulls():
    rng = np.random.default_rng(1)
    for n in (3, 4, 10, 200):
        points = rng.normal(size=(n, 2))
        hull = find_hull(points)
        assert measure_area(hull) == pytest.approx(ConvexHull(points).volume)
        assert {tuple(p) for p in hull} == {tuple(p) for p in points[ConvexHull(points).vertices]}
        np.testing.assert_array_equal(hull, find_hull(points[rng.permutation(n)]))


def test_hull_of_flat_sets():
    line = np.array([[0.0, 0.0], [2.0, 2.0], [1.0, 1.0], [1.0, 1.0]])
    assert find_hull(line).tolist() == [[0.0, 0.0], [2.0, 2.0]]
    assert find_hull(line[2:]).tolist() == [[1.0, 1.0]]


def test_clip_parts_a_polygon():
    rng = np.random.default_rng(2)
    for _ in range(200):
        polygon = find_hull(rng.normal(size=(8, 2)))
        normal, offset = rng.normal(size=2), rng.normal()
        left, right = clip(polygon, normal, offset), clip(polygon, -normal, -offset)
        assert (left @ normal <= offset + 1e-9).all() and (right @ normal >= offset - 1e-9).all()
        areas = [measure_area(part) if len(part) else 0.0 for part in (left, right)]
        assert min(areas) >= 0 and sum(areas) == pytest.approx(measure_area(polygon))
        ends = cross(polygon, normal, offset)
        assert len(ends) == (2 if min(areas) > 0 else 0)
        np.testing.assert_allclose(ends @ normal, offset, atol=1e-12)


# ----------------------------------------------------------------------------------------------------------------------
# A tree's partition


@pytest.mark.parametrize("cuts", FAMILIES)
def test_cells_tile_the_picture(moons, cuts):
    X, y = moons
    forest = BSPForestClassifier(3, cuts=cuts, budget_scale=2, random_state=1).fit(X, y)
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
def test_inside_a_leafs_hull_the_forest_answers_by_that_leaf(moons, cuts):
    X, y = moons
    forest = BSPForestClassifier(2, cuts=cuts, budget_scale=2, random_state=1).fit(X, y)
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
    """The half planes whose common part is a polygon given counterclockwise."""
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        normal = np.array([b[1] - a[1], a[0] - b[0]])
        yield normal, normal @ a


@pytest.mark.parametrize("cuts", FAMILIES)
def test_hulls_are_nested_and_crossed_by_their_cuts(moons, cuts):
    X, y = moons
    forest = BSPForestClassifier(1, cuts=cuts, budget_scale=2, random_state=3).fit(X, y)
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


@pytest.mark.parametrize(("style", "ground"), [("default", 1.0), ("dark_background", 0.0)])
def test_colours_are_labels(moons, style, ground):
    X, y = moons
    forest = BSPForestClassifier(1, budget_scale=2, random_state=1).fit(X, np.array(["a", "b"])[y])
    with plt.style.context(style):
        display = PartitionDisplay.from_estimator(forest).plot()
        np.testing.assert_allclose(display.points_.get_facecolors()[:, :3], np.where(y[:, None] == 0, BLUE, ORANGE))
        cells = display.cells_.get_facecolors()[:, :3]
        assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["a", "b"]
        np.testing.assert_allclose(display.cuts_.get_colors()[0][:3], 1.0 - ground)
    for v, cell in zip(display.section.leaf_nodes, cells, strict=True):
        share = y[display.section.leaves == v].mean()  # of the second class
        strength = 0.3 * (0.15 + 0.85 * abs(2 * share - 1))
        expected = ground + strength * ((ORANGE if share > 0.5 else BLUE) - ground)
        if share != 0.5:
            np.testing.assert_allclose(cell, expected, atol=1e-9)


def test_regression_colours_are_means():
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    forest = BSPForestRegressor(1, budget_scale=3, random_state=0).fit(X, X[:, 0])
    display = PartitionDisplay.from_estimator(forest).plot()
    means = [X[display.section.leaves == v, 0].mean() for v in display.section.leaf_nodes]
    shares = (np.array(means) - X[:, 0].min()) / np.ptp(X[:, 0])
    expected = 0.7 + 0.3 * matplotlib.colormaps["viridis"](shares)[:, :3]
    np.testing.assert_allclose(display.cells_.get_facecolors()[:, :3], expected, atol=0.3 / 100)


def test_section_of_more_features(friedman):
    display = PartitionDisplay.from_estimator(friedman, tree=1, dims=(3, 0), values={1: 0.25}).plot()
    tree, section = friedman.trees_[1], display.section
    (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    cells = corners_of(display.cells_)
    assert sum(map(measure_area, cells)) == pytest.approx((right - left) * (top - bottom))
    assert 1 < len(cells) == len(section.leaf_nodes) < tree.n_leaves
    middle = np.median(friedman._forest.held_rows(), axis=0)
    for v, cell in zip(section.leaf_nodes, cells, strict=True):
        place = np.array([[cell[:, 1].mean(), 0.25, middle[2], cell[:, 0].mean()]])
        assert tree.leaves_of(place) == v
    assert display.points_ is None and display.hulls_ is None
    assert f"feature\u00a02\u00a0=\u00a0{middle[2]:.3g}" in display.ax_.get_title()
    assert display.ax_.get_xlabel() == "feature 3"


@pytest.mark.parametrize("cuts", ["pairs", "axes"])
def test_hulls_of_data_far_from_zero(cuts):
    """Points are in the leaf that holds them, also where their features have too few digits to find it by the cuts."""
    X = 1e15 + np.floor(np.random.default_rng(0).random((60, 2)) * 100)
    forest = BSPForestRegressor(2, cuts=cuts, budget_scale=4, random_state=0).fit(X, X[:, 0])
    section = PartitionDisplay.from_estimator(forest).section
    leaves, counts = np.unique(section.leaves, return_counts=True)
    np.testing.assert_array_equal(counts, section.tree.n_points[leaves])
    assert len(leaves) == section.tree.n_leaves


def test_hull_choices(moons):
    forest = BSPForestClassifier(1, budget_scale=2, random_state=1).fit(*moons)
    display = PartitionDisplay.from_estimator(forest)
    nested = len(display.plot().hulls_.get_segments())
    leaves = len(display.plot(hulls="leaves", points=False, legend=False).hulls_.get_segments())
    assert 0 < leaves < nested
    assert display.points_ is None and display.ax_.get_legend() is None
    assert display.plot(hulls=None).hulls_ is None


# ----------------------------------------------------------------------------------------------------------------------
# A growing tree


@pytest.fixture(scope="module")
def grown(moons):
    X, y = moons
    forest = BSPForestClassifier(budget_scale=1.3, random_state=57)
    return GrowthDisplay.from_stream(forest, X[:25], y[:25])


def test_growth_is_the_engines(moons, grown):
    X, y = moons
    scaling = (X[:25].min(axis=0), X[:25].max(axis=0))
    forest = BSPForestClassifier(1, budget_scale=1.3, random_state=57, scaling=scaling)
    for k in range(25):
        forest.partial_fit(X[k : k + 1], y[k : k + 1], classes=[0, 1])
        tree = grown.frames[k].section.tree
        np.testing.assert_array_equal(tree.cut_offset, forest.trees_[0].cut_offset)
        np.testing.assert_array_equal(tree.n_points, forest.trees_[0].n_points)
        assert grown.frames[k].budget == forest.budget_


def test_what_is_new_is_new(moons, grown):
    X = moons[0]
    n_cuts = 0
    for before, now in pairwise(grown.frames):
        newest = X[now.n_rows - 1]
        assert now.section.points[now.new_points].tolist() == [newest.tolist()]
        old_tree, tree = before.section.tree, now.section.tree
        old_offsets = old_tree.cut_offset[old_tree.children_left >= 0]
        offsets = tree.cut_offset[now.new_cuts]
        assert not np.isin(offsets, old_offsets).any()
        assert set(old_offsets) | set(offsets) == set(tree.cut_offset[tree.children_left >= 0])
        n_cuts += len(offsets)
        assert now.new_leaves[now.section.leaves[now.new_points]].all()
        for v in np.flatnonzero(now.new_hulls):  # it is new because of the new point, or because a cut made it
            grew = (now.section.hulls[v] == newest).all(axis=1).any()
            made = v > 0 and now.new_cuts[tree.parent[v]]
            assert grew or made
    assert n_cuts == (grown.frames[-1].section.tree.children_left >= 0).sum() > 3


def test_new_parts_are_vermilion(grown):
    frame = next(one for one in grown.frames if one.new_cuts.any() and one.n_rows > 6)
    plane, below = grown.plot(frame.n_rows).axes_
    vermilion = np.array([0xD5, 0x5E, 0]) / 255
    drawn = [
        segment
        for lines in plane.collections
        if isinstance(lines, matplotlib.collections.LineCollection)
        and np.allclose(lines.get_colors()[0][:3], vermilion)
        for segment in lines.get_segments()
    ]
    cuts = [frame.section.cuts[v] for v in np.flatnonzero(frame.new_cuts)]
    assert len(drawn) == len(cuts) + frame.new_edges.sum()
    for cut in cuts:
        assert any(np.array_equal(cut, segment) for segment in drawn)
    leaves = below.collections[-1].get_offsets()
    assert len(leaves) == frame.section.tree.n_leaves
    np.testing.assert_allclose(leaves[:, 1], frame.budget)
    assert [int(text.get_text()) for text in below.texts if text.get_text().isdigit()] == (
        frame.section.tree.n_points[frame.section.tree.children_left < 0].tolist()
    )


def test_tree_stands_in_order(grown):
    tree = grown.frames[-1].section.tree
    across = place_nodes(tree)
    leaves = tree.children_left < 0
    assert sorted(across[leaves]) == list(range(tree.n_leaves))
    for v in np.flatnonzero(~leaves):
        assert across[tree.children_left[v]] < across[v] < across[tree.children_right[v]]
        for child in (tree.children_left[v], tree.children_right[v]):
            assert tree.time[v] < tree.time[child]


def test_growth_with_a_window_and_without_budget(moons):
    X, y = moons
    forest = BSPForestRegressor(budget=np.inf, window=10, random_state=0)
    display = GrowthDisplay.from_stream(
        forest, pd.DataFrame(X[:15], columns=["east", "north"]), y[:15], steps=[5, 12, 15]
    )
    assert [len(one.section.points) for one in display.frames] == [5, 10, 10]
    assert [one.new_points.sum() for one in display.frames] == [5, 7, 3]
    display.plot_steps([12, 15], titles=["(i)", "(ii)"])
    assert display.axes_[0, 0].get_xlabel() == "east" and display.axes_[0, 1].get_title() == "(ii)"


def test_animation_shows_every_frame(grown, tmp_path):
    display = GrowthDisplay(grown.frames[:5], grown.palette, grown.names)
    path = display.save(tmp_path / "growth.gif", fps=4, dpi=30)
    with Image.open(path) as film:
        assert film.format == "GIF" and film.n_frames == 5 and film.info["duration"] == 250
        pictures = []
        for k in range(5):
            film.seek(k)
            pictures.append(np.asarray(film.convert("RGB")))
    assert all((a != b).any() for a, b in pairwise(pictures))


def test_growth_asks_for_frames_it_has(grown, tmp_path):
    with pytest.raises(ValueError, match="no frame was kept after 99 rows"):
        grown.plot(99)
    with pytest.raises(ValueError, match=r"for a video use display.animate\(\).save"):
        grown.save(tmp_path / "growth.mp4")


# ----------------------------------------------------------------------------------------------------------------------
# Surfaces


def test_surface_is_the_forests_answer(friedman):
    display = SurfaceDisplay.from_estimator(
        friedman, dims=(2, 1), values={0: 0.1}, extent=(0, 2, 0, 1), grid_resolution=8
    )
    middle = np.median(friedman._forest.held_rows(), axis=0)
    for column, row in ((0, 0), (3, 5), (7, 2)):
        place = np.array([[0.1, (row + 0.5) / 8, 2 * (column + 0.5) / 8, middle[3]]])
        mean, std = friedman.predict(place, return_std=True)
        assert display.response[row, column] == mean and display.uncertainty[row, column] == std
    display.plot()
    for image, values in zip(display.images_, (display.response, display.uncertainty), strict=True):
        np.testing.assert_array_equal(image.get_array(), values)
        assert image.get_extent() == [0, 2, 0, 1] and image.origin == "lower"
    assert display.points_ is None


def test_surface_of_classes(moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["east", "north"])
    forest = BSPForestClassifier(20, budget_scale=2, random_state=0).fit(frame, y)
    display = SurfaceDisplay.from_estimator(forest, dims=("north", "east"), grid_resolution=20).plot()
    assert display.axes_[0].get_xlabel() == "north"
    np.testing.assert_allclose(display.uncertainty, 1 - display.response.max(axis=2))
    image = np.asarray(display.images_[0].get_array())
    said = display.response.argmax(axis=2)
    sure = display.uncertainty < 0.2
    nearest = [np.linalg.norm(image[..., :3] - colour, axis=2) for colour in (BLUE, ORANGE)]
    np.testing.assert_array_equal(np.argmin(nearest, axis=0)[sure], said[sure])
    assert sure.sum() > 100 and len(display.points_.get_offsets()) == 80
    np.testing.assert_array_equal(display.points_.get_offsets(), X[:, ::-1])


def test_reach_blanks_what_was_never_seen(moons):
    forest = BSPForestClassifier(2, random_state=0).fit(*moons)
    display = SurfaceDisplay.from_estimator(forest, grid_resolution=30, reach=0.1)
    size = display.corners[1] - display.corners[0]
    steps = (np.arange(30) + 0.5) / 30
    for row, column in ((0, 0), (15, 15), (29, 29), (20, 3)):
        place = display.corners[0] + size * [steps[column], steps[row]]
        near = (np.linalg.norm((moons[0] - place) / size, axis=1) <= 0.1).any()
        assert display.shown[row, column] == near
    alpha = np.asarray(display.plot().images_[0].get_array())[..., 3]
    np.testing.assert_array_equal(alpha, display.shown)
    assert 0 < display.shown.mean() < 1


def test_one_surface_on_given_axes(moons):
    forest = BSPForestClassifier(2, random_state=0).fit(*moons)
    _, ax = plt.subplots()
    display = SurfaceDisplay.from_estimator(forest, grid_resolution=10).plot(ax, uncertainty=False)
    assert display.axes_ == [ax] and len(display.images_) == 1


# ----------------------------------------------------------------------------------------------------------------------
# The process


@pytest.fixture(scope="module")
def square():
    return draw_partition(make_box([0, 0], [2, 1]), 4.0, random_state=3)


@pytest.fixture(scope="module")
def cube():
    return draw_partition(make_box([0, 0, 0], [1, 1, 1]), 0.9, random_state=8)


def test_square_is_tiled(square):
    display = ProcessDisplay.from_partition(square).plot()
    cells = corners_of(display.cells_)
    assert len(cells) == len(square.leaves()) > 10
    assert sum(abs(measure_area(cell)) for cell in cells) == pytest.approx(2.0)
    then = ProcessDisplay.from_partition(square).plot(time=1.0)
    assert len(then.cells_.get_paths()) == 1 + sum(b.cut.time <= 1.0 for b in square.cut_blocks()) < len(cells)


def test_cubes_cuts_are_polygons_in_their_planes(cube):
    display = ProcessDisplay.from_partition(cube).plot()
    blocks = cube.cut_blocks()
    assert len(display.polygons_) == len(blocks) == len(display.cells_.get_facecolor()) > 10
    times = np.array([block.cut.time for block in blocks])
    expected = matplotlib.colormaps["viridis"](times / times.max())[:, :3]
    drawn = np.asarray(display.cells_.get_facecolor())[:, :3]  # those behind come first
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0), atol=1e-6)
    for polygon, block in zip(display.polygons_, blocks, strict=True):
        np.testing.assert_allclose(block.cut.heights(polygon), 0, atol=1e-9)
        assert {tuple(corner) for corner in polygon} == {tuple(corner) for corner in block.section}
        turns = np.cross(np.roll(polygon, -1, axis=0) - polygon, np.roll(polygon, -2, axis=0) - polygon)
        assert (turns @ turns[0] > -1e-15).all()  # convex: the corners are in order


def test_exploded_cells_are_all_there(cube):
    display = ProcessDisplay.from_partition(cube).plot(explode=0.5)
    faces = iter(display.polygons_)
    for leaf in cube.leaves():
        shift = 0.5 * (leaf.polytope.vertices.mean(axis=0) - 0.5)
        moved = [next(faces) for _ in leaf.polytope.faces()]
        assert ConvexHull(np.concatenate(moved)).volume == pytest.approx(leaf.polytope.volume)
        np.testing.assert_allclose(moved[0], leaf.polytope.faces()[0] + shift)
    assert next(faces, None) is None


def test_times_highlight_the_cuts_since(square, cube):
    times = [b.cut.time for b in square.cut_blocks()]
    display = ProcessDisplay.from_partition(square).plot_times([times[1], times[4]])
    old, new = (lines.get_segments() for lines in display.axes_[1].collections[:2])
    assert (len(old), len(new)) == (2, 3)
    assert "6 cells" in display.axes_[1].get_title()
    assert len(ProcessDisplay.from_partition(cube).plot_times([0.0, 0.5]).axes_) == 2


def test_cut_is_made_as_the_paper_says(cube):
    for block in cube.cut_blocks()[:6]:
        display = CutDisplay.from_block(block)
        normal = block.cut.normal
        shadow = block.polytope.vertices[:, list(block.cut.dims)] @ normal
        assert measure_area(display.shadow) == pytest.approx(ConvexHull(display.shadow).volume)
        assert sorted(display.line @ normal) == pytest.approx([shadow.min(), shadow.max()])
        assert display.place @ normal == pytest.approx(block.cut.offset)
        direction = np.diff(display.line, axis=0)[0]
        assert abs(np.cross(np.append(direction, 0), np.append(display.place - display.line[0], 0))).max() < 1e-9
    display.plot()
    assert [ax.get_title()[:3] for ax in display.axes_] == ["(a)", "(b)", "(c)", "(d)"]


def test_slice_meets_the_cuts(square):
    start, end = np.array([0.1, 0.0]), np.array([1.9, 1.0])
    display = SliceDisplay.from_partition(square, start, end, budget=4.0).plot()
    across = np.array([-(end - start)[1], (end - start)[0]])
    np.testing.assert_allclose((display.points - start) @ across, 0, atol=1e-12)
    crossed = [b.section for b in square.cut_blocks() if np.prod((b.section - start) @ across) < 0]
    assert len(display.points) == len(crossed) > 3
    for point in display.points:
        gaps = [np.linalg.norm(s - point, axis=1).sum() - np.linalg.norm(s[1] - s[0]) for s in crossed]
        assert min(gaps) < 1e-12
    np.testing.assert_array_equal(display.points_.get_offsets(), display.points)
    assert f"{4 * np.linalg.norm(end - start):.1f} expected" in display.ax_.get_title()
    assert len(SliceDisplay.from_partition(square).points) > 0


# ----------------------------------------------------------------------------------------------------------------------
# All of them


def test_gallery(tmp_path):
    script = Path(__file__).parents[2] / "examples" / "gallery.py"
    command = [sys.executable, str(script), "--out", str(tmp_path), "--only", "slice_of_square", "--dpi", "40"]
    subprocess.run(command, capture_output=True, check=True)
    light, dark = (np.asarray(Image.open(tmp_path / f"slice_of_square{end}.png").convert("L")) for end in ("", "-dark"))
    assert light[0, 0] == 255 and dark[0, 0] == 0
