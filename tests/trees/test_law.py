"""Test that forests have the law they should, by whichever route their rows came (docs/design.md, sections 1 to 5).

Seeds are fixed, so these tests are deterministic; with 10,000 trees or more they have power. Errors introduced on purpose
made these tests fail:

- thinning dropped (the time of rejected candidates not counted): all root times; pairs in every route, for both families that
  thin; some shapes;
- a clipped box too small by a third: pairs in large sets, for both families (by a tenth: for axes);
- an unsure box taken for a yes: root times, pairs and shapes in every route but the batch;
- a pending cut kept although, after forgetting, it separates nothing: root times for "forget" and "window".
"""

from __future__ import annotations

import laws
import numpy as np
import pytest
from grids import grid
from scipy import stats

N_TREES = 10_000
BUDGETS = {1: 0.7, 2: 0.5, 3: 0.3, 6: 0.1}  # by the number of features


@grid(1, route=laws.ROUTES, d=[2, 3, 4, 5, 6])
def test_root_time_is_exponential(route, d):
    """The time of the root's cut is Exp(Λ), Λ half the perimeters of the hulls; a small budget leaves most cuts pending."""
    X = np.random.default_rng(d).random((12, d))
    forest = laws.grow(route, X, 2 * N_TREES, budget=0.3 / laws.root_rate(X), seed=100 + d, min_split=4)
    times = laws.root_times(forest)
    assert stats.kstest(times, "expon", args=(0, 1 / laws.root_rate(X))).pvalue > 1e-3


@grid(2, route=laws.ROUTES, cuts=laws.FAMILIES, d=list(BUDGETS))
def test_pair_probability(route, cuts, d):
    """Two points share a leaf with probability exp(-τ rate(x - r)), with min_samples_split=2 (Lemma 1)."""
    tau = BUDGETS[d]
    X = np.random.default_rng(10 * d).random((9, d))
    forest = laws.grow(route, X, N_TREES, budget=tau, seed=d, cuts=cuts)
    a, b = np.triu_indices(len(X), 1)
    seen = laws.together(forest, X)[a, b]
    expected = np.array([np.exp(-tau * laws.segment_rate(cuts, X[i] - X[j])) for i, j in zip(a, b, strict=True)])
    z = (seen - expected) / np.sqrt(expected * (1 - expected) / N_TREES)
    assert np.abs(z).max() < 4.5
    assert abs(z.mean()) < 3  # pairs are correlated: the mean is not much tighter than one of them


@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize("cuts", laws.FAMILIES)
def test_pair_probability_after_large_chunks(cuts, d):
    """The same with 40 points in chunks that are inserted together: larger than `bspforest.trees.kernels.insert_chunk.ONE_BY_ONE_UP_TO`."""
    tau = 0.6 / d
    X = np.random.default_rng(d).random((40, d))
    forest = laws.make(X, N_TREES, cuts=cuts, budget=tau, seed=d)
    for start, end in ((0, 6), (6, 25), (25, 40)):
        laws.learn(forest, X[start:end])
    a, b = np.triu_indices(len(X), 1)
    seen = laws.together(forest, X)[a, b]
    expected = np.array([np.exp(-tau * laws.segment_rate(cuts, X[i] - X[j])) for i, j in zip(a, b, strict=True)])
    z = (seen - expected) / np.sqrt(expected * (1 - expected) / N_TREES)
    assert np.abs(z).max() < 5  # of 780 pairs
    assert abs(z.mean()) < 3


@pytest.mark.parametrize("cuts", ["pairs", "axes"])
def test_pair_probability_in_large_sets(cuts):
    """The same for a batch cut in clipped boxes, which are loose here: see `bspforest.trees.kernels.build.CLIP_BOX_FROM`."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(300, 3)) ** 3
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]  # far from filling its box
    X -= X.min(axis=0)
    X /= X.max(axis=0)
    tau = 4.0
    forest = laws.make(X, N_TREES, cuts=cuts, budget=tau)
    laws.learn(forest, X)
    leaves = forest.trees.find_leaves(X)
    a, b = rng.integers(0, 300, (2, 2000))
    expected = np.array([np.exp(-tau * laws.segment_rate(cuts, X[i] - X[j])) for i, j in zip(a, b, strict=True)])
    kept = (expected > 0.02) & (expected < 0.98)
    a, b, expected = a[kept], b[kept], expected[kept]
    seen = (leaves[a] == leaves[b]).mean(axis=1)
    z = (seen - expected) / np.sqrt(expected * (1 - expected) / N_TREES)
    assert len(z) > 1000
    assert np.abs(z).max() < 5
    assert abs(z.mean()) < 3


@pytest.mark.parametrize("min_split", [2, 4])
@pytest.mark.parametrize("route", laws.ROUTES[1:])
def test_shape_does_not_depend_on_the_route(route, min_split):
    """Leaf count, depth, largest leaf and leaves of one point are distributed as in a batch."""
    X = np.random.default_rng(5).random((14, 3))
    X[9:] = X[9] + 0.02 * X[9:]  # a cluster
    batch = laws.shapes(laws.grow("batch", X, 4000, budget=1.0, seed=1, min_split=min_split))
    other = laws.shapes(laws.grow(route, X, 4000, budget=1.0, seed=2, min_split=min_split))
    for name in batch:
        values = np.union1d(batch[name], other[name])
        table = [[(shape[name] == v).sum() for v in values] for shape in (batch, other)]
        table = np.array(table)[:, np.sum(table, axis=0) >= 20]
        assert stats.chi2_contingency(table).pvalue > 1e-3, name


def test_shape_of_larger_trees_from_chunks():
    """With 400 rows and a growing budget, mean leaf count and depth agree with a batch."""
    X = np.random.default_rng(8).random((400, 4))

    def budget(n):
        return 2 * n ** (1 / 6)

    batch = laws.shapes(laws.learn(laws.make(X, 300, budget=budget, min_split=4, seed=1), X))
    forest = laws.make(X, 300, budget=budget, min_split=4, seed=2)
    for start in range(0, 400, 37):
        laws.learn(forest, X[start : start + 37])
    chunks = laws.shapes(forest)
    for name in batch:
        assert stats.ttest_ind(batch[name], chunks[name]).pvalue > 1e-3, name
