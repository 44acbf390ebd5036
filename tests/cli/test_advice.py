"""The warnings of forests about what they have decided, as lines of the command."""

from __future__ import annotations

import warnings

import numpy as np


def test_noise_is_told_of_in_one_line(run, tmp_path):
    rows = np.random.default_rng(0).normal(size=(400, 4))
    path = tmp_path / "noise.csv"
    path.write_text("\n".join(["a,b,c,y", *(",".join(map(str, row)) for row in rows.tolist())]) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = run("learn", path, "--target", "y", "--model", tmp_path / "m.bsp", "--trees", 4)
    told = [line for line in err.split("\n") if "hardly better" in line]
    assert code == 0 and len(told) == 1 and told[0].startswith("bspforest: Predictions are hardly better than")
    assert "Warning" not in err and "warnings.warn" not in err
