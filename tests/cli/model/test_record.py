"""The record of the command in a model file: damaged and forged ones are refused by every command that reads it."""

from __future__ import annotations

import copy
import json
from itertools import cycle

import numpy as np
import pytest

from bspforest import BSPForestRegressor
from bspforest.file_content import describe
from bspforest.files import load_with_extra, write_members

NESTED = "[" * 200 + "]" * 200
VALUES = [
    *("null", "true", "-1", "0", "7", "1.5", "1e999", "9223372036854775808", "1" + "0" * 60, '"x"', '""'),
    *('"number"', '"text"', '"classification"', '"\\ud800"', '"\\u0000"', '"\\u001b[31m"'),
    *("[]", "{}", "[1]", '["a"]', '{"name": "a"}', NESTED),
]


LAST = [2, "minmax", "kept", 2.0, 0.1, 0.1, 1.0, 1.0, 1.0, "pairs", 2.0, 1.0, 0]
CHOSEN = {"settings": [1.0, 1.0, 0.1, 1.0, 1.0, 1.0], "revisions": [LAST]}


def revise(field: int, value) -> dict:
    """Return a header's entry prediction with another entry in its last revision."""
    ridge = copy.deepcopy(CHOSEN)
    ridge["revisions"][-1][field] = value
    return {"prediction": ridge}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "data.csv"
    rows = [f"{k % 7},{'' if k % 9 == 0 else k % 5},{'uv'[k % 2]},{'xyz'[k % 3]}" for k in range(40)]
    path.write_text("\n".join(["a,b,t,kind", *rows]) + "\n")
    return path


@pytest.fixture
def forge(run, data, tmp_path):
    """Return a function that writes a model file with another record, given as JSON text, and its true record."""
    model = tmp_path / "model.bsp"
    options = ("--trees", 2, "--chunk-rows", 20, "--na-values", "never")
    assert run("learn", data, "--target", "kind", *options, "--model", model)[0] == 0
    forest, extra = load_with_extra(model)
    header, arrays = describe(forest, None)
    header |= {"compressed": False, "bytes": 0}

    def write(record: str, **changes) -> None:
        text = json.dumps({**header, **changes}).replace('"extra": null', f'"extra": {{"command": {record}}}')
        with open(model, "wb") as file:
            write_members(file, text.encode("ascii"), arrays)

    return write, extra["command"], model


def find_places(value, place=()):
    """Yield the keys that lead to every value in a record."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*place, key)
            yield from find_places(value[key], (*place, key))


def mutate(record, place, value) -> str:
    """Return the record as JSON with the value at a place replaced (None: removed)."""
    changed = copy.deepcopy(record)
    *path, last = place
    parent = changed
    for key in path:
        parent = parent[key]
    if value is None:
        del parent[last]
        return json.dumps(changed)
    parent[last] = "the place"
    return json.dumps(changed).replace('"the place"', value)


def commands(data, model):
    return [
        ("info", model),
        ("predict", model, data),
        ("learn", data, "--target", "kind", "--model", model, "--resume"),
        ("forget", model, "--ids", "3"),
        ("learn", data, "--target", "kind", "--model", model, "--append"),
    ]


def test_the_true_record_is_accepted(forge, run, data):
    write, record, model = forge
    write(json.dumps(record))
    for command in commands(data, model)[:4]:
        assert run(*command)[0] == 0, command


@pytest.mark.long
def test_mutated_records(forge, run, data):
    """No change of any value makes a command fail as if it had a bug; a value of another type is called damaged."""
    write, record, model = forge
    every_command = cycle(commands(data, model))
    for place in find_places(record):
        for value in (None, *VALUES):
            write(mutate(record, place, value))
            command = next(every_command)
            code, _, err = run(*command)
            assert code in (0, 1, 2) and "mistake" not in err, (place, value, command, err)
            if value in (NESTED, "1e999", '{"name": "a"}'):
                assert code == 1 and f"{model}: the model file is damaged: " in err, (place, value, command, err)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("format",), "1", "the record has format 1, expected 2"),
        (("columns",), "[]", "columns is empty"),
        (("columns", 0, "kind"), '"date"', "columns[0].kind is 'date', expected one of number, boolean, text"),
        (("columns", 0, "kind"), '"text"', "the record has the column 'a' as text, but the forest has not"),
        (("columns", 2, "kind"), '"number"', "the record has the column 't' as number, but the forest has not"),
        (("columns", 0, "name"), '"z"', "the record has other columns than the forest"),
        (("columns", 1, "name"), '"a"', "two columns have the name 'a'"),
        (("columns", 0, "extra"), "1", "columns[0] has an unknown entry 'extra'"),
        (("target", "name"), None, "target has no 'name'"),
        (("target", "name"), '"a"', "the target is one of the columns"),
        (("target", "classes"), '["y", "x", "z"]', "target.classes are not in order"),
        (("target", "classes"), '["x", "y"]', "the record has other classes than the forest"),
        (("target", "added"), '["w"]', "target.added are not different classes"),
        (("target", "added"), '["x", "x"]', "target.added are not different classes"),
        (("target", "added"), '["x", []]', "target.added are not different classes"),
        (("target", "added"), '["x", "y", "z"]', "target.added are all classes"),
        (("target", "is_closed"), "1", "target.is_closed is 1, expected true or false"),
        (("target", "task"), '"regression"', "target: a regression has numbers and no classes"),
        (("sources",), "[]", "sources is empty"),
        (("sources", 0, "rows"), "41", "the record has 41 rows learned, but the forest has seen 40"),
        (("sources", 0, "first"), "[50, [1, 2]]", "sources[0].first[0] is 50, expected a whole number from 1 to 40"),
        (("sources", 0, "crc"), "[1, 2, 4294967296]", "sources[0].crc is 4294967296, expected a whole number"),
        (("sources", 0, "path"), '"a\\u0000b"', "expected the name of a file"),
        (("dropped",), "[1]", "dropped[0] is 1, expected text"),
        (("na_values",), '["x", 1]', "na_values[1] is 1, expected text"),
        (("key",), "1", "key is 1, expected text"),
        (("chunk_rows",), "0", "chunk_rows is 0, expected a whole number from 1"),
    ],
)
def test_what_is_damaged_is_named(place, value, message, forge, run, data):
    write, record, model = forge
    write(mutate(record, place, value))
    code, _, err = run("predict", model, data)
    assert code == 1 and err.startswith(f"bspforest: {model}: the model file is damaged: ") and message in err


@pytest.mark.parametrize("command", ["info", "predict", "forget", "plot", "resume", "append"])
def test_every_command_checks_the_record(command, forge, run, data, tmp_path):
    write, record, model = forge
    write(mutate(record, ("columns", 0, "kind"), '"date"'))
    before = model.read_bytes()
    arguments = {
        "info": ("info", model),
        "predict": ("predict", model, data),
        "forget": ("forget", model, "--ids", "3"),
        "plot": ("plot", model, "--dims", "a", "b", "-o", tmp_path / "p.png"),
        "resume": ("learn", data, "--target", "kind", "--model", model, "--resume"),
        "append": ("learn", data, "--target", "kind", "--model", model, "--append"),
    }[command]
    code, _, err = run(*arguments)
    assert code == 1 and "the model file is damaged: columns[0].kind is 'date'" in err
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"forest": {}}, "the header lacks an entry"),
        ({"forest": None}, "the header lacks an entry"),
        (
            {"prediction": {"settings": [1.0, {"float": "x"}, 0.1, 1.0, 1.0], "revisions": []}},
            "ridge is an object of 1 entry",
        ),
        ({"prediction": {"settings": [1.0], "revisions": []}}, "the header lacks an entry, or has a wrong one"),
        ({"prediction": {"settings": [1.0, 1.0, 0.1, 1.0, 1.0]}}, "the header lacks an entry"),
        (
            {"prediction": {**CHOSEN, "revisions": {}}},
            "prediction.revisions is an object of 0 entries, expected a list",
        ),
        ({"prediction": {**CHOSEN, "revisions": [[2, "minmax"]]}}, "the header lacks an entry, or has a wrong one"),
        (revise(3, "2"), "the last revision: n_effective_features is '2', expected a number"),
        (revise(7, 10**400), "the last revision: ridge is a huge number, too large for a number"),
        ({"parameters": []}, "parameters is a list of 0 entries, expected an object"),
        ({"parameters": {"x": json.loads(NESTED)}}, "parameters is nested too deeply"),
    ],
)
def test_info_checks_the_header(changes, message, forge, run):
    write, record, model = forge
    write(json.dumps(record), **changes)
    for options in ((), ("--json",)):
        code, _, err = run("info", model, *options)
        assert code == 1 and message in err.replace("\\\\", "\\")


def test_info_shows_any_parameter(forge, run):
    write, record, model = forge
    write(json.dumps(record), parameters={"scaling": {"tuple": [[{"a": 1}], list(range(999))]}, "budget": 1e300})
    code, out, _ = run("info", model)
    assert code == 0 and 'scaling {"tuple": [[{"a": 1}], [0, 1' in out and "..., budget 1.000e+300" in out


def test_info_shows_joint_values(run, tmp_path):
    X = np.random.default_rng(0).random((50, 2))
    forest = BSPForestRegressor(3, prediction="ridge", ridge=0.25, random_state=0).fit(X, X[:, 0])
    forest.save(tmp_path / "m")
    shown = json.loads(run("info", tmp_path / "m", "--json")[1])
    assert shown["prediction"] == "ridge" and shown["ridge"] == 0.25 == forest.ridge_
    assert (shown["bandwidth"], shown["validation_error"]) == (forest.bandwidth_, forest.validation_error_)
    last = forest.revisions_[-1]
    assert shown["scaling"] == last.scaling and shown["revisions"] == len(forest.revisions_)
    assert shown["last_revision"] == {**last._asdict(), "half_life": {"float": "inf"}}
    out = run("info", tmp_path / "m")[1]
    assert f"scaling           {last.scaling}\n" in out and f"last revision     {last.describe()}\n" in out
    forest.set_params(bandwidth=2.0, feature_weights=None, scaling="minmax", cuts="pairs").fit(X, X[:, 0]).save(
        tmp_path / "m"
    )
    code, out, _ = run("info", tmp_path / "m")
    lines = dict(line.split("  ", 1) for line in out.splitlines())
    assert code == 0 and lines["prediction"].strip() == "ridge" and lines["validation error"].strip() == "nan"
    assert lines["scaling"].strip() == "minmax" and lines["revisions"].strip() == "0" and "last revision" not in lines
    for scaling, text in ((None, "none"), ((0, 1), "given range"), ("quantile", "quantile")):
        forest.set_params(scaling=scaling).fit(X, X[:, 0]).save(tmp_path / "m")
        assert json.loads(run("info", tmp_path / "m", "--json")[1])["scaling"] == text
    forest.forget(range(50)).save(tmp_path / "m")
    code, out, _ = run("info", tmp_path / "m")
    assert code == 0 and "ridge  " not in out
    forest.set_params(prediction="mean").fit(X, X[:, 0]).save(tmp_path / "m")
    assert json.loads(run("info", tmp_path / "m", "--json")[1])["prediction"] == "mean"
