"""Columns as numbers: what is settled on the first rows, what runs along, and what is kept."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from bspforest.cli.data.encoding import Encoder
from bspforest.cli.data.target import Target, make_target, parse_classes, sort_classes
from bspforest.cli.errors import CommandError, UsageError
from bspforest.cli.evaluation.scores import MOST_POINTS, ClassScores, NumberScores


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


def part(table, start, end):
    return {name: values[start:end] for name, values in table.items()}


def encode(encoder, table, borders):
    chunks = []
    for start, end in pairwise(borders):
        X = encoder.encode(part(table, start, end))
        encoder.fill(X)
        chunks.append(X)
    return np.concatenate(chunks)


def test_gaps_are_filled_by_the_mean_above_whatever_the_chunks():
    table = make_table(300, 0)
    encoder = Encoder.fit(part(table, 0, 50), KINDS)
    first = encoder.columns[0].mean
    X = encode(encoder, table, [0, 300])
    size = table["size"].to_pylist()
    for i, value in enumerate(size):
        above = [v for v in size[:i] if v is not None]
        expected = value if value is not None else np.mean(above) if above else first
        assert X[i, 0] == pytest.approx(expected, rel=1e-12)
        assert X[i, 1] == (value is None)
    np.testing.assert_allclose(
        encode(Encoder.fit(part(table, 0, 50), KINDS), table, [0, 1, 7, 120, 300]), X, rtol=1e-12
    )


@pytest.mark.parametrize("size", [1e308, np.finfo(float).max])
def test_numbers_whose_sum_overflows_have_a_mean(size):
    values = np.array([size, size, np.nan, size, size, np.nan] * 50)
    table = {"x": pa.array(values, from_pandas=True), "whole": pa.array(np.full(300, -size))}
    encoder = Encoder.fit(table, {"x": "number", "whole": "number"})
    X = encode(encoder, table, [0, 1, 100, 300])
    np.testing.assert_allclose(X[:, [0, 2]], np.tile([size, -size], (300, 1)), rtol=1e-12)
    content = json.loads(json.dumps(encoder.to_json(), allow_nan=False))
    assert [column["mean"] for column in content] == [pytest.approx(size), pytest.approx(-size)]
    assert [column["count"] for column in content] == [200, 300]


def test_other_fields_are_refused():
    content = Encoder.fit({"x": pa.array([1.0])}, {"x": "number"}).to_json()
    with pytest.raises(TypeError, match="total"):
        Encoder.from_json([{**content[0], "total": 1.0}])


def test_going_on_from_json_is_going_on():
    table = make_table(200, 1)
    encoder = Encoder.fit(part(table, 0, 50), KINDS)
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


def test_prediction_leaves_the_means_alone():
    table = make_table(100, 2)
    encoder = Encoder.fit(table, KINDS)
    encode(encoder, table, [0, 100])
    before = encoder.to_json()
    X = encoder.encode(part(table, 0, 20))
    encoder.fill(X, learn=False)
    assert encoder.to_json() == before
    known = [v for v in table["size"].to_pylist() if v is not None]
    gap = table["size"].to_pylist().index(None)
    assert X[gap, 0] == pytest.approx(np.mean(known))


def test_means_are_taken_anew_over_the_rows_left(monkeypatch):
    """As if the others had never been learned; only gaps without a column that says so count as numbers."""
    monkeypatch.setattr("bspforest.cli.data.encoding.BLOCK_ROWS", 30)
    table = make_table(200, 3)
    encoder = Encoder.fit(part(table, 0, 50), KINDS)
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


def test_values_that_come_later():
    encoder = Encoder.fit(
        {"t": pa.array(["a", "b", None]), "x": pa.array([1.0, 2.0, 3.0])}, {"t": "text", "x": "number"}
    )
    assert encoder.names == ["t=a", "t=b", "t=", "t=(other)", "x"]
    X = encoder.encode({"t": pa.array(["c", None, "b"]), "x": pa.array([None, 5.0, None])})
    encoder.fill(X)
    np.testing.assert_array_equal(X, [[0, 0, 0, 1, 2], [0, 0, 1, 0, 5], [0, 1, 0, 0, 5]])


def test_many_values_keep_the_frequent_ones():
    values = [f"rare{k}" for k in range(100)] + ["often", "also"] * 5
    encoder = Encoder.fit({"t": pa.array(values)}, {"t": "text"}, max_categories=3)
    assert encoder.names == ["t=rare0", "t=often", "t=also", "t=(other)"]


def test_dates_are_refused_with_a_hint():
    with pytest.raises(CommandError, match=r"'day' holds dates.*--drop day"):
        Encoder.fit({"day": pa.array(["2024-01-01"])}, {"day": "date"})


@pytest.mark.parametrize(
    ("values", "kind", "task"),
    [
        ([1, 0, 1], "integer", "classification"),
        (list(range(21)), "integer", "regression"),
        ([1.5, 2.0], "number", "regression"),
        (["a", "b"], "text", "classification"),
        ([True, False], "boolean", "classification"),
    ],
)
def test_tasks(values, kind, task):
    assert make_target("y", kind, pa.array(values), None)[0].task == task
    if kind == "integer":
        other = {"classification": "regression", "regression": "classification"}[task]
        assert make_target("y", kind, pa.array(values), other)[0].task == other


def test_targets():
    with pytest.raises(UsageError, match="holds text"):
        make_target("y", "text", pa.array(["a"]), "regression")
    with pytest.raises(CommandError, match="dates"):
        make_target("y", "date", pa.array(["2024-01-01"]), None)
    target = Target("y", "integer", "classification")
    assert parse_classes(target, "3, 1,2") == [1, 2, 3]
    with pytest.raises(UsageError, match="--classes 1,x"):
        parse_classes(target, "1,x")
    target.classes = [1, 2, 3]
    index, bad = target.encode(pa.array([3, None, 9, 1]))
    assert bad.tolist() == [False, True, True, False]
    assert index[~bad].tolist() == [2, 0] and target.labels.tolist() == [1, 2, 3]
    assert "a new class, 9" in target.explain(9) and "--classes" in target.explain(9)


def test_classes_that_are_numbers():
    target = Target("y", "number", "classification", [1.0, 2.0])
    assert target.labels.tolist() == [1.0, 2.0]
    target.classes = [0.5, 2.0]  # scikit-learn takes these for labels of a regression
    assert target.labels.tolist() == [0, 1] and target.names.tolist() == [0.5, 2.0]
    values = pa.array([2.0, np.nan, None, np.inf, 0.5])
    assert sort_classes(values) == [0.5, 2.0]
    index, bad = target.encode(values)
    assert index[~bad].tolist() == [1, 0] and bad.tolist() == [False, True, True, True, False]
    assert "no value" in target.explain(np.nan) and "not finite" in target.explain(np.inf)


def test_scores_are_those_of_scikit_learn():
    from sklearn import metrics

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 700)
    shares = rng.dirichlet(np.ones(3), 700)
    said = shares.argmax(axis=1)
    scores = ClassScores(window=200, n_classes=3)
    for k in range(0, 700, 50):
        scores.add(truth[k : k + 50], said[k : k + 50], shares[k : k + 50])
    for found, rows in ((scores.overall(), slice(None)), (scores.recent(), slice(500, None))):
        assert found["accuracy"] == pytest.approx(metrics.accuracy_score(truth[rows], said[rows]))
        assert found["log loss"] == pytest.approx(metrics.log_loss(truth[rows], shares[rows], labels=[0, 1, 2]))
        assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(truth[rows], said[rows]))
    y, guess = rng.normal(1e6, 2, 700), rng.normal(1e6, 2, 700)
    numbers = NumberScores(window=200)
    for k in range(0, 700, 50):
        numbers.add(y[k : k + 50], guess[k : k + 50])
    for found, rows in ((numbers.overall(), slice(None)), (numbers.recent(), slice(500, None))):
        assert found["RMSE"] == pytest.approx(metrics.root_mean_squared_error(y[rows], guess[rows]))
        assert found["MAE"] == pytest.approx(metrics.mean_absolute_error(y[rows], guess[rows]))
        assert found["R²"] == pytest.approx(metrics.r2_score(y[rows], guess[rows]))


def test_curves_stay_short():
    scores = NumberScores(window=10)
    for k in range(5000):
        scores.add(np.array([float(k)]), np.array([0.0]))
    assert MOST_POINTS / 2 <= len(scores.curve) <= MOST_POINTS
    assert scores.curve[-1][0] > 4900
