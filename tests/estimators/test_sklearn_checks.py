"""scikit-learn's own checks, all of them."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from bspforest import BSPForestClassifier, BSPForestRegressor

# As for scikit-learn's own random forests: a row of weight 2 and two equal rows give different trees, because rows, not
# weights, count in min_samples_split and in the budget, and because the random numbers fall differently. With joint values, the rows
# that are held out to choose bandwidth and ridge differ as well.
_WEIGHTS = "weights count in the labels only: rows shape the partition, so repeating a row is not weighting it"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
}


@parametrize_with_checks(
    [
        BSPForestClassifier(10),
        BSPForestRegressor(10),
        BSPForestClassifier(10, prediction="mean"),
        BSPForestRegressor(10, prediction="mean"),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_sklearn(estimator, check):
    check(estimator)
