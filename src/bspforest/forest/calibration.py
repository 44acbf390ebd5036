"""How scores of least squares become class probabilities, and the log loss by which settings of classifiers are chosen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TEMPERATURES = np.geomspace(0.2, 2.0, 24)
MIN_SCORES = np.array([0.001, 0.003, 0.01, 0.03, 0.1])

# Every so many temperatures and smallest scores are enough where settings are compared.
COARSE = 3, 2


class Calibration(NamedTuple):
    """How scores of least squares become probabilities: proportional to max(score, least) to the power of 1 / temperature."""

    temperature: float = 1.0
    least: float = 0.001

    def apply(self, scores: np.ndarray, n_classes: int) -> np.ndarray:
        """Return class probabilities."""
        if n_classes == 1:
            return np.ones((len(scores), 1))
        scores = expand(scores, n_classes)
        raised = np.maximum(scores, self.least) / np.maximum(scores.max(axis=1, keepdims=True), self.least)
        raised **= 1.0 / self.temperature
        return raised / raised.sum(axis=1, keepdims=True)


def expand(scores: np.ndarray, n_classes: int) -> np.ndarray:
    """Return one score per class; of two classes there is only that of the second."""
    return np.concatenate([1.0 - scores, scores], axis=1) if n_classes == 2 else scores


def calibrate(scores: np.ndarray, y: np.ndarray, w: np.ndarray, n_classes: int) -> Calibration:
    """Return the calibration with the least log loss for out-of-sample scores of rows, given their label columns.

    Few rows tell little of temperatures far from 1, so there is a penalty on their logarithm, worth two rows.
    """
    return find_calibration(expand(scores, n_classes), expand(y, n_classes), w)[0]


def find_calibration(
    scores: np.ndarray, y: np.ndarray, w: np.ndarray, steps: tuple[int, int] = (1, 1)
) -> tuple[Calibration, np.ndarray]:
    """Return the calibration that `calibrate` does, and the log loss of each row with it.

    Scores and labels have one column per class. ``steps``: try every so many temperatures and smallest scores.
    """
    if y.shape[1] < 2 or not w.sum() > 0:
        return Calibration(), np.zeros(len(scores))
    codes = y.argmax(axis=1)
    rows, total = np.arange(len(scores)), w.sum()
    best, found, losses = np.inf, Calibration(), np.zeros(len(scores))
    for least in MIN_SCORES[:: steps[1]]:
        logs = np.log(np.maximum(scores, least))
        logs -= logs.max(axis=1, keepdims=True)
        for temperature in TEMPERATURES[:: steps[0]]:
            heights = logs / temperature
            tried = np.log(np.exp(heights).sum(axis=1)) - heights[rows, codes]
            loss = w @ tried / total + 2.0 * np.log(temperature) ** 2 / len(scores)
            if loss < best:
                best, found, losses = loss, Calibration(float(temperature), float(least)), tried
    return found, losses
