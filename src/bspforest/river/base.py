"""The forests in river's conventions: dicts in, one row at a time or a DataFrame at once.

>>> from bspforest.river import BSPForestRegressor
>>> forest = BSPForestRegressor(seed=0)
>>> forest.predict_one({"rain": 0.2, "wind": 3.0})
0.0
>>> forest.learn_one({"rain": 0.2, "wind": 3.0}, 7.5)
>>> forest.predict_one({"wind": 2.0})
7.5
"""

from __future__ import annotations

import gc
import random
import sys
import types
from collections.abc import Callable, Hashable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine.forest import OnlineForest
from ..estimators.base import BSPForest
from ..values.mean import all_shares, mean_of_all, means, shares
from .rows import Columns, check_frame, check_number, check_weight, read_frame, read_row, widen

try:
    from river import base
except ImportError as error:
    raise ImportError("bspforest.river needs river: pip install 'bspforest[river]'") from error

if TYPE_CHECKING:
    import pandas as pd

_PARAMETERS = """\
n_estimators
        Number of trees.
    cuts
        Where cuts may fall: `"pairs"`, lines in two features at a time; `"axes"`, thresholds of one feature (a Mondrian
        forest); or `"isotropic"`, hyperplanes of any direction.
    budget
        How long trees grow: `"minimax"`, which is n^(1/(d+2)) for n rows held and d features, a number, or a function of n
        that does not decrease.
    budget_scale
        Times the budget. The first parameter to tune.
    min_samples_split
        A node with fewer rows is not cut.
    refinement
        `"exact"`, or `"redraw"` for the paper's Algorithm 4 to the letter.
    scaling
        The range of each feature that counts as 1: `"minmax"`, the range seen so far, which makes a scaler in front of the
        forest needless; `None` for features that are scaled already; or one pair `(low, high)` for all features.
    window
        Hold the latest this many rows and forget older ones, exactly. Without it memory grows with the stream.
    seed
        Random seed for reproducibility."""

_FEATURES = """\
A feature is a number. Keys may come in any order. As in river's sparse dicts, **a key that is missing counts as 0**. A new
    key may appear at any time, and counts as 0 in the rows before: the trees are then built afresh from the rows held, which
    costs less than a tenth of learning them again. For text with its thousands of words, hash features first."""


class _RiverForest(base.Estimator):
    """What the classifier and the regressor share."""

    voting = "soft"

    def __init__(
        self,
        n_estimators: int,
        cuts: str,
        budget: str | float | Callable[[int], float],
        budget_scale: float,
        min_samples_split: int,
        refinement: str,
        scaling: str | tuple[float, float] | None,
        window: int | None,
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
        self.seed = seed
        settings = self._settings()
        settings._validate_params()
        settings._make_scaling(1)
        self._rng = random.Random(seed if seed is None else int(seed))
        self._forest: OnlineForest | None = None
        self._columns: Columns = {}
        self._labels: dict[Hashable, int] = {}

    def _settings(self, random_state: int | None = None) -> BSPForest:
        """The parameters as scikit-learn's interface knows them, which checks them and makes forests."""
        return BSPForest(
            self.n_estimators,
            cuts=self.cuts,
            budget=self.budget,
            budget_scale=self.budget_scale,
            min_samples_split=self.min_samples_split,
            refinement=self.refinement,
            scaling=self.scaling,
            window=self.window,
            random_state=random_state,
        )

    def _make_forest(self, n_features: int, n_classes: int) -> OnlineForest:
        settings = self._settings(self._rng.getrandbits(32))
        settings.n_features_in_ = max(n_features, 1)  # rows without any feature are all in one place
        settings._make_forest(n_classes)
        return settings._forest

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def _columns_of(self, x: Mapping) -> Columns:
        """The columns of all keys known and of those of ``x``."""
        try:
            return self._columns if x.keys() <= self._columns.keys() else widen(self._columns, x)
        except (AttributeError, TypeError):
            raise TypeError(f"x must be a dict of features, got {type(x).__name__}") from None

    def _learn(self, columns: Columns, X: np.ndarray, y: np.ndarray, w: np.ndarray, known: dict) -> None:
        """Learn rows in these columns, which may be more than before, as may the labels known."""
        forest = self._forest
        if forest is None:
            forest = self._make_forest(len(columns), len(known))
        elif columns is not self._columns:
            held = np.zeros((forest.n_held, X.shape[1]))
            held[:, : len(self._columns)] = forest.held_rows()[:, : len(self._columns)]
            labels = forest.held_labels()
            forest = self._make_forest(len(columns), len(known))
            X = np.concatenate([held, X])
            y, w = np.concatenate([labels[:, 0], y]), np.concatenate([labels[:, 1], w])
        elif len(known) > forest.trees.n_classes:
            forest.trees.add_classes(len(known) - forest.trees.n_classes)
            self._labels = known
        forest.learn(X, y, w)
        self._forest, self._columns, self._labels = forest, columns, known

    def _code(self, y: Any, known: dict) -> tuple[float, dict]:
        """A label as the forest knows it, and all labels known then."""
        raise NotImplementedError

    def learn_one(self, x: dict, y: Any, w: float = 1.0) -> None:
        """Learn a row.

        Parameters
        ----------
        x
            A dictionary of numbers.
        y
            Its label.
        w
            The weight of the label; it does not change where cuts fall.

        """
        columns = self._columns_of(x)
        row = read_row(x, columns)
        weight = check_weight(w)
        code, known = self._code(y, self._labels)
        if columns is self._columns and known is self._labels and self._forest is not None:
            self._forest.learn_row(row, code, weight)
        else:
            self._learn(columns, row, np.array([code]), np.array([weight]), known)

    def learn_many(self, X: pd.DataFrame, y: Any, w: Any = 1.0) -> None:
        """Learn rows at once. The forest has the same law as after learning them one by one, by other random numbers.

        Parameters
        ----------
        X
            A DataFrame of numbers, one column a feature.
        y
            A Series of labels.
        w
            One weight, or one for each row.

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
        columns = self._columns_of(dict.fromkeys(X.columns))
        rows = read_frame(X, columns)
        weight = np.array([check_weight(v) for v in weights])
        codes, known = np.empty(len(X)), self._labels
        for k, label in enumerate(labels):
            codes[k], known = self._code(label, known)
        self._learn(columns, rows, codes, weight, known)

    # ------------------------------------------------------------------------------------------------------------------
    # Asking

    def _ask_one(self, forest: OnlineForest, x: Mapping) -> list[float]:
        """What the leaves of all trees say, summed: see `bspforest.engine.kernels.predict.add_leaf`."""
        return forest.trees.sum_leaves(read_row(x, self._columns), hard=self.voting == "hard")[0].tolist()

    def _ask_many(self, forest: OnlineForest, X: pd.DataFrame) -> np.ndarray:
        return forest.trees.sum_leaves(read_frame(X, self._columns), hard=self.voting == "hard")

    # ------------------------------------------------------------------------------------------------------------------
    # river's conventions

    @property
    def _raw_memory_usage(self) -> int:
        """Memory in bytes: every object once, and the data of arrays once (river's own count may take those twice)."""
        seen: set[int] = set()
        size = 0
        pending: list[Any] = [self]
        while pending:
            objects = []
            for obj in pending:
                if id(obj) in seen or isinstance(obj, type | types.ModuleType | types.FunctionType):
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


class BSPForestRegressor(_RiverForest, base.MiniBatchRegressor):
    """A random forest of oblique cuts for regression.

    Each tree is cut at random places by lines, {x : a x_i + b x_j = p}, that come at a rate proportional to the perimeter of the
    data, until the budget τ is spent. At any moment the forest is distributed as if it had been grown on all the rows it
    holds at once.

    FEATURES

    Parameters
    ----------
    PARAMETERS

    Examples
    --------
    >>> from bspforest.river import BSPForestRegressor
    >>> from river import datasets, evaluate, metrics

    >>> model = BSPForestRegressor(seed=0)
    >>> error = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    >>> round(error.get(), 1)
    0.3

    References
    ----------
    Xuhui Fan, Bin Li, Scott A. Sisson. Online Binary Space Partitioning Forests. AISTATS 2020.

    """

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        cuts: str = "pairs",
        budget: str | float | Callable[[int], float] = "minimax",
        budget_scale: float = 1.0,
        min_samples_split: int = 4,
        refinement: str = "exact",
        scaling: str | tuple[float, float] | None = "minmax",
        window: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(n_estimators, cuts, budget, budget_scale, min_samples_split, refinement, scaling, window, seed)

    def _code(self, y: Any, known: dict) -> tuple[float, dict]:
        return check_number("y", y), known

    def predict_one(self, x: dict) -> float:
        """The mean over trees of the mean label in the leaf; 0 before any learning.

        Parameters
        ----------
        x
            A dictionary of numbers; keys that were never learned are not looked at.

        """
        forest = self._forest
        if forest is None:
            return 0.0
        sums = self._ask_one(forest, x)
        return sums[4] + sums[0] / sums[3] if sums[3] else mean_of_all(forest)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """`predict_one` for each row of a DataFrame."""
        import pandas as pd

        check_frame(X)
        forest = self._forest
        if forest is None:
            return pd.Series(0.0, index=X.index)
        return pd.Series(means(forest, self._ask_many(forest, X)), index=X.index)


class BSPForestClassifier(_RiverForest, base.MiniBatchClassifier):
    """A random forest of oblique cuts for classification.

    Each tree is cut at random places by lines, {x : a x_i + b x_j = p}, that come at a rate proportional to the perimeter of the
    data, until the budget τ is spent. At any moment the forest is distributed as if it had been grown on all the rows it
    holds at once. New labels may appear at any time.

    FEATURES

    Parameters
    ----------
    PARAMETERS
    voting
        `"soft"`, the mean of the class frequencies in the leaves; or `"hard"`, the votes of the leaves' most frequent classes.

    Examples
    --------
    >>> from bspforest.river import BSPForestClassifier
    >>> from river import datasets, evaluate, metrics

    >>> model = BSPForestClassifier(seed=0)
    >>> accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> round(accuracy.get(), 1)
    0.9

    References
    ----------
    Xuhui Fan, Bin Li, Scott A. Sisson. Online Binary Space Partitioning Forests. AISTATS 2020.

    """

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        cuts: str = "pairs",
        budget: str | float | Callable[[int], float] = "minimax",
        budget_scale: float = 1.0,
        min_samples_split: int = 4,
        refinement: str = "exact",
        scaling: str | tuple[float, float] | None = "minmax",
        window: int | None = None,
        voting: str = "soft",
        seed: int | None = None,
    ) -> None:
        super().__init__(n_estimators, cuts, budget, budget_scale, min_samples_split, refinement, scaling, window, seed)
        if voting not in ("soft", "hard"):
            raise ValueError(f"voting must be 'soft' or 'hard', got {voting!r}")
        self.voting = voting

    @property
    def _multiclass(self) -> bool:
        return True

    def _code(self, y: Any, known: dict) -> tuple[float, dict]:
        try:
            code = known.get(y)
        except TypeError:
            raise TypeError(f"labels must be hashable, got {y!r}") from None
        if code is None:
            if y is None or y != y:
                raise ValueError(f"y must be a label, got {y!r}")
            code = len(known)
            known = {**known, y: code}
        return float(code), known

    def predict_proba_one(self, x: dict, **kwargs: Any) -> dict:
        """The probability of each label seen so far: the mean over trees of the class frequencies in the leaf.

        Parameters
        ----------
        x
            A dictionary of numbers; keys that were never learned are not looked at.

        Returns
        -------
        A dictionary; empty before any learning.

        """
        forest = self._forest
        if forest is None:
            return {}
        *sums, trees = self._ask_one(forest, x)
        if not trees:
            sums, trees = all_shares(forest).tolist(), 1.0
        return {label: share / trees for label, share in zip(self._labels, sums, strict=True)}

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """`predict_proba_one` for each row of a DataFrame; one column a label."""
        import pandas as pd

        check_frame(X)
        forest = self._forest
        if forest is None:
            return pd.DataFrame(index=X.index)
        columns = pd.Index(list(self._labels), tupleize_cols=False)
        return pd.DataFrame(shares(forest, self._ask_many(forest, X)), index=X.index, columns=columns)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The most probable label for each row of a DataFrame; None before any learning."""
        import pandas as pd

        check_frame(X)
        forest = self._forest
        if forest is None:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        labels = list(self._labels)
        best = shares(forest, self._ask_many(forest, X)).argmax(axis=1)
        return pd.Series([labels[k] for k in best], index=X.index)


for _class in (BSPForestRegressor, BSPForestClassifier):
    _class.__doc__ = str(_class.__doc__).replace("PARAMETERS", _PARAMETERS).replace("FEATURES", _FEATURES)
