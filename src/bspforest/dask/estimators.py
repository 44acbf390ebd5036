"""The forests on a Dask cluster, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any, Self, TypeVar

import numpy as np
from distributed import Client, get_client

from ..engine.config import ForestConfig
from ..engine.forest import OnlineForest
from ..engine.locking import change_alone, lock_of
from ..engine.tree_view import TreeViews
from ..estimators.base import BSPForest
from ..estimators.classifier import BSPForestClassifier
from ..estimators.regressor import BSPForestRegressor
from ..values.joint import JointValues, make_values
from .cluster import MOST_ATTEMPTS, TreesReplacedError
from .collections import is_dask_collection, predict_lazily, read_chunks
from .matrix import RemoteJointValues
from .trees import RemoteTrees

T = TypeVar("T")

# What estimators have beside parameters and what they have learned.
NOT_LOCAL = ("client", "_lock", "_forest")


class OnCluster(BSPForest):
    """What forests on a cluster share. Their trees are on the workers; rows, labels and duals are here, too."""

    _local: type[BSPForest]  # the forest of a single process

    client: Client | None = None

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the parameters, without ``client``: `clone` and `get_params` would copy it."""
        return cls._local._get_param_names()

    def _get_client(self) -> Client:
        return get_client() if self.client is None else self.client

    def _make_forest(self, config: ForestConfig, seed: np.ndarray) -> OnlineForest:
        values = make_values(self.values, self.bandwidth, self.ridge, int(seed[0]))
        if isinstance(values, JointValues):
            values = RemoteJointValues(values.given_bandwidth, values.given_ridge, values.seed)
        client = self._get_client()
        make_trees = lambda config, streams: RemoteTrees.allocate(client, config, streams)  # noqa: E731
        return OnlineForest(config, np.random.SeedSequence(seed.tolist()), values, make_trees)

    def _learn(self, *args: Any, **options: Any) -> Self:
        """Learn more rows; begin again if a worker was lost while trees that would hold them were built beside the others."""
        for attempt in range(MOST_ATTEMPTS):
            n_seen = self._forest.n_seen
            try:
                if not self._forest.values.is_busy:
                    self._forest.trees.balance()  # type: ignore[attr-defined]
                return super()._learn(*args, **options)
            except TreesReplacedError as error:
                learned = self._forest.n_seen - n_seen
                if learned or attempt + 1 == MOST_ATTEMPTS:
                    raise RuntimeError(
                        f"Workers were lost while this call learned rows, of which the first {learned} are learned. No other row is lost, "
                        "and the next call works."
                    ) from error
        raise AssertionError  # not reached

    def _convert(self, *args: Any, **options: Any) -> OnlineForest:
        forest = super()._convert(*args, **options)
        forest.trees.become_whole()  # type: ignore[attr-defined]
        return forest

    def _finish_work(self) -> None:
        try:
            super()._finish_work()
        except TreesReplacedError:  # a revision is lost with its trees, and begins again with the next rows
            self._forest.values.held_at_tuning = 0  # type: ignore[attr-defined]

    def _forget_rows(self, ids: np.ndarray, interrupts: Any) -> None:
        """Forget rows; begin again if a worker was lost while trees of fewer features were built."""
        for attempt in range(MOST_ATTEMPTS):
            held = self._forest.n_held
            try:
                super()._forget_rows(ids, interrupts)
                return
            except TreesReplacedError:
                if self._forest.n_held != held or attempt + 1 == MOST_ATTEMPTS:
                    raise

    # ------------------------------------------------------------------------------------------------------------------
    # To a single process and back

    def to_local(self) -> Any:
        """Return a copy of the forest in this process, which needs memory for all trees. It continues with the same random streams.

        Returns
        -------
        BSPForestRegressor or BSPForestClassifier
        """
        local = self._local()
        state = self._read_refreshed(self._copy_local, finished=True)
        local.__dict__.update(state)
        return local

    def _copy_local(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in NOT_LOCAL}
        if "_forest" not in self.__dict__:
            return state
        forest = copy(self._forest)
        forest.trees = self._forest.trees.collect()  # type: ignore[attr-defined]
        forest.rows, forest.keys = deepcopy(forest.rows), forest.keys.copy()
        values = self._forest.values
        if isinstance(values, JointValues):
            forest.values = JointValues(values.given_bandwidth, values.given_ridge, values.seed)
            own = {name: value for name, value in values.__getstate__().items() if name != "n_lost"}
            forest.values.__dict__.update(own)
        state["_forest"] = forest.snapshot()
        return state

    @classmethod
    def from_local(cls, local: BSPForest, client: Client | None = None) -> Self:
        """Return a copy of a forest of this process on a cluster. It continues with the same random streams.

        Parameters
        ----------
        local : BSPForestRegressor or BSPForestClassifier
        client : Client or None
            None: the current one.

        Returns
        -------
        forest
            On the cluster.
        """
        if not isinstance(local, cls._local) or isinstance(local, OnCluster):
            raise TypeError(f"{cls.__name__}.from_local takes a {cls._local.__name__}, not a {type(local).__name__}")
        forest = cls()
        forest.client = client
        state = local.__getstate__()
        forest.__dict__.update({name: value for name, value in state.items() if name not in NOT_LOCAL})
        if "_forest" in state:
            own: OnlineForest = state["_forest"]
            if own.config.redraw:
                raise ValueError("refinement='redraw' has no batch form and cannot run on a cluster")
            own._verify()
            own.trees = RemoteTrees.spread(forest._get_client(), own.trees, own.rows.held_slots(), own.budget)
            if isinstance(own.values, JointValues):
                values = RemoteJointValues(own.values.given_bandwidth, own.values.given_ridge, own.values.seed)
                values.__dict__.update(own.values.__getstate__())
                own.values = values
            forest._forest = own
        return forest

    def move_to(self, client: Client) -> Self:
        """Continue on another cluster, also when the scheduler of the present one is gone.

        The trees are drawn afresh there by the next call, from the rows that this process holds: exact in law, as when workers are lost.

        Parameters
        ----------
        client : Client

        Returns
        -------
        self
        """
        with lock_of(self).changing:
            self.client = client
            if hasattr(self, "_forest"):
                change_alone(self, lambda interrupts: self._forest.trees.move_to(client))  # type: ignore[attr-defined]
        return self

    def save(
        self, path: Any, *, extra: dict[str, Any] | None = None, overwrite: bool = True, compress: bool = False
    ) -> None:
        """Save the fitted forest in a file that `bspforest.load` reads, as one of a single process: see `to_local`.

        Parameters
        ----------
        path : path-like
        extra : dict or None
            Anything JSON can hold, to be kept in the header of the file.
        overwrite : bool, default=True
        compress : bool, default=False
        """
        self.to_local().save(path, extra=extra, overwrite=overwrite, compress=compress)

    def __getstate__(self) -> dict:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: use to_local() and from_local()")

    # ------------------------------------------------------------------------------------------------------------------
    # Reading

    def _refresh_values(self) -> None:
        if hasattr(self, "_forest"):
            forest, values = self._forest, self._forest.values
            if isinstance(values, RemoteJointValues) and (
                values.is_rebuilt or values.n_lost != forest.trees.shards.n_lost  # type: ignore[attr-defined]
            ):
                with lock_of(self).changing:
                    change_alone(self, lambda interrupts: values.settle(forest, interrupts))
        super()._refresh_values()

    def _read_refreshed(self, read: Callable[[], T], *, finished: bool = False) -> T:
        """Return what ``read`` returns; read again if trees were replaced meanwhile."""

        def read_solved() -> T:
            result = read()
            values = self._forest.values if hasattr(self, "_forest") else None
            if isinstance(values, RemoteJointValues) and values.n_lost != self._forest.trees.shards.n_lost:  # type: ignore[attr-defined]
                raise TreesReplacedError  # these trees have no values yet
            return result

        for _ in range(MOST_ATTEMPTS):
            try:
                return super()._read_refreshed(read_solved, finished=finished)
            except TreesReplacedError:
                continue
        raise RuntimeError(
            f"Workers were lost {MOST_ATTEMPTS} times in a row while the forest was read. No row is lost: call again."
        )

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row in each tree, which are read in this process: see `to_local`.

        Parameters
        ----------
        X : array-like or DataFrame

        Returns
        -------
        ndarray of shape (n, n_estimators)
        """
        return self.to_local().apply(X)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each column in what labels vary by, found in this process: see `to_local`."""
        return self.to_local().feature_importances_

    @property
    def trees_(self) -> TreeViews:
        """The trees as arrays, copied to this process: see `to_local`."""
        return self.to_local().trees_

    @property
    def n_workers_(self) -> int:
        """Workers among which the trees are divided."""
        return len(self._fitted_forest().trees.shards.parts)  # type: ignore[attr-defined]

    @property
    def n_shards_lost_(self) -> int:
        """How often the trees of a worker were lost, and drawn afresh on another."""
        return self._fitted_forest().trees.shards.n_lost  # type: ignore[attr-defined]


class DaskBSPForestRegressor(OnCluster, BSPForestRegressor):
    """A `BSPForestRegressor` whose trees are divided among the workers of a Dask cluster.

    It has the same parameters, and predicts the same, bit for bit, for the same ``random_state`` and any number of workers, as long as
    none is lost. When one is, its trees are drawn afresh on another, from the rows that this process holds. They are distributed as the
    lost ones were. See docs/guide/dask.md.

    Parameters
    ----------
    n_estimators : int, default=100
    client : distributed.Client or None, default=None
        None: the current one. It is not among the parameters that `clone` copies.
    **parameters
        As for `BSPForestRegressor`. ``n_jobs`` is for what runs in this process; workers use the threads they have.
        ``refinement="redraw"`` is refused.

    Notes
    -----
    X and y may be Dask collections: their partitions are learned as chunks, and predictions are lazy.
    """

    _local = BSPForestRegressor

    def __init__(self, n_estimators: int = 100, *, client: Client | None = None, **parameters: Any) -> None:
        super().__init__(n_estimators, **parameters)
        self.client = client

    def fit(self, X: Any, y: Any, sample_weight: Any = None, keys: Any = None) -> Self:
        """Forget everything and learn these rows: in one batch, or partition by partition.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe
        y : array-like, or Dask array or series with as many partitions as X
        sample_weight : array-like or None
        keys : array-like or None
            What rows are called, for `forget`.

        Returns
        -------
        self
        """
        if not is_dask_collection(X):
            return super().fit(X, y, sample_weight, keys)
        return self._become(self._make_unfitted().partial_fit(X, y, sample_weight, keys))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, keys: Any = None) -> Self:
        """Learn more rows; of Dask collections, partition by partition.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe
        y : array-like, or Dask array or series with as many partitions as X
        sample_weight : array-like or None
        keys : array-like or None
            What rows are called, for `forget`.

        Returns
        -------
        self
        """
        if not is_dask_collection(X):
            return super().partial_fit(X, y, sample_weight, keys)
        for chunk in read_chunks(self._get_client(), X, y, sample_weight, keys):
            super().partial_fit(*chunk)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the label of each row; of a Dask collection lazily: see `BSPForestRegressor.predict`.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe
        return_std : bool, default=False

        Returns
        -------
        ndarray or dask.array.Array, or a tuple of two with ``return_std``
        """
        if not is_dask_collection(X):
            return super().predict(X, return_std)
        width = None if self.n_outputs_ == 1 else self.n_outputs_
        options = {"return_std": True} if return_std else {}
        return predict_lazily(self._get_client(), self.to_local(), X, "predict", width, float, **options)

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Return quantiles of the label. With ``values="mean"``, the trees are read in this process: see `to_local`.

        Parameters
        ----------
        X : array-like or DataFrame
        quantiles : array-like of float

        Returns
        -------
        ndarray of shape (n, len(quantiles))
        """
        if self.values == "mean":
            return self.to_local().predict_quantiles(X, quantiles)
        return super().predict_quantiles(X, quantiles)


class DaskBSPForestClassifier(OnCluster, BSPForestClassifier):
    """A `BSPForestClassifier` whose trees are divided among the workers of a Dask cluster.

    All that is said of `DaskBSPForestRegressor` holds for it.

    Parameters
    ----------
    n_estimators : int, default=100
    client : distributed.Client or None, default=None
        None: the current one. It is not among the parameters that `clone` copies.
    **parameters
        As for `BSPForestClassifier`.
    """

    _local = BSPForestClassifier

    def __init__(self, n_estimators: int = 100, *, client: Client | None = None, **parameters: Any) -> None:
        super().__init__(n_estimators, **parameters)
        self.client = client

    def fit(self, X: Any, y: Any, sample_weight: Any = None, keys: Any = None) -> Self:
        """Forget everything and learn these rows: in one batch, or partition by partition, once all classes are known.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe
        y : array-like, or Dask array or series with as many partitions as X
        sample_weight : array-like or None
        keys : array-like or None
            What rows are called, for `forget`.

        Returns
        -------
        self
        """
        if not is_dask_collection(X):
            return super().fit(X, y, sample_weight, keys)
        client = self._get_client()
        labels = (chunk[1] for chunk in read_chunks(client, X, y)) if is_dask_collection(y) else [y]
        classes = np.unique(np.concatenate([np.unique(some) for some in labels]))
        return self._become(self._make_unfitted().partial_fit(X, y, classes, sample_weight, keys))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, keys: Any = None) -> Self:
        """Learn more rows; of Dask collections, partition by partition.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe
        y : array-like, or Dask array or series with as many partitions as X
        classes : array-like or None
            All labels that can occur, in the first call.
        sample_weight : array-like or None
        keys : array-like or None
            What rows are called, for `forget`.

        Returns
        -------
        self
        """
        if not is_dask_collection(X):
            return super().partial_fit(X, y, classes, sample_weight, keys)
        for some, labels, weights, names in read_chunks(self._get_client(), X, y, sample_weight, keys):
            super().partial_fit(some, labels, classes, weights, names)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class; of a Dask collection lazily.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe

        Returns
        -------
        ndarray or dask.array.Array of shape (n, n_classes)
        """
        if not is_dask_collection(X):
            return super().predict_proba(X)
        return predict_lazily(self._get_client(), self.to_local(), X, "predict_proba", self.n_classes_, float)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row; of a Dask collection lazily.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe

        Returns
        -------
        ndarray or dask.array.Array of shape (n,)
        """
        if not is_dask_collection(X):
            return super().predict(X)
        return predict_lazily(self._get_client(), self.to_local(), X, "predict", None, self.classes_.dtype)
