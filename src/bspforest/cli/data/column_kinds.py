"""Kinds of columns (numbers, booleans, text), and conversion of values to the kind of their column.

The kind of a column is determined from the first rows of the data. Later values that are not of this kind are *bad*:
their row is reported, or skipped.
"""

from __future__ import annotations

from ...tables.suspects import DATES, NEARLY_ALL
from ..errors import CommandError
from .arrow import pa, pc
from .notation import PLAIN, Notation

NUMBER, INTEGER, BOOLEAN, TEXT, DATE = "number", "integer", "boolean", "text", "date"

TYPES = {NUMBER: pa.float64(), INTEGER: pa.int64(), BOOLEAN: pa.bool_(), TEXT: pa.string()}

TRUE, FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]

_INTEGER = r"^[+-]?\d{1,18}$"


def kind_of_text(values: pa.Array, notation: Notation = PLAIN) -> str:
    """Return the narrowest kind that fits all values of a text file's column; number if there are none.

    A column that is nearly all numbers is taken for a column of numbers with mistakes.

    >>> kind_of_text(pa.array(["1", "", "2.5"])), kind_of_text(pa.array(["1", "2"])), kind_of_text(pa.array(["1", "b"]))
    ('number', 'integer', 'text')
    >>> kind_of_text(pa.array(["1.5"] * 99 + ["1,5"]))
    'number'
    """
    values = pc.utf8_trim_whitespace(values)
    values = values.filter(pc.invert(notation.is_missing(values)))
    for kind, pattern in ((INTEGER, _INTEGER), (NUMBER, notation.number), (DATE, DATES)):
        if pc.all(pc.match_substring_regex(values, pattern), min_count=0).as_py():
            return NUMBER if not len(values) else kind
    if pc.all(pc.is_in(values, value_set=pa.array(TRUE + FALSE))).as_py():
        return BOOLEAN
    numbers = pc.sum(pc.match_substring_regex(values, notation.number)).as_py()
    return NUMBER if numbers > NEARLY_ALL * len(values) else TEXT


def kind_of_type(name: str, arrow_type: pa.DataType) -> str:
    """Return the kind of a column that has an Arrow type."""
    t = pa.types
    if t.is_dictionary(arrow_type):
        return kind_of_type(name, arrow_type.value_type)
    if t.is_integer(arrow_type):
        return INTEGER
    if t.is_floating(arrow_type) or t.is_decimal(arrow_type) or t.is_null(arrow_type):
        return NUMBER
    if t.is_boolean(arrow_type):
        return BOOLEAN
    if _is_text(arrow_type):
        return TEXT
    if t.is_temporal(arrow_type):
        return DATE
    raise CommandError(
        f"column {name!r} holds {arrow_type}, not numbers, booleans or text: leave it out with --drop {name}"
    )


def convert(values: pa.Array, kind: str, notation: Notation = PLAIN) -> tuple[pa.Array, pa.Array | None]:
    """Return the values as the type of their kind, and a mask of bad values (None: no value is bad), which become null.

    >>> convert(pa.array(["1", "x", " 2 ", ""]), "number")[0].to_pylist()
    [1.0, None, 2.0, None]
    >>> convert(pa.array(["1,5", "1.5", "-"]), "number", Notation(decimal=",", na_values=("-",)))[0].to_pylist()
    [1.5, None, None]
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type == TYPES[kind]:
        return values, None
    try:
        if not _is_text(values.type) or kind == TEXT:
            return pc.cast(values, TYPES[kind], safe=kind == INTEGER), None
    except pa.ArrowInvalid:
        pass
    text = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    missing = notation.is_missing(text)
    if kind == BOOLEAN:
        fits = pc.is_in(text, value_set=pa.array(TRUE + FALSE))
        good = pc.if_else(fits, pc.is_in(text, value_set=pa.array(TRUE)), None)
    else:
        fits = pc.fill_null(pc.match_substring_regex(text, _INTEGER if kind == INTEGER else notation.number), False)
        good = pc.cast(notation.to_point(pc.if_else(pc.and_not(fits, missing), text, None)), TYPES[kind])
    return good, pc.and_not(pc.invert(fits), missing)


def _is_text(arrow_type: pa.DataType) -> bool:
    return pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)
