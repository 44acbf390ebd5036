"""The forests in river's conventions: dicts in, one row at a time or a DataFrame at once."""

from .base import BSPForestClassifier, BSPForestRegressor

__all__ = ["BSPForestClassifier", "BSPForestRegressor"]
