"""Compiled kernels are kept for one version of all sources; what is damaged is made anew, and what cannot be kept is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bspforest.trees.kernels import jit_cache

PROGRAM = """
import numpy as np
from bspforest.trees.coordinates import Coordinates
from bspforest.trees.kernels.ranks import rank_rows
X = np.arange(10.0)[:, None]
print(int(1000 * Coordinates.fit("quantile", X, np.arange(10)).place(X).sum()))
"""


def run(cache: Path) -> tuple[str, str]:
    """Compile one small kernel, with this folder for the cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONWARNINGS": "always::UserWarning"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.long
def test_damaged_files_are_named_and_made_anew(tmp_path):
    first, said = run(tmp_path)
    assert said == ""
    files = sorted(tmp_path.rglob("ranks.rank_rows*"))
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for path in files:
        good = path.read_bytes()
        for damage in (b"", good[: len(good) // 2], good[:100] + bytes([good[100] ^ 1]) + good[101:]):
            path.write_bytes(damage)
            again, said = run(tmp_path)
            assert again == first
            if path.suffix == ".nbc" or len(damage) < len(good):  # a changed index may also be one of other sources
                assert "is damaged" in said and "ranks.rank_rows" in said
            assert run(tmp_path) == (first, "")


def test_without_a_place_kernels_are_compiled_in_memory(tmp_path):
    occupied = tmp_path / "file"
    occupied.touch()
    shown, said = run(occupied / "cache")
    assert int(shown) > 0
    assert said.count("cannot be kept") == 1 and "NUMBA_CACHE_DIR" in said


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the kernel sources that the cache looks at."""
    kernels = tmp_path / "trees" / "kernels"
    shutil.copytree(Path(jit_cache.__file__).parent, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    (kernels.parent / "layout.py").write_text("LEFT = 0")
    monkeypatch.setattr(jit_cache, "_KERNELS", kernels)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    clear()
    yield kernels
    clear()


def clear() -> None:
    jit_cache.hash_sources.cache_clear()
    jit_cache.find_folder.cache_clear()


@pytest.mark.parametrize("name", ["boxes.py", "../layout.py", "new.py"])
def test_a_change_in_any_source_changes_the_folder(sources, name):
    before = jit_cache.find_folder()
    assert before.is_dir() and before.parent.parent == sources
    clear()
    assert jit_cache.find_folder() == before
    with (sources / name).open("a") as file:
        file.write("# changed")
    clear()
    after = jit_cache.find_folder()
    assert after != before and after.is_dir() and not before.exists()
