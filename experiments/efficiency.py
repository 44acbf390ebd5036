"""Section 5.3: how well cuts are spent. A sine of two features, by budget and by number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bspforest import BSPForestRegressor

from . import drawing, rows
from .methods import METHODS
from .runner import Job, Run, Scale
from .summary import Claim, Comparison, Section, compare, judge, means_of, numbers, pivot

NAME = "efficiency"
SETTINGS = ("n", "scale")
MEASURES = ("rmse", "leaves", "fit_cpu_s", "predict_cpu_s")
TIMED = False

COMPARED = ("mondrian", "mondrian_redraw", "bsp", "bsp_redraw")
SCALES = tuple(round(0.1 * k, 1) for k in range(1, 16))
SIZES = (300, 500, 1000, 2000, 5000, 10_000)
N = 5000
N_TEST = 5000


def points(scale: Scale) -> list[tuple[int, float]]:
    """Numbers of rows and scales of the budget: along both axes of the figure."""
    if scale.full:
        return sorted({(N, s) for s in SCALES} | {(n, 1.0) for n in SIZES})
    return sorted({(1000, s) for s in (0.1, 0.5, 1.0, 1.5)} | {(n, 1.0) for n in (300, 1000, 3000)})


def plan(scale: Scale) -> list[Job]:
    return [
        Job(
            NAME,
            "oblique_sine",
            method,
            (("n", n), ("scale", s)),
            r,
            cost=scale.trees * 1e-6 * (n * (2.0 if "redraw" in method else 0.4) + N_TEST * 0.2) + 0.02,
        )
        for n, s in points(scale)
        for method in COMPARED
        for r in range(scale.repetitions)
    ]


def measure(job: Job, run: Run) -> dict[str, Any]:
    split = rows.make_oblique_sine(job["n"], N_TEST, job.data_seed)
    method = METHODS[job.method]
    forest = BSPForestRegressor(
        run.scale.trees,
        cuts=method.cuts,
        refinement=method.refinement,
        budget_scale=job["scale"],
        random_state=job.seed,
    )
    return rows.measure_regression(forest, split)


# ----------------------------------------------------------------------------------------------------------------------
# The page

RULES = {"exact": ("bsp", "mondrian"), "redraw": ("bsp_redraw", "mondrian_redraw")}
SIMILAR = 0.25  # what we take "similar" numbers of leaves to be: within a quarter


def by_budget(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first axis: the number of rows that has the most budgets."""
    n = frame.groupby("n")["scale"].nunique().idxmax()
    return frame[frame["n"] == n].sort_values("scale")


def by_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["scale"] == 1.0].sort_values("n")


def draw(frame: pd.DataFrame, folder: Path) -> list[str]:
    plt = drawing.start()
    figure, axes = plt.subplots(1, 5, figsize=(16, 3.6), layout="constrained")
    panels = [(by_budget(frame), "scale", "rmse"), (by_budget(frame), "scale", "leaves"), (by_rows(frame), "n", "rmse")]
    for ax, (part, x, y) in zip(axes, panels, strict=False):
        drawing.draw_curves(ax, part, COMPARED, x, y)
        xlabel = "budget, times n^(1/4)" if x == "scale" else "rows learned"
        ax.set(xlabel=xlabel, ylabel="leaves a tree" if y == "leaves" else "RMSE to the true function")
    axes[2].set(xscale="log", yscale="log")
    drawing.mark(axes[2].xaxis, by_rows(frame)["n"].unique()[::2])
    drawing.mark_plainly(axes[2].yaxis)
    for ax, part, key, x, label in (
        (axes[3], by_rows(frame), "n", "fit_cpu_s", "seconds to fit (CPU), by number of rows"),
        (axes[4], by_budget(frame), "scale", "leaves", "leaves a tree, by budget"),
    ):
        for method in COMPARED:
            line = part[part["method"] == method].groupby(key)[[x, "rmse"]].mean()
            known = METHODS[method]
            ax.plot(line[x], line["rmse"], known.line, marker="o", color=known.colour, markersize=3)
        ax.set(xlabel=label, xscale="log", yscale="log")
        drawing.mark_plainly(ax.xaxis, (1, 3))
        drawing.mark_plainly(ax.yaxis)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    drawing.save(figure, folder / "efficiency.png")
    return ["efficiency.png"]


def describe(frame: pd.DataFrame, figures: list[str]) -> Section:
    section = Section("Efficiency of the cuts (Section 5.3)")
    section.add(
        "y = 10 sin(π x1 x2) + 0.2 ε. In two dimensions pair cuts come at the rate of half the hull's perimeter, axis cuts at that "
        "of half the box's, which is at most √2 as much: the budgets are comparable as they are."
    )
    section.add("", *(f"![RMSE, leaves and time]({{figures}}/{name})" for name in figures))
    budget, sizes = by_budget(frame), by_rows(frame)
    section.add("", f"By budget, {budget['n'].iloc[0]:,} rows. RMSE:", "", *pivot(budget, "rmse", "scale", COMPARED))
    section.add("", "Leaves a tree:", "", *pivot(budget, "leaves", "scale", COMPARED, digits=0, best=None))
    section.add("", "By number of rows, budget n^(1/4). RMSE:", "", *pivot(sizes, "rmse", "n", COMPARED))
    section.add("", "Seconds to fit (CPU):", "", *pivot(sizes, "fit_cpu_s", "n", COMPARED, best=None))
    for name, part, axis in (("budget", budget, "scale"), ("number of rows", sizes, "n")):
        rules = {rule: compare(part, ours, theirs, [axis], "rmse") for rule, (ours, theirs) in RULES.items()}
        section.claims.append(
            Claim(f"Efficiency: BSP has the lower RMSE for every {name}", judge(rules), numbers(rules))
        )
    section.claims += [judge_equal_leaves(budget), judge_leaves(budget), judge_saturation(budget), judge_time(sizes)]
    return section


def judge_equal_leaves(budget: pd.DataFrame) -> Claim:
    """RMSE at equal numbers of leaves: Mondrian's, read off its curve (straight in logarithms) at BSP's leaves."""
    means = budget.groupby(["method", "scale"])[["leaves", "rmse"]].mean()
    rules, shown = {}, []
    for rule, (ours, theirs) in RULES.items():
        if ours not in means.index or theirs not in means.index:
            continue
        mine, other = np.log(means.loc[ours]), np.log(means.loc[theirs])
        inside = mine[mine["leaves"].between(other["leaves"].min(), other["leaves"].max())]
        ratio = np.exp(inside["rmse"] - np.interp(inside["leaves"], other["leaves"], other["rmse"]))
        rules[rule] = Comparison(int((ratio < 1).sum()), 0, int((ratio >= 1).sum()), 0, list(1 - ratio))
        if len(ratio):
            shown.append(f"{rule}: BSP's RMSE is {ratio.min():.2f} to {ratio.max():.2f} times Mondrian's")
    return Claim(
        "Efficiency: at equal numbers of leaves, BSP has the lower RMSE (our addition)", judge(rules), "; ".join(shown)
    )


def judge_leaves(budget: pd.DataFrame) -> Claim:
    means = means_of(budget, "scale", "leaves", COMPARED)
    rules, shown = {}, []
    for rule, (ours, theirs) in RULES.items():
        ratio = (means[ours] / means[theirs]).dropna()
        close = (ratio - 1).abs() <= SIMILAR
        rules[rule] = Comparison(int(close.sum()), 0, int((~close).sum()), 0, list(ratio - 1))
        if len(ratio):
            shown.append(f"{rule}: BSP has {ratio.min():.2f} to {ratio.max():.2f} times the leaves of Mondrian")
    return Claim(
        f"Efficiency: the numbers of leaves are similar (we say: within {SIMILAR:.0%})", judge(rules), "; ".join(shown)
    )


def judge_saturation(budget: pd.DataFrame) -> Claim:
    """Do leaves grow by less than a tenth over the last third of the budgets?"""
    means = means_of(budget, "scale", "leaves", COMPARED)
    late = means[means.index >= 2 / 3 * means.index.max()]
    rules, shown = {}, []
    for rule, (ours, _) in RULES.items():
        known = late[ours].dropna()
        if len(known) < 2:
            continue
        growth = known.iloc[-1] / known.iloc[0] - 1
        rules[rule] = Comparison(int(growth < 0.1), 0, int(growth >= 0.1), 0, [growth])
        shown.append(f"{rule}: {growth:+.0%} leaves from {known.index[0]} to {known.index[-1]} n^(1/4)")
    return Claim(
        "Efficiency: large budgets change nothing: nodes of three points are not cut (we say: under 10 % more leaves)",
        judge(rules),
        "; ".join(shown),
    )


def judge_time(sizes: pd.DataFrame) -> Claim:
    means = means_of(sizes, "n", "fit_cpu_s", COMPARED)
    rules, shown = {}, []
    for rule, (ours, theirs) in RULES.items():
        ratio = (means[ours] / means[theirs]).dropna()
        rules[rule] = Comparison(int((ratio > 1).sum()), 0, int((ratio <= 1).sum()), 0, list(ratio))
        if len(ratio):
            shown.append(f"{rule}: {ratio.min():.2f} to {ratio.max():.2f} times Mondrian's")
    return Claim("Efficiency: BSP takes a bit longer than Mondrian", judge(rules), "; ".join(shown))
