"""What the header of a model file says of joint values, checked."""

from __future__ import annotations

import math
from typing import Any, get_type_hints

from ..engine.config import count_columns
from ..engine.values import Values
from ..values.joint import COUNTS, FLAGS, MOST_REVISIONS, JointValues
from ..values.planning import Revision
from .fields import check_int, decode, expect, get_entry


def make_values(header: dict[str, Any]) -> Values:
    """Return what the forest keeps beside its trees. The caller has checked that ``n_outputs`` and ``n_columns`` are counts."""
    kind = get_entry(header, "values", str)
    n_classes, n_outputs, n_columns = (header[name] for name in ("n_classes", "n_outputs", "n_columns"))
    expect(kind in ("mean", "joint"), f"values is {kind[:50]!r}; expected mean or joint")
    expect(n_outputs == 1 or (kind == "joint" and not n_classes), f"there are {n_outputs} outputs")
    expected = count_columns(n_classes, n_outputs) if kind == "joint" else 0
    expect(n_columns == expected, f"there are {n_columns} label columns; expected {expected}")
    if kind == "mean":
        return Values()
    state = {key: decode(value) for key, value in get_entry(header, "joint", dict).items()}
    names = JointValues(None, None, 0).export_state().keys()
    expect(state.keys() == names, f"joint has other entries than {', '.join(names)}")
    _check_state(state, check_int(header.get("n_seen"), "n_seen"))
    choice, mean = state["choice"], get_entry(state, "mean", list)
    if choice is None:  # nothing was ever learned
        expect(header.get("n_held") == 0 and not mean and not state["is_settled"], "bandwidth and ridge are missing")
        return JointValues.from_state(state)
    expect(isinstance(choice, list) and len(choice) == 3, "choice is not a list of three")
    bandwidth, ridge = _check_positive(choice[0], "bandwidth"), _check_positive(choice[1], "ridge")
    expect(type(choice[2]) in (int, float) and not choice[2] < 0, f"the validation error is {str(choice[2])[:50]}")
    state["choice"] = [bandwidth, ridge, float(choice[2])]
    expect(len(mean) == n_columns, f"there are {len(mean)} mean labels for {n_columns} label columns")
    expect(all(type(entry) in (int, float) for entry in mean), "a mean label is not a number")
    return JointValues.from_state(state)


def _check_state(state: dict[str, Any], n_seen: int) -> None:
    """Check all entries but the choice and the mean."""
    for name in ("given_bandwidth", "given_ridge"):
        if state[name] is not None:
            state[name] = _check_positive(state[name], name)
            expect(state[name] < math.inf, f"{name} is infinite")
    check_int(state["seed"], "seed", 0, 2**32 - 1)
    for name in COUNTS:
        check_int(state[name], name, 0, n_seen)
    for name in FLAGS:
        get_entry(state, name, bool)
    expect(type(state["unit"]) in (int, float) and not state["unit"] < 0, f"unit is {str(state['unit'])[:50]}")
    state["unit"] = float(state["unit"])
    expect(type(state["step"]) in (int, float) and 0 <= state["step"] <= 1, f"step is {str(state['step'])[:50]}")
    calibration = get_entry(state, "calibration", list)
    expect(len(calibration) == 2, "calibration is not a list of two")
    state["calibration"] = [_check_positive(value, "a number of the calibration") for value in calibration]
    expect(max(state["calibration"]) < math.inf, "a number of the calibration is infinite")
    revisions = get_entry(state, "revisions", list)
    expect(len(revisions) <= MOST_REVISIONS, f"there are {len(revisions)} revisions")
    kinds = {int: (int,), str: (str,), float: (int, float)}
    expected = [kinds[kind] for kind in get_type_hints(Revision).values()]
    for entries in revisions:
        fits = isinstance(entries, list) and len(entries) == len(expected)
        fits = fits and all(type(entry) in kind for entry, kind in zip(entries, expected, strict=True))
        expect(fits, "a revision has other entries than expected")


def _check_positive(value: Any, name: str) -> float:
    expect(type(value) in (int, float) and value > 0, f"{name} is {str(value)[:50]}; expected a positive number")
    return float(value)
