"""Section 5.3: how well cuts are spent. A sine of two features, by budget and by number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bspforest import BSPForestRegressor

from . import drawing, rows
from .leaves import compare_at_equal_leaves
from .methods import METHODS, get_label
from .runner import Job, Run, Scale
from .summary import (
    Claim,
    Section,
    average_by_method,
    compare,
    compare_by_sign,
    format_comparisons,
    format_range,
    format_table,
    judge,
    judge_size,
)

NAME = "efficiency"
SETTINGS = ("n", "scale")
MEASURES = rows.MEASURES
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
STABLE = 0.1  # and a "stable" error: changed by less than a tenth over the last third of the budgets


def by_budget(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first axis: the number of rows that has the most budgets."""
    n = frame.groupby("n")["scale"].nunique().idxmax()
    return frame[frame["n"] == n].sort_values("scale")


def by_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["scale"] == 1.0].sort_values("n")


def draw(frame: pd.DataFrame, folder: Path) -> list[str]:
    """Errors, leaves and times by budget, then by number of rows; last, errors against leaves and against time."""
    plt = drawing.import_pyplot()
    figure, axes = plt.subplots(2, 4, figsize=(14, 6.6), layout="constrained")
    labels = {"rmse": "RMSE to the true function", "leaves": "leaves a tree", "fit_cpu_s": "seconds to fit (CPU)"}
    for row, part, x in ((axes[0], by_budget(frame), "scale"), (axes[1], by_rows(frame), "n")):
        for ax, (y, label) in zip(row, labels.items(), strict=False):
            drawing.draw_curves(ax, part, COMPARED, x, y)
            ax.set(xlabel="budget, times n^(1/4)" if x == "scale" else "rows learned", ylabel=label)
            if x == "n" and len(part):
                ax.set(xscale="log", yscale="log")
                drawing.set_ticks(ax.xaxis, part["n"].unique()[::2])
                drawing.set_log_ticks(ax.yaxis, (1, 1.5, 2, 3, 5, 7) if y == "rmse" else (1, 2, 5))
    for ax, part, key, x in (
        (axes[0, 3], by_budget(frame), "scale", "leaves"),
        (axes[1, 3], by_rows(frame), "n", "fit_cpu_s"),
    ):
        for method in COMPARED:
            line = part[part["method"] == method].groupby(key)[[x, "rmse"]].mean()
            known = METHODS[method]
            ax.plot(line[x], line["rmse"], known.line, marker="o", color=known.colour, markersize=3)
        along = "by budget" if key == "scale" else "by number of rows"
        ax.set(xlabel=f"{labels[x]}, {along}", ylabel=labels["rmse"])
        if len(part):
            ax.set(xscale="log", yscale="log")
            drawing.set_log_ticks(ax.xaxis, (1, 3))
            drawing.set_log_ticks(ax.yaxis)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
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
    section.add(
        "", f"By budget, {budget['n'].iloc[0]:,} rows. RMSE:", "", *format_table(budget, "rmse", "scale", COMPARED)
    )
    section.add("", "Leaves a tree:", "", *format_table(budget, "leaves", "scale", COMPARED, digits=0, best=None))
    section.add("", "Seconds to fit (CPU):", "", *format_table(budget, "fit_cpu_s", "scale", COMPARED, best=None))
    section.add("", "By number of rows, budget n^(1/4). RMSE:", "", *format_table(sizes, "rmse", "n", COMPARED))
    section.add("", "Leaves a tree:", "", *format_table(sizes, "leaves", "n", COMPARED, digits=0, best=None))
    section.add("", "Seconds to fit (CPU):", "", *format_table(sizes, "fit_cpu_s", "n", COMPARED, best=None))
    for name, part, axis in (("budget", budget, "scale"), ("number of rows", sizes, "n")):
        rules = {rule: compare(part, ours, theirs, [axis], "rmse") for rule, (ours, theirs) in RULES.items()}
        section.claims.append(
            Claim(f"Efficiency: BSP has the lower RMSE for every {name}", judge(rules), format_comparisons(rules))
        )
    section.claims += [judge_equal_leaves(budget), judge_leaves(budget), judge_saturation(budget), judge_time(sizes)]
    return section


def judge_equal_leaves(budget: pd.DataFrame) -> Claim:
    """RMSE at equal numbers of leaves: Mondrian's, read off its curve (straight in logarithms) at BSP's leaves."""
    logs = budget.assign(rmse=np.log(budget["rmse"]))
    rules, shown = {}, []
    for rule, (ours, theirs) in RULES.items():
        rules[rule] = compare_at_equal_leaves(logs, ours, (theirs,), ["n"], ["scale"], "rmse")
        times = np.exp(np.negative(rules[rule].gains))
        if len(times):
            shown.append(f"{rule}: BSP's RMSE is {format_range(times)} times Mondrian's")
    return Claim(
        "Efficiency: at equal numbers of leaves, BSP has the lower RMSE (our addition)", judge(rules), "; ".join(shown)
    )


def judge_leaves(budget: pd.DataFrame) -> Claim:
    means = average_by_method(budget, "scale", "leaves", COMPARED)
    rules, shown = {}, []
    for rule, (ours, theirs) in RULES.items():
        ratio = (means[ours] / means[theirs]).dropna()
        rules[rule] = compare_by_sign(SIMILAR - (ratio - 1).abs())
        if len(ratio):
            shown.append(f"{rule}: BSP has {format_range(ratio)} times the leaves of Mondrian")
    return Claim(
        f"Efficiency: the numbers of leaves are similar (we say: within {SIMILAR:.0%})", judge(rules), "; ".join(shown)
    )


def judge_saturation(budget: pd.DataFrame) -> Claim:
    """Does RMSE stay as it is over the last third of the budgets? The leaves say whether trees are full-grown there."""
    errors, leaves = (average_by_method(budget, "scale", value, COMPARED) for value in ("rmse", "leaves"))
    rules, shown = {}, []
    for method in COMPARED:
        known = errors.loc[errors.index >= 2 / 3 * errors.index.max(), method].dropna()
        if len(known) < 2:
            continue
        first, last = known.index[0], known.index[-1]
        change = known[last] / known[first] - 1
        more = leaves.at[last, method] / leaves.at[first, method] - 1
        rules[get_label(method)] = compare_by_sign([STABLE - abs(change)])
        shown.append(f"{get_label(method)}: RMSE {change:+.0%}, leaves {more:+.0%} from {first} to {last} n^(1/4)")
    text = (
        f"Efficiency: RMSE is stable at large budgets (we say: changed by less than {STABLE:.0%} over their last third)"
    )
    return Claim(text, judge(rules), "; ".join(shown))


def judge_time(sizes: pd.DataFrame) -> Claim:
    means = average_by_method(sizes, "n", "fit_cpu_s", COMPARED)
    rules, shown = {}, []
    for rule, (ours, theirs) in RULES.items():
        ratio = (means[ours] / means[theirs]).dropna()
        rules[rule] = compare_by_sign(ratio - 1)
        if len(ratio):
            shown.append(f"{rule}: {format_range(ratio)} times Mondrian's")
    verdict = judge_size("longer", rules, "a bit", ".0%")
    return Claim("Efficiency: BSP takes a bit longer than Mondrian", verdict, "; ".join(shown))
