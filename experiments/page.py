"""The results page: each claim of the paper with a verdict, then tables and figures, generated from the CSV files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from .peers import add_seconds, describe_contests
from .runner import Run
from .summary import Section, Standing, read_table

REDUCED = """\
The paper repeats every experiment 16 times. This run does the same where it is cheap. To keep it at about three hours on two
cores, the following was reduced:

- `max_features` of the batch forests is tuned once per dataset, by three-fold cross-validation with 50 trees on at most
  4,000 rows (airline: 20 trees, 50,000 rows), and not in every repetition. For classification these are rows of the
  official training set, some of which are test rows in other splits; if this has an effect, it favours the batch forests.
- Classification: 8 repetitions for letter, which has half of all rows. For settings that are not in the paper (ten
  components, all features): 4 repetitions, 5 training fractions.
- Prices: 8 repetitions. Each has 91,616 test rows, so the variance is small.
- Airline: 16 repetitions at 100K for fast methods, 3 for the batch forests; 3 and 1 at 400K, and at 1M in time
  order, where all repetitions have the same rows and only the seeds differ; 1 at 1M shuffled. Without day and month
  (100K): 4 and 1.
- *BSP, joint* and *LightGBM*, which are not in the paper: 3 repetitions in classification, at training fractions 0.1 and 0.5
  (with four components also 0.9) and the official split; for Friedman and prices as many as the others; airline 3 at 100K, 1
  at 400K, 1 without day and month, none at 1M. This keeps their jobs below half an hour on two cores.
- *redraw*: the trees of `bspforest.reference` are too slow for these numbers of rows and features. They are run only for the
  efficiency of cuts in the plane, with 300 and 500 rows and 4 repetitions; elsewhere they are not run.
- Cost: one measurement each, with limits for the slow methods.
"""

NOTES = """\
- *BSP* is the forest of this library with pair cuts. *exact* follows the law that the paper's theorems are about, *redraw*
  follows Algorithm 4 as printed, in plain Python (`bspforest.reference`). *Mondrian* is the same engine with axis cuts; it
  predicts by the leaf alone, without the smoothing along the path of scikit-garden. τₙ = n^(1/(d+2)); τ = ∞ is the paper's "fixed budget".
- *Mondrian, (d-1) τₙ*: at the same budget, pair cuts arrive d-1 times as fast as axis cuts. The factor makes the numbers of
  leaves similar but not equal; each claim reports the ratio. *Mondrian at equal leaves* is interpolated by a monotone curve
  through the Mondrian forests of a setting (error against the logarithm of leaves, on the same rows). The curve usually has
  three points, so its shape matters, and the result of linear interpolation is also given. Linear interpolation lies above
  a convex curve and therefore favours BSP. The paper makes neither comparison.
- *BSP, joint* is the forest of this library with all parameters at their defaults, which is not the paper's forest: its
  leaves do not hold means. *LightGBM* has fixed parameters. Both are additions: they are in tables and figures, with their
  number of runs, but no claim, verdict, goal or ranking of the paper's methods depends on them. In tables, the best of the
  paper's methods is bold, and additions that are better.
- ± is 1.96 standard errors over the repetitions. Verdicts compare methods on the same rows with a paired t-test at the 95 %
  level in each setting; "level" means no significant difference. A setting with a single run has no standard error and
  counts by the sign of its difference; verdicts state how many of these there are. Verdicts "by means" compare means by
  their sign.
- If a claim states a size, the verdict is on its direction, followed by the measured sizes.
"""

GOALS = (
    "Official splits with four components, soft voting and three times the default budget; Friedman and airline with the "
    "default budget. In each case the forest should also be better than the Mondrian forest at the same budget."
)


def write(run: Run, experiments: Sequence[ModuleType], path: Path) -> Path:
    """Draw the figures from the tables and write the page."""
    sections: list[Section] = []
    checks: list[tuple[str, str, str, bool]] = []
    missing: list[str] = []
    seconds: dict[str, float] = {}
    for experiment in experiments:
        absent = run.missing(experiment)
        if absent:
            missing.append(describe_missing(experiment, absent, len(experiment.plan(run.scale))))
        frame = read_table(run.folder / f"{experiment.NAME}.csv")
        if frame.empty or not hasattr(experiment, "describe"):
            continue
        add_seconds(seconds, frame)
        sections.append(experiment.describe(frame, experiment.draw(frame, run.folder)))
        if hasattr(experiment, "check_goals"):
            checks += experiment.check_goals(frame)
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = os.path.relpath(run.folder, path.parent) or "."
    text = "\n".join(assemble(run, sections, checks, missing, seconds)).replace("{figures}", figures)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def describe_missing(experiment: ModuleType, absent: list, total: int) -> str:
    methods = sorted({job.method for job in absent})
    return f"{experiment.NAME}: {len(absent):,} of {total:,} jobs are missing ({', '.join(methods)})"


def assemble(
    run: Run, sections: list[Section], checks: list, missing: list[str], seconds: dict[str, float] | None = None
) -> list[str]:
    """Return the lines of the page; ``seconds`` is how long the jobs of each added method took in all."""
    provenance = json.loads((run.folder / "run.json").read_text()) if (run.folder / "run.json").exists() else {}
    versions = [", ".join(f"{k} {v}" for k, v in each.items()) for each in provenance.get("machines", [])]
    versions += [f"commit {commit[:12]}" for commit in provenance.get("commits", [])]
    command = "make reproduce-full" if run.scale.full else "make reproduce"
    lines = [
        "# Reproduction of the paper's evaluation",
        "",
        f"Generated by `{command}` from the tables in the folder of the figures; do not edit. "
        f"{run.scale.trees} trees per forest. {'; '.join(versions)}.",
        "",
    ]
    if not run.scale.full:
        lines += [
            "**This is a quick run** with fewer trees, rows and repetitions than in the paper, to check that everything works.",
            "",
        ]
    for remark in provenance.get("remarks", []):  # written by hand
        lines += [remark, ""]
    if missing:
        lines += [
            "**This run is not complete**; what is said of missing methods may change:",
            "",
            *(f"- {line}" for line in missing),
            "",
        ]
    lines += [
        "## Claims of the paper and findings",
        "",
        NOTES,
        "The numbers behind each verdict are in its section.",
        "",
    ]
    lines += ["| claim | verdict |", "|---|---|"]
    lines += [f"| {c.text} | {c.verdict} |" for section in sections for c in section.claims]
    if checks and run.scale.full:
        lines += [
            "",
            "## Goals of this library",
            "",
            GOALS,
            "",
            "| quantity | goal | measured | met |",
            "|---|---|---|---|",
        ]
        lines += [f"| {what} | {goal} | {got} | {'yes' if met else '**no**'} |" for what, goal, got, met in checks]
    lines += describe_standings([each for section in sections for each in section.standings])
    if sections:
        lines += describe_contests([each for section in sections for each in section.contests], seconds or {})
    if run.scale.full:
        lines += ["", "## Reductions", "", REDUCED]
    for section in sections:
        lines += ["", f"## {section.title}", "", *section.lines, "", "Claims with their numbers:", ""]
        lines += [f"- {c.text}: {c.verdict}. {c.numbers}" for c in section.claims]
    return lines


def describe_standings(standings: list[Standing]) -> list[str]:
    """Compare the online forests with the batch forests, worst ratio first."""
    lines = [
        "",
        "## Comparison with batch forests",
        "",
        "Errors (RMSE, or the misclassification rate) of the better batch forest, of the BSP forest with default "
        "parameters, and of the best of all online forests above. The last column is the ratio of the default BSP forest's "
        "error to that of the batch forest. Means are over the repetitions that all methods of a row share. Rows are sorted "
        "by this ratio, largest first.",
        "",
        "| | batch | error | BSP, τₙ | best online | error | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    without_batch = [each for each in standings if math.isnan(each.batch_error)]
    with_batch = [each for each in standings if each not in without_batch]
    for each in [*sorted(with_batch, key=lambda each: -each.error / each.batch_error), *without_batch]:
        error, times = (
            (f"{each.batch_error:.3f}", f"{each.error / each.batch_error:.2f}") if each in with_batch else ("", "")
        )
        online = f"{each.error:.3f} | {each.best} | {each.best_error:.3f}"
        lines.append(f"| {each.what} | {each.batch} | {error} | {online} | {times} |")
    return lines if standings else []
