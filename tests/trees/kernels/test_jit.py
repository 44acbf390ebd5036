"""Test how kernels are compiled, and that uncompiled or with bounds checks they do the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor, precompile
from bspforest.forest.budgets import answer_at
from bspforest.trees.kernels.jit import INTEGER, AddressedKernel, called_by_address, entry_point

SUPPORT = Path(__file__).parents[2] / "support"


def run_program(*arguments, cache, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def run(cache, **environment):
    shown = run_program(SUPPORT / "small_case.py", cache=cache, **environment).stdout
    return [[float(value) for value in line.split()] for line in shown.splitlines()]


@pytest.mark.long
def test_uncompiled_and_with_bounds_checks(tmp_path):
    """Kernels give the same results compiled, uncompiled and with bounds checks; nothing is compiled at first use."""
    cache = tmp_path / "plain"
    compiled = run_program("-m", "bspforest.cli", "compile", cache=cache)
    assert (
        f"{len(precompile.examples())} kernels compiled" in compiled.stdout and "once on a machine" in compiled.stderr
    )
    found = sorted(path.name for path in cache.rglob("*.nbc"))
    plain = run(cache)
    assert sorted(path.name for path in cache.rglob("*.nbc")) == found, "something was not compiled ahead"
    again = run_program("-m", "bspforest.cli", "compile", cache=cache)
    assert (again.stdout, again.stderr) == ("All kernels are compiled.\n", "")
    assert len(plain) == 4
    for line, other in zip(plain, run(tmp_path, NUMBA_DISABLE_JIT="1"), strict=True):
        assert line == pytest.approx(other, rel=1e-6)
    for line, other in zip(plain, run(tmp_path / "checked", NUMBA_BOUNDSCHECK="1"), strict=True):
        assert line == pytest.approx(other, rel=1e-6)


def test_all_types_in_use_are_compiled_ahead(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    classes = (X[:, 0] > 0.5).astype(int)
    for forest, y in (
        (BSPForestRegressor(2, prediction="mean"), X[:, 0]),
        (BSPForestClassifier(2, prediction="mean"), classes),
        (BSPForestRegressor(2, prediction="ridge", scaling="quantile"), X[:, 0]),
        (BSPForestClassifier(2, prediction="ridge"), classes),
    ):
        forest.fit(X[:40], y[:40])
        forest.partial_fit(X[40:59], y[40:59]).partial_fit(X[59:], y[59:]).predict(X[:1])
        forest.forget([0, 1])
        locked = X.copy()
        locked.flags.writeable = False
        for given in (X, X[:1], locked, locked[:1], np.asfortranarray(X), X.astype(np.float32), X[::2]):
            forest.predict(given)
            forest.apply(given)
        answer_at(forest._forest, X[::2], 1.0)
        assert len(forest.trees_[0].children_left) == forest.trees_[0].n_nodes
        forest.save(tmp_path / "model.bsp")
        bspforest.load(tmp_path / "model.bsp").partial_fit(X[:1], y[:1])
        if isinstance(forest, BSPForestRegressor):
            forest.predict(X, return_std=True)
            forest.predict_quantiles(X, [0.5])
    BSPForestRegressor(2).fit(np.ones((30, 2)), X[:30, 0])  # not one cut
    for name, (one, args) in precompile.examples().items():
        ahead = one.addressed.argument_types() if hasattr(one, "addressed") else tuple(map(numba.typeof, args))
        used = one.addressed.dispatcher.overloads if hasattr(one, "addressed") else one.overloads
        assert set(used) == {ahead}, name


def test_two_kernels_of_one_name_are_refused():
    def build(x):
        return x

    build.__module__ = "bspforest.trees.kernels.build"
    with pytest.raises(ValueError, match="two kernels are called build"):
        entry_point(lambda: (1,))(build)


def test_types_of_kernels_called_by_address():
    def add(x, y):
        return x + y

    assert AddressedKernel(add, INTEGER, lambda: (1, 2)).compile().signature.return_type == INTEGER
    with pytest.raises(TypeError, match=r"add returns float64, not int64"):
        AddressedKernel(add, INTEGER, lambda: (1, 2.0)).compile()
    twice = called_by_address(INTEGER, lambda: (1, 2))(add)

    @numba.njit
    def call(x, y):
        return twice(x, y) + twice(y, x)

    twice.addressed.make_ready()
    assert call(3, 4) == 14
    with pytest.raises(numba.TypingError, match="add is called with"):
        call(3, 4.0)


def test_errors_in_kernels_called_by_address():
    @called_by_address(INTEGER, lambda: (1,))
    def refuse(x):
        if x > 0:
            raise ValueError("no")
        return x

    @numba.njit
    def call(x):
        return refuse(x)

    refuse.addressed.make_ready()
    assert call(-1) == -1
    with pytest.raises(ValueError, match="no"):
        call(1)
