"""Forests whose trees are divided among the workers of a Dask cluster: see docs/guide/dask.md. Needs ``bspforest[dask]``."""

from .estimators import DaskBSPForestClassifier, DaskBSPForestRegressor

__all__ = ["DaskBSPForestClassifier", "DaskBSPForestRegressor"]
