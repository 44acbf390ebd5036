"""The forest for regression, in river's conventions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from river import proba

from .base import RiverForest, base
from .rows import check_frame, check_number, make_series

if TYPE_CHECKING:
    import pandas as pd


class BSPForestRegressor(RiverForest, base.MiniBatchRegressor):
    """A random forest of oblique cuts for regression.

    Each tree is cut at random places by lines, {x : a x_i + b x_j = p}, that come at a rate proportional to the perimeter of the
    data, until the budget τ is spent. At any moment the trees are distributed as if they had been grown on all the rows they
    hold at once.

    Features are numbers, booleans or text, and `None` and NaN are missing values. They are encoded as scikit-learn's estimators of
    this package do: text as one feature of 0 and 1 per category, a missing number by the mean so far and a mark. New categories
    and missing values may come at any time. The first value of a feature tells whether it is text or a number.

    Keys may come in any order. As in river's sparse dicts, **an absent number counts as 0**; absent text is missing. A new key may
    appear at any time, and counts as absent in the rows before: the trees are then built again from the rows stored, which costs
    less than a tenth of learning them again. If keys or categories keep coming, features are reserved for further ones, and are
    always 0 until they stop coming. For documents with thousands of words, hash features first.

    Parameters
    ----------
    n_estimators
        Number of trees.
    cuts
        Where cuts may fall: `"pairs"`, lines in two features at a time; `"axes"`, thresholds of one feature (a Mondrian
        forest); or `"isotropic"`, hyperplanes of any direction. `"auto"` is pairs, unless axes have a clearly lower held-out
        error; leaf means always use pairs.
    budget
        How long trees grow: `"minimax"`, which is n^(1/(d+2)) for n rows held and d features, a number, or a function of n
        that does not decrease. `"auto"` is infinite for ridge predictions and minimax for means.
    budget_scale
        Multiplies the budget. With `prediction="mean"`, tune this first.
    min_samples_split
        A node with fewer rows is not cut. `"auto"` is a sixth of the number of trees, at least 2 and at most 32, for ridge
        predictions, and 4 for means.
    scaling
        How each feature is scaled to [0, 1], which makes a scaler in front of the forest needless: `"minmax"`, by the range seen
        so far; `"quantile"`, by ranks; `"auto"`, whichever has the lower held-out error; `None` for features that are scaled
        already; or one pair `(low, high)` for all features.
    window
        Hold at most the latest `window` rows, or as many as fit into a size such as `"2 GB"`. With ridge predictions, rows leave in
        blocks of 3 %.
    prediction
        The prediction rule: `"ridge"`, all nodes around a row contribute, large and small, with weights that ridge regression
        finds for all trees together; or `"mean"`, the mean label in the leaf, as in the paper. Ridge predictions are more
        accurate; means need less time and memory.
    feature_weights
        Ridge predictions only. `"learned"` weighs features by how much labels depend on them, if that lowers the held-out error; it is
        learned at each revision of the stream. `None` gives all features the same weight.
    bandwidth
        Ridge predictions only. A larger one gives smaller nodes more weight. `"auto"` chooses it by held-out error at each
        revision of the stream.
    ridge
        Ridge predictions only. The penalty of ridge regression; more noise asks for a larger one. `"auto"` chooses it together
        with `bandwidth`.
    half_life
        Ridge predictions only. Rows weigh half as much for each so many rows that they are older, and leave the forest once they are
        8 half-lives old. `"auto"` chooses it by replaying the latest rows, and again after each rise of the error; without drift, all
        rows count alike. `None`: they always do.
    max_categories
        How many categories of a text feature are told apart; further ones share one, "(other)".
    seed
        Random seed for reproducibility.

    Attributes
    ----------
    feature_importances_
        The share of each feature in what labels vary by, as a dictionary; empty before any learning.

    Examples
    --------
    >>> from bspforest.river import BSPForestRegressor
    >>> from river import datasets, evaluate, metrics

    >>> model = BSPForestRegressor(seed=0)
    >>> error = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    >>> round(error.get(), 1)
    0.2

    References
    ----------
    Xuhui Fan, Bin Li, Scott A. Sisson. Online Binary Space Partitioning Forests. AISTATS 2020.

    """

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        cuts: str = "auto",
        budget: str | float | Callable[[int], float] = "auto",
        budget_scale: float = 1.0,
        min_samples_split: int | str = "auto",
        scaling: str | tuple[float, float] | None = "auto",
        window: int | str | None = None,
        prediction: str = "ridge",
        feature_weights: Any = "learned",
        bandwidth: float | str = "auto",
        ridge: float | str = "auto",
        half_life: float | str | None = "auto",
        max_categories: int = 64,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_estimators,
            cuts,
            budget,
            budget_scale,
            min_samples_split,
            scaling,
            window,
            prediction,
            feature_weights,
            bandwidth,
            ridge,
            half_life,
            max_categories,
            seed,
        )

    def _encode(self, y: Any, known: dict) -> tuple[float, dict]:
        return check_number("y", y), known

    def predict_one(self, x: dict, with_dist: bool = False) -> Any:
        """Return the label of a row; 0 before any learning.

        With `prediction="mean"`, this is the mean over trees of the mean label in the leaf.

        Parameters
        ----------
        x
            A dictionary of numbers and text; keys that were never learned are ignored.
        with_dist
            Return a normal distribution, of class `river.proba.Gaussian`, instead of a number: with the label as its mean, and how
            far off predictions are near the row as its standard deviation.

        Returns
        -------
        A number, or a distribution.
        """
        if with_dist:
            return self._predict_distribution(x)

        def read() -> Any:
            forest = self._live_forest()
            if forest is None:
                return 0.0
            row = self._read_row(forest, x)
            return float(forest.prediction.predict_labels(forest, row, return_std=False, q=None)[0][0])

        return self._read(read)

    def _predict_distribution(self, x: dict) -> proba.Gaussian:

        def read() -> Any:
            forest = self._live_forest()
            if forest is None:
                return proba.Gaussian()
            row = self._read_row(forest, x)
            label, std, _ = forest.prediction.predict_labels(forest, row, return_std=True, q=None)
            return proba.Gaussian._from_state(
                n=forest.n_held, m=float(label[0]), var=float(np.ravel(cast(Any, std))[0]) ** 2, ddof=0
            )

        return self._read(read)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return `predict_one` for each row of a DataFrame.

        Parameters
        ----------
        X
            A DataFrame with one column per feature.

        Returns
        -------
        A Series.
        """
        check_frame(X)

        def read() -> Any:
            forest = self._live_forest()
            if forest is None:
                return make_series(0.0, X)
            rows = self._read_frame(forest, X)
            return make_series(forest.prediction.predict_labels(forest, rows, return_std=False, q=None)[0], X)

        return self._read(read)
