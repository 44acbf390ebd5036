"""All kernels that are compiled by themselves, and compiling them side by side.

Numba compiles in one thread at a time, but what one process has put into the cache the others find there. So on a machine that has
not seen the package yet, `compile_all` starts some processes and hands them kernels, one after the other.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from .arrays import example_forest, example_scratch
from .ensemble import to_read
from .kernels.build import build, build_trees, carry_out
from .kernels.checksum import checksum_words
from .kernels.forget import forget_rows
from .kernels.insert import insert_waiting, learn_rows
from .kernels.jit import NotCompiledError, compile_for, only_cached
from .kernels.predict import find_all_leaves, list_points, number_nodes, sum_leaves
from .kernels.validate import check_tree
from .kernels.validate_points import make_checks
from .kernels.wipe import scrub_trees

# More processes would not end sooner: the largest kernel alone takes half of the time that two processes take for all.
MOST_PROCESSES = 4


def examples() -> dict[str, tuple[Any, tuple]]:
    """All kernels by name, those that take longest first, with examples of their arguments: each has one type for each."""
    forest, work = example_forest(), example_scratch()
    rows, slots = np.empty((1, 1)), np.empty(1, np.int32)
    given = to_read(rows)
    numbers, count, table = np.empty(1), np.empty(1, np.int64), np.empty((1, 1), np.int64)
    words = np.empty(1, np.uint32)
    words.flags.writeable = False
    found = {
        learn_rows: (forest, work, work, 0, 0, slots, numbers, count),
        build: (),
        insert_waiting: (),
        check_tree: (forest, 0, np.empty(1, np.uint8), 0, 0.0, True, True, make_checks(1, 1, 1, 1, 1)),
        forget_rows: (forest, work, 0, 0, slots, count),
        sum_leaves: (forest, given, 0, 0, 0, rows, rows, count, table),
        carry_out: (),
        build_trees: (forest, work, 0, 0, slots, 0.0),
        find_all_leaves: (forest, given, 0, 0, table, rows, count, table),
        list_points: (forest.leaves, forest.links, forest.labels, table, slots, numbers, count),
        scrub_trees: (forest, 0, 0, slots),
        number_nodes: (forest.cuts[0], 0, count, count, count),
        checksum_words: (words, np.uint64(0)),
    }
    return {kernel.__name__: (kernel, args) for kernel, args in found.items()}


def is_compiled(kernel: Any, args: tuple) -> bool:
    """Is a kernel in the cache? If it is, it is loaded from it."""
    try:
        with only_cached():
            compile_for(kernel, args)
    except NotCompiledError:
        return False
    return True


def are_compiled() -> bool:
    """Are all kernels in the cache? If they are, they are loaded from it."""
    return all(is_compiled(kernel, args) for kernel, args in examples().values())


def compile_all(n_processes: int | None = None, tell: Callable[[int, int], None] = lambda done, n: None) -> int:
    """Compile all kernels that are not in the cache, side by side; how many there are. ``tell`` hears how many of them are done.

    What no other process could compile is compiled in this one, where an error shows itself.
    """
    todo = [name for name, (kernel, args) in examples().items() if not is_compiled(kernel, args)]
    n, done = len(todo), 0
    waiting, lock = iter(todo), threading.Lock()
    left: list[str] = []

    def finish(name: str, well: bool) -> None:
        nonlocal done
        with lock:
            if well:
                done += 1
                tell(done, n)
            else:
                left.append(name)

    def serve(process: subprocess.Popen) -> None:
        while True:
            with lock:
                name = next(waiting, None)
            if name is None:
                return
            try:
                print(name, file=process.stdin, flush=True)
                well = process.stdout.readline().strip() == name  # type: ignore[union-attr]
            except OSError:
                well = False
            finish(name, well)
            if not well:
                return

    processes: list[subprocess.Popen] = []
    threads: list[threading.Thread] = []
    try:
        for _ in range(min(n, n_processes or min(joblib.cpu_count(), MOST_PROCESSES))):
            try:
                processes.append(_start())
                thread = threading.Thread(target=serve, args=(processes[-1],), name="bspforest")
                thread.start()
            except (OSError, RuntimeError):
                break  # no more processes, or threads, to be had
            threads.append(thread)
        for thread in threads:
            thread.join()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
        for thread in threads:
            thread.join()
    for name in [*left, *waiting]:
        compile_for(*examples()[name])
        finish(name, True)
    return n


# What a process does; not as `python -m` would, which looks for modules in the current folder first. The package is the one that asks.
_PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from bspforest.engine import precompile
precompile.__file__ == sys.argv[2] and precompile.compile_asked()
"""


def _start() -> subprocess.Popen:
    """A process that reads names of kernels, compiles them, and says so."""
    if not sys.executable:
        raise OSError("Python does not know where it is")
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[2]), __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def compile_asked() -> None:
    """Compile kernels by their names, one a line of standard input, and say each when it is done."""
    kernels = examples()
    for line in sys.stdin:
        compile_for(*kernels[line.strip()])
        print(line.strip(), flush=True)
