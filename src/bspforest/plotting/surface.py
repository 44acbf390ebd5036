"""The predictions of a forest over a plane of two features, and their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from ..estimators.encoding import EncodedRows
from .labels import Palette
from .numerals import NUMBER
from .ranges import close_gaps, fill_margins, find_covered, find_limits, find_reach, lie_inside
from .sections import check_forest, choose_plane, get_feature_names
from .style import (
    MEAN_COLORMAP,
    STD_COLORMAP,
    add_colour_bar,
    draw_points,
    fade,
    make_axes,
    set_limits,
    text_colour,
    wrap_title,
)

# At most this many rows are drawn over a surface; more would hide it.
MAX_POINTS = 500


class SurfaceDisplay:
    """The decision surface or regression surface of a forest in two features, next to its uncertainty.

    Regression shows the mean and the standard deviation of the label. Classification shows the most probable class,
    paler where it is less probable, and the probability of any other class. With more than two features, the others are
    fixed at their medians or at given values.

    Outliers do not stretch the axes and colours: these show the rows without a twentieth at each end and half as much
    again on either side, or all rows if that is hardly more. ``note`` tells how many rows lie outside. The prediction
    and the rows share a colour scale, chosen for the prediction; values beyond its ends have the colour of the end.

    Create it with `from_estimator`.

    Parameters
    ----------
    response : ndarray of shape (ny, nx) or (ny, nx, n_classes)
        The mean, or the probability of each class; from the bottom row of the image to the top.
    uncertainty : ndarray of shape (ny, nx)
        The standard deviation, or the probability of any other class.
    shown : ndarray of bool, shape (ny, nx)
        False where no row held is within ``reach``.
    limits : ndarray of shape (2, 2)
        The ends of both axes.
    points : ndarray of shape (n, 2)
        The rows held, in the two features.
    labels : ndarray of shape (n,)
        Their labels.
    palette : Palette
        Colours of labels.
    names : sequence of str
        Names of the two features.
    title : str, default=""
        What the other features are fixed at.
    reach : float, default=inf
        How far the nearest row may be, as a fraction of the size of the axes.
    kinds : tuple of str
        What the values of the two features are, for their ticks.

    Attributes
    ----------
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
        reach: float = np.inf,
        kinds: tuple[str, ...] = (NUMBER, NUMBER),
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
        self.reach = reach
        self.kinds = kinds

    @classmethod
    def from_estimator(
        cls,
        forest: Any,
        *,
        dims: Any = None,
        values: Any = None,
        extent: Sequence[float] | None = None,
        grid_resolution: int = 200,
        reach: float | str | None = "auto",
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
            Limits of the axes; by default all rows held except outliers, with a margin.
        grid_resolution : int, default=200
            Number of grid points along each axis.
        reach : float, "auto" or None, default="auto"
            Leave blank the points of the plane that are farther than this from every row held, as a fraction of the
            size of the axes. A forest predicts everywhere, even far from all data. "auto" is three times the usual
            distance from a row to the nearest other one (its 95th percentile), and at least 0.01; gaps between the
            values of a feature with few of them, such as years, do not count. Only the two features shown are compared.
            None leaves nothing blank.

        Returns
        -------
        SurfaceDisplay
        """
        forest = check_forest(forest)
        if not isinstance(grid_resolution, (int, np.integer)) or grid_resolution < 2:
            raise ValueError(f"grid_resolution must be a whole number of at least 2, got {grid_resolution!r}")
        if reach not in ("auto", None) and (isinstance(reach, str) or not reach > 0):
            raise ValueError(f'reach must be positive, "auto" or None, got {reach!r}')
        if getattr(forest, "n_outputs_", 1) > 1:
            raise ValueError(f"a surface shows one output, but this forest has {forest.n_outputs_}: fit one on y[:, k]")
        held = forest.held_rows()
        plane = choose_plane(forest, held.X, dims, values)
        points = plane.project(held.X)
        limits = find_limits(points, extent, robust=True)
        pixels = _pixel_centres(limits, grid_resolution)
        grid = np.tile(plane.row, (len(pixels), 1))
        grid[:, list(plane.dims)] = pixels
        shape = (grid_resolution, grid_resolution)
        response, uncertainty = _predict(forest, grid)
        is_auto, places = reach == "auto", pixels
        if is_auto:
            reach, places = find_reach(points, limits), close_gaps(pixels, points, limits)
        reach = np.inf if reach is None else float(reach)
        shown = find_covered(places, points, limits, reach)
        if is_auto and extent is None:
            fill_margins(shown.reshape(shape))
        names = get_feature_names(forest)
        if is_classifier(forest):
            palette = Palette.from_labels(forest, held.y)
        else:
            covered = response[shown] if shown.any() else response
            palette = Palette.from_values(covered, held.y, with_rows=not plane.is_section)
        return cls(
            response.reshape(*shape, *response.shape[1:]),
            uncertainty.reshape(shape),
            shown.reshape(shape),
            limits,
            points,
            held.y,
            palette,
            [names[k] for k in plane.dims],
            plane.describe(names) if plane.is_section else "",
            reach,
            tuple(plane.kinds[k] for k in plane.dims),
        )

    @property
    def note(self) -> str:
        """How many rows lie outside the axes, and what is left blank."""
        notes = []
        outside = int(np.count_nonzero(~lie_inside(self.points, self.limits)))
        if outside:
            verb = "lies" if outside == 1 else "lie"
            notes.append(f"{outside:,} of {len(self.points):,} rows {verb} outside the axes.")
        if not self.shown.all():
            notes.append(f"Blank: no row within {100 * self.reach:.2g} % of the axes.")
        return " ".join(notes)

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
        if ax is None and not np.isfinite(self.uncertainty).any():  # all rows have weight 0
            uncertainty = False
        n = 2 if uncertainty else 1
        hint = "; pass one with uncertainty=False" if uncertainty else ""
        self.figure_, self.axes_ = make_axes("SurfaceDisplay", ax, n, size=(5.6 * n, 4.6), hint=hint)
        self.images_ = [self._draw_response(self.axes_[0], legend)]
        if uncertainty:
            self.images_.append(self._draw_uncertainty(self.axes_[1], legend))
        self.points_ = None
        inside = np.flatnonzero(lie_inside(self.points, self.limits))
        if len(inside) and (points or (points is None and not self.title)):
            some = inside[np.linspace(0, len(inside) - 1, min(len(inside), MAX_POINTS)).astype(int)]
            colours = self.palette.colour_labels(self.labels[some])
            self.points_ = draw_points(self.axes_[0], self.points[some], colours)
        for each in self.axes_:
            set_limits(each, self.limits, self.names, self.kinds)
        if ax is None:
            self._add_texts()
        elif self.title:
            lines = wrap_title(self.axes_[0], self.title)
            self.axes_[0].set_title(f"{self.axes_[0].get_title()}\n{lines}", fontsize="medium")
        return self

    def _add_texts(self) -> None:
        """Write the fixed values above a figure, and the note below."""
        if self.title:
            self.figure_.suptitle(wrap_title(self.axes_[0], self.title, n=len(self.axes_)), fontsize="medium")
        if self.note:
            options = {"x": 0.01, "ha": "left", "fontsize": "small", "color": fade(text_colour(), 0.65)}
            self.figure_.supxlabel(self.note, **options)

    def _draw_response(self, ax: Any, legend: bool) -> Any:
        classes = self.palette.classes
        if classes is None:
            image = self._show_numbers(ax, self.response, MEAN_COLORMAP, self.palette.low, self.palette.high)
            if legend:
                options = {"kind": self.palette.kind, "extend": self.palette.extend}
                add_colour_bar(image, ax, "mean", **options)
        else:
            colours = self.palette.colour_values(self.response.reshape(-1, len(classes)))
            colours = fade(colours.reshape(*self.uncertainty.shape, 3), 0.75)
            image = self._show(ax, np.dstack([colours, self.shown]))
            if legend:
                self.palette.add_legend(ax)
        ax.set_title("prediction" if classes is None else "most probable class")
        return image

    def _draw_uncertainty(self, ax: Any, legend: bool) -> Any:
        classes = self.palette.classes
        if classes is None:
            covered = self.uncertainty[self.shown] if self.shown.any() else self.uncertainty
            scale = Palette.from_values(covered, covered)
            label = "standard deviation"
        else:  # from certain to no idea, so that pictures can be compared
            scale = Palette(None, 0.0, 1.0 - 1.0 / max(len(classes), 2))
            label = "probability of another class"
        image = self._show_numbers(ax, self.uncertainty, STD_COLORMAP, max(scale.low, 0.0), scale.high)
        if legend:
            add_colour_bar(image, ax, label, extend=scale.extend)
        ax.set_title("uncertainty")
        return image

    def _show_numbers(self, ax: Any, numbers: np.ndarray, colormap: str, low: float, high: float) -> Any:
        return self._show(ax, np.ma.array(numbers, mask=~self.shown), cmap=colormap, vmin=low, vmax=high)

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


def _predict(forest: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions (means or class probabilities) and their uncertainty."""
    if is_classifier(forest):
        probabilities = forest.predict_proba(EncodedRows(X))
        return probabilities, 1.0 - probabilities.max(axis=1)
    return forest.predict(EncodedRows(X), return_std=True)
