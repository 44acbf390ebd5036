"""The forest with default parameters against its batch peers: where it loses now, computed from the tables."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
from scipy import stats

from .methods import ADDED, PEERS, get_label
from .summary import Contest

OURS = "auto"


def make_contest(frame: pd.DataFrame, what: str, value: str) -> list[Contest]:
    """Compare the forest with the best of its peers in one setting; return nothing if either was not run.

    The best peer is the one with the smallest mean error over the repetitions that all of them share with the forest.
    """
    errors = frame[frame["method"].isin((OURS, *PEERS))].pivot_table(index="repetition", columns="method", values=value)
    if OURS not in errors:
        return []
    shared = (1 - errors if value == "accuracy" else errors).dropna()
    peers = [name for name in PEERS if name in shared]
    if not peers or shared.empty:
        return []
    best = shared[peers].mean().idxmin()
    difference = shared[OURS] - shared[best]
    runs = len(shared)
    half = float(stats.t.ppf(0.975, runs - 1) * difference.std() / np.sqrt(runs)) if runs > 1 else 0.0
    absent = tuple(name for name in PEERS if name not in peers)
    return [Contest(what, best, float(shared[best].mean()), float(shared[OURS].mean()), half, runs, absent)]


def describe_contests(contests: list[Contest], seconds: dict[str, float]) -> list[str]:
    """Return the section on all contests: lost ones with the largest ratio first, then level ones, then those won."""
    lines = ["", "## Where the online forest loses to batch forests now", ""]
    if not contests:
        return [*lines, f"*{get_label(OURS)}* was not run, or none of its peers."]
    groups: dict[str, list[Contest]] = {"Loses": [], "Level": [], "Wins": []}
    for each in sorted(contests, key=lambda each: -each.ratio):
        significant = abs(each.difference) > each.half
        groups["Level" if not significant else "Loses" if each.difference > 0 else "Wins"].append(each)
    lines += [
        f"*{get_label(OURS)}*, the forest of this library with all parameters at their defaults, against the best of "
        f"{', '.join(map(get_label, PEERS[:-1]))} (both with tuned `max_features`) and {get_label(PEERS[-1])} (the "
        "same parameters everywhere) in each setting. The best peer of a setting and the parameters of LightGBM were chosen by "
        "errors on test rows, which favours the peers. "
        "Errors are RMSE, or the misclassification rate, averaged over the repetitions that all of them share, on the "
        "same rows. ± is half of the 95 % interval of the paired difference (Student's t); within it a setting counts "
        "as level, and a setting with a single run counts by its sign.",
        "",
        "; ".join(f"{name.lower()} in {len(some)}" for name, some in groups.items()).capitalize()
        + f" of {len(contests)} settings. {describe_margins(groups)}{describe_absent(contests)}{describe_time(seconds)}",
    ]
    for name, some in groups.items():
        lines += ["", f"{name} ({len(some)}):", "", *(format_contests(some) if some else ["None."])]
    return lines


def format_contests(contests: list[Contest]) -> list[str]:
    ours = get_label(OURS)
    lines = [f"| | best peer | error | {ours} | difference | ratio | runs |", "|---|---|---|---|---|---|---|"]
    for each in contests:
        digits = 2 if each.peer_error > 10 else 4
        spread = f" ± {each.half:.{digits}f}" if each.runs > 1 else ""
        lines.append(
            f"| {each.what} | {get_label(each.peer)} | {each.peer_error:.{digits}f} | {each.error:.{digits}f} "
            f"| {each.difference:+.{digits}f}{spread} | {each.ratio:.2f} | {each.runs} |"
        )
    return lines


def describe_margins(groups: dict[str, list[Contest]]) -> str:
    """Describe by how much the forest loses and wins, and to which peers it loses."""
    text = ""
    if groups["Loses"]:
        ratios = [each.ratio for each in groups["Loses"]]
        by = Counter(get_label(each.peer) for each in groups["Loses"])
        text += (
            f"Where it loses, its error is {np.median(ratios):.2f} times that of the peer in the median and "
            f"{max(ratios):.2f} times at most; the peer is {', '.join(f'{k} in {n}' for k, n in by.most_common())}. "
        )
    if groups["Wins"]:
        ratios = [each.ratio for each in groups["Wins"]]
        text += f"Where it wins, the median is {np.median(ratios):.2f} times and the best {min(ratios):.2f}. "
    return text


def describe_absent(contests: list[Contest]) -> str:
    """Describe in how many settings a peer was not run, which is then missing from the comparison."""
    absent = Counter(name for each in contests for name in each.absent)
    return "".join(f"{get_label(name)} was not run in {count} of them. " for name, count in absent.items())


def describe_time(seconds: dict[str, float]) -> str:
    known = [f"{value / 60:.0f} min for {get_label(name)}" for name, value in seconds.items()]
    return f"Added up over all jobs, the runs took {' and '.join(known)}." if known else ""


def add_seconds(totals: dict[str, float], frame: pd.DataFrame) -> None:
    """Add the seconds that the jobs of added methods took in a table to their totals."""
    for method, seconds in frame[frame["method"].isin(ADDED)].groupby("method")["seconds"].sum().items():
        totals[str(method)] = totals.get(str(method), 0.0) + float(seconds)
