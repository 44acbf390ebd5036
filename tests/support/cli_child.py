"""Runs the command in processes of their own that need not import and compile first: for tests that kill many of them.

As a script, it reads commands, one JSON list a line, runs each in a copy of itself, and writes the copy's process id and, when
it has ended, its exit code (minus the signal that ended it).
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


class Children:
    """Runs commands, one at a time."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._server = subprocess.Popen(
            [sys.executable, __file__, str(log)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._read()  # it is ready

    def _read(self) -> int:
        return int(self._server.stdout.readline())

    def start(self, arguments: Sequence[str]) -> int:
        """Start a command: its process id."""
        self._server.stdin.write(json.dumps(list(arguments)).encode() + b"\n")
        self._server.stdin.flush()
        return self._read()

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code, or None if it is not done after so many seconds."""
        ready, _, _ = select.select([self._server.stdout], [], [], seconds)
        return self._read() if ready else None

    def close(self) -> None:
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


def serve(log: str) -> None:
    import numpy as np

    import bspforest
    from bspforest.cli.commands import learn  # noqa: F401 once for all
    from bspforest.cli.main import main

    rng = np.random.default_rng(0)
    X, y = rng.random((60, 3)), rng.random(60)
    forest = bspforest.BSPForestRegressor(2, window=100).fit(X, y).partial_fit(X, y)  # compiles, forgetting included
    with tempfile.TemporaryDirectory() as folder:
        forest.save(f"{folder}/m.bsp")
        bspforest.load(f"{folder}/m.bsp").predict(X)
    print(0, flush=True)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1)
            os.dup2(said, 2)
            code = main(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
