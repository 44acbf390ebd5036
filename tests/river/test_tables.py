"""Test text, missing values and absent features in river's conventions."""

from __future__ import annotations

import copy
import datetime
import pickle
import random

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("river", reason="river is not installed: pip install 'bspforest[river]'")

import bspforest
from bspforest.river import BSPForestClassifier, BSPForestRegressor
from bspforest.river.rows import tabulate_row

LEVELS = {"red": 0.0, "green": 2.0, "blue": -1.0, "violet": 4.0, None: 1.0}


def make_stream(n, seed=0):
    """Return rows with text, booleans and missing values, keys in alphabetical order; violet comes late."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for k in range(n):
        colours = [*LEVELS] if k > n // 2 else ["red", "green", "blue", None]
        colour = colours[rng.integers(len(colours))]
        size = None if rng.random() < 0.1 and k > 5 else float(rng.random())
        rows.append({"colour": colour, "new": bool(rng.random() < 0.5), "size": size, "width": float(rng.random())})
        labels.append(LEVELS[colour] + rows[-1]["new"] + (3.0 if size is None else size))
    return rows, labels


ROWS, LABELS = make_stream(150)
FRAME = pd.DataFrame(ROWS).astype({"colour": object})


def learn(model, rows=ROWS, labels=LABELS, **options):
    for x, y in zip(rows, labels, strict=False):
        model.learn_one(x, y, **options)
    return model


def make_pair(kind, **parameters):
    """Return a model of river and an estimator with the same random numbers."""
    seed = random.Random(0).getrandbits(32)
    return (
        getattr(bspforest.river, f"BSPForest{kind}")(5, seed=0, **parameters),
        getattr(bspforest, f"BSPForest{kind}")(5, random_state=seed, **parameters),
    )


@pytest.mark.parametrize("prediction", ["ridge", "mean"])
@pytest.mark.parametrize("window", [None, 60])
def test_a_stream_gives_the_forest_of_the_estimator(prediction, window):
    """New categories and first missing values come in the middle. The trees are the same, bit for bit."""
    model, forest = make_pair("Regressor", prediction=prediction, window=window)
    for k, (x, y) in enumerate(zip(ROWS, LABELS, strict=True)):
        model.learn_one(x, y)
        forest.partial_fit(FRAME[k : k + 1], [y])
    assert model._encoder.names == forest.encoded_feature_names_
    np.testing.assert_array_equal(model._forest.held_rows(), forest.held_rows().X)
    expected = forest.predict(FRAME)
    np.testing.assert_array_equal(model.predict_many(FRAME), expected)
    np.testing.assert_allclose([model.predict_one(x) for x in ROWS], expected, rtol=1e-9)  # sums in another order
    unknown = {"colour": "never seen", "new": True, "size": None, "width": 0.5}
    assert model.predict_one(unknown) == pytest.approx(forest.predict(pd.DataFrame([unknown]))[0])
    assert list(model.feature_importances_.values()) == forest.feature_importances_.tolist()


def test_classes_as_those_of_the_estimator():
    model, forest = make_pair("Classifier")
    labels = [int(y > 1.5) for y in LABELS]
    model.learn_many(FRAME[:2], [0, 1])
    forest.partial_fit(FRAME[:2], [0, 1], classes=[0, 1])
    model.learn_many(FRAME[2:100], labels[2:100])
    forest.partial_fit(FRAME[2:100], labels[2:100])
    found = [list(model.predict_proba_one(x).values()) for x in ROWS]
    np.testing.assert_allclose(found, forest.predict_proba(FRAME), rtol=1e-12)
    pd.testing.assert_frame_equal(model.predict_proba_many(FRAME), pd.DataFrame(found), check_names=False)
    model.learn_one(ROWS[100], "late")
    assert set(model.predict_proba_one(ROWS[0])) == {0, 1, "late"}


def test_text_is_learned():
    model = learn(BSPForestRegressor(10, seed=0))
    rows, labels = make_stream(100, seed=1)
    errors = [model.predict_one(x) - y for x, y in zip(rows, labels, strict=True)]
    assert np.std(errors) < 0.35 * np.std(labels)


@pytest.mark.parametrize("prediction", ["ridge", "mean"])
def test_numbers_first_then_text(prediction):
    """A text feature that comes later is missing in earlier rows; a number that comes later, or is absent, is 0."""
    model = BSPForestRegressor(5, seed=0, prediction=prediction)
    model.learn_one({"a": 1.0}, 1.0)
    model.learn_one({"a": 2.0}, 2.0)
    assert model._encoder is None
    model.learn_one({"a": 3.0, "c": "red"}, 3.0)
    model.learn_one({"b": 5.0, "c": "blue"}, 4.0)
    model.learn_one({"a": None, "b": 7}, 5.0)
    rows = dict(zip(model._encoder.names, model._forest.held_rows().T.tolist(), strict=True))
    rows.pop("", None)
    assert rows == {
        "a": [1.0, 2.0, 3.0, 0.0, 1.5],
        "a=(missing)": [0, 0, 0, 0, 1],
        "c=(missing)": [1, 1, 0, 0, 1],
        "c=red": [0, 0, 1, 0, 0],
        "c=blue": [0, 0, 0, 1, 0],
        "b": [0, 0, 0, 5, 7],
    }
    absent = model.predict_one({"a": 1.0})
    assert absent == model.predict_one({"a": 1.0, "b": 0.0, "c": None, "unheard of": object()})
    assert model.predict_many(pd.DataFrame({"a": [1.0]}))[0] == absent
    assert list(model.feature_importances_) == ["a", "c", "b"]


def test_the_first_value_tells_the_kind():
    """A feature that begins with None may become text or a number."""
    model = BSPForestRegressor(5, seed=0)
    for k in range(3):
        model.learn_one({"text": None, "number": None, "x": 1.0 * k}, k)
    model.learn_one({"text": "red", "number": 4.0, "x": 1.0}, 1.0)
    encoded = dict(zip(model._encoder.names, model._forest.held_rows().T.tolist(), strict=True))
    assert encoded["text=(missing)"] == [1, 1, 1, 0] and encoded["text=red"] == [0, 0, 0, 1]
    assert encoded["number"] == [4.0] * 4 and encoded["number=(missing)"] == [1, 1, 1, 0]
    assert np.isfinite(model.predict_one({"text": "red"}))


def test_frames_with_categories_and_absent_columns():
    model = BSPForestRegressor(5, seed=0)
    model.learn_many(pd.DataFrame({"c": pd.Categorical(["x", None, "y"]), "a": [1.0, 2.0, 3.0]}), [1, 2, 3])
    model.learn_many(pd.DataFrame({"b": [1.0, 2.0]}), [4, 5])
    names = model._encoder.names
    held = dict(zip(names, model._forest.held_rows().T.tolist(), strict=True))
    assert held["c=(missing)"] == [0, 1, 0, 1, 1] and held["a"] == [1, 2, 3, 0, 0] and held["b"] == [0, 0, 0, 1, 2]


def test_many_categories_share_a_feature():
    model = BSPForestRegressor(3, seed=0, max_categories=3)
    for k in range(30):
        model.learn_one({"c": f"c{k % 10}"}, k % 10)
    assert model._encoder.names == ["c=c0", "c=c1", "c=c2", "c=(other)"]
    assert model.predict_one({"c": "c7"}) == model.predict_one({"c": "new"})


def test_new_keys_and_categories_all_the_time():
    """Features are reserved, so that few of these rows build trees again."""
    model = BSPForestRegressor(3, seed=0, window=200, max_categories=1000)
    for k in range(300):
        model.learn_one({"c": f"c{k}", f"k{k % 70}": 1.0}, k)
    assert model._encoder.n_layouts < 60
    assert np.isfinite(model.predict_one({"c": "c299", "k3": 1.0}))


@pytest.mark.parametrize("prediction", ["ridge", "mean"])
def test_forgetting_reaches_the_encoder(prediction):
    model = BSPForestRegressor(5, seed=0, prediction=prediction)
    for k, x in enumerate(ROWS[:60]):
        model.learn_one({**x, "colour": "secret"} if k == 7 else x, LABELS[k], key="s" if k == 7 else k)
    assert "colour=secret" in model._encoder.names
    model.forget_one("s")
    assert "colour=secret" not in model._encoder.names and model._forest.n_held == 59
    assert b"secret" not in pickle.dumps(model)
    fresh = learn(BSPForestRegressor(5, seed=0), ROWS[:7] + ROWS[8:60], LABELS[:7] + LABELS[8:60])
    np.testing.assert_array_equal(model._forest.held_rows(), fresh._forest.held_rows())
    assert np.isfinite([model.predict_one(x) for x in ROWS]).all()
    learn(model, ROWS[60:], LABELS[60:])


def test_copies_go_on_as_the_original_does():
    model = learn(BSPForestClassifier(5, seed=0), ROWS[:70], [y > 1.5 for y in LABELS])
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for other in [model, *copies]:
        learn(other, ROWS[70:], [y > 1.5 for y in LABELS[70:]])
    for other in copies:
        assert [other.predict_proba_one(x) for x in ROWS] == [model.predict_proba_one(x) for x in ROWS]
    assert model.clone()._encoder is None and model.clone().predict_proba_one(ROWS[0]) == {}


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"size": "big"}, "feature 'size' holds numbers, but 'big' in row 0"),
        ({"size": float("inf")}, "infinity in feature 'size'"),
        ({"size": 1e308}, "feature 'size' in row 0 is 1e\\+308, but numbers of at most"),
        ({"size": [1.0]}, "feature 'size' holds a list"),
        ({"colour": {"a": 1}}, "feature 'colour' holds a dict"),
        ({"colour": "x" * 10_001}, "feature 'colour' holds text of 10,001 bytes in row 0"),
    ],
)
def test_bad_values_are_refused_and_change_nothing(x, message):
    model = learn(BSPForestRegressor(3, seed=0), ROWS[:20])
    before = pickle.dumps(model)
    for call in (lambda x: model.learn_one(x, 1.0), model.predict_one):
        with pytest.raises((ValueError, TypeError), match=message):
            call({**ROWS[0], **x})
    with pytest.raises(TypeError, match="feature 'when' holds"):
        model.learn_one({**ROWS[0], "when": [1.0]}, 1.0)
    assert pickle.dumps(model) == before


def test_text_where_numbers_were_learned():
    model = BSPForestRegressor(3, seed=0)
    model.learn_one({"a": 1.0}, 1.0)
    with pytest.raises(ValueError, match="feature 'a' holds numbers, but 'red' in row 0"):
        model.learn_one({"a": "red"}, 1.0)
    with pytest.raises(ValueError, match="feature 'a' holds numbers, but 'red' in row 0"):
        model.predict_one({"a": "red"})
    assert model.predict_one({"a": None}) == model.predict_one({"a": 1.0})
    assert model._encoder is None


def test_rows_as_tables():
    table = tabulate_row({"b": 2}, {"a": 0, "b": 1, "c": 2}, {"a": "number", "b": "number", "c": "text"})
    assert [table.list_first(k, 1) for k in range(3)] == [[0.0], [2], [None]]


# ----------------------------------------------------------------------------------------------------------------------
# Dates

START = datetime.datetime(2024, 3, 1, 6)
DATES = [{"size": float(k % 5), "when": START + datetime.timedelta(hours=7 * k)} for k in range(60)]


def test_dates_in_dicts():
    """The cycles come with the range; a date may be missing or absent."""
    model = BSPForestRegressor(20, seed=0)
    for k, x in enumerate(DATES):
        model.learn_one({"size": x["size"]} if k == 30 else x, x["when"].hour)
    assert model._encoder.names[1:5] == [
        f"when{name}" for name in (" (days since 1970)", "=(missing)", " (hour, sin)", " (hour, cos)")
    ]
    assert model.predict_one({"size": 1.0, "when": START + datetime.timedelta(days=12, hours=5)}) == pytest.approx(
        11, abs=4
    )
    assert model.feature_importances_["when"] > 0.8
    many = BSPForestRegressor(20, seed=0)
    many.learn_many(
        pd.DataFrame(DATES).assign(when=[None if k == 30 else x["when"] for k, x in enumerate(DATES)]), [0] * 60
    )
    assert many._encoder.names == model._encoder.names
    np.testing.assert_array_equal(many._forest.held_rows(), model._forest.held_rows())


@pytest.mark.parametrize("first", [None, "absent", 3])
def test_dates_that_come_late(first):
    model, text = BSPForestRegressor(3, seed=0), BSPForestRegressor(3, seed=0)
    for k, x in enumerate(DATES):
        x = x if k > 4 else {"size": x["size"], "when": None} if first is None else {"size": x["size"]}
        if first == 3:
            x = {**x, "late": k > 2}
        model.learn_one(x, k)
        text.learn_one({key: value.isoformat() if key == "when" and value else value for key, value in x.items()}, k)
    names, held = model._encoder.names, model._forest.held_rows()
    assert names == text._encoder.names and np.array_equal(held, text._forest.held_rows())
    assert held[:, names.index("when=(missing)")].tolist() == [1] * 5 + [0] * 55
    assert (held[:5, names.index("when (hour, sin)")] == 0.5).all()
    assert (held[:6, names.index("when (days since 1970)")] == held[5, names.index("when (days since 1970)")]).all()
    with pytest.raises(ValueError, match="feature 'when' holds dates, but 'soon' in row 0 is none"):
        model.learn_one({"size": 1.0, "when": "soon"}, 1)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_one(DATES[7]) == model.predict_one(DATES[7])


@pytest.mark.parametrize(("value", "name"), [(START, "late (days since 1970)"), ("red", "late=red"), (2.0, "late")])
def test_a_new_key_whose_first_value_is_missing(value, name):
    """Failed with 'holds numbers': the rows before, which lack the key, counted as numbers."""
    model = BSPForestRegressor(3, seed=0)
    for k, late in enumerate(["absent", None, value, value]):
        model.learn_one({"size": float(k)} if late == "absent" else {"size": float(k), "late": late}, k)
    held = dict(zip(model._encoder.names, model._forest.held_rows().T.tolist(), strict=True))
    assert held["late=(missing)"] == [1, 1, 0, 0] and name in held


def test_durations_in_dicts():
    model = BSPForestRegressor(3, seed=0)
    for k in range(5):
        model.learn_one({"took": datetime.timedelta(minutes=k)}, k)
    assert model._forest.held_rows().ravel().tolist() == [0.0, 60.0, 120.0, 180.0, 240.0]
