"""``bspforest plot``: draw the predictions of a saved model over two of its features."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...tables.columns import MISSING, NOWHERE, OTHER, Column
from ...tables.encoder import TableEncoder
from ..errors import UsageError
from ..model.record import load_model
from ..pictures import check_picture, save_picture, use_matplotlib
from ..terminal import print_lines, printable

BOOLEANS = {"true": 1.0, "false": 0.0}


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    use_matplotlib()
    from ...plotting import SurfaceDisplay  # imports matplotlib

    check_picture(options.output, "--output")
    forest, record = load_model(options.model)
    encoder = forest._get_encoder()
    names = encoder.names
    columns = _place_columns(encoder)
    chosen = options.dims or _choose_dims(forest, columns, options.at, options.model)
    dims = _find_dims(chosen, names, columns, options.model)
    if not options.dims:
        print_lines(f"The most important columns of numbers: {', '.join(chosen)} (--dims A B shows others)")
    given = _parse_values(options.at, columns, dims, options.model)
    X = forest.held_rows().X
    values = _fix_columns(columns, given, X, dims) if len(X) else {}
    target = record.make_target()
    if target.classes is not None:
        forest.classes_ = np.array([_plain(str(label)) for label in target.classes])
    display = SurfaceDisplay.from_estimator(forest, dims=dims, values=values or None)
    if display.title:
        display.title = _describe(forest, X, dims, values, columns, given)
    display.names = [_plain(names[k]) for k in dims]
    display.kinds = _find_kinds(columns, X, dims)
    display.plot()
    save_picture(display.figure_, options.output)
    print_lines(f"Picture: {options.output}", *([display.note] if display.note else []))
    return 0


def _plain(text: str) -> str:
    """Escape what a terminal or matplotlib could interpret: two dollar signs enclose a formula."""
    return printable(text).replace("$", r"\$")


def _find_dims(given: list[str], names: list[str], columns: list[_Placed], path: Path) -> tuple[int, int]:
    for name in given:
        if name not in names:
            texts = [placed.column.name for placed in columns if placed.column.is_text]
            if name in texts:
                numbers = ", ".join(placed.column.name for placed in columns if not placed.column.is_text)
                raise UsageError(f"{name!r} is text; --dims takes columns of numbers: {numbers or 'there are none'}")
            raise UsageError(f"{path} has no feature {name!r}. Its features: {', '.join(names)}")
    if given[0] == given[1]:
        raise UsageError("--dims must name two different features")
    return names.index(given[0]), names.index(given[1])


def _choose_dims(forest: Any, columns: list[_Placed], at: list[str], path: Path) -> list[str]:
    """Return the two most important columns of numbers that are not fixed, in the order of the columns.

    Booleans have a turn only where numbers are lacking: a surface over two values is a poor picture.
    """
    fixed = {_parse_entry(entry, columns, path)[0] for entry in at}
    free = [k for k, placed in enumerate(columns) if not placed.column.is_text and k not in fixed]
    if len(free) < 2:
        known = ", ".join(columns[k].column.name for k in free) or "none"
        raise UsageError(
            f"{path} has fewer than two columns of numbers to show ({known}): name two of its features with --dims A B, as "
            "`bspforest info` lists them"
        )
    # Unknown for isotropic cuts of very many features: then the first columns are shown.
    shares = np.nan_to_num(forest.feature_importances_) if forest.n_samples_ else np.zeros(len(columns))
    best = sorted(free, key=lambda k: (columns[k].column.kind == "boolean", -shares[k]))[:2]
    return [columns[k].column.name for k in sorted(best)]


@dataclass(frozen=True)
class _Placed:
    """A column, and where its features are."""

    column: Column
    features: list[int]
    mean: float

    @property
    def indicator(self) -> bool:
        """Whether a feature marks missing numbers."""
        return self.column.gaps != NOWHERE

    @property
    def choices(self) -> list[str]:
        """The values that are not numbers: categories of text, or "(missing)"."""
        if self.column.is_text:
            return [*(MISSING if key is None else key for key in self.column.categories), OTHER]
        return [MISSING] if self.indicator else []

    def find_known(self, X: np.ndarray) -> np.ndarray:
        """Return the numbers of this column that were not missing, as a matrix of one column."""
        numbers = X[:, self.features[:1]]
        return numbers[X[:, self.column.gaps] == 0.0] if self.indicator else numbers

    def parse(self, text: str) -> str | float | None:
        """Return the category or number that the text stands for, or None if there is no such value.

        ``red=1`` stands for ``red``: the feature ``colour=red`` is 1.
        """
        for choice in self.choices:
            if text == choice:
                return choice
        if text.endswith("=1") and text[:-2] in self.choices:
            return text[:-2]
        if self.column.kind == "text":
            return None
        if self.column.kind == "boolean" and text.lower() in BOOLEANS:
            return BOOLEANS[text.lower()]
        try:
            number = float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    def fix(self, value: str | float) -> dict[int, float]:
        """Return the values of its features, by number."""
        if isinstance(value, float):
            return dict(zip(self.features, (value, 0.0), strict=False))
        if value == MISSING and self.column.kind != "text":  # as the encoder fills it
            return dict(zip(self.features, (self.mean, 1.0), strict=True))
        # Without a feature for them, all features of other categories are 0.
        return {k: float(choice == value) for k, choice in zip(self.features, self.choices, strict=False)}

    def explain(self, text: str) -> str:
        """Explain why a text is not a value of this column."""
        name = self.column.name
        if self.column.kind == "text":
            known = ", ".join(self.choices)
            return f"the column {name!r} has no category {text!r}. Known categories: {known}"
        kind = "true or false" if self.column.kind == "boolean" else "a finite number"
        return f"expected {kind}{' or ' + MISSING if self.indicator else ''} for {name!r}"


def _place_columns(encoder: TableEncoder) -> list[_Placed]:
    means = iter(encoder.sums.means.tolist())
    return [
        _Placed(column, [at for at, _ in column.list_features()], 0.0 if column.is_text else next(means))
        for column in encoder.columns
    ]


def _parse_values(
    entries: list[str], columns: list[_Placed], dims: tuple[int, int], path: Path
) -> dict[int, str | float]:
    """Return the values given by ``--at``, by the number of the column."""
    given: dict[int, str | float] = {}
    for entry in entries:
        k, value = _parse_entry(entry, columns, path)
        name = columns[k].column.name
        if k in given:
            raise UsageError(f"--at {entry}: {name!r} is given twice")
        features = columns[k].features
        fixed = features if isinstance(value, str) else features[:1]  # a category sets all features of its column
        if any(dim in fixed for dim in dims):
            raise UsageError(f"--at {entry}: {name!r} is shown by --dims, so it cannot be fixed")
        given[k] = value
    return given


def _parse_entry(entry: str, columns: list[_Placed], path: Path) -> tuple[int, str | float]:
    """Return the number of a column and its value, given as ``NAME=VALUE``. Names and values may contain "="."""
    if "=" not in entry:
        raise UsageError(f"--at {entry}: expected NAME=VALUE, where VALUE is a number or a category")
    candidates = [k for k, placed in enumerate(columns) if entry.startswith(f"{placed.column.name}=")]
    candidates.sort(key=lambda k: -len(columns[k].column.name))
    texts = [entry[len(columns[k].column.name) + 1 :] for k in candidates]
    for k, text in zip(candidates, texts, strict=True):
        value = columns[k].parse(text)
        if value is not None:
            return k, value
    if candidates:
        raise UsageError(f"--at {entry}: {columns[candidates[0]].explain(texts[0])}")
    known = ", ".join(placed.column.name for placed in columns)
    raise UsageError(f"--at {entry}: {path} has no column {entry.partition('=')[0]!r}. Its columns: {known}")


def _fix_columns(
    columns: list[_Placed], given: dict[int, str | float], X: np.ndarray, dims: tuple[int, int]
) -> dict[int, float]:
    """Return the values of features that are fixed elsewhere than at their medians, by number.

    The medians of indicators can all be 0, which no row has, so a text column is fixed at its most frequent category.
    Missing numbers have no part in a median, and a number that is shown is not missing.
    """
    from ...plotting.sections import find_medians

    values: dict[int, float] = {}
    for k, placed in enumerate(columns):
        shown = [dim for dim in dims if dim in placed.features]
        if k in given:
            fixed = placed.fix(given[k])
        elif placed.column.kind == "text" and not shown:
            counts = X[:, placed.features].sum(axis=0)
            fixed = placed.fix(placed.choices[int(counts.argmax())])
        elif placed.indicator:
            known = placed.find_known(X)
            median = find_medians(known)[0] if len(known) else placed.mean
            fixed = placed.fix(float(median))
        else:
            continue
        values |= {feature: value for feature, value in fixed.items() if feature not in dims}
    return values


def _find_kinds(columns: list[_Placed], X: np.ndarray, features: Sequence[int]) -> tuple[str, ...]:
    """Return the kinds of numbers of these features, leaving out the means that replace missing numbers."""
    from ...plotting.numerals import find_kinds

    kinds: list[str] = []
    for k in features:
        placed = next(placed for placed in columns if k in placed.features)
        kinds += find_kinds(placed.find_known(X) if k == placed.features[0] else X[:, k : k + 1])
    return tuple(kinds)


def _describe(
    forest: Any,
    X: np.ndarray,
    dims: tuple[int, int],
    values: dict[int, float],
    columns: list[_Placed],
    given: dict[int, str | float],
) -> str:
    """Describe the fixed values by column, those given first."""
    from ...plotting.numerals import format_value
    from ...plotting.sections import choose_plane, describe_fixed

    row = choose_plane(forest, X, dims, values).row
    texts = []
    for k in [*given, *(k for k in range(len(columns)) if k not in given)]:
        column, features = columns[k].column, columns[k].features
        if any(dim in features for dim in dims):
            continue
        name, kind = _plain(column.name), _find_kinds(columns, X, features[:1])[0]
        value = format_value(row[features[0]], kind)
        if column.kind == "text":
            is_other = not row[features].any()
            value = _plain(OTHER if is_other else columns[k].choices[int(row[features].argmax())])
        elif columns[k].indicator and row[features[1]] == 1.0:
            value = MISSING
        texts.append(f"{name} = {value}")
    return describe_fixed(texts)
