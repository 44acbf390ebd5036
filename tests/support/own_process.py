"""Runs tests in processes of their own: a signal that comes late must not end the others.

As a script, it runs the test with a name of a file, with arguments from standard input.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any


def in_own_process(test: Callable[..., None]) -> Callable[..., None]:
    """Decorate a test that sends signals to its process. Its arguments must be picklable."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        command = [sys.executable, "-W", "error::RuntimeWarning", __file__, inspect.getfile(test), test.__name__]
        end = subprocess.run(
            command,
            input=pickle.dumps(arguments),
            capture_output=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=300,
        )
        assert end.returncode == 0, f"exit code {end.returncode}\n{end.stdout.decode()}{end.stderr.decode()}"

    return run


def main(path: str, name: str) -> None:
    spec = importlib.util.spec_from_file_location("tests_of_own_process", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    getattr(module, name).__wrapped__(**pickle.load(sys.stdin.buffer))


if __name__ == "__main__":
    main(*sys.argv[1:])
