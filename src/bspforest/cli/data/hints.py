"""What may help a user whose columns are not what they should be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ..errors import CommandError, UsageError
from .arrow import pa, pc
from .column_kinds import INTEGER, NUMBER, convert

MIN_RISING = 10  # rows in which a column must rise to be taken for an id


def find_near(name: str, columns: Sequence[str]) -> str | None:
    """Return the column whose name is most like another name, if any is like it.

    >>> find_near("Price", ["size", "price"])
    'price'
    """
    lower = {column.lower(): column for column in columns}
    found = difflib.get_close_matches(name.lower(), lower, 1)
    return lower[found[0]] if found else None


def check_column_exists(name: str, columns: list[str], where: str) -> None:
    """Refuse the name of a column that does not exist, with a suggestion."""
    if name not in columns:
        near = find_near(name, columns)
        hint = f" Did you mean {near!r}?" if near is not None else ""
        raise UsageError(f"{where} has no column {name!r}.{hint} Its columns: {', '.join(columns)}")


def check_model_columns(found: list[str], expected: list[str], where: str) -> None:
    """Refuse data whose columns are not those of a model, and say what may help."""
    missing = [column for column in expected if column not in found]
    new = [column for column in found if column not in expected]
    if missing:
        message = f"{where} lacks the column {missing[0]!r}, which the model needs; it has {', '.join(found)}"
        raise CommandError(message + _explain_missing(missing[0], new, found, expected))
    if new:
        raise CommandError(
            f"{where} has a new column, {new[0]!r}, which the model does not know: leave it out with "
            f"--drop {','.join(new)}"
        )


def _explain_missing(name: str, new: list[str], found: list[str], expected: list[str]) -> str:
    if len(found) == 1 < len(expected):
        return ". Is its delimiter another one? See --delimiter"
    if all(re.fullmatch(r"c\d+", column) for column in expected):
        return ". The model was learned with --no-header, which names columns c1, c2, ..."
    if (near := find_near(name, new)) is not None:
        return f". If {near!r} is the same, rename it"
    return ""


def describe_ids(kinds: dict[str, str], first: dict[str, pa.Array]) -> list[str]:
    """Return notes on columns that rise by one each row, as ids do."""
    names = [name for name, kind in kinds.items() if kind in (INTEGER, NUMBER) and _is_rising(first[name], kind)]
    return [f"Column {name!r} rises by one each row: if it is an id, leave it out with --drop {name}" for name in names]


def _is_rising(values: pa.Array, kind: str) -> bool:
    numbers = pc.cast(convert(values, kind)[0], pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return len(numbers) >= MIN_RISING and bool((numbers[1:] == numbers[:-1] + 1.0).all())
