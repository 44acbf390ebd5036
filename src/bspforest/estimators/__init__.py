"""The forests as scikit-learn estimators."""

from .regressor import BSPForestClassifier, BSPForestRegressor

__all__ = ["BSPForestClassifier", "BSPForestRegressor"]
