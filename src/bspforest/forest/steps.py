"""Long computations in steps, so that no row of a stream waits for the end.

Steps are a generator. It yields the work it has done since, in products of a row, a tree and a label column (7 ns), and returns its
result.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Steps = Generator[float, None, T]


def finish(steps: Steps[T]) -> T:
    """Take all steps; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class Instalments(Generic[T]):
    """Steps that the rows of a stream pay for. Their result is ready with the same row, whenever they are taken.

    So a forest that is copied or saved meanwhile can `finish` them at once.

    Parameters
    ----------
    steps : generator or None
        None if the result is known.
    result : object
    owed : float
        The work of the steps that were taken, less what was paid.
    """

    def __init__(self, steps: Steps[T] | None, result: T | None = None, owed: float = 0.0) -> None:
        self._steps, self.result, self.owed = steps, result, owed
        self._lock = threading.Lock()  # a forest may be copied in several threads at once

    @property
    def is_lost(self) -> bool:
        """Whether a step raised, so that there will be no result."""
        return self._steps is None and self.result is None

    def __reduce__(self) -> tuple[Any, ...]:
        self.finish()
        return Instalments, (None, self.result, self.owed)

    def advance(self, paid: float) -> T | None:
        """Take the steps that are paid for; return the result once all are."""
        self.owed -= paid
        while self._steps is not None and self.owed <= 0:
            self._take_step()
        return self.result if self.owed <= 0 else None

    def finish(self) -> None:
        """Take all steps, to be paid for later."""
        with self._lock:
            while self._steps is not None:
                self._take_step()

    def _take_step(self) -> None:
        steps, self._steps = self._steps, None  # lost if it raises
        assert steps is not None
        try:
            self.owed += next(steps)
            self._steps = steps
        except StopIteration as end:
            self.result = end.value
