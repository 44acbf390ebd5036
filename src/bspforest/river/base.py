"""What the classifier and the regressor share in river's conventions: dicts in, one row at a time or a DataFrame at once."""

from __future__ import annotations

import gc
import random
import sys
import types
from collections.abc import Callable, Hashable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from .._sklearn_compat import validate_parameter_constraints
from .._validation import FOREST_CONSTRAINTS, JOINT_CONSTRAINTS, find_ids_of_keys
from ..engine.config import ForestConfig
from ..engine.forest import OnlineForest
from ..engine.interrupts import Interrupts
from ..engine.keys import KeyTable
from ..engine.locking import ReadWriteLock, change_alone, lock_of
from ..engine.progress import SILENT
from ..tables.reserve import count_reserved
from ..values.importances import find_importances
from ..values.joint import make_values
from .rows import Columns, check_frame, check_weight, pad_columns, read_frame, read_row, widen

try:
    from river import base
except ImportError as error:
    raise ImportError("bspforest.river needs river: pip install 'bspforest[river]'") from error

if TYPE_CHECKING:
    import pandas as pd


def join_keys(before: OnlineForest, keys: np.ndarray | None) -> np.ndarray | None:
    """Return the keys of the rows held, and then these; None if no row has one."""
    held = before.keys.encode(before.keys.get(before.rows.held_ids()))
    if keys is None and not (held != b"").any():
        return None
    return held if keys is None else np.concatenate([held, keys])


class RiverForest(base.Estimator):
    """What the classifier and the regressor share."""

    def __init__(
        self,
        n_estimators: int,
        cuts: str,
        budget: str | float | Callable[[int], float],
        budget_scale: float,
        min_samples_split: int | str,
        refinement: str,
        scaling: str | tuple[float, float] | None,
        window: int | None,
        values: str,
        metric: str | None,
        bandwidth: float | str,
        ridge: float | str,
        seed: int | None,
    ) -> None:
        self.n_estimators = n_estimators
        self.cuts = cuts
        self.budget = budget
        self.budget_scale = budget_scale
        self.min_samples_split = min_samples_split
        self.refinement = refinement
        self.scaling = scaling
        self.window = window
        self.values = values
        self.metric = metric
        self.bandwidth = bandwidth
        self.ridge = ridge
        self.seed = seed
        constraints = {**FOREST_CONSTRAINTS, **JOINT_CONSTRAINTS}
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
        return ForestConfig.from_parameters(max(n_features, 1), n_classes, **parameters)

    def _make_forest(self, n_features: int, n_classes: int) -> OnlineForest:
        config = self._make_config(n_features, n_classes)
        state = check_random_state(self._rng.getrandbits(32))
        seed = state.randint(0, 2**32, size=4, dtype=np.uint32)
        values = make_values(self.values, self.bandwidth, self.ridge, int(seed[0]))
        return OnlineForest(config, np.random.SeedSequence(seed.tolist()), values)

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
            forest = self._make_forest(len(columns) + self._spare_columns(len(columns)), len(known))
        else:
            forest = before
        rows = pad_columns(X, forest.config.n_features)

        def learn(interrupts: Interrupts) -> None:
            if len(known) > forest.trees.n_classes:
                forest.add_classes(len(known) - forest.trees.n_classes)
                self._labels = known
            n_seen = forest.n_seen
            try:
                forest.learn(rows, y, w, SILENT, interrupts)
            finally:
                forest.add_keys(n_seen, keys)
            self._forest, self._columns, self._labels = forest, columns, known
            if rebuild:
                self._seen_at_rebuild = forest.n_seen
                self._n_rebuilds += 1

        change_alone(self, learn)

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
        labels = forest.held_labels()
        return np.concatenate([held, X]), np.concatenate([labels[:, 0], y]), np.concatenate([labels[:, 1], w])

    def _encode(self, y: Any, known: dict) -> tuple[float, dict]:
        """Return a label as the forest holds it, and all labels known then."""
        raise NotImplementedError

    def learn_one(self, x: dict, y: Any, w: float = 1.0, key: Any = None) -> None:
        """Learn a row.

        Parameters
        ----------
        x
            A dictionary of numbers.
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
            row = read_row(x, columns)
            weight = check_weight(w)
            code, known = self._encode(y, self._labels)
            forest = self._forest
            if (
                columns is self._columns
                and known is self._labels
                and forest is not None
                and len(columns) == forest.config.n_features
            ):
                change_alone(self, lambda interrupts: self._learn_row(forest, row, code, weight, keys, interrupts))
            else:
                self._learn(columns, row, np.array([code]), np.array([weight]), known, keys)

    @staticmethod
    def _learn_row(
        forest: OnlineForest, row: np.ndarray, code: float, w: float, keys: np.ndarray | None, interrupts: Interrupts
    ) -> None:
        n_seen = forest.n_seen
        try:
            forest.learn_row(row, code, w, interrupts)
        finally:
            if keys is not None:
                forest.add_keys(n_seen, keys)

    def forget_one(self, key: Any) -> None:
        """Forget all rows that were learned with a key, exactly: what is left is distributed as if they had never been seen.

        Features and labels stay known, even if no other row has them.

        Parameters
        ----------
        key
            What the rows were called when they were learned.

        """
        with lock_of(self).changing:
            forest = self._forest
            if forest is None:
                raise ValueError(f"no row that is held has the key {key!r}: nothing has been learned")
            ids = find_ids_of_keys([key], forest)

            def forget(interrupts: Interrupts) -> None:
                forest.forget(ids, interrupts)
                forest.values.refresh(forest, interrupts)

            change_alone(self, forget)

    def learn_many(self, X: pd.DataFrame, y: Any, w: Any = 1.0, keys: Any = None) -> None:
        """Learn rows at once. The forest has the same law as after learning them one by one, with other random numbers.

        Parameters
        ----------
        X
            A DataFrame of numbers, one column per feature.
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
            rows = read_frame(X, columns)
            codes, known = np.empty(len(X)), self._labels
            for k, label in enumerate(labels):
                codes[k], known = self._encode(label, known)
            self._learn(columns, rows, codes, weight, known, encoded)

    # ------------------------------------------------------------------------------------------------------------------
    # Predicting

    def _read_row(self, forest: OnlineForest, x: Mapping) -> np.ndarray:
        """Return ``x`` as a row that the forest can be asked for."""
        return pad_columns(read_row(x, self._columns), forest.config.n_features)

    def _read_frame(self, forest: OnlineForest, X: pd.DataFrame) -> np.ndarray:
        """Return the rows of a DataFrame such that the forest can be asked for them."""
        return pad_columns(read_frame(X, self._columns), forest.config.n_features)

    # ------------------------------------------------------------------------------------------------------------------
    # river's conventions

    def __getstate__(self) -> dict:
        """Return a consistent state to be copied or pickled, without the lock."""
        while True:
            self._finish_work()
            with lock_of(self).reading:
                if self._forest is not None and self._forest.values.is_busy:
                    continue  # another thread has learned rows meanwhile
                state = self.__dict__.copy()
                if self._forest is not None:
                    state["_forest"] = self._forest.snapshot()
                del state["_lock"]
                return state

    def _finish_work(self) -> None:
        """Finish a revision that is going on, before the forest is copied."""
        forest = self._forest
        if forest is not None and forest.values.is_busy:
            with lock_of(self).changing:
                change_alone(self, lambda interrupts: forest.values.finish_work())

    @property
    def feature_importances_(self) -> dict:
        """The share of each feature in what labels vary by; empty before any learning."""
        with lock_of(self).reading:
            if self._forest is None or not self._columns:
                return {}
            shares = find_importances(self._forest)[: len(self._columns)].tolist()
            return dict(zip(self._columns, shares, strict=True))

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
        # are not, so predictions cannot be equal.
        return {"check_learn_many_matches_learn_one"}
