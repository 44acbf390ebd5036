"""The forest for regression, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from .._sklearn_compat import fit_context
from .._validation import check_quantiles, check_targets, check_weights
from ..forest.held_out import Order
from ..forest.locking import lock_of
from .base import BSPForest
from .inputs import read_in_blocks


class BSPForestRegressor(RegressorMixin, BSPForest):
    """A random forest for regression that learns from a stream.

    Each tree is cut at random places by oblique cuts, {x : a x_i + b x_j = p}, which come at a rate proportional to the
    perimeter of the data, until the budget τ is spent. At any moment the trees are distributed as if they had been grown on
    all the rows they hold at once, whether they came in one batch, in chunks or one by one, and whatever was forgotten.

    Parameters
    ----------
    n_estimators : int, default=200
        Number of trees.
    cuts : {"auto", "pairs", "axes", "isotropic"}, default="auto"
        Where cuts may fall: ``"pairs"``, lines in two features at a time (the paper's oblique cuts); ``"axes"``, thresholds of one
        feature (a Mondrian forest); ``"isotropic"``, hyperplanes of any direction (a STIT forest). ``"auto"`` is pairs, unless
        axes have a clearly lower held-out error; leaf means always use pairs.
    budget : "auto", "minimax", float, math.inf or callable, default="auto"
        How long trees grow. ``"minimax"`` is n^(1/(d+2)) for n rows held and d features; a callable is given n and must
        not decrease. A larger budget means smaller leaves. ``"auto"`` is infinite for ridge predictions and minimax for means.
    budget_scale : float, default=1.0
        Multiplies the budget. With ``prediction="mean"``, tune this first.
    min_samples_split : "auto" or int, default="auto"
        A node with fewer rows is not cut. ``"auto"`` is a sixth of the number of trees, at least 2 and at most 32, for ridge
        predictions, and 4 for means.
    scaling : "auto", "minmax", "quantile", None or (low, high), default="auto"
        How each feature is scaled to [0, 1]: by the range of the rows held (``"minmax"``), by ranks among them (``"quantile"``),
        or by a given range; None leaves features as they are. ``"auto"`` is ``"minmax"`` unless ranks have a lower held-out error;
        with ``prediction="mean"`` it is ``"minmax"``. The scaling is revised when the number of rows learned since equals the number
        held then, if it has moved, and when `forget` removes a row that it depends on.
    window : int, str or None, default=None
        Hold at most the latest ``window`` rows, or as many as fit into a size such as ``"2 GB"``. With ridge predictions, rows leave
        in blocks of 3 %, just before duals are solved for. Until it is revised, the range of ``scaling`` may be that of older rows.
    prediction : {"ridge", "mean"}, default="ridge"
        The prediction rule. ``"ridge"``: all nodes around a row contribute, large and small, with weights that ridge
        regression finds for all trees together (see Notes). ``"mean"``: the mean label in the leaf, as in the paper. Ridge
        predictions are more accurate; means need less time and memory.
    feature_weights : {"learned"}, array-like or None, default="learned"
        Ridge predictions only. ``"learned"`` weighs features by how much labels depend on them, if that lowers the held-out error;
        it is learned in `fit` and at each revision of a stream. None gives all features the same weight.
    bandwidth : "auto" or float, default="auto"
        Ridge predictions only. The time at which a tree has shown half of what it has to say: a larger one gives smaller nodes
        more weight. ``"auto"`` chooses it by held-out error, in `fit` and at each revision of a stream.
    ridge : "auto" or float, default="auto"
        Ridge predictions only. The penalty of ridge regression, divided by the weight of each row; more noise asks for a larger
        one. ``"auto"`` chooses it together with ``bandwidth``.
    half_life : "auto", None or float, default="auto"
        Ridge predictions of streams only: `partial_fit`. Rows weigh half as much for each so many rows that they are older, and leave
        the forest once they are 8 half-lives old. ``"auto"`` chooses it by replaying the latest rows, and again after each rise of
        the error; without drift, all rows count alike. None: they always do, as after `fit`.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Columns of numbers or dates that are categories: a mask, indices or names. Columns of type category, and text that is not ISO
        dates, are always categories. With None, text is refused.
    max_categories : int, default=64
        Categories of a column that have a feature of their own. All others share one.
    hash_keys : bool, default=False
        Hold only hashes of the keys of rows, salted with random bytes that are kept with them. They tell nothing about a key
        that cannot be guessed.
    n_jobs : int or None, default=None
        Number of threads. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the random streams of the trees.
    verbose : int, default=0
        Show a progress bar while learning, and what was decided (see ``revisions_``).

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had any.
    encoded_feature_names_ : list of str
        The features that trees are made of: the names of columns, and of their missing values, categories and cycles.
    n_outputs_ : int
        Numbers per label.
    n_samples_seen_ : int
        Rows learned, forgotten ones included.
    n_samples_ : int
        Rows held.
    budget_ : float
        The budget in use.
    half_life_ : float
        The half-life in use; infinite if all rows count alike. Ridge predictions only.
    bandwidth_, ridge_ : float
        The bandwidth and the ridge in use. Ridge predictions only.
    validation_error_ : float
        The held-out squared error (of all outputs, summed) with which they were chosen; NaN if both were given. Ridge
        predictions only.
    feature_importances_ : ndarray of shape (n_features,)
        The share of each feature in what labels vary by: its mean squared slope, found from the cuts of the trees, times its
        variance. They sum to 1, or are 0 if labels depend on no feature.
    feature_weights_ : ndarray of shape (n_features,)
        What each feature, once scaled, is multiplied by; the largest is 1.
    revisions_ : list of Revision
        What was decided in `fit` and at each revision of a stream, the latest 100. Ridge predictions only.
    trees_ : sequence of TreeView
        The trees as arrays.
    nbytes_ : int
        Memory of trees and rows in bytes.

    Notes
    -----
    Ridge predictions are ridge regression in the kernel of the forest. Let T(x, z) be the time at which a tree separates x from z,
    and θ the bandwidth; then K(x, z) is the mean over trees of T / (T + θ), or of 1 if they are never separated. The prediction
    is μ + Σ K(x, x_i) α_i, with μ the mean label, and the duals α solve (K + λ/weight) α = y - μ, with λ the ridge. A row
    that arrives gets its own dual at once; those of all rows are solved again when the rows held have grown by a tenth.
    After `forget` they are solved afresh before the next answer, as if the rows forgotten had never been seen.

    Of parameters changed after fitting, ``n_jobs`` and ``verbose`` take effect at once. The others shape the forest:
    `partial_fit` checks them but continues with the forest there is; they take effect with the next `fit`.

    References
    ----------
    Xuhui Fan, Bin Li, Scott A. Sisson. Online Binary Space Partitioning Forests. AISTATS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from bspforest import BSPForestRegressor
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(2000, random_state=0)
    >>> forest = BSPForestRegressor(random_state=0).fit(X[:1000], y[:1000])
    >>> round(forest.score(X[1500:], y[1500:]), 2)
    0.99
    >>> forest.partial_fit(X[1000:1500], y[1000:1500]).n_samples_
    1500
    >>> round(forest.score(X[1500:], y[1500:]), 2)
    0.99
    >>> mean, std = forest.predict(X[1500:], return_std=True)
    >>> two = BSPForestRegressor(random_state=0).fit(X[:1000], np.stack([y, X[:, 0]], axis=1)[:1000])
    >>> two.predict(X[1500:]).shape
    (500, 2)
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, keys: Any = None, *, in_order: bool = False) -> Self:
        """Forget everything and learn these rows in one batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Several outputs need ridge predictions.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the labels; they do not change where cuts fall.
        keys : array-like of str or int of shape (n_samples,), or None
            What the rows are called, for `forget`: several rows may have the same key, and None is no key.
        in_order : bool, default=False
            The rows are in order of time, and those to predict come later. Settings and intervals are then judged by blocks of
            neighbouring rows that are held out, as neighbours in time are often alike.

        Returns
        -------
        self
        """
        order: Order = "time" if in_order else "any"
        return self._become(self._make_unfitted()._fit(X, y, sample_weight, keys, order=order))

    def _fit(self, X: Any, y: Any, sample_weight: Any, keys: Any, *, order: Order) -> Self:
        X = self._read_first(X, min_rows=0 if order == "stream" else 1)
        y = check_targets(type(self).__name__, X, y)
        return self._fit_new(X, y, check_weights(sample_weight, X), 0, keys, order=order)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, keys: Any = None) -> Self:
        """Learn more rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            May be empty.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Several outputs need ridge predictions.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the labels; they do not change where cuts fall.
        keys : array-like of str or int of shape (n_samples,), or None
            What the rows are called, for `forget`: several rows may have the same key, and None is no key.

        Returns
        -------
        self
        """
        with lock_of(self).changing:
            if not hasattr(self, "_forest"):
                self._validate_params()
                return self._become(self._make_unfitted()._fit(X, y, sample_weight, keys, order="stream"))
            self._check_changed_parameters()
            reading = self._read_more(X)
            X = reading.rows
            y = check_targets(type(self).__name__, X, y)
            n_outputs = y.shape[1] if y.ndim == 2 else 1
            if n_outputs != self.n_outputs_:
                raise ValueError(f"y has {n_outputs} columns, but this forest has learned {self.n_outputs_}")
            return self._learn(reading, y, check_weights(sample_weight, X), keys)

    @property
    def n_outputs_(self) -> int:
        """Numbers per label."""
        return self._fitted_forest().config.n_outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.prediction == "ridge"
        return tags

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the label of each row.

        With ``prediction="mean"``, this is the mean over trees of the mean label in the leaf. Leaves without weight are left out.
        Where all are, the answer is that of all rows held together (0 with a standard deviation of NaN if those have no weight
        either).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Also return the standard deviation of the label. With ridge predictions, it is learned from the errors of predictions
            made without the row: when it arrived, or held out. With ``prediction="mean"``, it is, by the law of total variance, the
            mean variance in a leaf plus the variance of the leaf means over trees.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs), or two of them
        """
        mean, std, _ = self._predict_labels(X, return_std, None)
        return (mean, std) if return_std else mean

    def _predict_labels(self, X: Any, return_std: bool, q: np.ndarray | None) -> tuple[np.ndarray, Any, Any]:
        """Return the label of each row, and, if asked, its standard deviation and its quantiles: those not asked are None.

        The trees are walked once for all of them.
        """
        compute = lambda some: self._compute_labels(some, return_std, q)  # noqa: E731
        return self._read(lambda: read_in_blocks(compute, X))

    def _compute_labels(self, X: Any, return_std: bool, q: np.ndarray | None) -> tuple[np.ndarray, Any, Any]:
        """Return what `_predict_labels` does, while nothing changes."""
        X = self._check_before_predict(X)
        if q is not None and self.n_outputs_ > 1:
            raise ValueError(f"predict_quantiles needs a forest with one output, but this one has {self.n_outputs_}")
        return self._forest.prediction.predict_labels(self._forest, X, return_std=return_std, q=q)

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Return quantiles of the label. There must be one output.

        With ridge predictions, a quantile is the prediction plus its standard deviation times the quantile of errors, each relative to
        its standard deviation, of predictions made without the row. With ``prediction="mean"``, each tree spreads a weight of 1 over
        the labels in its leaf; a quantile is the smallest label at which the sum of the weights reaches its share.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        quantiles : array-like of float in [0, 1]

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
        """
        return self._predict_labels(X, False, check_quantiles(quantiles))[2]
