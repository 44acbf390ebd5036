"""Time and memory per row as functions of the number of rows and features.

Each job runs in its own process on one core, so that its memory is that of one model. Slow methods are capped at fewer
rows and features. The reference is the algorithm as printed in the paper, with a convex hull for each pair of features.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river.forest import AMFRegressor, ARFRegressor
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from bspforest import BSPForestRegressor
from bspforest.datasets import make_friedman
from bspforest.reference import grow_forest

from . import drawing
from .memory import PeakMemory
from .runner import Job, Run, Scale
from .summary import Claim, Comparison, Section, judge

NAME = "cost"
SETTINGS = ("n", "d")
MEASURES = ("trees", "us_per_row_and_tree", "bytes_per_row_and_tree")
TIMED = True

LABELS = {
    "bsp_fit": "BSP, fit",
    "bsp_chunks": "BSP, online in chunks of 1,000",
    "bsp_single": "BSP, online row by row",
    "mondrian_chunks": "Mondrian, online in chunks of 1,000",
    "reference": "the paper's algorithm in plain Python",
    "river_amf": "river AMF",
    "river_arf": "river ARF",
    "random_forest": "random forest, fit",
    "extra_trees": "extra trees, fit",
}
TREES = {"reference": 1, "bsp_single": 100}

# Approximate microseconds per row and tree, and the largest numbers of rows and features per method.
MICROSECONDS = {"reference": 3e4, "river_amf": 150.0, "river_arf": 300.0, "random_forest": 8.0}
MAX_ROWS = {"reference": 1000, "river_amf": 3000, "river_arf": 3000, "bsp_single": 10_000}
MAX_FEATURES = {"reference": 40, "river_amf": 80, "river_arf": 80}


def rows_along_features(method: str) -> int:
    """Return the number of rows when features vary; the reference would take hours with more than 50."""
    return 50 if method == "reference" else 3000


def plan(scale: Scale) -> list[Job]:
    rows = (100, 300, 1000, 3000, 10_000, 100_000, 1_000_000) if scale.full else (100, 1000, 10_000)
    wide = (5, 10, 20, 40, 80, 160) if scale.full else (5, 10, 20)
    reduction = 1 if scale.full else 10
    points = [(method, n, 5) for method in LABELS for n in rows if n <= MAX_ROWS.get(method, 10**9) / reduction]
    points += [(method, rows_along_features(method), d) for method in LABELS for d in wide]
    return [
        Job(NAME, "friedman", method, (("n", n), ("d", d)), 0, cost=estimate_seconds(method, n, d))
        for method, n, d in dict.fromkeys(points)
        if d <= MAX_FEATURES.get(method, 10**9)
    ]


def estimate_seconds(method: str, n: int, d: int) -> float:
    wide = (d / 5) ** 2 if method == "reference" else (d / 5) ** 0.6
    return 3.0 + n * TREES.get(method, 10) * 1e-6 * MICROSECONDS.get(method, 2.0) * wide


def measure(job: Job, run: Run) -> dict[str, Any]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure_alone, job.method, job["n"], job["d"], job.seed).result()


def measure_alone(method: str, n: int, d: int, seed: int) -> dict[str, Any]:
    """Measure time and memory for training on n rows of d features, after a warm-up."""
    trees = TREES.get(method, 10)
    X, y, _ = make_friedman(n, d, random_state=seed)
    train(method, X[:60], y[:60], trees=2, seed=seed, size=20)  # compile, import
    with PeakMemory() as memory:
        started = time.thread_time()
        model = train(method, X, y, trees=trees, seed=seed)
        seconds = time.thread_time() - started
    del model
    return {
        "trees": trees,
        "us_per_row_and_tree": 1e6 * seconds / n / trees,
        "bytes_per_row_and_tree": memory.peak / n / trees,
    }


def train(method: str, X: np.ndarray, y: np.ndarray, *, trees: int, seed: int, size: int = 1000) -> Any:
    """Train a model on all rows; online forests in chunks of ``size``, or row by row."""
    n, d = X.shape
    if method == "random_forest":
        return RandomForestRegressor(trees, max_features=1 / 3, random_state=seed).fit(X, y)
    if method == "extra_trees":
        return ExtraTreesRegressor(trees, max_features=1 / 3, random_state=seed).fit(X, y)
    if method == "reference":
        return grow_forest(X, lambda n: n ** (1 / (d + 2)), trees, seed, refinement="redraw")
    if method.startswith("river"):
        model: Any = AMFRegressor(trees, seed=seed) if method == "river_amf" else ARFRegressor(trees, seed=seed)
        for x, t in zip(X.tolist(), y.tolist(), strict=True):
            model.learn_one(dict(enumerate(x)), t)
        return model
    forest = BSPForestRegressor(
        trees,
        cuts="axes" if method == "mondrian_chunks" else "pairs",
        random_state=seed,
        prediction="mean",
    )
    if method == "bsp_fit":
        return forest.fit(X, y)
    if method == "bsp_single":
        size = 1
    for start in range(0, n, size):
        forest.partial_fit(X[start : start + size], y[start : start + size])
    return forest


# ----------------------------------------------------------------------------------------------------------------------
# The page

TIME, MEMORY = "us_per_row_and_tree", "bytes_per_row_and_tree"
LINE_STYLES = {
    "bsp_fit": ("#0072B2", "-"),
    "bsp_chunks": ("#0072B2", "--"),
    "bsp_single": ("#0072B2", ":"),
    "mondrian_chunks": ("#E69F00", "--"),
    "reference": ("#D55E00", "-"),
    "river_amf": ("#009E73", "-"),
    "river_arf": ("#009E73", "--"),
    "random_forest": ("#666666", "-"),
    "extra_trees": ("#666666", "--"),
}


def along_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["d"] == 5].sort_values("n")


def along_features(frame: pd.DataFrame) -> pd.DataFrame:
    at = frame["method"].map(rows_along_features)
    return frame[frame["n"] == at].sort_values("d")


def with_memory(frame: pd.DataFrame) -> pd.DataFrame:
    """Select jobs with enough rows to measure memory: fewer fit in memory that the process already has.

    The reference needs more memory per row, so fewer rows are enough.
    """
    return frame[frame["n"] >= np.where(frame["method"] == "reference", 300, 3000)]


def draw(frame: pd.DataFrame, folder: Path) -> list[str]:
    plt = drawing.import_pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
    seen = with_memory(frame)
    for ax, subset, x, y in (
        (axes[0, 0], along_rows(frame), "n", TIME),
        (axes[0, 1], along_features(frame), "d", TIME),
        (axes[1, 0], along_rows(seen), "n", MEMORY),
        (axes[1, 1], along_features(seen), "d", MEMORY),
    ):
        for method, label in LABELS.items():
            line = subset[subset["method"] == method]
            colour, dash = LINE_STYLES[method]
            ax.plot(line[x], line[y].where(line[y] > 0), dash, color=colour, marker="o", markersize=3, label=label)
        ax.set(xlabel="training rows (d = 5)" if x == "n" else "features d")
        if (subset[y] > 0).any():
            ax.set(xscale="log", yscale="log")
        if x == "d" and len(subset):
            drawing.set_ticks(ax.xaxis, subset["d"])
        ax.set_ylabel("µs per row and tree" if y == TIME else "bytes per row and tree")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    drawing.save(figure, folder / "cost.png")
    return ["cost.png"]


def format_cost_table(frame: pd.DataFrame, value: str, across: str, digits: int) -> list[str]:
    columns = sorted(frame[across].unique())
    lines = [f"| | {' | '.join(f'{across} = {c:,}' for c in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for method, label in LABELS.items():
        subset = frame[frame["method"] == method].set_index(across)[value]
        if len(subset):
            cells = [f"{subset[c]:,.{digits}f}" if c in subset.index else "" for c in columns]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def fit_exponent(frame: pd.DataFrame, method: str, least: int = 0) -> float | None:
    """Fit the exponent of the time as a power of d, over the jobs with at least ``least`` features."""
    subset = along_features(frame)
    subset = subset[(subset["method"] == method) & (subset["d"] >= least)]
    if subset["d"].nunique() < 2:
        return None
    return float(np.polyfit(np.log(subset["d"]), np.log(subset[TIME]), 1)[0])


def describe(frame: pd.DataFrame, figures: list[str]) -> Section:
    section = Section("Cost")
    section.add(
        "CPU time on one core with ten trees (one for the reference; a hundred row by row, since the overhead of a call is "
        "shared by the trees). Each job runs in its own process. Slow methods are capped at fewer rows and features. When d "
        "varies, there are 3,000 training rows, or 50 for the reference."
    )
    section.add("", *(f"![time and memory]({{figures}}/{name})" for name in figures))
    section.add("", "Microseconds per row and tree, d = 5:", "")
    section.add(*format_cost_table(along_rows(frame), TIME, "n", 1))
    section.add("", "Microseconds per row and tree, by number of features:", "")
    section.add(*format_cost_table(along_features(frame), TIME, "d", 1))
    seen = with_memory(frame)
    if not seen.empty:
        section.add(
            "",
            "Peak memory while training, in bytes per row and tree, d = 5 (below 3,000 rows only for the reference, since "
            "the others fit in memory that the process already has):",
            "",
            *format_cost_table(along_rows(seen), MEMORY, "n", 0),
        )
        section.add("", "The same by number of features (the 50 rows of the reference are too few to measure):", "")
        section.add(*format_cost_table(along_features(seen), MEMORY, "d", 0))
    section.claims.append(judge_slopes(frame))
    return section


def judge_slopes(frame: pd.DataFrame) -> Claim:
    """Judge whether time is quadratic in d, from the exponents fitted for the reference and the engine."""
    reference, engine = fit_exponent(frame, "reference"), fit_exponent(frame, "bsp_chunks", 10)
    if reference is None or engine is None:
        return Claim("Cost is O(d²) in the number of features", "not run", "")
    rules = {
        "the printed algorithm": Comparison(int(reference > 1.5), 0, int(reference <= 1.5), 1, [reference]),
        "this engine": Comparison(int(engine > 1.5), 0, int(engine <= 1.5), 1, [engine]),
    }
    shown = f"time grows as d^{reference:.1f} in the reference and as d^{engine:.1f} in this engine, online in chunks (d ≥ 10)"
    return Claim("Cost is O(d²) in the number of features (criterion: an exponent above 1.5)", judge(rules), shown)
