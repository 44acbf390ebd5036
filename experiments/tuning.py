"""Tuning of max_features of the batch forests, by cross-validation once per dataset.

It uses a sample of the official training rows (classification), of the first rows in time (airline), or of all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV, KFold

from . import rows
from .methods import BATCH
from .runner import Job, Run, Scale, make_seed

NAME = "tuning"
SETTINGS = ("features",)
MEASURES = ("max_features", "score", "rows")
TIMED = False

CLASSIFICATION = ("satimage", "letter", "dna", "usps")
REGRESSION = (("friedman5", 5), ("friedman10", 10), ("uk_prices", 2), ("airline", 8), ("airline", 5))


def get_effort(dataset: str, scale: Scale) -> tuple[int, int]:
    """Return the largest number of rows and the number of trees.

    Flight delays are mostly noise: with 4,000 rows, one feature per cut seems best; with 100,000 it is worst.
    """
    if dataset == "airline":
        return (50_000, 20) if scale.full else (5_000, 10)
    return (4_000, 50) if scale.full else (800, 10)


def plan(scale: Scale) -> list[Job]:
    sets: list[tuple[str, Any]] = [(name, k) for name in CLASSIFICATION for k in (4, 10, "all")]
    sets += REGRESSION
    return [
        Job(NAME, dataset, method, (("features", features),), 0, cost=20.0 if scale.full else 2.0)
        for dataset, features in sets
        for method in BATCH
    ]


def make_grid(d: int) -> list[int]:
    """Return the values of max_features to try for d features."""
    return sorted({max(1, round(k)) for k in (1, d**0.5, d / 3, 2 * d / 3, d)})


def load_rows(job: Job, run: Run) -> tuple[np.ndarray, np.ndarray]:
    seed = job.data_seed
    if job.dataset in CLASSIFICATION:
        data = rows.load(job.dataset, run.data_home)
        # A copy that is not in the official order has no official split; use a random half instead.
        share = "official" if data.n_train else 0.5
        split = rows.split_classes(job.dataset, share, job["features"], seed, run.data_home)
    elif job.dataset == "airline":
        order = "time" if job["features"] == 8 else "no calendar"
        split = rows.split_airline(100_000, 0, order, seed, run.data_home)
    elif job.dataset == "uk_prices":
        split = rows.split_prices(0.2, make_seed(seed, "tuning"), run.data_home)
    else:
        split = rows.make_friedman(2000, job["features"], 1, make_seed(seed, "tuning"))
    return split.X, split.y


def measure(job: Job, run: Run) -> dict[str, Any]:
    X, y = load_rows(job, run)
    max_rows, trees = get_effort(job.dataset, run.scale)
    if len(X) > max_rows:
        some = np.random.default_rng(job.data_seed).choice(len(X), max_rows, replace=False)
        X, y = X[some], y[some]
    classify = job.dataset in CLASSIFICATION
    random = RandomForestClassifier if classify else RandomForestRegressor
    extra = ExtraTreesClassifier if classify else ExtraTreesRegressor
    forest = random if job.method == "random_forest" else extra
    search = GridSearchCV(
        forest(n_estimators=trees, random_state=job.seed),
        {"max_features": make_grid(X.shape[1])},
        cv=KFold(3, shuffle=True, random_state=0),
        scoring="accuracy" if classify else "neg_root_mean_squared_error",
        refit=False,
    ).fit(X, y)
    return {
        "max_features": int(search.best_params_["max_features"]),
        "score": float(search.best_score_),
        "rows": len(X),
    }


def get_max_features(run: Run, dataset: str, features: Any, method: str) -> int | None:
    """Return the tuned max_features of a batch forest; None for other methods."""
    if method not in BATCH:
        return None
    row = run.open_table(NAME, SETTINGS, MEASURES).rows.get((dataset, method, str(features), "0"))
    return None if row is None else int(row["max_features"])
