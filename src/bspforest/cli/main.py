"""``bspforest``: parse the arguments, run the command, and return a meaningful exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from .errors import CommandError
from .parser import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = make_parser().parse_args(arguments)
    try:
        # Imported by name: numpy, scikit-learn and numba take a second, which `--help` need not wait for.
        code = import_module(f".commands.{options.command}", __package__).run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has gone, as with `| head`. Python must not fail on it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"bspforest: {message}", file=sys.stderr)
    return code
