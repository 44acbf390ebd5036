"""Advisory locks for model files: one writer at a time, across processes and threads.

Everything that writes a model takes `lock_model`: `save` and `Saver` while they write, and commands that read, change and
write a model for all that time. The lock is a lock of the operating system on a small file next to the model, so it is freed
when its process ends, however it ends. Reading needs no lock, because models are replaced as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import random
import shlex
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from .atomic_file import FileIdentity, check_regular, identify

fcntl: Any
msvcrt: Any
try:
    import fcntl
except ImportError:
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None

# Seconds between two attempts to take a lock, at first and at most. Drawn at random, so that waiting processes do not
# keep in step.
FIRST_DELAY, LAST_DELAY = 0.001, 0.05

# Windows locks bytes, which nobody else can read then: one far behind the text.
LOCKED_BYTE = 2**30

# Most bytes of a lock file that are read, and most characters of it that are shown.
MOST_READ, MOST_SHOWN = 65_536, 200


class LockOwner(NamedTuple):
    """Who holds a lock, as far as its file tells.

    Parameters
    ----------
    pid : int
        The process.
    host : str
        The machine that it runs on.
    command : str
        What was started.
    since : datetime
        When it took the lock.
    """

    pid: int
    host: str
    command: str
    since: datetime

    def __str__(self) -> str:
        since = self.since.astimezone()
        today = since.date() == datetime.now().astimezone().date()
        time = since.strftime("%H:%M" if today else "%Y-%m-%d %H:%M")
        if self.pid == os.getpid() and self.host == platform.node():
            return f"this process, since {time}"
        return f"`{self.command}` (process {self.pid} on {self.host}, since {time})"


class ModelLockedError(OSError):
    """Raised if somebody else is writing a model. ``owner`` is a `LockOwner`, or None if it is not known."""

    owner: LockOwner | None = None

    @classmethod
    def make(cls, path: Path, owner: LockOwner | None) -> Self:
        """Return the error for a model."""
        who = "another process" if owner is None else str(owner)
        message = f"{path.name} is being written by {who}; wait for it, or use --wait (in Python, wait=)"
        error = cls(errno.EAGAIN, message, str(path))
        error.owner = owner
        return error

    def __str__(self) -> str:
        return str(self.strerror)


class ModelChangedError(OSError):
    """Raised if a model is not the file that was expected: somebody has replaced, changed or removed it."""

    def __str__(self) -> str:
        return str(self.strerror)


def check_unchanged(path: Path, expected: FileIdentity | Literal["any"] | None) -> None:
    """Raise `ModelChangedError` unless `identify` returns ``expected`` for a path."""
    if expected == "any":
        return
    found = identify(path)
    if found == expected:
        return
    what = "has been removed" if found is None else "has appeared" if expected is None else "has been changed"
    message = f"{path.name} {what} by another program since it was read, and is left as it is"
    raise ModelChangedError(errno.ESTALE, message, str(path))


class ModelLock:
    """A lock on the model at ``path``; see `lock_model`, which makes it.

    Parameters
    ----------
    path : Path
        The model, with symbolic links resolved.
    fd : int
        The open file that the lock is on.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd: int | None = fd
        self._depth = 0

    @property
    def held(self) -> bool:
        """Whether the lock is held by this process."""
        return self._fd is not None

    def release(self) -> None:
        """Free the lock. Do nothing if it is free already."""
        with _guard:
            fd, self._fd = self._fd, None
            if fd is None:
                return
            if _registry.get(self.path) is self:
                del _registry[self.path]
            _unlock(fd, find_lock_path(self.path))

    def __enter__(self) -> Self:
        with _guard:
            if self._fd is None:
                raise ValueError(f"the lock on {self.path} is released; call lock_model to take it again")
            self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _guard:
            self._depth -= 1
            if self._depth == 0:
                self.release()

    def __reduce__(self) -> Any:
        raise TypeError("a lock cannot be pickled: it belongs to this process")

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be shutting down
            self.release()


# The locks held by this process. Some file systems (NFS) lock for the process, not for the open file.
_registry: weakref.WeakValueDictionary[Path, ModelLock] = weakref.WeakValueDictionary()

# Held while any of this changes. Re-entrant, because the garbage collector may call `ModelLock.__del__` anywhere.
_guard = threading.RLock()


def lock_model(path: str | os.PathLike[str], *, wait: float = 0.0) -> ModelLock:
    """Take the exclusive right to write the model at ``path``, which need not exist yet.

    Hold it to read a model, change it and write it back without losing what others write. Returns a context manager that
    frees the lock at the end of the block; without ``with``, call ``release``. The lock belongs to the returned object,
    not to the thread: pass it to `save` or `Saver` as ``lock``, also in other threads, or enter it again. Every other call
    of `lock_model` for the same model fails or waits, in the same process too. A child process does not inherit it.

    The lock is advisory: it keeps out those who take it too. Where the file system has no locks, it only keeps out other
    threads of the process. The file next to the model, ``.<name>.lock``, tells others who holds the lock. It is removed
    with the lock; one that a killed process has left is harmless.

    Parameters
    ----------
    path : path-like
        Symbolic links are followed.
    wait : float, default=0.0
        Seconds to wait for somebody else to free the lock; ``math.inf`` to wait as long as it takes.

    Returns
    -------
    ModelLock

    Raises
    ------
    ModelLockedError
        An OSError that says who holds the lock.

    Examples
    --------
    >>> import bspforest, os, tempfile
    >>> from bspforest.persistence import ModelLockedError, identify, load_with_extra, lock_model, save
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bsp")
    >>> save(bspforest.BSPForestRegressor(random_state=0).fit([[0.0], [1.0]], [0, 1]), path)
    >>> with lock_model(path, wait=60.0) as lock:
    ...     before = identify(path)
    ...     forest, extra = load_with_extra(path)
    ...     forest = forest.partial_fit([[2.0]], [2])
    ...     save(forest, path, extra=extra, lock=lock, expected=before)
    ...     try:
    ...         lock_model(path)
    ...     except ModelLockedError as error:
    ...         print(error.owner.pid == os.getpid())
    True
    >>> bspforest.load(path).n_samples_
    3
    """
    if not wait >= 0:
        raise ValueError(f"wait must be a number of seconds, at least 0, got {wait!r}")
    with contextlib.suppress(FileNotFoundError):
        check_regular(os.fspath(path), os.stat(path))  # else a file would be made next to a device
    model = Path(os.path.realpath(path))
    deadline = time.monotonic() + wait
    delay = FIRST_DELAY
    while True:
        lock, owner = _try_to_lock(model)
        if lock is not None:
            return lock
        left = deadline - time.monotonic()
        if left <= 0:
            raise ModelLockedError.make(model, owner)
        time.sleep(min(left, delay * random.uniform(0.5, 1.5)))
        delay = min(1.5 * delay, LAST_DELAY)


@contextlib.contextmanager
def hold(path: Path, lock: ModelLock | None, wait: float) -> Iterator[ModelLock]:
    """Hold the lock on a model during a block: the given one, which stays held, or a new one."""
    if lock is None:
        with lock_model(path, wait=wait) as taken:
            yield taken
        return
    if lock.path != Path(os.path.realpath(path)):
        raise ValueError(f"the lock is for {lock.path}, not for {path}")
    if not lock.held:
        raise ValueError(f"the lock on {path} is released; call lock_model to take it again")
    yield lock


def find_lock_path(model: Path) -> Path:
    """Return the path of the lock file of a model."""
    name = model.name
    if len(os.fsencode(name)) > 200:  # names have at most 255 bytes
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return model.with_name(f".{name}.lock")


# ----------------------------------------------------------------------------------------------------------------------
# Lock files


def _try_to_lock(model: Path) -> tuple[ModelLock | None, LockOwner | None]:
    """Take the lock and return it, or None and the owner if somebody else has it."""
    path = find_lock_path(model)
    with _guard:
        while model not in _registry:
            fd = _open(path, model)
            try:
                if not _lock(fd):
                    break
                if _is_current(fd, path):  # else its owner has removed it in between: take the new one
                    _write_owner(fd)
                    lock = _registry[model] = ModelLock(model, fd)
                    fd = -1
                    return lock, None
            finally:
                if fd >= 0:
                    os.close(fd)
        return None, _read_owner(path)


def _open(path: Path, model: Path) -> int:
    """Open the lock file, or make it. It is never a link: another user may have made one to have its target overwritten."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
        try:
            fd = os.open(path, os.O_RDONLY | flags)  # a killed process of another user has left it: enough to lock it
        except OSError:
            raise OSError(error.errno, error.strerror, str(model)) from None  # what is wrong with the folder
    try:
        check_regular(path, os.fstat(fd))
    except OSError:
        os.close(fd)
        raise
    return fd


def _lock(fd: int) -> bool:
    """Lock an open file and return True, or False if another process has locked it. True where there are no locks."""
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        # Not supported by the file system, or by the server of a network file system.
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


def _is_current(fd: int, path: Path) -> bool:
    """Return whether an open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _unlock(fd: int, path: Path) -> None:
    """Remove the lock file, and free the lock. It is removed while it is locked, so that nobody locks it in between."""
    with contextlib.suppress(OSError):
        if _is_current(fd, path) and fcntl is not None:
            try:
                os.unlink(path)
            except OSError:  # left by another user in a folder like /tmp
                if os.fstat(fd).st_nlink == 1:
                    os.ftruncate(fd, 0)
    with contextlib.suppress(OSError):
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_UN)  # also if a child process still has the file open
        elif msvcrt is not None:
            os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
    os.close(fd)
    if fcntl is None:
        with contextlib.suppress(OSError):  # Windows removes it only if nobody else has it open
            os.unlink(path)


def _forget_inherited() -> None:
    """Drop the locks of the parent in a child process, which closes its copy of their files and does not free them."""
    global _guard
    for lock in list(_registry.values()):
        fd, lock._fd = lock._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)
    _registry.clear()
    _guard = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _guard.acquire(), after_in_parent=lambda: _guard.release(), after_in_child=_forget_inherited
    )


# ----------------------------------------------------------------------------------------------------------------------
# Owners


def _write_owner(fd: int) -> None:
    """Write who we are to the lock file. If that fails, others only see that it is locked."""
    owner = {
        "pid": os.getpid(),
        "host": platform.node(),
        "command": _find_command(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    data = json.dumps(owner).encode("ascii")
    with contextlib.suppress(OSError):
        status = os.fstat(fd)
        if status.st_nlink == 1:  # else it is a file of somebody else, too
            os.lseek(fd, 0, os.SEEK_SET)
            os.write(fd, data)
            if status.st_size > len(data):  # never to 0: closing such a file waits for the disk on ext4, 0.2 ms
                os.ftruncate(fd, len(data))


def _find_command() -> str:
    """Return the command line of this process, shortened."""
    program, *arguments = sys.argv or [""]
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.parent:
        start = ["python", "-m", spec.parent]
    else:
        start = ["python", "-c"] if program == "-c" else [os.path.basename(program) or "python"]
    command = shlex.join([*start, *arguments])
    return command if len(command) <= MOST_SHOWN else command[: MOST_SHOWN - 1] + "…"


def _read_owner(path: Path) -> LockOwner | None:
    """Return who has written a lock file; None if it does not tell."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        try:
            entries = json.loads(os.read(fd, MOST_READ))
        finally:
            os.close(fd)
        since = datetime.fromisoformat(entries["since"])
        return LockOwner(int(entries["pid"]), _clean(entries["host"]), _clean(entries["command"]), since)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _clean(text: Any) -> str:
    """Return text from a lock file, which others may have written, fit to be shown in a terminal."""
    return "".join(character if character.isprintable() else "?" for character in str(text)[:MOST_SHOWN])
