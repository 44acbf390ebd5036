"""Open DATA as a stream: with an encoding chosen from its first rows, or with the encoding of a model."""

from __future__ import annotations

import difflib
from typing import Any

from ..errors import CommandError, UsageError
from .arrow import pa, pc
from .blocks import Source
from .column_kinds import NUMBER, TEXT, convert
from .encoding import Column, Encoder
from .options import DataOptions
from .sources import open_source
from .stream import Stream
from .table_sources import check_columns
from .target import Target, make_target, parse_classes, sort_classes

SAMPLE_ROWS = 1_000  # from which the encoding is chosen
MOST_CLASSES = 1_000


def open_new_stream(
    how: DataOptions, target_name: str, task: str | None, classes: str | None
) -> tuple[Stream, list[str]]:
    """Open a stream with an encoding chosen from its first rows, and return it with notes for the user."""
    source = _open(how)
    for name in (target_name, *how.drop, *how.text, *how.number):
        check_column_exists(name, source.columns, source.name)
    if target_name in how.drop:
        raise UsageError(f"--drop {target_name}: the target cannot be dropped")
    kinds, first = source.sample(SAMPLE_ROWS, how.drop)
    given = dict.fromkeys(how.text, TEXT) | dict.fromkeys(how.number, NUMBER)
    kinds |= {name: kind for name, kind in given.items() if name in kinds}
    target, reason = make_target(target_name, kinds.pop(target_name), first[target_name], task)
    notes = [f"Task: {target.task} ({reason})"]
    encoder = Encoder.fit(first, kinds)
    for column in encoder.columns:
        notes += _describe_surprises(column, first[column.name])
    if target.task == "classification":
        target.classes = _find_classes(how, target, first[target_name], classes)
        notes.append(f"{len(target.classes)} classes: {target.list_classes()}")
    elif classes is not None:
        raise UsageError("--classes is for classification only; --task classification selects it")
    return Stream(source, encoder, target, skip=how.skip), notes


def open_known_stream(
    how: DataOptions, encoder: Encoder, target: Target | None, ignored: tuple[str, ...] = (), keep: tuple[str, ...] = ()
) -> Stream:
    """Open a stream with the encoding of a model. Columns in ``ignored`` may be present or not."""
    source = _open(how)
    expected = list(encoder.kinds) + ([target.name] if target is not None else [])
    found = [name for name in source.columns if name in expected or name not in (*ignored, *how.drop, *keep)]
    check_columns(found, expected, source.name)
    for name in keep:
        check_column_exists(name, source.columns, source.name)
    return Stream(source, encoder, target, skip=how.skip, keep=keep)


def check_column_exists(name: str, columns: list[str], where: str) -> None:
    """Refuse the name of a column that does not exist, with a suggestion."""
    if name not in columns:
        lower = {column.lower(): column for column in columns}
        near = [lower[found] for found in difflib.get_close_matches(name.lower(), lower, 1)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"{where} has no column {name!r}.{hint} Its columns: {', '.join(columns)}")


def _open(how: DataOptions) -> Source:
    return open_source(how.data, delimiter=how.delimiter, header=how.header)


def _find_classes(how: DataOptions, target: Target, first: pa.Array, given: str | None) -> list[Any]:
    """Return the classes as given, or all in the data; of a pipe, which cannot be read twice, those of the first rows."""
    if given is not None:
        return parse_classes(target, given)
    found = pc.unique(convert(first, target.kind)[0])
    if how.can_reopen:
        for block in _open(how).read({target.name: target.kind}):
            found = pc.unique(pa.concat_arrays([found, pc.unique(block.columns[target.name])]))
            if len(found) > MOST_CLASSES:
                raise CommandError(
                    f"the target {target.name!r} has more than {MOST_CLASSES} different values; "
                    "for numbers, use --task regression"
                )
    classes = sort_classes(found)
    if not classes:
        raise CommandError(f"the target {target.name!r} has no values")
    return classes


def _describe_surprises(column: Column, first: pa.Array) -> list[str]:
    """Return notes on an encoding that may not be what the user expects."""
    notes = []
    name, values = column.name, pc.fill_null(convert(first, TEXT)[0], "")
    bad = convert(values, NUMBER)[1]
    odd = values.filter(bad) if bad is not None else values[:0]
    distinct = pc.count_distinct(values).as_py()
    if column.kind == TEXT and distinct > len(column.categories):
        notes.append(
            f"Column {name!r}: text with {distinct} different values in the first {len(values)} rows; only the "
            f"{len(column.categories)} most frequent are distinguished (--drop {name} if it is an identifier)"
        )
    if column.kind == TEXT and 0 < len(odd) < 0.5 * len(values):
        notes.append(
            f"Column {name!r}: text, because {odd[0].as_py()!r} is not a number (--number {name} if that is a mistake)"
        )
    if column.kind == NUMBER and len(odd):
        notes.append(
            f"Column {name!r}: numbers, so {odd[0].as_py()!r} is a mistake (--text {name} if the column is text)"
        )
    return notes
