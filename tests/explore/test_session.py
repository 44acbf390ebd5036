"""A session: its forests learn the same rows, its pictures and numbers are theirs."""

from __future__ import annotations

import base64
import json
import math

import numpy as np
import pytest

from bspforest.explore import STREAMS, PlaneStream, Session, make_stream
from bspforest.explore.learner import MODELS, Row
from bspforest.explore.pictures import GRID, View, make_grid
from bspforest.explore.session import Refused

BOTH = ("bsp-ridge", "mondrian-mean")


def make(name="bumps", n=40, models=BOTH, **parameters):
    session = Session(make_stream(name, 1), n_trees=5, **parameters)
    if n:
        session.learn(n, models)
    return session


def decode(text, kind="<f8"):
    return np.frombuffer(base64.b64decode(text), kind)


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_what_they_say(name):
    stream = make_stream(name, 3)
    assert np.isfinite(stream.X).all() and np.isfinite(stream.y).all()
    assert set(stream.y) == set(range(len(stream.classes))) or not stream.classes
    low, high = stream.limits
    assert np.greater(stream.X, low).all() and np.less(stream.X, high).all()
    np.testing.assert_array_equal(stream.X, make_stream(name, 3).X)
    assert not np.array_equal(stream.X, make_stream(name, 4).X)


def test_all_forests_hold_the_rows_of_the_session():
    session = make(n=30)
    session.add(Row(0.5, 0.25, 7.0), BOTH)
    session.forget(4, BOTH)
    session.learn(2, BOTH)
    table = np.array(list(session.rows.values()))
    assert [*session.rows] == [k for k in range(33) if k != 4]
    assert session.rows[30] == (0.5, 0.25, 7.0)
    for learner in session.learners.values():
        held = learner.forest.held_rows()
        np.testing.assert_array_equal(held.ids, [*session.rows])
        np.testing.assert_array_equal(np.column_stack([held.X, held.y]), table)


@pytest.mark.parametrize("name", ["bumps", "spirals"])
@pytest.mark.parametrize("shows", ["prediction", "uncertainty"])
def test_surface_at_the_right_end_is_what_the_forest_predicts(name, shows):
    session = make(name)
    X = make_grid(session.stream.limits)
    state = session.describe(View(BOTH, shows))
    for panel in state["panels"]:
        forest = session.learners[panel["model"]].forest
        values = decode(panel["surface"]["values"])
        if name == "bumps":
            expected = forest.predict(X, return_std=True)[shows == "uncertainty"]
        else:
            shares = forest.predict_proba(X)
            np.testing.assert_array_equal(decode(panel["surface"]["best"], "<u1"), shares.argmax(axis=1))
            expected = shares.max(axis=1) if shows == "prediction" else 1.0 - shares.max(axis=1)
        assert values.shape == (GRID * GRID,)
        np.testing.assert_array_equal(values, expected)


def test_the_grid_begins_at_the_upper_left():
    X = make_grid(np.array([[0.0, 10.0], [1.0, 20.0]]))
    assert X[0] == pytest.approx([0.5 / GRID, 20 - 5 / GRID])
    assert X[-1] == pytest.approx([1 - 0.5 / GRID, 10 + 5 / GRID])


@pytest.mark.parametrize("model", MODELS)
def test_numbers_at_a_place_are_those_of_the_forest(model):
    session = make(models=(model, model))
    forest = session.learners[model].forest
    mean, std = forest.predict([[0.3, 0.6]], return_std=True)
    for places in (
        session.read_place(View((model, model), place=(0.3, 0.6))),
        [panel["place"] for panel in session.describe(View((model, model), place=(0.3, 0.6)))["panels"]],
    ):
        assert places == [{"prediction": mean[0], "std": std[0]}] * 2
    state = session.describe(View((model, model)))
    assert state["panels"][0]["held"] == forest.n_samples_ == 40
    assert state["panels"][0]["leaves"] == pytest.approx(np.mean([tree.n_leaves for tree in forest.trees_]))
    assert state["time"] is None


def test_the_slider_goes_from_one_leaf_to_all():
    session = make()
    leaves, times = [], []
    for budget in (0.0, 0.25, 0.5, 0.75, 1.0):
        state = session.describe(View(BOTH, budget=budget, tree=2, is_tree=True))
        times.append(state["time"])
        panel = state["panels"][0]
        leaves.append(panel["leaves"])
        assert len(panel["cells"]["polygons"]) == len(panel["cells"]["values"]) == panel["leaves"]
        assert len(panel["cuts"]) == panel["leaves"] - 1
    assert leaves[0] == 1 and leaves[-1] == session.learners["bsp-ridge"].forest.trees_[2].n_leaves
    assert leaves == sorted(leaves) and len(set(leaves)) > 3
    assert times[:-1] == sorted(times[:-1]) and times[-1] is None


def test_a_cell_has_the_value_of_its_rows():
    session = make("moons")
    state = session.describe(View(BOTH, tree=1, is_tree=True, budget=0.8))
    cells = state["panels"][1]["cells"]
    learner = session.learners["mondrian-mean"]
    for polygon, value, best in zip(cells["polygons"], cells["values"], cells["best"], strict=True):
        corners = np.array(polygon).reshape(-1, 2)
        low, high = corners.min(axis=0), corners.max(axis=0)  # a rectangle
        inside = [row for row in session.rows.values() if (row[:2] > low).all() and (row[:2] < high).all()]
        shares = np.bincount([int(row.label) for row in inside], minlength=2) / len(inside)
        assert value == pytest.approx(shares.max()) and shares[best] == shares.max()
    assert learner.count_leaves(state["time"], 1) == len(cells["values"]) > 1


@pytest.mark.parametrize("name", ["bumps", "moons"])
def test_errors_are_those_of_predictions_before_learning(name):
    session, errors = make(name, 0), {model: [] for model in BOTH}
    for k in range(130):
        if k:
            for model in BOTH:
                predicted = session.learners[model].forest.predict(session.stream.X[k : k + 1])[0]
                label = session.stream.y[k]
                errors[model].append((predicted - label) ** 2 if name == "bumps" else predicted != label)
        session.learn(1, BOTH)
    for panel in session.describe(View(BOTH))["panels"]:
        mean = np.mean(errors[panel["model"]][-100:])
        assert panel["error"] == pytest.approx(math.sqrt(mean) if name == "bumps" else mean)
        assert panel["curve"][-1] == (130, panel["error"])
        assert panel["error_rows"] == 100


def test_another_model_learns_the_rows_held():
    session = make(n=25)
    session.forget(3, BOTH)
    view = View(("bsp-ridge", "bsp-mean"))
    state = session.describe(view)
    assert set(session.learners) == {"bsp-ridge", "bsp-mean"}
    forest = session.learners["bsp-mean"].forest
    np.testing.assert_array_equal(forest.held_rows().X, session.learners["bsp-ridge"].forest.held_rows().X)
    assert state["panels"][1]["error"] is None and state["panels"][1]["curve"] == []
    session.forget(20, view.models)  # by its number in the session, not in this forest
    assert forest.held_keys() == [str(k) for k in range(25) if k not in (3, 20)]
    session.learn(1, view.models)
    assert session.describe(view)["panels"][1]["curve"][0][0] == 26


def test_undo_takes_back_additions_and_forgetting():
    session = make(n=5)
    session.add(Row(0.5, 0.5, 1.0), BOTH)
    session.forget(2, BOTH)
    assert session.undo(BOTH) == "Row 2 learned again, as row 6; 6 rows held."
    assert session.undo(BOTH) == "Row 5 forgotten again; 5 rows held."
    assert [*session.rows] == [0, 1, 3, 4, 6]
    assert session.undo(BOTH) == "Nothing to undo."


def test_messages_say_what_happened():
    session = make(n=1)
    assert session.add(Row(0.3, 0.52, 1.0), BOTH) == "Row 1 added at x = 0.3, y = 0.52; 2 rows held."
    assert session.forget(1, BOTH).startswith("Row 1 forgotten at x = 0.3, y = 0.52; 1 row held.")
    assert session.learn(2, BOTH) == "2 rows arrived; 3 rows held."
    assert session.reset("moons") == "Two moons: started again, no rows held."


def test_all_rows_can_be_forgotten():
    session = make(n=2)
    session.forget(0, BOTH)
    session.forget(1, BOTH)
    state = session.describe(View(BOTH, place=(0.5, 0.5), is_tree=True, budget=0.5))
    assert state["held"] == 0 and state["panels"][0]["place"] is None and "cells" not in state["panels"][0]
    session.learn(1, BOTH)
    assert session.describe(View(BOTH))["panels"][1]["held"] == 1


def test_a_window_holds_the_latest_rows():
    session = make("drift", n=0, window=20)
    session.learn(33, BOTH)
    assert [*session.rows] == [*range(13, 33)]
    for learner in session.learners.values():
        assert learner.forest.held_keys() == [str(k) for k in session.rows]
    assert session.hold(30) == "Holding the latest 30 rows from now on; 20 rows held."
    session.learn(20, BOTH)
    assert session.hold(20) == "Holding the latest 20 rows from now on; 20 rows held."
    assert [*session.rows] == [*range(33, 53)]
    session.describe(View(("bsp-mean", "bsp-mean")))  # built from the window
    session.learn(1, ("bsp-mean", "bsp-mean"))
    assert session.learners["bsp-mean"].forest.held_keys() == [str(k) for k in range(34, 54)]
    assert session.hold(None) == "Holding all rows that come from now on; 20 rows held."
    session.learn(1, BOTH)
    assert session.learners[BOTH[0]].forest.held_keys() == [str(k) for k in range(34, 55)] == [*map(str, session.rows)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.forget(40, BOTH), "row 40 is not held"),
        (lambda s: s.add(Row(7.0, 0.5, 1.0), BOTH), "x must be between -0.0.* and 1.0.*, got 7.0"),
        (lambda s: s.add(Row(0.5, -7.0, 1.0), BOTH), "y must be between"),
        (lambda s: s.reset("sea"), "stream must be one of bumps, waves.*, got 'sea'"),
    ],
)
def test_what_cannot_be_done_changes_nothing(change, message):
    session = make()
    before = session.describe(View(BOTH))
    with pytest.raises(Refused, match=message):
        change(session)
    assert session.describe(View(BOTH)) == before


@pytest.mark.parametrize("label", [-1.0, 2.0, 0.5])
def test_a_class_must_exist(label):
    with pytest.raises(Refused, match="label must be a whole number from 0 to 1"):
        make("moons").add(Row(0.5, 0.5, label), BOTH)


@pytest.fixture
def most_rows(monkeypatch):
    """Let the page hold no more than 30 rows."""
    monkeypatch.setattr("bspforest.explore.session.MAX_ROWS", 30)


ROW = Row(0.5, 0.5, 1.0)
CHANGES = {"learn": lambda s: s.learn(1, BOTH), "add": lambda s: s.add(ROW, BOTH), "undo": lambda s: s.undo(BOTH)}


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_exceeds_the_rows_that_the_page_holds(most_rows, change):
    session = make(n=30)
    session.forget(3, BOTH)
    session.learn(1, BOTH)
    before = session.describe(View(BOTH))
    with pytest.raises(Refused, match="the page holds at most 30 rows: forget some, choose a window, or start again"):
        CHANGES[change](session)
    assert session.describe(View(BOTH)) == before
    session.hold(30)  # now each row takes the place of the oldest one
    CHANGES[change](session)
    assert len(session.rows) == 30 and 0 not in session.rows
    session.forget(4, BOTH)
    session.hold(None)
    CHANGES[change](session)
    assert len(session.rows) == 30


def test_a_window_is_no_larger_than_the_rows_that_the_page_holds(most_rows):
    session = make(n=5)
    with pytest.raises(Refused, match="the page holds at most 30 rows: window must not be larger, got 1,000"):
        session.hold(1000)
    with pytest.raises(Refused, match="window must not be larger, got 31"):
        make(window=31)
    assert session.window is None
    assert session.hold(30).startswith("Holding the latest 30 rows")


def test_a_stream_ends():
    session = make(n=0)
    session.position = len(session.stream) - 2
    assert session.learn(5, BOTH).startswith("2 rows arrived")
    assert session.learn(5, BOTH) == "The stream has ended; 2 rows held."


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_are_described_as_json(n):
    session = make(n=n)
    at = (0.5, 0.5)
    for view in (
        View(BOTH, is_tree=True, place=at),
        View(BOTH, place=at),
        View(BOTH, "uncertainty", budget=0.5, place=at),
    ):
        json.dumps(session.describe(view), allow_nan=False)


@pytest.mark.parametrize(("label", "classes"), [(0.0, ()), (0.0, ("only",)), (1e17, ()), (-1e17, ()), (1e-9, ())])
def test_rows_that_are_all_alike(label, classes):
    """Without any spread, scales have ends that differ."""
    stream = PlaneStream("same", "Same", np.full((30, 2), 3.0), np.full(30, label), classes)
    assert stream.scale[0] < stream.scale[1] and stream.spread > 0
    assert (stream.limits[0] < stream.limits[1]).all()
    session = Session(stream, n_trees=3)
    session.learn(20, BOTH)
    for view in (View(BOTH, budget=0.5), View(BOTH, is_tree=True), View(BOTH, "uncertainty", place=(3.0, 3.0))):
        state = session.describe(view)
        json.dumps(state, allow_nan=False)
        assert state["panels"][0]["leaves"] == 1


def test_a_model_that_is_shown_again_begins_a_new_running_error():
    session = make(n=10)
    before = session.learners[BOTH[1]].errors.curve.copy()
    session.learn(5, (BOTH[0], BOTH[0]))
    session.describe(View(BOTH))
    predicted = session.learners[BOTH[1]].forest.predict(session.stream.X[15:16])[0]
    session.learn(1, BOTH)
    panel = session.describe(View(BOTH))["panels"][1]
    assert panel["error"] == pytest.approx(abs(predicted - session.stream.y[15]))
    assert panel["curve"] == [*before, (16, panel["error"])]


def test_at_the_time_of_a_cut_it_is_made():
    learner = make().learners[BOTH[0]]
    times = learner.cut_times[2]
    assert [learner.count_leaves(time, 2) for time in times] == [*range(2, len(times) + 2)]


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e9])
def test_pictures_do_not_depend_on_the_scale_of_columns(scale):
    X = np.random.default_rng(0).random((30, 2))
    stream = PlaneStream("small", "Small", X * [scale, 1.0], X[:, 0])
    session, models = Session(stream, n_trees=3), ("bsp-ridge", "mondrian-ridge")
    session.learn(30, models)
    low, high = stream.limits
    for panel in session.describe(View(models, is_tree=True))["panels"]:
        corners = np.concatenate([np.reshape(polygon, (-1, 2)) for polygon in panel["cells"]["polygons"]])
        corners = (corners - low) / (high - low)
        assert len(np.unique(corners.round(4), axis=0)) > 30
        assert corners.min(axis=0) == pytest.approx([0, 0], abs=2e-5)
        assert corners.max(axis=0) == pytest.approx([1, 1], abs=2e-5)
        cuts = np.array(panel["cuts"])
        assert len(np.unique(cuts[:, :4], axis=0)) == len(cuts) == 29
        assert (cuts[:, 4] > 0).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e39, 1e100])
@pytest.mark.parametrize("shows", ["prediction", "uncertainty"])
def test_surfaces_of_huge_labels_are_finite(size, shows):
    rng = np.random.default_rng(0)
    session = Session(PlaneStream("huge", "Huge", rng.random((30, 2)), rng.random(30) * size), n_trees=3)
    session.learn(30, BOTH)
    session.add(Row(0.5, 0.5, -size), BOTH)
    state = session.describe(View(BOTH, shows, place=(0.5, 0.5)))
    json.dumps(state, allow_nan=False)
    for panel in state["panels"]:
        values = decode(panel["surface"]["values"])
        assert np.isfinite(values).all() and len(np.unique(values)) > 10


def test_surfaces_tell_labels_far_from_0_apart():
    X = np.random.default_rng(0).random((30, 2))
    session = Session(PlaneStream("far", "Far", X, 1.7e9 + X[:, 0]), n_trees=3)
    session.learn(30, BOTH)
    values = decode(session.describe(View(BOTH))["panels"][1]["surface"]["values"])
    assert len(np.unique(values)) > 10
