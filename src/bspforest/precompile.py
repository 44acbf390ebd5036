"""Compile all kernels ahead of their first use, several at a time.

Numba compiles in one thread at a time, but a process finds in the cache what others have compiled. With an empty
cache and two cores this takes 16 to 21 s; one process takes 29 to 33 s.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import joblib

from .forest import kernels as predicting
from .trees import kernels
from .trees.kernels.jit import NotCompiledError, compile_for, only_cached, registered

# More processes would not end sooner: the largest kernel alone takes a third of the time of all.
MAX_PROCESSES = 4

# Kernels that take more than 3 s each, longest first. They are compiled first, by processes of their own; a process takes
# a second to start, as long as each of the others to compile.
SLOWEST = ("learn_chunk", "build", "insert_waiting", "forget_rows")

for _package in (kernels, predicting):
    for _module in pkgutil.iter_modules(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_module.name)
if not registered.keys() >= set(SLOWEST):
    raise ImportError(f"no kernels are called {set(SLOWEST) - registered.keys()}")


def examples() -> dict[str, tuple[Any, tuple]]:
    """Return all kernels that are compiled by themselves, by name, with examples of their arguments."""
    return {name: (kernel, make_arguments()) for name, (kernel, make_arguments) in registered.items()}


def is_compiled(kernel: Any, args: tuple) -> bool:
    """Return whether a kernel is in the cache; load it if it is."""
    try:
        with only_cached():
            compile_for(kernel, args)
    except NotCompiledError:
        return False
    return True


def are_compiled() -> bool:
    """Return whether all kernels are in the cache; load them if they are."""
    return all(is_compiled(kernel, args) for kernel, args in examples().values())


def compile_all(n_processes: int | None = None, tell: Callable[[int, int], None] = lambda done, n: None) -> int:
    """Compile all kernels that are not in the cache; return how many there were.

    This process compiles what other processes have not begun, or could not compile, so that an error shows here.

    Parameters
    ----------
    n_processes : int, optional
        By default the number of cores, up to `MAX_PROCESSES`.
    tell : callable
        Called with the number of kernels done and the number in all, after each.
    """
    found = examples()
    todo = [name for name, (kernel, args) in found.items() if not is_compiled(kernel, args)]
    slow = [name for name in SLOWEST if name in todo]
    n_helpers = (n_processes or min(joblib.cpu_count(), MAX_PROCESSES)) - 1
    helpers = ThreadPoolExecutor(max(1, n_helpers), "bspforest")
    begun: dict[str, Future] = {}
    try:
        if n_helpers > 0:
            begun = _submit(helpers, slow)
        quick_first = [name for name in todo if name not in slow] + slow[::-1]
        for done, name in enumerate(quick_first, 1):
            if name in begun and not begun[name].cancel():
                begun[name].result()
            compile_for(*found[name])  # loads it if a helper has compiled it
            tell(done, len(todo))
    finally:
        helpers.shutdown(cancel_futures=True)
    return len(todo)


def _submit(helpers: ThreadPoolExecutor, names: list[str]) -> dict[str, Future]:
    """Have kernels compiled in other processes; none, if the system has no thread left."""
    begun: dict[str, Future] = {}
    try:
        for name in names:
            begun[name] = helpers.submit(_compile_elsewhere, name)
    except RuntimeError:
        pass
    return begun


# What the other process runs. Not ``python -m``, which looks for modules in the current folder first; and only if it finds
# the same package.
_PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from bspforest import precompile
precompile.__file__ == sys.argv[2] and precompile.compile_for(*precompile.examples()[sys.argv[3]])
"""


def _compile_elsewhere(name: str) -> None:
    """Compile a kernel in another process, if it can be started and succeeds."""
    if not sys.executable:
        return
    command = [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[1]), __file__, name]
    with suppress(OSError):
        subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
