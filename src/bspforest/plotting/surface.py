"""What a forest says over the plane of two features, with its uncertainty beside it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.spatial import cKDTree
from sklearn.base import is_classifier

from .labels import Palette
from .sections import check_forest, choose_plane, describe_plane, feature_names, frame
from .style import MEANS, SPREADS, draw_points, fit_frame, make_axes, mix

# Points drawn over a surface; more would hide it.
MOST_POINTS = 500


class SurfaceDisplay:
    """The decision surface or regression surface of a forest in two features, and beside it how sure the forest is.

    Regression: the mean, and the standard deviation of the label. Classification: the most probable class, paler where it
    stands out less, and the probability that the class is another. With more than two features the others are held at their
    medians or at values that you give.

    Use `from_estimator`.

    Attributes
    ----------
    response : ndarray of shape (ny, nx) or (ny, nx, n_classes)
        The mean, or the probability of each class; rows from bottom to top.
    uncertainty : ndarray of shape (ny, nx)
    shown : ndarray of bool, shape (ny, nx)
        False where there are no rows within reach.
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
        corners: np.ndarray,
        points: np.ndarray,
        labels: np.ndarray,
        palette: Palette,
        names: Sequence[str],
        title: str = "",
    ) -> None:
        self.response = response
        self.uncertainty = uncertainty
        self.shown = shown
        self.corners = corners
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
        """Ask a fitted forest over a grid.

        Parameters
        ----------
        forest : BSPForestClassifier or BSPForestRegressor
        dims : two features by number or name, default=None
            Needed if there are more than two.
        values : dict or None, default=None
            Values of other features, by number or name. Those not given are held at the median of the rows held.
        extent : (left, right, bottom, top) or None, default=None
            The part of the plane to show; by default all rows held, with a margin.
        grid_resolution : int, default=200
            Places asked in each direction.
        reach : float or None, default=None
            Leave blank what is further than this from every row held, in the plane; 1 is the size of the picture. A
            forest has an answer everywhere, also where it has seen nothing.

        Returns
        -------
        SurfaceDisplay
        """
        forest = check_forest(forest)
        if not isinstance(grid_resolution, (int, np.integer)) or grid_resolution < 2:
            raise ValueError(f"grid_resolution must be a whole number of at least 2, got {grid_resolution!r}")
        if reach is not None and not reach > 0:
            raise ValueError(f"reach must be positive or None, got {reach!r}")
        plane, row = choose_plane(forest, dims, values)
        rows = forest._forest.held_rows()
        points = rows[:, list(plane)]
        corners = frame(points, extent)
        places = _grid(corners, grid_resolution)
        asked = np.tile(row, (len(places), 1))
        asked[:, list(plane)] = places
        shape = (grid_resolution, grid_resolution)
        response, uncertainty = _ask(forest, asked)
        shown = np.ones(len(places), dtype=bool)
        if reach is not None:
            size = corners[1] - corners[0]
            shown = cKDTree(points / size).query(places / size)[0] <= reach
        names = feature_names(forest)
        return cls(
            response.reshape(*shape, *response.shape[1:]),
            uncertainty.reshape(shape),
            shown.reshape(shape),
            corners,
            points,
            forest._forest.held_labels()[:, 0],
            Palette.of_forest(forest),
            [names[k] for k in plane],
            describe_plane(forest, plane, row) if len(row) > 2 else "",
        )

    def plot(
        self, ax: Any = None, *, uncertainty: bool = True, points: bool | None = None, legend: bool = True
    ) -> Self:
        """Draw the surface.

        Parameters
        ----------
        ax : two matplotlib axes (one without uncertainty) or None, default=None
            None makes a figure.
        uncertainty : bool, default=True
            Also draw the uncertainty.
        points : bool or None, default=None
            Draw the rows held, at most 500 of them. None draws them only where no features are left out, since in a section
            they lie elsewhere.
        legend : bool, default=True

        Returns
        -------
        self
        """
        n = 2 if uncertainty else 1
        hint = "; one will do with uncertainty=False" if uncertainty else ""
        self.figure_, self.axes_ = make_axes("SurfaceDisplay", ax, n, size=(5.6 * n, 4.6), hint=hint)
        classes = self.palette.classes
        if classes is not None:
            shape = (-1, len(classes))
            colours = self.palette.colour_values(self.response.reshape(shape)).reshape(*self.uncertainty.shape, 3)
            main = self._show(self.axes_[0], np.dstack([mix(colours, 0.75), self.shown]))
            if legend:
                self.palette.explain(self.axes_[0])
        else:
            main = self._show(self.axes_[0], np.ma.array(self.response, mask=~self.shown), cmap=MEANS)
            if legend:
                self.figure_.colorbar(main, ax=self.axes_[0], label="mean")
        self.axes_[0].set_title("prediction" if classes is None else "most probable class")
        self.images_ = [main]
        if uncertainty:
            what = "standard deviation" if classes is None else "probability of another class"
            second = self._show(self.axes_[1], np.ma.array(self.uncertainty, mask=~self.shown), cmap=SPREADS)
            if legend:
                self.figure_.colorbar(second, ax=self.axes_[1], label=what)
            self.axes_[1].set_title("uncertainty")
            self.images_.append(second)
        self.points_ = None
        if points or (points is None and not self.title):
            some = np.linspace(0, len(self.points) - 1, min(len(self.points), MOST_POINTS)).astype(int)
            colours = self.palette.colour_labels(self.labels[some])
            self.points_ = draw_points(self.axes_[0], self.points[some], colours)
        for one in self.axes_:
            fit_frame(one, self.corners, self.names)
        if self.title:
            self.axes_[0].set_title(f"{self.axes_[0].get_title()}\n{self.title}", fontsize="medium")
        return self

    def _show(self, ax: Any, picture: np.ndarray, **options: Any) -> Any:
        (left, bottom), (right, top) = self.corners
        return ax.imshow(
            picture,
            origin="lower",
            extent=(left, right, bottom, top),
            aspect="auto",
            interpolation="nearest",
            **options,
        )


def _grid(corners: np.ndarray, n: int) -> np.ndarray:
    """The middles of n by n equal parts, row by row from below: what pixels stand for."""
    steps = (np.arange(n) + 0.5) / n
    x, y = (corners[0, k] + steps * (corners[1, k] - corners[0, k]) for k in range(2))
    return np.stack([np.tile(x, n), np.repeat(y, n)], axis=1)


def _ask(forest: Any, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the forest says of rows, and how unsure it is."""
    with warnings.catch_warnings():  # a grid has no names, even where the forest's features have
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        if is_classifier(forest):
            shares = forest.predict_proba(asked)
            return shares, 1.0 - shares.max(axis=1)
        return forest.predict(asked, return_std=True)
