"""The forests on a Dask cluster, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Self, TypeVar

import numpy as np
from distributed import Client, get_client

from ..estimators.base import BSPForest
from ..estimators.classifier import BSPForestClassifier
from ..estimators.regressor import BSPForestRegressor
from ..forest.config import ForestConfig
from ..forest.forest import OnlineForest
from ..forest.locking import lock_of
from ..forest.prediction import make_prediction
from ..forest.tree_operations import LOCAL_OPERATIONS
from ..forest.tree_view import TreeViews
from .cluster import MAX_ATTEMPTS, TreesLostError
from .collections import is_dask_collection, predict_lazily, read_chunks
from .kernel import REMOTE_OPERATIONS
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
        prediction = make_prediction(
            self.prediction, self.bandwidth, self.ridge, self.half_life, int(seed[0]), REMOTE_OPERATIONS
        )
        client = self._get_client()
        make_trees = lambda config, streams: RemoteTrees.allocate(client, config, streams)  # noqa: E731
        return OnlineForest(config, np.random.SeedSequence(seed.tolist()), prediction, make_trees)

    def _repeat(self, call: Callable[[], T]) -> T:
        """Return what ``call`` returns; if workers were lost, build the trees again, and call again."""
        lost: Any = None
        for _ in range(MAX_ATTEMPTS):
            try:
                if lost is not None:
                    lost.trees.drop()
                return call()
            except TreesLostError:
                lost = self.__dict__.get("_forest")  # None: a `fit` begins again
                if lost is not None:
                    lost.torn = True
        raise RuntimeError(
            f"Workers were lost {MAX_ATTEMPTS} times in a row: have they run out of memory? No row is lost: call again."
        )

    def _fit_new(self, *args: Any, **options: Any) -> Self:
        return self._repeat(lambda: super(OnCluster, self)._fit_new(*args, **options))

    def _learn(self, *args: Any, **options: Any) -> Self:
        n_seen = self._forest.n_seen

        def learn() -> None:
            if (
                self._forest.n_seen == n_seen
            ):  # else the rows are stored, and trees are built again when they are needed
                super(OnCluster, self)._learn(*args, **options)

        self._repeat(learn)
        return self

    def _forget_rows(self, ids: np.ndarray, *, strict: bool) -> None:
        held = self._forest.n_held

        def forget() -> None:
            if self._forest.n_held == held:
                super(OnCluster, self)._forget_rows(ids, strict=strict)

        self._repeat(forget)

    def _read(self, read: Callable[[], T]) -> T:
        return self._repeat(lambda: super(OnCluster, self)._read(read))

    # ------------------------------------------------------------------------------------------------------------------
    # To a single process and back

    def to_local(self) -> Any:
        """Return a copy of the forest in this process, which needs memory for all trees. It continues with the same random streams.

        Returns
        -------
        BSPForestRegressor or BSPForestClassifier
        """
        local = self._local()
        state = self._read(self._copy_local)
        local.__dict__.update(state)
        return local

    def _copy_local(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in NOT_LOCAL}
        if "_forest" not in self.__dict__:
            return state
        forest = copy(self._forest)
        forest.trees = self._forest.trees.collect()  # type: ignore[attr-defined]
        forest = forest.snapshot()
        forest.prediction.operations = LOCAL_OPERATIONS
        state["_forest"] = forest
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
            own.trees = RemoteTrees.spread(forest._get_client(), own.trees)
            own.prediction.operations = REMOTE_OPERATIONS
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
        lock = lock_of(self)
        with lock.changing, lock.readers_out():
            self.client = client
            if hasattr(self, "_forest"):
                self._forest.torn = True
                self._forest.trees.move_to(client)  # type: ignore[attr-defined]
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
    n_estimators : int, default=200
    client : distributed.Client or None, default=None
        None: the current one. It is not among the parameters that `clone` copies.
    **parameters
        As for `BSPForestRegressor`. ``n_jobs`` is for what runs in this process; workers use the threads they have.

    Notes
    -----
    X and y may be Dask collections: their partitions are learned as chunks, and predictions are lazy.
    """

    _local = BSPForestRegressor

    def __init__(self, n_estimators: int = 200, *, client: Client | None = None, **parameters: Any) -> None:
        super().__init__(n_estimators, **parameters)
        self.client = client

    def fit(self, X: Any, y: Any, sample_weight: Any = None, keys: Any = None, *, in_order: bool = False) -> Self:
        """Forget everything and learn these rows: in one batch, or partition by partition.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe
        y : array-like, or Dask array or series with as many partitions as X
        sample_weight : array-like or None
        keys : array-like or None
            What rows are called, for `forget`.
        in_order : bool, default=False
            The rows are in order of time. Partitions always are: they are learned as a stream.

        Returns
        -------
        self
        """
        if not is_dask_collection(X):
            return super().fit(X, y, sample_weight, keys, in_order=in_order)
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
        """Return quantiles of the label. With ``prediction="mean"``, the trees are read in this process: see `to_local`.

        Parameters
        ----------
        X : array-like or DataFrame
        quantiles : array-like of float

        Returns
        -------
        ndarray of shape (n, len(quantiles))
        """
        if self.prediction == "mean":
            return self.to_local().predict_quantiles(X, quantiles)
        return super().predict_quantiles(X, quantiles)


class DaskBSPForestClassifier(OnCluster, BSPForestClassifier):
    """A `BSPForestClassifier` whose trees are divided among the workers of a Dask cluster.

    All that is said of `DaskBSPForestRegressor` holds for it.

    Parameters
    ----------
    n_estimators : int, default=200
    client : distributed.Client or None, default=None
        None: the current one. It is not among the parameters that `clone` copies.
    **parameters
        As for `BSPForestClassifier`.
    """

    _local = BSPForestClassifier

    def __init__(self, n_estimators: int = 200, *, client: Client | None = None, **parameters: Any) -> None:
        super().__init__(n_estimators, **parameters)
        self.client = client

    def fit(self, X: Any, y: Any, sample_weight: Any = None, keys: Any = None, *, in_order: bool = False) -> Self:
        """Forget everything and learn these rows: in one batch, or partition by partition, once all classes are known.

        Parameters
        ----------
        X : array-like, DataFrame, or Dask array or dataframe
        y : array-like, or Dask array or series with as many partitions as X
        sample_weight : array-like or None
        keys : array-like or None
            What rows are called, for `forget`.
        in_order : bool, default=False
            The rows are in order of time. Partitions always are: they are learned as a stream.

        Returns
        -------
        self
        """
        if not is_dask_collection(X):
            return super().fit(X, y, sample_weight, keys, in_order=in_order)
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
