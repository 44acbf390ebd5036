"""The kernels uncompiled, and compiled with bounds checks, do what the compiled ones do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(tmp_path, **environment):
    done = subprocess.run(
        [sys.executable, str(HERE / "small_case.py")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [[float(value) for value in line.split()] for line in done.stdout.splitlines()]


def test_uncompiled_and_with_bounds_checks(tmp_path):
    plain = run(tmp_path / "plain")
    assert len(plain) == 4
    for line, other in zip(plain, run(tmp_path, NUMBA_DISABLE_JIT="1"), strict=True):
        assert line == pytest.approx(other, rel=1e-6)
    for line, other in zip(plain, run(tmp_path / "checked", NUMBA_BOUNDSCHECK="1"), strict=True):
        assert line == pytest.approx(other, rel=1e-6)
