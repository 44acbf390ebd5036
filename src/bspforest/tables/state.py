"""The state of an encoder as JSON can hold it, for model files. What is read may be damaged or forged, and is checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from .columns import NOWHERE, Column
from .cycles import WAVES, Span
from .encoder import TableEncoder
from .reading import BOOLEAN, DATE, NUMBER, TEXT
from .sums import Sums

NUMBERS = ("max_categories", "width", "n_layouts", "seen_at_layout")
OF_COLUMN = ("name", "kind", "place", "gaps", "other", "zone")


def describe_encoder(encoder: TableEncoder) -> dict[str, Any]:
    """Return the complete state of an encoder."""
    columns = [
        {
            **{name: getattr(column, name) for name in OF_COLUMN},
            "categories": [[key, at] for key, at in column.categories.items()],
            "waves": column.waves,
        }
        for column in encoder.columns
    ]
    sums = {"counts": encoder.sums.counts.tolist(), "totals": encoder.sums.totals.tolist()}
    spans = [[k, *span] for k, span in encoder.spans.items() if span.low <= span.high]
    return {"columns": columns, "spans": spans, **sums, **{name: getattr(encoder, name) for name in NUMBERS}}


def make_encoder(state: dict[str, Any]) -> TableEncoder:
    """Return the encoder that `describe_encoder` described; raise ValueError if there cannot be such a one."""
    columns = []
    for entry in state["columns"]:
        categories = dict(entry["categories"])
        if len(categories) < len(entry["categories"]):
            raise ValueError("a category is listed twice")
        columns.append(
            Column(**{name: entry[name] for name in OF_COLUMN}, categories=categories, waves=dict(entry["waves"]))
        )
    encoder = TableEncoder(columns, state["max_categories"], state["width"])
    encoder.sums = Sums(np.array(state["counts"], dtype=np.int64), np.array(state["totals"], dtype=np.float64))
    encoder.spans = {k: Span(*span) for k, *span in state["spans"]}
    encoder.n_layouts, encoder.seen_at_layout = state["n_layouts"], state["seen_at_layout"]
    _check(encoder)
    return encoder


def _check(encoder: TableEncoder) -> None:
    """Raise ValueError if the state makes no sense."""
    if not encoder.columns:
        raise ValueError("there are no columns")
    places = []
    for column in encoder.columns:
        if column.kind not in (NUMBER, BOOLEAN, DATE, TEXT) or not isinstance(column.name, str):
            raise ValueError("a column has no name, or none of the known kinds")
        if not all(key is None or isinstance(key, str) for key in column.categories):
            raise ValueError("a category is not text")
        if not _fits_kind(column):
            raise ValueError("a column has features that are not of its kind")
        places += [at for at, _ in column.list_features()]
    numbers = [getattr(encoder, name) for name in NUMBERS]
    whole = all(type(number) is int for number in [*places, *numbers])
    if not whole or len(set(places)) < len(places) or any(not 0 <= at < encoder.width for at in places):
        raise ValueError("two features have the same place, or one has none")
    for k, span in encoder.spans.items():
        if type(k) is not int or not 0 <= k < len(encoder.columns) or not encoder.columns[k].is_date:
            raise ValueError("there is a range of dates for a column that holds none")
        if any(type(day) is not float for day in span[:2]) or not -np.inf < span.low <= span.high < np.inf:
            raise ValueError("a range of dates is impossible")
    counts, totals = encoder.sums.counts, encoder.sums.totals
    if counts.shape != totals.shape or counts.shape != (len(encoder.number_columns),):
        raise ValueError("there are not as many sums as columns of numbers")
    if (counts < 0).any() or not np.isfinite(totals).all() or encoder.max_categories < 1:
        raise ValueError("a count or a sum is impossible")


def _fits_kind(column: Column) -> bool:
    """Return whether a column has only features of its kind."""
    if column.is_text:
        return column.place == column.gaps == NOWHERE and not column.waves
    cycles = {wave.partition(",")[0] for wave in column.waves}
    are_pairs = column.waves.keys() == {wave for wave in WAVES if wave.partition(",")[0] in cycles}
    is_date = column.is_date and are_pairs and isinstance(column.zone, str | None)
    is_number = column.place != NOWHERE and column.other == NOWHERE and not column.categories
    return is_number and (is_date or not (column.is_date or column.waves or column.zone))
