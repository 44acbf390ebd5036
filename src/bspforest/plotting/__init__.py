"""Displays in the style of scikit-learn.

A display is created from the object it shows (``from_…``) and then drawn with ``plot``. Only drawing needs matplotlib, which is
an optional dependency: ``pip install 'bspforest[plot]'``.

- `PartitionDisplay` shows one tree of a fitted forest, `SurfaceDisplay` the predictions of the whole forest;
- `GrowthDisplay` shows how a tree grows row by row;
- `ProcessDisplay`, `CutDisplay` and `SliceDisplay` show the process of `bspforest.reference`.
"""

from .cut import CutDisplay
from .growth import GrowthDisplay
from .partition import PartitionDisplay
from .process import ProcessDisplay
from .slices import SliceDisplay
from .surface import SurfaceDisplay

__all__ = ["CutDisplay", "GrowthDisplay", "PartitionDisplay", "ProcessDisplay", "SliceDisplay", "SurfaceDisplay"]
