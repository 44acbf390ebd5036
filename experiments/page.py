"""The page: every claim of the paper with a verdict, then tables and figures, all made from the CSV files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from .runner import Run
from .summary import Section, Standing, read

REDUCED = """\
The paper repeats everything 16 times. So does this run where it is cheap; what was reduced, so that it fits in about three hours
on two cores:

- `max_features` of the batch forests is tuned once a dataset, by three-fold cross-validation with 50 trees on at most 4,000
  rows, not anew in every repetition. For classification these are rows of the official training part, some of which
  other splits predict: one number is tuned, to the batch forests' advantage if at all.
- Classification: 8 repetitions for letter, which is half of all rows. Beyond the paper (ten components, all features): 4
  repetitions, 5 shares.
- Prices: 8 repetitions. Each predicts 91,616 rows, so that little is left to chance.
- Airline: 16 repetitions at 100K for what takes seconds, 3 for the batch forests and `redraw`; 3 and 1 at 400K and 1M. In time
  order rows are the same in all repetitions: only the seeds differ. Shuffled, `redraw` is run at 100K only, and at 1M
  the batch forests are left out and the others run once: these jobs take up to a quarter of an hour each.
- Cost: one measurement each, with caps for the slow methods.
"""

NOTES = """\
- *BSP* is this library's forest with pair cuts; *exact* keeps the law the paper proves things about, *redraw* follows its
  Algorithm 4 as printed. *Mondrian* is the same engine with axis cuts, predicting by the leaf alone: without the smoothing
  along the path that scikit-garden's has. τₙ = n^(1/(d+2)); τ = ∞ is the paper's "fixed budget".
- *Mondrian, (d-1) τₙ*: pair cuts come d-1 times as fast as axis cuts at the same budget. This is the comparison at about equal
  numbers of leaves, which the paper does not make.
- ± is 1.96 standard errors over the repetitions. Verdicts compare methods on the same rows, by Student's t of the paired
  differences at the 95 % level; "level" is what it does not tell apart.
"""


def write(run: Run, experiments: Sequence[ModuleType], path: Path) -> Path:
    """Draw the figures from the tables and write the page."""
    sections: list[Section] = []
    checks: list[tuple[str, str, str, bool]] = []
    missing: list[str] = []
    for experiment in experiments:
        absent = run.missing(experiment)
        if absent:
            missing.append(say_missing(experiment, absent, len(experiment.plan(run.scale))))
        frame = read(run.folder / f"{experiment.NAME}.csv")
        if frame.empty or not hasattr(experiment, "describe"):
            continue
        sections.append(experiment.describe(frame, experiment.draw(frame, run.folder)))
        if hasattr(experiment, "check"):
            checks += experiment.check(frame)
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = os.path.relpath(run.folder, path.parent) or "."
    text = "\n".join(assemble(run, sections, checks, missing)).replace("{figures}", figures)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def say_missing(experiment: ModuleType, absent: list, total: int) -> str:
    methods = sorted({job.method for job in absent})
    return f"{experiment.NAME}: {len(absent):,} of {total:,} jobs are missing ({', '.join(methods)})"


def assemble(run: Run, sections: list[Section], checks: list, missing: list[str]) -> list[str]:
    made = json.loads((run.folder / "run.json").read_text())["machines"] if (run.folder / "run.json").exists() else []
    machine = "; ".join(", ".join(f"{k} {v}" for k, v in each.items()) for each in made)
    command = "make reproduce-full" if run.scale.full else "make reproduce"
    lines = [
        "# The paper's evaluation, run anew",
        "",
        f"Made by `{command}` from the tables beside the figures; not written by hand. {run.scale.trees} trees a forest. {machine}.",
        "",
    ]
    if not run.scale.full:
        lines += [
            "**A quick run**: fewer trees, rows and repetitions than the paper's. It shows that everything works.",
            "",
        ]
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
            "## What was asked of this library",
            "",
            ASKED,
            "",
            "| what | asked | measured | met |",
            "|---|---|---|---|",
        ]
        lines += [f"| {what} | {asked} | {got} | {'yes' if met else '**no**'} |" for what, asked, got, met in checks]
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
        "forest's. The worst first: this says what is worth building next.",
        "",
        "| | batch | error | BSP, τₙ | best online | error | times |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in sorted(standings, key=lambda each: -each.error / each.batch_error):
        lines.append(
            f"| {each.what} | {each.batch} | {each.batch_error:.3f} | {each.error:.3f} | {each.best} | {each.best_error:.3f} "
            f"| {each.error / each.batch_error:.2f} |"
        )
    return lines if standings else []


ASKED = (
    "Official splits, four components, soft voting, three times the default budget; Friedman and airline at the default "
    "budget. Each was also to be ahead of the Mondrian forest at the same budget."
)
