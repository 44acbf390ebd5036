"""Trees of a fitted forest as plain arrays, in the style of scikit-learn's ``tree_``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..trees.layout import ISOTROPIC, NORMAL, NOTHING, PAIRS, ForestArrays
from .forest import OnlineForest


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _sum_labels(forest: OnlineForest, m: int, leaves: np.ndarray) -> np.ndarray:
    """Return the class weights of some leaves of tree m or, in regression, their sums of weights and of weighted labels."""
    slots, starts = forest.trees.list_points(np.full_like(leaves, m), leaves)
    y, w, n, k = forest.y[slots, 0], forest.weights[slots], len(leaves), forest.config.n_classes
    found = np.repeat(np.arange(n), np.diff(starts))
    if not k:
        return np.stack([np.bincount(found, w, n), np.bincount(found, w * y, n)], axis=1)
    return np.bincount(found * k + y.astype(np.int64), w, n * k).reshape(n, k)


class TreeView:
    """A tree, as it was when the view was taken. All arrays are read-only, with one entry per node; node 0 is the root.

    A row ``x`` lies left of the cut of node ``v`` if ``x[cut_dims[v]] @ cut_normal[v] <= cut_offset[v]``, in the units of the
    features. Where features are scaled by their ranks (``uses_ranks``), cuts are in ranks: take ``place(X)`` instead of ``X``.

    Parameters
    ----------
    forest : OnlineForest
        The engine's forest. Estimators make views: ``forest.trees_[0]``.
    m : int
        Which tree.

    Attributes
    ----------
    children_left, children_right, parent : ndarray of int
        -1 where there is none.
    cut_dims : ndarray of shape (n_nodes, k)
        The features the cut uses: k is 2 for pairs, 1 for axes, the number of features for isotropic cuts. -1 for leaves.
    cut_normal : ndarray of shape (n_nodes, k)
    cut_offset : ndarray of shape (n_nodes,)
        NaN for leaves.
    time : ndarray of shape (n_nodes,)
        The time of the node's cut. For a leaf, of its next cut: later than the budget, infinite if it has none.
    n_points : ndarray of int
    value : ndarray
        Regression: the weighted mean label. Classification: the weight of each class, of shape (n_nodes, n_classes).
    n_nodes, n_leaves, max_depth : int
    uses_ranks : bool
    """

    def __init__(self, forest: OnlineForest, m: int) -> None:
        arrays = forest.trees.arrays
        nodes, parents, depths = forest.trees.number_nodes(m)
        cuts = arrays.cuts[m]
        held = np.maximum(nodes, 0)
        pending = (nodes >= 0) & (cuts["right"][held] == NOTHING)
        is_cut = (nodes >= 0) & ~pending
        leaf = np.where(pending, ~cuts["left"][held].astype(np.int64), ~nodes)
        self.n_nodes = len(nodes)
        self.n_leaves = int((~is_cut).sum())
        self.max_depth = int(depths.max(initial=0))
        self.parent = _read_only(parents)
        self.children_left = np.full(len(nodes), -1)
        self.children_right = np.full(len(nodes), -1)
        children = np.arange(1, len(nodes))
        self.children_left[parents[1::2]] = children[::2]
        self.children_right[parents[2::2]] = children[1::2]
        _read_only(self.children_left)
        _read_only(self.children_right)
        self.time = _read_only(np.where(nodes >= 0, cuts["time"][held], np.inf))
        self._coordinates = forest.trees.coordinates
        self.uses_ranks = self._coordinates.uses_ranks
        self._set_cuts(arrays, m, held, is_cut)
        leaf = np.where(is_cut, 0, leaf)
        n_points = np.where(is_cut, 0, arrays.leaves[m]["n_points"][leaf])
        values = np.zeros((len(nodes), forest.config.n_classes or 2))
        values[~is_cut] = _sum_labels(forest, m, leaf[~is_cut])
        for v in range(self.max_depth, 0, -1):  # level by level, upwards
            level = np.flatnonzero(depths == v)
            np.add.at(n_points, parents[level], n_points[level])
            np.add.at(values, parents[level], values[level])
        self.n_points = _read_only(n_points)
        if not forest.config.n_classes:
            with np.errstate(invalid="ignore"):
                values = values[:, 1] / values[:, 0]  # the sum of labels over that of weights
        self.value = _read_only(values)
        self._leaf = leaf

    def _set_cuts(self, arrays: ForestArrays, m: int, held: np.ndarray, is_cut: np.ndarray) -> None:
        """Convert the cuts of the records ``held`` to the units of the features; -1 and NaN where ``is_cut`` is false."""
        cuts = arrays.cuts[m][held]
        cuts[~is_cut] = np.zeros(1, cuts.dtype)  # a record that was never used may contain anything
        shift, scale = arrays.scaling
        d = len(shift)
        if arrays.family == ISOTROPIC:
            dims = np.tile(np.arange(d), (len(held), 1))
            normal = arrays.boxes[m][held, NORMAL].astype(np.float64)
        elif arrays.family == PAIRS and d > 1:
            dims = np.stack([cuts["i"], cuts["j"]], axis=1).astype(np.int64)
            normal = np.stack([cuts["a"], cuts["b"]], axis=1)
        else:
            dims = cuts["i"].astype(np.int64)[:, None]
            normal = cuts["a"][:, None]
        dims[~is_cut] = 0
        normal = np.where(is_cut[:, None], normal, 0.0)
        normal = normal * scale[dims]
        offset = cuts["p"] + np.sum(normal * shift[dims], axis=1)
        dims[~is_cut] = -1
        normal[~is_cut] = np.nan
        offset[~is_cut] = np.nan
        self.cut_dims = _read_only(dims)
        self.cut_normal = _read_only(normal)
        self.cut_offset = _read_only(offset)

    @cached_property
    def node_of_leaf(self) -> np.ndarray:
        """The node of each leaf as the kernels number them; -1 for free ones."""
        leaves = np.flatnonzero(self.children_left < 0)
        table = np.full(int(self._leaf.max(initial=-1)) + 1, -1)
        table[self._leaf[leaves]] = leaves
        return _read_only(table)

    def place(self, X: np.ndarray) -> np.ndarray:
        """Return rows as cuts read them: as they are, or the ranks of their features.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d)
        """
        return self._coordinates.place(np.asarray(X, float))

    def leaves_of(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf of each row of ``X`` by the sides of the cuts alone.

        For a row held this is the leaf that holds it, up to rounding, because the forest works with scaled features. For other
        rows it may differ from the leaf that predicts, which reads a row at its nearest place in the box of each node.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of int, of shape (n,)
            Nodes.
        """
        X = self.place(X)
        at = np.zeros(len(X), dtype=np.int64)
        for _ in range(self.max_depth):
            moving = np.flatnonzero(self.children_left[at] >= 0)
            v = at[moving]
            place = np.sum(X[moving[:, None], self.cut_dims[v]] * self.cut_normal[v], axis=1)
            at[moving] = np.where(place <= self.cut_offset[v], self.children_left[v], self.children_right[v])
        return at

    def __repr__(self) -> str:
        return f"TreeView(n_nodes={self.n_nodes}, n_leaves={self.n_leaves}, max_depth={self.max_depth})"


class TreeViews(Sequence):
    """The trees of a forest, as a sequence; a view is made at each access.

    Parameters
    ----------
    owner : BSPForestRegressor or BSPForestClassifier

    Examples
    --------
    >>> from bspforest import BSPForestRegressor
    >>> forest = BSPForestRegressor(3, min_samples_split=2, random_state=0).fit([[0.0], [1.0], [2.0]], [5, 6, 7])
    >>> len(forest.trees_), forest.trees_[0].n_leaves
    (3, 3)
    >>> forest.trees_[0].value[0].item()
    6.0
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __len__(self) -> int:
        return self._owner._forest.trees.n_trees

    def __getitem__(self, m):
        if isinstance(m, slice):
            return [self[k] for k in range(*m.indices(len(self)))]
        if not -len(self) <= m < len(self):
            raise IndexError(f"tree {m} of a forest of {len(self)} trees")
        return self._owner._read(lambda: TreeView(self._owner._forest, m % len(self)))

    def held_leaves(self, m: int) -> np.ndarray:
        """Return the node of tree m that holds each row held, oldest first.

        Parameters
        ----------
        m : int

        Returns
        -------
        ndarray of int
        """

        def find() -> np.ndarray:
            forest, nodes = self._owner._forest, self[m].node_of_leaf
            leaves = np.flatnonzero(nodes >= 0)
            slots, starts = forest.trees.list_points(np.full_like(leaves, m % len(self)), leaves)
            found = np.empty(len(forest.y), nodes.dtype)
            found[slots] = np.repeat(nodes[leaves], np.diff(starts))
            return found[forest.rows.held_slots()]

        return self._owner._read(find)

    def __repr__(self) -> str:
        return f"<{len(self)} trees>"
