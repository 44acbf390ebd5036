"""The task of a target, and its values as labels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bspforest.cli.data.target import Target, make_target, parse_classes, sort_classes
from bspforest.cli.errors import CommandError, UsageError


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
def test_task_of_a_target(values, kind, task):
    assert make_target("y", kind, pa.array(values), None)[0].task == task
    if kind == "integer":
        other = {"classification": "regression", "regression": "classification"}[task]
        assert make_target("y", kind, pa.array(values), other)[0].task == other


def test_classes_and_labels():
    with pytest.raises(UsageError, match="holds text"):
        make_target("y", "text", pa.array(["a"]), "regression")
    with pytest.raises(CommandError, match="dates"):
        make_target("y", "date", pa.array(["2024-01-01"]), None)
    target = Target("y", "integer", "classification")
    assert parse_classes(target, "3, 1,2") == [1, 2, 3]
    with pytest.raises(UsageError, match="--classes 1,x"):
        parse_classes(target, "1,x")
    target.classes, target.is_closed = [1, 2, 3], True
    index, bad = target.encode(pa.array([3, None, 9, 1]))
    assert bad.tolist() == [False, True, True, False]
    assert index[~bad].tolist() == [2, 0] and target.labels.tolist() == [1, 2, 3]
    assert target.explain(9) == "a new class, 9, in the target 'y', which is not among --classes: 1, 2, 3"


def test_codes_of_new_classes():
    """They follow those of the first classes, in order of appearance, and are known when their row is about to be learned."""
    target = Target("y", "text", "classification", ["b", "d"])
    codes, bad = target.encode(pa.array(["d", "c", None, "a", "", "c", "b"]))
    assert codes.tolist() == [1, 2, 0, 3, 0, 2, 0] and bad.tolist() == [False, False, True, False, True, False, False]
    assert target.classes == ["b", "d"] and target.add_classes(codes[:1]) == []
    assert target.add_classes(codes[:2]) == ["c"] and target.classes == ["b", "c", "d"]
    assert target.decode(codes[:2]).tolist() == ["d", "c"] and target.find_places(2).tolist() == [0, 2]
    again = Target(**target.to_json())  # of a model that was saved now: the codes are the same
    assert again.encode(pa.array(["d", "c", "a"]))[0].tolist() == [1, 2, 3]
    assert target.add_classes(codes) == ["a"] and target.classes == ["a", "b", "c", "d"]
    assert again.classes == ["b", "c", "d"] and Target(**target.to_json()).by_code == ["b", "d", "c", "a"]


def test_too_many_new_classes():
    target = Target("y", "integer", "classification", [0])
    with pytest.raises(
        CommandError, match="'y' has more than 1,000 different values; for numbers, use --task regression"
    ):
        target.encode(pa.array(range(1002)))


def test_classes_that_are_not_whole_numbers():
    target = Target("y", "number", "classification", [1.0, 2.0])
    assert target.labels.tolist() == [1.0, 2.0]
    target.classes = [0.5, 2.0]  # scikit-learn takes these for labels of a regression
    assert target.labels.tolist() == [0, 1] and target.names.tolist() == [0.5, 2.0]
    values = pa.array([2.0, np.nan, None, np.inf, 0.5])
    assert sort_classes(values) == [0.5, 2.0]
    index, bad = target.encode(values)
    assert index[~bad].tolist() == [1, 0] and bad.tolist() == [False, True, True, True, False]
    assert "no value" in target.explain(np.nan) and "not finite" in target.explain(np.inf)
