"""Section 5.1: classification of four datasets by training fraction, with 4 and 10 principal components and all features."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import drawing, rows, tuning
from .leaves import compare_with_mondrian
from .methods import ADDED, count_leaves, drop_redraw, make_forest
from .peers import make_contest
from .runner import Job, Run, Scale
from .summary import (
    Claim,
    Comparison,
    Section,
    add_best_batch,
    average,
    compare,
    format_comparisons,
    format_mean,
    format_table,
    judge,
    judge_size,
    make_standings,
)

NAME = "classification"
SETTINGS = ("features", "share")
MEASURES = ("n_train", "d", "accuracy", "accuracy_hard", "leaves", "fit_cpu_s", "predict_cpu_s")
TIMED = False

CURVE = (
    "random_forest",
    "extra_trees",
    "mondrian_fixed",
    "mondrian",
    "mondrian_fair",
    "bsp",
    "bsp_redraw",
    "bsp_3",
)
OFFICIAL = (*CURVE, "mondrian_3", "mondrian_3_fair")
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ADDED_SHARES: dict[Any, tuple[float, ...]] = {4: (0.1, 0.5, 0.9), 10: (0.1, 0.5), "all": (0.1, 0.5)}
ADDED_REPETITIONS = 3

# Number of rows per dataset and microseconds per row and tree, to estimate how long jobs take.
N_ROWS = {"satimage": 6435, "letter": 20_000, "dna": 3186, "usps": 9298}
MICROSECONDS = {"random_forest": 4.0, "extra_trees": 1.6}
MICROSECONDS_PER_CLASS = {"auto": 0.8, "lightgbm": 0.35}  # per row and tree
N_CLASSES = {"satimage": 6, "letter": 26, "dna": 3, "usps": 10}


def repetitions(scale: Scale, method: str, dataset: str, features: Any) -> int:
    """Return sixteen for four components as in the paper, eight for letter, which has half of all rows.

    Settings that are not in the paper have more features and slower jobs, and get four. Added methods, whose jobs take up
    to a minute, get three.
    """
    if not scale.full:
        return scale.repetitions if features == 4 else 1
    if method in ADDED:
        return ADDED_REPETITIONS
    if features != 4:
        return 4
    return 8 if dataset == "letter" else scale.repetitions


def list_methods(features: Any, share: Any) -> tuple[str, ...]:
    """Return the methods of a setting; the added ones at some training fractions only."""
    methods = drop_redraw(OFFICIAL if share == "official" else CURVE)
    return (*methods, *ADDED) if share in ("official", *ADDED_SHARES[features]) else methods


def estimate_seconds(scale: Scale, method: str, dataset: str, features: Any, share: Any) -> float:
    n = N_ROWS[dataset]
    fraction = 0.7 if share == "official" else float(share)
    wide = 1.0 if features != "all" or dataset in ("satimage", "letter") else 3.0
    if method in ADDED:  # one solution, or one tree per round, for each class
        slow = MICROSECONDS_PER_CLASS[method] * N_CLASSES[dataset] * wide
        return n * scale.trees * 1e-6 * slow * (fraction + (0.5 if method == "lightgbm" else 0.0)) + 0.5
    return n * scale.trees * 1e-6 * (fraction * MICROSECONDS.get(method, 0.5) * wide + (1 - fraction) * 0.5) + 0.1


def plan(scale: Scale) -> list[Job]:
    jobs = []
    for features in (4, 10, "all"):
        few = (0.1, 0.5, 0.9) if features == 4 else (0.5,)
        beyond = (0.1, 0.3, 0.5, 0.7, 0.9)
        shares = (SHARES if features == 4 else beyond) if scale.full else few
        for dataset in N_ROWS:
            for share in (*shares, "official"):
                for method in list_methods(features, share):
                    cost = estimate_seconds(scale, method, dataset, features, share)
                    jobs += [
                        Job(NAME, dataset, method, (("features", features), ("share", share)), r, cost)
                        for r in range(repetitions(scale, method, dataset, features))
                    ]
    return jobs


def measure(job: Job, run: Run) -> dict[str, Any]:
    split = rows.split_classes(job.dataset, job["share"], job["features"], job.data_seed, run.data_home)
    d = split.X.shape[1]
    best = tuning.get_max_features(run, job.dataset, job["features"], job.method)
    forest = make_forest(job.method, classify=True, d=d, trees=run.scale.trees, seed=job.seed, max_features=best)
    started = time.thread_time()
    forest.fit(split.X, split.y)
    fitted_at = time.thread_time()
    predicted = forest.predict(split.X_test)
    predicted_at = time.thread_time()
    measures = {
        "n_train": len(split.X),
        "d": d,
        "accuracy": float(np.mean(predicted == split.y_test)),
        "leaves": float(count_leaves(forest)),
        "fit_cpu_s": fitted_at - started,
        "predict_cpu_s": predicted_at - fitted_at,
    }
    if getattr(forest, "prediction", "") == "mean":  # joint values have no votes per tree
        forest.voting = "hard"
        measures["accuracy_hard"] = float(np.mean(forest.predict(split.X_test) == split.y_test))
    return measures


# ----------------------------------------------------------------------------------------------------------------------
# The page

# The paper's voting rule and ours, under both refinements: method and column of the table.
RULES = {
    "exact soft": ("bsp", "accuracy"),
    "exact hard": ("bsp", "accuracy_hard"),
    "redraw soft": ("bsp_redraw", "accuracy"),
    "redraw hard": ("bsp_redraw", "accuracy_hard"),
}
COMPETITIVE = 0.01  # difference in accuracy that counts as "competitive"
GOALS = {"satimage": 0.875, "letter": 0.645, "dna": 0.90, "usps": 0.745}


def draw(frame: pd.DataFrame, folder: Path) -> list[str]:
    plt = drawing.import_pyplot()
    curves = frame[frame["share"] != "official"].copy()
    curves["share"] = curves["share"].astype(float)
    names = []
    for features, subset in curves.groupby("features", sort=False):
        figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
        for ax, dataset in zip(axes, N_ROWS, strict=True):
            drawing.draw_curves(ax, subset[subset["dataset"] == dataset], (*CURVE, *ADDED), "share", "accuracy")
            ax.set(title=dataset, xlabel="training fraction", xlim=(0, 1))
        axes[0].set_ylabel("accuracy")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        names.append(f"classification_{features}.png")
        drawing.save(figure, folder / names[-1])
    return names


def describe(frame: pd.DataFrame, figures: list[str]) -> Section:
    section = Section("Classification (Section 5.1)")
    section.add(
        "Accuracy on the remaining rows, by training fraction. Principal components are fitted on the training rows. "
        "Voting is soft unless stated otherwise; `max_features` of the batch forests is tuned by cross-validation."
    )
    for name in figures:
        what = {"4": "Four principal components, as in the paper:", "10": "Ten components:"}
        section.add(
            "", what.get(name[15:-4], "All features:"), "", f"![accuracy by training fraction]({{figures}}/{name})"
        )
    curves = frame[frame["share"] != "official"]
    for features in (4, 10, "all"):
        subset = curves[(curves["features"].astype(str) == str(features)) & (curves["share"].astype(str) == "0.5")]
        if not subset.empty:
            title = "all features" if features == "all" else f"{features} components"
            section.add("", f"Training fraction 0.5, {title}:", "")
            section.add(*format_table(subset, "accuracy", "dataset", (*CURVE, *ADDED), best="max"))
    section.add(*describe_votes(curves), *describe_official(frame[frame["share"] == "official"]))
    for (features, dataset), subset in frame[frame["share"] == "official"].groupby(["features", "dataset"], sort=False):
        title = "all features" if features == "all" else f"{features} components"
        section.standings += make_standings(subset, f"{dataset}, official split, {title}", "accuracy")
    for (features, dataset, share), subset in frame.groupby(["features", "dataset", "share"], sort=False):
        title = "all features" if features == "all" else f"{features} components"
        rows_used = "official split" if share == "official" else f"training fraction {share}"
        section.contests += make_contest(subset, f"{dataset}, {rows_used}, {title}", "accuracy")
    four = curves[curves["features"].astype(str) == "4"]
    section.claims += [judge_batch(four, ("satimage", "letter", "usps")), judge_batch(four, ("dna",))]
    section.claims += judge_mondrian(four[four["dataset"] != "dna"])
    return section


def describe_votes(curves: pd.DataFrame) -> list[str]:
    """Describe the gain of soft over hard voting, averaged over fractions in each repetition that has all of them."""
    lines = [
        "",
        "Gain in accuracy of soft voting over the paper's majority of majorities, averaged over training fractions (four components):",
        "",
    ]
    four = curves[curves["features"].astype(str) == "4"]
    four = four.assign(gain=four["accuracy"] - four["accuracy_hard"]).dropna(subset=["gain"])
    gains = four.groupby(["dataset", "method", "repetition"])["gain"].agg(["mean", "count"]).reset_index()
    whole = gains[gains["count"] == gains.groupby(["dataset", "method"])["count"].transform("max")]
    return lines + format_table(
        whole.rename(columns={"mean": "gain"}), "gain", "dataset", OFFICIAL, digits=4, best=None
    )


def describe_official(frame: pd.DataFrame) -> list[str]:
    lines: list[str] = []
    for features in (4, 10, "all"):
        subset = frame[frame["features"].astype(str) == str(features)]
        if not subset.empty:
            title = "all features" if features == "all" else f"{features} components"
            lines += [
                "",
                f"Official split, {title} (only the seeds of the forests differ between repetitions):",
                "",
            ]
            lines += format_table(subset, "accuracy", "dataset", (*OFFICIAL, *ADDED), best="max")
    return lines


def judge_batch(frame: pd.DataFrame, sets: tuple[str, ...]) -> Claim:
    """Judge whether the forest is within `COMPETITIVE` of the better batch forest at every training fraction."""
    subset = add_best_batch(frame[frame["dataset"].isin(sets)], ["dataset", "share"], "accuracy", smaller=False)
    subset.loc[subset["method"] == "best batch", "accuracy"] -= COMPETITIVE
    rules = {}
    for rule, (method, column) in RULES.items():
        rules[rule] = compare(
            subset, method, "best batch", ["dataset", "share"], column, smaller=False, their_value="accuracy"
        )
    close = {rule: Comparison(c.better + c.level, 0, c.worse, c.single, c.gains) for rule, c in rules.items()}
    text = "; ".join(
        f"{rule}: within {COMPETITIVE} in {c.better} of {c.total}, mean difference {np.mean(c.gains) - COMPETITIVE:+.3f}"
        for rule, c in close.items()
        if c.total
    )
    if sets == ("dna",):
        worse = {rule: Comparison(c.worse, c.level, c.better, c.single, c.gains) for rule, c in rules.items()}
        return Claim("Classification: on dna it is not competitive with RF and ERT", judge(worse), text)
    return Claim(f"Classification: competitive with RF and ERT on {', '.join(sets)}", judge(close), text)


def judge_mondrian(frame: pd.DataFrame) -> list[Claim]:
    text = "Classification: much better than Mondrian on satimage, letter, usps."
    comparisons = compare_with_mondrian(frame, RULES, ["dataset", "share"], smaller=False)
    return [
        Claim(f"{text} {rival}", judge_size("better", rules, "much", ".3f"), format_comparisons(rules))
        for rival, rules in comparisons.items()
    ]


def check_goals(frame: pd.DataFrame) -> list[tuple[str, str, str, bool]]:
    """Return the goals on the official splits: description, goal, measured value, and whether it is met."""
    subset = frame[(frame["share"] == "official") & (frame["features"].astype(str) == "4")]
    out = []
    for dataset, goal in GOALS.items():
        here = average(subset[subset["dataset"] == dataset], ["method"], "accuracy").set_index("method")
        if "bsp_3" not in here.index:
            continue
        mean = here.loc["bsp_3", "mean"]
        out.append((f"{dataset}, accuracy", f"≥ {goal}", format_mean(mean, here.loc["bsp_3", "half"]), mean >= goal))
        if "mondrian_3" in here.index:
            other = compare(
                subset[subset["dataset"] == dataset], "bsp_3", "mondrian_3", ["dataset"], "accuracy", smaller=False
            )
            shown = format_mean(here.loc["mondrian_3", "mean"], here.loc["mondrian_3", "half"])
            out.append(
                (
                    f"{dataset}, better than Mondrian at the same budget",
                    "better",
                    f"Mondrian {shown}: {describe_rival(other)}",
                    other.holds,
                )
            )
    return out


def describe_rival(comparison: Comparison) -> str:
    """Describe the result of a comparison from the point of view of the rival."""
    if not comparison.total:
        return "not run"
    return "worse" if comparison.better else ("better" if comparison.worse else "no significant difference")
