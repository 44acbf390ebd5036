"""What a forest says at an earlier budget, against predictions and against sums over all rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dense import DenseTree, duals_of, share

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.explore.cells import find_alive
from bspforest.forest.budgets import answer_at, list_cut_times


def make(cuts: str, values: str, n_classes: int = 0, n: int = 60):
    rng = np.random.default_rng(3)
    X = rng.random((n, 2))
    number = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    parameters = {"cuts": cuts, "prediction": values, "scaling": "minmax", "random_state": 0}
    if not n_classes:
        return BSPForestRegressor(6, **parameters).partial_fit(X, number)
    y = np.digitize(number, np.quantile(number, np.arange(1, n_classes) / n_classes))
    return BSPForestClassifier(6, **parameters).partial_fit(X, y, classes=range(n_classes))


@pytest.mark.parametrize("cuts", ["pairs", "axes", "isotropic"])
@pytest.mark.parametrize("values", ["ridge", "mean"])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_at_an_infinite_time_it_is_what_the_forest_predicts(cuts, values, n_classes):
    forest = make(cuts, values, n_classes)
    X = np.random.default_rng(0).uniform(-0.2, 1.2, (50, 2))
    answers = answer_at(forest._forest, X, math.inf)
    if n_classes:
        np.testing.assert_allclose(answers.values, forest.predict_proba(X), rtol=1e-9, atol=1e-12)
        assert not len(answers.stds)
    else:
        mean, std = forest.predict(X, return_std=True)
        np.testing.assert_allclose(answers.values, mean, rtol=1e-9)
        np.testing.assert_allclose(answers.stds, std, rtol=1e-9)


@pytest.mark.parametrize("time", [0.3, 2.0, 9.0])
def test_joint_values_end_at_the_time(time):
    """Each row contributes its dual times F of the time at which it is separated, or of the time asked if that is earlier."""
    forest = make("pairs", "ridge")
    X, duals = forest.held_rows().X, duals_of(forest)
    trees = [DenseTree(forest.trees_[m], forest.trees_.held_leaves(m)) for m in range(6)]
    expected = [
        np.mean([
            sum(
                duals[j, 0] * share(min(tree.separation_time(i, j), time), forest.bandwidth_) for j in range(len(X))
            )
            for tree in trees
        ])
        for i in range(len(X))
    ]  # fmt: skip
    answers = answer_at(forest._forest, X, time)
    np.testing.assert_allclose(answers.values, np.array(expected) + forest._forest.prediction.mean[0], atol=1e-10)
    assert not np.allclose(answers.values, forest.predict(X), atol=1e-3)


@pytest.mark.parametrize("tree", [0, 4])
@pytest.mark.parametrize("cuts", ["pairs", "axes"])
def test_means_are_those_of_the_node_alive(cuts, tree):
    forest = make(cuts, "mean", n=150)
    time = float(np.median(list_cut_times(forest._forest)[tree]))
    view, held = forest.trees_[tree], forest.held_rows()
    nodes = find_alive(view, time)[forest.trees_.held_leaves(tree)]
    assert 1 < len(set(nodes)) < view.n_leaves
    answers = answer_at(forest._forest, held.X, time, tree)
    for node in set(nodes):
        inside = nodes == node
        assert answers.values[inside] == pytest.approx(held.y[inside].mean())
        assert answers.values[inside] == pytest.approx(view.value[node])
        assert answers.stds[inside] == pytest.approx(held.y[inside].std())


def test_before_the_first_cut_all_rows_answer():
    forest = make("pairs", "mean", 3)
    first = min(times[0] for times in list_cut_times(forest._forest))
    answers = answer_at(forest._forest, np.array([[0.1, 0.2], [0.9, 0.9]]), 0.99 * first)
    np.testing.assert_allclose(answers.values, [np.bincount(forest.held_rows().y) / 60] * 2)


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_cut_times_count_leaves(values):
    forest = make("pairs", values)
    for times, tree in zip(list_cut_times(forest._forest), forest.trees_, strict=True):
        assert len(times) + 1 == tree.n_leaves
        np.testing.assert_array_equal(times, np.sort(tree.time[tree.children_left >= 0]))
