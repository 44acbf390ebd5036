"""Reading files of other formats and files that are not models."""

from __future__ import annotations

import hostile
import pytest
from hostile import make_forest

import bspforest
from bspforest import ModelFileError


def test_a_later_format_is_named(tmp_path):
    forest = make_forest(*hostile.KINDS[0])
    forest.save(tmp_path / "m")
    data = bytearray((tmp_path / "m").read_bytes())
    data[8] = 2
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match="format 2; this version of bspforest reads format 1"):
        bspforest.load(tmp_path / "m")
