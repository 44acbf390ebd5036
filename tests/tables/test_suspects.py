"""Test which columns of text are taken for dates, ids and numbers, and what the warnings say."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.tables.suspects import MIN_ID_ROWS, SAMPLE_ROWS, ColumnWarning, describe_suspect

IDS = [f"ord-{k:05}" for k in range(80)]
WEIGHTS = ["unknown" if k % 20 == 3 else f"{k / 8}" for k in range(80)]


def make_frame():
    """Return a frame with a column of each kind, as pandas reads it from CSV."""
    lines = ["created,order_id,weight,city"]
    for k in range(80):
        lines.append(f"{1 + k % 28}/3/2024 1{k % 10}:30,{IDS[k]},{WEIGHTS[k]},{'Paris' if k % 3 else 'Rome'}")
    return pd.read_csv(io.StringIO("\n".join(lines))), np.arange(80.0)


def collect(learn):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        learn()
    return [warning for warning in found if issubclass(warning.category, ColumnWarning)]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["31/03/2024", "1/4/2024", None], ["in another notation than 2024-05-31", "pd.to_datetime"]),
        (["10:30", "11:45", np.nan, ""], ["in another notation", "pd.to_timedelta"]),
        (["2024-03-01", "2024-03-02", "soon"], ["dates as text, with words such as 'soon'", 'errors="coerce"']),
        (IDS, ["as an id does", "leave it out", "keys="]),
        (["red", *IDS], ["as an id does"]),
        (WEIGHTS, ["'unknown'", 'pd.to_numeric(..., errors="coerce")']),
        ([1.5, 2, "?"], ["'?'", "pd.to_numeric"]),
        ([*range(30), "none"], ["'none'", "pd.to_numeric"]),
    ],
)
def test_suspects_and_their_remedies(values, words):
    found = describe_suspect(values)
    assert found is not None and all(word in found for word in words)


@pytest.mark.parametrize(
    "values",
    [
        ["red", "blue"] * 50,
        IDS[: MIN_ID_ROWS - 1],
        IDS + IDS[:10],
        ["1", "2", "3", "K"] * 20,  # grades
        ["2024-03-01", "soon"],
        ["A1", "B2", "1.5"],
        [None, np.nan, ""],
        [],
    ],
)
def test_categories_are_no_suspects(values):
    assert describe_suspect(values) is None


@pytest.mark.parametrize("convert", [lambda frame: frame, lambda f: pl.DataFrame(f.to_dict("list"))])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_estimators_warn_once(method, convert):
    frame, y = make_frame()
    X, forest = convert(frame), BSPForestRegressor(2)
    found = collect(lambda: getattr(forest, method)(X, y))
    names = ["created", "order_id", "weight"]
    assert [str(warning.message).split(" holds ")[0] for warning in found] == [f"Column {name!r}" for name in names]
    assert all("dtype category, or name it in categorical_features." in str(warning.message) for warning in found)
    assert {warning.filename for warning in found} == {__file__}  # the call of the user
    assert collect(lambda: forest.partial_fit(X, y)) == collect(lambda: forest.predict(X)) == []


def test_a_classifier_and_tables_of_other_kinds_warn():
    frame, y = make_frame()
    labels = y > 40
    for X in (frame, frame.head(10), pa.table(frame.to_dict("list")), frame.to_numpy(object)):
        n = len(X)
        found = collect(lambda X=X, n=n: BSPForestClassifier(2).partial_fit(X, labels[:n], classes=[False, True]))
        assert len(found) == (3 if n >= MIN_ID_ROWS else 2)


def test_what_is_meant_as_categories_is_not_warned_of():
    frame, y = make_frame()
    for X in (
        frame.astype("category"),
        frame.head(10).astype("category"),
        pl.DataFrame(frame.to_dict("list")).with_columns(pl.all().cast(pl.Categorical)),
        pa.table({name: pa.array(frame[name].tolist()).dictionary_encode() for name in frame}),
    ):
        assert collect(lambda X=X: BSPForestRegressor(2).fit(X, y[: len(X)])) == []
    assert collect(lambda: BSPForestRegressor(2, categorical_features=list(frame.columns)).fit(frame, y)) == []
    assert collect(lambda: BSPForestRegressor(2).fit(frame[["city"]], y)) == []


def test_only_the_first_rows_are_looked_at():
    n = SAMPLE_ROWS + 100
    frame = pd.DataFrame({"city": ["Rome", "Paris"] * (SAMPLE_ROWS // 2) + [f"x{k}" for k in range(100)]})
    assert collect(lambda: BSPForestRegressor(2).fit(frame, np.arange(float(n)))) == []


def test_the_command_has_its_own_hints(tmp_path):
    """Fails if a warning of the estimators is printed beside them."""
    rows = [f"{order},{weight},{k}" for k, (order, weight) in enumerate(zip(IDS, WEIGHTS, strict=True))]
    (tmp_path / "d.csv").write_text("\n".join(["order_id,weight,y", *rows]) + "\n")
    command = [sys.executable, "-m", "bspforest.cli", "evaluate", "d.csv", "--target", "y", "--trees", "2"]
    options = ["--text", "weight", "--chunk-rows", "60", "--task", "regression"]
    run = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Column 'order_id': text with 80 different values" in run.stdout
    assert run.stderr == ""
