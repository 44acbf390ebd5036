"""A readers-writer lock for one forest: predictions side by side, changes alone, and nobody starves.

Each thread that reads has a lock of its own, and a change acquires the locks of all readers. So reading costs one uncontended
acquisition, and is safe against exceptions at any moment: what is entered is a lock of the standard library, whose code is not
Python and cannot be interrupted half-way. (A lock that counts readers in Python would be left held by a signal handler that
raises at the wrong moment.)

Locks of the standard library are not fair. A thread that finds the door closed says so, and whoever changes the forest again and
again then pauses between two changes, for long enough to let it in.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from .interrupts import Interrupts, run_uninterrupted

# Seconds to pause when others wait: several times what it takes to wake a thread.
PAUSE = 2e-4

# Replaced in forked children: locks from before the fork may be held by threads that do not exist there.
_process = [object()]


def _start_afresh() -> None:
    _process[0] = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)


class _ReadersOut:
    """Acquires the locks of all readers."""

    __slots__ = ("_held", "_lock")

    def __init__(self, lock: ReadWriteLock) -> None:
        self._lock = lock
        self._held: list[Any] = []

    def __enter__(self) -> None:
        lock = self._lock
        if lock._reader_waits:
            lock._reader_waits = False
            time.sleep(PAUSE)
        lock._closed += 1
        for _, own in lock._readers:
            own.acquire()
            self._held.append(own)

    def __exit__(self, *error: object) -> None:
        self._lock._closed -= 1
        for own in self._held:
            own.release()


class ReadWriteLock:
    """Lets any number of threads read, or one thread change, a forest.

    `changing` keeps out other changes; `readers_out`, within it, also keeps out readers, and must be entered where no
    asynchronous exception can be raised: see `bspforest.engine.interrupts`. All are re-entrant.

    Examples
    --------
    >>> lock = ReadWriteLock()
    >>> with lock.reading:
    ...     pass
    >>> with lock.changing, lock.readers_out():
    ...     pass
    """

    def __init__(self) -> None:
        self.process = _process[0]
        self._changes = threading.RLock()
        self._own = threading.local()
        self._readers: list[tuple[threading.Thread, Any]] = []
        self._closed = 0
        self._reader_waits = False
        self._change_waits = False

    @property
    def reading(self) -> AbstractContextManager:
        """The lock to be held while reading."""
        if self._closed:
            self._reader_waits = True
        try:
            return self._own.lock
        except AttributeError:
            return self._register()

    def _register(self) -> Any:
        """Make a lock for this thread, and drop those of threads that have ended."""
        own = threading.RLock()
        with self.changing:
            self._readers = [entry for entry in self._readers if entry[0].is_alive()]
            self._readers.append((threading.current_thread(), own))
            self._own.lock = own
        return own

    @property
    def changing(self) -> AbstractContextManager:
        """The lock to be held by whoever is about to make a change."""
        if self._closed:
            self._change_waits = True
        elif self._change_waits:
            self._change_waits = False
            time.sleep(PAUSE)
        return self._changes

    def readers_out(self) -> AbstractContextManager:
        """Return what keeps readers out while it is entered."""
        return _ReadersOut(self)


def lock_of(owner: object) -> ReadWriteLock:
    """Return the lock of an object, made when first asked for, and again in a forked child."""
    lock = owner.__dict__.get("_lock")
    if lock is None or lock.process is not _process[0]:
        if lock is not None:
            owner.__dict__.pop("_lock", None)
        lock = owner.__dict__.setdefault("_lock", ReadWriteLock())
    return lock


def change_alone(owner: object, change: Callable[[Interrupts], None]) -> None:
    """Run a change of an object, with readers kept out and asynchronous exceptions deferred.

    The caller holds ``lock_of(owner).changing``.
    """
    lock = lock_of(owner)

    def protected(interrupts: Interrupts) -> None:
        with lock.readers_out():
            change(interrupts)

    run_uninterrupted(protected)
