"""Comparison of BSP with Mondrian, also at equal numbers of leaves, since pair cuts give more leaves per budget."""

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
TOLERANCE = 0.05  # fully grown trees of the two kinds differ by 3 % in leaves; extrapolate by at most this much


def interpolate_at_equal_leaves(
    frame: pd.DataFrame,
    ours: str,
    rivals: tuple[str, ...],
    at: list[str],
    by: list[str],
    value: str,
    smooth: bool = True,
) -> pd.DataFrame:
    """Return the rows of ``ours`` with the rivals' ``value`` at as many leaves, as rows of a method `EQUAL`.

    For each setting ``at`` and repetition, the value is interpolated between the rivals' points over the logarithm of
    leaves, by a monotone curve or, if not ``smooth``, linearly. Settings ``by`` of ours whose mean number of leaves is
    outside the range of the rivals are dropped.
    """
    known = frame.dropna(subset=["leaves", value]).reset_index(drop=True)
    points = list(dict.fromkeys([*at, *by, "method"]))
    theirs = known[known["method"].isin(rivals)]
    ends = theirs.groupby(points)["leaves"].mean().groupby(at).agg(["min", "max"]).to_dict("index")
    curves = {key: subset.groupby("leaves")[value].mean() for key, subset in theirs.groupby([*at, "repetition"])}
    read = {}
    for _, some in known[known["method"] == ours].groupby(points):
        end = ends.get(tuple(some[at].iloc[0]) if len(at) > 1 else some[at[0]].iloc[0])
        if end is None or not end["min"] * (1 - TOLERANCE) <= some["leaves"].mean() <= end["max"] * (1 + TOLERANCE):
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
    """Compare ``ours`` in each setting ``by`` with the rivals at as many leaves, interpolated in each setting ``at``.

    With few points the interpolation matters, so the result of linear interpolation is noted as well.
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
    return replace(curve, note=f"with linear interpolation {np.mean(line.gains):+.3f}") if line.total else curve


def describe_leaf_ratios(frame: pd.DataFrame, rival: str, methods: list[str], by: list[str]) -> str:
    """Describe the ratio of the rival's leaves to those of each method, as a range over settings."""
    means = average_by_method(frame, by, "leaves", [rival, *methods])
    ratios = []
    for method in methods:
        times = (means[rival] / means[method]).dropna()
        if len(times):
            ratios.append(f"{format_range(times)} times the leaves of {get_label(method)}")
    return "; ".join(ratios)


def compare_with_mondrian(
    frame: pd.DataFrame, rules: dict[str, tuple[str, str]], by: list[str], *, smaller: bool = True
) -> dict[str, dict[str, Comparison]]:
    """Compare each rule (a method and the column to judge it by) with each Mondrian forest, and at equal leaves.

    The keys name the rival, as the end of a claim.
    """
    out = {}
    for rival in MONDRIANS:
        note = ""
        if rival == "mondrian_fair":
            leaves = describe_leaf_ratios(frame, rival, list(dict.fromkeys(method for method, _ in rules.values())), by)
            note = f" (our addition; it has {leaves})" if leaves else " (our addition)"
        out[f"Against {get_label(rival)}{note}"] = {
            rule: compare(frame, method, rival, by, value, smaller=smaller) for rule, (method, value) in rules.items()
        }
    equal = {
        rule: compare_at_equal_leaves(frame, method, VARIANTS, by, by, value, smaller=smaller)
        for rule, (method, value) in rules.items()
    }
    if any(c.total for c in equal.values()):
        note = "our addition; where the number of leaves of BSP is in the range of the Mondrian variants"
        out[f"Against Mondrian at equal leaves ({note})"] = equal
    return out
