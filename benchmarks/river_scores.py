"""Scores on the datasets of river, by predicting and then learning each row (`evaluate.progressive_val_score`).

Models have 10 trees and otherwise default parameters, BSPForest also ``prediction="mean"``; scores are means over seeds, ± half
their range. As in the documentation of river, AMF is preceded by a `MinMaxScaler` and ARFRegressor by a `StandardScaler`;
BSPForest scales features itself. ``python benchmarks/river_scores.py`` prints the table of the README.
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
    "its means": lambda seed: BSPForestClassifier(10, seed=seed, prediction="mean"),
    "AMF": lambda seed: preprocessing.MinMaxScaler() | forest.AMFClassifier(10, seed=seed),
    "ARF": lambda seed: forest.ARFClassifier(10, seed=seed),
}
REGRESSORS: dict[str, Callable] = {
    "BSPForest": lambda seed: BSPForestRegressor(10, seed=seed),
    "its means": lambda seed: BSPForestRegressor(10, seed=seed, prediction="mean"),
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


def format_scores(scores: list[float], percent: bool) -> str:
    """Format the mean of scores and half their range."""
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
            started = time.perf_counter()
            scores = [evaluate.progressive_val_score(dataset(), make(seed), metric()).get() for seed in range(n_seeds)]
            seconds[name] += time.perf_counter() - started
            cells.append(format_scores(scores, percent))
        what = "accuracy (%)" if percent else "MAE"
        print(f"| {dataset.__name__} | {dataset().n_samples:,} | {what} | " + " | ".join(cells) + " |", flush=True)
    print("| total seconds | | | " + " | ".join(f"{s:.1f}" for s in seconds.values()) + " |")


if __name__ == "__main__":
    main()
