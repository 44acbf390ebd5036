"""The page: every claim of the paper with a verdict, then tables and figures, all made from the CSV files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from .runner import Run
from .summary import Section, Standing, read_table

REDUCED = """\
The paper repeats everything 16 times. So does this run where it is cheap; what was reduced, so that it fits in about three hours
on two cores:

- `max_features` of the batch forests is tuned once a dataset, by three-fold cross-validation with 50 trees on at most 4,000
  rows (airline: 20 trees, 50,000 rows), not anew in every repetition. For classification these are rows of the official
  training part, some of which other splits predict: one number is tuned, to the batch forests' advantage if at all.
- Classification: 8 repetitions for letter, which is half of all rows. Beyond the paper (ten components, all features): 4
  repetitions, 5 shares.
- Prices: 8 repetitions. Each predicts 91,616 rows, so that little is left to chance.
- Airline: 16 repetitions at 100K for what takes seconds, 3 for the batch forests and `redraw`; 3 and 1 at 400K, and at 1M in
  time order, where rows are the same in all repetitions and only seeds differ; 1 at 1M shuffled. Without day and month
  (100K): 4 and 1.
- Cost: one measurement each, with caps for the slow methods.
"""

NOTES = """\
- *BSP* is this library's forest with pair cuts; *exact* keeps the law the paper proves things about, *redraw* follows its
  Algorithm 4 as printed. *Mondrian* is the same engine with axis cuts, predicting by the leaf alone: without the smoothing
  along the path that scikit-garden's has. τₙ = n^(1/(d+2)); τ = ∞ is the paper's "fixed budget".
- *Mondrian, (d-1) τₙ*: pair cuts come d-1 times as fast as axis cuts at the same budget. That brings the numbers of
  leaves closer, not together: how close, each claim says. *Mondrian at equal leaves* is read off a monotone curve
  through the Mondrian forests of a setting, error over the logarithm of leaves, on the same rows. Mostly it has three
  points, so that its shape matters: what straight lines would say stands beside. They lie above a curve that falls
  ever more slowly, and so flatter BSP. The paper makes neither comparison.
- ± is 1.96 standard errors over the repetitions. Verdicts compare methods on the same rows, in each setting by
  Student's t of the paired differences at the 95 % level; "level" is what it does not tell apart. A setting of one run
  has no error and counts by the sign of its difference: verdicts say how many there are. Verdicts "by means" compare
  means alone, by their sign.
- Where a claim states a size, its direction is judged first, then the size is set beside the sizes measured.
"""


def write(run: Run, experiments: Sequence[ModuleType], path: Path) -> Path:
    """Draw the figures from the tables and write the page."""
    sections: list[Section] = []
    checks: list[tuple[str, str, str, bool]] = []
    missing: list[str] = []
    for experiment in experiments:
        absent = run.missing(experiment)
        if absent:
            missing.append(describe_missing(experiment, absent, len(experiment.plan(run.scale))))
        frame = read_table(run.folder / f"{experiment.NAME}.csv")
        if frame.empty or not hasattr(experiment, "describe"):
            continue
        sections.append(experiment.describe(frame, experiment.draw(frame, run.folder)))
        if hasattr(experiment, "check_goals"):
            checks += experiment.check_goals(frame)
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = os.path.relpath(run.folder, path.parent) or "."
    text = "\n".join(assemble(run, sections, checks, missing)).replace("{figures}", figures)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def describe_missing(experiment: ModuleType, absent: list, total: int) -> str:
    methods = sorted({job.method for job in absent})
    return f"{experiment.NAME}: {len(absent):,} of {total:,} jobs are missing ({', '.join(methods)})"


def assemble(run: Run, sections: list[Section], checks: list, missing: list[str]) -> list[str]:
    signed = json.loads((run.folder / "run.json").read_text()) if (run.folder / "run.json").exists() else {}
    made = [", ".join(f"{k} {v}" for k, v in each.items()) for each in signed.get("machines", [])]
    made += [f"commit {commit[:12]}" for commit in signed.get("commits", [])]
    command = "make reproduce-full" if run.scale.full else "make reproduce"
    lines = [
        "# The paper's evaluation, run anew",
        "",
        f"Made by `{command}` from the tables beside the figures; not written by hand. "
        f"{run.scale.trees} trees a forest. {'; '.join(made)}.",
        "",
    ]
    if not run.scale.full:
        lines += [
            "**A quick run**: fewer trees, rows and repetitions than the paper's. It shows that everything works.",
            "",
        ]
    for remark in signed.get("remarks", []):  # put there by hand: what a reader should know of this run
        lines += [remark, ""]
    if missing:
        lines += ["**This run is not complete**, and verdicts may change:", "", *(f"- {line}" for line in missing), ""]
    lines += [
        "## What the paper claims, and what we find",
        "",
        NOTES,
        "The numbers behind each verdict stand in its section.",
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
            "| what | goal | measured | met |",
            "|---|---|---|---|",
        ]
        lines += [f"| {what} | {goal} | {got} | {'yes' if met else '**no**'} |" for what, goal, got, met in checks]
    lines += describe_standings([each for section in sections for each in section.standings])
    if run.scale.full:
        lines += ["", "## What was reduced", "", REDUCED]
    for section in sections:
        lines += ["", f"## {section.title}", "", *section.lines, "", "The claims, with the numbers:", ""]
        lines += [f"- {c.text}: {c.verdict}. {c.numbers}" for c in section.claims]
    return lines


def describe_standings(standings: list[Standing]) -> list[str]:
    """Where the online forest loses to the batch forests, the worst first."""
    lines = [
        "",
        "## Beside the batch forests",
        "",
        "Errors (RMSE, or the share of rows given a wrong class) of the better batch forest, of the BSP forest at its defaults, and "
        "of the best of all online forests above; the last column is the BSP forest's error at its defaults in times the batch "
        "forest's. Means are over the repetitions that all methods of a line have. The worst first: this says what is "
        "worth building next.",
        "",
        "| | batch | error | BSP, τₙ | best online | error | times |",
        "|---|---|---|---|---|---|---|",
    ]
    alone = [each for each in standings if math.isnan(each.batch_error)]
    beside = [each for each in standings if each not in alone]
    for each in [*sorted(beside, key=lambda each: -each.error / each.batch_error), *alone]:
        error, times = (
            (f"{each.batch_error:.3f}", f"{each.error / each.batch_error:.2f}") if each in beside else ("", "")
        )
        online = f"{each.error:.3f} | {each.best} | {each.best_error:.3f}"
        lines.append(f"| {each.what} | {each.batch} | {error} | {online} | {times} |")
    return lines if standings else []


GOALS = (
    "Official splits, four components, soft voting, three times the default budget; Friedman and airline at the default "
    "budget. Each is also to be ahead of the Mondrian forest at the same budget."
)
