"""Test that SurfaceDisplay shows the predictions of the forest."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bspforest import BSPForestClassifier
from bspforest.plotting import (
    SurfaceDisplay,
)

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
