"""Test that SurfaceDisplay shows the predictions of the forest."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.plotting import PartitionDisplay, SurfaceDisplay
from bspforest.plotting.ranges import find_range
from bspforest.plotting.sections import find_medians

BLUE, ORANGE = np.array([0, 0x72, 0xB2]) / 255, np.array([0xE6, 0x9F, 0]) / 255


def test_surface_shows_predictions(friedman):
    display = SurfaceDisplay.from_estimator(
        friedman, dims=(2, 1), values={0: 0.1}, extent=(0, 2, 0, 1), grid_resolution=8
    )
    middle = np.median(friedman.held_rows().X, axis=0)
    for column, row in ((0, 0), (3, 5), (7, 2)):
        place = np.array([[0.1, (row + 0.5) / 8, 2 * (column + 0.5) / 8, middle[3]]])
        mean, std = friedman.predict(place, return_std=True)
        assert display.response[row, column] == mean and display.uncertainty[row, column] == std
    display.plot()
    for image, values in zip(display.images_, (display.response, display.uncertainty), strict=True):
        np.testing.assert_array_equal(image.get_array(), values)
        assert image.get_extent() == [0, 2, 0, 1] and image.origin == "lower"
    assert display.points_ is None


def test_surface_of_a_classifier(moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["east", "north"])
    forest = BSPForestClassifier(20, budget_scale=2, random_state=0).fit(frame, y)
    display = SurfaceDisplay.from_estimator(forest, dims=("north", "east"), grid_resolution=20).plot()
    assert display.axes_[0].get_xlabel() == "north"
    np.testing.assert_allclose(display.uncertainty, 1 - display.response.max(axis=2))
    image = np.asarray(display.images_[0].get_array())
    predicted = display.response.argmax(axis=2)
    certain = display.uncertainty < 0.2
    nearest = [np.linalg.norm(image[..., :3] - colour, axis=2) for colour in (BLUE, ORANGE)]
    np.testing.assert_array_equal(np.argmin(nearest, axis=0)[certain], predicted[certain])
    assert certain.sum() > 100 and len(display.points_.get_offsets()) == 80
    np.testing.assert_array_equal(display.points_.get_offsets(), X[:, ::-1])


def test_reach_masks_points_far_from_rows(moons):
    forest = BSPForestClassifier(2, random_state=0).fit(*moons)
    display = SurfaceDisplay.from_estimator(forest, grid_resolution=30, reach=0.1)
    size = display.limits[1] - display.limits[0]
    steps = (np.arange(30) + 0.5) / 30
    for row, column in ((0, 0), (15, 15), (29, 29), (20, 3)):
        place = display.limits[0] + size * [steps[column], steps[row]]
        near = (np.linalg.norm((moons[0] - place) / size, axis=1) <= 0.1).any()
        assert display.shown[row, column] == near
    alpha = np.asarray(display.plot().images_[0].get_array())[..., 3]
    np.testing.assert_array_equal(alpha, display.shown)
    assert 0 < display.shown.mean() < 1


def test_surface_on_given_axes(moons):
    forest = BSPForestClassifier(2, random_state=0).fit(*moons)
    _, ax = plt.subplots()
    display = SurfaceDisplay.from_estimator(forest, grid_resolution=10).plot(ax, uncertainty=False)
    assert display.axes_ == [ax] and len(display.images_) == 1


def draw_scale(display):
    """Return the range of colours of the prediction."""
    return display.images_[0].norm.vmin, display.images_[0].norm.vmax


@pytest.fixture(scope="module")
def steps():
    """Return a forest of 400 rows in a square and 4 far away, with labels 0 and 10 and noise."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.random((400, 2)), [[50, 0.5], [-70, 0.5], [0.5, 90], [50, 50]]])
    y = np.where(X[:, 0] > 0.5, 10.0, 0.0) + rng.normal(size=404)
    y[0] = 30.0
    return BSPForestRegressor(10, random_state=0, prediction="mean").fit(X, y), X, y


def test_outliers_lie_outside_and_are_counted(steps):
    display = SurfaceDisplay.from_estimator(steps[0], grid_resolution=20).plot()
    low, high = steps[1][:400].min(axis=0), steps[1][:400].max(axis=0)
    np.testing.assert_allclose(display.limits, [low - 0.05 * (high - low), high + 0.05 * (high - low)])
    assert display.note == "4 of 404 rows lie outside the axes."
    assert display.figure_.get_supxlabel() == display.note
    assert len(display.points_.get_offsets()) == 400
    assert SurfaceDisplay.from_estimator(steps[0], extent=(-100, 100, -100, 100)).note.startswith("Blank: ")
    one = SurfaceDisplay.from_estimator(steps[0], extent=(-100, 100, -1, 60), reach=None)
    assert one.note == "1 of 404 rows lies outside the axes."


def test_rows_and_surface_share_a_colour_scale(steps):
    forest, _, y = steps
    display = SurfaceDisplay.from_estimator(forest, grid_resolution=40).plot()
    low, high = draw_scale(display)
    assert (low, high) == find_range(display.response[display.shown])
    bar = display.images_[0].colorbar
    assert bar.extend == "both" and bar.vmin == low and bar.vmax == high
    colours = display.images_[0].to_rgba(y[:400])
    np.testing.assert_allclose(display.points_.get_facecolors(), colours)
    assert display.images_[0].cmap.name == "viridis"


def test_an_extreme_label_does_not_squeeze_the_colours():
    rng = np.random.default_rng(0)
    X = rng.random((500, 2))
    y = 10 * X[:, 0]
    y[7] = 1e6
    display = SurfaceDisplay.from_estimator(BSPForestRegressor(5, random_state=0, prediction="mean").fit(X, y)).plot()
    rest = np.delete(y, 7)
    assert draw_scale(display) == (display.response[display.shown].min(), 2 * rest.max() - rest.min())
    assert display.response.max() > 1000 and display.images_[0].colorbar.extend == "both"
    partition = PartitionDisplay.from_estimator(BSPForestRegressor(1, random_state=0, prediction="mean").fit(X, y))
    assert (partition.palette.low, partition.palette.high) == (rest.min(), rest.max())
    assert partition.palette.extend == "max"


def test_equal_labels_have_the_colour_of_the_surface():
    X = np.random.default_rng(0).random((30, 2))
    display = SurfaceDisplay.from_estimator(BSPForestRegressor(2, random_state=0).fit(X, np.full(30, 7.0))).plot()
    assert draw_scale(display) == (6.5, 7.5) and display.images_[1].norm.vmin == 0
    np.testing.assert_allclose(display.points_.get_facecolors(), display.images_[0].to_rgba(np.full(30, 7.0)))


def test_places_far_from_rows_are_blank():
    """Rows fill the left and the right quarter of a square."""
    rng = np.random.default_rng(0)
    X = rng.random((800, 2)) * [0.25, 1.0]
    X[400:, 0] += 0.75
    forest = BSPForestRegressor(2, random_state=0).fit(X, X[:, 0])
    display = SurfaceDisplay.from_estimator(forest, extent=(0, 1, 0, 1), grid_resolution=40)
    assert display.shown[:, :10].all() and display.shown[:, -10:].all() and not display.shown[:, 14:26].any()
    assert display.note == f"Blank: no row within {100 * display.reach:.2g} % of the axes." and display.reach < 0.1
    for image in display.plot().images_:
        np.testing.assert_array_equal(np.ma.getmaskarray(image.get_array()), ~display.shown)
    assert SurfaceDisplay.from_estimator(forest, reach=None, grid_resolution=10).shown.all()


def test_years_are_written_as_years():
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(2011, 2015, 300), rng.random(300), rng.choice([2012, 2013], 300)], axis=1)
    X[0, 2] = 2012 + (np.sort(X[1:, 2])[149] == 2012)
    forest = BSPForestRegressor(2, random_state=0).fit(X, X[:, 0])
    display = SurfaceDisplay.from_estimator(forest, dims=(0, 1), grid_resolution=10).plot()
    display.figure_.canvas.draw()
    texts = [label.get_text() for label in display.axes_[0].get_xticklabels()]
    assert [text for text in texts if text] == ["2011", "2012", "2013", "2014"]
    assert display.title.replace("\u00a0", " ") in ("at feature 2 = 2012", "at feature 2 = 2013")
    assert display.palette.extend == "neither"  # no rows are drawn
    partition = PartitionDisplay.from_estimator(forest, dims=(0, 1))
    assert partition.kinds == ("year", "number")


def test_medians_of_whole_numbers_are_whole():
    X = np.stack([np.arange(4.0), np.arange(4.0), [2010, 2011, 2014, 2020], [0.0, 0.5, 1.0, 3.0]], axis=1)
    np.testing.assert_array_equal(find_medians(X)[2:], [2012, 0.75])


def test_uncertainty_of_classes_has_a_fixed_scale(moons):
    """From certain to no idea, however certain the forest is; the classes of single rows have the colours of the surface."""
    X, y = moons
    for k in (1, 2, 3):
        labels = np.zeros(80, dtype=int) if k == 1 else y + (k - 2) * (X[:, 0] > 1)
        display = SurfaceDisplay.from_estimator(BSPForestClassifier(5, random_state=0).fit(X, labels)).plot()
        norm = display.images_[1].norm
        assert (norm.vmin, norm.vmax) == (0, 1 - 1 / max(k, 2))
        assert display.images_[1].colorbar.extend == "neither"


def test_outliers_and_blanks_of_a_classifier(moons):
    X, y = moons
    X, y = np.concatenate([X, [[90.0, 0.0]]]), np.append(y, 0)
    display = SurfaceDisplay.from_estimator(BSPForestClassifier(5, random_state=0).fit(X, y)).plot()
    assert display.note.startswith("1 of 81 rows lies outside the axes. Blank: no row within ")
    assert display.limits[1, 0] < 3 and not display.shown.all()
    np.testing.assert_array_equal(np.asarray(display.images_[0].get_array())[..., 3], display.shown)
    np.testing.assert_array_equal(np.ma.getmaskarray(display.images_[1].get_array()), ~display.shown)


def test_no_uncertainty_without_a_standard_deviation():
    """All rows held have weight 0. Axes that are given are used nevertheless."""
    X = np.random.default_rng(0).random((30, 2))
    forest = (
        BSPForestRegressor(2, random_state=0, prediction="mean").fit(X, X[:, 0], sample_weight=np.eye(30)[0]).forget(0)
    )
    display = SurfaceDisplay.from_estimator(forest, grid_resolution=10)
    assert np.isnan(display.uncertainty).all()
    assert len(display.plot().axes_) == 1
    assert len(display.plot(plt.subplots(1, 2)[1]).images_) == 2


def test_titles_fit_above_narrow_axes(friedman):
    display = SurfaceDisplay.from_estimator(friedman, dims=(0, 1), grid_resolution=5)
    for width, most in ((4.5, 24), (12.0, 46)):
        axes = plt.subplots(1, 2, figsize=(width, 3))[1]
        lines = display.plot(axes).axes_[0].get_title().split("\n")
        assert max(map(len, lines)) <= most


def test_a_forest_of_a_table():
    """Pictures show features as trees have them: by name, categories too."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(200), "town": rng.choice(["x", "y"], 200), "b": rng.random(200)})
    frame.loc[::9, "a"] = np.nan
    y = frame["b"] + (frame["town"] == "x")
    forest = BSPForestRegressor(10, random_state=0).fit(frame, y)
    display = SurfaceDisplay.from_estimator(forest, dims=("a", "b"), values={"town=x": 1, "town=y": 0}).plot()
    assert display.names == ["a", "b"] and "town=x" in display.title.replace("\u00a0", " ")
    at_y = SurfaceDisplay.from_estimator(forest, dims=("a", "b"), values={"town=x": 0, "town=y": 1})
    gap = np.nanmean(display.response - at_y.response)
    assert gap == pytest.approx(1.0, abs=0.1)
    plt.close("all")
