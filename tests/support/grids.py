"""Grids of test cases of which a part is enough for `make test`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def find_cover(sizes: Sequence[int], strength: int) -> set[tuple[int, ...]]:
    """Return cases, as places on axes of some sizes, that have all combinations of so many values; chosen greedily."""

    def parts(case: Sequence[int]) -> Iterator[tuple[tuple[int, int], ...]]:
        return combinations(enumerate(case), strength)

    cases = list(product(*map(range, sizes)))
    missing = {part for case in cases for part in parts(case)}
    chosen = set()
    while missing:
        best = max(cases, key=lambda case: len(missing.intersection(parts(case))))
        missing.difference_update(parts(best))
        chosen.add(best)
    return chosen


def grid(strength: int, **axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by all combinations of values, and mark as long what a cover does not need.

    With strength 1, each value is in a case that is not long; with strength 2, each pair of values.
    """
    sizes = [len(values) for values in axes.values()]
    cover = find_cover(sizes, strength)
    cases = [
        pytest.param(
            *(values[k] for values, k in zip(axes.values(), case, strict=True)),
            marks=() if case in cover else pytest.mark.long,
        )
        for case in product(*map(range, sizes))
    ]
    return pytest.mark.parametrize(",".join(axes), cases)
