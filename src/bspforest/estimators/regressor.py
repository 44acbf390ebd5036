"""The forests as scikit-learn estimators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_consistent_length

from ..values.mean import means, quantiles_of_all, shares, stds, weighted_quantiles
from .base import BSPForest, is_tame

VOTINGS = ("soft", "hard")

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
        The range of each feature that counts as 1. ``"minmax"`` is the range of the rows held, revised when as many as were held
        have been learned since, if it has moved by more than a tenth, and when `forget` takes a row at one of its ends.
    window : int or None, default=None
        Hold the latest this many rows, and forget older ones. The range of ``scaling`` may be theirs until it is revised.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0
        Show a progress bar while learning."""


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

    Notes
    -----
    Of parameters changed after fitting, ``n_jobs`` and ``verbose`` take effect at once. The others shape the forest:
    `partial_fit` checks them, but goes on with the forest there is, and they take effect with the next `fit`.

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
        return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any, min_rows: int = 1) -> Self:
        with self._or_as_before():
            X, y = self._check_Xy(X, y, reset=True, min_rows=min_rows)
            return self._fit_new(X, y, self._check_label_weights(sample_weight, X, y), 0)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more rows. Parameters as for `fit`; but X may be empty.

        Returns
        -------
        self
        """
        first = not hasattr(self, "_forest")
        if first:
            self._validate_params()
            return self._fit(X, y, sample_weight, min_rows=0)
        self._check_changed_parameters()
        X, y = self._check_Xy(X, y, reset=False, min_rows=0)
        return self._learn(X, y, self._check_label_weights(sample_weight, X, y))

    def _check_label_weights(self, sample_weight: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The weights, if with them the sum of these labels does not overflow."""
        w = self._check_weights(sample_weight, X)
        if len(y) and (sample_weight is not None or not is_tame(y)):
            with np.errstate(over="ignore"):
                largest = 4.0 * np.abs(y).max() * w.sum()
            if not largest < math.inf:
                raise ValueError(
                    "y, times sample_weight, is so large that its sum overflows float64; scale it down first"
                )
        return w

    def _check_Xy(self, X: Any, y: Any, *, reset: bool, min_rows: int = 1) -> tuple[np.ndarray, np.ndarray]:
        X = self._check_rows(X, reset=reset, min_rows=min_rows)
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if not (type(y) is np.ndarray and y.dtype == np.float64 and y.ndim == 1 and len(y) == len(X)):
            y = column_or_1d(y, dtype=np.float64, warn=True)
            check_consistent_length(X, y)
        if not is_tame(y) and not np.isfinite(y).all():
            row = int(np.argmin(np.isfinite(y)))
            what = "NaN" if np.isnan(y[row]) else "infinity"
            raise ValueError(f"Input y contains {what} in row {row}; finite numbers are expected.")
        return X, y

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean over trees of the mean label in the leaf.

        Leaves without weight are left out; where all are, the answer is that of all rows held together (0 with a
        standard deviation of NaN if those have no weight either).

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
        sums = self._forest.trees.sum_leaves(X)
        mean = means(self._forest, sums)
        return (mean, stds(self._forest, sums)) if return_std else mean

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
        try:
            q = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"quantiles must be numbers in [0, 1], got {quantiles!r}") from None
        if q.ndim != 1 or not ((q >= 0) & (q <= 1)).all():
            raise ValueError(f"quantiles must be numbers in [0, 1], got {quantiles!r}")
        X = self._ready(X)
        forest = self._forest
        out = np.empty((len(X), len(q)))
        labels = forest.trees.arrays.labels[:, 0]
        silent = []
        for start in range(0, len(X), 1024):
            points = forest.trees.leaf_points(forest.trees.find_leaves(X[start : start + 1024]))
            for row, (slots, weights) in enumerate(points, start):
                if weights.any():
                    out[row] = weighted_quantiles(labels[slots], weights, q)
                else:
                    silent.append(row)
        if silent:
            out[silent] = quantiles_of_all(forest, q)
        return out


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

    Notes
    -----
    Of parameters changed after fitting, ``n_jobs``, ``verbose`` and ``voting`` take effect at once. The others shape
    the forest: `partial_fit` checks them, but goes on with the forest there is, and they take effect with the next
    `fit`.

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
    >>> forest.score(X[1500:], y[1500:]) > 0.88
    True
    >>> forest.forget(range(500)).n_samples_
    1000
    """

    _parameter_constraints: dict = {
        **BSPForest._parameter_constraints,
        "voting": [StrOptions(set(VOTINGS))],
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
        with self._or_as_before():
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
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self._validate_params()
            with self._or_as_before():
                X = self._check_rows(X, reset=True, min_rows=0)
                known = self._check_classes(classes)
                index = self._index_of(self._check_labels(X, y), known)
                return self._fit_classes(X, index, sample_weight, known)
        self._check_changed_parameters()
        X = self._check_rows(X, reset=False, min_rows=0)
        y = self._check_labels(X, y)
        if classes is not None and not np.array_equal(self._check_classes(classes), self.classes_):
            raise ValueError(f"`classes={classes!r}` is not the same as on the first call: {self.classes_.tolist()}")
        return self._learn(X, self._index_of(y, self.classes_), self._check_weights(sample_weight, X))

    @staticmethod
    def _check_classes(classes: Any) -> np.ndarray:
        given = np.asarray(classes)
        if given.ndim == 2 and given.shape[1] == 1:
            given = given[:, 0]
        if given.ndim != 1 or not given.size:
            raise ValueError(f"classes must be a list of labels, at least one, got {classes!r}")
        return unique_labels(given)

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
        if not len(y):
            return np.empty(0, dtype=np.intp)
        if y.dtype == object:  # what it holds need not compare with the classes
            known = {label: k for k, label in enumerate(classes.tolist())}
            index = np.array([known.get(label, -1) for label in y.tolist()], dtype=np.intp)
            unseen = index < 0
        else:
            try:
                index = np.searchsorted(classes, y)
            except TypeError:
                raise ValueError(
                    f"y contains labels of type {y.dtype}, which cannot be compared with the classes {classes.tolist()}"
                ) from None
            index[index == len(classes)] = 0
            unseen = classes[index] != y
        if np.any(unseen):
            unknown = y.tolist()[np.argmax(unseen)]
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
        if self.voting not in VOTINGS:
            raise ValueError(f"voting must be one of {', '.join(map(repr, VOTINGS))}, got {self.voting!r}")
        X = self._ready(X)
        sums = self._forest.trees.sum_leaves(X, hard=self.voting == "hard")
        return shares(self._forest, sums)

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
