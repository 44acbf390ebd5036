"""Answers of a forest by brute force, from its trees and the rows stored: leaf means, votes, kernel ridge regression."""

from __future__ import annotations

import dense
import numpy as np
from agreement import find_columns

from bspforest.estimators.encoding import EncodedRows
from bspforest.forest.calibration import expand


def make_queries(forest, n: int, seed: int) -> np.ndarray:
    """Return rows to be predicted, as the forest encodes them: between, beside and beyond those stored."""
    X, rng = forest.held_rows().X, np.random.default_rng(seed)
    mixed = X[rng.integers(len(X), size=(n, X.shape[1])), np.arange(X.shape[1])]
    return mixed + 0.2 * rng.normal(size=mixed.shape) * np.ptp(X, axis=0)


def check_answers(forest, n: int, *, ridge: bool, is_solved: bool) -> None:
    """Check leaves and predictions of n rows. ``is_solved``: duals are those of ridge regression for the rows stored."""
    X = make_queries(forest, n, forest.n_samples_seen_)
    leaves = forest.apply(EncodedRows(X))
    oracle = dense.DenseForest(forest)
    members, clear = [], np.ones(n, bool)  # per row: per tree, the rows stored in its leaf
    for row, x in enumerate(oracle.trees[0].view.place(X)):
        walks = [tree.walk(x, oracle.X) for tree in oracle.trees]
        clear[row] = min(far for _, far in walks) > 1e-6  # else rounding may decide
        if clear[row]:
            assert leaves[row].tolist() == [path[-1] for path, _ in walks], "apply returns other leaves"
        members.append([tree.members[path[-1]] for tree, (path, _) in zip(oracle.trees, walks, strict=True)])
    if ridge:
        _check_ridge(forest, oracle, X, is_solved=is_solved)
    elif hasattr(forest, "classes_"):
        _check_shares(forest, X, members, clear)
    else:
        _check_means(forest, X, members, clear)


def _check_ridge(forest, oracle: dense.DenseForest, X: np.ndarray, *, is_solved: bool) -> None:
    inner = forest._forest
    columns, duals, mean = find_columns(forest), dense.duals_of(forest), inner.prediction.mean
    scale = 1.0 + np.abs(columns).max()
    if is_solved and oracle.w.any():
        expected_mean, expected = oracle.solve(columns, forest.bandwidth_, forest.ridge_)
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-9, atol=1e-9 * scale)
        size = scale * (1.0 + oracle.w.max() / forest.ridge_)  # of duals, at most
        np.testing.assert_allclose(duals, expected, rtol=0, atol=1e-7 * size, err_msg="duals of other rows or trees")
    scores = oracle.predict(X, mean, duals, forest.bandwidth_)
    atol = 1e-8 * (scale + np.abs(duals).sum())
    sure = np.isfinite(scores).all(axis=1)
    if not hasattr(forest, "classes_"):
        predicted = np.reshape(forest.predict(EncodedRows(X)), scores.shape)
        np.testing.assert_allclose(predicted[sure], scores[sure], rtol=0, atol=atol)
        return
    found = inner.prediction.predict(inner, X)
    np.testing.assert_allclose(found[sure], scores[sure], rtol=0, atol=atol)
    proba = forest.predict_proba(EncodedRows(X))
    expected = inner.prediction.calibration.apply(found, forest.n_classes_)
    np.testing.assert_allclose(proba, expected, rtol=1e-9, atol=1e-12)
    best = expand(found, forest.n_classes_)
    at = np.searchsorted(forest.classes_, forest.predict(EncodedRows(X)))
    assert (best[np.arange(len(X)), at] >= best.max(axis=1) - 1e-9).all()


def _check_shares(forest, X: np.ndarray, members: list, clear: np.ndarray) -> None:
    """Check class frequencies in leaves; leaves without weight are left out."""
    held = forest.held_rows()
    one_hot = held.sample_weight[:, None] * (held.y[:, None] == forest.classes_)
    found = forest.predict_proba(EncodedRows(X))
    for row in np.flatnonzero(clear):
        sums = [one_hot[some].sum(axis=0) for some in members[row]]
        shares = [some / some.sum() for some in sums if some.any()]
        total = one_hot.sum(axis=0)
        overall = total / total.sum() if total.any() else np.full(len(total), 1 / len(total))
        np.testing.assert_allclose(found[row], np.mean(shares, axis=0) if shares else overall, atol=1e-9)
    np.testing.assert_array_equal(forest.predict(EncodedRows(X)), forest.classes_[found.argmax(axis=1)])


def _check_means(forest, X: np.ndarray, members: list, clear: np.ndarray) -> None:
    """Check means, standard deviations and quantiles of the labels in leaves; leaves without weight are left out."""
    held, q = forest.held_rows(), np.array([0.0, 0.3, 0.5, 0.95])
    y, w = held.y, held.sample_weight
    mean, std = forest.predict(EncodedRows(X), return_std=True)
    quantiles = forest.predict_quantiles(EncodedRows(X), q)
    atol = 1e-8 * (1.0 + np.abs(y).max())
    for row in np.flatnonzero(clear):
        leaves = [some for some in members[row] if w[some].any()] or [np.arange(len(y))]
        if not w.any():
            assert mean[row] == 0.0 and np.isnan(std[row]) and np.isnan(quantiles[row]).all()
            continue
        means = np.array([np.average(y[some], weights=w[some]) for some in leaves])
        variances = [np.average((y[some] - m) ** 2, weights=w[some]) for some, m in zip(leaves, means, strict=True)]
        np.testing.assert_allclose(mean[row], means.mean(), rtol=0, atol=atol)
        variance = np.mean(variances) + np.var(means)
        np.testing.assert_allclose(std[row] ** 2, variance, rtol=0, atol=atol * (1.0 + np.abs(y).max()))
        shares = np.zeros(len(y))
        for some in leaves:
            shares[some] += w[some] / w[some].sum() / len(leaves)
        for share, value in zip(q, quantiles[row], strict=True):
            assert value in y[shares > 0]
            assert shares[y < value].sum() <= share + 1e-9 and shares[y <= value].sum() >= share - 1e-9
