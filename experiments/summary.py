"""Means with standard errors, paired comparisons, and verdicts on claims, computed from the tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from .methods import ADDED, BATCH, METHODS, get_label


@dataclass
class Claim:
    """A claim of the paper, the verdict on it, and the numbers behind the verdict."""

    text: str
    verdict: str
    numbers: str


class Contest(NamedTuple):
    """Errors of the forest with default parameters and of its best batch peer in a setting, on the same rows.

    ``difference`` is positive where the forest loses; ``half`` is half of its 95 % interval, zero with a single run.
    ``absent`` are the peers that were not run here.
    """

    what: str
    peer: str
    peer_error: float
    error: float
    half: float
    runs: int
    absent: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        return self.error - self.peer_error

    @property
    def ratio(self) -> float:
        return self.error / self.peer_error if self.peer_error else np.inf


class Standing(NamedTuple):
    """Errors (RMSE, or the misclassification rate) of the better batch forest and of the online forests.

    Without a batch forest, ``batch`` says so and ``batch_error`` is NaN.
    """

    what: str
    batch: str
    batch_error: float
    error: float
    best: str
    best_error: float


@dataclass
class Section:
    """A section of the page."""

    title: str
    lines: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    contests: list[Contest] = field(default_factory=list)

    def add(self, *lines: str) -> None:
        self.lines += lines


def read_table(path: Path) -> pd.DataFrame:
    """Read the table of an experiment; an empty one if the file does not exist."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def average(frame: pd.DataFrame, by: list[str], value: str) -> pd.DataFrame:
    """Return the mean over repetitions, 1.96 standard errors and the number of repetitions."""
    grouped = frame.dropna(subset=[value]).groupby(by, sort=False)[value]
    out = grouped.agg(["mean", "count", "std"]).reset_index()
    out["half"] = 1.96 * out["std"] / np.sqrt(out["count"])
    return out


def keep_shared_repetitions(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Keep the repetitions that all methods of a setting have, so that means are over the same rows.

    Added methods have no say in this: they must not change the means of the paper's methods.
    """
    if frame.empty:
        return frame
    counted = frame["method"].where(~frame["method"].isin(ADDED))
    there = counted.groupby([frame[name] for name in by]).transform("nunique")
    here = counted.groupby([frame[name] for name in (*by, "repetition")]).transform("nunique")
    return frame[here == there]


def drop_added(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the methods that are not in the paper."""
    return frame[~frame["method"].isin(ADDED)]


def average_by_method(frame: pd.DataFrame, index: str | list[str], value: str, methods: Iterable[str]) -> pd.DataFrame:
    """Return means with one column per method, empty for methods that were not run."""
    means = frame.pivot_table(index=index, columns="method", values=value, aggfunc="mean")
    return means.reindex(columns=list(methods))


def format_mean(mean: float, half: float, digits: int = 3) -> str:
    """Format a mean with its error; without the error if there was a single repetition."""
    if pd.isna(mean):
        return ""
    return f"{mean:.{digits}f}" if pd.isna(half) else f"{mean:.{digits}f} ± {half:.{digits}f}"


def format_range(values: Iterable[float], form: str = ".2f") -> str:
    """Format the range of values; a single value if both ends look the same."""
    known = list(values)
    low, high = f"{min(known):{form}}", f"{max(known):{form}}"
    return low if low == high else f"{low} to {high}"


def format_value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)


def format_table(
    frame: pd.DataFrame, value: str, column: str, methods: tuple[str, ...], digits: int = 3, best: str | None = "min"
) -> list[str]:
    """Format a table with a row per method and a column per value of ``column``.

    The best means of the paper's methods are bold, and those of added methods that are better; added methods have a cell
    in every column, with the number of their runs.
    """
    means = average(frame, ["method", column], value)
    across = sorted(set(frame[column]))
    lines = [f"| {column} | {' | '.join(map(format_value, across))} |", "|---" * (len(across) + 1) + "|"]
    paper = drop_added(means)
    top = {c: getattr(paper[paper[column] == c]["mean"], best)() if best else None for c in across}
    for method in methods:
        cells = []
        for c in across:
            cell = means[(means["method"] == method) & (means[column] == c)]
            if cell.empty:
                cells.append("not run" if method in ADDED else "")
                continue
            mean, count = cell["mean"].iloc[0], cell["count"].iloc[0]
            text = format_mean(mean, cell["half"].iloc[0], digits)
            better = best is not None and (mean <= top[c] if best == "min" else mean >= top[c])
            text = f"**{text}**" if better else text
            cells.append(f"{text} ({format_runs(count)})" if method in ADDED else text)
        if any(cells):
            lines.append(f"| {get_label(method)} | {' | '.join(cells)} |")
    return lines


def format_runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


@dataclass
class Comparison:
    """A comparison of two methods on the same rows: in how many settings the first is better, worse or level."""

    better: int = 0
    level: int = 0
    worse: int = 0
    single: int = 0  # comparisons with a single run, which count by their sign
    gains: list[float] = field(default_factory=list)
    by_means: bool = False  # comparison of means, which all count by their sign
    note: str = ""

    @property
    def total(self) -> int:
        return self.better + self.level + self.worse

    @property
    def holds(self) -> bool:
        return self.total > 0 and self.better == self.total

    def __str__(self) -> str:
        if not self.total:
            return "not run"
        text = f"better in {self.better}, level in {self.level}, worse in {self.worse} of {self.total}"
        text += f" ({self.single} with a single run, by sign)" if self.single else ""
        text += f", gain {format_range(self.gains, '+.3f')}, mean" if self.total > 1 else ", gain"
        return f"{text} {np.mean(self.gains):+.3f}" + (f" ({self.note})" if self.note else "")


def compare_by_sign(gains: Iterable[float]) -> Comparison:
    """Compare means by the sign of their gains, ignoring standard errors."""
    known = [float(gain) for gain in gains]
    better = sum(gain > 0 for gain in known)
    return Comparison(better, 0, len(known) - better, gains=known, by_means=True)


def compare(
    frame: pd.DataFrame,
    ours: str,
    theirs: str,
    by: list[str],
    value: str,
    *,
    smaller: bool = True,
    their_value: str | None = None,
) -> Comparison:
    """Compare ``ours`` with ``theirs`` in each setting, by a paired t-test at the 95 % level."""
    out = Comparison()
    if frame.empty:
        return out
    keys = [*by, "repetition"]
    mine = frame[frame["method"] == ours].set_index(keys)[value]
    other = frame[frame["method"] == theirs].set_index(keys)[their_value or value]
    gain = ((other - mine) if smaller else (mine - other)).dropna()
    for _, some in gain.groupby(level=by, sort=False) if len(gain) else []:
        mean = float(some.mean())
        out.gains.append(mean)
        if len(some) == 1:
            out.single += 1
            half = 0.0
        else:
            half = float(stats.t.ppf(0.975, len(some) - 1) * some.std() / np.sqrt(len(some)))
        out.better += mean > half
        out.worse += mean < -half
        out.level += abs(mean) <= half
    return out


def judge(rules: dict[str, Comparison]) -> str:
    """Return a verdict on a claim over several rules, noting comparisons without standard errors."""
    run = {name: c for name, c in rules.items() if c.total}
    if not run:
        return "not run"
    single, total = (sum(getattr(c, name) for c in run.values()) for name in ("single", "total"))
    note = f" ({single} of {total} comparisons with a single run)" if single else ""
    return judge_all(run) + (" (by means)" if any(c.by_means for c in run.values()) else note)


def judge_all(run: dict[str, Comparison]) -> str:
    """Return a verdict on a claim from the rules under which it was run."""
    good = [name for name, c in run.items() if c.holds]
    if len(good) == len(run):
        return "**reproduced**"
    if good:
        return f"**reproduced only under** {', '.join(good)}"
    if all(c.level == c.total for c in run.values()):
        return "**no significant difference**"
    if all(c.better == 0 for c in run.values()):
        return "**not reproduced**"
    never_worse = [name for name, c in run.items() if not c.worse]
    if never_worse:
        return f"**partly**: never worse, not always better ({', '.join(never_worse)})"
    return "**partly**"


def judge_size(
    what: str, rules: dict[str, Comparison], size: str, form: str = ".2f", fits: tuple[float, float] | None = None
) -> str:
    """Return a verdict on the direction of a claim, followed by its size and the measured sizes.

    With ``fits``, also state whether all measured sizes are in this range; words like "much" have no such range.
    """
    gains = [gain for c in rules.values() for gain in c.gains]
    if not gains:
        return judge(rules)
    met = "" if fits is None else ("yes, " if all(fits[0] <= gain <= fits[1] for gain in gains) else "no, ")
    return f"{what}: {judge(rules)}; {size}: {met}measured {format_range(gains, form)}"


def add_best_batch(frame: pd.DataFrame, by: list[str], value: str, *, smaller: bool = True) -> pd.DataFrame:
    """Add a method "best batch", the better batch forest of each setting and repetition."""
    batch = frame[frame["method"].isin(BATCH)].groupby([*by, "repetition"], as_index=False)[value]
    return pd.concat([frame, (batch.min() if smaller else batch.max()).assign(method="best batch")])


def format_comparisons(rules: dict[str, Comparison]) -> str:
    return "; ".join(f"{name}: {c}" for name, c in rules.items())


def make_standings(frame: pd.DataFrame, what: str, value: str) -> list[Standing]:
    """Compare the default forest and the best online forest with the better batch forest.

    Means are over the repetitions that all methods share.
    """
    known = drop_added(frame[frame["method"].isin(METHODS)])
    subset = keep_shared_repetitions(known.assign(what=what), ["what"])
    error = 1 - subset[value] if value == "accuracy" else subset[value]
    means = error.groupby(subset["method"]).mean()
    batch, online = means[means.index.isin(BATCH)], means[~means.index.isin(BATCH)]
    if "bsp" not in online:
        return []
    name, least = ("not run", np.nan) if batch.empty else (get_label(batch.idxmin()), batch.min())
    return [Standing(what, name, least, online["bsp"], get_label(online.idxmin()), online.min())]


def get_line_style(method: str) -> dict[str, Any]:
    known = METHODS[method]
    return {"color": known.colour, "linestyle": known.line, "label": known.label}
