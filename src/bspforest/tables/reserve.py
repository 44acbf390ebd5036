"""When to reserve features for columns and categories that are still to come."""

from __future__ import annotations

# A forest is built afresh for each new feature. After the first so many times, if new ones come more often than once per eighth of the
# rows held, it is built with features for further ones. (1,100 rows with a new one each: 60 s before, 3 s now.)
EXACT_LAYOUTS = 32
OFTEN = 8


def count_reserved(n_features: int, n_layouts: int, n_since: int, n_held: int) -> int:
    """Return how many features to reserve beside those in use. None, unless new ones come faster than forests should be built.

    ``n_layouts`` is how often a forest was built for new features, and ``n_since`` how many rows came since the last time.
    """
    if n_layouts < EXACT_LAYOUTS or OFTEN * n_since >= n_held:
        return 0
    return max(8, n_features // 2)
