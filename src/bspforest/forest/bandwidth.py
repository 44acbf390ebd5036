"""The bandwidth is a time, and time runs as features are scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..trees.trees import TreeEnsemble

if TYPE_CHECKING:
    from .settings import Settings

# The bandwidth, in units of the median time of the first cuts, where nothing can be decided.
FIRST_RATIO = 20.0


def find_median_root_time(trees: TreeEnsemble) -> float:
    """Return the median over trees of the time of the first cut; infinite if a tree has none."""
    times = trees.find_root_times()
    return float(np.median(times)) if np.isfinite(times).all() else np.inf


def fit_bandwidth(settings: Settings, trees: TreeEnsemble) -> Settings:
    """Return settings with the bandwidth for these trees, which may be scaled in another way."""
    undecided = np.isnan(settings.error)
    if not undecided and settings.coordinates.is_close(trees.coordinates):
        return settings
    unit, bandwidth = find_median_root_time(trees), settings.bandwidth
    known = 0 < unit < np.inf
    if undecided:
        bandwidth = FIRST_RATIO * unit if known else 1.0
    elif known and 0 < settings.unit < np.inf:
        bandwidth = bandwidth * unit / settings.unit
    return replace(settings, bandwidth=bandwidth, unit=unit)
