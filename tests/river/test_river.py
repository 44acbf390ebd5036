"""The forests as river knows them."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from grids import grid

river = pytest.importorskip("river", reason="river is not installed: pip install 'bspforest[river]'")

import pandas as pd  # noqa: E402
from river import checks, compose, datasets, evaluate, metrics, preprocessing  # noqa: E402

from bspforest.river import BSPForestClassifier, BSPForestRegressor  # noqa: E402

FORESTS = [BSPForestClassifier, BSPForestRegressor]
VALUES = ["ridge", "mean"]
NAMES = ["a", "b", "c", "d"]

rng = np.random.default_rng(0)
X = np.round(rng.random((300, 4)), 1)  # with zeros
LABELS = (X[:, 0] + X[:, 1] > 1).tolist()
rows = [dict(zip(NAMES, x, strict=True)) for x in X.tolist()]


def learn(model, part, labels=None):
    for x, y in zip(part, labels or LABELS, strict=False):
        model.learn_one(x, y)
    return model


def answers(model, part=rows):
    if isinstance(model, BSPForestClassifier):
        return [model.predict_proba_one(x) for x in part]
    return [model.predict_one(x) for x in part]


def held(model):
    """The rows the forest holds, oldest first."""
    return model._forest.held_rows()


@grid(1, forest=FORESTS, values=VALUES)
def test_rivers_checks_pass(forest, values):
    for params in forest._unit_test_params():
        model = forest(**params, prediction=values)
        # Chunks are learned at once: the law is that of single rows, the random numbers are not. Memory follows the half-life.
        assert model._unit_test_skips() == {"check_learn_many_matches_learn_one", "check_bounded_memory_growth"}
        checks.check_estimator(model)


@pytest.mark.parametrize(
    ("dataset", "forest", "metric", "least"),
    [  # measured with ridge predictions and with means: 0.905 and 0.900, 0.82 and 0.874, 0.30 and 0.34, 23.9 and 23.1
        (datasets.Phishing(), BSPForestClassifier, metrics.Accuracy(), {"ridge": 0.87, "mean": 0.87}),
        (
            list(datasets.ImageSegments().take(800)),
            BSPForestClassifier,
            metrics.Accuracy(),
            {"ridge": 0.8, "mean": 0.84},  # ridge 0.89 with leaves of single rows
        ),
        (datasets.TrumpApproval(), BSPForestRegressor, metrics.MAE(), {"ridge": 0.33, "mean": 0.4}),
        (datasets.ChickWeights(), BSPForestRegressor, metrics.MAE(), {"ridge": 30, "mean": 27}),
    ],
    ids=["Phishing", "ImageSegments", "TrumpApproval", "ChickWeights"],
)
@pytest.mark.parametrize("values", VALUES)
def test_scores_on_rivers_datasets(dataset, forest, metric, least, values):
    model, limit = forest(seed=0, prediction=values), least[values]
    score = evaluate.progressive_val_score(dataset, model, metric.clone()).get()
    assert score > limit if metric.bigger_is_better else score < limit


def test_before_any_learning():
    frame = pd.DataFrame(rows[:3], index=[7, 8, 9])
    assert BSPForestRegressor().predict_one(rows[0]) == 0.0
    assert BSPForestRegressor().predict_many(frame).to_dict() == {7: 0.0, 8: 0.0, 9: 0.0}
    assert BSPForestClassifier().predict_proba_one(rows[0]) == {}
    assert BSPForestClassifier().predict_one(rows[0]) is None
    assert BSPForestClassifier().predict_many(frame).tolist() == [None] * 3
    assert BSPForestClassifier().predict_proba_many(frame).shape == (3, 0)


# ----------------------------------------------------------------------------------------------------------------------
# Keys


@pytest.mark.parametrize("forest", FORESTS)
def test_the_order_of_keys_and_a_zero_left_out_make_no_difference(forest):
    whole, sparse = forest(seed=1), forest(seed=1)
    first = dict.fromkeys(NAMES, 1.0)
    learn(whole, [first, *rows])
    learn(sparse, [first] + [{k: x[k] for k in reversed(NAMES) if x[k]} for x in rows])
    np.testing.assert_array_equal(held(whole), held(sparse))
    assert answers(whole) == answers(sparse, [{k: v for k, v in x.items() if v} for x in rows])


@pytest.mark.parametrize("forest", FORESTS)
@pytest.mark.parametrize("values", VALUES)
def test_a_new_key_counts_as_0_in_earlier_rows(forest, values):
    model = learn(forest(seed=1, prediction=values), [{"b": x["b"], "a": x["a"]} for x in rows[:50]])
    model.learn_one(rows[50], LABELS[50])
    expected = X[:51].copy()
    expected[:50, 2:] = 0.0
    np.testing.assert_array_equal(held(model), expected)
    assert model._forest.budget == (51 ** (1 / 6) if values == "mean" else math.inf)
    # What the forest is then: one built from those rows at once.
    batch = forest(seed=1, prediction=values)
    batch._rng.getrandbits(32)  # the seed of the narrower forest
    batch.learn_many(pd.DataFrame(expected, columns=NAMES), LABELS[:51])
    assert answers(model) == answers(batch)


def test_a_key_that_appears_late_is_used():
    model = BSPForestRegressor(20, seed=0)
    labels = [4.0 * x["d"] for x in rows]
    learn(model, [{k: x[k] for k in "abc"} for x in rows[:50]], [0.0] * 50)
    learn(model, rows[50:], labels[50:])
    low, high = model.predict_one({**rows[0], "d": 0.1}), model.predict_one({**rows[0], "d": 0.9})
    assert high - low > 1.0  # measured: 2.7
    assert model.predict_one({**rows[0], "d": 0.9, "unheard of": math.nan}) == high


@pytest.mark.parametrize("value", [np.float32(3), np.float16(6e4), np.uint8(255), np.int8(-128), np.int32(2**31 - 1)])
@pytest.mark.filterwarnings("error")
def test_numbers_of_numpys_types(value):
    """No warning that they overflow, and the same as Python's numbers."""
    one, other = BSPForestRegressor(2, seed=np.int64(1)), BSPForestRegressor(2, seed=1)
    for k in range(20):
        one.learn_one({"a": value, "b": value, "c": k}, k)
        other.learn_one({"a": value.item(), "b": value.item(), "c": k}, k)
    assert one.predict_one({"a": value, "b": value, "c": 5}) == other.predict_one(
        {"a": value.item(), "b": value.item(), "c": 5}
    )


def test_rows_without_features():
    model = BSPForestRegressor(seed=0)
    model.learn_one({}, 1.0)
    model.learn_one({}, 3.0)
    assert model.predict_one({}) == model.predict_one({"a": 1.0}) == pytest.approx(2.0)
    model.learn_one({"a": 5.0}, 8.0)
    np.testing.assert_array_equal(held(model), [[0.0], [0.0], [5.0]])


def test_categories_through_a_pipeline():
    model = (compose.SelectType(str) | preprocessing.OneHotEncoder()) + compose.SelectType(float) | BSPForestClassifier(
        20, seed=0
    )
    colours = ["red", "green", "blue", "grey"]
    for k, x in enumerate(rows):  # grey turns up late
        colour = colours[k % (3 if k < 150 else 4)]
        model.learn_one({**x, "colour": colour}, colour in ("red", "grey"))
    right = [model.predict_one({**x, "colour": c}) == (c in ("red", "grey")) for x in rows[:50] for c in colours]
    assert np.mean(right) > 0.9  # measured: 1.0


# ----------------------------------------------------------------------------------------------------------------------
# Labels


@pytest.mark.parametrize("values", VALUES)
def test_new_labels_appear(values):
    model = BSPForestClassifier(seed=0, prediction=values)
    for k, y in enumerate(["one", "two", ("a", 3), 4]):
        for x in rows[10 * k : 10 * k + 10]:
            model.learn_one(x, y)
            assert model.predict_proba_one(x)[y] > 0
            assert sum(model.predict_proba_one(x).values()) == pytest.approx(1)
    assert list(model.predict_proba_one(rows[0])) == ["one", "two", ("a", 3), 4]
    assert list(model.predict_proba_many(pd.DataFrame(rows[:2])).columns) == ["one", "two", ("a", 3), 4]


def test_scores_stay_the_same_when_a_class_is_added():
    """From one to two, to three and to five classes: until a row of it comes, a new class has a score of 0."""
    model = BSPForestClassifier(5, seed=0)
    for x in rows[:30]:
        model.learn_one(x, 0)
    forest, X_new = model._forest, X[200:]
    for n_new in (1, 1, 2):
        n = forest.config.n_classes
        before = all_scores(forest, X_new)
        forest.add_classes(n_new)
        assert forest.config.n_classes == n + n_new
        after = all_scores(forest, X_new)
        np.testing.assert_allclose(after[:, :n], before, atol=1e-12)
        np.testing.assert_allclose(after[:, n:], 0.0, atol=1e-12)
        for k in range(30):
            forest.learn(X[[30 + k]], np.array([float(n + k % n_new)]), np.ones(1))
        assert (all_scores(forest, X_new)[:, n:] != 0).all()


def all_scores(forest, rows):
    """The score of each class."""
    scores = forest.prediction.predict(forest, rows)
    return np.concatenate([1 - scores, scores], axis=1) if forest.config.n_classes == 2 else scores


def test_a_class_that_comes_late_is_solved_for():
    """After its first row, the duals solve for all columns, as if the class had been known before."""
    labels = ["a" if x["a"] + x["b"] > 1 else "b" for x in rows]
    model = BSPForestClassifier(10, seed=0)
    learn(model, rows[:200], labels)
    model.learn_one(rows[200], "c")
    forest = model._forest
    prediction = forest.prediction
    assert prediction.solved == (forest.n_seen, forest.n_held) and forest.duals.shape[1] == 3
    scores = prediction.predict(forest, X)
    forest.duals[:] = 0.0
    prediction.solved = prediction.solved._replace(n_held=0)
    prediction.solve(forest, None)
    np.testing.assert_allclose(prediction.predict(forest, X), scores, atol=0.02)  # the tolerance of a solve
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=0.02)


@pytest.mark.parametrize("values", VALUES)
def test_weights_count(values):
    model = BSPForestRegressor(seed=0, prediction=values)
    model.learn_one({"a": 1.0}, 1.0, w=3)
    model.learn_one({"a": 1.0}, 5.0)
    assert model.predict_one({"a": 1.0}) == pytest.approx(2.0)
    for empty in (BSPForestClassifier(seed=0, prediction=values), BSPForestRegressor(seed=0, prediction=values)):
        empty.learn_one({"a": 1.0}, 7, w=0.0)
        assert empty.predict_one({"a": 1.0}) == (7 if isinstance(empty, BSPForestClassifier) else 0.0)
    assert np.isclose(model.predict_many(pd.DataFrame([{"a": 1.0}]))[0], 2.0)


def test_votes():
    soft, hard = (learn(BSPForestClassifier(4, voting=v, seed=0, prediction="mean"), rows) for v in ("soft", "hard"))
    assert all(4 * p == round(4 * p) for x in rows for p in hard.predict_proba_one(x).values())
    assert any(4 * p != round(4 * p) for x in rows for p in soft.predict_proba_one(x).values())


# ----------------------------------------------------------------------------------------------------------------------
# Many at once


@pytest.mark.parametrize("forest", FORESTS)
@pytest.mark.parametrize("values", VALUES)
def test_many_at_once(forest, values):
    frame = pd.DataFrame(rows, index=range(1000, 1300))
    y = pd.Series(LABELS, index=frame.index)
    model = forest(20, seed=0, prediction=values)
    model.learn_many(frame[["c", "a"]][:100], y[:100])
    model.learn_many(frame[:0], y[:0])
    model.learn_many(frame[["d", "b", "a", "c"]][100:250], y[100:250], w=[1.0] * 150)
    expected = X[:250, [0, 2, 1, 3]].copy()  # a and c came first
    expected[:100, 2:] = 0.0
    np.testing.assert_array_equal(held(model), expected)
    many = model.predict_many(frame)
    assert many.index.equals(frame.index)
    assert many.tolist() == pytest.approx([model.predict_one(x) for x in rows])
    if forest is BSPForestClassifier:
        pd.testing.assert_frame_equal(
            model.predict_proba_many(frame), pd.DataFrame(answers(model), index=frame.index), check_exact=False
        )
        assert (many[250:] == y[250:]).mean() > 0.8  # measured: 0.94


def test_columns_of_all_kinds():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, 2], dtype="Int64"),
            "true": [True, False],
            "single": np.array([0.5, 1.5], np.float32),
            "object": np.array([1, 2.5], dtype=object),
        }
    )
    model = BSPForestRegressor(seed=0)
    model.learn_many(frame, [1, 2])
    assert {k: held(model)[1, c] for k, c in model._columns.items()} == {
        "whole": 2, "true": 0, "single": 1.5, "object": 2.5,
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# What river's tools rely on


@pytest.mark.parametrize("forest", FORESTS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"window": 60},
        {"cuts": "isotropic"},
        {"prediction": "mean"},
        {"prediction": "mean", "window": 60},
    ],
)
def test_copies_go_on_as_the_original_does(forest, settings):
    model = learn(forest(seed=3, **settings), rows[:150])
    again = learn(model.clone(), rows[:150])
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), again]
    for other in [model, *copies]:
        learn(other, rows[150:], LABELS[150:])
    for other in copies:
        assert answers(other) == answers(model)
    assert answers(learn(model.clone({"seed": 4}), rows)) != answers(model)


def test_a_window_holds_the_latest_rows_in_flat_memory():
    model = BSPForestRegressor(window=50, seed=0)
    sizes = []
    for k in range(1500):
        model.learn_one(rows[k % 300], LABELS[k % 300])
        if k % 50 == 49:
            sizes.append(model._raw_memory_usage)
    np.testing.assert_array_equal(held(model), X[250:])
    assert sizes[-1] <= 1.3 * sizes[2]


def test_memory_is_counted_once():
    model = learn(BSPForestRegressor(seed=0), rows)
    arrays = *model._forest.trees.arrays, *model._forest.labels
    least = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))
    assert least < model._raw_memory_usage < 1.2 * least + 20_000  # totals of leaves are kept beside the trees
    again = pickle.loads(pickle.dumps(model))  # without room for rows to come
    assert 0.5 * model._raw_memory_usage < again._raw_memory_usage < 1.1 * model._raw_memory_usage
    assert model._memory_usage.endswith("KiB")
    # river's own way, which pipelines go, may count the data of arrays twice, but nothing that is not the forest's.
    assert (preprocessing.MinMaxScaler() | model)._raw_memory_usage < 2.2 * least + 20_000


BAD = [
    ({"a": math.inf}, 1, "feature 'a' is inf, which is not a finite number"),
    ({"a": 1e308}, 1, "feature 'a' is 1e\\+308, but numbers of at most 1e\\+100 in absolute value"),
    ({"a": [1.0]}, 1, r"feature 'a' is \[1.0\], which is not a finite number"),
    ({"a": 1j}, 1, "feature 'a' is 1j, which is not a finite number"),
    ([1.0], 1, "x must be a dict of features, got list"),
    ({"a": 1.0}, None, "y .*None"),
    ({"a": 1.0}, math.nan, "y .*nan"),
]


@pytest.mark.parametrize("forest", FORESTS)
@pytest.mark.parametrize(("x", "y", "message"), BAD)
def test_bad_rows_are_refused_and_change_nothing(forest, x, y, message):
    for model in (forest(seed=0), learn(forest(seed=0), rows[:20])):
        before = pickle.dumps(model)
        with pytest.raises((ValueError, TypeError), match=message):
            model.learn_one(x, y)
        assert pickle.dumps(model) == before
    if y == 1:
        with pytest.raises((ValueError, TypeError), match=message):
            model.predict_one(x)


def test_bad_labels_and_weights():
    with pytest.raises(ValueError, match="y is 'high', which is not a finite number"):
        BSPForestRegressor().learn_one({"a": 1.0}, "high")
    with pytest.raises(TypeError, match=r"labels must be hashable, got \[1\]"):
        BSPForestClassifier().learn_one({"a": 1.0}, [1])
    with pytest.raises(ValueError, match="w is -1: a weight of at least 0 is expected"):
        BSPForestRegressor().learn_one({"a": 1.0}, 1.0, w=-1)


@pytest.mark.parametrize(
    ("X", "y", "w", "message"),
    [
        ([[1.0]], [1], 1, "X must be a pandas DataFrame, got list"),
        (pd.DataFrame({"a": [1.0, 2.0]}), [1], 1, "X has 2 rows, but y has 1 labels"),
        (pd.DataFrame({"a": [1.0, 2.0]}), [1, 2], [1], "X has 2 rows, but w has 1 weights"),
        (pd.DataFrame({"a": [1.0, math.inf]}), [1, 2], 1, "feature 'a' in row 1 is inf, which is not a finite number"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), [1], 1, "X has the column 'a' more than once"),
        (pd.DataFrame({"a": [1.0, 2.0]}), [1, None], 1, "y .*None"),
    ],
)
def test_bad_frames_are_refused(X, y, w, message):
    for forest in FORESTS:
        with pytest.raises((TypeError, ValueError), match=message):
            forest().learn_many(X, y, w)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_estimators": 0}, "n_estimators"),
        ({"cuts": "round"}, "cuts"),
        ({"window": 0}, "window"),
        ({"scaling": (1.0, 0.0)}, "low must be below high"),
        ({"prediction": "median"}, "prediction"),
        ({"max_categories": 0}, "max_categories"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"ridge": "small"}, "ridge"),
        ({"voting": "loud"}, "voting must be 'soft' or 'hard', got 'loud'"),
    ],
)
def test_bad_parameters_are_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        BSPForestClassifier(**settings)


def test_without_river_the_error_says_what_to_install():
    program = """
import sys
import bspforest
assert "river" not in sys.modules
sys.modules["river"] = None
try:
    import bspforest.river
except ImportError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "bspforest.river needs river: pip install 'bspforest[river]'"


def test_importances_have_the_keys_of_rows():
    """Failed with an array returned, and with the columns reserved for keys to come included."""
    rng = np.random.default_rng(1)
    part = [dict(zip(NAMES, x, strict=True)) for x in rng.random((150, 4)).tolist()]
    for forest, labels in ((BSPForestRegressor, [3 * x["b"] + x["d"] for x in part]), (BSPForestClassifier, None)):
        for values in VALUES:
            model = forest(10, seed=0, prediction=values)
            assert model.feature_importances_ == {}
            learn(model, part, labels or [x["b"] > 0.5 for x in part])
            importances = model.feature_importances_
            assert list(importances) == NAMES
            assert sum(importances.values()) == pytest.approx(1.0)
            assert max(importances, key=importances.get) == "b"


def test_class_that_comes_within_a_revision():
    """At any row. Failed with a revision that went on with the label columns of fewer classes."""
    for at in range(18, 44, 2):
        model = learn(BSPForestClassifier(10, seed=0), rows[:at])
        model.learn_one(rows[at], "new")
        learn(model, rows[at + 1 : 70], LABELS[at + 1 :])
        assert set(model.predict_proba_one(rows[at])) == {True, False, "new"}
