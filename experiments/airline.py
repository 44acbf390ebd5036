"""Table 1, airline: flight delays in time order as in the paper, with shuffled flights, and without dates."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import drawing, rows, tuning
from .leaves import compare_with_mondrian
from .memory import PeakMemory
from .methods import ADDED, BATCH, METHODS, count_leaves, get_label, make_forest
from .peers import make_contest
from .runner import Job, Run, Scale
from .summary import (
    Claim,
    Section,
    average,
    compare,
    drop_added,
    format_comparisons,
    format_mean,
    format_table,
    judge,
    keep_shared_repetitions,
    make_standings,
)

NAME = "airline"
SETTINGS = ("order", "n")
MEASURES = ("rmse", "bias", "spread", "leaves", "fit_s", "predict_s", "peak_mb")
TIMED = True

FAST = ("mean", "mondrian", "bsp", "mondrian_fair", "mondrian_fixed")
SLOW = ("extra_trees", "random_forest")
N_TEST = 100_000
DAY_OF_MONTH = 6

# Approximate cost of a fit per row and tree on two cores, to order the jobs.
MICROSECONDS = {
    "mean": 0.0,
    "mondrian": 0.05,
    "bsp": 0.18,
    "mondrian_fair": 0.19,
    "mondrian_fixed": 0.2,
    "extra_trees": 0.8,
    "random_forest": 1.7,
    "auto": 1.8,
    "lightgbm": 0.15,
}


def repetitions(scale: Scale, method: str, order: str, n: int) -> int:
    """Return sixteen where a job takes seconds, three or one where it takes minutes.

    In time order only the seeds of the forests differ between repetitions, so a few are enough. The added methods have
    those of the slow ones, but no million rows: a forest with joint values takes 6 GB at 400,000, so about 15 there.
    """
    if method in ADDED and n > 400_000:
        return 0
    if method == "mean" and order != "shuffled":
        return 1
    if not scale.full:
        return 2 if method in FAST else 1
    if order == "no calendar":
        return 4 if method in FAST else 1
    if n <= 100_000:
        return scale.repetitions if method in FAST else 3
    return 3 if method in FAST and (order == "time" or n <= 400_000) else 1


def plan(scale: Scale) -> list[Job]:
    points = [(order, n) for n in (100_000, 400_000, 1_000_000) for order in ("time", "shuffled")]
    points = [*points, ("no calendar", 100_000)] if scale.full else [("time", 100_000), ("shuffled", 100_000)]
    return [
        Job(
            NAME,
            "airline",
            method,
            (("order", order), ("n", n)),
            r,
            cost=scale.trees * 1e-6 * (n * MICROSECONDS[method] * (n / 1e5) ** 0.15 + N_TEST * 0.2) + 0.3,
        )
        for order, n in points
        for method in (*FAST, *SLOW, *ADDED)
        for r in range(repetitions(scale, method, order, n))
    ]


def measure(job: Job, run: Run) -> dict[str, Any]:
    split = rows.split_airline(job["n"], N_TEST, job["order"], job.data_seed, run.data_home)
    if job.method == "mean":
        return describe_error(np.full(N_TEST, split.y.mean()) - split.y_test)
    d = split.X.shape[1]
    best = tuning.get_max_features(run, "airline", d, job.method)
    forest = make_forest(
        job.method, classify=False, d=d, trees=run.scale.trees, seed=job.seed, n_jobs=run.n_jobs, max_features=best
    )
    with PeakMemory() as memory:
        started = time.perf_counter()
        forest.fit(split.X, split.y)
        fitted_at = time.perf_counter()
    predicted = forest.predict(split.X_test)
    predicted_at = time.perf_counter()
    if (job["order"], job["n"], job.repetition) == ("time", 100_000, 0):
        write_days(job, run, split, predicted)
    return {
        **describe_error(predicted - split.y_test),
        "leaves": float(count_leaves(forest)),
        "fit_s": fitted_at - started,
        "predict_s": predicted_at - fitted_at,
        "peak_mb": memory.peak / 1e6,
    }


def describe_error(error: np.ndarray) -> dict[str, float]:
    """Return the RMSE of an error, its mean (bias) and its standard deviation (spread)."""
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "bias": float(error.mean()),
        "spread": float(error.std()),
    }


def write_days(job: Job, run: Run, split: rows.Split, predicted: np.ndarray) -> None:
    """Write mean delays by day of the month for the figure: of the training rows, true and predicted."""
    with (run.folder / f"airline_days_{job.method}.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("day", "rows", "learned", "true", "predicted"))
        train_days, test_days = split.X[:, DAY_OF_MONTH], split.X_test[:, DAY_OF_MONTH]
        for day in np.union1d(train_days, test_days):
            on_day = test_days == day
            samples = (split.y[train_days == day], split.y_test[on_day], predicted[on_day])
            means = [f"{sample.mean():.3f}" if len(sample) else "" for sample in samples]
            lines.writerow((int(day), int(on_day.sum()), *means))


# ----------------------------------------------------------------------------------------------------------------------
# The page

ORDER = (
    "random_forest",
    "extra_trees",
    "mondrian_fixed",
    "mondrian",
    "mondrian_fair",
    "bsp",
    "bsp_redraw",
    "mean",
    *ADDED,
)
PAPER = {
    "random_forest": {100_000: "32.2 ± 0.7", 400_000: "33.7 ± 0.4", 1_000_000: "34.1 ± 0.9"},
    "extra_trees": {100_000: "34.1 ± 1.0", 400_000: "33.5 ± 0.9", 1_000_000: "33.5 ± 0.6"},
    "mondrian_fixed": {100_000: "36.5 ± 0.5", 400_000: "35.8 ± 1.2", 1_000_000: "37.3 ± 1.1"},
    "mondrian": {100_000: "35.1 ± 1.2", 400_000: "36.2 ± 0.9", 1_000_000: "36.5 ± 0.6"},
    "bsp": {100_000: "35.9 ± 0.8", 400_000: "35.2 ± 1.3", 1_000_000: "35.9 ± 1.1"},
}
RULES = {"exact": "bsp", "redraw": "bsp_redraw"}
ORDERS = {
    "time": "In time order",
    "shuffled": "Shuffled",
    "no calendar": "In time order, without day and month",
}
DRAWN = ("bsp", "mondrian", "random_forest", "auto")


def draw(frame: pd.DataFrame, folder: Path) -> list[str]:
    """Draw the mean delay by day in the training rows, in the test rows and as predicted."""
    tables = {
        m: pd.read_csv(folder / f"airline_days_{m}.csv") for m in DRAWN if (folder / f"airline_days_{m}.csv").exists()
    }
    if not tables:
        return []
    plt = drawing.import_pyplot()
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    some = next(iter(tables.values()))
    ax.plot(some["day"], some["learned"], "ks-", label="training rows", markersize=4)
    ax.plot(some["day"], some["true"], "ko--", label="test rows", markersize=4, fillstyle="none")
    for method, table in tables.items():
        known = METHODS[method]
        ax.plot(table["day"], table["predicted"], known.line, color=known.colour, label=known.label, linewidth=1.8)
    last = some.loc[some["learned"].notna(), "day"].max()
    ax.axvspan(last + 0.5, some["day"].max() + 0.5, color="#eeeeee", zorder=0)
    ax.set(xlabel="day of January 2008 (grey: no training rows)", ylabel="mean delay (minutes)")
    ax.legend()
    drawing.save(figure, folder / "airline_days.png")
    return ["airline_days.png"]


def describe(frame: pd.DataFrame, figures: list[str]) -> Section:
    section = Section("Table 1: airline delays")
    section.add(
        "RMSE in minutes on the 100,000 flights that follow the training rows, in time order as in the paper, and with the "
        "same flights shuffled before the split. The paper uses the same source and year, but not necessarily the same rows."
    )
    for order, title in ORDERS.items():
        subset = frame[frame["order"] == order].sort_values("n")
        if order == "shuffled":
            section.add(*describe_permutations(drop_added(subset)))
            subset = keep_shared_repetitions(subset, ["n"])
        if not subset.empty:
            section.add(
                "", f"{title}, by number of training rows:", "", *format_table(subset, "rmse", "n", ORDER, digits=2)
            )
    section.add("", "The paper's Table 1:", "", "| | 100K | 400K | 1M |", "|---|---|---|---|")
    section.add(*(f"| {get_label(m)} | {' | '.join(values.values())} |" for m, values in PAPER.items()))
    section.add(*explain(frame), "", *(f"![delay by day]({{figures}}/{name})" for name in figures))
    section.add(*describe_cost(frame))
    for (n, order), subset in frame[frame["order"] != "no calendar"].groupby(["n", "order"], sort=False):
        section.standings += make_standings(subset, f"airline, {n:,} rows, {order}", "rmse")
    for (n, order), subset in frame.groupby(["n", "order"], sort=False):
        section.contests += make_contest(subset, f"airline, {n:,} rows, {order}", "rmse")
    for order in ("time", "shuffled"):
        subset = frame[frame["order"] == order]
        methods = {rule: (method, "rmse") for rule, method in RULES.items()}
        for rival, rules in compare_with_mondrian(subset, methods, ["n"]).items():
            text = f"Airline, {order}: BSP is the best online forest. {rival}"
            section.claims.append(Claim(text, judge(rules), format_comparisons(rules)))
        batch = {
            f"{get_label(b)} against BSP {rule}": compare(subset, b, method, ["n"], "rmse")
            for b in BATCH
            for rule, method in RULES.items()
        }
        section.claims.append(
            Claim(f"Airline, {order}: RF and ERT are better than BSP", judge(batch), format_comparisons(batch))
        )
    return section


def describe_permutations(subset: pd.DataFrame) -> list[str]:
    """Describe which repetitions are averaged over shuffled flights, and where no batch forest was run."""
    if subset.empty:
        return []
    counts = keep_shared_repetitions(subset, ["n"]).groupby("n")["repetition"].nunique()
    known = ", ".join(f"{counts.get(n, 0)} at {n:,}" for n in subset["n"].unique())
    constant = subset[(subset["method"] == "mean") & (subset["n"] == subset["n"].min())]["rmse"]
    spread = f": the RMSE of the constant mean ranges from {constant.min():.1f} to {constant.max():.1f}"
    lines = [
        "",
        f"With shuffled flights, each repetition has different rows{spread if len(constant) > 1 else ''}. Means over "
        f"shuffled flights use only the permutations that all methods share at that number of rows: {known}.",
    ]
    without = [f"{n:,}" for n, some in subset.groupby("n") if not some["method"].isin(BATCH).any()]
    return lines + ([f"No batch forest was run on {', '.join(without)} shuffled rows."] if without else [])


def explain(frame: pd.DataFrame) -> list[str]:
    """Explain the difference between the orders by bias and spread of the error, with and without calendar features."""
    subset = frame[frame["n"] == 100_000]
    late = drop_added(subset[subset["order"] == "time"])
    if late.empty:
        return []
    same = pd.concat(
        [subset[subset["order"] != "shuffled"], keep_shared_repetitions(subset[subset["order"] == "shuffled"], ["n"])]
    )
    means = same.groupby(["order", "method"])[["rmse", "bias", "spread"]].mean()
    high = " All methods overestimate the delay on average." if (late["bias"] > 0).all() else ""
    lines = [
        "",
        "The orders differ for this reason: in time order, the first 100,000 rows are January 1 to 6, with the delays at "
        "the end of the holidays, and the next 100,000 are January 6 to 12, with shorter delays. The squared RMSE is the "
        "squared mean error plus the squared spread (standard deviation of the error)."
        f"{high}{explain_level(means)}{explain_calendar(means)}",
        "",
        f"| | {' | '.join(f'RMSE, {order} | mean error | spread' for order in ORDERS)} |",
        "|---" * (3 * len(ORDERS) + 1) + "|",
    ]
    for method in ORDER:
        cells = [
            f"{means[value].get((order, method), np.nan):{'+' if value == 'bias' else ''}.2f}"
            for order in ORDERS
            for value in ("rmse", "bias", "spread")
        ]
        if ("time", method) in means.index:
            lines.append(f"| {get_label(method)} | {' | '.join(cells).replace('+nan', '').replace('nan', '')} |")
    return lines


def explain_level(means: pd.DataFrame) -> str:
    """Describe the part of the error that no forest can avoid."""
    if ("time", "mean") not in means.index:
        return ""
    forests = means.loc["time", "bias"].drop(["mean", *ADDED], errors="ignore")
    among = (
        f" The mean errors of the forests range from {forests.min():+.2f} to {forests.max():+.2f}."
        if len(forests)
        else ""
    )
    return (
        f" The constant mean of the training rows has a mean error of {means.loc[('time', 'mean'), 'bias']:+.2f}, the "
        f"change in level between the weeks, which no feature can predict.{among}"
    )


def explain_calendar(means: pd.DataFrame) -> str:
    """Describe the effect of day and month by comparing forests with and without them."""
    sentences = []
    for method in ("bsp", "mondrian"):
        if ("time", method) in means.index and ("no calendar", method) in means.index:
            ours, less = means.loc[("time", method)], means.loc[("no calendar", method)]
            sentences.append(
                f"{get_label(method)} has a mean error of {ours['bias']:+.2f} and a spread of {ours['spread']:.2f} with "
                f"them, {less['bias']:+.2f} and {less['spread']:.2f} without: with them its RMSE is "
                f"{'larger' if ours['rmse'] > less['rmse'] else 'smaller'} by {abs(ours['rmse'] - less['rmse']):.2f}"
            )
    if not sentences:
        return ""
    return (
        " The test days are later than the training days, and the forests predict as for the last training day, or for "
        "one that is similar in other features. The runs without day and month show the effect; they have five features "
        f"and therefore also a different budget. {'; '.join(sentences)}."
    )


def describe_cost(frame: pd.DataFrame) -> list[str]:
    subset = frame[(frame["order"] == "time") & frame["fit_s"].notna()].sort_values("n")
    lines = [
        "",
        "Time to fit in time order, in seconds, with all cores of the run (`--jobs`):",
        "",
        *format_table(subset, "fit_s", "n", ORDER, digits=1, best=None),
    ]
    lines += [
        "",
        "Peak memory while fitting, in MB:",
        "",
        *format_table(subset, "peak_mb", "n", ORDER, digits=0, best=None),
    ]
    return [*lines, "", "Leaves per tree:", "", *format_table(subset, "leaves", "n", ORDER, digits=0, best=None)]


def check_goals(frame: pd.DataFrame) -> list[tuple[str, str, str, bool]]:
    out = []
    subset = frame[(frame["order"] == "time") & (frame["n"] == 100_000)]
    here = average(subset, ["method"], "rmse").set_index("method")
    if "bsp" in here.index:
        mean = here.loc["bsp", "mean"]
        out.append(
            ("airline 100K in time order, RMSE", "≤ 35.7", format_mean(mean, here.loc["bsp", "half"], 2), mean <= 35.7)
        )
        if "mondrian" in here.index:
            other = compare(subset, "bsp", "mondrian", ["n"], "rmse")
            shown = format_mean(here.loc["mondrian", "mean"], here.loc["mondrian", "half"], 2)
            out.append(
                (
                    "airline 100K, better than Mondrian at the same budget",
                    "better",
                    f"Mondrian {shown}; BSP {other}",
                    other.holds,
                )
            )
    large = frame[(frame["order"] == "time") & (frame["n"] == 1_000_000)]
    seconds = large.groupby("method")["fit_s"].mean() if len(large) else {}
    if "bsp" in seconds and "random_forest" in seconds:
        ours, theirs = seconds["bsp"], seconds["random_forest"]
        memory = large[large["method"] == "bsp"]["peak_mb"].max() / 1000
        shown = f"{ours:.0f} s and {memory:.1f} GB, random forest {theirs:.0f} s"
        out.append(("airline 1M, faster to fit than the random forest, within 24 GB", "faster", shown, ours < theirs))
    return out
