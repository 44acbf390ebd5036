"""Warnings about what a forest has decided: they come once, with what to do, and not where features are of use."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import sklearn.datasets as sets

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.forest.advice import TuningWarning, find_advice

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 6))
NOISE = rng.normal(size=600)


def catch(call) -> list[str]:
    """Return what is warned of in a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert all(w.filename == __file__ for w in found), "they point at the line of the user"
    return [str(w.message) for w in found if issubclass(w.category, TuningWarning)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [400, 600])  # with 200, one of three seeds of noise is not warned of
def test_noise(n, seed):
    assert len(said := catch(lambda: BSPForestRegressor(20, random_state=seed).fit(X[:n], NOISE[:n]))) == 1
    assert said[0].startswith("BSPForestRegressor: Predictions are hardly better than the mean label: they explain ")
    labels = np.random.default_rng(seed).integers(0, 3, n)
    assert len(catch(lambda: BSPForestClassifier(20, random_state=seed).fit(X[:n], labels))) == 1


USEFUL = {
    "diabetes": lambda: sets.load_diabetes(return_X_y=True),
    "iris": lambda: sets.load_iris(return_X_y=True),
    "wine": lambda: sets.load_wine(return_X_y=True),
    "breast cancer": lambda: sets.load_breast_cancer(return_X_y=True),
    "friedman": lambda: sets.make_friedman1(300, random_state=0),
    "one of six": lambda: (X, np.sin(3 * X[:, 0]) + NOISE),
    "constant": lambda: (X, np.ones(600)),
}


@pytest.mark.parametrize("name", USEFUL)
def test_features_that_are_of_use(name):
    data, labels = USEFUL[name]()
    kind = BSPForestRegressor if labels.dtype.kind == "f" else BSPForestClassifier
    for seed in range(2):
        assert catch(lambda: kind(20, random_state=seed).fit(data, labels)) == []  # noqa: B023


def test_once_per_stream():
    """Not with few rows, then once, also in a copy; again by another `fit`."""
    forest = BSPForestRegressor(5, random_state=0)
    assert catch(lambda: forest.partial_fit(X[:60], NOISE[:60])) == []

    def learn(forest, first: int, last: int) -> None:
        for k in range(first, last, 5):
            forest.partial_fit(X[k : k + 5], NOISE[k : k + 5])

    assert len(catch(lambda: learn(forest, 60, 400))) == 1
    n = len(forest.revisions_)
    again = pickle.loads(pickle.dumps(forest))
    assert catch(lambda: (learn(forest, 400, 600), learn(again, 400, 600))) == [] and len(again.revisions_) > n
    assert len(catch(lambda: forest.fit(X, NOISE))) == 1
    assert catch(lambda: forest.fit(X, X[:, 0])) == []


def test_weights_that_were_rejected():
    """Few features matter, and their weights are not in use."""
    forest = BSPForestRegressor(20, random_state=0).fit(X, np.sin(3 * X[:, 0]) + NOISE)
    revision = forest.revisions_[-1]
    assert revision.feature_weights == "accepted" and find_advice(revision) is None
    assert revision.n_important_features < 2
    rejected = revision._replace(feature_weights="rejected", n_effective_features=6.0)
    assert "about 2 of 6 features have most of the importance: leave out features that do not matter" in find_advice(
        rejected
    )
    assert find_advice(rejected._replace(n_important_features=2.5)) is None
    assert find_advice(rejected._replace(n_important_features=np.nan)) is None


def test_weights_that_were_rejected_in_a_fit(monkeypatch):
    """The estimator warns of it."""

    def never(*trials):
        yield 0.0
        return False

    monkeypatch.setattr("bspforest.forest.tuning._Trial.beats", never)
    said = catch(lambda: BSPForestRegressor(20, random_state=0).fit(X, np.sin(3 * X[:, 0]) + NOISE))
    assert len(said) == 1 and said[0].startswith("BSPForestRegressor: Weights of features did not clearly lower")


def test_river():
    """Once, by `learn_one`."""
    pytest.importorskip("river")
    from bspforest.river import BSPForestRegressor as RiverForest

    model = RiverForest(5, seed=0)

    def learn() -> None:
        for row, label in zip(X[:300].tolist(), NOISE[:300].tolist(), strict=True):
            model.learn_one(dict(enumerate(row)), label)

    assert len(catch(learn)) == 1
