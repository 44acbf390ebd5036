"""Test the kernel of a forest: its law, its products, and ridge regression with it."""

from __future__ import annotations

import dense
import laws
import numpy as np
import pytest
from grids import grid
from scipy import integrate, special

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.forest import solver as kernel_matrix
from bspforest.forest.solver import KernelMatrix, solve_in_steps
from bspforest.forest.steps import finish

N_TREES = 10_000


def expected_kernel(s: np.ndarray) -> np.ndarray:
    """Return E K = 1 - s e^s E1(s), with s = θ rate(x - z)."""
    return 1.0 - s * np.exp(s) * special.exp1(s)


def variance_of_share(s: float) -> float:
    """Return the variance of F(T), T exponential, by quadrature."""
    square, _ = integrate.quad(lambda t: (t / (t + s)) ** 2 * np.exp(-t), 0, np.inf)
    return square - float(expected_kernel(np.array(s))) ** 2


def get_kernel(forest, bandwidth: float) -> np.ndarray:
    """Return the kernel of an engine's forest, by slot, as products with unit vectors."""
    matrix = KernelMatrix(forest.trees, forest.n_held, bandwidth)
    slots = forest.rows.held_slots()
    unit = np.zeros((forest.rows.n_slots, len(slots)))
    unit[slots, np.arange(len(slots))] = 1.0
    return matrix.multiply(unit)[slots]


@grid(2, route=["batch", "single", "chunks", "forget"], cuts=laws.FAMILIES, d=[2, 5])
def test_kernel_has_its_closed_form(route, cuts, d):
    """E K(x, z) = 1 - s e^s E1(s), s = θ rate(x - z), for trees grown to single points.

    Failed without thinning (the time of rejected candidates not counted).
    The last lines show that times off by a twentieth would be noticed.
    """
    bandwidth = {2: 1.5, 5: 0.6}[d]
    X = np.random.default_rng(30 + d).random((9, d))
    forest = laws.grow(route, X, N_TREES, budget=np.inf, seed=40 + d, cuts=cuts)
    held = forest.held_rows()
    a, b = np.triu_indices(len(X), 1)
    s = bandwidth * np.array([laws.segment_rate(cuts, held[i] - held[j]) for i, j in zip(a, b, strict=True)])
    spread = np.sqrt([variance_of_share(each) / N_TREES for each in s])

    def z_scores(theta):
        K = get_kernel(forest, theta)
        np.testing.assert_allclose(np.diag(K), 1.0, atol=1e-12)
        np.testing.assert_allclose(K, K.T, atol=1e-12)
        return (K[a, b] - expected_kernel(s)) / spread

    z = z_scores(bandwidth)
    assert np.abs(z).max() < 4
    assert abs(z.mean()) < 2.5  # pairs are correlated: the mean is not much tighter than one of them
    assert z_scores(bandwidth / 1.05).mean() > 2.5
    assert z_scores(bandwidth * 1.05).mean() < -2.5


@pytest.mark.parametrize("cuts", laws.FAMILIES)
def test_products_equal_a_dense_kernel(cuts):
    """Failed with the sum of the last block of trees left out of a product."""
    rng = np.random.default_rng(2)
    X = rng.random((35, 3))
    X[20:25] = X[:5]
    forest = BSPForestRegressor(20, prediction="ridge", cuts=cuts, bandwidth=3.0, ridge=1.0, random_state=0, budget=4.0)
    forest.partial_fit(X[:20], X[:20, 0]).partial_fit(X[20:], X[20:, 0])
    forest.forget([3, 21, 8])  # slots are no longer in order
    forest.partial_fit(rng.random((1, 3)), [0.5])
    K = dense.DenseForest(forest).kernel(2.0)
    np.testing.assert_allclose(get_kernel(forest._forest, 2.0), K, rtol=0, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_solution_with_rows_left_out():
    """Rows with an infinite diagonal take no part. A warm start leads to the same solution. Failed with such rows let in."""
    X = np.random.default_rng(3).random((30, 2))
    forest = BSPForestRegressor(9, prediction="ridge", bandwidth=3.0, ridge=1.0, random_state=0).fit(X, X[:, 0])._forest
    y = np.random.default_rng(4).normal(size=(30, 3)) * [1.0, 1e-9, 1e100]
    diagonal = np.where(np.arange(30) % 4 == 1, np.inf, 0.1 + np.arange(30))
    matrix = KernelMatrix(forest.trees, 30, 1.3)
    some = np.isfinite(diagonal)
    expected = np.zeros((30, 3))
    A = get_kernel(forest, 1.3)[np.ix_(some, some)] + np.diag(diagonal[some])
    for c in range(3):
        column = y[:, c : c + 1]
        expected[some, c] = np.linalg.solve(A, y[some, c])
        for start in (None, np.random.default_rng(5).normal(size=(30, 1))):
            found = finish(solve_in_steps(matrix, column, diagonal, start=start, tolerance=1e-13))[:, 0]
            np.testing.assert_allclose(found, expected[:, c], rtol=0, atol=1e-11 * np.abs(expected[:, c]).max() + 1e-14)


def learn_and_ask(forest, X, y, new, **classes):
    """Return everything that a forest predicts after a fit, a chunk, single rows, and forgetting."""
    forest.fit(X[:500], y[:500])
    out = [forest.predict(new)]
    forest.partial_fit(X[500:900], y[500:900], **classes)
    for k in range(900, 903):
        forest.partial_fit(X[k : k + 1], y[k : k + 1])
    out += [forest.predict(new), forest.predict(new[:1])]
    forest.forget(range(100, 150))
    out += [forest.predict_proba(new) if classes else forest.predict(new)]
    out += [dense.duals_of(forest), dense.residuals_of(forest), forest._forest.trees.arrays.sums[0, :50].copy()]
    return [*out, np.array([forest.bandwidth_, forest.ridge_, forest.validation_error_])]


@pytest.mark.parametrize(
    "kind", ["regression", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("two outputs", "3 classes"))]
)
def test_number_of_threads_changes_no_bit(kind):
    """500 rows and 26 trees are enough for threads to be started. Failed with one sum per thread instead of fixed blocks."""
    rng = np.random.default_rng(6)
    X, new = rng.random((903, 4)), rng.random((600, 4))
    y = X[:, 0] * np.sin(9 * X[:, 1]) + 0.1 * rng.normal(size=903)
    make, classes = BSPForestRegressor, {}
    if kind == "two outputs":
        y = np.stack([y, X[:, 2]], axis=1)
    elif kind == "3 classes":
        make, y = BSPForestClassifier, np.digitize(y, [0.0, 0.3])
        classes = {"classes": [0, 1, 2]}
    results = []
    for n_jobs in (1, 2, 3):
        forest = make(26, prediction="ridge", random_state=1, n_jobs=n_jobs)
        results.append(learn_and_ask(forest, X, y, new, **classes))
    for other in results[1:]:
        for expected, actual in zip(results[0], other, strict=True):
            assert np.array_equal(expected, actual)


def test_large_forests_look_their_nodes_up_again(monkeypatch):
    """The same duals, sums and predictions, in less memory. Failed with sums that are not set."""
    X = np.random.default_rng(0).random((300, 3))
    y = X[:, 0] + np.arange(300) % 2
    known = BSPForestRegressor(20, random_state=0).fit(X, y)
    monkeypatch.setattr(kernel_matrix, "MAX_KNOWN", 10 * 300)
    forest = BSPForestRegressor(20, random_state=0).fit(X, y)
    np.testing.assert_array_equal(forest.predict(X), known.predict(X))
    arrays, others = forest._forest.trees.arrays, known._forest.trees.arrays
    for m, n in enumerate(arrays.state["n_cuts"]):
        np.testing.assert_array_equal(arrays.sums[m, :n], others.sums[m, :n])
