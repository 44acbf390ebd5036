"""The forests as scikit-learn estimators."""

from .base import HeldRows
from .classifier import BSPForestClassifier
from .regressor import BSPForestRegressor

__all__ = ["BSPForestClassifier", "BSPForestRegressor", "HeldRows"]
