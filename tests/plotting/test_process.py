"""Test ProcessDisplay, CutDisplay and SliceDisplay against the partitions they show."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from bspforest.plotting import (
    CutDisplay,
    ProcessDisplay,
    SliceDisplay,
)
from bspforest.plotting.polygons import measure_area


def corners_of(collection) -> list[np.ndarray]:
    """Return the corners of the polygons drawn."""
    return [path.vertices[:-1] for path in collection.get_paths()]


def test_cells_tile_the_square(square):
    display = ProcessDisplay.from_partition(square).plot()
    cells = corners_of(display.cells_)
    assert len(cells) == len(square.leaves()) > 10
    assert sum(abs(measure_area(cell)) for cell in cells) == pytest.approx(2.0)
    then = ProcessDisplay.from_partition(square).plot(time=1.0)
    assert len(then.cells_.get_paths()) == 1 + sum(b.cut.time <= 1.0 for b in square.cut_blocks()) < len(cells)


def test_cuts_of_a_cube_are_polygons_in_their_planes(cube):
    display = ProcessDisplay.from_partition(cube).plot()
    blocks = cube.cut_blocks()
    assert len(display.polygons_) == len(blocks) == len(display.cells_.get_facecolor()) > 10
    times = np.array([block.cut.time for block in blocks])
    expected = matplotlib.colormaps["viridis"](times / times.max())[:, :3]
    drawn = np.asarray(display.cells_.get_facecolor())[:, :3]  # sorted by depth
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0), atol=1e-6)
    for polygon, block in zip(display.polygons_, blocks, strict=True):
        np.testing.assert_allclose(block.cut.heights(polygon), 0, atol=1e-9)
        assert {tuple(corner) for corner in polygon} == {tuple(corner) for corner in block.section}
        turns = np.cross(np.roll(polygon, -1, axis=0) - polygon, np.roll(polygon, -2, axis=0) - polygon)
        assert (turns @ turns[0] > -1e-15).all()  # convex, so the corners are in order


def test_exploded_cells_keep_their_shape(cube):
    display = ProcessDisplay.from_partition(cube).plot(explode=0.5)
    faces = iter(display.polygons_)
    for leaf in cube.leaves():
        shift = 0.5 * (leaf.polytope.vertices.mean(axis=0) - 0.5)
        moved = [next(faces) for _ in leaf.polytope.faces()]
        assert ConvexHull(np.concatenate(moved)).volume == pytest.approx(leaf.polytope.volume)
        np.testing.assert_allclose(moved[0], leaf.polytope.faces()[0] + shift)
    assert next(faces, None) is None


def test_times_highlight_new_cuts(square, cube):
    times = [b.cut.time for b in square.cut_blocks()]
    display = ProcessDisplay.from_partition(square).plot_times([times[1], times[4]])
    old, new = (lines.get_segments() for lines in display.axes_[1].collections[:2])
    assert (len(old), len(new)) == (2, 3)
    assert "6 cells" in display.axes_[1].get_title()
    assert len(ProcessDisplay.from_partition(cube).plot_times([0.0, 0.5]).axes_) == 2


def test_cut_display_follows_algorithm_2(cube):
    for block in cube.cut_blocks()[:6]:
        display = CutDisplay.from_block(block)
        normal = block.cut.normal
        along = block.polytope.vertices[:, list(block.cut.dims)] @ normal
        assert measure_area(display.projection) == pytest.approx(ConvexHull(display.projection).volume)
        assert sorted(display.line @ normal) == pytest.approx([along.min(), along.max()])
        assert display.position @ normal == pytest.approx(block.cut.offset)
        direction = np.diff(display.line, axis=0)[0]
        assert abs(np.cross(np.append(direction, 0), np.append(display.position - display.line[0], 0))).max() < 1e-9
    display.plot()
    assert [ax.get_title()[:3] for ax in display.axes_] == ["(a)", "(b)", "(c)", "(d)"]


def test_slice_points_lie_on_cuts(square):
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
