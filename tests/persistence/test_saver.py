"""`Saver` saves in the background what the forest was when it was asked to."""

from __future__ import annotations

import os
import pickle
import threading

import numpy as np
import pytest
from hostile import same

from bspforest import BSPForestRegressor
from bspforest.persistence import Saver, load_with_extra


def test_saver_saves_the_forest_as_it_was(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((2000, 3)), rng.integers(0, 3, 2000)
    forest = BSPForestRegressor(5, random_state=0).fit(X[:500], y[:500])
    path = tmp_path / "m"
    with Saver(path, overwrite=False) as saver:
        for k in range(500, 2000, 500):
            saver.save(forest, extra={"row": k})
            expected = pickle.dumps(forest)
            forest.partial_fit(X[k : k + 500], y[k : k + 500])
            saver.wait()
            loaded, extra = load_with_extra(path)
            assert extra == {"row": k}
            assert same(loaded, pickle.loads(expected))
    with pytest.raises(FileExistsError):
        Saver(path, overwrite=False).save(forest)
    assert threading.active_count() == 1 and os.listdir(tmp_path) == ["m"]
