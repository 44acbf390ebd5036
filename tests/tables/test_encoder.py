"""Test how columns become features."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from table_streams import stream

from bspforest.tables import read_table
from bspforest.tables.reserve import EXACT_LAYOUTS
from bspforest.tables.state import describe_encoder, make_encoder

RAW = {
    "size": [np.nan, np.nan, 4.0, 2.0, np.nan, 6.0],
    "colour": ["red", "blue", None, "red", "green", "blue"],
    "new": [True, False, True, True, False, True],
    "age": [1.0, 2.0, 3.0, 4.0, 5.0, np.nan],
}
ENCODED = np.array(
    [
        # size, gaps, red, blue, missing, green, new, age, gaps
        [4.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0],
        [4.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0],
        [4.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 3.0, 0.0],
        [2.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 4.0, 0.0],
        [3.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 5.0, 0.0],
        [6.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 3.0, 1.0],
    ]
)
NAMES = [
    "size",
    "size=(missing)",
    "colour=red",
    "colour=blue",
    "colour=(missing)",
    "colour=green",
    "new",
    "age",
    "age=(missing)",
]


@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_known_answers_whatever_the_chunks(size):
    """Gaps before the first number wait for it, and a mark, like a category, exists from the first row that needs it."""
    encoder, rows = stream(pd.DataFrame(RAW), size)
    assert encoder.names == NAMES
    np.testing.assert_array_equal(rows, ENCODED)
    np.testing.assert_array_equal(encoder.sums.means, [4.0, 4 / 6, 3.0])
    np.testing.assert_array_equal(encoder.sums.counts, [3, 6, 5])


def test_chunks_of_any_size_round_alike():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(1e3, 1.0, 500), "b": rng.choice(["x", "y", "z"], 500)})
    frame.loc[rng.random(500) < 0.2, "a"] = np.nan
    whole, rows = stream(frame, 500)
    for size in (1, 7, 100):
        encoder, others = stream(frame, size)
        np.testing.assert_array_equal(others, rows)
        assert encoder.sums.totals.tolist() == whole.sums.totals.tolist()


def test_what_is_unknown_is_predicted_without_learning():
    encoder, _ = stream(pd.DataFrame(RAW), 6)
    before = copy.deepcopy(describe_encoder(encoder))
    asked = pd.DataFrame({"size": [np.nan, 1.0], "colour": ["black", None], "new": [None, True], "age": [np.nan, 0.0]})
    rows = encoder.transform(read_table(asked))
    np.testing.assert_array_equal(rows[0], [4.0, 1, 0, 0, 0, 0, 4 / 6, 3.0, 1])
    np.testing.assert_array_equal(rows[1], [1.0, 0, 0, 0, 1, 0, 1.0, 0.0, 0])
    assert describe_encoder(encoder) == before


def test_too_many_categories_share_a_feature():
    values = ["rare", "a", "a", "b", "c", "b", "a"]
    frame = pd.DataFrame({"c": values})
    batch, rows = stream(frame, len(frame), max_categories=2)
    assert batch.names == ["c=a", "c=b", "c=(other)"]  # a first batch knows which are frequent
    np.testing.assert_array_equal(rows.argmax(axis=1), [2, 0, 0, 1, 2, 1, 0])
    online, rows = stream(frame, 1, max_categories=2)
    assert online.names == ["c=rare", "c=a", "c=(other)"]  # a stream takes them as they come
    np.testing.assert_array_equal(rows.argmax(axis=1), [0, 1, 1, 2, 2, 2, 1])
    np.testing.assert_array_equal(online.transform(read_table(pd.DataFrame({"c": ["new"]}))), [[0, 0, 1]])


def test_recount_knows_nothing_of_other_rows():
    frame = pd.DataFrame(RAW)
    encoder, rows = stream(frame, 6)
    kept = [1, 3, 5]
    encoder, rows = encoder.recount(rows[kept])
    expected, expected_rows = stream(frame.iloc[kept], 3)
    assert encoder.names == expected.names
    np.testing.assert_array_equal(rows, expected_rows)
    assert encoder.sums.totals.tolist() == expected.sums.totals.tolist()
    assert encoder.sums.counts.tolist() == expected.sums.counts.tolist()
    nothing, rows = encoder.recount(rows[:0])
    assert nothing.names == ["size", "new", "age"] and rows.shape == (0, 3) and not nothing.sums.means.any()


def test_features_are_reserved_when_new_ones_come_often():
    """Each layout builds the trees afresh: with new categories all the time, there must be few."""
    frame = pd.DataFrame({"c": [f"c{k // 20}" for k in range(4000)]})
    encoder, rows = stream(frame, 1, max_categories=1000)
    assert encoder.n_used == 200
    assert encoder.n_layouts < EXACT_LAYOUTS + 12
    expected, _ = stream(frame, len(frame), max_categories=1000)
    known = encoder.find_sources(expected)
    order = [known.tolist().index(k) for k in range(200)]
    np.testing.assert_array_equal(rows[:, order].argmax(axis=1), np.arange(4000) // 20)
    settled, _ = encoder.learn(read_table(frame[:1]), 9000, 4000)  # nothing new for long: exact again
    assert settled.width == 200 < encoder.width


def test_groups_and_columns_of_features():
    encoder, _ = stream(pd.DataFrame(RAW), 6)
    column_of, groups = encoder.describe_layout()
    assert column_of.tolist() == [0, 0, 1, 1, 1, 1, 2, 3, 3]
    assert groups.tolist() == [0, 1, 2, 2, 2, 2, 6, 7, 8]


def test_state_in_json():
    encoder, _rows = stream(pd.DataFrame(RAW), 2)
    again = make_encoder(describe_encoder(encoder))
    assert describe_encoder(again) == describe_encoder(encoder)
    asked = read_table(pd.DataFrame(RAW))
    np.testing.assert_array_equal(again.transform(asked), encoder.transform(asked))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: s["columns"][0].update(kind="period"), "none of the known kinds"),
        (lambda s: s["columns"][0].update(zone="UTC"), "not of its kind"),
        (lambda s: s["columns"][0].update(waves={"hour, sin": 9}), "not of its kind"),
        (lambda s: s["columns"][0].update(kind="date", waves={"hour, sin": 9}), "not of its kind"),
        (lambda s: s["columns"][0].update(kind="date", zone=5), "not of its kind"),
        (lambda s: s.update(spans=[[0, 1.0, 2.0, True]]), "holds none"),
        (lambda s: (s["columns"][0].update(kind="date"), s.update(spans=[[0, 2.0, 1.0, True]])), "is impossible"),
        (lambda s: s["columns"][0].update(place=1), "same place"),
        (lambda s: s["columns"][0].update(place=99), "same place, or one has none"),
        (lambda s: s["columns"][0].update(place=-1), "not of its kind"),
        (lambda s: s["columns"][1]["categories"].append(["red", 3]), "listed twice"),
        (lambda s: s["columns"][1]["categories"].append([5, 3]), "not text"),
        (lambda s: s.update(counts=[3, -1, 5]), "impossible"),
        (lambda s: s.update(totals=[3.0, float("nan"), 5.0]), "impossible"),
        (lambda s: s.update(totals=[3.0]), "not as many sums as columns"),
        (lambda s: s.update(counts=[3], totals=[3.0]), "not as many sums as columns"),
        (lambda s: s.update(width=2.5), "place"),
    ],
)
def test_damaged_state_is_refused(damage, message):
    state = copy.deepcopy(describe_encoder(stream(pd.DataFrame(RAW), 6)[0]))
    damage(state)
    with pytest.raises(ValueError, match=message):
        make_encoder(state)


def test_sums_of_the_largest_numbers():
    largest = 1e100
    frame = pd.DataFrame({"a": [largest, largest, np.nan, -largest, np.nan]})
    _, rows = stream(frame, 5)
    assert rows[2, 0] == pytest.approx(largest) and rows[4, 0] == pytest.approx(largest / 3)
