"""BSP beside Mondrian, also at equal numbers of leaves: at the same budget pair cuts make more than axis cuts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator

from .methods import get_label
from .summary import Comparison, average_by_method, compare, format_range

MONDRIANS = ("mondrian_fixed", "mondrian", "mondrian_fair")
VARIANTS = (*MONDRIANS, "mondrian_3", "mondrian_3_fair")
EQUAL = "at equal leaves"
END = 0.05  # full-grown trees of the two kinds differ by 3 % in leaves: this far outside is as good as equal


def interpolate_at_equal_leaves(
    frame: pd.DataFrame,
    ours: str,
    rivals: tuple[str, ...],
    at: list[str],
    by: list[str],
    value: str,
    smooth: bool = True,
) -> pd.DataFrame:
    """The rows of ``ours`` with the rivals' ``value`` at as many leaves, as rows of a method `EQUAL`.

    In each setting ``at`` and repetition it is read off a monotone curve through the rivals' points over the logarithm
    of leaves, or off straight lines between them. Settings ``by`` of ours whose mean number of leaves lies outside the
    rivals' have no rows.
    """
    known = frame.dropna(subset=["leaves", value]).reset_index(drop=True)
    points = list(dict.fromkeys([*at, *by, "method"]))
    theirs = known[known["method"].isin(rivals)]
    ends = theirs.groupby(points)["leaves"].mean().groupby(at).agg(["min", "max"]).to_dict("index")
    curves = {key: part.groupby("leaves")[value].mean() for key, part in theirs.groupby([*at, "repetition"])}
    read = {}
    for _, some in known[known["method"] == ours].groupby(points):
        end = ends.get(tuple(some[at].iloc[0]) if len(at) > 1 else some[at[0]].iloc[0])
        if end is None or not end["min"] * (1 - END) <= some["leaves"].mean() <= end["max"] * (1 + END):
            continue
        for index, row in some.iterrows():
            curve = curves.get(tuple(row[[*at, "repetition"]]))
            if curve is not None and len(curve) > 1:
                x, y = np.log(curve.index), curve.to_numpy()
                there = np.clip(np.log(row["leaves"]), x[0], x[-1])
                read[index] = float(PchipInterpolator(x, y)(there) if smooth else np.interp(there, x, y))
    return known.loc[list(read)].assign(method=EQUAL, **{value: pd.Series(read, dtype=float)})


def compare_at_equal_leaves(
    frame: pd.DataFrame,
    ours: str,
    rivals: tuple[str, ...],
    at: list[str],
    by: list[str],
    value: str,
    *,
    smaller: bool = True,
) -> Comparison:
    """``ours`` in each setting ``by`` against the rivals at as many leaves; they have a curve in each setting ``at``.

    The shape of the curve matters where its points are few: what straight lines say is noted beside.
    """
    if frame.empty:
        return Comparison()
    mine = frame[frame["method"] == ours]
    curve, line = (
        compare(
            pd.concat([mine, interpolate_at_equal_leaves(frame, ours, rivals, at, by, value, smooth)]),
            ours,
            EQUAL,
            by,
            value,
            smaller=smaller,
        )
        for smooth in (True, False)
    )
    return replace(curve, note=f"by straight lines {np.mean(line.gains):+.3f}") if line.total else curve


def describe_leaf_ratios(frame: pd.DataFrame, rival: str, methods: list[str], by: list[str]) -> str:
    """How many times the leaves of each method the rival has, from setting to setting."""
    means = average_by_method(frame, by, "leaves", [rival, *methods])
    said = []
    for method in methods:
        times = (means[rival] / means[method]).dropna()
        if len(times):
            said.append(f"{format_range(times)} times the leaves of {get_label(method)}")
    return "; ".join(said)


def compare_with_mondrian(
    frame: pd.DataFrame, rules: dict[str, tuple[str, str]], by: list[str], *, smaller: bool = True
) -> dict[str, dict[str, Comparison]]:
    """Each rule (a method and the column it is judged by) against each Mondrian forest, and at equal numbers of leaves.

    The keys say against what, as the end of a claim.
    """
    out = {}
    for rival in MONDRIANS:
        beside = ""
        if rival == "mondrian_fair":
            leaves = describe_leaf_ratios(frame, rival, list(dict.fromkeys(method for method, _ in rules.values())), by)
            beside = f" (our addition; it has {leaves})" if leaves else " (our addition)"
        out[f"Against {get_label(rival)}{beside}"] = {
            rule: compare(frame, method, rival, by, value, smaller=smaller) for rule, (method, value) in rules.items()
        }
    equal = {
        rule: compare_at_equal_leaves(frame, method, VARIANTS, by, by, value, smaller=smaller)
        for rule, (method, value) in rules.items()
    }
    if any(c.total for c in equal.values()):
        beside = "our addition; where BSP's leaves lie between those of its variants"
        out[f"Against Mondrian at equal leaves ({beside})"] = equal
    return out
