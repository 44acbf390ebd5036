"""Test sparse input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.estimators import inputs

DENSE = sparse.random(200, 30, density=0.2, random_state=0).toarray()
Y = DENSE[:, 0] + DENSE[:, 1]


@pytest.mark.parametrize("convert", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_matrix])
def test_sparse_rows_are_as_dense_ones(convert):
    forest = BSPForestRegressor(5, random_state=0).fit(convert(DENSE), Y).partial_fit(convert(DENSE[:20]), Y[:20])
    dense = BSPForestRegressor(5, random_state=0).fit(DENSE, Y).partial_fit(DENSE[:20], Y[:20])
    np.testing.assert_array_equal(forest.predict(convert(DENSE)), dense.predict(DENSE))


def test_predictions_are_made_block_by_block(monkeypatch):
    X = sparse.csr_array(DENSE)
    forest = BSPForestRegressor(5, random_state=0).fit(X, Y)
    classifier = BSPForestClassifier(5, random_state=0).fit(X, Y > 0.5)

    def ask():
        mean, std = forest.predict(X, return_std=True)
        quantiles = forest.predict_quantiles(X)
        return mean, std, quantiles, forest.apply(X), classifier.predict_proba(X), classifier.predict(X)

    whole = ask()
    sizes = []
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 8 * 30 * 64)
    densify = inputs.densify
    monkeypatch.setattr(inputs, "densify", lambda estimator, X: sizes.append(X.shape[0]) or densify(estimator, X))
    for one, other in zip(whole, ask(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert max(sizes) == 64


def test_too_much_for_memory_is_refused_with_the_remedy():
    """Nothing is allocated: the matrix has three entries."""
    shape = (50_000_000, 60_000)
    X = sparse.coo_array((np.ones(3), (np.arange(3), np.arange(3))), shape=shape)
    message = r"X is sparse, and its 50,000,000 x 60,000 entries would take 24000.0 GB .*TruncatedSVD or SelectKBest"
    with pytest.raises(MemoryError, match=message):
        BSPForestRegressor(5).fit(X, np.zeros(shape[0]))


def test_gaps_and_infinity_in_sparse_rows():
    X = sparse.csr_array(DENSE)
    X.data[3] = np.nan
    forest = BSPForestRegressor(5, random_state=0).fit(X, Y)
    assert len(forest.encoded_feature_names_) == 31
    X.data[4] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        forest.partial_fit(X, Y)
