"""A model in plain Python of the rows that a forest must store, for tests that call it in any order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

OTHER = "(other)"


class Row(NamedTuple):
    """A row as it was given. ``values`` has NaN or None where one is missing."""

    values: tuple
    label: Any
    weight: float
    key: str | int | None


def is_missing(value: Any) -> bool:
    """Return whether a value is missing."""
    return value is None or (isinstance(value, float) and math.isnan(value))


class RowModel:
    """The rows that a forest stores, and the numbers that replace missing ones.

    Parameters
    ----------
    columns : dict of str to bool
        The names of the columns, and whether they hold text.
    window : int or None

    Attributes
    ----------
    rows : dict of int to Row
        By id, oldest first.
    numbers : dict of int to list
        By id: what stands in each column of numbers.
    categories : dict of str to set
        The categories of each column of text that have come, missing values included.
    n_seen : int
    """

    def __init__(self, columns: dict[str, bool], window: int | None = None) -> None:
        self.columns, self.window = columns, window
        self.rows: dict[int, Row] = {}
        self.numbers: dict[int, list] = {}
        self.n_seen = 0
        self.is_encoded = any(columns.values())
        self._forget_columns()

    def _forget_columns(self) -> None:
        self.categories: dict[str, set] = {name: set() for name, is_text in self.columns.items() if is_text}
        self._known: list[list[float]] = [[] for _ in self.columns]  # numbers whose means fill missing ones

    def learn(self, rows: Sequence[Row]) -> None:
        """Store rows; those that do not fit the window leave."""
        if not self.is_encoded and any(is_missing(value) for row in rows for value in row.values):
            self.is_encoded = True  # until now, nobody has counted numbers
            self._recount()
        first = self.n_seen
        self.n_seen += len(rows)
        self.rows.update(zip(range(first, self.n_seen), rows, strict=True))
        self._fill(range(first, self.n_seen))
        for id_ in list(self.rows)[: -self.window] if self.window else []:
            del self.rows[id_], self.numbers[id_]

    def forget(self, ids: Sequence[int]) -> None:
        """Forget rows, and what they have taught about columns."""
        for id_ in ids:
            del self.rows[id_], self.numbers[id_]
        if len(ids):
            self._recount()

    def _recount(self) -> None:
        """Fill missing numbers as if the rows stored were all that ever came."""
        self._forget_columns()
        self._fill(list(self.rows))

    def _fill(self, ids: Sequence[int]) -> None:
        """Fill missing numbers of rows that come in one chunk: by the mean of those before, or else by the first."""
        for id_ in ids:
            self.numbers[id_] = list(self.rows[id_].values)
        for k, (name, is_text) in enumerate(self.columns.items()):
            if is_text:
                self.categories[name] |= {self.rows[id_].values[k] for id_ in ids}
                continue
            known = self._known[k]
            had_none = not known
            early = [id_ for id_ in self.numbers if had_none and id_ not in ids]
            for id_ in ids:
                value = self.rows[id_].values[k]
                if not is_missing(value):
                    known.append(value)
                elif known:
                    self.numbers[id_][k] = math.fsum(known) / len(known)
                else:
                    early.append(id_)
            for id_ in early:
                self.numbers[id_][k] = known[0] if known else 0.0

    def find_ids(self, key: str | int) -> list[int]:
        """Return the rows stored that have a key."""
        return [id_ for id_, row in self.rows.items() if row.key is not None and str(row.key) == str(key)]

    # ------------------------------------------------------------------------------------------------------------------
    # Comparing

    def check(self, forest: Any, *, hash_keys: bool, max_categories: int) -> None:
        """Check that a forest stores these rows. Nothing but rows is read."""
        held, rows = forest.held_rows(), list(self.rows.values())
        assert forest.n_samples_seen_ == self.n_seen and forest.n_samples_ == len(rows)
        assert held.ids.tolist() == list(self.rows)
        assert held.y.tolist() == [row.label for row in rows]
        assert held.sample_weight.tolist() == [row.weight for row in rows]
        self._check_keys(forest.held_keys(), hash_keys)
        names = forest.encoded_feature_names_
        assert held.X.shape == (len(rows), len(names))
        for x, id_ in zip(held.X.tolist(), self.rows, strict=True):
            self._check_row(dict(zip(names, x, strict=True)), id_)
        self._check_categories(names, max_categories)

    def _check_keys(self, keys: list, hashed: bool) -> None:
        expected = [None if row.key is None else str(row.key) for row in self.rows.values()]
        if not hashed:
            assert keys == expected
            return
        pairs = set(zip(keys, expected, strict=True))
        assert len(pairs) == len(set(keys)) == len(set(expected)), "the same key has the same hash"
        assert all((hash_ is None) == (key is None) and (key is None or hash_ != key) for hash_, key in pairs)

    def _check_row(self, found: dict[str, float], id_: int) -> None:
        """Check one row, given by names of features. Reserved features have the name "" and are 0."""
        assert not found.pop("", 0.0)
        for k, (name, is_text) in enumerate(self.columns.items()):
            value = self.rows[id_].values[k]
            if is_text:
                own, other = (f"{name}={'(missing)' if value is None else value}", f"{name}={OTHER}")
                assert found.pop(own, 0.0) + found.pop(other, 0.0) == 1.0, "a row is in one category"
            elif is_missing(value):
                assert found.pop(f"{name}=(missing)") == 1.0
                np.testing.assert_allclose(found.pop(name), self.numbers[id_][k], rtol=1e-12, atol=1e-12)
            else:
                assert found.pop(f"{name}=(missing)", 0.0) == 0.0
                assert found.pop(name) == value
        assert not any(found.values()), "a row has a feature of another category"

    def _check_categories(self, names: list[str], most: int) -> None:
        """Check that there are features for the categories that have come, and no traces of those forgotten."""
        for name, seen in self.categories.items():
            expected = {f"{name}={'(missing)' if key is None else key}" for key in seen}
            found = {given for given in names if given.startswith(f"{name}=")} - {f"{name}={OTHER}"}
            assert found == expected if len(expected) < most else found <= expected and len(found) <= most
