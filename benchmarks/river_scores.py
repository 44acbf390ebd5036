"""Scores on the datasets that come with river: each row is predicted, then learned (`evaluate.progressive_val_score`).

10 trees each, all else at its default; the mean over some seeds, ± half their range. AMF gets a `MinMaxScaler` in front and
ARFRegressor a `StandardScaler`, as in river's documentation; ours scales for itself. ``python benchmarks/river_scores.py``
prints the table of the README.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from river import datasets, evaluate, forest, metrics, preprocessing

from bspforest.river import BSPForestClassifier, BSPForestRegressor

CLASSIFIERS: dict[str, Callable] = {
    "BSPForest": lambda seed: BSPForestClassifier(10, seed=seed),
    "AMF": lambda seed: preprocessing.MinMaxScaler() | forest.AMFClassifier(10, seed=seed),
    "ARF": lambda seed: forest.ARFClassifier(10, seed=seed),
}
REGRESSORS: dict[str, Callable] = {
    "BSPForest": lambda seed: BSPForestRegressor(10, seed=seed),
    "AMF": lambda seed: preprocessing.MinMaxScaler() | forest.AMFRegressor(10, seed=seed),
    "ARF": lambda seed: preprocessing.StandardScaler() | forest.ARFRegressor(10, seed=seed),
}
TASKS = [
    (datasets.Phishing, metrics.Accuracy, CLASSIFIERS),
    (datasets.Bananas, metrics.Accuracy, CLASSIFIERS),
    (datasets.ImageSegments, metrics.Accuracy, CLASSIFIERS),
    (datasets.ChickWeights, metrics.MAE, REGRESSORS),
    (datasets.TrumpApproval, metrics.MAE, REGRESSORS),
]


def show(scores: list[float], percent: bool) -> str:
    mean, spread = np.mean(scores), np.ptp(scores) / 2
    return f"{100 * mean:.1f} ± {100 * spread:.1f}" if percent else f"{mean:.3g} ± {spread:.1g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=3)
    n_seeds = parser.parse_args().seeds
    print("| dataset | rows | metric | " + " | ".join(CLASSIFIERS) + " |\n|---|---|---|" + "---|" * len(CLASSIFIERS))
    seconds = dict.fromkeys(CLASSIFIERS, 0.0)
    for dataset, metric, models in TASKS:
        percent = metric is metrics.Accuracy
        cells = []
        for name, make in models.items():
            begun = time.perf_counter()
            scores = [evaluate.progressive_val_score(dataset(), make(seed), metric()).get() for seed in range(n_seeds)]
            seconds[name] += time.perf_counter() - begun
            cells.append(show(scores, percent))
        what = "accuracy, %" if percent else "MAE"
        print(f"| {dataset.__name__} | {dataset().n_samples:,} | {what} | " + " | ".join(cells) + " |", flush=True)
    print("| seconds for all | | | " + " | ".join(f"{s:.1f}" for s in seconds.values()) + " |")


if __name__ == "__main__":
    main()
