"""What the classifier and the regressor share: parameters, checks of input, learning, forgetting."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, Self

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..engine.forest import OnlineForest, find_range
from ..engine.progress import SILENT, Progress
from ..engine.tree_view import TreeViews

# The range of a feature must not overflow: numbers below this differ by less than the largest float64.
HUGE = 8e307

# The weights of rows that are learned together must not sum to more: the total of all must not overflow.
MOST_WEIGHT = 1e290

# So few numbers are checked by one product.
FEW_NUMBERS = 1000


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
        try:
            budget = float(value) if isinstance(value, Real) else math.nan
        except OverflowError:
            raise ValueError(f"budget must return a number that float64 can hold, or math.inf, for {n} rows") from None
        if not budget >= 0:
            raise ValueError(f"budget must return a number of at least 0, but returned {value!r} for {n} rows")
        return budget * self.scale


def _describe(array: np.ndarray, row: int, column: int, names: np.ndarray | None) -> str:
    what = "NaN" if np.isnan(array[row, column]) else "infinity"
    name = f" ({names[column]!r})" if names is not None else ""
    return f"Input X contains {what} in column {column}{name}, row {row}; finite numbers are expected."


def is_tame(X: np.ndarray) -> bool:
    """Are these few numbers, all finite, and their squares too? For a row in a third of the time that looking at each takes.

    Many are not asked: a product of more than 10,000 starts the threads of BLAS, which then made `fit` 1.3 times as slow.
    """
    return X.size <= FEW_NUMBERS and bool(np.vdot(X, X) < math.inf)


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

    # Whether numbers of `HUGE` and more may be held. A forest that was loaded is looked through once.
    _huge = True

    # The values of the parameters when they were last checked by `partial_fit`.
    _checked: tuple[Any, ...] = ()

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

    def _check_parameters(self) -> None:
        """Check all parameters as `fit` does. The number of features is known."""
        self._validate_params()
        self._make_budget(self.n_features_in_)
        self._make_scaling(self.n_features_in_)

    def _check_changed_parameters(self) -> None:
        """`_check_parameters`, if any is another than last time: the check takes as long as learning a row."""
        values = tuple([getattr(self, name) for name in self._parameter_constraints])
        if len(values) != len(self._checked) or not all(map(operator.is_, values, self._checked)):
            self._check_parameters()
            self._checked = values

    def _check_finite(self, X: np.ndarray) -> np.ndarray:
        if is_tame(X):
            return X
        with np.errstate(invalid="ignore"):
            ends = np.stack(find_range(X))  # which pass on NaN
        if not np.isfinite(ends).all():
            row, column = np.argwhere(~np.isfinite(X))[0]
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
            return np.ones(len(X)) if len(X) != 1 else np.array([1.0])  # half the time
        given = np.asarray(sample_weight)
        if not len(X) and given.shape in ((), (0,)):
            return np.ones(0)
        if len(X) and given.shape in ((), (len(X),)) and (given == 0).all():
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        w = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if not np.isfinite(w).all():
            raise ValueError(f"sample_weight must be finite, got {w[np.argmin(np.isfinite(w))]}")
        with np.errstate(over="ignore"):
            total = w.sum()
        if total >= MOST_WEIGHT:
            raise ValueError(f"sample_weight must sum to less than {MOST_WEIGHT:g}, got {total:g}; scale it down first")
        if len(w) and w.min() < 0:
            raise ValueError(f"sample_weight must not be negative, got {w.min()} in row {int(w.argmin())}")
        return w

    def _check_range(self, X: np.ndarray) -> None:
        """Refuse columns whose range, with the rows held and the range in use, overflows. Nothing is changed before."""
        forest = self._forest
        if not len(X) or forest.scaling != "minmax":
            return
        if not self._huge and (is_tame(X) or np.abs(find_range(X)).max() < HUGE):
            return
        parts = [X, forest.held_rows(), np.stack(forest._range)] if forest.n_held else [X]
        low = np.min([part.min(axis=0) for part in parts], axis=0)
        high = np.max([part.max(axis=0) for part in parts], axis=0)
        with np.errstate(over="ignore"):
            wide = ~np.isfinite(high - low)
        if wide.any():
            column = int(np.argmax(wide))
            raise ValueError(f"the range of column {column} of X overflows float64; scale it down first")
        self._huge = bool(max(-low.min(), high.max()) >= HUGE)

    def _make_budget(self, d: int) -> Callable[[int], float]:
        try:
            if self.budget == "minimax":
                return _Minimax(d, float(self.budget_scale))
            if callable(self.budget):
                return _Scaled(self.budget, float(self.budget_scale))
            return _Constant(float(self.budget) * float(self.budget_scale))
        except OverflowError:
            raise ValueError("budget and budget_scale must be numbers that float64 can hold, or math.inf") from None

    def _make_scaling(self, d: int) -> Any:
        if self.scaling is None or isinstance(self.scaling, str):
            return self.scaling
        if len(self.scaling) != 2:
            raise ValueError(f"scaling must be 'minmax', None or a pair (low, high), got {len(self.scaling)} entries")
        try:
            given = [np.asarray(side) for side in self.scaling]
            if any(side.dtype.kind not in "biufO" for side in given):
                raise TypeError
            low, high = (np.array(np.broadcast_to(side.astype(np.float64), d)) for side in given)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"scaling: low and high must be numbers, one or {d} of them, got {reprlib.repr(self.scaling)}"
            ) from None
        with np.errstate(over="ignore", invalid="ignore"):
            bad = ~((low < high) & np.isfinite(high - low))
        if bad.any():
            k = int(np.argmax(bad))
            raise ValueError(
                f"scaling: low must be below high, and their difference finite, but column {k} has "
                f"low={low[k]}, high={high[k]}"
            )
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
        self._huge = False

    # ------------------------------------------------------------------------------------------------------------------
    # Learning and forgetting

    def _fit_new(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, n_classes: int) -> Self:
        """Learn in a new forest. To be called within `_or_as_before`."""
        self._make_forest(n_classes)
        return self._learn(X, y, w, disposable=True)

    @contextmanager
    def _or_as_before(self) -> Iterator[None]:
        """If the block fails or is interrupted, every attribute is as it was: the old forest, its features, its classes."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _learn(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, *, disposable: bool = False) -> Self:
        self._check_range(X)
        self._set_threads()
        progress = Progress(len(X), type(self).__name__, "rows", enabled=True) if self.verbose else SILENT
        self._forest.learn(X, y, w, progress, disposable=disposable)
        return self

    def _set_threads(self) -> None:
        self._forest.trees.n_threads = 1 if self.n_jobs is None else int(joblib.effective_n_jobs(int(self.n_jobs)))

    def forget(self, ids: Any) -> Self:
        """Forget rows exactly: what is left is distributed as if they had never been seen.

        If they alone reached an end of the range that a feature is scaled by, the trees are built afresh with the range of the
        rows that are left.

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
        n_seen = self.n_samples_seen_
        if given.size and (given.min() < 0 or given.max() >= n_seen):
            bad = given[(given < 0) | (given >= n_seen)][0]
            known = f"rows seen so far have ids 0 to {n_seen - 1}" if n_seen else "no rows have been seen so far"
            raise ValueError(f"unknown id {bad}: {known}")
        wanted = given.astype(np.int64)
        gone = wanted[self._forest.rows.slots_of(wanted) < 0]
        if gone.size:
            raise ValueError(f"id {gone[0]} is already forgotten")
        values, counts = np.unique(wanted, return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"id {values[counts > 1][0]} is given more than once")
        self._set_threads()
        self._forest.forget(wanted)
        return self

    def save(self, path: Any, *, extra: dict[str, Any] | None = None, overwrite: bool = True) -> None:
        """Save the fitted forest in a file that `bspforest.load` reads: see `bspforest.persistence.save`.

        Parameters
        ----------
        path : path-like
        extra : dict or None
            Anything JSON can hold, to be kept in the header of the file.
        overwrite : bool, default=True
            If False, and the file exists, FileExistsError.
        """
        from ..persistence.saver import save

        save(self, path, extra=extra, overwrite=overwrite)

    # ------------------------------------------------------------------------------------------------------------------
    # Asking

    def _ready(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        if self._forest.n_held == 0:
            raise ValueError(
                f"this {type(self).__name__} holds no rows: all it learned, if anything, is forgotten. Call partial_fit with rows first."
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
        return self._forest.trees.find_leaves(X)

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
        """The trees as arrays: see `bspforest.engine.tree_view.TreeView`."""
        return TreeViews(self._core())

    def _core(self) -> OnlineForest:
        try:
            return self._forest
        except AttributeError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_forest")
