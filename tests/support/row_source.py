"""Rows at random for `row_model`: ties, weights of 0, missing values, new categories, keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from row_model import Row


class RowSource:
    """Makes rows with some columns of numbers, and one of text. The same seed gives the same rows.

    Parameters
    ----------
    n_numbers : int
    has_text, has_gaps : bool
    n_outputs : int
        Of regression.
    classes : str
        The labels of classes, a letter each; empty for regression.
    """

    def __init__(self, n_numbers: int, *, has_text: bool, has_gaps: bool, n_outputs: int, classes: str) -> None:
        self.columns = {f"x{k}": False for k in range(n_numbers)} | ({"kind": True} if has_text else {})
        self.is_frame, self.has_gaps = has_text, has_gaps
        self.n_outputs, self.classes = n_outputs, classes

    def make_rows(self, n: int, seed: int) -> list[Row]:
        """Return rows; at least the first has some weight."""
        rng = np.random.default_rng(seed)
        stretch = float(rng.choice([1.0, 1.0, 3.0]))  # beyond the range of the rows before
        gap_share = 0.3 if self.has_gaps and rng.random() < 0.5 else 0.0
        categories = list("uvw" if rng.random() < 0.6 else "uvwxyz")
        weighted, keyed = rng.random() < 0.5, rng.random() < 0.7
        rows = []
        for k in range(n):
            values: list[Any] = []
            for is_text in self.columns.values():
                number = round(float(rng.random()), int(rng.choice([1, 6]))) * stretch
                value, missing = (str(rng.choice(categories)), None) if is_text else (number, math.nan)
                values.append(missing if rng.random() < gap_share else value)
            weight = float(rng.choice([0.0, 0.5, 3.0])) if weighted and k else 1.0
            key = [None, f"k{rng.integers(6)}", int(rng.integers(6))][rng.integers(3)] if keyed else None
            rows.append(Row(tuple(values), self._make_label(rng, values[0]), weight, key))
        return rows

    def _make_label(self, rng: np.random.Generator, first: float) -> Any:
        if self.classes:
            return str(rng.choice(list(self.classes)))
        one = round((2.0 if math.isnan(first) else math.sin(5 * first)) + 0.1 * rng.normal(), 3)
        return one if self.n_outputs == 1 else [one, -7.0 * round(float(rng.random()), 2)]

    def make_first(self, n: int, seed: int) -> list[Row]:
        """Return the first rows of a forest: the first has text, which tells the type of its column."""
        first, *rest = self.make_rows(n, seed)
        values = ["u" if is_text else value for is_text, value in zip(self.columns.values(), first.values, strict=True)]
        return [first._replace(values=tuple(values)), *rest]

    def make_filler(self, k: int) -> Row:
        """Return the kth of rows that are to be forgotten, unlike all others."""
        values = tuple("other" if is_text else -50.0 for is_text in self.columns.values())
        label = self.classes[k % len(self.classes)] if self.classes else 99.0
        return Row(values, label if self.n_outputs == 1 else [label] * self.n_outputs, 2.0, None)

    def make_X(self, rows: list[Row]) -> Any:
        """Return rows as they are given to a forest."""
        if not self.is_frame:
            return np.array([row.values for row in rows], float).reshape(len(rows), len(self.columns))
        columns = [[row.values[k] for row in rows] for k in range(len(self.columns))]
        pairs = zip(self.columns.items(), columns, strict=True)
        return pd.DataFrame({name: pd.Series(given, dtype=object if text else float) for (name, text), given in pairs})

    def make_arguments(self, rows: list[Row]) -> dict[str, Any]:
        """Return the arguments of `fit` and `partial_fit` for rows."""
        labels = [row.label for row in rows]
        y = np.array(labels) if rows else np.empty((0, 2)[: self.n_outputs], "U1" if self.classes else float)
        arguments = {"X": self.make_X(rows), "y": y, "sample_weight": np.array([row.weight for row in rows], float)}
        keys = [row.key for row in rows]
        return {**arguments, "keys": keys} if any(key is not None for key in keys) else arguments
