"""The geometry of a tree in a plane of two features: cells, hulls and cuts, computed from the rows it holds."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..estimators.base import BSPForest
from ..forest.tree_view import TreeView
from .numerals import NUMBER, find_kinds, format_value
from .polygons import clip_line, clip_polygon, find_hull, make_rectangle
from .style import TITLE_WIDTH

# At most this many fixed values are named in a title.
MAX_DESCRIBED = 3


def check_forest(forest: Any, *, fitted: bool = True) -> BSPForest:
    """Return the forest if it can be drawn; otherwise raise an error that says what to do."""
    if isinstance(forest, Pipeline):
        raise TypeError(
            "plots show the features that the forest itself receives, after the other steps of a Pipeline: "
            "pass pipeline[-1]"
        )
    if not isinstance(forest, BSPForest):
        raise TypeError(f"expected a BSPForestClassifier or BSPForestRegressor, got {type(forest).__name__}")
    if not fitted:
        return forest
    name = type(forest).__name__
    check_is_fitted(forest, msg=f"this {name} is not fitted yet: call fit or partial_fit before drawing it")
    if forest.n_samples_ == 0:
        raise ValueError(f"this {name} holds no rows to draw: call partial_fit first")
    return forest


def get_feature_names(forest: BSPForest) -> list[str]:
    """Return the names of the features: those seen in fit, encoded if there was anything to encode, or "feature 0" and so on."""
    if forest._encoder is not None:
        return forest.encoded_feature_names_
    given = getattr(forest, "feature_names_in_", None)
    return [f"feature {k}" for k in range(forest.n_features_in_)] if given is None else [str(name) for name in given]


def find_feature(forest: BSPForest, key: Any) -> int:
    """Return the number of a feature given by number or name."""
    names = get_feature_names(forest)
    if isinstance(key, str):
        if key not in names:
            raise ValueError(f"unknown feature {key!r}; the features are {', '.join(names)}")
        return names.index(key)
    if not isinstance(key, (int, np.integer)) or not 0 <= key < len(names):
        raise ValueError(f"unknown feature {key!r}; expected a name or a number from 0 to {len(names) - 1}")
    return int(key)


@dataclass(frozen=True)
class Plane:
    """The plane of two features through a point.

    Attributes
    ----------
    dims : tuple of two int
        The features shown.
    row : ndarray of shape (n_features,)
        A point of the plane: the values of the other features are those they are fixed at.
    given : tuple of int
        The features whose values the user has given.
    kinds : tuple of str
        The kinds of numbers that all features have: see `find_kinds`.
    """

    dims: tuple[int, int]
    row: np.ndarray
    given: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def is_section(self) -> bool:
        """Whether there are features that are not shown."""
        return len(self.row) > 2

    def project(self, X: np.ndarray) -> np.ndarray:
        """Return the two features shown of each row."""
        return X[:, list(self.dims)]

    def describe(self, names: list[str]) -> str:
        """Describe the fixed values, those given by the user first."""
        order = [*self.given, *(k for k in range(len(self.row)) if k not in self.given)]
        return describe_fixed(
            [f"{names[k]} = {format_value(self.row[k], self.kinds[k])}" for k in order if k not in self.dims]
        )


def describe_fixed(values: list[str]) -> str:
    """Return a description such as ``at age = 3, size = 1.5``, in lines short enough for a title.

    Spaces around equals signs do not break.
    """
    shown = [value.replace(" ", "\u00a0") for value in values[:MAX_DESCRIBED]]
    more = f" and {len(values) - len(shown)} more" if len(values) > len(shown) else ""
    return textwrap.fill("at " + ", ".join(shown) + more, TITLE_WIDTH)


def find_medians(X: np.ndarray) -> np.ndarray:
    """Return the median of each column, that of whole numbers rounded down to one."""
    medians = np.median(X, axis=0)
    return np.where([kind == NUMBER for kind in find_kinds(X)], medians, np.floor(medians))


def choose_plane(forest: BSPForest, X: np.ndarray, dims: Any, values: Any) -> Plane:
    """Return the plane of the features ``dims``, the others fixed at ``values`` or at their medians in ``X``."""
    d = len(get_feature_names(forest))
    if dims is None:
        if d != 2:
            advice = (
                "at least two features are needed"
                if d < 2
                else 'choose two to show, e.g. dims=(0, 1) or dims=("a", "b")'
            )
            raise ValueError(f"this {type(forest).__name__} has {d} feature{'s' * (d > 1)}: {advice}")
        dims = (0, 1)
    if isinstance(dims, str) or not np.iterable(dims) or len(tuple(dims)) != 2:
        raise ValueError(f"dims must be two features, by number or name, got {dims!r}")
    i, j = (find_feature(forest, key) for key in dims)
    if i == j:
        raise ValueError(f"dims must be two different features, got {dims!r}")
    row, kinds, given = find_medians(X), find_kinds(X), []
    for key, value in dict(values or {}).items():
        k = find_feature(forest, key)
        name = get_feature_names(forest)[k]
        if k in (i, j):
            raise ValueError(f"values: {name!r} is one of the two features shown, so it cannot be fixed")
        if not np.isfinite(value):
            raise ValueError(f"values: {name!r} must be a finite number, got {value!r}")
        row[k] = value
        given.append(k)
    return Plane((i, j), row, tuple(given), kinds)


@dataclass(frozen=True)
class Section:
    """A tree in a plane. Lists have one entry per node of ``tree``, an empty one for nodes outside the plane.

    If the plane shows all features, the section is the whole tree. Otherwise ``cells`` and ``lines`` are the
    intersections with the plane, and there are no points, hulls or cuts, since the rows do not lie in the plane.
    """

    tree: TreeView
    limits: np.ndarray  # lower left and upper right corner of the axes
    cells: list[np.ndarray]  # bounded by the cuts alone; the cells of the leaves tile the axes
    lines: list[np.ndarray]  # the cut across the cell of the node
    hulls: list[np.ndarray]  # of the rows of the node; bounding boxes in a Mondrian tree
    cuts: list[np.ndarray]  # the cut across the hull of the node
    points: np.ndarray
    leaves: np.ndarray  # the leaf of each point

    @property
    def leaf_nodes(self) -> np.ndarray:
        """The leaves that meet the plane."""
        return np.array([v for v in range(self.tree.n_nodes) if self.is_leaf(v) and len(self.cells[v])], dtype=int)

    def is_leaf(self, v: int) -> bool:
        """Return whether node v is a leaf."""
        return self.tree.children_left[v] < 0


def _project_cut(tree: TreeView, v: int, plane: Plane) -> tuple[np.ndarray, float]:
    """Return the normal and offset of the line where the cut of node v meets the plane.

    The normal is zero if the cut is parallel to the plane.
    """
    weights = np.zeros(len(plane.row))
    weights[tree.cut_dims[v]] = tree.cut_normal[v]
    dims = list(plane.dims)
    normal = weights[dims]
    weights[dims] = 0.0
    return normal, float(tree.cut_offset[v] - weights @ plane.row)


def find_cells(tree: TreeView, limits: np.ndarray, plane: Plane) -> tuple[list, list]:
    """Return the cell of each node in the plane, and the part of its cut inside the cell."""
    empty = np.empty((0, 2))
    cells = [empty] * tree.n_nodes
    lines = [empty] * tree.n_nodes
    cells[0] = make_rectangle(*limits)
    for v in range(tree.n_nodes):  # parents come first
        left, right = tree.children_left[v], tree.children_right[v]
        if left < 0 or not len(cells[v]):
            continue
        normal, offset = _project_cut(tree, v, plane)
        if not normal.any():
            cells[left if offset >= 0 else right] = cells[v]
            continue
        lines[v] = clip_line(cells[v], normal, offset)
        cells[left] = clip_polygon(cells[v], normal, offset)
        cells[right] = clip_polygon(cells[v], -normal, -offset)
    return cells, lines


def make_section(forest: BSPForest, m: int, plane: Plane, X: np.ndarray, limits: np.ndarray) -> Section:
    """Return tree m of a forest that holds the rows ``X``, in a plane. With ranks, plane, rows and limits are those of ranks."""
    tree = forest.trees_[m]
    cells, lines = find_cells(tree, limits, plane)
    empty = np.empty((0, 2))
    hulls, cuts = [empty] * tree.n_nodes, [empty] * tree.n_nodes
    if plane.is_section:
        return Section(tree, limits, cells, lines, hulls, cuts, empty, np.empty(0, dtype=int))
    points, leaves = plane.project(X), forest.trees_.held_leaves(m)
    order = np.argsort(leaves)
    for rows in np.split(order, np.flatnonzero(np.diff(leaves[order])) + 1):
        hulls[leaves[rows[0]]] = points[rows]
    is_mondrian = tree.cut_dims.shape[1] == 1
    for v in range(tree.n_nodes - 1, -1, -1):  # children come first
        left, right = tree.children_left[v], tree.children_right[v]
        corners = hulls[v] if left < 0 else np.concatenate([hulls[left], hulls[right]])
        hulls[v] = make_rectangle(corners.min(axis=0), corners.max(axis=0)) if is_mondrian else find_hull(corners)
        if left >= 0:
            cuts[v] = clip_line(hulls[v], *_project_cut(tree, v, plane))
    return Section(tree, limits, cells, lines, hulls, cuts, points, leaves)
