"""Let a revision that is going on take effect at once."""

from __future__ import annotations

import math


def settle(forest) -> None:
    """Finish and apply the revision that is going on in an estimator or a model of river, if any."""
    inner = forest._forest
    pending = getattr(inner.prediction, "pending", None)
    if pending is not None:
        settings = pending.advance(math.inf)
        inner.prediction.pending = None
        inner._revise(settings.coordinates, settings)
