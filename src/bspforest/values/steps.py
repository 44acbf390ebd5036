"""Long computations in steps, so that a stream need not wait for the end.

Steps are a generator. It yields the work it has done since, in products of a row, a tree and a label column (7 ns), and returns its
result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[float, None, T]


def finish(steps: Steps[T], poll: Callable[[], None] = lambda: None) -> T:
    """Take all steps, calling ``poll``, which may raise, before each; return the result."""
    while True:
        poll()
        try:
            next(steps)
        except StopIteration as end:
            return end.value
