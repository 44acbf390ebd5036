"""Open DATA as a stream: with kinds of columns chosen from its first rows, or with those of a model."""

from __future__ import annotations

import shlex
from dataclasses import replace
from inspect import signature
from typing import Any

from ...estimators import BSPForestRegressor
from ..errors import CommandError, UsageError
from ..formatting import format_count
from .arrow import pa, pc
from .blocks import Source
from .column_kinds import BOOLEAN, DATE, INTEGER, NUMBER, TEXT, convert
from .hints import check_column_exists, check_model_columns, describe_ids
from .notation import Notation, has_comma
from .options import DataOptions
from .schema import Schema
from .sources import open_source
from .stream import Stream
from .target import Target, check_classes, make_target, parse_classes, sort_classes

SAMPLE_ROWS = 1_000  # from which the kinds of columns are chosen
MAX_CATEGORIES = signature(BSPForestRegressor).parameters["max_categories"].default


def open_new_stream(
    how: DataOptions, target_name: str, task: str | None, classes: str | None, only: tuple[str, ...] = ()
) -> tuple[Stream, list[str]]:
    """Open a stream with kinds of columns chosen from its first rows, and return it with notes for the user.

    ``only``: columns of numbers to read besides the target; all others are dropped.
    """
    source = _open(how)
    for name in only:
        check_column_exists(name, source.columns, source.name)
    if only:
        how = replace(how, drop=tuple(name for name in source.columns if name not in (target_name, *only)))
    key = () if how.key is None else (how.key,)
    for name in (target_name, *how.drop, *how.text, *how.number, *key):
        check_column_exists(name, source.columns, source.name)
    if target_name in (*how.drop, *key):
        option = "--key" if target_name in key else "--drop"
        raise UsageError(f"{option} {target_name}: the target cannot be {'the key' if key else 'dropped'}")
    kinds, first = source.sample(SAMPLE_ROWS, (*how.drop, *key))
    given = dict.fromkeys(how.text, TEXT) | dict.fromkeys(how.number, NUMBER)
    kinds |= {name: kind for name, kind in given.items() if name in kinds}
    commas = _find_commas(
        source, {name: first[name] for name, kind in kinds.items() if kind == TEXT and name not in given}
    )
    _check_numbers(only, kinds, commas)
    first = {name: source.notation.make_plain(v, is_text=kinds[name] == TEXT) for name, v in first.items()}
    target, reason = make_target(target_name, kinds.pop(target_name), first[target_name], task)
    notes = [f"Task: {target.task} ({reason})"]
    schema = Schema.choose(kinds)
    if not only:  # what these notes advise is done to columns that were not chosen by name
        notes += [*commas.values(), *describe_ids(kinds, first)]
    for name, kind in schema.kinds.items():
        if name not in commas and not only:
            notes += _describe_surprises(name, kind, first[name])
    if target.task == "classification":
        target.classes = _find_classes(how, target, first[target_name], classes)
        target.is_closed = classes is not None
        notes.append(f"{format_count(len(target.classes), 'class')}: {target.list_classes()}")
    elif classes is not None:
        raise UsageError("--classes is for classification only; --task classification selects it")
    return Stream(source, schema, target, on_error=how.on_error, keep=key), notes


def open_known_stream(
    how: DataOptions, schema: Schema, target: Target | None, ignored: tuple[str, ...] = (), keep: tuple[str, ...] = ()
) -> Stream:
    """Open a stream with the columns of a model. Columns in ``ignored`` may be present or not."""
    source = _open(how)
    expected = list(schema.kinds) + ([target.name] if target is not None else [])
    found = [name for name in source.columns if name in expected or name not in (*ignored, *how.drop, *keep)]
    check_model_columns(found, expected, source.name)
    for name in keep:
        check_column_exists(name, source.columns, source.name)
    return Stream(source, schema, target, on_error=how.on_error, keep=keep)


def _open(how: DataOptions) -> Source:
    notation = Notation(how.decimal, how.na_values)
    return open_source(how.data, delimiter=how.delimiter, header=how.header, notation=notation)


def _find_classes(how: DataOptions, target: Target, first: pa.Array, given: str | None) -> list[Any]:
    """Return the classes as given, or all in the data; of a pipe, which cannot be read twice, those of the first rows."""
    if given is not None:
        return parse_classes(target, given)
    found = pc.unique(convert(first, target.kind)[0])
    if how.can_reopen:
        source = _open(how)
        for block in source.read({target.name: target.kind}):
            values = source.notation.drop_markers(pc.unique(block.columns[target.name]))
            found = pc.unique(pa.concat_arrays([found, values]))
            check_classes(target.name, len(found))
    classes = sort_classes(found)
    if not classes:
        raise CommandError(f"the target {target.name!r} has no values")
    return classes


def _check_numbers(names: tuple[str, ...], kinds: dict[str, str], commas: dict[str, str]) -> None:
    """Refuse columns that are to hold numbers and do not."""
    for name in names:
        if kinds[name] not in (NUMBER, INTEGER):
            held = {BOOLEAN: "booleans", DATE: "dates or times"}.get(kinds[name], kinds[name])
            hint = " (--decimal , reads numbers such as 1,5)" if name in commas else ""
            raise CommandError(f"column {name!r} holds {held}, expected numbers{hint}")


def _find_commas(source: Source, texts: dict[str, pa.Array]) -> dict[str, str]:
    """Return notes on columns of text that are numbers with a decimal comma."""
    if source.notation.decimal == ",":
        return {}
    why = "text, because its numbers have a decimal comma (--decimal , reads them as numbers)"
    return {name: f"Column {name!r}: {why}" for name, values in texts.items() if has_comma(values)}


def _describe_surprises(name: str, kind: str, first: pa.Array) -> list[str]:
    """Return notes on an encoding that may not be what the user expects."""
    notes = []
    values = pc.fill_null(convert(first, TEXT)[0], "")
    bad = convert(values, NUMBER)[1]
    odd = values.filter(bad) if bad is not None else values[:0]
    distinct = pc.count_distinct(values).as_py()
    if kind == TEXT and distinct > MAX_CATEGORIES:
        notes.append(
            f"Column {name!r}: text with {distinct} different values in the first {format_count(len(values), 'row')}; only "
            f"{MAX_CATEGORIES} are distinguished (--drop {name} if it is an identifier)"
        )
    if not len(odd):
        return notes
    word = odd[0].as_py()
    gap = "" if "," in word else f"--na-values {shlex.quote(word)} if it marks a gap, "
    if kind == TEXT and len(odd) < 0.5 * len(values):
        notes.append(
            f"Column {name!r}: text, because {word!r} is not a number ({gap}--number {name} if it is a mistake)"
        )
    if kind == NUMBER:
        notes.append(f"Column {name!r}: numbers, so {word!r} is a mistake ({gap}--text {name} if the column is text)")
    return notes
