"""Streams of rows in the plane: built-in ones, drawn at random, and those made of two columns of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Rows of a stream, and rows that a session holds, at most: beyond this, a page is updated too slowly.
MAX_ROWS = 5_000

# Classes that can be told apart by colour and shape.
MAX_CLASSES = 8

MARGIN = 0.04  # around the rows of a stream, as a share of their range
SPREAD_QUANTILES = (0.01, 0.99)  # the ends of the colour scale of labels, which outliers do not stretch


@dataclass(frozen=True, eq=False)
class PlaneStream:
    """Rows of two features with labels, in the order in which they arrive.

    Attributes
    ----------
    name, title : str
        For the command, and for the page.
    X : ndarray of shape (n, 2)
    y : ndarray of shape (n,)
        Numbers, or in classification numbers of classes.
    classes : tuple of str
        Names of the classes; empty in regression.
    features : tuple of two str
        Names of the features.
    target : str
        Name of the label.
    """

    name: str
    title: str
    X: np.ndarray
    y: np.ndarray
    classes: tuple[str, ...] = ()
    features: tuple[str, str] = ("x", "y")
    target: str = "label"

    def __len__(self) -> int:
        return len(self.X)

    @property
    def limits(self) -> np.ndarray:
        """The lower left and the upper right corner of the plane that is shown, around all rows."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        size = np.where(high > low, high - low, np.maximum(1.0, np.abs(low)))
        return np.stack([low - MARGIN * size, high + MARGIN * size])

    @property
    def scale(self) -> tuple[float, float]:
        """The ends of the colour scale of labels. In classification, of probabilities."""
        if self.classes:
            return 0.0, 1.0
        low, high = np.quantile(self.y, SPREAD_QUANTILES)
        margin = 0.0 if high > low else 0.5 * max(1.0, abs(low))  # a fixed one would vanish beside 1e17
        return float(low - margin), float(high + margin)

    @property
    def spread(self) -> float:
        """The upper end of the colour scale of uncertainty: that of a forest which knows nothing but the labels."""
        return (1.0 - 1.0 / len(self.classes) if self.classes else float(self.y.std())) or 1.0


def _draw_bumps(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.random((n, 2))
    centres = np.array([[0.28, 0.70], [0.72, 0.62], [0.45, 0.22]])
    heights, widths = np.array([4.0, -3.0, 2.5]), np.array([0.15, 0.18, 0.12])
    squares = ((X[:, None] - centres) ** 2).sum(axis=2)
    return X, (heights * np.exp(-0.5 * squares / widths**2)).sum(axis=1) + 0.25 * rng.normal(size=n)


def _draw_waves(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.random((n, 2))
    return X, 3.0 * np.sin(7.0 * (X[:, 0] + 0.8 * X[:, 1])) + 0.4 * rng.normal(size=n)


def _draw_drift(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows on a hill that moves once around the middle within 1,500 rows."""
    X = rng.random((n, 2))
    angle = 2.0 * np.pi * np.arange(n) / 1_500
    centres = 0.5 + 0.28 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X, 4.0 * np.exp(-0.5 * ((X - centres) ** 2).sum(axis=1) / 0.17**2) + 0.2 * rng.normal(size=n)


def _draw_moons(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(2, size=n)
    angle = np.pi * rng.random(n)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X = np.where(y[:, None] == 0, upper, [1.0, 0.5] - upper)
    return X + 0.17 * rng.normal(size=(n, 2)), y


def _draw_spirals(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(3, size=n)
    radius = np.sqrt(rng.uniform(0.02, 1.0, n))
    angle = 2.0 * np.pi * (y / 3.0 + 0.9 * radius)
    X = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X + 0.06 * rng.normal(size=(n, 2)), y


def _draw_checkerboard(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of which a twentieth have wrong labels."""
    X = rng.random((n, 2))
    y = np.floor(4.0 * X).astype(int).sum(axis=1) % 2
    return X, np.where(rng.random(n) < 0.05, 1 - y, y)


Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]

# By name: title, classes, and the function that draws rows.
STREAMS: dict[str, tuple[str, tuple[str, ...], Draw]] = {
    "bumps": ("Hills and a hollow", (), _draw_bumps),
    "waves": ("Diagonal waves", (), _draw_waves),
    "drift": ("A moving hill (drift)", (), _draw_drift),
    "moons": ("Two moons", ("upper", "lower"), _draw_moons),
    "spirals": ("Three spirals", ("A", "B", "C"), _draw_spirals),
    "checkerboard": ("Checkerboard", ("even", "odd"), _draw_checkerboard),
}


def make_stream(name: str, seed: int = 0) -> PlaneStream:
    """Return a built-in stream.

    >>> stream = make_stream("moons", seed=1)
    >>> stream.X.shape, stream.classes
    ((5000, 2), ('upper', 'lower'))
    """
    if name not in STREAMS:
        raise ValueError(f"unknown stream {name!r}; expected one of {', '.join(STREAMS)}")
    title, classes, draw = STREAMS[name]
    X, y = draw(np.random.default_rng(seed), MAX_ROWS)
    return PlaneStream(name, title, X, y.astype(float), classes)
