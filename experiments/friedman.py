"""Friedman's function: error with respect to the true function, by number of rows and features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from . import drawing, rows, tuning
from .leaves import compare_with_mondrian
from .methods import ADDED, BATCH, drop_redraw, get_label, make_forest
from .peers import make_contest
from .runner import Job, Run, Scale
from .summary import (
    Claim,
    Comparison,
    Section,
    add_best_batch,
    average,
    average_by_method,
    compare,
    compare_by_sign,
    format_comparisons,
    format_mean,
    format_range,
    format_table,
    judge,
    judge_size,
    make_standings,
)

NAME = "friedman"
SETTINGS = ("d", "n")
MEASURES = rows.MEASURES
TIMED = False

METHODS = (
    "random_forest",
    "extra_trees",
    "mondrian_fixed",
    "mondrian",
    "mondrian_fair",
    "mondrian_redraw",
    "bsp",
    "bsp_redraw",
    "bsp_fixed",
)
SIZES = (300, 500, 1000, 2000, 5000, 10_000)
N_TEST = 5000

MICROSECONDS = {"random_forest": 6.0, "extra_trees": 3.0, "auto": 4.0}


def plan(scale: Scale) -> list[Job]:
    sizes = SIZES if scale.full else (300, 1000, 3000)
    return [
        Job(
            NAME,
            f"friedman{d}",
            method,
            (("d", d), ("n", n)),
            r,
            cost=scale.trees * 1e-6 * (n * MICROSECONDS.get(method, 0.4) + N_TEST * 0.3) + 0.02,
        )
        for d in (5, 10)
        for n in sizes
        for method in drop_redraw((*METHODS, *ADDED))
        for r in range(scale.repetitions)
    ]


def measure(job: Job, run: Run) -> dict[str, Any]:
    split = rows.make_friedman(job["n"], job["d"], N_TEST, job.data_seed)
    best = tuning.get_max_features(run, job.dataset, job["d"], job.method)
    forest = make_forest(
        job.method, classify=False, d=job["d"], trees=run.scale.trees, seed=job.seed, max_features=best
    )
    return rows.measure_regression(forest, split)


# ----------------------------------------------------------------------------------------------------------------------
# The page

RULES = {"exact": "bsp", "redraw": "bsp_redraw"}
ABOUT = (0.05, 0.15)  # range that counts as "about 0.1"


def draw(frame: pd.DataFrame, folder: Path) -> list[str]:
    plt = drawing.import_pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    for ax, d in zip(axes, (5, 10), strict=True):
        drawing.draw_curves(ax, frame[frame["d"] == d], (*METHODS, *ADDED), "n", "rmse")
        ax.set(title=f"d = {d}", xlabel="training rows", xscale="log", yscale="log", ylabel="RMSE to the true function")
        drawing.set_ticks(ax.xaxis, frame["n"])
        drawing.set_log_ticks(ax.yaxis)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    drawing.save(figure, folder / "friedman.png")
    return ["friedman.png"]


def describe(frame: pd.DataFrame, figures: list[str]) -> Section:
    section = Section("Friedman's function")
    section.add("RMSE with respect to the true function at 5,000 new points; labels have unit noise.")
    section.add("", *(f"![RMSE by number of rows]({{figures}}/{name})" for name in figures))
    for d in (5, 10):
        section.add("", f"d = {d}, by number of training rows:", "")
        section.add(*format_table(frame[frame["d"] == d].sort_values("n"), "rmse", "n", (*METHODS, *ADDED)))
    section.add("", "Leaves per tree at the largest number of rows:", "")
    largest = frame[frame["n"] == frame["n"].max()]
    section.add(*format_table(largest, "leaves", "d", (*METHODS, *ADDED), digits=0, best=None))
    comparisons = compare_with_mondrian(frame, {rule: (method, "rmse") for rule, method in RULES.items()}, ["d", "n"])
    for rival, rules in comparisons.items():
        text = f"Friedman: better than Mondrian by about 0.1 in RMSE. {rival}"
        section.claims.append(
            Claim(text, judge_size("better", rules, "by about 0.1", fits=ABOUT), format_comparisons(rules))
        )
    for (d, n), subset in frame[frame["n"].isin((1000, frame["n"].max()))].groupby(["d", "n"]):
        section.standings += make_standings(subset, f"Friedman, d = {d}, {n:,} rows", "rmse")
    for (d, n), subset in frame.groupby(["d", "n"]):
        section.contests += make_contest(subset, f"Friedman, d = {d}, {n:,} rows", "rmse")
    section.claims += [judge_batch(frame), judge_gap(frame), judge_budget(frame)]
    return section


def judge_batch(frame: pd.DataFrame) -> Claim:
    rules = {
        f"{get_label(batch)} against BSP {rule}": compare(frame, batch, method, ["d", "n"], "rmse")
        for batch in BATCH
        for rule, method in RULES.items()
    }
    return Claim("Friedman: RF and ERT are better than the online forests", judge(rules), format_comparisons(rules))


def judge_gap(frame: pd.DataFrame) -> Claim:
    """Judge whether the deficit to the better batch forest is larger with five irrelevant features."""
    means = average_by_method(frame, ["n", "d"], "rmse", METHODS)
    shown, grows = [], {}
    for rule, method in RULES.items():
        gap = (means[method] - means[list(BATCH)].min(axis=1)).unstack("d").reindex(columns=[5, 10]).dropna()
        if gap.empty:
            continue
        grows[rule] = compare_by_sign(gap[10] - gap[5])
        shown.append(f"{rule}: mean deficit {gap[5].mean():.2f} at d = 5, {gap[10].mean():.2f} at d = 10")
    return Claim("Friedman: the deficit is greater with five noisy features (d = 10)", judge(grows), "; ".join(shown))


def judge_budget(frame: pd.DataFrame) -> Claim:
    """Judge whether the forest at τ = ∞ matches the better batch forest at d = 10.

    The numbers of leaves show whether a larger budget can still add cuts.
    """
    text = "Friedman: a larger budget makes up for the deficit with noisy features (d = 10)"
    subset = frame[frame["d"] == 10]
    batch = compare(add_best_batch(subset, ["n"], "rmse"), "bsp_fixed", "best batch", ["n"], "rmse")
    if not batch.total:
        return Claim(text, "not run", "")
    matched = {"τ = ∞": Comparison(batch.better + batch.level, 0, batch.worse, batch.single, batch.gains)}
    shown = f"τ = ∞ against the better batch forest: {batch}"
    more = compare(subset, "bsp_fixed", "bsp", ["n"], "rmse")
    leaves = average_by_method(subset, "n", "leaves", ("bsp_fixed", "bsp")).dropna()
    if more.total and len(leaves):
        times = leaves["bsp_fixed"] / leaves["bsp"]
        shown += (
            f"; τ = ∞ against τₙ: {more}. At τ = ∞ trees have {format_range(times, '.3f')} times the leaves "
            f"of τₙ, at {leaves.index[-1]:,} rows {leaves['bsp_fixed'].iloc[-1]:,.0f} and {leaves['bsp'].iloc[-1]:,.0f}"
        )
        if times.max() < 1.1:
            shown += ": at τₙ they are already fully grown, and a larger budget cannot add cuts"
    return Claim(text, judge(matched), shown)


def check_goals(frame: pd.DataFrame) -> list[tuple[str, str, str, bool]]:
    subset = frame[(frame["d"] == 5) & (frame["n"] == 5000)]
    here = average(subset, ["method"], "rmse").set_index("method") if len(subset) else pd.DataFrame()
    if "bsp" not in here.index:
        return []
    mean = here.loc["bsp", "mean"]
    out = [("Friedman d = 5, N = 5,000, RMSE", "≤ 1.10", format_mean(mean, here.loc["bsp", "half"]), mean <= 1.10)]
    if "mondrian" in here.index:
        other = compare(subset, "bsp", "mondrian", ["n"], "rmse")
        shown = format_mean(here.loc["mondrian", "mean"], here.loc["mondrian", "half"])
        out.append(("Friedman, better than Mondrian at the same budget", "better", f"Mondrian {shown}", other.holds))
    return out
