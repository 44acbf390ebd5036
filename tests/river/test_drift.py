"""A window recovers from drift in flat memory; a forest that forgets nothing does not."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("river", reason="river is not installed: pip install 'bspforest[river]'")

from bspforest.river import BSPForestClassifier

WINDOW, CHANGE, N = 200, 2000, 3000


def test_drift():
    rng = np.random.default_rng(0)
    X = rng.random((N, 4))
    y = np.where(np.arange(N) < CHANGE, X[:, 0] + X[:, 1] > 1, X[:, 0] > X[:, 1]).tolist()
    forests = {w: BSPForestClassifier(10, window=w, seed=0) for w in (WINDOW, None)}
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
    # Measured: 0.91 before and 0.93 after the change with a window, 0.95 and 0.57 without. With a window that forgets the
    # newest row in place of the oldest: 0.50 after the change.
    assert right[WINDOW][before].mean() > 0.88 and right[None][before].mean() > 0.9
    assert right[WINDOW][after].mean() > 0.87
    assert right[None][after].mean() < 0.75
    assert max(memory[1:]) < 1.3 * min(memory[1:])
