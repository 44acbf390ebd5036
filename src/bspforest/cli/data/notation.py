"""How numbers and missing values are written in DATA: the decimal point, and markers of missing values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...tables.suspects import NUMBERS
from .arrow import pa, pc

# Missing numbers in text files: the markers that pandas and pyarrow know, and "?" as in the UCI archive.
MISSING = ["", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"]

_COMMA_NUMBER = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"


@dataclass(frozen=True)
class Notation:
    """How numbers and missing values are written.

    Parameters
    ----------
    decimal : str
        Between the whole and the fractional digits of a number.
    na_values : tuple of str
        Markers of missing values, beside those of missing numbers in `MISSING`.
    """

    decimal: str = "."
    na_values: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Return all markers of missing numbers."""
        return [*MISSING, *self.na_values]

    @property
    def number(self) -> str:
        """Return the pattern of numbers."""
        return NUMBERS.replace(r"\.", self.decimal) if self.decimal != "." else NUMBERS

    @cached_property
    def _na_numbers(self) -> list[float]:
        numbers = pc.match_substring_regex(pa.array(self.na_values, pa.string()), NUMBERS)
        return [float(text) for text, fits in zip(self.na_values, numbers.to_pylist(), strict=True) if fits]

    def to_point(self, numbers: pa.Array) -> pa.Array:
        """Return numbers in text with a decimal point."""
        return numbers if self.decimal == "." else pc.replace_substring(numbers, self.decimal, ".")

    def is_missing(self, text: pa.Array) -> pa.Array:
        """Return a mask of missing numbers in text."""
        return pc.or_(pc.is_null(text), pc.is_in(text, value_set=pa.array(self.missing)))

    def drop_markers(self, values: pa.Array) -> pa.Array:
        """Return text or numbers with null for the additional markers of missing values."""
        if not self.na_values or pa.types.is_boolean(values.type):
            return values
        if pa.types.is_string(values.type):
            marked = pc.is_in(pc.utf8_trim_whitespace(values), value_set=pa.array(self.na_values))
        elif self._na_numbers:
            marked = pc.is_in(pc.cast(values, pa.float64(), safe=False), value_set=pa.array(self._na_numbers))
        else:
            return values
        return pc.if_else(marked, pa.scalar(None, values.type), values)

    def make_plain(self, values: pa.Array, *, is_text: bool) -> pa.Array:
        """Return text as it would be written with a decimal point and without additional markers."""
        if not pa.types.is_string(values.type):
            return self.drop_markers(values)
        values = self.drop_markers(values)
        if is_text or self.decimal == ".":
            return values
        fits = pc.match_substring_regex(pc.utf8_trim_whitespace(values), self.number)
        return pc.if_else(pc.fill_null(fits, False), self.to_point(values), values)

    def hint(self, value: str) -> str:
        """Return what may help if a value is not a number."""
        if self.decimal == "." and has_comma(pa.array([value])):
            return "; --decimal , reads numbers with a decimal comma"
        if self.decimal == "," and pc.match_substring_regex(pa.array([value.strip()]), NUMBERS)[0].as_py():
            return " with --decimal ,"
        return ""


PLAIN = Notation()


def has_comma(values: pa.Array) -> bool:
    """Return whether some values are numbers with a decimal comma, and all others numbers.

    >>> has_comma(pa.array(["1,5", "2", "0.5"])), has_comma(pa.array(["1,5", "x"])), has_comma(pa.array(["1", "2"]))
    (True, False, False)
    """
    text = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    text = text.filter(pc.invert(PLAIN.is_missing(text)))
    commas = pc.match_substring_regex(text, _COMMA_NUMBER)
    numbers = pc.match_substring_regex(text, NUMBERS)
    return bool(pc.any(commas, min_count=0).as_py() and pc.all(pc.or_(commas, numbers), min_count=0).as_py())
