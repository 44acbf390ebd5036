"""``bspforest``: parse the arguments, run the command, and return a meaningful exit code."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from .errors import CommandError
from .parser import make_parser
from .terminal import discard_output, open_closed_streams, print_errors


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    open_closed_streams()
    try:
        options = make_parser().parse_args(arguments)
    except KeyboardInterrupt:
        return _fail("interrupted", 130, False)
    try:
        return _run(options)
    finally:
        discard_output()


def _run(options: argparse.Namespace) -> int:
    try:
        # Imported by name: numpy, scikit-learn and numba take a second, which `--help` need not wait for.
        command = import_module(f".commands.{options.command}", __package__)
        code = _run_quietly(command, options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        return 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "interrupted", 130, options.debug)
    except CommandError as error:
        return _fail(str(error), error.code, options.debug)
    except MemoryError:
        return _fail("out of memory: use fewer --trees or a smaller --window", 1, options.debug)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return _fail(message, 1, options.debug)
    except Exception as error:
        if type(error).__module__.startswith("pyarrow") or isinstance(error, ValueError):
            return _fail(str(error), 1, options.debug)
        message = f"{type(error).__name__}: {error} (this is a mistake in bspforest; --debug shows more)"
        return _fail(message, 1, options.debug)


def _run_quietly(command: ModuleType, options: argparse.Namespace) -> int:
    """Run a command without the warnings of the estimators about columns: it prints its own hints on them.

    Of their warnings about what they have decided, the first one is printed as a line.
    """
    from ..forest.advice import TuningWarning  # imports numpy
    from ..tables.suspects import ColumnWarning

    told = False

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        nonlocal told
        if not issubclass(category, TuningWarning):
            shown(message, category, *where, **more)
        elif not told:
            told = True
            print_errors(f"bspforest: {str(message).partition(': ')[2]}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        shown, warnings.showwarning = warnings.showwarning, show
        return command.run(options)


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        print_errors(*traceback.format_exc().split("\n"))
    print_errors(f"bspforest: {message}")
    return code
