"""Errors of the command: one line on standard error, and an exit code."""

from __future__ import annotations


class CommandError(Exception):
    """The data or a file is wrong: exit code 1."""

    code = 1


class UsageError(CommandError):
    """The command line is wrong: exit code 2."""

    code = 2


class MalformedRowError(CommandError):
    """A row cannot be used; the message says which, why, and how to continue without it."""

    def __init__(self, source: str, location: str, reason: str, *, is_unlabelled: bool = False) -> None:
        hint = "--on-error skip leaves such rows out"
        if is_unlabelled:
            hint = "--on-error skip-unlabelled leaves out rows without a target, --on-error skip every malformed row"
        super().__init__(f"{source}, {location}: {reason} ({hint})")


class DuplicateFeatureError(CommandError):
    """Two columns would be encoded as features of the same name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"two features would be named {name!r}: rename a column, or leave it out with --drop")


class NoMatplotlibError(CommandError):
    """A picture cannot be drawn, because matplotlib is not installed."""

    def __init__(self, error: ImportError) -> None:
        super().__init__(f"a picture needs matplotlib ({error}): pip install 'bspforest[cli]'")
