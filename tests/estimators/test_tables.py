"""Test forests on tables with gaps, text, categories and booleans."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor

LEVELS = {"red": 0.0, "green": 2.0, "blue": -1.0}


def make_frame(n, seed=0):
    """Return a frame with every kind of column, and a label: a level by colour, one more where new, twice the size or 3 where it is
    missing. The rest is noise.
    """
    rng = np.random.default_rng(seed)
    size = rng.random(n)
    size[rng.random(n) < 0.2] = np.nan
    colour = rng.choice(list(LEVELS), n)
    new = rng.random(n) < 0.5
    y = np.array([LEVELS[c] for c in colour]) + new + np.where(np.isnan(size), 3.0, 2 * size)
    frame = pd.DataFrame(
        {
            "size": size,
            "colour": colour,
            "new": new,
            "shape": pd.Categorical(rng.choice(["round", "square"], n)),
            "count": rng.integers(0, 9, n),
            "note": pd.array(rng.choice(["a", "b", None], n), dtype="string"),
        }
    )
    return frame, y


FRAME, Y = make_frame(900)


def regressor(n=20, **parameters):
    return BSPForestRegressor(n, random_state=0, **parameters)


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_every_type_of_a_pandas_frame(values):
    forest = regressor(prediction=values).fit(FRAME[:600], Y[:600])
    assert forest.n_features_in_ == 6 and forest.feature_names_in_.tolist() == list(FRAME.columns)
    shares = forest.feature_importances_
    assert shares.shape == forest.feature_weights_.shape == (6,) and shares.sum() == pytest.approx(1.0)
    if values == "ridge":
        assert forest.score(FRAME[600:], Y[600:]) > 0.98
        assert shares[3:].max() < 0.02 < 0.05 < shares[:3].min()
    else:  # means need a larger budget where most features are 0 or 1
        assert forest.score(FRAME[600:], Y[600:]) > regressor(prediction=values).fit(
            FRAME[["size", "new"]][:600], Y[:600]
        ).score(FRAME[["size", "new"]][600:], Y[600:])


def test_pandas_polars_and_arrow_give_the_same_forest():
    expected = regressor().fit(FRAME[:300], Y[:300]).predict(FRAME[300:400])
    for convert in (pl.from_pandas, lambda frame: pa.Table.from_pandas(frame, preserve_index=False)):
        forest = regressor().fit(convert(FRAME[:300]), Y[:300])
        np.testing.assert_array_equal(forest.predict(convert(FRAME[300:400])), expected)
        np.testing.assert_array_equal(forest.predict(FRAME[300:400]), expected)


def test_arrays_with_gaps_and_objects():
    X = np.random.default_rng(0).random((300, 3))
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    y = np.where(np.isnan(X[:, 0]), 2.0, 0.0)
    forest = regressor().fit(X[:200], y[:200])
    assert forest.score(X[200:], y[200:]) > 0.99
    assert forest.encoded_feature_names_ == ["x0", "x0=(missing)", "x1", "x1=(missing)", "x2", "x2=(missing)"]
    mixed = [[1.0, "a"], [2.0, "b"], [3.0, "a"], [4.0, "b"]] * 5
    assert regressor().fit(mixed, [0, 1, 0, 1] * 5).predict([[2.5, "a"], [2.5, "b"]]).round().tolist() == [0, 1]


def test_categorical_features():
    X = np.column_stack([np.tile([0.0, 1.0, 2.0], 60), np.random.default_rng(0).random(180)])
    frame = pd.DataFrame(X, columns=["code", "noise"])
    for X_, given in ((X, [0]), (X, [True, False]), (frame, ["code"]), (X, [-2])):
        forest = regressor(categorical_features=given).fit(X_, X[:, 0] == 1)
        assert len(forest.encoded_feature_names_) == 4 and forest.n_features_in_ == 2
    assert forest.predict([[1.0, 0.5]])[0] == pytest.approx(1.0, abs=0.05)
    named = regressor(5, categorical_features=["count"]).fit(FRAME, Y)  # text need not be named
    assert {"count=3", "colour=red", "shape=round"} < set(named.encoded_feature_names_)
    assert regressor(categorical_features=None).fit(X, X[:, 0]).encoded_feature_names_ == ["x0", "x1"]
    for given, message in (
        (["colour"], "names 'colour', which X does not have: its columns are code, noise"),
        ([2], "has the entry 2, but X has 2 columns"),
        ([True], "a mask of shape"),
        ([0.5], "must be 'from_dtype', None, a mask, or a list"),
    ):
        with pytest.raises(ValueError, match=message):
            regressor(categorical_features=given).fit(frame, X[:, 0])
    with pytest.raises(
        ValueError, match="column 'colour' holds text, but categorical_features is None: use 'from_dtype'"
    ):
        regressor(categorical_features=None).fit(FRAME, Y)


def test_errors_name_the_column_and_change_nothing():
    forest = regressor(5).fit(FRAME[:50], Y[:50])
    before = forest.predict(FRAME)
    dated = FRAME[:5].assign(count=pd.Timestamp("2024-01-01"))
    for call in (lambda X: forest.partial_fit(X, Y[:5]), forest.predict):
        with pytest.raises(TypeError, match="column 'count' holds dates or times"):
            call(dated)
        with pytest.raises(ValueError, match="column 'size' holds numbers, but 'big' in row 0"):
            call(FRAME[:5].assign(size="big"))
        with pytest.raises(ValueError, match="infinity in column 'size', row 2"):
            call(FRAME[:5].assign(size=[1, 2, np.inf, 1, 1]))
        with pytest.raises(ValueError, match="feature names"):
            call(FRAME[:5].rename(columns={"size": "length"}))
    with pytest.raises(ValueError, match="y contains NaN"):
        forest.partial_fit(FRAME[:2].assign(colour="black"), [1.0, np.nan])
    assert "colour=black" not in forest.encoded_feature_names_
    np.testing.assert_array_equal(forest.predict(FRAME), before)


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_a_stream_gives_the_same_answers_as_a_batch_on_the_same_trees(values):
    """New categories and first gaps come one row at a time. After a solve on trees that are built afresh, which forgetting a row
    brings, the answers are the same, bit for bit. For means, rows are compared: their trees are not built afresh.
    """
    frame = FRAME[:200].copy()
    frame.loc[: 199 // 2, "size"] = 0.5  # the first gap comes late
    frame.loc[150:160, "colour"] = "black"
    online, batch = regressor(prediction=values), regressor(prediction=values)
    for k in range(len(frame)):
        online.partial_fit(frame[k : k + 1], Y[k : k + 1])
    batch.partial_fit(frame, Y[:200])
    assert online.encoded_feature_names_ == batch.encoded_feature_names_
    np.testing.assert_array_equal(online.held_rows().X, batch.held_rows().X)
    if values == "ridge":
        np.testing.assert_array_equal(
            online.forget(3, strict=True).predict(FRAME), batch.forget(3, strict=True).predict(FRAME)
        )
    else:
        assert np.corrcoef(online.predict(FRAME), batch.predict(FRAME))[0, 1] > 0.8


def test_the_first_gap_after_many_numbers():
    X = np.random.default_rng(0).random((400, 2))
    y = X[:, 0]
    forest = regressor().fit(X, y)
    assert forest._encoder is None
    at_mean = forest.predict([[X[:, 0].mean(), 0.5]])
    np.testing.assert_allclose(forest.predict([[np.nan, 0.5]]), at_mean, rtol=1e-9)
    forest.partial_fit([[np.nan, 0.5]], [5.0])
    assert forest.encoded_feature_names_ == ["x0", "x0=(missing)", "x1"] and forest.n_samples_ == 401
    assert forest.held_rows().X[-1].tolist() == [pytest.approx(X[:, 0].mean()), 1.0, 0.5]
    assert forest.forget(400).encoded_feature_names_ == ["x0", "x1"]
    assert forest._forest.trees.n_features == 2


def test_forgetting_reaches_the_encoder():
    """After it, categories, means and fills are those of the other rows alone."""
    frame = FRAME[:100].copy()
    frame.loc[7, ["colour", "size"]] = ["secret", 1e6]
    kept = np.delete(np.arange(100), [7, 9])
    forest = regressor().partial_fit(frame, Y[:100]).forget([7, 9])
    fresh = regressor().partial_fit(frame.iloc[kept], Y[kept])
    np.testing.assert_array_equal(forest.held_rows().X, fresh.held_rows().X)
    assert forest.held_rows().ids.tolist() == kept.tolist()
    assert forest._encoder.sums.totals.tolist() == fresh._encoder.sums.totals.tolist()
    assert b"secret" not in pickle.dumps(forest)
    assert forest.score(FRAME[100:], Y[100:]) > 0.5
    assert forest.forget(forest.held_rows().ids).n_samples_ == 0
    assert forest.partial_fit(frame, Y[:100]).n_samples_ == 100


def test_a_window_with_new_categories():
    forest = regressor(10, window=50)
    for start in range(0, 300, 10):
        forest.partial_fit(FRAME[start : start + 10].assign(colour=f"c{start // 100}"), Y[start : start + 10])
    assert 48 < forest.n_samples_ <= 50 and "colour=c2" in forest.encoded_feature_names_


def test_files_and_copies_keep_the_encoder(tmp_path):
    forest = regressor().fit(FRAME[:200], Y[:200])
    forest.save(tmp_path / "m")
    for again in (bspforest.load(tmp_path / "m"), pickle.loads(pickle.dumps(forest))):
        np.testing.assert_array_equal(again.predict(FRAME), forest.predict(FRAME))
        assert again.encoded_feature_names_ == forest.encoded_feature_names_
        more = FRAME[200:230].assign(colour="violet")
        again.partial_fit(more, Y[200:230])
        expected = pickle.loads(pickle.dumps(forest)).partial_fit(more, Y[200:230])
        np.testing.assert_array_equal(again.predict(FRAME), expected.predict(FRAME))
    assert clone(forest).get_params() == forest.get_params()


def test_categories_share_a_weight_that_others_do_not():
    forest = regressor(50).fit(FRAME, Y)
    weights = forest._forest.trees.coordinates.weights
    names = forest.encoded_feature_names_
    of = dict(zip(names, weights, strict=True))
    assert of["colour=red"] == of["colour=blue"] == of["colour=green"] > 2 * of["shape=round"]
    assert of["shape=round"] == of["shape=square"]
    forest.partial_fit(FRAME[:1].assign(colour="violet"), Y[:1])
    at = forest.encoded_feature_names_.index("colour=violet")
    assert forest._forest.trees.coordinates.weights[at] == of["colour=red"]


def test_a_given_scaling_is_that_of_columns():
    frame = FRAME[["size", "colour"]]
    forest = regressor(scaling=([0.0, 0.0], [2.0, 1.0])).fit(frame, Y)
    low, high = forest._forest.range
    assert (low[0], high[0]) == (0.0, 2.0) and (high[1:] == 1.0).all()


def test_given_weights_are_those_of_columns():
    """Failed with 'The truth value of an array'."""
    forest = regressor(feature_weights=[0.5, 1.0]).fit(FRAME[["size", "colour"]], Y)
    assert forest.feature_weights_.tolist() == [0.5, 1.0]


def test_a_pipeline_with_sparse_output_in_some_folds():
    """ColumnTransformer returns sparse or dense rows, as their density is."""
    transformer = ColumnTransformer(
        [
            ("text", OneHotEncoder(handle_unknown="ignore"), ["colour", "shape"]),
            ("numbers", SimpleImputer(), ["size", "count"]),
        ],
        sparse_threshold=0.55,
    )
    scores = cross_val_score(make_pipeline(transformer, regressor()), FRAME, Y, cv=3)
    assert scores.min() > 0.5


def test_grid_search_and_permutation_importance():
    search = GridSearchCV(regressor(10), {"feature_weights": [None, "learned"]}, cv=2).fit(FRAME[:300], Y[:300])
    assert search.best_score_ > 0.9
    importances = permutation_importance(
        search.best_estimator_, FRAME[300:500], Y[300:500], n_repeats=2, random_state=0
    )
    means = importances.importances_mean
    assert means[3:].max() < 0.02 < 0.05 < means[:3].min()


def test_a_classifier_on_a_table():
    forest = BSPForestClassifier(20, random_state=0).fit(FRAME[:600], FRAME["shape"][:600] == "round")
    assert forest.score(FRAME[600:], FRAME["shape"][600:] == "round") == 1.0
    assert forest.feature_importances_.argmax() == 3
    assert forest.predict_proba(FRAME[:3].assign(shape="oval")).shape == (3, 2)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize(
    "convert",
    [
        list,
        lambda y: np.array(y, dtype=object),
        lambda y: pd.Series(y, dtype="str"),
        lambda y: pl.Series(y, strict=False),
    ],
    ids=["list", "array", "pandas", "polars"],
)
def test_missing_labels_are_refused(convert, missing):
    """Failed with a TypeError of `<`, and with the class 'nan'."""
    if missing is not None and isinstance(convert(["a"]), pl.Series):
        pytest.skip("polars has no other missing text than None")
    X, y = FRAME[:4], convert(["a", "b", missing, "a"])
    forest = BSPForestClassifier(3, random_state=0)
    with pytest.raises(ValueError, match=r"Input y contains NaN.* row 2"):
        forest.fit(X, y)
    with pytest.raises(ValueError, match=r"Input y contains NaN.* row 2"):
        forest.partial_fit(X, y, classes=["a", "b"])
    assert not hasattr(forest, "classes_")
    with pytest.raises(ValueError, match="classes contains NaN"):
        forest.partial_fit(X[:2], ["a", "b"], classes=["a", "b", missing])
    forest.fit(X, ["a", "b", "b", "a"])
    before = forest.predict_proba(FRAME)
    with pytest.raises(ValueError, match=r"Input y contains NaN.* row 2"):
        forest.partial_fit(X.assign(colour="black"), y)
    np.testing.assert_array_equal(forest.predict_proba(FRAME), before)
    assert forest.n_samples_ == 4 and "colour=black" not in forest.encoded_feature_names_


# ----------------------------------------------------------------------------------------------------------------------
# Dates


def make_dated(n, seed=0):
    """Return orders with a missing date now and then, and a label with a daily cycle: more at noon, except at weekends."""
    rng = np.random.default_rng(seed)
    minutes = np.sort(rng.integers(0, 40 * 24 * 60, n))
    when = pd.Series(pd.Timestamp("2024-02-20", tz="Europe/Berlin") + pd.to_timedelta(minutes, unit="min"))
    noon = np.cos(2 * np.pi * (when.dt.hour + when.dt.minute / 60 - 12) / 24)
    y = (noon * (when.dt.day_of_week < 5) + rng.normal(0, 0.2, n)).to_numpy()
    when[rng.random(n) < 0.05] = pd.NaT
    return pd.DataFrame({"size": rng.random(n), "when": when, "shop": rng.choice(["a", "b"], n)}), y


DATED, SALES = make_dated(1200)
WAVES = [f"when ({name})" for name in ("hour, sin", "hour, cos", "weekday, sin", "weekday, cos")]
CONVERSIONS = {
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "objects": lambda frame: frame.astype({"when": object}),
}


def test_a_date_shows_cycles_of_the_label():
    forest = regressor().fit(DATED[:900], SALES[:900])
    assert forest.encoded_feature_names_[1:7] == ["when (days since 1970)", "when=(missing)", *WAVES]
    assert forest.score(DATED[900:], SALES[900:]) > 0.75
    assert (
        regressor().fit(DATED[["size", "shop"]][:900], SALES[:900]).score(DATED[["size", "shop"]][900:], SALES[900:])
        < 0.1
    )
    assert forest.feature_importances_.argmax() == 1 and forest.feature_weights_[1] == 1.0
    weights = dict(zip(forest.encoded_feature_names_, forest._forest.trees.coordinates.weights, strict=True))
    assert weights[WAVES[0]] == weights[WAVES[1]] and weights[WAVES[2]] == weights[WAVES[3]]


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_dates_of_all_libraries_give_the_same_forest(convert):
    expected = regressor(5).fit(DATED[:300], SALES[:300])
    forest = regressor(5).fit(convert(DATED[:300]), SALES[:300])
    np.testing.assert_array_equal(forest.held_rows().X, expected.held_rows().X)
    for rows in (slice(300, 400), slice(300, 302)):  # many rows, and few, which are read otherwise
        np.testing.assert_array_equal(forest.predict(convert(DATED[rows])), expected.predict(DATED[rows]))


def test_iso_dates_as_text_are_dates(recwarn):
    utc = DATED.assign(when=DATED["when"].dt.tz_convert("UTC"))
    texts = utc.assign(when=[None if pd.isna(time) else time.isoformat() for time in utc["when"]])
    expected, forest = regressor(5).fit(utc[:300], SALES[:300]), regressor(5).fit(texts[:300], SALES[:300])
    np.testing.assert_array_equal(forest.predict(texts), expected.predict(utc))
    assert not recwarn.list
    with pytest.raises(ValueError, match="column 'when' holds dates, but 'soon' in row 1 is none"):
        forest.partial_fit(texts[:2].assign(when=[None, "soon"]), [1.0, 2.0])
    assert forest.n_samples_ == 300
    named = regressor(5, categorical_features=["when"]).fit(texts[:30], SALES[:30])
    assert f"when={texts['when'][1]}" in named.encoded_feature_names_


@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_a_stream_of_dates_gives_the_rows_of_a_batch(values):
    frame, y = DATED[::3][:300].reset_index(drop=True), SALES[::3][:300]
    online, batch = regressor(5, prediction=values), regressor(5, prediction=values)
    for k in range(len(frame)):
        online.partial_fit(frame[k : k + 1], y[k : k + 1])
    batch.partial_fit(frame, y)
    assert online.encoded_feature_names_ == batch.encoded_feature_names_
    np.testing.assert_array_equal(online.held_rows().X, batch.held_rows().X)
    if values == "ridge":
        np.testing.assert_array_equal(
            online.forget(3, strict=True).predict(frame), batch.forget(3, strict=True).predict(frame)
        )


def test_forgetting_dates():
    forest = regressor(5).fit(DATED[:300], SALES[:300]).forget(np.arange(10, 300))
    fresh = regressor(5).fit(DATED[:10], SALES[:10])
    assert forest.encoded_feature_names_ == fresh.encoded_feature_names_
    assert not set(WAVES) & set(forest.encoded_feature_names_)
    np.testing.assert_array_equal(forest.held_rows().X, fresh.held_rows().X)


def test_files_and_copies_keep_dates(tmp_path):
    forest = regressor(5).fit(DATED[:60], SALES[:60])
    forest.save(tmp_path / "m")
    more = DATED[60:].assign(when=DATED["when"][60:] + pd.Timedelta(days=400))
    expected = pickle.loads(pickle.dumps(forest)).partial_fit(more[:300], SALES[60:360])
    again = bspforest.load(tmp_path / "m").partial_fit(more[:300], SALES[60:360])
    assert again.encoded_feature_names_[-3] == "when (time of year, cos)"
    np.testing.assert_array_equal(again.predict(DATED), expected.predict(DATED))


def test_dates_in_arrays_and_lists():
    times = pd.date_range("2024-01-01", periods=50, freq="h").to_numpy()
    listed = [[k, time] for k, time in enumerate(times.astype("M8[us]").tolist())]
    one = regressor(5).fit(times[:, None], np.arange(50.0))
    assert one.encoded_feature_names_ == ["x0 (days since 1970)", "x0 (hour, sin)", "x0 (hour, cos)"]
    two = regressor(5, feature_weights=[0.5, 1.0], scaling=([0, 19723], [50, 19800])).fit(listed, np.arange(50.0))
    assert two.feature_weights_.tolist() == [0.5, 1.0]
    assert two._forest.range[0].tolist() == [0, 19723, 0, 0] and two._forest.range[1].tolist() == [50, 19800, 1, 1]
    plain = regressor(5).fit((times - times[0])[:, None], np.arange(50.0))  # durations are plain numbers
    assert plain._encoder is None and plain.held_rows().X[2].tolist() == [7200.0]
