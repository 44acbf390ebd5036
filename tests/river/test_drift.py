"""A window recovers from drift in flat memory; a forest that forgets nothing does not."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("river", reason="river is not installed: pip install 'bspforest[river]'")

from bspforest.river import BSPForestClassifier

WINDOW, CHANGE, N = 200, 2000, 3000


# Right with a window before the change and after it, right without one before it and after it: at least, and at most for the last.
# Measured with ridge regression: 0.90, 0.89, 0.97 and 0.89; with means: 0.92, 0.92, 0.95 and 0.58. With a window that forgets the newest
# row in place of the oldest, means are right 0.50 after the change.
@pytest.mark.parametrize(("values", "limits"), [("ridge", (0.86, 0.84, 0.9, 0.93)), ("mean", (0.88, 0.87, 0.9, 0.75))])
def test_drift(values, limits):
    rng = np.random.default_rng(0)
    X = rng.random((N, 4))
    y = np.where(np.arange(N) < CHANGE, X[:, 0] + X[:, 1] > 1, X[:, 0] > X[:, 1]).tolist()
    forests = {w: BSPForestClassifier(10, window=w, half_life=None, seed=0, prediction=values) for w in (WINDOW, None)}
    right: dict = {w: np.zeros(N) for w in forests}
    memory = []
    for k, x in enumerate(X.tolist()):
        row = dict(enumerate(x))
        for w, forest in forests.items():
            right[w][k] = forest.predict_one(row) == y[k]
            forest.learn_one(row, y[k])
        if k % WINDOW == WINDOW - 1:
            memory.append(forests[WINDOW]._raw_memory_usage)
    before, after = slice(CHANGE - 1000, CHANGE), slice(CHANGE + WINDOW, None)
    assert right[WINDOW][before].mean() > limits[0] and right[None][before].mean() > limits[2]
    assert right[WINDOW][after].mean() > limits[1]
    assert right[None][after].mean() < limits[3]
    assert max(memory[1:]) < 1.3 * min(memory[1:])
