"""A readers-writer lock for one forest: predictions side by side, changes alone, and nobody starves.

Each thread that reads has a lock of its own. A change closes the door, and then waits until each reader's lock is free. So reading costs
one uncontended acquisition.

It is safe against exceptions at any moment, which signal handlers and other threads may raise. Whatever is held is a lock of the standard
library in a ``with`` statement, whose code is not Python and cannot be interrupted half-way. Only the door may be left closed by a
change that was interrupted: whoever finds it closed waits for the lock of changes, and once that is held, nobody else changes anything.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any, TypeVar

T = TypeVar("T")

# Seconds to pause between two changes when others wait: several times what it takes to wake a thread. Locks of the standard library are
# not fair.
PAUSE = 2e-4

# Replaced in forked children: locks from before the fork may be held by threads that do not exist there.
_process = [object()]


def _start_again() -> None:
    _process[0] = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)


class _ReadersOut:
    """Closes the door, and lets those who are inside end."""

    __slots__ = ("_before", "_lock")

    def __init__(self, lock: ReadWriteLock) -> None:
        self._lock = lock
        self._before = lock.closed_by

    def __enter__(self) -> None:
        self._lock.closed_by = get_ident()
        with self._lock.registry:
            readers = list(self._lock.readers)
        for _, own in readers:
            with own:
                pass

    def __exit__(self, *error: object) -> None:
        self._lock.closed_by = self._before


class ReadWriteLock:
    """Lets any number of threads read, or one thread change, a forest.

    `changing` keeps out other changes; `readers_out`, within it, also keeps out readers. A thread that changes the forest may
    read it meanwhile, not the other way round.

    Examples
    --------
    >>> lock = ReadWriteLock()
    >>> lock.read(lambda: "read")
    'read'
    >>> with lock.changing, lock.readers_out():
    ...     pass
    """

    def __init__(self) -> None:
        self.process = _process[0]
        self.closed_by = 0  # the thread that keeps readers out, if any
        self.registry = threading.RLock()
        self.readers: list[tuple[threading.Thread, Any]] = []
        self._changes = threading.RLock()
        self._own = threading.local()
        self._others_wait = False

    def read(self, read: Callable[[], T]) -> T:
        """Return what ``read`` returns, while nothing changes."""
        try:
            own = self._own.lock
        except AttributeError:
            own = self._register()
        if own._is_owned():  # this thread reads already
            return read()
        with own:
            if self.closed_by in (0, get_ident()):
                return read()
        self._others_wait = True
        with self._changes:
            self.closed_by = 0
            return read()

    def _register(self) -> Any:
        """Make a lock for this thread, and drop those of threads that have ended."""
        own = threading.RLock()
        with self.registry:
            self.readers = [entry for entry in self.readers if entry[0].is_alive()]
            self.readers.append((threading.current_thread(), own))
            self._own.lock = own
        return own

    @property
    def changing(self) -> AbstractContextManager:
        """The lock to be held by whoever is about to make a change."""
        if self.closed_by not in (0, get_ident()):
            self._others_wait = True
        elif self._others_wait:
            self._others_wait = False
            time.sleep(PAUSE)
        return self._changes

    def readers_out(self) -> AbstractContextManager:
        """Return what keeps readers out while it is entered; `changing` is held."""
        return _ReadersOut(self)


def lock_of(owner: object) -> ReadWriteLock:
    """Return the lock of an object, made when first asked for, and again in a forked child."""
    lock = owner.__dict__.get("_lock")
    if lock is None or lock.process is not _process[0]:
        if lock is not None:
            owner.__dict__.pop("_lock", None)
        lock = owner.__dict__.setdefault("_lock", ReadWriteLock())
    return lock
