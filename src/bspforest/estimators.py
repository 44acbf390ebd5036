"""The forests as scikit-learn estimators."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from ._threads import SILENT, Progress
from .core import OnlineForest
from .trees import TreeViews

_PARAMETERS = """\
n_estimators : int, default=100
        Number of trees.
    cuts : {"pairs", "axes", "isotropic"}, default="pairs"
        Where cuts may fall: lines in two features at a time (the paper's oblique cuts), thresholds of one feature
        (a Mondrian forest), or hyperplanes of any direction (a STIT forest).
    budget : "minimax", float, math.inf or callable, default="minimax"
        How long trees grow. ``"minimax"`` is n^(1/(d+2)) for n rows held and d features; a callable is given n and may not
        decrease. Larger: smaller leaves.
    budget_scale : float, default=1.0
        Times the budget. The first parameter to tune.
    min_samples_split : int, default=4
        A node with fewer rows is not cut.
    refinement : {"exact", "redraw"}, default="exact"
        ``"redraw"`` follows the paper's Algorithm 4 to the letter: a leaf's next cut is drawn anew with each row that
        arrives in it. It cuts far more often, its trees depend on the order of the rows, and it has no batch form.
    scaling : "minmax", None or (low, high), default="minmax"
        The range of each feature that counts as 1. ``"minmax"`` is the range seen so far, revised when the number of rows
        has doubled.
    window : int or None, default=None
        Hold the latest this many rows, and forget older ones.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0
        Show a progress bar while learning."""


def _describe(array: np.ndarray, row: int, column: int, names: np.ndarray | None) -> str:
    what = "NaN" if np.isnan(array[row, column]) else "infinity"
    name = f" ({names[column]!r})" if names is not None else ""
    return f"Input X contains {what} in column {column}{name}, row {row}; finite numbers are expected."


class BSPForest(BaseEstimator):
    """What the classifier and the regressor share."""

    _parameter_constraints: dict = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "cuts": [StrOptions({"pairs", "axes", "isotropic"})],
        "budget": [StrOptions({"minimax"}), Interval(Real, 0, None, closed="right"), callable],
        "budget_scale": [Interval(Real, 0, None, closed="neither")],
        "min_samples_split": [Interval(Integral, 2, None, closed="left")],
        "refinement": [StrOptions({"exact", "redraw"})],
        "scaling": [StrOptions({"minmax"}), None, tuple, list],
        "window": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        cuts: str = "pairs",
        budget: str | float | Callable[[int], float] = "minimax",
        budget_scale: float = 1.0,
        min_samples_split: int = 4,
        refinement: str = "exact",
        scaling: Any = "minmax",
        window: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.cuts = cuts
        self.budget = budget
        self.budget_scale = budget_scale
        self.min_samples_split = min_samples_split
        self.refinement = refinement
        self.scaling = scaling
        self.window = window
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------------------------------------------
    # Input

    def _check_finite(self, X: np.ndarray) -> np.ndarray:
        finite = np.isfinite(X)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise ValueError(_describe(X, row, column, getattr(self, "feature_names_in_", None)))
        return X

    def _check_rows(self, X: Any, *, reset: bool, min_rows: int = 1) -> np.ndarray:
        """X as float64 rows. Plain arrays take a short cut: validation costs more than learning a single row."""
        if (
            type(X) is np.ndarray
            and not reset
            and X.dtype == np.float64
            and X.ndim == 2
            and X.flags.c_contiguous
            and X.shape[1] == self.n_features_in_
            and len(X) >= min_rows
            and not hasattr(self, "feature_names_in_")
        ):
            return self._check_finite(X)
        X = validate_data(
            self, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False, ensure_min_samples=min_rows
        )
        return self._check_finite(X)

    def _check_weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        if sample_weight is None:
            return np.ones(len(X))
        if len(X) and not np.asarray(sample_weight).any():
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        w = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if len(w) and w.min() < 0:
            raise ValueError(f"sample_weight must not be negative, got {w.min()} in row {int(w.argmin())}")
        return w

    def _check_range(self, X: np.ndarray) -> None:
        """Refuse columns whose range overflows, before anything is changed."""
        if not len(X) or self.scaling != "minmax" or np.abs(X).max() < 8e307:
            return
        slots = self._forest.table.held_slots()
        all_rows = np.concatenate([X, self._forest.arrays.rows[slots]])
        with np.errstate(over="ignore"):
            wide = ~np.isfinite(all_rows.max(axis=0) - all_rows.min(axis=0))
        if wide.any():
            column = int(np.argmax(wide))
            raise ValueError(f"the range of column {column} of X overflows float64; scale it down first")

    def _make_budget(self, d: int) -> Callable[[int], float]:
        if self.budget == "minimax":
            return _Minimax(d, float(self.budget_scale))
        if callable(self.budget):
            return _Scaled(self.budget, float(self.budget_scale))
        return _Constant(float(self.budget) * float(self.budget_scale))

    def _make_scaling(self, d: int) -> Any:
        if self.scaling is None or isinstance(self.scaling, str):
            return self.scaling
        if len(self.scaling) != 2:
            raise ValueError(f"scaling must be 'minmax', None or a pair (low, high), got {len(self.scaling)} entries")
        low, high = (np.array(np.broadcast_to(np.asarray(side, dtype=np.float64), d)) for side in self.scaling)
        bad = ~(np.isfinite(low) & np.isfinite(high) & (low < high))
        if bad.any():
            k = int(np.argmax(bad))
            raise ValueError(f"scaling: low must be below high, but column {k} has low={low[k]}, high={high[k]}")
        return low, high

    def _make_forest(self, n_classes: int) -> None:
        d = self.n_features_in_
        budget, scaling = self._make_budget(d), self._make_scaling(d)
        seed = check_random_state(self.random_state).randint(0, 2**32, size=4, dtype=np.uint32)
        self._forest = OnlineForest(
            d,
            n_trees=self.n_estimators,
            n_classes=n_classes,
            cuts=self.cuts,
            budget=budget,
            min_samples_split=self.min_samples_split,
            redraw=self.refinement == "redraw",
            scaling=scaling,
            window=self.window,
            seed=np.random.SeedSequence(seed.tolist()),
        )

    # ------------------------------------------------------------------------------------------------------------------
    # Learning and forgetting

    def _fit_new(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, n_classes: int) -> Self:
        """Learn in a new forest; if that fails or is interrupted, the old one stays."""
        before = self.__dict__.pop("_forest", None)
        try:
            self._make_forest(n_classes)
            return self._learn(X, y, w)
        except BaseException:
            self.__dict__.pop("_forest", None)
            if before is not None:
                self._forest = before
            raise

    def _learn(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> Self:
        self._check_range(X)
        self._set_threads()
        progress = Progress(len(X), type(self).__name__, "rows", enabled=True) if self.verbose else SILENT
        self._forest.learn(X, y, w, progress)
        return self

    def _set_threads(self) -> None:
        self._forest.n_threads = 1 if self.n_jobs is None else joblib.effective_n_jobs(self.n_jobs)

    def forget(self, ids: Any) -> Self:
        """Forget rows exactly: what is left is distributed as if they had never been seen.

        Parameters
        ----------
        ids : int or array-like of int
            Rows counted in order of arrival, from 0.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        given = np.atleast_1d(np.asarray(ids))
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise ValueError(f"ids must be whole numbers in one dimension, got {given.dtype} of shape {given.shape}")
        wanted = given.astype(np.int64)
        n_seen = self.n_samples_seen_
        if wanted.size and (wanted.min() < 0 or wanted.max() >= n_seen):
            bad = wanted[(wanted < 0) | (wanted >= n_seen)][0]
            raise ValueError(f"unknown id {bad}: rows seen so far have ids 0 to {n_seen - 1}")
        gone = wanted[self._forest.table.slots_of(wanted) < 0]
        if gone.size:
            raise ValueError(f"id {gone[0]} is already forgotten")
        values, counts = np.unique(wanted, return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"id {values[counts > 1][0]} is given more than once")
        self._set_threads()
        self._forest.forget(wanted)
        return self

    # ------------------------------------------------------------------------------------------------------------------
    # Asking

    def _ready(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        if self._forest.n_held == 0:
            raise ValueError(
                f"this {type(self).__name__} holds no rows: all it learned is forgotten. Call partial_fit with rows first."
            )
        self._set_threads()
        return X

    def apply(self, X: Any) -> np.ndarray:
        """The leaf of each row in each tree: node numbers of ``trees_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
        """
        leaves = self._forest_of(X)
        for m, tree in enumerate(self.trees_):
            leaves[:, m] = tree.node_of_leaf[leaves[:, m]]
        return leaves

    def _forest_of(self, X: Any) -> np.ndarray:
        X = self._ready(X)
        return self._forest.find_leaves(X)

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned since the last call of fit, forgotten ones included."""
        return self._core().n_seen

    @property
    def n_samples_(self) -> int:
        """Rows held."""
        return self._core().n_held

    @property
    def budget_(self) -> float:
        """The budget in use."""
        return self._core().budget

    @property
    def trees_(self) -> TreeViews:
        """The trees as arrays: see `bspforest.trees.TreeView`."""
        return TreeViews(self._core())

    def _core(self) -> OnlineForest:
        try:
            return self._forest
        except AttributeError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_forest")


class _Minimax:
    """n^(1/(d+2)), the rate of the paper's Theorem 3."""

    def __init__(self, d: int, scale: float) -> None:
        self.d, self.scale = d, scale

    def __call__(self, n: int) -> float:
        return self.scale * n ** (1.0 / (self.d + 2))


class _Constant:
    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, n: int) -> float:
        return self.value


class _Scaled:
    """A user's budget, checked."""

    def __init__(self, budget: Callable[[int], float], scale: float) -> None:
        self.budget, self.scale = budget, scale

    def __call__(self, n: int) -> float:
        value = self.budget(n)
        if not isinstance(value, Real) or math.isnan(value) or value < 0:
            raise ValueError(f"budget must return a number of at least 0, but returned {value!r} for {n} rows")
        return float(value) * self.scale


class BSPForestRegressor(RegressorMixin, BSPForest):
    """A random forest for regression that learns from a stream.

    Each tree is cut at random places by oblique cuts, {x : a x_i + b x_j = p}, which come at a rate proportional to the
    perimeter of the data, until the budget τ is spent. At any moment the forest is distributed as if it had been grown on
    all the rows it holds at once, whether they came in one batch, in chunks or one by one, and whatever was forgotten.

    Parameters
    ----------
    PARAMETERS

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had feature names.
    n_samples_seen_ : int
        Rows learned, forgotten ones included.
    n_samples_ : int
        Rows held.
    budget_ : float
        The budget in use.
    trees_ : sequence of TreeView
        The trees as arrays.

    References
    ----------
    Xuhui Fan, Bin Li, Scott A. Sisson. Online Binary Space Partitioning Forests. AISTATS 2020.

    Examples
    --------
    >>> from bspforest import BSPForestRegressor
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(2000, random_state=0)
    >>> forest = BSPForestRegressor(random_state=0).fit(X[:1000], y[:1000])
    >>> round(forest.score(X[1500:], y[1500:]), 2)
    0.65
    >>> forest.partial_fit(X[1000:1500], y[1000:1500]).n_samples_
    1500
    >>> round(forest.score(X[1500:], y[1500:]), 2)
    0.67
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn these rows in one batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the labels; they do not change where cuts fall.

        Returns
        -------
        self
        """
        X, y = self._check_Xy(X, y, reset=True)
        w = self._check_weights(sample_weight, X)
        return self._fit_new(X, y, w, 0)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more rows. Parameters as for `fit`; X may be empty.

        Returns
        -------
        self
        """
        first = not hasattr(self, "_forest")
        if first:
            self._validate_params()
        X, y = self._check_Xy(X, y, reset=first, min_rows=1 if first else 0)
        w = self._check_weights(sample_weight, X)
        if first:
            return self._fit_new(X, y, w, 0)
        return self._learn(X, y, w)

    def _check_Xy(self, X: Any, y: Any, *, reset: bool, min_rows: int = 1) -> tuple[np.ndarray, np.ndarray]:
        X = self._check_rows(X, reset=reset, min_rows=min_rows)
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if not (type(y) is np.ndarray and y.dtype == np.float64 and y.ndim == 1 and len(y) == len(X)):
            y = column_or_1d(y, dtype=np.float64, warn=True)
            check_consistent_length(X, y)
        if not np.isfinite(y).all():
            row = int(np.argmin(np.isfinite(y)))
            what = "NaN" if np.isnan(y[row]) else "infinity"
            raise ValueError(f"Input y contains {what} in row {row}; finite numbers are expected.")
        return X, y

    def _means(self, sums: np.ndarray) -> np.ndarray:
        trees = np.maximum(sums[:, 3], 1.0)
        mean = sums[:, 4] + sums[:, 0] / trees
        silent = sums[:, 3] == 0
        if silent.any():  # only rows of weight 0 nearby: the mean of all
            labels = self._forest.held_labels()
            mean[silent] = np.average(labels[:, 0], weights=labels[:, 1]) if labels[:, 1].any() else 0.0
        return mean

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean over trees of the mean label in the leaf.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Also return the standard deviation of the label: by the law of total variance, the mean variance in a leaf plus
            the variance of the leaf means over trees.

        Returns
        -------
        ndarray of shape (n_samples,), or two of them
        """
        X = self._ready(X)
        sums = self._forest.sum_leaves(X)
        mean = self._means(sums)
        if not return_std:
            return mean
        trees = np.maximum(sums[:, 3], 1.0)
        within = sums[:, 1] / trees
        between = np.maximum(sums[:, 2] / trees - (sums[:, 0] / trees) ** 2, 0.0)
        return mean, np.sqrt(within + between)

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of the label, from the labels in the leaves of all trees.

        Each tree spreads a weight of 1 over the labels in its leaf; a quantile is the smallest label at which the sum of the
        weights reaches its share.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        quantiles : array-like of float in [0, 1]

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
        """
        q = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if q.ndim != 1 or not ((q >= 0) & (q <= 1)).all():
            raise ValueError(f"quantiles must be numbers in [0, 1], got {quantiles!r}")
        X = self._ready(X)
        out = np.empty((len(X), len(q)))
        labels = self._forest.arrays.labels[:, 0]
        for start in range(0, len(X), 1024):
            leaves = self._forest.find_leaves(X[start : start + 1024])
            slots, shares, starts = self._forest.leaf_points(leaves)
            out[start : start + 1024] = _pooled_quantiles(labels[slots], shares, starts, q)
        return out


def _pooled_quantiles(labels: np.ndarray, shares: np.ndarray, starts: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Quantiles of each part ``labels[starts[k]:starts[k+1]]`` with weights ``shares``."""
    sizes = np.diff(starts)
    row = np.repeat(np.arange(len(sizes)), sizes)
    weight = np.bincount(row, shares, minlength=len(sizes))
    shares = np.where(weight[row] > 0, shares, 1.0)  # rows of weight 0 only: count them alike
    order = np.lexsort((labels, row))
    keep = order[shares[order] > 0]
    row, labels = row[keep], labels[keep]
    total = np.concatenate([[0.0], np.cumsum(shares[keep])])
    first = np.searchsorted(row, np.arange(len(sizes) + 1))
    low, high = total[first[:-1]], total[first[1:]]
    goal = low[:, None] + q * (high - low)[:, None] * (1 - 1e-12)
    at = np.searchsorted(total[1:], goal, side="left")
    return labels[np.clip(at, first[:-1, None], first[1:, None] - 1)]


class BSPForestClassifier(ClassifierMixin, BSPForest):
    """A random forest for classification that learns from a stream.

    Each tree is cut at random places by oblique cuts, {x : a x_i + b x_j = p}, which come at a rate proportional to the
    perimeter of the data, until the budget τ is spent. At any moment the forest is distributed as if it had been grown on
    all the rows it holds at once, whether they came in one batch, in chunks or one by one, and whatever was forgotten.

    Parameters
    ----------
    PARAMETERS
    voting : {"soft", "hard"}, default="soft"
        Average the class frequencies in the leaves, or count the leaves' most frequent classes (as the paper does).

    Attributes
    ----------
    classes_ : ndarray
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had feature names.
    n_samples_seen_ : int
        Rows learned, forgotten ones included.
    n_samples_ : int
        Rows held.
    budget_ : float
        The budget in use.
    trees_ : sequence of TreeView
        The trees as arrays.

    References
    ----------
    Xuhui Fan, Bin Li, Scott A. Sisson. Online Binary Space Partitioning Forests. AISTATS 2020.

    Examples
    --------
    >>> from bspforest import BSPForestClassifier
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> forest = BSPForestClassifier(random_state=0)
    >>> for start in range(0, 1500, 100):
    ...     forest = forest.partial_fit(X[start:start + 100], y[start:start + 100], classes=range(10))
    >>> round(forest.score(X[1500:], y[1500:]), 2)
    0.91
    >>> forest.forget(range(500)).n_samples_
    1000
    """

    _parameter_constraints: dict = {
        **BSPForest._parameter_constraints,
        "voting": [StrOptions({"soft", "hard"})],
    }

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        cuts: str = "pairs",
        budget: str | float | Callable[[int], float] = "minimax",
        budget_scale: float = 1.0,
        min_samples_split: int = 4,
        refinement: str = "exact",
        scaling: Any = "minmax",
        window: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        voting: str = "soft",
    ) -> None:
        super().__init__(
            n_estimators,
            cuts=cuts,
            budget=budget,
            budget_scale=budget_scale,
            min_samples_split=min_samples_split,
            refinement=refinement,
            scaling=scaling,
            window=window,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.voting = voting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn these rows in one batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the labels; they do not change where cuts fall.

        Returns
        -------
        self
        """
        X = self._check_rows(X, reset=True)
        y = self._check_labels(X, y)
        classes, index = np.unique(y, return_inverse=True)
        return self._fit_classes(X, index, sample_weight, classes)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            May be empty.
        y : array-like of shape (n_samples,)
        classes : array-like or None
            All labels that can occur. Required in the first call, optional and checked later.
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        self
        """
        first = not hasattr(self, "_forest")
        if first:
            self._validate_params()
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        X = self._check_rows(X, reset=first, min_rows=1 if first else 0)
        y = self._check_labels(X, y)
        known = unique_labels(np.asarray(classes)) if first else self.classes_
        if not first and classes is not None and not np.array_equal(unique_labels(np.asarray(classes)), known):
            raise ValueError(f"`classes={classes!r}` is not the same as on the first call: {known.tolist()}")
        index = self._index_of(y, known)
        if first:
            return self._fit_classes(X, index, sample_weight, known)
        return self._learn(X, index, self._check_weights(sample_weight, X))

    def _check_labels(self, X: np.ndarray, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if not (type(y) is np.ndarray and y.ndim == 1 and len(y) == len(X)):
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError(f"Input y contains NaN or infinity in row {int(np.argmin(np.isfinite(y)))}.")
        if len(y) and y.dtype.kind not in "iub":
            check_classification_targets(y)
        return y

    @staticmethod
    def _index_of(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
        index = np.searchsorted(classes, y)
        index[index == len(classes)] = 0
        unseen = classes[index] != y
        if np.any(unseen):
            unknown = y[np.argmax(unseen)].item()
            raise ValueError(f"y contains the class {unknown!r}, which is not among the classes {classes.tolist()}")
        return index

    def _fit_classes(self, X: np.ndarray, index: np.ndarray, sample_weight: Any, classes: np.ndarray) -> Self:
        w = self._check_weights(sample_weight, X)
        self._fit_new(X, index.astype(np.float64), w, len(classes))
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class: mean over trees of the class frequencies in the leaf (or of their votes).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        X = self._ready(X)
        sums = self._forest.sum_leaves(X, hard=self.voting == "hard")
        silent = sums[:, -1] == 0
        if silent.any():  # only rows of weight 0 nearby: the frequencies of all
            labels = self._forest.held_labels()
            totals = np.bincount(labels[:, 0].astype(int), labels[:, 1], minlength=len(self.classes_))
            sums[silent, :-1] = totals if totals.any() else 1.0
            sums[silent, -1] = sums[silent, :-1].sum(axis=1)
        return sums[:, :-1] / sums[:, -1:]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


for _class in (BSPForestRegressor, BSPForestClassifier):
    _class.__doc__ = str(_class.__doc__).replace("PARAMETERS", _PARAMETERS)
