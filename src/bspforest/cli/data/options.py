"""The options of the commands about reading data. Does not import pyarrow, for the start-up time of ``--help``."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass
class DataOptions:
    """How to read DATA.

    Parameters
    ----------
    data : str
        Path, or ``-`` for standard input.
    delimiter : str or None
        Between the fields of CSV; None to detect it.
    header : bool
        Whether the first line of CSV names the columns.
    decimal : str
        The decimal point of numbers in text.
    na_values : tuple of str
        Additional markers of missing values.
    on_error : str
        What to do at malformed rows: ``"stop"``, ``"skip"`` or ``"skip-unlabelled"``.
    drop, text, number : tuple of str
        Columns to leave out, to read as text, and to read as numbers.
    key : str or None
        The column of keys by which rows can be forgotten.
    """

    data: str
    delimiter: str | None = None
    header: bool = True
    decimal: str = "."
    na_values: tuple[str, ...] = ()
    on_error: str = "stop"
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    key: str | None = None

    @property
    def can_reopen(self) -> bool:
        """Return whether DATA can be read twice, unlike a pipe."""
        return os.path.isfile(self.data) or os.path.isdir(self.data)
