"""The forests in river's conventions: dicts in, one row at a time or a DataFrame at once.

>>> from bspforest.river import BSPForestRegressor
>>> forest = BSPForestRegressor(seed=0)
>>> forest.predict_one({"rain": 0.2, "wind": 3.0})
0.0
>>> forest.learn_one({"rain": 0.2, "wind": 3.0}, 7.5)
>>> forest.predict_one({"wind": 2.0})
7.5
"""

from .classifier import BSPForestClassifier
from .regressor import BSPForestRegressor

__all__ = ["BSPForestClassifier", "BSPForestRegressor"]
