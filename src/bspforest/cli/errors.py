"""What can go wrong, as the command says it: one line on standard error, and an exit code."""

from __future__ import annotations


class CommandError(Exception):
    """Something is wrong with the data or a file: exit code 1."""

    code = 1


class UsageError(CommandError):
    """Something is wrong with the command as it was typed: exit code 2."""

    code = 2


class BadRows(CommandError):
    """Rows that cannot be used: the first of them, and how to go on without it."""

    def __init__(self, source: str, where: str, why: str) -> None:
        super().__init__(f"{source}, {where}: {why} (--on-error skip leaves such rows out)")


class NoMatplotlib(CommandError):
    """A picture cannot be drawn for want of matplotlib."""

    def __init__(self, error: ImportError) -> None:
        super().__init__(f"a picture needs matplotlib ({error}): pip install 'bspforest[cli]'")
