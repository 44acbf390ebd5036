"""Changes that no asynchronous exception can tear apart.

A signal handler that raises (Ctrl-C, ``sys.exit`` on SIGTERM, a timeout by SIGALRM) does so between any two steps of Python code
in the main thread; task queues inject exceptions into other threads in the same way. `run_uninterrupted` keeps both out of a
change:

- in the main thread, handlers of signals are replaced for the duration of the change and called at its end;
- any other thread has the change made by a helper thread that nobody knows, and waits for it; an exception that is injected into
  it meanwhile is raised at the end.

A change that takes long calls `Interrupts.poll` where it could stop, about once per second.
"""

from __future__ import annotations

import _signal  # `signal` wraps it in enumerations, which cost more than learning a row
import _thread
import os
import threading
from collections.abc import Callable
from typing import Any

_SIGNALS = sorted(
    number
    for number in map(int, _signal.valid_signals())
    if number not in (getattr(_signal, "SIGKILL", -1), getattr(_signal, "SIGSTOP", -1))
)


_seen: tuple[list[Any], list[tuple[int, Any]]] = [], []


def _find_handlers() -> list[tuple[int, Any]]:
    """Return the signals that Python handles, with their handlers. They rarely change: looking at all takes 1 µs."""
    global _seen
    handlers = list(map(_signal.getsignal, _SIGNALS))
    before, found = _seen
    if handlers != before:
        found = [(n, handler) for n, handler in zip(_SIGNALS, handlers, strict=True) if callable(handler)]
        _seen = handlers, found
    return found


class Interrupts:
    """Asynchronous exceptions that wait for the end of a change; here, none."""

    def poll(self) -> None:
        """Let waiting exceptions be raised here. Call it where the change may stop and anybody may look at its state."""


class _DeferredSignals(Interrupts):
    """Replaces the Python-level handlers of all signals while it is active, and calls them later."""

    __slots__ = ("_active", "_before", "_caught")

    def __init__(self) -> None:
        self._active = True
        self._caught: list[tuple[int, Any]] = []
        self._before: dict[int, Any] = {}
        try:
            for number, handler in _find_handlers():
                self._before[number] = handler
                _signal.signal(number, self._hold)
        except BaseException:  # of a handler that was not replaced yet
            self.restore()
            raise

    def _hold(self, number: int, frame: Any) -> None:
        if self._active:
            self._caught.append((number, frame))
        else:  # it came while handlers were put back
            self._before[number](number, frame)

    def poll(self) -> None:
        """Call the handlers of the signals that came. One that raises ends the change."""
        while self._caught:
            number, frame = self._caught.pop(0)
            self._before[number](number, frame)

    def restore(self) -> None:
        """Put the handlers back. From now on a signal that comes is handled at once."""
        self._active = False
        for number, handler in self._before.items():
            if _signal.getsignal(number) == self._hold:  # else a handler has set another one
                _signal.signal(number, handler)


class defer_interrupts:
    """Defer the handlers of all signals until the block exits, in the main thread.

    Examples
    --------
    >>> with defer_interrupts():
    ...     pass  # what must not be torn apart
    """

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        in_main = threading.get_ident() == threading.main_thread().ident
        self._deferred = _DeferredSignals() if in_main else None

    def __exit__(self, *error: object) -> None:
        if self._deferred is not None:
            self._deferred.restore()
            self._deferred.poll()


class _Stopped(BaseException):
    """Ends a change in a helper thread whose caller was interrupted."""


class _Injected(Interrupts):
    """Tells a change in a helper thread that its caller was interrupted."""

    stop = False

    def poll(self) -> None:
        if self.stop:
            raise _Stopped


class _Helper:
    """A thread that makes changes for other threads."""

    def __init__(self) -> None:
        self._jobs = _thread.allocate_lock()
        self._jobs.acquire()
        self._job: Callable[[], None] | None = None
        _thread.start_new_thread(self._serve, ())

    def _serve(self) -> None:
        while True:
            self._jobs.acquire()
            job, self._job = self._job, None
            if job is not None:
                job()

    def do(self, job: Callable[[], None]) -> None:
        """Start a job and return at once."""
        self._job = job
        self._jobs.release()


# The interrupts of a change that the caller protects in another way, or discards if it is torn.
UNPROTECTED = Interrupts()

_idle: list[_Helper] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # their threads do not exist there


def _run_in_helper(change: Callable[[Interrupts], Any]) -> Any:
    interrupts = _Injected()
    done = _thread.allocate_lock()
    done.acquire()
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def job() -> None:
        try:
            outcome.append(change(interrupts))
        except BaseException as error:
            failure.append(error)
        done.release()

    try:
        helper = _idle.pop() if _idle else _Helper()
    except RuntimeError:  # the system has no thread to spare
        return change(UNPROTECTED)
    helper.do(job)
    injected: BaseException | None = None
    while not outcome and not failure:
        try:
            done.acquire(True, 1.0)
        except BaseException as error:
            injected = error
            interrupts.stop = True
    _idle.append(helper)
    if injected is not None:
        raise injected
    if failure:
        raise failure[0]
    return outcome[0]


def run_uninterrupted(change: Callable[[Interrupts], Any]) -> Any:
    """Return ``change(interrupts)``; asynchronous exceptions are raised where it polls, or after it.

    If one is raised after the change, the change has been made.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return _run_in_helper(change)
    deferred = _DeferredSignals()
    try:
        result = change(deferred)
    finally:
        deferred.restore()
    deferred.poll()
    return result
