"""The predictions of a forest over a plane of two features, and their uncertainty."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.spatial import cKDTree
from sklearn.base import is_classifier

from .labels import Palette
from .sections import check_forest, choose_plane, find_limits, get_feature_names
from .style import MEAN_COLORMAP, STD_COLORMAP, draw_points, fade, make_axes, set_limits

# At most this many rows are drawn over a surface; more would hide it.
MAX_POINTS = 500


class SurfaceDisplay:
    """The decision surface or regression surface of a forest in two features, next to its uncertainty.

    Regression shows the mean and the standard deviation of the label. Classification shows the most probable class,
    paler where it is less probable, and the probability of any other class. With more than two features, the others are
    fixed at their medians or at given values.

    Create it with `from_estimator`.

    Attributes
    ----------
    response : ndarray of shape (ny, nx) or (ny, nx, n_classes)
        The mean, or the probability of each class; from the bottom row of the image to the top.
    uncertainty : ndarray of shape (ny, nx)
    shown : ndarray of bool, shape (ny, nx)
        False where no row held is within ``reach``.
    axes_, figure_ : matplotlib axes and figure
    images_ : list of matplotlib images
    points_ : matplotlib collection or None

    Examples
    --------
    >>> from bspforest import BSPForestRegressor
    >>> from bspforest.plotting import SurfaceDisplay
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(500, random_state=0)
    >>> forest = BSPForestRegressor(20, random_state=0).fit(X, y)
    >>> display = SurfaceDisplay.from_estimator(forest, dims=(0, 1), values={3: 0.9}, grid_resolution=50)
    >>> display.response.shape
    (50, 50)
    >>> [ax.get_xlabel() for ax in display.plot().axes_]
    ['feature 0', 'feature 0']
    """

    def __init__(
        self,
        response: np.ndarray,
        uncertainty: np.ndarray,
        shown: np.ndarray,
        limits: np.ndarray,
        points: np.ndarray,
        labels: np.ndarray,
        palette: Palette,
        names: Sequence[str],
        title: str = "",
    ) -> None:
        self.response = response
        self.uncertainty = uncertainty
        self.shown = shown
        self.limits = limits
        self.points = points
        self.labels = labels
        self.palette = palette
        self.names = names
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        forest: Any,
        *,
        dims: Any = None,
        values: Any = None,
        extent: Sequence[float] | None = None,
        grid_resolution: int = 200,
        reach: float | None = None,
    ) -> Self:
        """Create a display from predictions of a fitted forest on a grid.

        Parameters
        ----------
        forest : BSPForestClassifier or BSPForestRegressor
        dims : pair of int or str, default=None
            The features to show, by number or name. Required if there are more than two.
        values : dict or None, default=None
            Values of the other features, by number or name. Those not given are fixed at the median of the rows held.
        extent : (left, right, bottom, top) or None, default=None
            Limits of the axes; by default all rows held, with a margin.
        grid_resolution : int, default=200
            Number of grid points along each axis.
        reach : float or None, default=None
            Leave blank the points of the plane that are farther than this from every row held, as a fraction of the
            size of the axes. A forest predicts everywhere, even far from all data.

        Returns
        -------
        SurfaceDisplay
        """
        forest = check_forest(forest)
        if not isinstance(grid_resolution, (int, np.integer)) or grid_resolution < 2:
            raise ValueError(f"grid_resolution must be a whole number of at least 2, got {grid_resolution!r}")
        if reach is not None and not reach > 0:
            raise ValueError(f"reach must be positive or None, got {reach!r}")
        held = forest.held_rows()
        plane = choose_plane(forest, held.X, dims, values)
        points = plane.project(held.X)
        limits = find_limits(points, extent)
        pixels = _pixel_centres(limits, grid_resolution)
        grid = np.tile(plane.row, (len(pixels), 1))
        grid[:, list(plane.dims)] = pixels
        shape = (grid_resolution, grid_resolution)
        response, uncertainty = _predict(forest, grid)
        shown = _within_reach(pixels, points, limits, np.inf if reach is None else reach)
        names = get_feature_names(forest)
        return cls(
            response.reshape(*shape, *response.shape[1:]),
            uncertainty.reshape(shape),
            shown.reshape(shape),
            limits,
            points,
            held.y,
            Palette.from_labels(forest, held.y),
            [names[k] for k in plane.dims],
            plane.describe(names) if plane.is_section else "",
        )

    def plot(
        self, ax: Any = None, *, uncertainty: bool = True, points: bool | None = None, legend: bool = True
    ) -> Self:
        """Draw the surface.

        Parameters
        ----------
        ax : two matplotlib axes (one without uncertainty) or None, default=None
            None creates a figure.
        uncertainty : bool, default=True
            Also draw the uncertainty.
        points : bool or None, default=None
            Draw the rows held, at most 500 of them. None draws them only if all features are shown, since rows do not
            lie in the plane of a section.
        legend : bool, default=True
            Add legends and colour bars.

        Returns
        -------
        self
        """
        n = 2 if uncertainty else 1
        hint = "; pass one with uncertainty=False" if uncertainty else ""
        self.figure_, self.axes_ = make_axes("SurfaceDisplay", ax, n, size=(5.6 * n, 4.6), hint=hint)
        self.images_ = [self._draw_response(self.axes_[0], legend)]
        if uncertainty:
            self.images_.append(self._draw_uncertainty(self.axes_[1], legend))
        self.points_ = None
        if points or (points is None and not self.title):
            some = np.linspace(0, len(self.points) - 1, min(len(self.points), MAX_POINTS)).astype(int)
            colours = self.palette.colour_labels(self.labels[some])
            self.points_ = draw_points(self.axes_[0], self.points[some], colours)
        for each in self.axes_:
            set_limits(each, self.limits, self.names)
        if self.title:
            self.axes_[0].set_title(f"{self.axes_[0].get_title()}\n{self.title}", fontsize="medium")
        return self

    def _draw_response(self, ax: Any, legend: bool) -> Any:
        classes = self.palette.classes
        if classes is None:
            image = self._show(ax, np.ma.array(self.response, mask=~self.shown), cmap=MEAN_COLORMAP)
            if legend:
                self.figure_.colorbar(image, ax=ax, label="mean")
        else:
            colours = self.palette.colour_values(self.response.reshape(-1, len(classes)))
            colours = fade(colours.reshape(*self.uncertainty.shape, 3), 0.75)
            image = self._show(ax, np.dstack([colours, self.shown]))
            if legend:
                self.palette.add_legend(ax)
        ax.set_title("prediction" if classes is None else "most probable class")
        return image

    def _draw_uncertainty(self, ax: Any, legend: bool) -> Any:
        image = self._show(ax, np.ma.array(self.uncertainty, mask=~self.shown), cmap=STD_COLORMAP)
        if legend:
            label = "standard deviation" if self.palette.classes is None else "probability of another class"
            self.figure_.colorbar(image, ax=ax, label=label)
        ax.set_title("uncertainty")
        return image

    def _show(self, ax: Any, image: np.ndarray, **options: Any) -> Any:
        (left, bottom), (right, top) = self.limits
        return ax.imshow(
            image,
            origin="lower",
            extent=(left, right, bottom, top),
            aspect="auto",
            interpolation="nearest",
            **options,
        )


def _pixel_centres(limits: np.ndarray, n: int) -> np.ndarray:
    """Return the centres of n by n pixels, row by row from the bottom."""
    steps = (np.arange(n) + 0.5) / n
    x, y = (limits[0, k] + steps * (limits[1, k] - limits[0, k]) for k in range(2))
    return np.stack([np.tile(x, n), np.repeat(y, n)], axis=1)


def _within_reach(pixels: np.ndarray, points: np.ndarray, limits: np.ndarray, reach: float) -> np.ndarray:
    """Return whether each pixel is within ``reach`` of a point, as a fraction of the size of the axes."""
    size = limits[1] - limits[0]
    return cKDTree(points / size).query(pixels / size)[0] <= reach


def _predict(forest: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions (means or class probabilities) and their uncertainty."""
    with warnings.catch_warnings():  # the grid has no feature names, even if the forest was fitted with some
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        if is_classifier(forest):
            probabilities = forest.predict_proba(X)
            return probabilities, 1.0 - probabilities.max(axis=1)
        return forest.predict(X, return_std=True)
