"""Test how columns of dates are read and become features."""

from __future__ import annotations

import copy
import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_streams import stream

from bspforest.tables import TableEncoder, read_table
from bspforest.tables.dates import count_days, find_zone
from bspforest.tables.state import describe_encoder, make_encoder

BERLIN = "Europe/Berlin"
ZONES = [None, "UTC", BERLIN, "America/New_York", "Asia/Kathmandu"]
MORNING = datetime.datetime(2024, 3, 29, 9, 30)


def read_days(frame, zone=None):
    """Return the days of a frame with one column, in a zone, and its own zone."""
    table = read_table(frame)
    assert table.find_kind(0) == "date"
    own = find_zone(table.get_column(0))
    return count_days(table.get_column(0), table.names[0], zone or own), own


def make_frames(values, zone):
    """Return the same dates in frames of all libraries, in several types."""
    aware = [None if value is None else value.astimezone(ZoneInfo(zone)) for value in values] if zone else values
    dtype = f"timestamp[us, tz={zone}]" if zone else "timestamp[us]"
    arrow = pa.array(values, pa.timestamp("us", zone))
    return {
        "pandas": pd.DataFrame(
            {"when": pd.Series(values, dtype=f"datetime64[us, {zone}]" if zone else "datetime64[us]")}
        ),
        "objects": pd.DataFrame({"when": pd.Series(aware, dtype=object)}),
        "pandas arrow": pd.DataFrame({"when": pd.Series(arrow.to_pylist(), dtype=f"{dtype}[pyarrow]")}),
        "polars": pl.DataFrame({"when": pl.Series(values, dtype=pl.Datetime("us", zone))}),
        "pyarrow": pa.table({"when": arrow}),
        "array": np.array([aware], dtype=object).T,
    }


moments = st.datetimes(datetime.datetime(1970, 1, 2), datetime.datetime(2037, 12, 30))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.none() | moments, min_size=1, max_size=20).filter(any), st.sampled_from(ZONES))
def test_all_libraries_give_the_same_days(values, zone):
    if zone:
        values = [None if value is None else value.replace(tzinfo=datetime.UTC) for value in values]
    local = [value if value is None or zone is None else value.astimezone(ZoneInfo(zone)) for value in values]
    midnight = datetime.datetime(1970, 1, 1)
    expected = [
        np.nan if value is None else (value.replace(tzinfo=None) - midnight) / datetime.timedelta(1) for value in local
    ]
    frames = make_frames(values, zone)
    first = read_days(frames["pandas"])[0]
    np.testing.assert_allclose(first, expected, rtol=1e-15)
    for name, frame in frames.items():
        days, own = read_days(frame)
        assert own == zone, name
        np.testing.assert_array_equal(days, first, err_msg=name)


def test_units_and_dates_without_times():
    for unit in ("s", "ms", "us", "ns"):
        assert read_days(pd.DataFrame({"when": np.array([MORNING], f"M8[{unit}]")}))[0] == [19811 + 9.5 / 24]
    day = datetime.date(2024, 3, 29)
    for frame in (
        pd.DataFrame({"when": [day, None]}),
        pd.DataFrame({"when": pd.Series([day, None], dtype="date32[pyarrow]")}),
        pd.DataFrame({"when": pd.PeriodIndex(["2024-03-29", None], freq="D")}),
        pl.DataFrame({"when": [day, None]}),
        pa.table({"when": pa.array([day, None], pa.date32())}),
        pa.table({"when": pa.array([day, None], pa.date64())}),
        pd.DataFrame({"when": ["2024-03-29", " "]}),
        np.array([["2024-03-29"], [""]]),
    ):
        np.testing.assert_array_equal(read_days(frame)[0], [19811.0, np.nan])


def test_dates_far_from_today():
    """Nanoseconds end in 2262."""
    years = np.array(["0001-01-01", "1600-01-01", "9999-12-31T23:59:59", "300000-01-01"], dtype="M8[s]")
    days, _ = read_days(pd.DataFrame({"when": years}))
    assert days[0] == -719162.0 and days[2] == pytest.approx(2932897.0) and days[3] > 1e8
    last = [datetime.datetime(9999, 12, 31, 23, tzinfo=ZoneInfo("America/New_York"))]  # no date of Python in UTC
    assert read_days(np.array([last], dtype=object), "UTC")[0] == pytest.approx(2932897.0, abs=1)


def test_text_is_dates_if_its_first_rows_are():
    for texts in (
        ["2024-03-29T09:30", None, "2024-03-30 10:00:00.25"],
        ["2024-03-29T09:30Z", "2024-03-29 11:30+02:00", "2024-03-29T05:30:00-0400"],
    ):
        for frame in (pd.DataFrame({"when": texts}), pl.DataFrame({"when": texts}), pa.table({"when": texts})):
            days, zone = read_days(frame)
            assert days[0] == 19811 + 9.5 / 24 and zone == ("UTC" if "Z" in texts[0] else None)
    assert days.tolist() == [days[0]] * 3
    for texts in (["2024-03-29", "soon"], ["20240329"], ["2024-02-30"], ["29/03/2024"], [None, ""], ["09:30"]):
        assert read_table(pd.DataFrame({"when": texts})).find_kind(0) == "text"
    assert read_table(pd.DataFrame({"when": pd.Categorical(["2024-03-29"])})).find_kind(0) == "text"


@pytest.mark.parametrize("value", ["soon", "2024-02-30", 5, 2.5, True])
def test_what_is_no_date_is_named(value):
    encoder, _ = stream(pd.DataFrame({"when": ["2024-03-29"]}), 1)
    frame = pd.DataFrame({"when": pd.Series(["2024-03-30", value], dtype=object)})
    message = (
        rf"column 'when' holds dates, but {value!r} in row 1 is none: expected a datetime, or text such as '2024-05-31'"
    )
    for call in (encoder.transform, encoder.learn):
        with pytest.raises(ValueError, match=message):
            call(read_table(frame))
    assert np.isnan(encoder._read(read_table(pd.DataFrame({"when": [np.nan]})))[0]).all()


def test_dates_where_others_were_learned():
    encoder, _ = stream(pd.DataFrame({"size": [1.0], "town": ["Bath"]}), 1)
    for bad in ({"size": [MORNING], "town": ["Bath"]}, {"size": [1.0], "town": [MORNING]}):
        for frame in (pd.DataFrame(bad), pl.DataFrame(bad), pd.DataFrame(bad).astype(object)):
            with pytest.raises(TypeError, match="holds dates or times, where numbers or categories are expected"):
                encoder.transform(read_table(frame))


def test_time_zones():
    """Hours are local, also where clocks change; other zones are converted to that of the first rows."""
    utc = pd.date_range("2024-03-29 09:30", periods=4, freq="D", tz="UTC")
    encoder, rows = stream(pd.DataFrame({"when": utc.tz_convert(BERLIN)}), 4)
    assert encoder.columns[0].zone == BERLIN
    np.testing.assert_allclose(rows[:, 0] % 1 * 24, [10.5, 10.5, 11.5, 11.5])
    for other in (utc, utc.tz_convert("+05:00"), utc.map(lambda time: time.isoformat())):
        np.testing.assert_array_equal(encoder.transform(read_table(pd.DataFrame({"when": other}))), rows)
    fixed, _ = stream(pd.DataFrame({"when": utc.tz_convert("+05:00")}), 4)
    assert fixed.columns[0].zone == "UTC"
    naive, _ = stream(pd.DataFrame({"when": utc.tz_localize(None)}), 4)
    for this, frame in ((encoder, utc.tz_localize(None)), (naive, utc)):
        for dates in (frame, frame.astype(object), frame.map(lambda time: time.isoformat())):
            with pytest.raises(
                ValueError, match=r"column 'when' has times with .*expected times with a zone everywhere"
            ):
                this.transform(read_table(pd.DataFrame({"when": dates})))
    with pytest.raises(ValueError, match=r"the time zone 'Mars/Base' is unknown on this machine: pip install tzdata"):
        read_days(pd.DataFrame({"when": ["2024-03-29T00:00Z"]}), "Mars/Base")


@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Etc/GMT+5", "America/Port-au-Prince"])
def test_zones_of_missing_dates(zone):
    """Failed with zones whose names narwhals cannot read from pandas."""
    missing = pd.Series(np.full(3, "NaT", "M8[us]")).dt.tz_localize(zone)
    arrow = pa.array([None] * 3, pa.timestamp("us", zone))
    for column in (missing, missing.astype(f"timestamp[us, tz={zone}][pyarrow]"), pl.Series(arrow)):
        days, own = read_days(type(column.to_frame())({"when": column}))
        assert own == zone and np.isnan(days).all()
    assert read_days(pa.table({"when": arrow}))[1] == zone


def test_durations_and_times_of_day_are_seconds():
    spans, times = [datetime.timedelta(minutes=1, microseconds=5), None], [datetime.time(0, 1, 0, 5), None]
    for frame in (
        pd.DataFrame({"a": pd.Series(spans), "b": times}),
        pd.DataFrame({"a": pd.Series(spans, dtype="duration[us][pyarrow]"), "b": pd.Series(times, dtype=object)}),
        pl.DataFrame({"a": spans, "b": times}),
        pa.table({"a": spans, "b": times}),
        np.array([spans, times], dtype=object).T,
    ):
        table = read_table(frame)
        for k in range(2):
            assert table.find_kind(k) == "number"
            np.testing.assert_array_equal(table.get_numbers(k), [60.000005, np.nan])


# ----------------------------------------------------------------------------------------------------------------------
# Features

TIMES = pd.Series(pd.date_range("2023-11-01 06:00", periods=8 * 24, freq="h"))


@pytest.mark.parametrize("size", [1, 7, 50])
def test_chunks_give_the_features_of_a_batch(size):
    frame = pd.DataFrame({"a": np.arange(len(TIMES)), "when": TIMES})
    frame.loc[[0, 1, 9, 40], "when"] = pd.NaT
    whole, rows = stream(frame, len(frame))
    encoder, others = stream(frame, size)
    names = ["days since 1970", "hour, sin", "hour, cos", "weekday, sin", "weekday, cos"]
    expected = ["a", *(f"when ({name})" for name in names)]
    assert encoder.names == whole.names == [*expected[:2], "when=(missing)", *expected[2:]]
    np.testing.assert_array_equal(others, rows)
    assert encoder.spans == whole.spans and encoder.sums.totals.tolist() == whole.sums.totals.tolist()
    assert (rows[[0, 1, 9, 40], 3:] == 0.5).all() and rows[0, 1] == rows[2, 1]  # filled as numbers are
    phase = 2 * np.pi * TIMES.dt.hour[60] / 24
    np.testing.assert_allclose(rows[60, 3:5], [0.5 + 0.5 * np.sin(phase), 0.5 + 0.5 * np.cos(phase)], atol=1e-9)
    assert len(np.unique(rows[41:, 5].round(9))) == 7  # weekdays change at midnight
    column_of, groups = whole.describe_layout()
    assert column_of.tolist() == [0, 1, 1, 1, 1, 1, 1] and groups.tolist() == [0, 1, 2, 3, 3, 5, 5]


@pytest.mark.parametrize(
    ("dates", "cycles"),
    [
        (["2024-03-29 09:30"], []),
        (TIMES[:20], []),
        (TIMES[:23], ["hour"]),
        (pd.date_range("2024-01-01", periods=6), []),
        (pd.date_range("2024-01-01", periods=7), ["weekday"]),
        (pd.date_range("2024-01-01", "2024-12-31"), ["weekday", "time of year"]),
        (["2020-01-01 09:30", "2024-01-01 00:00"], ["hour", "weekday", "time of year"]),
        ([None, None], []),
    ],
)
def test_cycles_come_when_the_range_shows_them(dates, cycles):
    encoder, _ = stream(pd.DataFrame({"when": pd.to_datetime(dates)}), 100)
    assert [name[6:-6] for name in encoder.names if name.endswith("sin)")] == cycles


def test_later_dates_change_features_at_most_three_times():
    frame = pd.DataFrame({"when": pd.date_range("2023-01-01", periods=500, freq="23h")})
    encoder, _ = stream(frame, 1)
    assert encoder.n_layouts == 3
    again, _ = encoder.learn(read_table(frame), 500, 500)
    assert again.columns is encoder.columns


def test_recount_knows_nothing_of_other_dates():
    frame = pd.DataFrame({"when": TIMES})
    frame.loc[3, "when"] = pd.NaT
    encoder, rows = stream(frame, 200)
    kept = [3, *range(10, 40)]
    encoder, rows = encoder.recount(rows[kept])
    expected, expected_rows = stream(frame.iloc[kept], 31)
    assert encoder.names == expected.names and encoder.spans == expected.spans
    np.testing.assert_array_equal(rows, expected_rows)


def test_state_of_dates_in_json():
    frame = pd.DataFrame(
        {"when": TIMES.dt.tz_localize(BERLIN), "never": pd.Series([None] * len(TIMES), dtype="M8[us]")}
    )
    encoder, rows = stream(frame, 50)
    state = copy.deepcopy(describe_encoder(encoder))
    again = make_encoder(state)
    assert describe_encoder(again) == state and again.spans[0] == encoder.spans[0]
    np.testing.assert_array_equal(again.transform(read_table(frame)), rows)


def test_named_categories_are_no_dates():
    table = read_table(pd.DataFrame({"when": ["2024-03-29", "2024-03-30"]}))
    encoder, _ = TableEncoder.begin(table, ["when"], [True]).learn(table)
    assert encoder.names == ["when=2024-03-29", "when=2024-03-30"]
