"""A column of a table, and the features that it has become."""

from __future__ import annotations

from dataclasses import dataclass, field

from .reading import TEXT

NOWHERE = -1
MISSING, OTHER = "(missing)", "(other)"


@dataclass
class Column:
    """What is known of one column. Places are numbers of features, `NOWHERE` if there is no such feature.

    Parameters
    ----------
    name : str
        What it is called.
    kind : str
        ``"number"``, ``"boolean"`` or ``"text"``.
    place : int
        The feature of the numbers.
    gaps : int
        The feature that marks gaps.
    categories : dict of str or None to int
        The feature of each category, in order of appearance; None is the missing value.
    other : int
        The feature of all other categories.
    """

    name: str
    kind: str
    place: int = NOWHERE
    gaps: int = NOWHERE
    categories: dict[str | None, int] = field(default_factory=dict)
    other: int = NOWHERE

    @property
    def is_text(self) -> bool:
        return self.kind == TEXT

    def list_features(self) -> list[tuple[int, str]]:
        """Return place and name of each feature, in canonical order."""
        if not self.is_text:
            named = [(self.place, self.name), (self.gaps, f"{self.name}={MISSING}")]
        else:
            named = [(at, f"{self.name}={MISSING if key is None else key}") for key, at in self.categories.items()]
            named.append((self.other, f"{self.name}={OTHER}"))
        return [(at, name) for at, name in named if at != NOWHERE]
