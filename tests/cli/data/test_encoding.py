"""Encoding of columns as numbers, and its state in a model file."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from bspforest.cli.data.encoding import Encoder
from bspforest.cli.errors import CommandError


def make_table(n: int, seed: int) -> dict[str, pa.Array]:
    rng = np.random.default_rng(seed)
    gaps = rng.random(n) < 0.3
    return {
        "size": pa.array(rng.normal(10, 3, n), mask=gaps),
        "whole": pa.array(rng.random(n)),
        "flag": pa.array(rng.random(n) < 0.5),
        "colour": pa.array(rng.choice(["red", "green", "blue"], n)),
    }


KINDS = {"size": "number", "whole": "number", "flag": "boolean", "colour": "text"}


def rows_of(table, start, end):
    return {name: values[start:end] for name, values in table.items()}


def encode(encoder, table, borders):
    chunks = []
    for start, end in pairwise(borders):
        X = encoder.encode(rows_of(table, start, end))
        encoder.fill(X)
        chunks.append(X)
    return np.concatenate(chunks)


def test_missing_numbers_become_the_mean_above_for_any_chunks():
    table = make_table(300, 0)
    encoder = Encoder.fit(rows_of(table, 0, 50), KINDS)
    first = encoder.columns[0].mean
    X = encode(encoder, table, [0, 300])
    size = table["size"].to_pylist()
    for i, value in enumerate(size):
        above = [v for v in size[:i] if v is not None]
        expected = value if value is not None else np.mean(above) if above else first
        assert X[i, 0] == pytest.approx(expected, rel=1e-12)
        assert X[i, 1] == (value is None)
    np.testing.assert_allclose(
        encode(Encoder.fit(rows_of(table, 0, 50), KINDS), table, [0, 1, 7, 120, 300]), X, rtol=1e-12
    )


@pytest.mark.parametrize("size", [1e308, np.finfo(float).max])
def test_mean_of_numbers_whose_sum_overflows(size):
    values = np.array([size, size, np.nan, size, size, np.nan] * 50)
    table = {"x": pa.array(values, from_pandas=True), "whole": pa.array(np.full(300, -size))}
    encoder = Encoder.fit(table, {"x": "number", "whole": "number"})
    X = encode(encoder, table, [0, 1, 100, 300])
    np.testing.assert_allclose(X[:, [0, 2]], np.tile([size, -size], (300, 1)), rtol=1e-12)
    content = json.loads(json.dumps(encoder.to_json(), allow_nan=False))
    assert [column["mean"] for column in content] == [pytest.approx(size), pytest.approx(-size)]
    assert [column["count"] for column in content] == [200, 300]


def test_unknown_fields_are_refused():
    content = Encoder.fit({"x": pa.array([1.0])}, {"x": "number"}).to_json()
    with pytest.raises(TypeError, match="total"):
        Encoder.from_json([{**content[0], "total": 1.0}])


def test_json_round_trip_continues_identically():
    table = make_table(200, 1)
    encoder = Encoder.fit(rows_of(table, 0, 50), KINDS)
    encode(encoder, table, [0, 30, 100])
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(encode(again, table, [100, 200]), encode(encoder, table, [100, 200]))
    assert again.to_json() == encoder.to_json()
    assert again.names == [
        "size",
        "size=(missing)",
        "whole",
        "flag",
        "colour=" + table["colour"][0].as_py(),
        *again.names[5:],
    ]


def test_prediction_does_not_change_the_means():
    table = make_table(100, 2)
    encoder = Encoder.fit(table, KINDS)
    encode(encoder, table, [0, 100])
    before = encoder.to_json()
    X = encoder.encode(rows_of(table, 0, 20))
    encoder.fill(X, learn=False)
    assert encoder.to_json() == before
    known = [v for v in table["size"].to_pylist() if v is not None]
    gap = table["size"].to_pylist().index(None)
    assert X[gap, 0] == pytest.approx(np.mean(known))


def test_recount(monkeypatch):
    """The means are as if only these rows had been learned."""
    monkeypatch.setattr("bspforest.cli.data.encoding.BLOCK_ROWS", 30)
    table = make_table(200, 3)
    encoder = Encoder.fit(rows_of(table, 0, 50), KINDS)
    X = encode(encoder, table, [0, 100, 200])
    before = X.copy()
    encoder.recount(X[120:])
    np.testing.assert_array_equal(X, before)
    size = [v for v in table["size"][120:].to_pylist() if v is not None]
    whole, flag = (values[120:].to_numpy(zero_copy_only=False) for values in (table["whole"], table["flag"]))
    found = {column["name"]: column for column in encoder.to_json()}
    assert [found[name]["count"] for name in ("size", "whole", "flag")] == [len(size), 80, 80]
    expected = [np.mean(size), whole.mean(), flag.mean()]
    assert [found[name]["mean"] for name in ("size", "whole", "flag")] == pytest.approx(expected, rel=1e-12)
    encoder.recount(X[:0])
    assert [(column["count"], column["mean"]) for column in encoder.to_json()] == [(0, 0.0)] * 4


def test_categories_that_occur_later():
    encoder = Encoder.fit(
        {"t": pa.array(["a", "b", None]), "x": pa.array([1.0, 2.0, 3.0])}, {"t": "text", "x": "number"}
    )
    assert encoder.names == ["t=a", "t=b", "t=", "t=(other)", "x"]
    X = encoder.encode({"t": pa.array(["c", None, "b"]), "x": pa.array([None, 5.0, None])})
    encoder.fill(X)
    np.testing.assert_array_equal(X, [[0, 0, 0, 1, 2], [0, 0, 1, 0, 5], [0, 1, 0, 0, 5]])


def test_only_frequent_categories_get_a_column():
    values = [f"rare{k}" for k in range(100)] + ["often", "also"] * 5
    encoder = Encoder.fit({"t": pa.array(values)}, {"t": "text"}, max_categories=3)
    assert encoder.names == ["t=rare0", "t=often", "t=also", "t=(other)"]


def test_dates_are_refused():
    with pytest.raises(CommandError, match=r"'day' holds dates.*--drop day"):
        Encoder.fit({"day": pa.array(["2024-01-01"])}, {"day": "date"})
