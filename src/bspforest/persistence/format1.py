"""Convert the trees of files of format 1, in which every cut node had a box of the same number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine import arrays as layout
from ..engine.arrays import CUT, STATE, ForestArrays, record
from ..engine.kernels.wipe import link_boxes
from .header import LAYOUT, expect, get_entry

CUT_1 = record(
    ("left", np.int32),
    ("right", np.int32),
    ("i", np.int32),
    ("j", np.int32),
    *((name, np.float64) for name in ("a", "b", "p", "time")),
    *((name, np.float32) for name in ("low_i", "high_i", "low_j", "high_j")),
)

STATE_1 = record(
    *((name, np.uint64) for name in ("s0", "s1", "s2", "s3")),
    *((name, np.int32) for name in ("root", "n_cuts", "free_cut", "n_leaves", "free_leaf", "n_due")),
)

LAYOUT_1 = {**LAYOUT, **{name: [list(f) for f in kind.descr] for name, kind in (("CUT", CUT_1), ("STATE", STATE_1))}}

assert CUT_1.itemsize == CUT.itemsize  # records are read in place, and then converted


def upgrade_layout(header: dict[str, Any]) -> None:
    """Replace the record types of format 1 in a header by those that its trees are converted to."""
    if get_entry(header, "layout", dict) == LAYOUT_1:
        header["layout"] = LAYOUT


def convert_state(old: np.ndarray) -> np.ndarray:
    """Return the state of trees that keep the box of every cut node."""
    state = layout.empty(old.shape, STATE)
    for name in STATE_1.names or ():
        state[name] = old[name]
    state["n_boxes"] = old["n_cuts"]
    state["free_box"] = old["free_cut"]
    return state


def convert_tree(arrays: ForestArrays, m: int) -> None:
    """Convert the records of tree ``m``, read as they are in the file: node v has box v, also while it is free."""
    cuts = arrays.cuts[m, : arrays.state[m]["n_cuts"]]
    old = cuts.view(np.uint8).view(CUT_1).copy()
    for name in ("i", "j"):
        expect(
            ((old[name] >= 0) & (old[name] < layout.MOST_FEATURES)).all(),
            f"tree {m} is not consistent: a cut is in a dimension that does not exist",
        )
    for name in CUT_1.names or ():
        cuts[name] = old[name]
    cuts["box"] = np.arange(len(cuts))
    link_boxes(arrays, m)
