"""What a forest decided for itself: the settings in use, and how each was decided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..trees.coordinates import Coordinates
from .config import AUTO_CUTS


class Revision(NamedTuple):
    """What a forest decided at some time, as ``revisions_`` lists it.

    Parameters
    ----------
    n_samples_seen : int
        Rows learned until then.
    scaling : {"minmax", "quantile"}
        By range or by ranks. None and given ranges count as ``"minmax"``.
    feature_weights : {"accepted", "rejected", "kept"}
        What became of other weights of features; ``"kept"`` if none were tried.
    n_effective_features : float
        1 over the sum of squared shares of the weights.
    error_before, error : float
        Mean held-out squared errors: with the scaling and the weights in use before, and with those chosen.
    bandwidth, ridge : float
        Those chosen.
    half_life : float
        Rows weigh half as much for each so many rows that they are older; infinite if all count alike.
    cuts : {"pairs", "axes", "isotropic"}
        The family of cuts.
    error_of_mean : float
        The held-out error of predicting the mean label, or of classes their frequencies.
    n_important_features : float
        1 over the sum of squared importances, before any weights were learned; NaN if none were tried.
    n_forgotten : int
        Rows forgotten since, on which this may still depend. If there are any, a search among the rows left is due, or going on.

    Examples
    --------
    >>> import numpy as np
    >>> from bspforest import BSPForestRegressor
    >>> X = np.random.default_rng(0).random((300, 5))
    >>> BSPForestRegressor(20, random_state=0).fit(X, np.sin(6 * X[:, 0])).revisions_[-1].feature_weights
    'accepted'
    """

    n_samples_seen: int
    scaling: str
    feature_weights: str
    n_effective_features: float
    error_before: float
    error: float
    bandwidth: float
    ridge: float
    half_life: float = np.inf
    cuts: str = AUTO_CUTS[0]
    error_of_mean: float = np.nan
    n_important_features: float = np.nan
    n_forgotten: int = 0

    def describe(self) -> str:
        """Return a line for people.

        Returns
        -------
        str
        """
        scaled = {"minmax": "by range", "quantile": "by ranks"}[self.scaling]
        outcome = f"feature weights {self.feature_weights}"
        if self.feature_weights == "accepted":
            outcome += f": held-out error {self.error_before:.4g} → {self.error:.4g}"
        else:
            outcome += f", held-out error {self.error:.4g}"
        return (
            f"after {self.n_samples_seen:,} rows: {outcome}, {self.n_effective_features:.1f} effective features; "
            f"scaled {scaled}, cut by {self.cuts}, bandwidth {self.bandwidth:.3g}, ridge {self.ridge:.3g}"
            + (f", half-life {self.half_life:,.0f} rows" if self.half_life < np.inf else "")
        )


@dataclass(frozen=True, eq=False)
class Settings:
    """What ridge prediction decides for itself, or is given.

    Attributes
    ----------
    coordinates : Coordinates
        How features are scaled, and their weights. Of settings in use, these are the coordinates of the trees.
    bandwidth : float
        NaN if it can only be chosen by the trees it is for.
    ridge : float
    error : float
        The mean held-out squared error with these settings; NaN if none was found.
    unit : float
        The median time of the first cuts when the bandwidth was chosen; NaN if that is unknown.
    step : float
        Share of its residual that a new row gets as its dual.
    half_life : float
        Rows weigh half as much for each so many rows that they are older.
    revision : Revision or None
        How this was decided; None if there was nothing to decide, and once it is in use.
    """

    coordinates: Coordinates
    bandwidth: float
    ridge: float
    error: float
    unit: float
    step: float
    half_life: float = np.inf
    revision: Revision | None = None

    def export(self) -> list[float]:
        """Return the numbers."""
        return [self.bandwidth, self.ridge, self.error, self.unit, self.step, self.half_life]

    def export_all(self) -> list[Any]:
        """Return everything as JSON can hold it."""
        used = self.coordinates
        arrays = [array.tolist() for array in (used.low, used.high, used.weights, used.knots, used.ranks)]
        return [*self.export(), used.family, arrays, None if self.revision is None else list(self.revision)]

    @classmethod
    def restore(cls, exported: list[Any]) -> Settings:
        """Return the settings that `export_all` returned."""
        *numbers, family, arrays, revision = exported
        low, high, weights = (np.array(array, float) for array in arrays[:3])
        knots, ranks = (np.array(array, float).reshape(len(low), -1) for array in arrays[3:])
        coordinates = Coordinates(low, high, weights, knots, ranks, family)
        return replace(cls(coordinates, *numbers), revision=None if revision is None else Revision(*revision))
