"""Section 5.3: efficiency of cuts on a sine of two features, by budget and by number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import drawing, rows
from .leaves import compare_at_equal_leaves
from .methods import METHODS, get_label, make_forest
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

# Redrawing forests are in plain Python: milliseconds per row and tree, most rows, and most repetitions.
REDRAW_MILLISECONDS = {"mondrian_redraw": 0.7, "bsp_redraw": 4.5}
REDRAW_ROWS = 500
REDRAW_REPETITIONS = 4
SCALES = tuple(round(0.1 * k, 1) for k in range(1, 16))
SIZES = (300, 500, 1000, 2000, 5000, 10_000)
N = 5000
N_TEST = 5000


def points(scale: Scale) -> list[tuple[int, float]]:
    """Return the numbers of rows and budget scales of both rows of the figure."""
    if scale.full:
        return sorted({(N, s) for s in SCALES} | {(n, 1.0) for n in SIZES})
    return sorted({(1000, s) for s in (0.1, 0.5, 1.0, 1.5)} | {(n, 1.0) for n in (300, 1000, 3000)})


def repetitions(scale: Scale, method: str, n: int) -> int:
    """Return all, but a few with few rows for redrawing forests."""
    if not METHODS[method].redraw:
        return scale.repetitions
    return min(scale.repetitions, REDRAW_REPETITIONS) if n <= REDRAW_ROWS else 0


def plan(scale: Scale) -> list[Job]:
    return [
        Job(
            NAME,
            "oblique_sine",
            method,
            (("n", n), ("scale", s)),
            r,
            cost=scale.trees * 1e-6 * (n * 1000 * REDRAW_MILLISECONDS.get(method, 4e-4) + N_TEST * 0.2) + 0.02,
        )
        for n, s in points(scale)
        for method in COMPARED
        for r in range(repetitions(scale, method, n))
    ]


def measure(job: Job, run: Run) -> dict[str, Any]:
    split = rows.make_oblique_sine(job["n"], N_TEST, job.data_seed)
    forest = make_forest(
        job.method, classify=False, d=2, trees=run.scale.trees, seed=job.seed, budget_scale=job["scale"]
    )
    return rows.measure_regression(forest, split)


# ----------------------------------------------------------------------------------------------------------------------
# The page

RULES = {"exact": ("bsp", "mondrian"), "redraw": ("bsp_redraw", "mondrian_redraw")}
SIMILAR = 0.25  # "similar" numbers of leaves differ by at most a quarter
STABLE = 0.1  # a "stable" error changes by less than a tenth over the last third of the budgets


def select_by_budget(frame: pd.DataFrame) -> pd.DataFrame:
    """Select the jobs with varying budget: those at the number of rows that has the most budgets."""
    n = frame.groupby("n")["scale"].nunique().idxmax()
    return frame[frame["n"] == n].sort_values("scale")


def select_by_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Select the jobs with a varying number of rows, at the default budget."""
    return frame[frame["scale"] == 1.0].sort_values("n")


def draw(frame: pd.DataFrame, folder: Path) -> list[str]:
    """Draw errors, leaves and times by budget and by number of rows, and errors against leaves and against time."""
    plt = drawing.import_pyplot()
    figure, axes = plt.subplots(2, 4, figsize=(14, 6.6), layout="constrained")
    labels = {"rmse": "RMSE to the true function", "leaves": "leaves per tree", "fit_cpu_s": "CPU time to fit (s)"}
    for row, subset, x in ((axes[0], select_by_budget(frame), "scale"), (axes[1], select_by_rows(frame), "n")):
        for ax, (y, label) in zip(row, labels.items(), strict=False):
            drawing.draw_curves(ax, subset, COMPARED, x, y)
            ax.set(xlabel="budget / n^(1/4)" if x == "scale" else "training rows", ylabel=label)
            if x == "n" and len(subset):
                ax.set(xscale="log", yscale="log")
                drawing.set_ticks(ax.xaxis, subset["n"].unique()[::2])
                drawing.set_log_ticks(ax.yaxis, (1, 1.5, 2, 3, 5, 7) if y == "rmse" else (1, 2, 5))
    for ax, subset, key, x in (
        (axes[0, 3], select_by_budget(frame), "scale", "leaves"),
        (axes[1, 3], select_by_rows(frame), "n", "fit_cpu_s"),
    ):
        for method in COMPARED:
            line = subset[subset["method"] == method].groupby(key)[[x, "rmse"]].mean()
            known = METHODS[method]
            ax.plot(line[x], line["rmse"], known.line, marker="o", color=known.colour, markersize=3)
        along = "by budget" if key == "scale" else "by number of rows"
        ax.set(xlabel=f"{labels[x]}, {along}", ylabel=labels["rmse"])
        if len(subset):
            ax.set(xscale="log", yscale="log")
            drawing.set_log_ticks(ax.xaxis, (1, 3))
            drawing.set_log_ticks(ax.yaxis)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    drawing.save(figure, folder / "efficiency.png")
    return ["efficiency.png"]


def describe(frame: pd.DataFrame, figures: list[str]) -> Section:
    section = Section("Efficiency of the cuts (Section 5.3)")
    section.add(
        "y = 10 sin(π x1 x2) + 0.2 ε. In two dimensions, pair cuts arrive at a rate of half the perimeter of the hull, axis "
        "cuts at half the perimeter of the box, which is larger by a factor of at most √2. Budgets are therefore comparable."
    )
    section.add("", *(f"![RMSE, leaves and time]({{figures}}/{name})" for name in figures))
    budget, sizes = select_by_budget(frame), select_by_rows(frame)
    section.add(
        "", f"By budget, {budget['n'].iloc[0]:,} rows. RMSE:", "", *format_table(budget, "rmse", "scale", COMPARED)
    )
    section.add("", "Leaves per tree:", "", *format_table(budget, "leaves", "scale", COMPARED, digits=0, best=None))
    section.add(
        "", "CPU time to fit, in seconds:", "", *format_table(budget, "fit_cpu_s", "scale", COMPARED, best=None)
    )
    section.add("", "By number of rows, budget n^(1/4). RMSE:", "", *format_table(sizes, "rmse", "n", COMPARED))
    section.add("", "Leaves per tree:", "", *format_table(sizes, "leaves", "n", COMPARED, digits=0, best=None))
    section.add("", "CPU time to fit, in seconds:", "", *format_table(sizes, "fit_cpu_s", "n", COMPARED, best=None))
    for name, subset, axis in (("budget", budget, "scale"), ("number of rows", sizes, "n")):
        rules = {rule: compare(subset, ours, theirs, [axis], "rmse") for rule, (ours, theirs) in RULES.items()}
        section.claims.append(
            Claim(f"Efficiency: BSP has the lower RMSE for every {name}", judge(rules), format_comparisons(rules))
        )
    section.claims += [judge_equal_leaves(budget), judge_leaves(budget), judge_saturation(budget), judge_time(sizes)]
    return section


def judge_equal_leaves(budget: pd.DataFrame) -> Claim:
    """Compare RMSE at equal numbers of leaves, with that of Mondrian interpolated on a logarithmic scale."""
    logs = budget.assign(rmse=np.log(budget["rmse"]))
    rules, shown = {}, []
    for rule, (ours, theirs) in RULES.items():
        rules[rule] = compare_at_equal_leaves(logs, ours, (theirs,), ["n"], ["scale"], "rmse")
        times = np.exp(np.negative(rules[rule].gains))
        if len(times):
            shown.append(f"{rule}: RMSE of BSP is {format_range(times)} times that of Mondrian")
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
        f"Efficiency: the numbers of leaves are similar (criterion: within {SIMILAR:.0%})",
        judge(rules),
        "; ".join(shown),
    )


def judge_saturation(budget: pd.DataFrame) -> Claim:
    """Judge whether RMSE is stable over the last third of the budgets; leaves show whether trees are fully grown there."""
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
    text = f"Efficiency: RMSE is stable at large budgets (criterion: changes by less than {STABLE:.0%} over the last third)"
    return Claim(text, judge(rules), "; ".join(shown))


def judge_time(sizes: pd.DataFrame) -> Claim:
    means = average_by_method(sizes, "n", "fit_cpu_s", COMPARED)
    rules, shown = {}, []
    for rule, (ours, theirs) in RULES.items():
        ratio = (means[ours] / means[theirs]).dropna()
        rules[rule] = compare_by_sign(ratio - 1)
        if len(ratio):
            shown.append(f"{rule}: {format_range(ratio)} times the CPU time of Mondrian")
    verdict = judge_size("longer", rules, "a bit", ".0%")
    return Claim("Efficiency: BSP takes a bit longer than Mondrian", verdict, "; ".join(shown))
