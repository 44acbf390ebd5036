"""``bspforest info`` and ``bspforest forget``."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hostile import same

import bspforest
from bspforest import BSPForestRegressor
from bspforest.files import read_header


def write_lines(path, rows):
    path.write_text("\n".join(["a,b,y", *rows]) + "\n")
    return path


def test_info_and_forget(numbers, run, tmp_path):
    path = numbers[0]
    model, smaller = tmp_path / "m.bsp", tmp_path / "less.bsp"
    run("learn", path, "--target", "y", "--model", model, "--trees", 4, "--window", 500)
    code, out, _ = run("info", model)
    assert code == 0
    assert re.search(r"^rows +500$", out, re.M) and re.search(r"^rows seen +600$", out, re.M)
    assert re.search(r"^sources +.*numbers.csv: 600 rows, 0 skipped$", out, re.M)
    code, out, _ = run("forget", model, "--ids", "100,300-399", "-o", smaller)
    assert (code, out) == (0, f"101 rows forgotten, 399 held: {smaller}\n")
    expected = bspforest.load(model).forget([100, *range(300, 400)], strict=True)
    assert same(bspforest.load(smaller), expected)
    (tmp_path / "ids.txt").write_text("401\n\n403-405\n")
    assert run("forget", smaller, "--ids-from", tmp_path / "ids.txt")[0] == 0
    found = json.loads(run("info", smaller, "--json")[1])
    assert found["rows"] == 395 and found["columns"] == {"a": "number", "b": "number", "c": "number"}
    for ids, code in (("100", 1), ("7-3", 2), ("x", 2), ("9999", 1)):
        found_code, _, err = run("forget", smaller, "--ids", ids)
        assert found_code == code and ids.split("-")[0] in err


@pytest.mark.parametrize("compress", [True, False])
def test_forget_keeps_a_file_compressed_or_not(compress, numbers, run, tmp_path):
    """Fails if forget writes all files alike, or as the file is that it replaces."""
    model, other = tmp_path / "m.bsp", tmp_path / "other.bsp"
    option = "--compress" if compress else "--no-compress"
    assert run("learn", numbers[0], "--target", "y", "--model", model, "--trees", 4, option)[0] == 0
    forest = bspforest.load(model)
    forest.save(other, compress=not compress)
    assert run("forget", model, "--ids", "100", "-o", other, "--overwrite")[0] == 0
    assert run("forget", model, "--ids", "100")[0] == 0
    forest.forget([100], strict=True)
    for path in (model, other):
        assert read_header(path)["compressed"] == compress
        assert same(bspforest.load(path), forest)
    # Whether a file is compressed, and how much, is shown.
    found = json.loads(run("info", model, "--json")[1])
    code, out, _ = run("info", model)
    assert code == 0 and ("compressed" in found) == bool(re.search(r"^compressed ", out, re.M)) == compress
    if compress:
        shown = found["compressed"]
        assert shown["bytes"] == read_header(model)["bytes"]
        assert shown["ratio"] == shown["bytes"] / model.stat().st_size > 1.2
        assert re.search(rf"^compressed +{shown['ratio']:.2f} times, from {shown['bytes']:,} bytes$", out, re.M)


def test_means_are_recomputed_without_forgotten_rows(run, tmp_path):
    """The encoder and the rows equal those of a model that never saw the forgotten rows."""
    rows = [f"{'' if k % 5 == 4 else k % 7},{k % 2},{k / 8}" for k in range(50)]
    odd = [f"{1e6 + k},1,{k}" for k in range(10)]
    data, model, plain = tmp_path / "d.csv", tmp_path / "m.bsp", tmp_path / "plain.bsp"
    options = ("--target", "y", "--trees", 2, "--model")
    assert run("learn", write_lines(data, rows + odd), *options, model)[0] == 0
    assert run("forget", model, "--ids", "50-59")[0] == 0
    assert run("learn", write_lines(tmp_path / "less.csv", rows), *options, plain)[0] == 0
    left, expected = bspforest.load(model), bspforest.load(plain)
    assert left._encoder.sums.means.tolist() == expected._encoder.sums.means.tolist()
    np.testing.assert_array_equal(left.held_rows().X, expected.held_rows().X)
    code, out, _ = run("learn", write_lines(data, rows + odd), *options[:2], "--model", model, "--resume")
    assert code == 0 and "No new rows" in out
    X = np.arange(40.0).reshape(20, 2)  # saved from Python: no means to recompute
    BSPForestRegressor(2, random_state=0).fit(X, X[:, 0]).save(tmp_path / "python.bsp")
    assert run("forget", tmp_path / "python.bsp", "--ids", "3")[0] == 0
