"""The forest for classification, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight

from .._sklearn_compat import StrOptions, fit_context
from .._validation import check_classes, check_labels, check_weights, encode_labels
from ..forest.held_out import Order
from ..forest.locking import lock_of
from .base import BSPForest
from .encoding import Reading
from .inputs import read_in_blocks

VOTINGS = ("soft", "hard")


class BSPForestClassifier(ClassifierMixin, BSPForest):
    """A random forest for classification that learns from a stream.

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
        regression finds for all trees together (see Notes). ``"mean"``: the class frequencies in the leaf, as in the paper. Ridge
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
    voting : {"soft", "hard"}, default="soft"
        Average the class frequencies in the leaves, or count the leaves' most frequent classes (as the paper does). Only with
        ``prediction="mean"``; ridge predictions do not vote.
    class_weight : "balanced", dict or None, default=None
        Weights of the classes, multiplied with ``sample_weight``. ``"balanced"``, inversely proportional to the class
        frequencies, needs all labels at once: `fit` takes it, `partial_fit` does not.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    n_classes_ : int
        Number of classes.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had any.
    encoded_feature_names_ : list of str
        The features that trees are made of: the names of columns, and of their missing values, categories and cycles.
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
        The held-out squared error (of the class columns, summed) with which they were chosen; NaN if both were given. Ridge
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
    is μ + Σ K(x, x_i) α_i, with μ the mean label, and the duals α solve (K + λ/weight) α = y - μ, with λ the ridge; y has a
    column of 0 and 1 for each class. A row
    that arrives gets its own dual at once; those of all rows are solved again when the rows held have grown by a tenth.
    After `forget` they are solved afresh before the next answer, as if the rows forgotten had never been seen.

    Of parameters changed after fitting, ``n_jobs``, ``verbose`` and ``voting`` take effect at once, and ``class_weight``
    with the next rows. The others shape the forest: `partial_fit` checks them but continues with the forest there is; they
    take effect with the next `fit`.

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
    >>> forest.score(X[1500:], y[1500:]) > 0.91
    True
    >>> forest.forget(range(500)).n_samples_
    1000
    """

    _parameter_constraints: dict = {
        **BSPForest._parameter_constraints,
        "voting": [StrOptions(set(VOTINGS))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

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
        voting: str = "soft",
        class_weight: str | dict | None = None,
    ) -> None:
        super().__init__(
            n_estimators,
            cuts=cuts,
            budget=budget,
            budget_scale=budget_scale,
            min_samples_split=min_samples_split,
            scaling=scaling,
            window=window,
            prediction=prediction,
            feature_weights=feature_weights,
            bandwidth=bandwidth,
            ridge=ridge,
            half_life=half_life,
            categorical_features=categorical_features,
            max_categories=max_categories,
            hash_keys=hash_keys,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.voting = voting
        self.class_weight = class_weight

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, keys: Any = None, *, in_order: bool = False) -> Self:
        """Forget everything and learn these rows in one batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the labels; they do not change where cuts fall.
        keys : array-like of str or int of shape (n_samples,), or None
            What the rows are called, for `forget`: several rows may have the same key, and None is no key.
        in_order : bool, default=False
            The rows are in order of time, and those to predict come later. Settings and probabilities are then judged by blocks of
            neighbouring rows that are held out, as neighbours in time are often alike.

        Returns
        -------
        self
        """
        fresh = self._make_unfitted()
        X = fresh._read_first(X, min_rows=1)
        y = check_labels(type(self).__name__, X, y)
        classes, index = np.unique(y, return_inverse=True)
        order: Order = "time" if in_order else "any"
        return self._become(fresh._fit_classes(X, index, sample_weight, classes, keys, order=order))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, keys: Any = None) -> Self:
        """Learn more rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            May be empty.
        y : array-like of shape (n_samples,)
        classes : array-like or None
            All labels that can occur. Required in the first call, optional and checked later.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the labels; they do not change where cuts fall.
        keys : array-like of str or int of shape (n_samples,), or None
            What the rows are called, for `forget`: several rows may have the same key, and None is no key.

        Returns
        -------
        self
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once and is not supported by partial_fit; compute the weights "
                "with sklearn.utils.class_weight.compute_class_weight and pass them as a dict"
            )
        with lock_of(self).changing:
            if not hasattr(self, "_forest"):
                return self._fit_first(X, y, classes, sample_weight, keys)
            reading, y = self._check_more(X, y)
            if classes is not None and not np.array_equal(check_classes(classes), self.classes_):
                raise ValueError(
                    f"`classes={classes!r}` is not the same as on the first call: {self.classes_.tolist()}"
                )
            index = encode_labels(y, self.classes_)
            w = self._check_weights(sample_weight, reading.rows, index, self.classes_)
            return self._learn(reading, index, w, keys)

    def _check_more(self, X: Any, y: Any) -> tuple[Reading, np.ndarray]:
        """Return more rows and their labels, once they and the parameters are checked."""
        self._check_changed_parameters()
        reading = self._read_more(X)
        return reading, check_labels(type(self).__name__, reading.rows, y)

    def _add_classes(self, classes: np.ndarray, places: np.ndarray, X: Any, y: Any, keys: Any = None) -> Self:
        """Learn rows with labels among more classes than before. If the rows are refused, nothing has changed.

        Parameters
        ----------
        classes : ndarray
            All labels, sorted.
        places : ndarray of int
            The places of the present classes among them, increasing. Classes may get other labels on this occasion.
        X, y, keys : as for `partial_fit`
        """
        with lock_of(self).changing:
            reading, y = self._check_more(X, y)
            index = encode_labels(y, classes)
            w = self._check_weights(None, reading.rows, index, classes)

            def insert() -> None:
                try:
                    if self._forest.config.n_classes < len(classes):  # else learning begins again
                        self._forest.insert_classes(places, len(classes))
                finally:
                    if self._forest.labels.n_classes == len(classes):  # also if that was interrupted
                        self.classes_ = classes

            return self._learn(reading, index, w, keys, insert)

    def _fit_first(self, X: Any, y: Any, classes: Any, sample_weight: Any, keys: Any) -> Self:
        """Learn the rows of the first call of `partial_fit`."""
        if classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        self._validate_params()
        fresh = self._make_unfitted()
        X = fresh._read_first(X, min_rows=0)
        known = check_classes(classes)
        index = encode_labels(check_labels(type(self).__name__, X, y), known)
        return self._become(fresh._fit_classes(X, index, sample_weight, known, keys, order="stream"))

    def _fit_classes(
        self, X: np.ndarray, index: np.ndarray, sample_weight: Any, classes: np.ndarray, keys: Any, *, order: Order
    ) -> Self:
        w = self._check_weights(sample_weight, X, index, classes)
        self._fit_new(X, index.astype(np.float64), w, len(classes), keys, order=order)
        self.classes_ = classes
        return self

    def _check_weights(self, sample_weight: Any, X: np.ndarray, index: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return the weights of the rows, those of their classes included."""
        w = check_weights(sample_weight, X)
        if self.class_weight is None or not len(w):
            return w
        weights = compute_class_weight(self.class_weight, classes=classes, y=classes[index])
        return check_weights(w * weights[index], X)

    @property
    def n_classes_(self) -> int:
        """Number of classes."""
        return len(self.classes_)

    def _decode(self, labels: np.ndarray) -> np.ndarray:
        return self.classes_[labels.astype(np.intp)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        With ridge predictions, the scores of ridge regression, calibrated with the scores of rows before they were learned, or held
        out: proportional to max(score, ε)^(1/T). With ``prediction="mean"``, the mean over trees of the class frequencies in the
        leaf, or of votes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._read(lambda: read_in_blocks(self._compute_probabilities, X))

    def _compute_probabilities(self, X: Any) -> np.ndarray:
        """Return what `predict_proba` does, while nothing changes."""
        if self.voting not in VOTINGS:
            raise ValueError(f"voting must be one of {', '.join(map(repr, VOTINGS))}, got {self.voting!r}")
        X = self._check_before_predict(X)
        return self._forest.prediction.predict_proba(self._forest, X, hard=self.voting == "hard")

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of the probability of each class; minus infinity where it is 0.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """

        def read() -> np.ndarray:  # both at once: another `fit` may change the classes
            best = read_in_blocks(self._compute_probabilities, X).argmax(axis=1)
            return self.classes_[best]

        return self._read(read)
