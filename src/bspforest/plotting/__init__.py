"""Pictures, in the style of scikit-learn's displays.

Each display is made from what it shows (``from_…``) and then drawn (``plot``); matplotlib is needed only to draw, and is an
extra: ``pip install 'bspforest[plot]'``.
"""

from .growth import GrowthDisplay
from .partition import PartitionDisplay
from .surface import SurfaceDisplay

__all__ = ["GrowthDisplay", "PartitionDisplay", "SurfaceDisplay"]
