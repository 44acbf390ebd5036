"""A tree seen in a plane: its cells, its hulls and its cuts, computed on demand from its points."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from ..engine.arrays import AXES
from ..engine.tree_view import TreeView
from ..estimators.base import BSPForest
from .polygons import clip, cross, find_hull, rectangle


def check_forest(forest: Any, *, fitted: bool = True) -> BSPForest:
    """The forest, if it is one and has rows to show; else an error that says what to do."""
    if isinstance(forest, Pipeline):
        raise TypeError(
            "pictures show the features a forest was given, which in a Pipeline are those of its last step: "
            "pass pipeline[-1]"
        )
    if not isinstance(forest, BSPForest):
        raise TypeError(f"expected a BSPForestClassifier or BSPForestRegressor, got {type(forest).__name__}")
    name = type(forest).__name__
    if not fitted:
        return forest
    if not hasattr(forest, "_forest"):
        raise NotFittedError(f"this {name} is not fitted yet: call fit or partial_fit before drawing it")
    if forest.n_samples_ == 0:
        raise ValueError(f"this {name} holds no samples to draw: call partial_fit with rows first")
    return forest


def feature_names(forest: BSPForest) -> list[str]:
    given = getattr(forest, "feature_names_in_", None)
    return [f"feature {k}" for k in range(forest.n_features_in_)] if given is None else [str(name) for name in given]


def find_feature(forest: BSPForest, key: Any) -> int:
    """The number of a feature given by number or name."""
    names = feature_names(forest)
    if isinstance(key, str):
        if key not in names:
            raise ValueError(f"unknown feature {key!r}; the features are {', '.join(names)}")
        return names.index(key)
    if not isinstance(key, (int, np.integer)) or not 0 <= key < len(names):
        raise ValueError(f"unknown feature {key!r}; expected a name or a number from 0 to {len(names) - 1}")
    return int(key)


def choose_plane(forest: BSPForest, dims: Any, values: Any) -> tuple[tuple[int, int], np.ndarray]:
    """The two features to show, and a row whose other features say where the plane lies: medians unless given."""
    d = forest.n_features_in_
    if dims is None:
        if d != 2:
            few = (
                "at least two features are needed"
                if d < 2
                else 'choose two to show, e.g. dims=(0, 1) or dims=("a", "b")'
            )
            raise ValueError(f"this {type(forest).__name__} has {d} feature{'s' * (d > 1)}: {few}")
        dims = (0, 1)
    if isinstance(dims, str) or not np.iterable(dims) or len(tuple(dims)) != 2:
        raise ValueError(f"dims must be two features, by number or name, got {dims!r}")
    i, j = (find_feature(forest, key) for key in dims)
    if i == j:
        raise ValueError(f"dims must be two different features, got {dims!r}")
    row = np.median(forest._forest.held_rows(), axis=0)
    for key, value in dict(values or {}).items():
        k = find_feature(forest, key)
        if k in (i, j):
            raise ValueError(
                f"values: {feature_names(forest)[k]!r} is one of the two features shown, so it has no single value"
            )
        if not np.isfinite(value):
            raise ValueError(f"values: {feature_names(forest)[k]!r} must be a finite number, got {value!r}")
        row[k] = value
    return (i, j), row


def describe_plane(forest: BSPForest, dims: tuple[int, int], row: np.ndarray) -> str:
    """Where a plane lies, e.g. ``at age = 3, size = 1.5``, in lines short enough for a title."""
    names = feature_names(forest)
    held = [f"{names[k]} = {row[k]:.3g}".replace(" ", "\u00a0") for k in range(len(row)) if k not in dims]
    more = f" and {len(held) - 3} more" if len(held) > 3 else ""
    return textwrap.fill("at " + ", ".join(held[:3]) + more, 46)


def frame(points: np.ndarray, extent: Any, margin: float = 0.05) -> np.ndarray:
    """The corners of the picture, low and high: those given, or around the points with a margin."""
    if extent is not None:
        corners = np.array(extent, dtype=float)
        if corners.shape != (4,) or not np.isfinite(corners).all() or np.any(corners[[0, 2]] >= corners[[1, 3]]):
            raise ValueError(f"extent must be (left, right, bottom, top), finite and increasing, got {extent!r}")
        return np.stack([corners[[0, 2]], corners[[1, 3]]])
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.where(high > low, high - low, 1.0)
    return np.stack([low - margin * size, high + margin * size])


@dataclass(frozen=True)
class Section:
    """A tree in a plane. Lists have one entry a node of ``tree``; an entry without corners is not there.

    With two features everything is exact. With more, ``cells`` and ``lines`` are what the plane through ``row`` meets, and
    there are no points, hulls or cuts, since the points lie elsewhere.
    """

    tree: TreeView
    corners: np.ndarray  # low and high of the picture
    cells: list[np.ndarray]  # by the cuts alone; those of the leaves tile the picture
    lines: list[np.ndarray]  # the cut across the node's cell
    hulls: list[np.ndarray]  # of the node's points; boxes in a Mondrian tree
    cuts: list[np.ndarray]  # the cut across the node's hull: what the law draws
    points: np.ndarray
    leaves: np.ndarray  # the leaf of each point

    @property
    def leaf_nodes(self) -> np.ndarray:
        """Leaves that the plane meets."""
        return np.array([v for v in range(self.tree.n_nodes) if self.is_leaf(v) and len(self.cells[v])], dtype=int)

    def is_leaf(self, v: int) -> bool:
        return self.tree.children_left[v] < 0


def _project(tree: TreeView, v: int, dims: tuple[int, int], row: np.ndarray) -> tuple[np.ndarray, float]:
    """The cut of node v as a line in the plane: its normal (zero if the cut is parallel to the plane) and offset."""
    weights = np.zeros(len(row))
    weights[tree.cut_dims[v]] = tree.cut_normal[v]
    normal = weights[list(dims)]
    weights[list(dims)] = 0.0
    return normal, float(tree.cut_offset[v] - weights @ row)


def cut_plane(tree: TreeView, corners: np.ndarray, dims: tuple[int, int], row: np.ndarray) -> tuple[list, list]:
    """The cells and the lines of all nodes in a plane, from the root down."""
    nothing = np.empty((0, 2))
    cells = [nothing] * tree.n_nodes
    lines = [nothing] * tree.n_nodes
    cells[0] = rectangle(*corners)
    for v in range(tree.n_nodes):  # parents come first
        left, right = tree.children_left[v], tree.children_right[v]
        if left < 0 or not len(cells[v]):
            continue
        normal, offset = _project(tree, v, dims, row)
        if not normal.any():
            cells[left if offset >= 0 else right] = cells[v]
            continue
        lines[v] = cross(cells[v], normal, offset)
        cells[left] = clip(cells[v], normal, offset)
        cells[right] = clip(cells[v], -normal, -offset)
    return cells, lines


def see_tree(forest: BSPForest, m: int, dims: tuple[int, int], row: np.ndarray, corners: np.ndarray) -> Section:
    """Tree m of a forest in the plane of two features through ``row``."""
    tree = forest.trees_[m]
    cells, lines = cut_plane(tree, corners, dims, row)
    nothing = np.empty((0, 2))
    hulls, cuts = [nothing] * tree.n_nodes, [nothing] * tree.n_nodes
    if len(row) > 2:
        return Section(tree, corners, cells, lines, hulls, cuts, nothing, np.empty(0, dtype=int))
    rows = forest._forest.held_rows()
    held = forest._forest.trees.leaves_of_slots(m, np.flatnonzero(tree.node_of_leaf >= 0))
    points, leaves = rows[:, list(dims)], tree.node_of_leaf[held[forest._forest.rows.held_slots()]]
    for part in np.split(order := np.argsort(leaves), np.flatnonzero(np.diff(leaves[order])) + 1):
        hulls[leaves[part[0]]] = points[part]
    boxed = forest._forest.trees.arrays.family == AXES
    for v in range(tree.n_nodes - 1, -1, -1):  # children come first
        left, right = tree.children_left[v], tree.children_right[v]
        spanning = hulls[v] if left < 0 else np.concatenate([hulls[left], hulls[right]])
        hulls[v] = rectangle(spanning.min(axis=0), spanning.max(axis=0)) if boxed else find_hull(spanning)
        if left >= 0:
            cuts[v] = cross(hulls[v], *_project(tree, v, dims, row))
    return Section(tree, corners, cells, lines, hulls, cuts, points, leaves)
