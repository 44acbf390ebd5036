"""Pictures, in the style of scikit-learn's displays.

Each display is made from what it shows (``from_…``) and then drawn (``plot``); matplotlib is needed only to draw, and is an
extra: ``pip install 'bspforest[plot]'``.

Of a fitted forest: `PartitionDisplay` (a tree), `SurfaceDisplay` (the whole forest). Of a forest to come: `GrowthDisplay` (a tree
as it learns). Of the process in `bspforest.reference`: `ProcessDisplay`, `CutDisplay`, `SliceDisplay`.
"""

from .cut import CutDisplay
from .growth import GrowthDisplay
from .partition import PartitionDisplay
from .process import ProcessDisplay
from .slices import SliceDisplay
from .surface import SurfaceDisplay

__all__ = ["CutDisplay", "GrowthDisplay", "PartitionDisplay", "ProcessDisplay", "SliceDisplay", "SurfaceDisplay"]
