"""Check that rows, trees and predictions of a fitted forest agree, by its public attributes alone."""

from __future__ import annotations

import dense
import numpy as np

from bspforest.estimators.encoding import EncodedRows


def check_trees(forest) -> None:
    """Check that each tree holds the rows held, each in the leaf that the cuts lead to, and that `apply` says so."""
    held = forest.held_rows()
    n = len(held.ids)
    assert forest.n_samples_ == n <= forest.n_samples_seen_
    assert (np.diff(held.ids) > 0).all() and (n == 0 or held.ids[-1] < forest.n_samples_seen_)
    assert len(held.X) == len(held.y) == len(held.sample_weight) == len(forest.held_keys()) == n
    views = forest.trees_
    for m in range(len(views)):
        check_tree(views[m], views.held_leaves(m), held)


def check_tree(view, leaves: np.ndarray, held) -> None:
    """Check one tree, given the leaf of each row held."""
    n = len(held.ids)
    is_leaf = view.children_left < 0
    assert len(leaves) == n
    if not n:
        return
    assert view.n_points[0] == n and (view.n_points >= 1).all()
    counts = np.bincount(leaves, minlength=view.n_nodes)
    np.testing.assert_array_equal(counts[is_leaf], view.n_points[is_leaf], err_msg="leaves partition the rows")
    assert not counts[~is_leaf].any()
    cut = np.flatnonzero(~is_leaf)
    children = view.children_left[cut], view.children_right[cut]
    np.testing.assert_array_equal(view.n_points[cut], view.n_points[children[0]] + view.n_points[children[1]])
    assert all((view.time[cut] <= view.time[child]).all() for child in children), "times increase downwards"
    found = view.leaves_of(held.X)
    for row in np.flatnonzero(found != leaves):  # rounding may decide only where a row lies on a cut
        assert is_on_cut(view, int(found[row]), int(leaves[row]), held.X[row]), "a row is not in its leaf"


def is_on_cut(view, one: int, other: int, x: np.ndarray) -> bool:
    """Return whether a row lies on the cut that separates two leaves, up to rounding."""
    above = {one}
    while one != 0:
        one = int(view.parent[one])
        above.add(one)
    while other not in above:
        other = int(view.parent[other])
    place = view.place(x[None])[0]
    terms = place[view.cut_dims[other]] * view.cut_normal[other]
    return abs(terms.sum() - view.cut_offset[other]) <= 1e-6 * (1.0 + np.abs(terms).sum())


def check_apply(forest, X=None) -> None:
    """Check that `apply` returns the leaf that holds each row held. ``X``: these rows in the terms of the user, if not as encoded."""
    held = forest.held_rows()
    if not len(held.ids):
        return
    leaves = forest.apply(EncodedRows(held.X) if X is None else X)
    views = forest.trees_
    assert leaves.shape == (len(held.ids), len(views))
    for m in range(len(views)):
        own = views.held_leaves(m)
        for row in np.flatnonzero(leaves[:, m] != own):
            assert is_on_cut(views[m], int(leaves[row, m]), int(own[row]), held.X[row]), "apply and trees_ disagree"


def find_columns(forest) -> np.ndarray:
    """Return the label columns of the rows held, as `dense` takes them."""
    y = forest.held_rows().y
    if not hasattr(forest, "classes_"):
        return dense.columns_of(y)
    n_classes = len(forest.classes_)
    codes = np.searchsorted(forest.classes_, y)
    return dense.columns_of(codes, n_classes) if n_classes > 1 else np.ones((len(y), 1))


def solve_densely(forest, X: np.ndarray) -> np.ndarray:
    """Return what kernel ridge regression in the trees of the forest predicts, solved by brute force."""
    oracle = dense.DenseForest(forest)
    mean, duals = oracle.solve(find_columns(forest), forest.bandwidth, forest.ridge)
    return oracle.predict(X, mean, duals, forest.bandwidth)


def measure_gap(forest, X: np.ndarray) -> float:
    """Return the RMSE between the predictions of a regressor and those of `solve_densely`, relative to the labels' spread."""
    expected = solve_densely(forest, X)[:, 0]
    sure = np.isfinite(expected)
    assert sure.mean() > 0.8
    predicted = forest.predict(X)
    assert np.isfinite(predicted).all()
    return float(np.sqrt(np.mean((predicted - expected)[sure] ** 2)) / np.std(forest.held_rows().y))
