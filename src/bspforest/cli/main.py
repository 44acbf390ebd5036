"""``bspforest``: parse, run a command, and end with an exit code that means something."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from .errors import CommandError
from .parser import make_parser

HAVE_SEVERAL = ("forget", "info", "plot")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    options = make_parser().parse_args(arguments)
    try:
        module = import_module(f".commands.{options.command}", __package__)
        code = getattr(module, "run" if options.command not in HAVE_SEVERAL else f"run_{options.command}")(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Python must not stumble over it again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "interrupted", 130, options.debug)
    except CommandError as error:
        return _fail(str(error), error.code, options.debug)
    except MemoryError:
        return _fail("out of memory: fewer --trees or a --window need less", 1, options.debug)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return _fail(what, 1, options.debug)
    except Exception as error:
        if type(error).__module__.startswith("pyarrow") or isinstance(error, ValueError):
            return _fail(str(error), 1, options.debug)
        return _fail(
            f"{type(error).__name__}: {error} (this is a mistake in bspforest; --debug shows more)", 1, options.debug
        )


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"bspforest: {message}", file=sys.stderr)
    return code
