"""How the estimators learn from and forget rows of tables: the forest changes with the features of its encoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._validation import FOREST_CONSTRAINTS
from ..engine.config import ForestConfig, make_scaling
from ..engine.conversion import convert_forest, share_weights
from ..engine.forest import OnlineForest
from ..engine.interrupts import Interrupts
from ..tables.encoder import TableEncoder
from ..tables.reading import Table
from ..values.importances import find_importances
from .inputs import begin_encoding, get_names, read_input


class Reading(NamedTuple):
    """Rows to be learned, and the encoder before and after it has learned them; None if there is nothing to encode."""

    rows: np.ndarray
    before: TableEncoder | None = None
    encoder: TableEncoder | None = None


class EncodedRows(NamedTuple):
    """Rows as the forest holds them, to be predicted: in features that were encoded, as pictures need."""

    rows: np.ndarray


class EncodesTables(BaseEstimator):
    """An estimator whose forest holds the rows of tables as an encoder makes them."""

    _forest: OnlineForest
    n_features_in_: int
    max_categories: int
    scaling: Any

    # How columns with gaps and categories become features; None for numbers without gaps.
    _encoder: TableEncoder | None = None

    def _make_config(self, n_classes: int, n_outputs: int = 1) -> ForestConfig:
        """Return what a forest is made with. The number of features is known."""
        return self._make_config_for(self._encoder, n_classes, n_outputs)

    def _make_config_for(self, encoder: TableEncoder | None, n_classes: int, n_outputs: int) -> ForestConfig:
        """Return what a forest is made with whose rows come from an encoder."""
        parameters = {name: getattr(self, name) for name in FOREST_CONSTRAINTS}
        n_features = self.n_features_in_
        if encoder is not None:
            n_features = encoder.width
            if isinstance(self.scaling, tuple | list):
                parameters["scaling"] = _spread_scaling(make_scaling(self.scaling, self.n_features_in_), encoder)
        return ForestConfig.from_parameters(n_features, n_classes, n_outputs=n_outputs, **parameters)

    # ------------------------------------------------------------------------------------------------------------------
    # Rows

    def _read_first(self, X: Any, min_rows: int) -> np.ndarray:
        """Return the first rows as the forest will hold them, and begin to encode, if there is anything to encode."""
        given = read_input(self, X, reset=True, min_rows=min_rows)
        self._encoder = None
        if isinstance(given, Table):
            self._encoder, given = begin_encoding(self, given)
        return given

    def _read_more(self, X: Any) -> Reading:
        """Return further rows as the forest will hold them, with the encoder once it has learned them."""
        given = read_input(self, X, reset=False, min_rows=0)
        if isinstance(given, np.ndarray):
            return Reading(given)
        before = self._get_encoder()
        encoder, rows = before.learn(given, self._forest.n_seen, self._forest.n_held)
        return Reading(rows) if self._encoder is None and encoder.is_plain else Reading(rows, before, encoder)

    def _encode(self, X: Any) -> np.ndarray:
        """Return rows to be predicted as the forest holds them."""
        if isinstance(X, EncodedRows):
            return X.rows
        given = read_input(self, X, reset=False)
        return given if isinstance(given, np.ndarray) else self._get_encoder().transform(given)

    def _get_encoder(self) -> TableEncoder:
        """Return the encoder; where there was nothing to encode so far, one that has learned the rows held."""
        if self._encoder is not None:
            return self._encoder
        plain = TableEncoder.of_numbers(get_names(self), self.max_categories)
        return plain.recount(self._forest.held_rows())[0]

    # ------------------------------------------------------------------------------------------------------------------
    # Features of the forest

    def _adapt_forest(self, reading: Reading, interrupts: Interrupts) -> OnlineForest:
        """Return the forest for rows that were read: a new one if the rows held have other features now."""
        forest, (_, before, encoder) = self._forest, reading
        if before is None or encoder is None:
            return forest
        if encoder.must_convert(before):
            X = encoder.convert(forest.held_rows(), before)
            return self._convert(before, encoder, forest.rows.held_ids(), X, interrupts)
        if encoder.columns is not before.columns:  # features that were reserved are in use now
            share_weights(forest, encoder.find_sources(before), encoder.describe_layout().groups)
        return forest

    def _convert(
        self,
        before: TableEncoder,
        encoder: TableEncoder,
        ids: np.ndarray,
        X: np.ndarray,
        interrupts: Interrupts,
        *,
        exactly: bool = False,
    ) -> OnlineForest:
        """Return the forest with some of its rows, X, as another encoder has encoded them."""
        forest = self._forest
        config = self._make_config_for(encoder, forest.trees.n_classes, forest.config.n_outputs)
        sources, groups = encoder.find_sources(before), encoder.describe_layout().groups
        return convert_forest(forest, config, ids, X, sources, groups, interrupts, exactly=exactly)

    def _forget_rows(self, ids: np.ndarray, interrupts: Interrupts) -> None:
        """Forget rows, and what they have taught the encoder."""
        forest, before = self._forest, self._encoder
        if before is None or not len(ids):
            forest.forget(ids, interrupts)
            return
        held = forest.rows.held_ids()
        is_kept = ~np.isin(held, ids)
        rows = forest.held_rows()[is_kept]
        encoder, X = before.recount(rows)
        if encoder.width == before.width and np.array_equal(X, rows):
            forest.forget(ids, interrupts)
        else:
            self._forest = self._convert(before, encoder, held[is_kept], X, interrupts, exactly=True)
        self._encoder = encoder

    def _collect_weights(self) -> np.ndarray:
        """Return the weight of each column; 1 for one that has no feature yet."""
        weights = self._forest.trees.coordinates.weights
        if self._encoder is None:
            return weights.copy()
        places = [column.list_features() for column in self._encoder.columns]
        return np.array([weights[features[0][0]] if features else 1.0 for features in places])

    def _sum_importances(self) -> np.ndarray:
        """Return the importance of each column."""
        shares = find_importances(self._forest)
        if self._encoder is None:
            return shares
        column_of = self._encoder.describe_layout().column_of
        used = column_of >= 0
        return np.bincount(column_of[used], shares[used], self.n_features_in_)


def _spread_scaling(scaling: Any, encoder: TableEncoder) -> tuple[np.ndarray, np.ndarray]:
    """Return a given range of columns as one of features; those of gaps and categories are 0 and 1."""
    low, high = np.zeros(encoder.width), np.ones(encoder.width)
    for k, column in enumerate(encoder.columns):
        if not column.is_text:
            low[column.place], high[column.place] = scaling[0][k], scaling[1][k]
    return low, high
