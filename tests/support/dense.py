"""Joint values by brute force, pair by pair of rows, from `trees_` and the rows held alone (docs/design.md, section 7)."""

from __future__ import annotations

import math

import numpy as np


def share(time: float, bandwidth: float) -> float:
    """Return F(time)."""
    return 1.0 if math.isinf(time) else time / (time + bandwidth)


def columns_of(y: np.ndarray, n_classes: int = 0) -> np.ndarray:
    """Return label columns: those of a regression, or of classes numbered from 0."""
    if n_classes > 2:
        return np.array([[float(label == k) for k in range(n_classes)] for label in y])
    return np.array(y, float).reshape(len(y), -1)


def duals_of(forest) -> np.ndarray:
    """Return the duals of the rows held, oldest first."""
    return forest._forest.duals[forest._forest.rows.held_slots()].copy()


def residuals_of(forest) -> np.ndarray:
    """Return the honest residuals of the rows held, oldest first."""
    return forest._forest.residuals[forest._forest.rows.held_slots()].copy()


class DenseTree:
    """A tree as paths: for each row held, the nodes that contain it, from the root."""

    def __init__(self, view, leaves: np.ndarray) -> None:
        self.view = view
        self.paths = [self._path_to(leaf) for leaf in leaves.tolist()]
        self.members: dict[int, list[int]] = {}
        for row, path in enumerate(self.paths):
            for v in path:
                self.members.setdefault(v, []).append(row)

    def _path_to(self, leaf: int) -> list[int]:
        path = [leaf]
        while path[0] != 0:
            path.insert(0, int(self.view.parent[path[0]]))
        return path

    def time(self, v: int) -> float:
        """Return the time at which the rows of node v separate; infinite for a leaf."""
        return float(self.view.time[v]) if self.view.children_left[v] >= 0 else math.inf

    def separation_time(self, i: int, j: int) -> float:
        """Return the time at which two rows held are separated; infinite if they share a leaf."""
        last = 0
        for v, other in zip(self.paths[i], self.paths[j], strict=False):
            if v != other:
                break
            last = v
        return self.time(last)

    def walk(self, x: np.ndarray, X: np.ndarray) -> tuple[list[int], float]:
        """Return the path of any row, read at its nearest place in the box of each node, and how clear its choices were.

        The rows held are ``X``. The second result is the smallest distance from a cut, in scaled coordinates.
        """
        path, clear = [0], math.inf
        while self.view.children_left[v := path[-1]] >= 0:
            inside = X[self.members[v]]
            place = np.clip(x, inside.min(axis=0), inside.max(axis=0))
            beyond = place[self.view.cut_dims[v]] @ self.view.cut_normal[v] - self.view.cut_offset[v]
            clear = min(clear, abs(beyond))
            path.append(int(self.view.children_right[v] if beyond > 0 else self.view.children_left[v]))
        return path, clear


class DenseForest:
    """The rows held by a fitted forest and its trees, as they are now.

    Parameters
    ----------
    forest : BSPForestRegressor or BSPForestClassifier
    n_trees : int or None
        Use only so many of the trees.
    """

    def __init__(self, forest, n_trees: int | None = None) -> None:
        held = forest.held_rows()
        views = forest.trees_
        self.ids, self.X = held.ids, views[0].place(held.X)
        self.w = held.sample_weight / getattr(forest._forest.prediction, "unit", 1.0)  # weights are relative
        self.trees = [DenseTree(views[m], views.held_leaves(m)) for m in range(len(views))[:n_trees]]

    def kernel(self, bandwidth: float) -> np.ndarray:
        """Return K(x, z) for all pairs of rows held."""
        n = len(self.X)
        K = np.zeros((n, n))
        for tree in self.trees:
            for i in range(n):
                for j in range(i + 1):
                    K[i, j] += share(tree.separation_time(i, j), bandwidth)
        K += np.tril(K, -1).T
        return K / len(self.trees)

    def solve(self, y: np.ndarray, bandwidth: float, ridge: float, w=None) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean label and the duals; ``y`` has a row of label columns per row held."""
        w = self.w if w is None else w
        mean = w @ y / w.sum()
        duals = np.zeros(y.shape)
        some = np.flatnonzero(w > 0)
        A = self.kernel(bandwidth)[np.ix_(some, some)] + np.diag(ridge / w[some])
        duals[some] = np.linalg.solve(A, y[some] - mean)
        return mean, duals

    def predict(self, X: np.ndarray, mean: np.ndarray, duals: np.ndarray, bandwidth: float) -> np.ndarray:
        """Return the predictions for rows; NaN for a row so close to a cut that rounding may decide its side."""
        out = np.zeros((len(X), duals.shape[1]))
        for tree in self.trees:
            for s, x in enumerate(tree.view.place(X)):
                path, clear = tree.walk(x, self.X)
                before = 0.0
                for v in path:
                    reached = share(tree.time(v), bandwidth)
                    out[s] += (reached - before) * duals[tree.members[v]].sum(axis=0)
                    before = reached
                if clear < 1e-6:
                    out[s] = np.nan
        return mean + out / len(self.trees)


def check_predictions(actual: np.ndarray, expected: np.ndarray, atol: float = 1e-8) -> None:
    """Check predictions against those of `DenseForest.predict`."""
    sure = np.isfinite(expected).all(axis=1)
    assert sure.mean() > 0.9, "hardly any row is that close to a cut"
    np.testing.assert_allclose(np.reshape(actual, expected.shape)[sure], expected[sure], rtol=0, atol=atol)
