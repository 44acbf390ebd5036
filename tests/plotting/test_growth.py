"""Test that GrowthDisplay shows the trees of the forest and highlights changes."""

from __future__ import annotations

from itertools import pairwise

import matplotlib
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.plotting import (
    GrowthDisplay,
)
from bspforest.plotting.growth import place_nodes


@pytest.fixture(scope="module")
def grown(moons):
    X, y = moons
    forest = BSPForestClassifier(budget_scale=1.3, random_state=57, prediction="mean")
    return GrowthDisplay.from_stream(forest, X[:25], y[:25])


def test_frames_match_the_forest(moons, grown):
    X, y = moons
    scaling = (X[:25].min(axis=0), X[:25].max(axis=0))
    forest = BSPForestClassifier(1, budget_scale=1.3, random_state=57, scaling=scaling, prediction="mean")
    for k in range(25):
        forest.partial_fit(X[k : k + 1], y[k : k + 1], classes=[0, 1])
        tree = grown.frames[k].section.tree
        np.testing.assert_array_equal(tree.cut_offset, forest.trees_[0].cut_offset)
        np.testing.assert_array_equal(tree.n_points, forest.trees_[0].n_points)
        assert grown.frames[k].budget == forest.budget_


def test_changes_between_frames(moons, grown):
    X = moons[0]
    n_cuts = 0
    for before, now in pairwise(grown.frames):
        latest = X[now.n_rows - 1]
        assert now.section.points[now.new_points].tolist() == [latest.tolist()]
        old_tree, tree = before.section.tree, now.section.tree
        old_offsets = old_tree.cut_offset[old_tree.children_left >= 0]
        offsets = tree.cut_offset[now.new_cuts]
        assert not np.isin(offsets, old_offsets).any()
        assert set(old_offsets) | set(offsets) == set(tree.cut_offset[tree.children_left >= 0])
        n_cuts += len(offsets)
        assert now.new_leaves[now.section.leaves[now.new_points]].all()
        for v in np.flatnonzero(now.new_hulls):  # either the new row is a corner, or a new cut created the node
            has_grown = (now.section.hulls[v] == latest).all(axis=1).any()
            is_created = v > 0 and now.new_cuts[tree.parent[v]]
            assert has_grown or is_created
    assert n_cuts == (grown.frames[-1].section.tree.children_left >= 0).sum() > 3


def test_changes_are_drawn_in_vermilion(grown):
    frame = next(frame for frame in grown.frames if frame.new_cuts.any() and frame.n_rows > 6)
    plane_ax, tree_ax = grown.plot(frame.n_rows).axes_
    vermilion = np.array([0xD5, 0x5E, 0]) / 255
    drawn = [
        segment
        for lines in plane_ax.collections
        if isinstance(lines, matplotlib.collections.LineCollection)
        and np.allclose(lines.get_colors()[0][:3], vermilion)
        for segment in lines.get_segments()
    ]
    cuts = [frame.section.cuts[v] for v in np.flatnonzero(frame.new_cuts)]
    assert len(drawn) == len(cuts) + frame.new_edges.sum()
    for cut in cuts:
        assert any(np.array_equal(cut, segment) for segment in drawn)
    leaves = tree_ax.collections[-1].get_offsets()
    assert len(leaves) == frame.section.tree.n_leaves
    np.testing.assert_allclose(leaves[:, 1], frame.budget)
    assert [int(text.get_text()) for text in tree_ax.texts if text.get_text().isdigit()] == (
        frame.section.tree.n_points[frame.section.tree.children_left < 0].tolist()
    )


def test_tree_layout_follows_order_and_time(grown):
    tree = grown.frames[-1].section.tree
    across = place_nodes(tree)
    leaves = tree.children_left < 0
    assert sorted(across[leaves]) == list(range(tree.n_leaves))
    for v in np.flatnonzero(~leaves):
        assert across[tree.children_left[v]] < across[v] < across[tree.children_right[v]]
        for child in (tree.children_left[v], tree.children_right[v]):
            assert tree.time[v] < tree.time[child]


def test_growth_with_window_and_infinite_budget(moons):
    X, y = moons
    forest = BSPForestRegressor(budget=np.inf, window=10, random_state=0, prediction="mean")
    display = GrowthDisplay.from_stream(
        forest, pd.DataFrame(X[:15], columns=["east", "north"]), y[:15], steps=[5, 12, 15]
    )
    assert [len(frame.section.points) for frame in display.frames] == [5, 10, 10]
    assert [frame.new_points.sum() for frame in display.frames] == [5, 7, 3]
    display.plot_steps([12, 15], titles=["(i)", "(ii)"])
    assert display.axes_[0, 0].get_xlabel() == "east" and display.axes_[0, 1].get_title() == "(ii)"


def test_animation_has_every_frame(grown, tmp_path):
    display = GrowthDisplay(grown.frames[:5], grown.palette, grown.names)
    path = display.save(tmp_path / "growth.gif", fps=4, dpi=30)
    with Image.open(path) as animation:
        assert animation.format == "GIF" and animation.n_frames == 5 and animation.info["duration"] == 250
        images = []
        for k in range(5):
            animation.seek(k)
            images.append(np.asarray(animation.convert("RGB")))
    assert all((a != b).any() for a, b in pairwise(images))


def test_growth_errors(grown, tmp_path):
    with pytest.raises(ValueError, match="no frame was kept after 99 rows"):
        grown.plot(99)
    with pytest.raises(ValueError, match=r"for a video use display.animate\(\).save"):
        grown.save(tmp_path / "growth.mp4")
