"""Table 1, apartments, and the map: property prices in England and Wales by location, from a fifth of the sales."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import drawing, rows, tuning
from .methods import ADDED, BATCH, drop_redraw, get_label, make_forest
from .peers import make_contest
from .runner import Job, Run, Scale
from .summary import (
    Claim,
    Section,
    average,
    compare,
    format_comparisons,
    format_mean,
    format_runs,
    judge,
    make_standings,
)

NAME = "prices"
SETTINGS = ("share",)
MEASURES = rows.MEASURES
TIMED = False

METHODS = (
    "random_forest",
    "extra_trees",
    "mondrian_fixed",
    "mondrian",
    "mondrian_redraw",
    "mondrian_3",
    "bsp",
    "bsp_redraw",
    "bsp_3",
    "bsp_fixed",
)
MICROSECONDS = {"random_forest": 4.0, "extra_trees": 2.0, "auto": 4.0}
MAP = "map of bsp"
CELL = 0.05  # degrees of latitude (0.08 of longitude), about five kilometres


def plan(scale: Scale) -> list[Job]:
    # Eight repetitions, not sixteen: with 92,000 test rows each, the variance is small.
    n = 8 if scale.full else 2
    jobs = [
        Job(
            NAME,
            "uk_prices",
            method,
            (("share", 0.2),),
            r,
            scale.trees * (0.023 * MICROSECONDS.get(method, 0.6) + 0.04),
        )
        for method in drop_redraw((*METHODS, *ADDED))
        for r in range(n)
    ]
    return [*jobs, Job(NAME, "uk_prices", MAP, (("share", 0.2),), 0, scale.trees * 0.1)]


def measure(job: Job, run: Run) -> dict[str, Any]:
    split = rows.split_prices(job["share"], job.data_seed, run.data_home)
    if job.method == MAP:
        return write_map(job, run, split)
    best = tuning.get_max_features(run, "uk_prices", 2, job.method)
    forest = make_forest(job.method, classify=False, d=2, trees=run.scale.trees, seed=job.seed, max_features=best)
    return rows.measure_regression(forest, split)


def write_map(job: Job, run: Run, split: rows.Split) -> dict[str, Any]:
    """Write the mean actual and predicted price in each cell of a grid of the country, and return the RMSE."""
    forest = make_forest("bsp", classify=False, d=2, trees=run.scale.trees, seed=job.seed)
    predictions = forest.fit(split.X, split.y).predict(split.X_test)
    cells = np.floor(split.X_test / (CELL, 1.6 * CELL)).astype(int)
    places, index, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    index = index.ravel()
    true = np.bincount(index, split.y_test) / count
    predicted = np.bincount(index, predictions) / count
    with (run.folder / "prices_map.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("latitude", "longitude", "sales", "true", "predicted"))
        for (row, column), *values in zip(places, count, true, predicted, strict=True):
            n, t, p = values
            lines.writerow(
                (f"{(row + 0.5) * CELL:.3f}", f"{(column + 0.5) * 1.6 * CELL:.3f}", n, f"{t:.4f}", f"{p:.4f}")
            )
    return {"rmse": float(np.sqrt(np.mean((predictions - split.y_test) ** 2)))}


# ----------------------------------------------------------------------------------------------------------------------
# The page

PAPER = {
    "random_forest": "0.526 ± 0.02",
    "extra_trees": "0.531 ± 0.02",
    "mondrian_fixed": "0.545 ± 0.04",
    "mondrian": "0.541 ± 0.03",
    "bsp": "0.536 ± 0.03",
}
ATTRIBUTION = (
    "Contains HM Land Registry data © Crown copyright and database right 2018, and National Statistics (ONS) postcode "
    "data © Crown copyright and database right. Both are licensed under the "
    "[Open Government Licence v3.0](https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/)."
)
RULES = {"exact": "bsp", "redraw": "bsp_redraw"}


def draw(frame: pd.DataFrame, folder: Path) -> list[str]:
    path = folder / "prices_map.csv"
    if not path.exists():
        return []
    plt = drawing.import_pyplot()
    cells = pd.read_csv(path)
    figure, axes = plt.subplots(1, 3, figsize=(12, 5), layout="constrained", sharey=True)
    low, high = cells["true"].quantile([0.02, 0.98])
    wide = (cells["true"] - cells["predicted"]).abs().quantile(0.98)
    panels = (
        ("actual", cells["true"], "RdYlBu", low, high),
        ("predicted", cells["predicted"], "RdYlBu", low, high),
        ("error (predicted - actual)", cells["predicted"] - cells["true"], "PuOr", -wide, wide),
    )
    for ax, (title, values, colours, least, most) in zip(axes, panels, strict=True):
        drawn = ax.scatter(
            cells["longitude"], cells["latitude"], c=values, s=3.2, marker="s", cmap=colours, vmin=least, vmax=most
        )
        ax.set(title=title, xlabel="longitude", aspect=1.6)
        figure.colorbar(drawn, ax=ax, shrink=0.7, label="log price" if title in ("actual", "predicted") else "")
    axes[0].set_ylabel("latitude")
    drawing.save(figure, folder / "prices_map.png")
    return ["prices_map.png"]


def describe(frame: pd.DataFrame, figures: list[str]) -> Section:
    section = Section("Table 1: property prices")
    section.add(
        "RMSE of the log price predicted from latitude and longitude, with a random fifth of the sales as training rows. "
        "**The data are not the paper's**: they are 114,520 sales of all types of property in England and Wales, from a "
        "monthly update of late 2018 without dates. The paper uses 122,341 apartments sold in 2012, which were not "
        "available. Types of property differ in price at the same location, which a forest on locations cannot predict. "
        "Errors are therefore larger, and only comparisons between methods can be checked.",
        "",
        ATTRIBUTION,
        "",
        "| | RMSE | RMSE in the paper | leaves per tree |",
        "|---|---|---|---|",
    )
    section.add(*format_errors(frame))
    section.standings += make_standings(frame, "prices", "rmse")
    section.contests += make_contest(frame, "prices", "rmse")
    if figures:
        section.add(
            "", "Means in cells of about five kilometres for BSP, τₙ; as in the paper, red is low and blue is high:"
        )
        section.add("", *(f"![maps of actual, predicted, error]({{figures}}/{name})" for name in figures))
    for rival in ("mondrian_fixed", "mondrian"):
        rules = {rule: compare(frame, method, rival, ["share"], "rmse") for rule, method in RULES.items()}
        rules["redraw against Mondrian redraw"] = compare(frame, "bsp_redraw", "mondrian_redraw", ["share"], "rmse")
        text = f"Prices: BSP outperforms the Mondrian forests. Against {get_label(rival)}"
        section.claims.append(Claim(text, judge(rules), format_comparisons(rules)))
    batch = {
        f"{get_label(b)} against BSP {rule}": compare(frame, b, method, ["share"], "rmse")
        for b in BATCH
        for rule, method in RULES.items()
    }
    section.claims.append(
        Claim("Prices: RF and ERT are better than the online forests", judge(batch), format_comparisons(batch))
    )
    return section


def format_errors(frame: pd.DataFrame) -> list[str]:
    """Return the rows of the table of errors, those of added methods with their number of runs."""
    means = average(frame, ["method"], "rmse").set_index("method")
    leaves = frame.groupby("method")["leaves"].mean()
    lines = []
    for method in (*METHODS, *ADDED):
        if method in means.index:
            text = format_mean(means.loc[method, "mean"], means.loc[method, "half"], 4)
            runs = f" ({format_runs(means.loc[method, 'count'])})" if method in ADDED else ""
            lines.append(f"| {get_label(method)} | {text}{runs} | {PAPER.get(method, '')} | {leaves[method]:.0f} |")
        elif method in ADDED:
            lines.append(f"| {get_label(method)} | not run |  |  |")
    return lines
