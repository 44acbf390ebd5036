"""Test what kernels that learn do without the room they need."""

from __future__ import annotations

import laws
import numpy as np
import pytest


@pytest.mark.parametrize("chunk", [6, 200])
def test_missing_room_raises(monkeypatch, chunk):
    """Rows inserted without reserving room, one by one or built together, raise instead of being lost."""
    X = np.random.default_rng(0).random((450, 3))
    forest = laws.make(X, 2, budget=20.0)
    laws.learn(forest, X[:50])
    monkeypatch.setattr(forest.trees, "reserve", lambda n: None)

    def learn_rest():
        for start in range(50, 450, chunk):
            laws.learn(forest, X[start : start + chunk])

    with pytest.raises(AssertionError, match="lacks room that was reserved"):
        learn_rest()
