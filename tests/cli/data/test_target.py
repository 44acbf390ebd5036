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
    target.classes = [1, 2, 3]
    index, bad = target.encode(pa.array([3, None, 9, 1]))
    assert bad.tolist() == [False, True, True, False]
    assert index[~bad].tolist() == [2, 0] and target.labels.tolist() == [1, 2, 3]
    assert "a new class, 9" in target.explain(9) and "--classes" in target.explain(9)


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
