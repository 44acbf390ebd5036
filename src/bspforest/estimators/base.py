"""What the classifier and the regressor share: parameters, learning, forgetting, reading trees."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple, Self, TypeVar

import joblib
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import Interval, StrOptions
from .._validation import FOREST_CONSTRAINTS, JOINT_CONSTRAINTS, check_ids, check_keys, find_ids_of_keys
from ..files import save
from ..forest.config import ForestConfig
from ..forest.forest import OnlineForest
from ..forest.held_out import Order
from ..forest.keys import SALT_BYTES, KeyTable
from ..forest.locking import lock_of
from ..forest.prediction import make_prediction
from ..forest.settings import Revision, Settings
from ..forest.tree_view import TreeViews
from ..progress import SILENT, Progress
from .encoding import EncodesTables, Reading
from .inputs import get_names, read_in_blocks

T = TypeVar("T")

# Attributes of a fitted estimator, which `fit` makes anew.
FITTED = (
    *("_forest", "_encoder", "_lock", "_checked", "_fit_parameters", "_judged", "_advised"),
    *("classes_", "n_features_in_", "feature_names_in_"),
)

# Parameters that take effect without another `fit`, or only when it begins.
OF_NO_FIT = ("n_jobs", "verbose", "random_state", "voting", "class_weight")


class HeldRows(NamedTuple):
    """The rows that a forest holds, oldest first.

    Parameters
    ----------
    ids : ndarray of shape (n,)
        In order of arrival, from 0: what `forget` takes.
    X : ndarray of shape (n, d)
        As given; where there were gaps or categories, encoded as ``encoded_feature_names_`` says.
    y : ndarray of shape (n,), or (n, k) with several outputs
    sample_weight : ndarray of shape (n,)
    """

    ids: np.ndarray
    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray


class BSPForest(EncodesTables):
    """What the classifier and the regressor share."""

    _parameter_constraints: dict = {
        **FOREST_CONSTRAINTS,
        **JOINT_CONSTRAINTS,
        "categorical_features": [StrOptions({"from_dtype"}), "array-like", None],
        "max_categories": [Interval(Integral, 1, None, closed="left")],
        "hash_keys": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # The parameters that the forest was made with.
    _fit_parameters: dict[str, Any]

    # The values of the parameters when `partial_fit` last checked them.
    _checked: tuple[Any, ...] = ()

    def __init__(
        self,
        n_estimators: int = 200,
        *,
        cuts: str = "auto",
        budget: str | float | Callable[[int], float] = "auto",
        budget_scale: float = 1.0,
        min_samples_split: int | str = "auto",
        scaling: Any = "auto",
        window: int | str | None = None,
        prediction: str = "ridge",
        feature_weights: Any = "learned",
        bandwidth: float | str = "auto",
        ridge: float | str = "auto",
        half_life: float | str | None = "auto",
        categorical_features: Any = "from_dtype",
        max_categories: int = 64,
        hash_keys: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
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
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.hash_keys = hash_keys
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------------------------------------------
    # Parameters

    def _check_parameters(self) -> None:
        """Check all parameters as `fit` does. The number of features is known."""
        self._validate_params()
        self._make_config(0)

    def _check_changed_parameters(self) -> None:
        """Check the parameters if any has changed since the last check, which takes as long as learning a row."""
        values = tuple([getattr(self, name) for name in self._parameter_constraints])
        if len(values) != len(self._checked) or not all(map(operator.is_, values, self._checked)):
            self._check_parameters()
            self._checked = values

    def _keep_parameters(self) -> None:
        """Remember the parameters that shape the forest, for files: those that change from now on wait for the next `fit`."""
        parameters = self.get_params(deep=False)
        self._fit_parameters = {name: value for name, value in parameters.items() if name not in OF_NO_FIT}

    # ------------------------------------------------------------------------------------------------------------------
    # Learning and forgetting

    def _make_unfitted(self) -> Self:
        """Return an estimator with the same parameters for `fit` to work on, while this one is in use."""
        fresh = type(self).__new__(type(self))
        fresh.__dict__.update({name: value for name, value in self.__dict__.items() if name not in FITTED})
        return fresh

    def _become(self, fitted: Self) -> Self:
        """Take over everything that ``fitted``, from `_make_unfitted`, has learned."""
        lock = lock_of(self)
        with lock.changing, lock.readers_out():
            fitted.__dict__["_lock"] = lock
            self.__dict__ = fitted.__dict__  # at once: nobody sees a part of it
        return self

    def _fit_new(
        self, X: np.ndarray, y: np.ndarray, w: np.ndarray, n_classes: int, keys: Any = None, *, order: Order
    ) -> Self:
        """Learn in a new forest. It may be interrupted anywhere: this estimator is then discarded."""
        config = self._make_config(n_classes, y.shape[1] if y.ndim == 2 else 1)
        seed = check_random_state(self.random_state).randint(0, 2**32, size=4, dtype=np.uint32)
        self._forest = forest = self._make_forest(config, seed)
        forest.keys = KeyTable(secrets.token_bytes(SALT_BYTES) if self.hash_keys else b"")
        encoded = check_keys(keys, forest, len(X))
        if self._encoder is not None:
            forest.trees.groups = self._encoder.describe_layout().groups
        self._keep_parameters()
        self._set_verbosity()
        self._set_threads()
        forest.learn(X, y, w, self._make_progress(len(X)), keys=encoded, order=order)
        self._advise()
        return self

    def _make_forest(self, config: ForestConfig, seed: np.ndarray) -> OnlineForest:
        """Return an empty forest, given random words."""
        prediction = make_prediction(self.prediction, self.bandwidth, self.ridge, self.half_life, int(seed[0]))
        return OnlineForest(config, np.random.SeedSequence(seed.tolist()), prediction)

    def _learn(
        self,
        reading: Reading,
        y: np.ndarray,
        w: np.ndarray,
        keys: Any = None,
        prepare: Callable[[], None] | None = None,
    ) -> Self:
        """Learn more rows, after a change of the forest that is to ``prepare`` it for them, if any. `lock_of` is held."""
        X, _, encoder = reading
        encoded = check_keys(keys, self._forest, len(X))
        self._set_threads()
        self._set_verbosity()
        progress = self._make_progress(len(X))
        n_seen = self._forest.n_seen
        self._forest.ask_budget(len(X))
        with lock_of(self).readers_out():
            try:
                forest = self._adapt_forest(reading)
                if forest is not self._forest:  # with features for these rows, whether they are learned or not
                    self._forest, self._encoder = forest, encoder
                if prepare is not None:
                    prepare()
                forest.learn(X, y, w, progress, keys=encoded)
            except MemoryError as error:
                raise MemoryError(_describe_shortage(self._forest.n_seen > n_seen, len(X))) from error
            finally:
                if self._forest.n_seen > n_seen:
                    self._encoder = encoder
        self._advise()
        return self

    def _read(self, read: Callable[[], T]) -> T:
        """Return what ``read`` returns: the door through which everything is read.

        Trees and predictions then agree with the rows stored, and nothing changes meanwhile.
        """

        def read_if_whole() -> tuple[T] | None:
            forest = self.__dict__.get("_forest")
            return None if forest is not None and (forest.torn or forest.stale) else (read(),)

        while (found := lock_of(self).read(read_if_whole)) is None:
            self._make_whole()
        return found[0]

    def _make_whole(self) -> None:
        """Make trees and settings again, where rows were forgotten or a change was interrupted."""
        lock = lock_of(self)
        with lock.changing, lock.readers_out():
            self._set_threads()
            self._forest.make_whole()

    def _set_verbosity(self) -> None:
        self._forest.prediction.verbose = bool(self.verbose)

    def _make_progress(self, n: int) -> Progress:
        return Progress(n, type(self).__name__, "rows", enabled=True) if self.verbose else SILENT

    def _set_threads(self) -> None:
        self._forest.trees.n_threads = 1 if self.n_jobs is None else int(joblib.effective_n_jobs(int(self.n_jobs)))

    def forget(self, ids: Any = None, *, keys: Any = None, strict: bool = False) -> Self:
        """Forget rows exactly: what is left is distributed as if they had never been seen.

        If they alone reached an end of the range that a feature is scaled by, the trees are built afresh with the range of
        the rows that are left. What they have taught about columns is forgotten, too: categories and cycles that no other row has or
        shows, and their part in the means that gaps are filled by. (What remains is that other rows of rare categories share the feature
        "(other)".)

        With ridge predictions, trees and duals are found again before the next answer, with the settings in use: feature weights,
        scaling, bandwidth, ridge, half-life. Settings were chosen with the rows, too. They are chosen again from the rows left, in slices
        with rows learned later; or before the next answer, once more than a tenth of the rows are forgotten. Until then,
        ``revisions_[-1].n_forgotten`` is above 0.

        Parameters
        ----------
        ids : int, array-like of int or of bool
            Rows counted in order of arrival, from 0; or a mask of the rows held, oldest first, as in `held_rows`.
        keys : str, int or array-like of them
            Instead of ``ids``: all rows that were learned with one of these keys.
        strict : bool, default=False
            Choose the settings again now, so that nothing depends on the rows when this returns: it takes as long as `fit`. With ``ids=[]``
            for rows that were forgotten before.

        Returns
        -------
        self

        Examples
        --------
        >>> from bspforest import BSPForestRegressor
        >>> forest = BSPForestRegressor().fit([[0.0], [1.0], [2.0]], [5, 6, 7], keys=["ann", "bob", "ann"])
        >>> forest.forget(keys="ann").held_rows().y.tolist()
        [6.0]
        """
        check_is_fitted(self)
        if (ids is None) == (keys is None):
            raise ValueError("forget takes either ids or keys")
        with lock_of(self).changing:
            wanted = check_ids(ids, self._forest) if keys is None else find_ids_of_keys(keys, self._forest)
            self._set_threads()
            self._forest.ask_budget(n_less=len(wanted))
            with lock_of(self).readers_out():
                self._forget_rows(wanted, strict=strict)
            if strict:
                self._read(lambda: None)  # makes the forest whole
        return self

    def held_keys(self) -> list[str | None]:
        """Return the keys of the rows held, oldest first; None for rows without one. Hashed keys are returned as such.

        Returns
        -------
        list of str or None
        """

        def read() -> list[str | None]:
            forest = self._fitted_forest()
            return forest.keys.get(forest.rows.held_ids())

        return lock_of(self).read(read)

    def held_rows(self) -> HeldRows:
        """Return the rows held, oldest first, with their ids, labels and weights.

        Returns
        -------
        HeldRows
            A named tuple ``(ids, X, y, sample_weight)``.

        Examples
        --------
        >>> from bspforest import BSPForestRegressor
        >>> forest = BSPForestRegressor().fit([[0.0], [1.0], [2.0]], [5, 6, 7]).forget(1)
        >>> ids, X, y, sample_weight = forest.held_rows()
        >>> ids.tolist(), y.tolist()
        ([0, 2], [5.0, 7.0])
        """

        def read() -> HeldRows:
            forest = self._fitted_forest()
            y, w = forest.held_labels()
            y = y if forest.config.n_outputs > 1 else y[:, 0]
            return HeldRows(forest.rows.held_ids(), forest.held_rows(), self._decode(y), w)

        return lock_of(self).read(read)

    def _decode(self, labels: np.ndarray) -> np.ndarray:
        """Return labels as the forest holds them in the terms of the user."""
        return labels

    def save(
        self, path: Any, *, extra: dict[str, Any] | None = None, overwrite: bool = True, compress: bool = False
    ) -> None:
        """Save the fitted forest in a file that `bspforest.load` reads: see `bspforest.files.save`.

        Parameters
        ----------
        path : path-like
        extra : dict or None
            Anything JSON can hold, to be kept in the header of the file.
        overwrite : bool, default=True
            If False, and the file exists, FileExistsError.
        compress : bool, default=False
            Write a smaller file, in more time.
        """
        save(self, path, extra=extra, overwrite=overwrite, compress=compress)

    # ------------------------------------------------------------------------------------------------------------------
    # Reading

    def _check_before_predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = self._encode(X)
        if self._forest.n_held == 0:
            raise ValueError(f"This {type(self).__name__} holds no samples; call partial_fit first.")
        self._set_threads()
        return X

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row in each tree: node numbers of ``trees_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
        """

        def find(X: Any) -> np.ndarray:
            leaves = self._forest.trees.find_leaves(self._check_before_predict(X))
            for m, tree in enumerate(self.trees_):
                leaves[:, m] = tree.node_of_leaf[leaves[:, m]]
            return leaves

        return self._read(lambda: read_in_blocks(find, X))

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned since the last call of `fit`, forgotten ones included."""
        return self._fitted_forest().n_seen

    @property
    def n_samples_(self) -> int:
        """Rows held."""
        return self._fitted_forest().n_held

    @property
    def cuts_(self) -> str:
        """The family of cuts in use: ``"pairs"``, ``"axes"`` or ``"isotropic"``."""
        return self._fitted_forest().cuts

    @property
    def bandwidth_(self) -> float:
        """The bandwidth of ridge prediction."""
        return self._get_settings().bandwidth

    @property
    def half_life_(self) -> float:
        """Rows weigh half as much for each so many rows that they are older; infinite if all count alike."""
        return self._get_settings().half_life

    @property
    def ridge_(self) -> float:
        """The ridge of ridge prediction."""
        return self._get_settings().ridge

    @property
    def validation_error_(self) -> float:
        """The mean held-out squared error with which bandwidth and ridge were chosen; NaN if both were given."""
        return self._get_settings().error

    def _get_settings(self) -> Settings:
        settings = self._get_ridge_prediction("bandwidth_, ridge_ and validation_error_").settings
        if settings is None:
            raise AttributeError("bandwidth_, ridge_ and validation_error_ are known once rows were learned")
        return settings

    def _get_ridge_prediction(self, names: str) -> Any:
        prediction = self._read(lambda: self._fitted_forest().prediction)
        if not prediction.is_ridge:
            raise AttributeError(f"there are {names} only with prediction='ridge'")
        return prediction

    @property
    def revisions_(self) -> list[Revision]:
        """What was decided in `fit` and at each revision of a stream; the latest 100 of them. Ridge prediction only."""
        return list(self._get_ridge_prediction("revisions_").revisions)

    @property
    def feature_weights_(self) -> np.ndarray:
        """What each column is multiplied by once it is scaled to [0, 1]; the largest is 1. All categories of a column share one."""
        self._fitted_forest()
        return self._read(self._collect_weights)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each column in what labels vary by: mean squared slope times variance. They sum to 1."""
        self._fitted_forest()
        return self._read(self._sum_importances)

    @property
    def encoded_feature_names_(self) -> list[str]:
        """The features that trees are made of: the names of columns, and of their missing values, categories and cycles.

        Those of ``trees_`` and `held_rows` are in this order.
        """
        self._fitted_forest()
        return get_names(self) if self._encoder is None else self._encoder.names

    @property
    def budget_(self) -> float:
        """The budget in use."""
        return self._read(lambda: self._fitted_forest().budget)

    @property
    def trees_(self) -> TreeViews:
        """The trees as arrays: see `bspforest.forest.tree_view.TreeView`."""
        self._fitted_forest()
        return TreeViews(self)

    @property
    def nbytes_(self) -> int:
        """Memory of trees, rows and keys in bytes."""
        forest = self._fitted_forest()
        return forest.trees.nbytes + forest.labels.nbytes + forest.keys.nbytes

    def __getstate__(self) -> dict:
        """Return a consistent state to be copied or pickled, without the lock."""
        state = self._read(self._copy_state)
        del state["_lock"]
        return state

    def _copy_state(self) -> dict:
        state = dict(super().__getstate__())
        if "_forest" in state:
            state["_forest"] = state["_forest"].snapshot()
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _fitted_forest(self) -> OnlineForest:
        try:
            return self._forest
        except AttributeError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_forest")


def _describe_shortage(learned: bool, n: int) -> str:
    """Return the message when memory runs out while n rows are learned."""
    if learned:
        return (
            f"Out of memory after the {n} rows of this call were stored: they are learned. Trees are built again from all rows "
            "by the next call. Forget rows, or free memory, before it."
        )
    return f"Out of memory: the {n} rows of this call were not learned. Free memory, or forget rows, and call again."
