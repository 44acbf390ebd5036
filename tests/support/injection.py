"""Raise exceptions at chosen moments inside the package, and stop calls that hang."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import bspforest

PACKAGE = os.path.dirname(bspforest.__file__) + os.sep

# Functions of numpy that allocate; the package calls them as attributes of the module.
ALLOCATIONS = ("empty", "zeros", "full", "concatenate", "stack")


class LineTracer:
    """Counts the lines of the package that the current thread runs, and raises before the k-th.

    Lines of locks are left out: no lock written in Python can bear an exception between its own steps.
    """

    def __init__(self, k: int, error: type[BaseException]) -> None:
        self.k, self.error, self.n_lines = k, error, 0

    def _trace_line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.n_lines += 1
            if self.n_lines == self.k:
                raise self.error(f"injected at {frame.f_code.co_filename}:{frame.f_lineno}")
        return self._trace_line

    def _trace_call(self, frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        inside = name.startswith(PACKAGE) and "lock" not in os.path.basename(name)
        return self._trace_line if inside else None

    def __enter__(self) -> LineTracer:
        self._before = sys.gettrace()
        sys.settrace(self._trace_call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)


def count_lines(call: Callable[[], Any]) -> int:
    """Return how many lines of the package a call runs."""
    with LineTracer(0, Exception) as tracer:
        call()
    return tracer.n_lines


def raise_at_line(k: int, call: Callable[[], Any], error: type[BaseException] = KeyboardInterrupt) -> bool:
    """Run a call with an error raised before its k-th line; return whether the error came out."""
    try:
        with LineTracer(k, error):
            call()
    except error:
        return True
    return False


def choose_moments(n: int, count: int, seed: int = 0) -> list[int]:
    """Return some of the moments 1 to n, at random, the first and the last among them."""
    drawn = np.random.default_rng(seed).integers(1, n + 1, count)
    return sorted({1, n, *drawn.tolist()})


@contextmanager
def failing_allocation(k: int) -> Iterator[list[int]]:
    """Let the k-th allocation by the package raise MemoryError; yield a list with an entry per allocation."""
    calls: list[int] = []

    def wrap(allocate: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            if sys._getframe(1).f_code.co_filename.startswith(PACKAGE):
                calls.append(len(calls) + 1)
                if calls[-1] == k:
                    raise MemoryError("injected")
            return allocate(*arguments, **named)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for name in ALLOCATIONS:
            patch.setattr(np, name, wrap(getattr(np, name)))
        yield calls


def inject_into(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raise an exception in another thread, at whatever it does."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(error))


def run_in_thread(call: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return what a call returns in another thread; fail if it is still running after some seconds."""
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        pytest.fail(f"another thread still waits after {seconds} seconds")
    if failure:
        raise failure[0]
    return outcome[0]
