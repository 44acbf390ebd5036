"""Let a revision that is going on take effect at once."""

from __future__ import annotations

import math


def settle(forest) -> None:
    """Finish and apply the revision that is going on in an estimator or a model of river, if any."""
    inner = forest._forest
    search = getattr(inner.prediction, "search", None)
    if search is not None:
        settings = search.advance(math.inf)
        inner.prediction.search = None
        inner._revise(settings.coordinates, settings)
