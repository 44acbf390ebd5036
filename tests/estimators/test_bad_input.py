"""Bad input: an error that says what is wrong, and a forest that is as it was. Strange but legal input: no error."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from invariants import check

from bspforest import BSPForestClassifier, BSPForestRegressor, load

rng = np.random.default_rng(0)
X = rng.random((60, 3))
y = rng.random(60)


def regressor(**kw):
    return BSPForestRegressor(**{"n_estimators": 8, "random_state": 0, **kw})


def with_value(value, row=4, column=1):
    bad = X.copy()
    bad[row, column] = value
    return bad


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda f: f.partial_fit(with_value(-np.inf), y),
            "infinity in column 1, row 4; finite numbers, or NaN where one",
        ),
        (lambda f: f.partial_fit(with_value(np.inf), y), "infinity in column 1, row 4"),
        (lambda f: f.predict(with_value(-np.inf)), "infinity in column 1"),
        (lambda f: f.partial_fit(X[:, :2], y), "2 features, but BSPForestRegressor is expecting 3"),
        (lambda f: f.predict(X[:, :2]), "2 features"),
        (lambda f: f.partial_fit(X, y[:-1]), "inconsistent numbers of samples"),
        (lambda f: f.partial_fit(X, np.where(y > 0.5, np.nan, y)), "Input y contains NaN in row"),
        (lambda f: f.partial_fit(X, y, sample_weight=-np.ones(60)), "sample_weight must not be negative"),
        (lambda f: f.partial_fit(X, y, sample_weight=np.zeros(60)), "sample_weight is zero for every row"),
        (lambda f: f.partial_fit(X, y, sample_weight=0), "sample_weight is zero for every row"),
        (lambda f: f.partial_fit(X, y, sample_weight=[]), "Found array with 0 sample|sample_weight.shape"),
        (
            lambda f: f.partial_fit(X, y, sample_weight=np.where(np.arange(60) == 7, 1e101, 1.0)),
            r"sample_weight in row 7 is 1e\+101, but numbers of at most 1e\+100 in absolute value are .*: rescale it",
        ),
        (lambda f: f.partial_fit(X, np.where(np.arange(60) == 3, -1e101, y)), r"y in row 3 is -1e\+101, but numbers"),
        (lambda f: f.partial_fit(X[3:4], [1e300]), r"y in row 0 is 1e\+300, but numbers"),
        (lambda f: f.partial_fit(with_value(1.01e100), y), r"column 1 in row 4 is 1.01e\+100, but numbers of at most"),
        (lambda f: f.partial_fit(with_value(-1e308)[4:5], y[:1]), r"column 1 in row 0 is -1e\+308, but numbers"),
        (lambda f: f.predict(with_value(1e150)), r"column 1 in row 4 is 1e\+150, but numbers of at most"),
        (  # among missing numbers
            lambda f: f.partial_fit(np.where(with_value(1e150) < 0.1, np.nan, with_value(1e150)), y),
            r"column 1 in row 4 is 1e\+150, but numbers of at most",
        ),
        (lambda f: f.partial_fit(pd.DataFrame(with_value(1e150)).convert_dtypes(), y), r"column 1 in row 4 is 1e\+150"),
        (lambda f: f.partial_fit(X, None), "y cannot be None|requires y"),
        (lambda f: f.forget([60]), "unknown id 60: rows seen so far have ids 0 to 59"),
        (lambda f: f.forget(-1), "unknown id -1"),
        (lambda f: f.forget([2**63]), f"unknown id {2**63}"),
        (lambda f: f.forget([3, 3]), "id 3 is given more than once"),
        (lambda f: f.forget([1.5]), "ids must be whole numbers"),
        (lambda f: f.predict_quantiles(X, [1.5]), r"quantiles must be numbers in \[0, 1\]"),
        (lambda f: f.predict_quantiles(X, "a"), r"quantiles must be numbers in \[0, 1\], got 'a'"),
        (lambda f: f.predict(X[:0]), "minimum of 1 is required"),
    ],
)
def test_errors_leave_the_forest_alone(call, message):
    forest = regressor().fit(X, y)
    before = forest.apply(X)
    with pytest.raises(ValueError, match=message):
        call(forest)
    np.testing.assert_array_equal(forest.apply(X), before)
    assert forest.n_samples_seen_ == 60


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_estimators": 0}, "n_estimators"),
        ({"cuts": "oblique"}, "cuts"),
        ({"budget": -1.0}, "budget"),
        ({"budget": math.nan}, "budget"),
        ({"budget": "large"}, "budget"),
        ({"budget": 10**400}, "float64"),
        ({"budget_scale": 0}, "budget_scale"),
        ({"min_samples_split": 1}, "min_samples_split"),
        ({"scaling": "std"}, "scaling"),
        ({"scaling": ([0, 0, 0], [1, 0, 1])}, "column 1 has low=0.0, high=0.0"),
        ({"scaling": ([0, 0, 0],)}, "pair"),
        ({"scaling": ([0, 0, -1e101], 1)}, "both at most 1e[+]100 in absolute value, but column 2 has low=-1e[+]101"),
        ({"scaling": (0, math.inf)}, "column 0 has low=0.0, high=inf"),
        ({"scaling": ([0, 0], [1, 1])}, r"scaling: low and high must be numbers, one or 3 of them, got \(\[0, 0\]"),
        ({"scaling": ("0", "1")}, "scaling: low and high must be numbers"),
        ({"scaling": ([[0], [0, 0]], 1)}, "scaling: low and high must be numbers"),
        ({"scaling": (0, 10**400)}, "scaling: low and high must be numbers"),
        ({"window": 0}, "window"),
        ({"budget": lambda n: 1 / n}, "must not decrease"),
        ({"budget": lambda n: "x"}, "must return a number"),
        ({"random_state": "x"}, "random_state"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_unknown_parameters(parameters, message, method):
    forest = regressor(**parameters)
    with pytest.raises(ValueError, match=message):
        getattr(forest, method)(X[:30], y[:30]).partial_fit(X[30:], y[30:])


WRONG = {
    "n_estimators": 0,
    "cuts": "nonsense",
    "budget": -1,
    "budget_scale": 0,
    "min_samples_split": 1,
    "scaling": ([0, 0], [1, 1]),
    "window": -3,
    "n_jobs": 0.5,
    "random_state": "x",
    "verbose": -1,
    "prediction": "median",
    "bandwidth": -1.0,
    "ridge": "small",
    "voting": "nonsense",
}


@pytest.mark.parametrize("name", WRONG)
def test_parameters_changed_after_fitting_are_checked(name):
    forest = BSPForestClassifier(8, random_state=0).fit(X, y > 0.5).partial_fit(X[:1], y[:1] > 0.5)
    right = forest.get_params()[name]
    forest.set_params(**{name: WRONG[name]})
    for _ in range(2):
        with pytest.raises(ValueError, match=name):
            forest.partial_fit(X, y > 0.5)
    assert forest.n_samples_seen_ == 61
    forest.set_params(**{name: right}).partial_fit(X[:1], y[:1] > 0.5)
    assert forest.n_samples_seen_ == 62


def test_voting_changed_after_fitting_is_checked_and_counts():
    forest = BSPForestClassifier(8, prediction="mean", random_state=0).fit(X, y > 0.5)
    votes = 8 * forest.set_params(voting="hard").predict_proba(X)
    np.testing.assert_allclose(votes, np.round(votes))
    forest.voting = "nonsense"
    for ask in (forest.predict, forest.predict_proba):
        with pytest.raises(ValueError, match="voting must be one of 'soft', 'hard', got 'nonsense'"):
            ask(X)


OTHER = {
    "n_estimators": 3,
    "cuts": "axes",
    "budget": 1e-3,
    "budget_scale": 9.0,
    "min_samples_split": 20,
    "scaling": None,
    "window": 5,
    "random_state": 7,
}


@pytest.mark.parametrize("name", OTHER)
def test_parameters_that_shape_the_forest_wait_for_fit(name):
    """As the docstrings say: with `partial_fit` the forest goes on as it was made."""
    as_made, changed = (regressor(prediction="mean").fit(X[:30], y[:30]) for _ in range(2))
    changed.set_params(**{name: OTHER[name]})
    for forest in (as_made, changed):
        forest.partial_fit(X[30:40], y[30:40]).partial_fit(X[40:] * 3, y[40:])
    np.testing.assert_array_equal(changed.apply(X), as_made.apply(X))
    assert not np.array_equal(changed.fit(X, y).apply(X), as_made.fit(X, y).apply(X))


@pytest.mark.parametrize(
    ("name", "other"), [("prediction", "mean"), ("bandwidth", 0.01), ("ridge", 100.0), ("cuts", "axes")]
)
def test_parameters_of_joint_values_wait_for_fit(name, other):
    as_made, changed = (regressor().fit(X[:30], y[:30]) for _ in range(2))
    changed.set_params(**{name: other})
    for forest in (as_made, changed):
        forest.partial_fit(X[30:40], y[30:40]).partial_fit(X[40:] * 3, y[40:])
    np.testing.assert_array_equal(changed.predict(X), as_made.predict(X))
    assert not np.allclose(changed.fit(X, y).predict(X), as_made.fit(X, y).predict(X))


def test_several_outputs():
    two = np.column_stack([y, -2 * y])
    with pytest.raises(ValueError, match="y has 2 columns; several outputs need prediction='ridge'"):
        regressor(prediction="mean").fit(X, two)
    forest = regressor().fit(X, two)
    assert forest.n_outputs_ == 2 and forest.predict(X).shape == (60, 2)
    np.testing.assert_array_equal(forest.held_rows().y, two)
    with pytest.raises(ValueError, match="y has 1 columns, but this forest has learned 2"):
        forest.partial_fit(X, y)
    with pytest.raises(ValueError, match="y has 3 columns, but this forest has learned 2"):
        forest.partial_fit(X, np.column_stack([two, y]))
    with pytest.raises(ValueError, match="predict_quantiles needs a forest with one output, but this one has 2"):
        forest.predict_quantiles(X)
    assert forest.n_samples_seen_ == 60


def test_a_failed_fit_keeps_the_old_forest():
    forest = regressor().fit(X, y)
    before = forest.predict(X)
    forest.set_params(scaling=([0] * 3, [0] * 3))
    with pytest.raises(ValueError, match="low must be below high"):
        forest.fit(X, y)
    np.testing.assert_array_equal(forest.predict(X), before)


def test_a_failed_fit_keeps_the_old_features_and_classes():
    """Kernels trust the number of features: it must stay that of the forest that stays."""
    forest = regressor().fit(X, y)
    with pytest.raises(ValueError, match="negative"):
        forest.fit(X[:, :1], y, sample_weight=-np.ones(60))
    assert forest.n_features_in_ == 3
    with pytest.raises(ValueError, match="1 features, but BSPForestRegressor is expecting 3"):
        forest.predict(X[:, :1])
    labelled = BSPForestClassifier(5, random_state=0).fit(X, y > 0.5)
    with pytest.raises(ValueError, match="zero for every row"):
        labelled.fit(X[:, :2], np.arange(60), sample_weight=np.zeros(60))
    assert labelled.n_features_in_ == 3
    assert labelled.predict_proba(X).shape == (60, len(labelled.classes_)) == (60, 2)


def test_classes():
    forest = BSPForestClassifier(5, random_state=0)
    with pytest.raises(ValueError, match="classes must be passed"):
        forest.partial_fit(X, y > 0.5)
    forest.partial_fit(X, np.where(y > 0.5, "b", "a"), classes=["a", "b", "c"])
    assert forest.classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="'z', which is not among the classes"):
        forest.partial_fit(X[:1], ["z"])
    with pytest.raises(ValueError, match="not the same as on the first call"):
        forest.partial_fit(X[:1], ["a"], classes=["a", "b"])
    assert forest.n_samples_seen_ == 60
    with pytest.raises(ValueError, match="continuous"):
        BSPForestClassifier(5).fit(X, y)
    one = BSPForestClassifier(5).fit(X, np.zeros(60, dtype=int))
    np.testing.assert_array_equal(one.predict_proba(X), np.ones((60, 1)))


@pytest.mark.parametrize("kind", [object, "str", "category"])
@pytest.mark.parametrize("classes", [["a", "b"], [0, 1]])
def test_unseen_classes_in_a_series(kind, classes):
    forest = BSPForestClassifier(5, random_state=0).fit(X, np.array(classes)[(y > 0.5).astype(int)])
    with pytest.raises(ValueError, match="y contains the class 'z', which is not among the classes"):
        forest.partial_fit(X[:2], pd.Series(["z", "y"], dtype=kind))
    assert forest.n_samples_seen_ == 60
    if classes == ["a", "b"]:
        forest.partial_fit(X[:2], pd.Series(classes, dtype=kind))
        assert forest._forest.held_labels()[0][60:, 0].tolist() == [0, 1]


def test_forgetting_everything():
    forest = regressor().fit(X, y).forget(np.arange(60))
    assert forest.n_samples_ == 0
    with pytest.raises(ValueError, match="holds no samples"):
        forest.predict(X)
    with pytest.raises(ValueError, match="already forgotten"):
        forest.forget(3)
    assert forest.trees_[0].n_nodes == 0
    forest.partial_fit(X[:10], y[:10])
    assert forest.n_samples_ == 10
    assert forest.n_samples_seen_ == 70
    forest.forget([60])


@pytest.mark.parametrize("make", [BSPForestRegressor, BSPForestClassifier])
def test_empty_first_chunk(tmp_path, make):
    forest = make(4, random_state=0)
    more = {"classes": ["a", "b"]} if make is BSPForestClassifier else {}
    labels = np.where(y > 0.5, "a", "b") if more else y
    forest.partial_fit(X[:0], labels[:0], **more)
    assert (forest.n_samples_, forest.n_samples_seen_, forest.n_features_in_) == (0, 0, 3)
    with pytest.raises(ValueError, match="holds no samples"):
        forest.predict(X)
    with pytest.raises(ValueError, match="unknown id 0: no rows have been seen so far"):
        forest.forget(0)
    forest.partial_fit(X[:0], labels[:0], sample_weight=2.0)
    forest.save(tmp_path / "m.bsp")
    for one in (forest, load(tmp_path / "m.bsp")):
        one.partial_fit(X, labels)
        np.testing.assert_array_equal(one.apply(X), make(4, random_state=0).fit(X, labels).apply(X))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_numpys_whole_numbers(kind):
    """Parameters of any integer type do what the same Python number does."""
    given = {"n_estimators": 100, "min_samples_split": 4, "window": 50, "n_jobs": 2}
    one, other = (
        BSPForestRegressor(**numbers, random_state=0)
        .fit(X[:10], y[:10])
        .partial_fit(X[10:], y[10:])
        .partial_fit(X[:7], y[:7])
        for numbers in (given, {name: kind(value) for name, value in given.items()})
    )
    assert (other.n_samples_, other.n_samples_seen_) == (49, 67)  # rows leave in blocks
    np.testing.assert_array_equal(one.apply(X), other.apply(X))


@pytest.mark.parametrize("most", [1000, 2**31, 2**63 - 1, 10**30])
def test_leaves_of_any_size(tmp_path, most):
    forest = (
        regressor(min_samples_split=most, budget=math.inf)
        .fit(X, y)
        .partial_fit(X, y)
        .partial_fit(X[:1], y[:1])
        .forget([0, 5])
    )
    assert [tree.n_leaves for tree in forest.trees_] == [1] * 8 and forest.n_samples_ == 119
    forest.save(tmp_path / "m.bsp")
    np.testing.assert_array_equal(load(tmp_path / "m.bsp").predict(X), forest.predict(X))


def bad_when_few(n: int) -> float:
    return 5.0 if n >= 50 else math.log(n / 30)


@pytest.mark.parametrize(
    ("budget", "left"),
    [(bad_when_few, 20), (lambda n: 5.0 if n < 50 else 2.0, 40), (lambda n: 10**400 if n < 9 else 5.0, 3)],
)
def test_forgetting_with_a_bad_budget(budget, left):
    """Rows at the ends of the range are forgotten, so trees would be built afresh; the budget for those left is none."""
    forest = regressor(prediction="mean", budget=budget, min_samples_split=2).fit(X, y)
    before = forest.apply(X)
    ends = np.unique(np.r_[X.argmin(axis=0), X.argmax(axis=0)])
    ids = np.r_[ends, np.setdiff1d(np.arange(60), ends)][: 60 - left]
    with pytest.raises(ValueError, match="budget must"):
        forest.forget(ids)
    np.testing.assert_array_equal(forest.apply(X), before)
    assert forest.n_samples_ == 60
    check(forest._forest)


def test_empty_chunks_and_single_rows():
    forest = regressor().fit(X[:1], y[:1])
    assert forest.predict(X[:2]).tolist() == [y[0], y[0]]
    forest.partial_fit(X[:0], y[:0])
    assert forest.n_samples_seen_ == 1
    forest.partial_fit(X[:0], y[:0], sample_weight=[])
    with pytest.raises(ValueError, match="sample_weight"):
        forest.partial_fit(X[:0], y[:0], sample_weight=[1.0])
    forest.partial_fit(X[1:2], y[1:2])
    assert forest.n_samples_ == 2
    labelled = BSPForestClassifier(5, random_state=0).fit(X, np.where(y > 0.5, "a", "b"))
    assert labelled.partial_fit(X[:0], [], sample_weight=np.empty(0)).n_samples_ == 60


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ["low", "high", "low"],
            r"labels that are numbers, but y has 'low' \(str\) in row 0: .* BSPForestClassifier for classes",
        ),
        (np.array([1.0, "2", "x"], dtype=object), r"y has 'x' \(str\) in row 2"),
        (pd.Series(["a", "b", "c"], dtype="category"), r"y has 'a' \(str\) in row 0"),
        ([[1.0, 2.0], [1.0, "b"], [0.0, 0.0]], r"y has 'b' \(str\) in row 1"),
        (
            np.array(["2024-01-01"] * 3, dtype="M8[ns]"),
            r"y has datetime.datetime\(2024, 1, 1, 0, 0\) \(datetime\) in row 0",
        ),
        (pd.Series([1, 2, pd.NA], dtype=object), "Input y contains NaN: the label in row 2 is <NA>"),
    ],
)
def test_labels_of_a_regressor_that_are_no_numbers(labels, message):
    """Failed with numpy's 'could not convert string to float', and learned nanoseconds since 1970."""
    forest = regressor().fit(X, y)
    for call in (regressor().fit, forest.partial_fit):
        with pytest.raises(ValueError, match=message):
            call(X[:3], labels)
    assert forest.n_samples_ == len(X)
    assert regressor().fit(X[:3], ["1", "2.5", "3"]).held_rows().y.tolist() == [1.0, 2.5, 3.0]
