"""What the classifier and the regressor share in river's conventions: dicts in, one row at a time or a DataFrame at once."""

from __future__ import annotations

import gc
import random
import sys
import types
from collections.abc import Callable, Hashable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from .._sklearn_compat import Interval, validate_parameter_constraints
from .._validation import FOREST_CONSTRAINTS, JOINT_CONSTRAINTS, find_ids_of_keys
from ..estimators.encoding import HoldsEncodedRows, Reading
from ..forest.config import ForestConfig
from ..forest.forest import OnlineForest
from ..forest.keys import KeyTable
from ..forest.locking import ReadWriteLock, lock_of
from ..forest.prediction import make_prediction
from ..progress import SILENT
from ..sizes import make_config
from ..tables.columns import Column
from ..tables.encoder import TableEncoder
from ..tables.reading import DATE, NUMBER, TEXT, Table
from ..tables.reserve import count_reserved
from .rows import (
    Columns,
    check_frame,
    check_weight,
    find_kind,
    pad_columns,
    read_frame,
    read_row,
    tabulate_frame,
    tabulate_row,
    widen,
)

try:
    from river import base
except ImportError as error:
    raise ImportError("bspforest.river needs river: pip install 'bspforest[river]'") from error

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


MAX_CATEGORIES = [Interval(Integral, 1, None, closed="left")]


def join_keys(before: OnlineForest, keys: np.ndarray | None) -> np.ndarray | None:
    """Return the keys of the rows held, and then these; None if no row has one."""
    held = before.keys.encode(before.keys.get(before.rows.held_ids()))
    if keys is None and not (held != b"").any():
        return None
    return held if keys is None else np.concatenate([held, keys])


class RiverForest(HoldsEncodedRows, base.Estimator):
    """What the classifier and the regressor share."""

    def __init__(
        self,
        n_estimators: int,
        cuts: str,
        budget: str | float | Callable[[int], float],
        budget_scale: float,
        min_samples_split: int | str,
        scaling: str | tuple[float, float] | None,
        window: int | str | None,
        prediction: str,
        feature_weights: Any,
        bandwidth: float | str,
        ridge: float | str,
        half_life: float | str | None,
        max_categories: int,
        seed: int | None,
    ) -> None:
        self.n_estimators = n_estimators
        self.cuts = cuts
        self.budget = budget
        self.budget_scale = budget_scale
        self.min_samples_split = min_samples_split
        self.scaling = scaling
        self.window = window
        self.prediction = prediction
        self.feature_weights = feature_weights
        self.bandwidth = bandwidth
        self.ridge = ridge
        self.half_life = half_life
        self.max_categories = max_categories
        self.seed = seed
        constraints = {**FOREST_CONSTRAINTS, **JOINT_CONSTRAINTS, "max_categories": MAX_CATEGORIES}
        validate_parameter_constraints(
            constraints, {name: getattr(self, name) for name in constraints}, type(self).__name__
        )
        self._make_config(1, 0)  # raises if parameters contradict each other
        self._rng = random.Random(seed if seed is None else int(seed))
        self._forest: OnlineForest | None = None
        self._columns: Columns = {}
        self._labels: dict[Hashable, int] = {}
        self._seen_at_rebuild = self._n_rebuilds = 0

    def _make_config(self, n_features: int, n_classes: int) -> ForestConfig:
        parameters = {name: getattr(self, name) for name in FOREST_CONSTRAINTS}
        # Rows without any feature are all in one place.
        return make_config(max(n_features, 1), n_classes, parameters)

    def _make_forest(self, config: ForestConfig) -> OnlineForest:
        state = check_random_state(self._rng.getrandbits(32))
        seed = state.randint(0, 2**32, size=4, dtype=np.uint32)
        prediction = make_prediction(self.prediction, self.bandwidth, self.ridge, self.half_life, int(seed[0]))
        return OnlineForest(config, np.random.SeedSequence(seed.tolist()), prediction)

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def _columns_of(self, x: Mapping) -> Columns:
        """Return the columns of all keys known and of those of ``x``."""
        try:
            return self._columns if x.keys() <= self._columns.keys() else widen(self._columns, x)
        except (AttributeError, TypeError):
            raise TypeError(f"x must be a dict of features, got {type(x).__name__}") from None

    def _learn(
        self, columns: Columns, X: np.ndarray, y: np.ndarray, w: np.ndarray, known: dict, keys: np.ndarray | None
    ) -> None:
        """Learn rows in these columns, which may be more than before, as may the labels known."""
        before = self._forest
        rebuild = before is None or len(columns) > before.config.n_features or self._is_settled(before)
        if before is None or rebuild:
            if before is not None:
                X, y, w = self._with_held_rows(before, X, y, w)
                keys = join_keys(before, keys)
            forest = self._make_forest(self._make_config(len(columns) + self._spare_columns(len(columns)), len(known)))
        else:
            forest = before
        rows = pad_columns(X, forest.config.n_features)

        with lock_of(self).readers_out():
            if len(known) > forest.config.n_classes:
                forest.add_classes(len(known) - forest.config.n_classes)
            if not rebuild:
                self._columns, self._labels = columns, known
            forest.learn(rows, y, w, SILENT, keys=keys)
            if rebuild:  # until now, the forest before is in use
                n_seen, n_rebuilds = forest.n_seen, self._n_rebuilds + 1
                self._forest, self._columns, self._labels = forest, columns, known
                self._seen_at_rebuild, self._n_rebuilds = n_seen, n_rebuilds

    def _learn_table(
        self, columns: Columns, table: Table, y: np.ndarray, w: np.ndarray, known: dict, keys: np.ndarray | None
    ) -> None:
        """Learn rows with text or missing values among them, now or before: see `_learn`."""
        X, before, encoder = self._read_table(columns, table)
        with lock_of(self).readers_out():
            if self._forest is None:
                forest = self._make_forest(self._make_config_for(encoder, len(known), 1))
                forest.trees.groups = encoder.describe_layout().groups
            else:
                forest = self._adapt_forest(Reading(X, before, encoder))
            if len(known) > forest.config.n_classes:
                forest.add_classes(len(known) - forest.config.n_classes)
                self._labels = known
            n_seen = forest.n_seen
            if self._forest is not None and forest is not self._forest:
                # From now on there are features for these rows, whether they are learned or not.
                self._forest, self._encoder, self._columns = forest, encoder, columns
            try:
                forest.learn(X, y, w, SILENT, keys=keys)
            finally:
                if forest.n_seen > n_seen:
                    self._forest, self._encoder, self._columns, self._labels = forest, encoder, columns, known

    def _read_table(self, columns: Columns, table: Table) -> tuple[np.ndarray, TableEncoder, TableEncoder]:
        """Return rows as the forest will hold them, and the encoder before and after it has learned them."""
        before = self._get_encoder()
        n_seen, n_held = (0, 0) if self._forest is None else (self._forest.n_seen, self._forest.n_held)
        kinds = self._find_kinds()
        names = list(columns)
        for k, key in enumerate(self._columns):
            # Of a feature that was never anything but missing, the first value tells the kind.
            if kinds[key] is None and (kind := find_kind(table, k)) in (TEXT, DATE):
                before = before.change_kind(k, Column.of_table(str(key), kind, table, k))
        new = []
        for k in range(len(self._columns), len(columns)):
            kind = find_kind(table, k)
            new.append(Column.of_table(str(names[k]), kind or NUMBER, table, k))
            new[-1].is_due = (
                n_held > 0 and kind != NUMBER
            )  # in rows held, absent numbers are 0, and all else is missing
        if new:
            before = before.widen(new, n_held)
        encoder, rows = before.learn(table, n_seen, n_held)
        return rows, before, encoder

    def _get_encoder(self) -> TableEncoder:
        """Return the encoder; while all features were numbers, one that has learned the rows held."""
        if self._encoder is not None:
            return self._encoder
        plain = TableEncoder.of_numbers([str(key) for key in self._columns], self.max_categories)
        if self._forest is None:
            return plain
        encoder = plain.recount(self._forest.held_rows()[:, : plain.width])[0]
        encoder.width = self._forest.config.n_features  # the others are reserved
        encoder.n_layouts, encoder.seen_at_layout = self._n_rebuilds, self._seen_at_rebuild
        return encoder

    def _find_kinds(self) -> dict[Hashable, str | None]:
        """Return whether each feature holds text, dates or numbers; None if all its values were missing so far."""
        if self._encoder is None:
            return dict.fromkeys(self._columns, NUMBER)
        counts = iter(self._encoder.sums.counts.tolist())
        kinds = [column.kind if column.is_text or next(counts) else None for column in self._encoder.columns]
        return dict(zip(self._columns, kinds, strict=True))

    def _spare_columns(self, n: int) -> int:
        """Return how many columns to reserve beside n."""
        forest = self._forest
        if forest is None or len(self._columns) == n:
            return 0
        return count_reserved(n, self._n_rebuilds, forest.n_seen - self._seen_at_rebuild, forest.n_held)

    def _is_settled(self, forest: OnlineForest) -> bool:
        """Return whether columns are reserved, though no key has come for as many rows as are held."""
        spare = forest.config.n_features > max(len(self._columns), 1)
        return spare and forest.n_seen - self._seen_at_rebuild >= forest.n_held

    def _with_held_rows(self, forest: OnlineForest, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple:
        """Return the rows held, and then these, with labels and weights."""
        held = pad_columns(forest.held_rows()[:, : max(len(self._columns), 1)], X.shape[1])
        own, weights = forest.held_labels()
        return np.concatenate([held, X]), np.concatenate([own[:, 0], y]), np.concatenate([weights, w])

    def _encode(self, y: Any, known: dict) -> tuple[float, dict]:
        """Return a label as the forest holds it, and all labels known then."""
        raise NotImplementedError

    def learn_one(self, x: dict, y: Any, w: float = 1.0, key: Any = None) -> None:
        """Learn a row.

        Parameters
        ----------
        x
            A dictionary of numbers and text; None and NaN are missing values.
        y
            Its label.
        w
            The weight of the label; it does not change where cuts fall.
        key
            What the row is called, for `forget_one`: text or a whole number. Several rows may have the same.

        """
        keys = None if key is None else KeyTable().encode([key])
        with lock_of(self).changing:
            columns = self._columns_of(x)
            row = read_row(x, columns) if self._encoder is None else None
            weight = check_weight(w)
            code, known = self._encode(y, self._labels)
            forest = self._forest
            if row is None:
                table = tabulate_row(x, columns, self._find_kinds())
                self._learn_table(columns, table, np.array([code]), np.array([weight]), known, keys)
            elif (
                columns is self._columns
                and known is self._labels
                and forest is not None
                and len(columns) == forest.config.n_features
            ):
                with lock_of(self).readers_out():
                    forest.learn(row, np.array([code]), np.array([weight]), keys=keys)
            else:
                self._learn(columns, row, np.array([code]), np.array([weight]), known, keys)
            self._advise()

    def forget_one(self, key: Any, strict: bool = False) -> None:
        """Forget all rows that were learned with a key, exactly: what is left is distributed as if they had never been seen.

        Features and labels stay known, even if no other row has them. Settings of ridge predictions, such as bandwidth and feature weights,
        are chosen again by later rows.

        Parameters
        ----------
        key
            What the rows were called when they were learned.
        strict
            Choose the settings again now, so that nothing depends on the rows when this returns.

        """
        with lock_of(self).changing:
            forest = self._forest
            if forest is None:
                raise ValueError(f"no row that is held has the key {key!r}: nothing has been learned")
            ids = find_ids_of_keys([key], forest)
            with lock_of(self).readers_out():
                self._forget_rows(ids, strict=strict)
            if strict:
                self._read(lambda: None)  # makes the forest whole

    def learn_many(self, X: pd.DataFrame, y: Any, w: Any = 1.0, keys: Any = None) -> None:
        """Learn rows at once. The forest has the same law as after learning them one by one, with other random numbers.

        Parameters
        ----------
        X
            A DataFrame of numbers and text, one column per feature.
        y
            A Series of labels.
        w
            One weight, or one per row.
        keys
            What the rows are called, for `forget_one`; `None` for no key.

        """
        check_frame(X)
        labels = y.tolist() if hasattr(y, "tolist") else list(y)
        if len(labels) != len(X):
            raise ValueError(f"X has {len(X)} rows, but y has {len(labels)} labels")
        weights = [w] * len(X) if isinstance(w, Real) else list(w)
        if len(weights) != len(X):
            raise ValueError(f"X has {len(X)} rows, but w has {len(weights)} weights")
        if not labels:
            return
        weight = np.array([check_weight(v) for v in weights])
        names = None if keys is None else list(keys)
        if names is not None and len(names) != len(X):
            raise ValueError(f"X has {len(X)} rows, but keys has {len(names)} entries")
        encoded = None if names is None else KeyTable().encode(names)
        with lock_of(self).changing:
            columns = self._columns_of(dict.fromkeys(X.columns))
            rows = read_frame(X, columns) if self._encoder is None else None
            codes, known = np.empty(len(X)), self._labels
            for k, label in enumerate(labels):
                codes[k], known = self._encode(label, known)
            if rows is None:
                table = tabulate_frame(X, columns, self._find_kinds())
                self._learn_table(columns, table, codes, weight, known, encoded)
            else:
                self._learn(columns, rows, codes, weight, known, encoded)
            self._advise()

    # ------------------------------------------------------------------------------------------------------------------
    # Predicting

    def _live_forest(self) -> OnlineForest | None:
        """Return the forest, if it holds any row: without one, predictions are those of a new model."""
        forest = self._forest
        return forest if forest is not None and forest.rows.n_held else None

    def _read_row(self, forest: OnlineForest, x: Mapping) -> np.ndarray:
        """Return ``x`` as a row that the forest can predict."""
        row = read_row(x, self._columns) if self._encoder is None else None
        if row is None:
            return self._encode_table(tabulate_row(x, self._columns, self._find_kinds()))
        return pad_columns(row, forest.config.n_features)

    def _read_frame(self, forest: OnlineForest, X: pd.DataFrame) -> np.ndarray:
        """Return the rows of a DataFrame such that the forest can predict them."""
        rows = read_frame(X, self._columns) if self._encoder is None else None
        if rows is None:
            return self._encode_table(tabulate_frame(X, self._columns, self._find_kinds()))
        return pad_columns(rows, forest.config.n_features)

    def _encode_table(self, table: Table) -> np.ndarray:
        return self._get_encoder().transform(table)

    # ------------------------------------------------------------------------------------------------------------------
    # river's conventions

    def _read(self, read: Callable[[], T]) -> T:
        """Return what ``read`` returns: the door through which everything is read.

        Trees and predictions then agree with the rows stored, and nothing changes meanwhile.
        """

        def read_if_whole() -> tuple[T] | None:
            forest = self._forest
            return None if forest is not None and (forest.torn or forest.stale) else (read(),)

        lock = lock_of(self)
        while (found := lock.read(read_if_whole)) is None:
            with lock.changing, lock.readers_out():
                if self._forest is not None:
                    self._forest.make_whole()
        return found[0]

    def __getstate__(self) -> dict:
        """Return a consistent state to be copied or pickled, without the lock."""
        return self._read(self._copy_state)

    def _copy_state(self) -> dict:
        state = self.__dict__.copy()
        if self._forest is not None:
            state["_forest"] = self._forest.snapshot()
        state.pop("_lock", None)
        return state

    @property
    def feature_importances_(self) -> dict:
        """The share of each feature in what labels vary by; empty before any learning."""

        def find() -> dict:
            if self._live_forest() is None or not self._columns:
                return {}
            shares = self._sum_importances()[: len(self._columns)].tolist()
            return dict(zip(self._columns, shares, strict=True))

        return self._read(find)

    @property
    def _raw_memory_usage(self) -> int:
        """Memory in bytes: every object once, and the data of arrays once (river's own count may take those twice)."""
        seen: set[int] = set()
        size = 0
        pending: list[Any] = [self]
        while pending:
            objects = []
            for obj in pending:
                if id(obj) in seen or isinstance(obj, type | types.ModuleType | types.FunctionType | ReadWriteLock):
                    continue
                seen.add(id(obj))
                objects.append(obj)
                size += sys.getsizeof(obj)  # for an array, with its data if they are its own
                if isinstance(obj, np.ndarray) and not obj.flags.owndata:
                    size += obj.nbytes
            pending = gc.get_referents(*objects)
        return size

    @classmethod
    def _unit_test_params(cls):
        yield {"n_estimators": 3}

    def _unit_test_skips(self) -> set[str]:
        # A chunk is learned at once, several times as fast as its rows one by one: the law is the same, the random numbers
        # are not, so predictions cannot be equal. Memory follows the half-life, which may grow after a while.
        return {"check_learn_many_matches_learn_one", "check_bounded_memory_growth"}
