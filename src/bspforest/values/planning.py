"""What a forest decides for itself: how features are scaled, what they weigh, bandwidth and ridge (docs/design.md, section 8).

All of it is tried on a sample of the rows, with trees of its own. Coordinates are replaced only if that lowers the held-out error by
more than one standard error of the paired differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..engine.arrays import LABEL_WEIGHT
from ..engine.coordinates import Coordinates
from ..engine.ensemble import TreeEnsemble
from ..engine.forest import OnlineForest
from .kernel_matrix import KernelMatrix, make_matrix
from .metric import can_learn, find_slopes, find_weights
from .stepping import choose_step
from .steps import Steps
from .targets import find_targets
from .tuning import FIRST_BANDWIDTH, LEAST_IN_WINDOW, Choice, HeldOut, Search, project

if TYPE_CHECKING:
    from .joint import JointValues

# Rows and trees with which everything is tried. (30 trees decide wrongly now and then.)
SAMPLE_ROWS = 10_000
SAMPLE_TREES = 50

# A stream has nothing to decide with before it has so many rows. This ridge is used until then. (river's TrumpApproval, mean absolute
# error: 0.303 with 32 rows, 0.274 with 16, 0.283 with 8; ChickWeights 23.5, 23.9, 24.4.)
LEAST_DECIDING = 16
FIRST_RIDGE = 0.3

# Rounds in which the metric is learned: in a batch, and at each doubling of a stream.
ROUNDS, ROUNDS_IN_STREAM = 3, 1

# Work of building a tree per row, in units of `bspforest.values.steps`.
BUILDING = 30.0


class Revision(NamedTuple):
    """What a forest decided at some time, as ``revisions_`` lists it.

    Parameters
    ----------
    n_samples_seen : int
        Rows learned until then.
    scaling : {"minmax", "quantile"}
        By range or by ranks. None and given ranges count as ``"minmax"``.
    metric : {"accepted", "rejected", "kept"}
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
    >>> BSPForestRegressor(20, random_state=0).fit(X, np.sin(6 * X[:, 0])).revisions_[-1].metric
    'accepted'
    """

    n_samples_seen: int
    scaling: str
    metric: str
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
        metric = f"metric {self.metric}"
        if self.metric == "accepted":
            metric += f": held-out error {self.error_before:.4g} → {self.error:.4g}"
        else:
            metric += f", held-out error {self.error:.4g}"
        return (
            f"after {self.n_samples_seen:,} rows: {metric}, {self.n_effective_features:.1f} effective features; "
            f"scaled {scaled}, bandwidth {self.bandwidth:.3g}, ridge {self.ridge:.3g}"
        )


class Plan(NamedTuple):
    """What was decided. The coordinates are those in use, the same object, if they stay."""

    coordinates: Coordinates
    choice: Choice
    unit: float
    step: float
    revision: Revision | None  # None if there was nothing to decide


@dataclass
class Planner:
    """Decides on a sample of rows.

    Parameters
    ----------
    like : TreeEnsemble
        Trees of the family to try with.
    X, y, w : ndarray
        Rows as given, oldest first, label columns and weights.
    budget : float
    held_out : HeldOut
        Of the sample's rows, by their place.
    given_bandwidth, given_ridge : float or None
        What is not to be chosen.
    least_ridge : float
        No smaller one is chosen.
    streams : ndarray
        Random streams of the trees, the same for everything that is tried: trees then differ only where coordinates do.
    """

    like: TreeEnsemble
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray
    budget: float
    held_out: HeldOut
    given_bandwidth: float | None
    given_ridge: float | None
    least_ridge: float
    streams: np.ndarray

    def try_coordinates(self, coordinates: Coordinates, ratio: float | None) -> Steps[Trial]:
        """Return a trial of coordinates, with the bandwidth that is ``ratio`` times the median time of the first cuts, or searched."""
        trees = self.like.make_apart(self.streams, self.X, coordinates)
        n = len(self.X)
        yield from build_in_steps(trees, np.arange(n, dtype=np.int32), self.budget)
        unit = find_median_root_time(trees)
        known = 0 < unit < np.inf
        matrix = make_matrix(trees, n, self.given_bandwidth or (unit if known else 1.0), knows_nodes=True)
        yield 4 * matrix.count_work(1)
        given = self.given_bandwidth, self.given_ridge
        search = Search(self.held_out, matrix, unit if known else 1.0, *given, self.least_ridge)
        trial = Trial(coordinates, matrix, unit, search)
        trial.at = 0 if self.given_bandwidth is not None else FIRST_BANDWIDTH
        if ratio is not None:
            trial.at = search.find_nearest(ratio * unit if known else ratio)
        yield from search.error(trial.at)
        return trial

    def learn_weights(self, trial: Trial) -> np.ndarray | None:
        """Return the weights that the slopes of a trial suggest."""
        return find_weights(find_slopes(trial.matrix, self.y, self.w), trial.coordinates.weights)


class Trial:
    """Coordinates that are tried: trees in them, in order, and the errors found."""

    def __init__(self, coordinates: Coordinates, matrix: KernelMatrix, unit: float, search: Search) -> None:
        self.coordinates, self.matrix, self.unit, self.search = coordinates, matrix, unit, search
        self.at = 0

    @property
    def ratio(self) -> float:
        """The bandwidth relative to the median time of the first cuts."""
        return float(self.search.bandwidths[self.at]) / self.unit if 0 < self.unit < np.inf else 1.0

    def beats(self, other: Trial) -> bool:
        """Return whether the errors are lower by more than one standard error of the paired differences."""
        gaps = other.search.errors(other.at) - self.search.errors(self.at)
        return bool(gaps.mean() > gaps.std() / np.sqrt(len(gaps)))


def plan(
    planner: Planner,
    current: Coordinates,
    alternative: Callable[[Coordinates], Coordinates] | None,
    ratio: float | None,
    *,
    n_rounds: int,
) -> Steps[tuple[Trial, str, float]]:
    """Return the best trial, what became of the metric, and the error before.

    Parameters
    ----------
    planner : Planner
    current : Coordinates
        To begin with.
    alternative : callable or None
        Returns the other kind of scaling, if that may be chosen.
    ratio : float or None
        The bandwidth in use, relative to the median time of the first cuts.
    n_rounds : int
        Rounds in which the metric is learned.
    """
    best = first = yield from planner.try_coordinates(current, ratio)
    best.at = yield from best.search.climb(best.at)
    before = first.search.choose(first.at).error
    if alternative is not None:
        other = yield from planner.try_coordinates(alternative(current), best.ratio)
        best = other if other.beats(best) else best
    metric = "kept"
    for _ in range(n_rounds if can_learn(planner.like) else 0):
        weights = planner.learn_weights(best)
        yield 10 * best.matrix.count_work(1)
        metric = "rejected" if metric == "kept" else metric
        if weights is None:
            break
        other = yield from planner.try_coordinates(best.coordinates.weigh(weights), best.ratio)
        if not other.beats(best):
            break
        best, metric = other, "accepted"
    if best is not first:
        best.at = yield from best.search.climb(best.at)
    return best, metric, before


def plan_revision(values: JointValues, forest: OnlineForest, slots: np.ndarray, n_seen: int) -> Steps[Plan]:
    """Decide how the rows in ``slots``, oldest first, are to be scaled and weighed, and bandwidth and ridge."""
    config = forest.config
    current = find_current(values, forest, slots)
    rng = np.random.default_rng([values.seed, n_seen])
    if len(slots) > SAMPLE_ROWS:
        some = slots[-SAMPLE_ROWS:] if values.in_order else np.sort(rng.choice(slots, SAMPLE_ROWS, replace=False))
    else:
        some = slots
    w = forest.trees.arrays.labels[some, LABEL_WEIGHT]
    decides = config.metric or config.scaling == "auto" or values.given_bandwidth is None or values.given_ridge is None
    if not decides or np.count_nonzero(w) < 2:
        choice = values.choice or Choice(values.given_bandwidth or np.nan, values.given_ridge or FIRST_RIDGE, np.nan)
        return Plan(current, choice, np.nan, 1.0, None)
    y = project(find_targets(forest, some), rng)
    X = forest.trees.get_given()[some]
    streams = rng.integers(0, 2**64, size=(min(SAMPLE_TREES, forest.trees.n_trees), 4), dtype=np.uint64)
    held_out = HeldOut(np.arange(len(some)), y, w, latest=values.in_order, rng=rng)
    given = values.given_bandwidth, values.given_ridge, find_least_ridge(forest)
    planner = Planner(forest.trees, X, y, w, config.budget(len(some)), held_out, *given, streams)
    alternative: Callable[[Coordinates], Coordinates] | None = None
    if config.scaling == "auto":
        other = "minmax" if current.uses_ranks else "quantile"
        scaled = forest.fit_coordinates(slots, other)
        alternative = lambda coordinates: scaled.weigh(coordinates.weights)  # noqa: E731
    n_rounds = 0 if not config.metric else ROUNDS_IN_STREAM if values.in_order else ROUNDS
    ratio = None if values.choice is None or not 0 < values.unit < np.inf else values.choice.bandwidth / values.unit
    best, metric, before = yield from plan(planner, current, alternative, ratio, n_rounds=n_rounds)
    choice = best.search.choose(best.at)
    step = yield from choose_step(best.matrix, y, w, choice)
    revision = Revision(
        n_samples_seen=n_seen,
        scaling=best.coordinates.kind,
        metric=metric,
        n_effective_features=count_effective(best.coordinates.weights, forest.trees.groups),
        error_before=before,
        error=choice.error,
        bandwidth=choice.bandwidth,
        ridge=choice.ridge,
    )
    return Plan(best.coordinates, choice, best.unit, step, revision)


def find_least_ridge(forest: OnlineForest) -> float:
    """Return the smallest ridge that may be chosen."""
    return LEAST_IN_WINDOW if forest.config.window is not None else 0.0


def find_current(values: JointValues, forest: OnlineForest, slots: np.ndarray) -> Coordinates:
    """Return the coordinates in use if they still fit these rows, else such as do; at the beginning those of the configuration."""
    used = forest.trees.coordinates
    if values.choice is None:
        fitting = forest.fit_coordinates(slots)
        # `forget` has seen to the ends of ranges, but all rows have a say in ranks.
        fits = used.is_equal(fitting) if fitting.uses_ranks else used.is_close(fitting)
        return used if fits and (used.weights == 1.0).all() else fitting
    fitting = forest.fit_coordinates(slots, used.kind).weigh(used.weights)
    return used if used.is_close(fitting) else fitting


def build_in_steps(trees: TreeEnsemble, slots: np.ndarray, budget: float) -> Steps[None]:
    """Build trees, about as many in each step as a product with ten columns costs.

    Each thread has a tree to build, but steps are the same for any number of threads: revisions then end with the same row.
    """
    share = max(1, trees.n_trees // 3)
    costs = [BUILDING * len(slots) * min(share, trees.n_trees - first) for first in range(0, trees.n_trees, share)]
    scratch = trees.make_build_scratch(len(slots))
    n_built = 0
    for n in trees.build_in_steps(slots, budget, scratch, at_once=max(trees.n_threads, share)):
        n_built += n
        while costs[1:] and n_built >= share:
            n_built -= share
            yield costs.pop(0)
    yield from costs


def find_median_root_time(trees: TreeEnsemble) -> float:
    """Return the median over trees of the time of the first cut; infinite if a tree has none."""
    times = trees.find_root_times()
    return float(np.median(times)) if np.isfinite(times).all() else np.inf


def count_effective(weights: np.ndarray, groups: np.ndarray | None) -> float:
    """Return the number of equal weights that would be spread as these are; features that share one count once."""
    weights = weights if groups is None else weights[np.unique(groups)]
    return float(weights.sum() ** 2 / (weights**2).sum())
