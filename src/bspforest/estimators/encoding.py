"""How the estimators learn from and forget rows of tables: the forest changes with the features of its encoder."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._validation import FOREST_CONSTRAINTS
from ..forest.advice import TuningWarning, find_advice
from ..forest.config import ForestConfig, make_scaling, make_weights
from ..forest.conversion import convert_forest, share_weights
from ..forest.feature_weights import find_importances
from ..forest.forest import OnlineForest
from ..sizes import make_config
from ..tables.encoder import TableEncoder
from ..tables.reading import Table
from ..tables.suspects import find_level
from .inputs import begin_encoding, get_names, read_input


class Reading(NamedTuple):
    """Rows to be learned, and the encoder before and after it has learned them; None if there is nothing to encode."""

    rows: np.ndarray
    before: TableEncoder | None = None
    encoder: TableEncoder | None = None


class EncodedRows(NamedTuple):
    """Rows as the forest holds them, to be predicted: in features that were encoded, as pictures need."""

    rows: np.ndarray


class HoldsEncodedRows:
    """What models of all interfaces share: a forest that holds rows as an encoder makes them, and changes with its features."""

    _forest: Any
    scaling: Any

    # How columns with missing values and categories become features; None for numbers only.
    _encoder: TableEncoder | None = None

    # The latest revision that was looked at for advice, and whether any was given.
    _judged: Any = None
    _advised = False

    def _advise(self) -> None:
        """Issue a `TuningWarning`, once, if the forest has decided something that the user should know."""
        revisions = self._forest.prediction.revisions
        if self._advised or not revisions or revisions[-1] is self._judged:
            return
        self._judged = revisions[-1]
        advice = find_advice(revisions[-1])
        if advice is not None:
            self._advised = True
            warnings.warn(f"{type(self).__name__}: {advice}", TuningWarning, stacklevel=find_level())

    def _make_config_for(self, encoder: TableEncoder, n_classes: int, n_outputs: int) -> ForestConfig:
        """Return what a forest is made with whose rows come from an encoder."""
        parameters = {name: getattr(self, name) for name in FOREST_CONSTRAINTS}
        n_columns = len(encoder.columns)
        if isinstance(self.scaling, tuple | list):
            parameters["scaling"] = _spread_scaling(make_scaling(self.scaling, n_columns), encoder)
        weights = make_weights(parameters["feature_weights"], n_columns)
        if isinstance(weights, np.ndarray):
            parameters["feature_weights"] = _spread_weights(weights, encoder)
        return make_config(encoder.width, n_classes, parameters, n_outputs)

    def _adapt_forest(self, reading: Reading) -> OnlineForest:
        """Return the forest for rows that were read: a new one if the rows held have other features now."""
        forest, (_, before, encoder) = self._forest, reading
        if before is None or encoder is None or self._encoder is encoder:  # the last: a call that is repeated
            return forest
        if encoder.must_convert(before):
            X = encoder.convert(forest.held_rows(), before)
            return self._convert(before, encoder, forest.rows.held_ids(), X)
        if encoder.columns is not before.columns:  # features that were reserved are in use now
            share_weights(forest, encoder.find_sources(before), encoder.describe_layout().groups)
        return forest

    def _convert(
        self,
        before: TableEncoder,
        encoder: TableEncoder,
        ids: np.ndarray,
        X: np.ndarray,
        *,
        strict: bool = False,
    ) -> OnlineForest:
        """Return the forest with some of its rows, X, as another encoder has encoded them."""
        sources, groups = encoder.find_sources(before), encoder.describe_layout().groups
        return convert_forest(self._forest, ids, X, sources, groups, strict=strict)

    def _forget_rows(self, ids: np.ndarray, *, strict: bool) -> None:
        """Forget rows, and what they have taught the encoder."""
        forest, before = self._forest, self._encoder
        if before is None or not len(ids):
            forest.forget(ids, strict=strict)
            return
        held = forest.rows.held_ids()
        is_kept = ~np.isin(held, ids)
        rows = forest.held_rows()[is_kept]
        encoder, X = before.recount(rows)
        if encoder.width == before.width and np.array_equal(X, rows):
            forest.forget(ids, strict=strict)
        else:
            self._forest, self._encoder = self._convert(before, encoder, held[is_kept], X, strict=strict), encoder
            return
        self._encoder = encoder

    def _collect_weights(self) -> np.ndarray:
        """Return the weight of each column, of dates the largest; 1 for one that has no feature yet."""
        weights = self._forest.trees.coordinates.weights
        if self._encoder is None:
            return weights.copy()
        found = []
        for column in self._encoder.columns:
            places = [at for at, _ in column.list_features()]
            found.append(weights[places if column.is_date else places[:1]].max(initial=0.0) if places else 1.0)
        return np.array(found)

    def _sum_importances(self) -> np.ndarray:
        """Return the importance of each column."""
        shares = find_importances(self._forest)
        if self._encoder is None:
            return shares
        column_of = self._encoder.describe_layout().column_of
        used = column_of >= 0
        return np.bincount(column_of[used], shares[used], len(self._encoder.columns))


class EncodesTables(HoldsEncodedRows, BaseEstimator):
    """An estimator that reads tables."""

    _forest: OnlineForest
    n_features_in_: int
    max_categories: int

    def _make_config(self, n_classes: int, n_outputs: int = 1) -> ForestConfig:
        """Return what a forest is made with. The number of features is known."""
        if self._encoder is not None:
            return self._make_config_for(self._encoder, n_classes, n_outputs)
        parameters = {name: getattr(self, name) for name in FOREST_CONSTRAINTS}
        return make_config(self.n_features_in_, n_classes, parameters, n_outputs)

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


def _spread_scaling(scaling: Any, encoder: TableEncoder) -> tuple[np.ndarray, np.ndarray]:
    """Return a given range of columns as one of features; those of gaps and categories are 0 and 1."""
    low, high = np.zeros(encoder.width), np.ones(encoder.width)
    for k, column in enumerate(encoder.columns):
        if not column.is_text:
            low[column.place], high[column.place] = scaling[0][k], scaling[1][k]
    return low, high


def _spread_weights(weights: np.ndarray, encoder: TableEncoder) -> np.ndarray:
    """Return given weights of columns as those of their features."""
    column_of = encoder.describe_layout().column_of
    return np.where(column_of >= 0, weights[column_of], 1.0)
