"""Running kernels in threads. They release the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

# Below this many (row, tree) pairs, about a hundredth of a second, starting threads costs more than it gains.
WORTH_THREADS = 10_000


def run_parts(
    call: Callable[[int, int], Any], n: int, n_threads: int, work: int, stop: threading.Event | None = None
) -> list[Any]:
    """Call ``call(first, last)`` on up to ``n_threads`` parts of ``range(n)``; return their results in order.

    The calling thread does the first part, and those for which the system refuses a thread. If a part fails or is
    interrupted, ``stop`` is set, so that the others can end early.
    """
    if n_threads <= 1 or n <= 1 or work < WORTH_THREADS:
        return [call(0, n)]
    ends = [n * k // n_threads for k in range(n_threads + 1)]
    parts = [(a, b) for a, b in pairwise(ends) if a < b]
    results: list[Any] = [None] * len(parts)
    failures: list[BaseException] = []

    def run(k: int) -> None:
        try:
            results[k] = call(*parts[k])
        except BaseException as failure:
            failures.append(failure)
            if stop is not None:
                stop.set()

    threads: list[threading.Thread] = []
    try:
        for k in range(1, len(parts)):
            thread = threading.Thread(target=run, args=(k,), name="bspforest")
            try:
                thread.start()
            except RuntimeError:
                run(k)
            else:
                threads.append(thread)
        run(0)
        for thread in threads:
            thread.join()
    except BaseException:
        if stop is not None:
            stop.set()
        for thread in threads:
            thread.join()
        raise
    if failures:
        raise failures[0]
    return results
