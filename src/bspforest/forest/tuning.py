"""What a forest decides for itself: `Settings`, chosen by held-out squared error (docs/design.md, section 8).

All of it is tried on a sample of the rows, with trees of its own. Coordinates are replaced only if that lowers the held-out error by
more than one standard error of the paired differences.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..trees.coordinates import Coordinates
from ..trees.trees import TreeEnsemble
from . import solver
from .columns import find_columns
from .feature_weights import can_learn, find_slopes, find_weights
from .held_out import MAX_COLUMNS, HeldOut, project
from .solver import KernelMatrix
from .stepping import choose_step
from .steps import Steps, finish

if TYPE_CHECKING:
    from .forest import OnlineForest
    from .ridge import RidgePrediction

# Rows and trees with which everything is tried. (30 trees decide wrongly now and then.)
SAMPLE_ROWS = 10_000
SAMPLE_TREES = 50

# Multiples of the median time of the first cuts, and ridges, that are tried.
BANDWIDTHS = 2.5 * 2.0 ** np.arange(9)
RIDGES = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
FIRST_BANDWIDTH = 3

# The smallest ridge with a window. What a row that leaves has said is missed until the next solve, and without noise a small ridge has
# rows say much. (Six features, window of 1,000, 20 trees, right in the second half of `benchmarks/drift.py`: 0.87 with any ridge, 0.95
# from 0.1, 0.97 from 1 on.)
MIN_IN_WINDOW = 1.0

# The ridge until there are enough rows to choose one: see `bspforest.forest.ridge.MIN_DECIDING`.
FIRST_RIDGE = 0.3

# Rounds in which feature weights are learned: in a batch, and at each doubling of a stream.
ROUNDS, ROUNDS_IN_STREAM = 3, 1

# Work of building a tree per row, in units of `bspforest.forest.steps`.
BUILDING = 30.0

# Trees with which the ridge is corrected once all rows are there, and rows that are held out for it.
CORRECTING_TREES = 16
CORRECTING_ROWS = 20_000


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
            f"scaled {scaled}, bandwidth {self.bandwidth:.3g}, ridge {self.ridge:.3g}"
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
    revision : Revision or None
        How this was decided; None if there was nothing to decide, and once it is in use.
    """

    coordinates: Coordinates
    bandwidth: float
    ridge: float
    error: float
    unit: float
    step: float
    revision: Revision | None = None

    def export(self) -> list[float]:
        """Return the numbers."""
        return [self.bandwidth, self.ridge, self.error, self.unit, self.step]

    def export_all(self) -> list[Any]:
        """Return everything as JSON can hold it."""
        arrays = [getattr(self.coordinates, field.name).tolist() for field in fields(Coordinates)]
        return [*self.export(), arrays, None if self.revision is None else list(self.revision)]

    @classmethod
    def restore(cls, exported: list[Any]) -> Settings:
        """Return the settings that `export_all` returned."""
        *numbers, arrays, revision = exported
        low, high, weights = (np.array(array, float) for array in arrays[:3])
        knots, ranks = (np.array(array, float).reshape(len(low), -1) for array in arrays[3:])
        coordinates = Coordinates(low, high, weights, knots, ranks)
        return replace(cls(coordinates, *numbers), revision=None if revision is None else Revision(*revision))


# ----------------------------------------------------------------------------------------------------------------------
# The search


@dataclass
class _Sample:
    """Rows that everything is tried on.

    Parameters
    ----------
    like : TreeEnsemble
        Trees of the family to try with.
    X, y, w : ndarray
        Rows as given, oldest first, label columns and weights.
    budget : float
    streams : ndarray
        Random streams of the trees, the same for everything that is tried: trees then differ only where coordinates do.
    held_out : HeldOut
        Of these rows, by their place.
    bandwidth : float or None
        As given.
    ridges : ndarray
        Those to try, in increasing order.
    """

    like: TreeEnsemble
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray
    budget: float
    streams: np.ndarray
    held_out: HeldOut
    bandwidth: float | None
    ridges: np.ndarray


class _Trial:
    """Coordinates that are tried: trees in them, and the errors found with bandwidths, by number, and ridges."""

    def __init__(self, sample: _Sample, coordinates: Coordinates) -> None:
        self.sample, self.coordinates = sample, coordinates
        n = len(sample.X)
        trees = sample.like.make_apart(sample.streams, sample.X, coordinates)
        trees.build(np.arange(n, dtype=np.int32), sample.budget)
        self.unit = find_median_root_time(trees)
        self._scale = self.unit if 0 < self.unit < np.inf else 1.0
        self.matrix = KernelMatrix(trees, n, sample.bandwidth or self._scale, knows_nodes=True)
        self._bandwidths = BANDWIDTHS * self._scale if sample.bandwidth is None else np.array([sample.bandwidth])
        self._errors: dict[int, np.ndarray] = {}
        self._at = 0

    @property
    def ratio(self) -> float:
        """The bandwidth relative to the median time of the first cuts."""
        return float(self._bandwidths[self._at]) / self._scale

    def start(self, ratio: float | None) -> Steps[None]:
        """Try the bandwidth that is nearest to ``ratio`` times the median time of the first cuts, or else a medium one."""
        yield (BUILDING + 4.0) * self.matrix.n_rows * self.matrix.n_trees + 4.0 * solver.MIN_WORK
        if ratio is not None:
            self._at = int(np.abs(np.log(self._bandwidths / (ratio * self._scale))).argmin())
        elif self.sample.bandwidth is None:
            self._at = FIRST_BANDWIDTH
        yield from self._try(self._at)

    def climb(self) -> Steps[None]:
        """Search bandwidths up and down from the present one."""
        best = yield from self._try(self._at)
        for step in (1, -1):
            while 0 <= self._at + step < len(self._bandwidths):
                error = yield from self._try(self._at + step)
                if error >= best:
                    break
                self._at, best = self._at + step, error

    def _try(self, k: int) -> Steps[float]:
        """Return the mean error with bandwidth number k and the best ridge."""
        if k not in self._errors:
            self.matrix.set_bandwidth(self._bandwidths[k])
            self._errors[k] = yield from self.sample.held_out.errors(self.matrix, self.sample.ridges)
        return float(self._errors[k].mean(axis=1).min())

    def beats(self, other: _Trial) -> bool:
        """Return whether the errors are lower by more than one standard error of the paired differences."""
        errors, others = (t._errors[t._at][t._errors[t._at].mean(axis=1).argmin()] for t in (self, other))
        gaps = others - errors
        return bool(gaps.mean() > gaps.std() / np.sqrt(len(gaps)))

    def choose(self) -> Settings:
        """Return the settings with the present bandwidth."""
        errors, held_out = self._errors[self._at], self.sample.held_out
        k = held_out.pick_ridge(errors)
        bandwidth, ridge = float(self._bandwidths[self._at]), float(self.sample.ridges[k])
        return Settings(self.coordinates, bandwidth, ridge, held_out.average(errors[k]), self.unit, 1.0)

    def learn_weights(self) -> np.ndarray | None:
        """Return the feature weights that slopes suggest."""
        return find_weights(find_slopes(self.matrix, self.sample.y, self.sample.w), self.coordinates.weights)


def search_settings(prediction: RidgePrediction, forest: OnlineForest) -> Steps[Settings]:
    """Choose settings for the rows stored."""
    config, used, slots, n_seen = forest.config, prediction.settings, forest.rows.held_slots(), forest.n_seen
    current = find_current(prediction, forest)
    rng = np.random.default_rng([prediction.seed, n_seen])
    some = slots
    if len(slots) > SAMPLE_ROWS:
        some = slots[-SAMPLE_ROWS:] if prediction.in_order else np.sort(rng.choice(slots, SAMPLE_ROWS, replace=False))
    w = forest.weights[some]
    bandwidth, ridge = prediction.given_bandwidth, prediction.given_ridge
    decides = config.learns_weights or config.scaling == "auto" or bandwidth is None or ridge is None
    if not decides or np.count_nonzero(w) < 2:
        if used is None:
            return Settings(current, bandwidth or np.nan, ridge or FIRST_RIDGE, np.nan, np.nan, 1.0)
        return replace(used, unit=np.nan, step=1.0, coordinates=current)
    y = project(find_columns(forest, some), rng)
    X = forest.trees.given[some]
    streams = rng.integers(0, 2**64, size=(min(SAMPLE_TREES, forest.trees.n_trees), 4), dtype=np.uint64)
    held_out = HeldOut(np.arange(len(some)), y, w, latest=prediction.in_order, rng=rng)
    ridges = RIDGES[find_least_ridge(forest) <= RIDGES] if ridge is None else np.array([ridge])
    sample = _Sample(forest.trees, X, y, w, config.budget(len(some)), streams, held_out, bandwidth, ridges)
    other = None
    if config.scaling == "auto":
        other = forest.fit_coordinates(slots, "minmax" if current.uses_ranks else "quantile").weigh(current.weights)
    n_rounds = 0 if not config.learns_weights else ROUNDS_IN_STREAM if prediction.in_order else ROUNDS
    ratio = None if used is None or not 0 < used.unit < np.inf else used.bandwidth / used.unit
    groups = forest.trees.groups
    best, outcome, error_before = yield from _try_coordinates(sample, current, other, ratio, n_rounds)
    settings = best.choose()
    step = yield from choose_step(best.matrix, y, w, settings.bandwidth, settings.ridge)
    revision = Revision(
        n_samples_seen=n_seen,
        scaling=best.coordinates.kind,
        feature_weights=outcome,
        n_effective_features=count_effective(best.coordinates.weights, groups),
        error_before=error_before,
        error=settings.error,
        bandwidth=settings.bandwidth,
        ridge=settings.ridge,
    )
    return replace(settings, step=step, revision=revision)


def _try_coordinates(
    sample: _Sample, current: Coordinates, other: Coordinates | None, ratio: float | None, n_rounds: int
) -> Steps[tuple[_Trial, str, float]]:
    """Return the best trial, what became of the feature weights, and the error before.

    Parameters
    ----------
    sample : _Sample
    current : Coordinates
        To begin with.
    other : Coordinates or None
        The same with the other kind of scaling, if that may be chosen.
    ratio : float or None
        The bandwidth in use, relative to the median time of the first cuts.
    n_rounds : int
        Rounds in which feature weights are learned.
    """
    best = first = _Trial(sample, current)
    yield from best.start(ratio)
    yield from best.climb()
    error_before = first.choose().error
    if other is not None:
        trial = _Trial(sample, other)
        yield from trial.start(best.ratio)
        best = trial if trial.beats(best) else best
    outcome = "kept"
    for _ in range(n_rounds if can_learn(sample.like) else 0):
        weights = best.learn_weights()
        yield 10 * best.matrix.count_work(1)
        outcome = "rejected" if outcome == "kept" else outcome
        if weights is None:
            break
        trial = _Trial(sample, best.coordinates.weigh(weights))
        yield from trial.start(best.ratio)
        if not trial.beats(best):
            break
        best, outcome = trial, "accepted"
    if best is not first:
        yield from best.climb()
    return best, outcome, error_before


def correct_ridge(
    prediction: RidgePrediction,
    forest: OnlineForest,
    settings: Settings,
    matrix: KernelMatrix,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> tuple[Settings, np.ndarray | None]:
    """Return settings with their ridge, or one that is three times as large or small; and duals to start from.

    A sample needs a larger ridge than all rows. ``rows`` are from `collect_columns`.
    """
    slots, y, w = rows
    rng = np.random.default_rng([prediction.seed, forest.n_seen])
    held_out = HeldOut(slots, project(y, rng), w, latest=prediction.in_order, rng=rng, most=CORRECTING_ROWS)
    some = matrix.first(CORRECTING_TREES)
    errors, duals = finish(held_out.errors_of(some, settings.ridge, None))
    above, duals_above = finish(held_out.errors_of(some, 3.0 * settings.ridge, duals))
    below, duals_below = np.full_like(errors, np.inf), duals
    if above.mean() > errors.mean() and settings.ridge / 3.0 >= find_least_ridge(forest):
        below, duals_below = finish(held_out.errors_of(some, settings.ridge / 3.0, duals))
    tried = np.stack([below, errors, above])
    k = held_out.pick_ridge(tried)
    ridge = settings.ridge * (1.0 / 3.0, 1.0, 3.0)[k]
    assert settings.revision is not None
    settings = replace(
        settings, ridge=ridge, error=held_out.average(tried[k]), revision=settings.revision._replace(ridge=ridge)
    )
    return settings, (duals_below, duals, duals_above)[k] * held_out.scale if y.shape[1] <= MAX_COLUMNS else None


def find_least_ridge(forest: OnlineForest) -> float:
    """Return the smallest ridge that may be chosen."""
    return MIN_IN_WINDOW if forest.config.window is not None else 0.0


def find_current(prediction: RidgePrediction, forest: OnlineForest) -> Coordinates:
    """Return the coordinates in use if they still fit the rows stored, else such as do; at first those of the configuration."""
    used, slots = forest.trees.coordinates, forest.rows.held_slots()
    if prediction.settings is None:
        fitting = forest.fit_coordinates(slots)
        return used if used.is_equal(fitting) else fitting
    fitting = forest.fit_coordinates(slots, used.kind).weigh(used.weights)
    return used if used.is_close(fitting) else fitting


def find_median_root_time(trees: TreeEnsemble) -> float:
    """Return the median over trees of the time of the first cut; infinite if a tree has none."""
    times = trees.find_root_times()
    return float(np.median(times)) if np.isfinite(times).all() else np.inf


def count_effective(weights: np.ndarray, groups: np.ndarray | None) -> float:
    """Return the number of equal weights that would be spread as these are; features that share one count once."""
    weights = weights if groups is None else weights[np.unique(groups)]
    return float(weights.sum() ** 2 / (weights**2).sum())
