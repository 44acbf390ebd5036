"""Random forests that learn from a stream, exactly: online binary space partitioning forests."""

from .estimators import BSPForestClassifier, BSPForestRegressor

__all__ = ["BSPForestClassifier", "BSPForestRegressor"]
__version__ = "0.1.0"
