"""The column to predict: its task, and its values as labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import CommandError, UsageError
from ..formatting import format_count
from .arrow import pa, pc
from .column_kinds import BOOLEAN, DATE, INTEGER, NUMBER, TEXT, TYPES, convert

MAX_CLASSES = 1_000
FEW = 20  # up to this many different whole numbers in the first rows are taken for classes


@dataclass
class Target:
    """Name, kind and task of the target, and for classification its classes.

    Labels are encoded as codes: those of the first classes are their places among these, sorted, and those of classes that come
    later follow in order of appearance. So codes never change, and neither do checksums of rows learned.

    Parameters
    ----------
    name, kind, task : str
    classes : list or None
        All classes that were learned, sorted.
    added : list
        Those among them that came later, in order of appearance.
    is_closed : bool
        Whether the user has named all classes, so that others are malformed.
    """

    name: str
    kind: str
    task: str
    classes: list[Any] | None = None
    added: list[Any] = field(default_factory=list)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self._ahead: list[Any] = []  # classes of rows that were read, but not learned yet

    def to_json(self) -> dict[str, Any]:
        """Return the complete state, for JSON."""
        state = {"name": self.name, "kind": self.kind, "task": self.task, "classes": self.classes and [*self.classes]}
        return (
            state | ({"added": [*self.added]} if self.added else {}) | ({"is_closed": True} if self.is_closed else {})
        )

    @property
    def by_code(self) -> list[Any]:
        """Return the classes in the order of their codes, with those of rows that were read ahead."""
        later = set(self.added)
        return [*(value for value in self.classes or () if value not in later), *self.added, *self._ahead]

    @property
    def names(self) -> np.ndarray:
        """Return the classes as an array."""
        return np.array(self.classes)

    @property
    def has_fractions(self) -> bool:
        """Return whether some class is not a whole number. scikit-learn takes such labels for those of a regression."""
        return self.kind == NUMBER and any(value % 1 for value in self.classes or ())

    @property
    def labels(self) -> np.ndarray:
        """Return the labels in the saved forest: the classes themselves, or their indices."""
        return np.arange(len(self.names)) if self.has_fractions else self.names

    def encode(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
        """Return numbers or indices of classes, and a mask of rows without a usable label (None: there are none)."""
        if self.task == "regression":
            numbers = pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)
            bad = ~np.isfinite(numbers)
            return numbers, bad if bad.any() else None
        found = self._find(values)
        if found.null_count and not self.is_closed:
            self._read_ahead(values.filter(pc.is_null(found)))
            found = self._find(values)
        codes = pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
        bad = pc.is_null(found).to_numpy(zero_copy_only=False)
        return codes, bad if bad.any() else None

    def _find(self, values: pa.Array) -> pa.Array:
        """Return the codes of values, null for those without."""
        return pc.index_in(values, value_set=pa.array(self.by_code, TYPES[self.kind]), skip_nulls=True)

    def _read_ahead(self, values: pa.Array) -> None:
        """Give values that are new classes the next codes."""
        if pa.types.is_floating(values.type):
            values = values.filter(pc.is_finite(values))
        self._ahead += [value for value in pc.drop_null(pc.unique(values)).to_pylist() if value != ""]
        check_classes(self.name, len(self.by_code))

    def add_classes(self, codes: np.ndarray) -> list[Any]:
        """Count the classes of rows that are about to be learned as known, and return those that are new."""
        n_new = max(0, int(codes.max(initial=0)) + 1 - len(self.classes or ()))
        new, self._ahead = self._ahead[:n_new], self._ahead[n_new:]
        if new:
            self.added = [*self.added, *new]
            self.classes = sorted([*(self.classes or ()), *new])
        return new

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the labels in the saved forest of classes that are known."""
        return self.labels[self.find_places(len(self.names))[codes]]

    def find_places(self, n: int) -> np.ndarray:
        """Return the places of the first n classes, by code, among all that are known."""
        return np.searchsorted(self.names, np.array(self.by_code[:n]))

    @staticmethod
    def is_empty(value: Any) -> bool:
        """Return whether a value stands for no label."""
        return value is None or value != value or value == ""

    def explain(self, value: Any) -> str:
        """Explain why a value is not a usable label."""
        if self.is_empty(value):
            return f"no value in the target {self.name!r}"
        if isinstance(value, float) and math.isinf(value):
            return f"{value!r} in the target {self.name!r} is not finite"
        return (
            f"a new class, {value!r}, in the target {self.name!r}, which is not among --classes: {self.list_classes()}"
        )

    def list_classes(self, most: int = 8) -> str:
        """Return the first classes as text."""
        classes = self.classes or []
        return ", ".join(map(str, classes[:most])) + (", ..." if len(classes) > most else "")


def make_target(name: str, kind: str, first: pa.Array, task: str | None) -> tuple[Target, str]:
    """Return the target, still without its classes, and the reason for its task."""
    if kind == DATE:
        raise CommandError(f"the target {name!r} holds dates or times, expected numbers, booleans or text")
    if kind in (TEXT, BOOLEAN):
        if task == "regression":
            raise UsageError(f"--task regression needs a target of numbers, but {name!r} holds {kind}")
        return Target(name, kind, "classification"), f"{name!r} holds {'text' if kind == TEXT else 'booleans'}"
    values = convert(first, kind)[0]
    distinct = len(pc.drop_null(pc.unique(values)))
    if kind == NUMBER:
        if task == "classification":
            return Target(name, kind, "classification"), "as given"
        return Target(name, kind, "regression"), "as given" if task else f"{name!r} holds numbers"
    why = f"{name!r} holds {format_count(distinct, 'different whole number')}"
    chosen = task or ("classification" if distinct <= FEW else "regression")
    return Target(name, INTEGER if chosen == "classification" else NUMBER, chosen), "as given" if task else why


def check_classes(name: str, n: int) -> None:
    """Refuse a target with too many classes."""
    if n > MAX_CLASSES:
        raise CommandError(
            f"the target {name!r} has more than {MAX_CLASSES:,} different values; for numbers, use --task regression"
        )


def parse_classes(target: Target, given: str) -> list[Any]:
    """Return the classes given by ``--classes``."""
    values, bad = convert(pa.array([value.strip() for value in given.split(",")]), target.kind)
    if (bad is not None and pc.any(bad).as_py()) or values.null_count:
        raise UsageError(
            f"--classes {given}: the target {target.name!r} holds {'text' if target.kind == TEXT else target.kind + 's'}"
        )
    return sort_classes(values)


def sort_classes(values: pa.Array) -> list[Any]:
    """Return the distinct values in NumPy's order, without missing values and infinite numbers."""
    if pa.types.is_floating(values.type):
        values = values.filter(pc.is_finite(values))
    found = [value for value in pc.drop_null(pc.unique(values)).to_pylist() if value != ""]
    return np.unique(np.array(found)).tolist() if found else []
