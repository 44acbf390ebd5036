"""Find columns of text that most likely are not categories: ids, dates that are not ISO dates, numbers with words among them.

The command refuses such columns, or prints hints with its own options; the estimators issue a `ColumnWarning`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from .dates import SAMPLE_ROWS
from .reading import Table
from .values import is_missing

# Patterns that Python and pyarrow read alike.
NUMBERS = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"
DATES = (
    r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
    r"|^\d{1,2}/\d{1,2}/\d{2,4}\b|^\d{2}:\d{2}(:\d{2})?$"
)
NEARLY_ALL = 0.95

MIN_ID_ROWS = 50  # fewer rows may all be different by chance
MANY_NUMBERS = 20  # different whole numbers; fewer may be codes, such as grades

_NUMBER, _DATE = re.compile(NUMBERS, re.ASCII), re.compile(DATES, re.ASCII)


class ColumnWarning(UserWarning):
    """A column of text is most likely not one of categories."""


def warn_of_suspects(table: Table, columns: Sequence[int]) -> None:
    """Issue a `ColumnWarning` for each of these columns of text that is most likely not one of categories.

    Parameters
    ----------
    table : Table
    columns : sequence of int
        Numbers of columns of text. Those of a type for categories are left out.
    """
    for k in columns:
        if table.has_categories(k):
            continue
        found = describe_suspect(table.list_first(k, SAMPLE_ROWS))
        if found is not None:
            name = table.names[k][:1].upper() + table.names[k][1:]
            message = f"{name} {found}. If these are categories, make it one of dtype category, or name it in categorical_features."
            warnings.warn(message, ColumnWarning, stacklevel=find_level())


def describe_suspect(values: Sequence[Any]) -> str | None:
    """Return what values of text are if they are most likely not categories, and what to do; else None.

    >>> describe_suspect(["31/05/2024", None, "01/06/2024"]).partition(",")[0]
    'holds dates or times in another notation than 2024-05-31 or 2024-05-31T14:30'
    >>> describe_suspect(["red", "blue", "red"]) is None
    True
    """
    texts = [str(value).strip() for value in values if not is_missing(value)]
    texts = [text for text in texts if text]
    if not texts:
        return None
    others = [text for text in texts if not _DATE.search(text)]
    if len(others) < 0.5 * len(texts):
        if others:
            found = f"dates as text, with words such as {others[0]!r} among them"
            remedy = 'pd.to_datetime(..., errors="coerce"), which makes missing values of the words'
        else:
            found = "dates or times in another notation than 2024-05-31 or 2024-05-31T14:30"
            remedy = "pd.to_datetime (times of day with pd.to_timedelta), or leave it out"
        return f"holds {found}, so that each would be a category of its own: convert it with {remedy}"
    words = [text for text in texts if not _NUMBER.search(text)]
    numbers = {text for text in texts if _NUMBER.search(text)}
    are_quantities = len(numbers) > MANY_NUMBERS or any("." in text for text in numbers)
    if words and len(words) < 0.5 * len(texts) and are_quantities:
        return (
            f"holds numbers as text, with words such as {words[0]!r} among them, so that each different number would be a "
            'category of its own: convert it with pd.to_numeric(..., errors="coerce"), which makes gaps of the words'
        )
    if len(texts) >= MIN_ID_ROWS and len(set(texts)) > NEARLY_ALL * len(texts):
        return (
            "holds different text in nearly every row, as an id does, from which nothing can be learned: leave it out, or pass "
            "it as keys= to forget rows by it"
        )
    return None


def find_level() -> int:
    """Return the level of the stack, for the caller, that is the user's call of an estimator."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "bspforest",
        "sklearn",
    ):
        frame, level = frame.f_back, level + 1
    return level
