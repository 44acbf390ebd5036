"""How a forest chooses its `Settings`, by the error of rows held out (docs/design.md, section 8).

All of it is tried on a sample of the rows, with trees of its own. Coordinates are replaced only if that clearly lowers the held-out
error. Rounds of feature weights go on whatever the first ones say, and the best is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..trees.coordinates import Coordinates
from ..trees.trees import TreeEnsemble
from . import solver
from .bandwidth import find_median_root_time
from .columns import find_columns, find_recency, find_unit
from .config import AUTO_CUTS, FAMILIES
from .feature_weights import can_learn, find_shares, find_slopes, find_weights
from .held_out import HeldOut, pick_ridge
from .recency import MIN_HALF_LIFE, choose_half_life
from .settings import Revision, Settings
from .solver import KernelMatrix
from .stepping import choose_step
from .steps import Steps

if TYPE_CHECKING:
    from .forest import OnlineForest
    from .ridge import RidgePrediction

# Rows and trees with which everything is tried, up to twice as many trees if rows are few, rows times label columns, and rows at least.
SAMPLE_ROWS = 10_000
SAMPLE_TREES, MAX_SAMPLE_TREES = 50, 100
FEW_PAIRS = 250_000
SAMPLE_ENTRIES, MIN_SAMPLE_ROWS = 40_000, 4_000

# Multiples of the median time of the first cuts, and ridges, that are tried.
BANDWIDTHS = 2.5 * 2.0 ** np.arange(9)
RIDGES = np.array([1e-4, 3e-4, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
FIRST_BANDWIDTH = 3

# The ridge until there are enough rows to choose one: see `bspforest.forest.ridge.MIN_DECIDING`.
FIRST_RIDGE = 0.3

# Rows that are this many half-lives old count no longer: they weigh 2^-8 of the latest one. A sample is made smaller if it has less than
# this share of rows that do.
MAX_HALF_LIVES = 8
WORTH_SELECTING = 0.7

# Rounds in which feature weights are learned: in a batch, and at each revision of a stream.
ROUNDS, ROUNDS_IN_STREAM = 5, 1

# Standard errors of the paired differences by which other coordinates must be better: in one draw of folds and trees, and in the mean of several.
# These are taken in a batch, if one draw is better by less than is certain. (Hourly bike rentals, ten seeds: RMSE 63.0 to 67.3; with one draw
# 63.4 to 75.6.)
CLEARLY, CLEARLY_IN_MEAN, CERTAIN = 2.0, 1.0, 3.0
MORE_DRAWS = 2

# Weights are the same if no logarithm differs by so much.
SAME_WEIGHTS = 0.1

# Tolerance of the solutions by which settings are compared, relative to others.
TRYING = 2.0

# Work of building a tree per row, in units of `bspforest.forest.steps`.
BUILDING = 30.0


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
        Of these rows, by their place. It is set once the half-life is known, as weights are.
    bandwidth : float or None
        As given.
    ridges : ndarray
        Those to try, in increasing order.
    draws : list of _Sample
        The same rows with other folds and streams.
    """

    like: TreeEnsemble
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray
    budget: float
    streams: np.ndarray
    bandwidth: float | None
    ridges: np.ndarray
    held_out: HeldOut = field(init=False)
    draws: list[_Sample] = field(default_factory=list)

    def redraw(self, held_out: HeldOut, rng: np.random.Generator) -> _Sample:
        """Return the same rows with other folds and streams."""
        sample = replace(self, streams=rng.integers(0, 2**64, size=self.streams.shape, dtype=np.uint64), draws=[])
        sample.held_out = held_out
        return sample

    def select(self, some: np.ndarray) -> None:
        """Keep some of the rows."""
        self.X, self.y, self.w = self.X[some], self.y[some], self.w[some]


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
        self.n_important = np.nan

    @property
    def ratio(self) -> float:
        """The bandwidth relative to the median time of the first cuts."""
        return float(self._bandwidths[self._at]) / self._scale

    def choose_half_life(self, used: Settings, times: np.ndarray, n_classes: int, n_since: int) -> Steps[float]:
        """Return the half-life to use, given the settings in use, the times of arrival of rows and how many came since a change."""
        scale = self.unit / used.unit if 0 < used.unit < np.inf > self.unit > 0 else 1.0
        self.matrix.set_bandwidth(used.bandwidth * scale)
        rows = self.sample.y, self.sample.w, times
        how = {"n_classes": n_classes, "n_since": n_since}
        return (yield from choose_half_life(self.matrix, rows, used.ridge, used=used.half_life, **how))

    def start(self, ratio: float | None) -> Steps[_Trial]:
        """Try the bandwidth that is nearest to ``ratio`` times the median time of the first cuts, or else a medium one."""
        yield (BUILDING + 4.0) * self.matrix.n_rows * self.matrix.n_trees + 4.0 * solver.MIN_WORK
        if ratio is not None:
            self._at = int(np.abs(np.log(self._bandwidths / (ratio * self._scale))).argmin())
        elif self.sample.bandwidth is None:
            self._at = FIRST_BANDWIDTH
        yield from self._try(self._at)
        return self

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
            self._errors[k] = yield from self.sample.held_out.errors(self.matrix, self.sample.ridges, TRYING)
        return float(self._errors[k].mean(axis=1).min())

    @property
    def error(self) -> float:
        """The mean error with the present bandwidth and the best ridge."""
        return float(self._errors[self._at].mean(axis=1).min())

    def beats(self, other: _Trial) -> Steps[bool]:
        """Return whether the errors are clearly lower; where that is close, in the mean of several draws of folds and trees."""
        losses, others = self._find_losses(), other._find_losses()
        gap, error = float((others - losses).mean()), float((others - losses).std()) / np.sqrt(len(losses))
        if not self.sample.draws or not 0 < gap <= CERTAIN * error:
            return gap > CLEARLY * error
        gaps = [gap]
        for sample in self.sample.draws:
            means = []
            for trial in (self, other):
                again = yield from _Trial(sample, trial.coordinates).start(trial.ratio)
                means.append(again.error)
            gaps.append(means[1] - means[0])
        return float(np.mean(gaps)) > CLEARLY_IN_MEAN * error

    def _find_losses(self) -> np.ndarray:
        """Return the error of each row held out with the present bandwidth and the best ridge."""
        errors = self._errors[self._at]
        return errors[errors.mean(axis=1).argmin()]

    def choose(self) -> Settings:
        """Return the settings with the present bandwidth."""
        errors = self._errors[self._at]
        k = pick_ridge(errors)
        bandwidth, ridge = float(self._bandwidths[self._at]), float(self.sample.ridges[k])
        error = self.sample.held_out.average(errors[k])
        return Settings(self.coordinates, bandwidth, ridge, error, self.unit, 1.0)

    def learn_weights(self) -> np.ndarray | None:
        """Return the feature weights that slopes suggest."""
        slopes = find_slopes(self.matrix, self.sample.y, self.sample.w)
        trees = self.matrix.ensemble
        shares = find_shares(trees, np.arange(len(self.sample.X)), slopes)
        shares = shares if trees.groups is None else np.bincount(trees.groups, shares)
        if shares.any():
            self.n_important = 1.0 / float(np.sum(shares**2))
        return find_weights(slopes, self.coordinates.weights)


def search_settings(prediction: RidgePrediction, forest: OnlineForest) -> Steps[Settings]:
    """Choose settings for the rows stored."""
    config, used, slots, n_seen = forest.config, prediction.settings, forest.rows.held_slots(), forest.n_seen
    # What was learned from labels that are forgotten is no place to start from; the half-life goes on.
    starts_over = used is None or prediction.n_forgotten > 0
    current = forest.fit_coordinates(slots) if starts_over else find_current(prediction, forest)
    rng = np.random.default_rng([prediction.seed, n_seen])
    some, n = np.arange(len(slots)), count_sampled(max(1, config.n_columns))
    if len(slots) > n:
        some = some[-n:] if prediction.order == "stream" else np.sort(rng.choice(some, n, replace=False))
    times, slots = forest.rows.held_ids()[some], slots[some]
    w = forest.weights[slots] / find_unit(forest.weights[slots])
    bandwidth, ridge, half_life = prediction.given_bandwidth, prediction.given_ridge, prediction.given_half_life
    if prediction.order != "stream":
        half_life = np.inf
    chooses = config.learns_weights or config.chooses_scaling or config.cuts == "auto"
    decides = chooses or bandwidth is None or ridge is None or half_life is None
    if not decides or np.count_nonzero(w) < 2:
        if used is None:
            return Settings(
                current, bandwidth or np.nan, ridge or FIRST_RIDGE, np.nan, np.nan, 1.0, half_life or np.inf
            )
        return replace(used, unit=np.nan, step=1.0, coordinates=current, half_life=half_life or used.half_life)
    y, n_classes = find_columns(forest, slots), config.n_classes
    X = forest.trees.given[slots]
    streams = rng.integers(0, 2**64, size=(count_trees(forest, len(some)), 4), dtype=np.uint64)
    ridges = RIDGES if ridge is None else np.array([ridge])
    sample = _Sample(forest.trees, X, y, w, config.budget(len(some)), streams, bandwidth, ridges)
    other = None
    if config.chooses_scaling:
        kind = "minmax" if current.uses_ranks else "quantile"
        other = forest.fit_coordinates(forest.rows.held_slots(), kind).like(current)
    groups = forest.trees.groups
    n_since = n_seen - prediction.changed
    rounds = ROUNDS if starts_over or prediction.order != "stream" else ROUNDS_IN_STREAM
    if half_life is None and prediction.is_alarmed:
        # The features that mattered before may hide what matters now: no replay could tell, and all weights are learned again.
        current, rounds = current.weigh(config.first_weights), ROUNDS
        half_life = shorten_half_life(n_since)
        sample.select(np.flatnonzero(times[-1] - times < MAX_HALF_LIVES * half_life))
    first = _Trial(sample, current)
    if half_life is None:  # from here on, the forest may have changed
        half_life = np.inf
        if used is not None:
            half_life = yield from first.choose_half_life(used, times, n_classes, n_since)
        recent = np.flatnonzero(times[-1] - times < MAX_HALF_LIVES * half_life)
        if len(recent) < WORTH_SELECTING * len(times):
            sample.select(recent)
            first = _Trial(sample, current)
    y, w = sample.y, sample.w
    if half_life < np.inf:
        sample.w = w = w * find_recency(times[-1] - times[-len(w) :], half_life)
    draw_folds = partial(HeldOut, np.arange(len(w)), y, w, n_classes=n_classes, order=prediction.order, rng=rng)
    sample.held_out = draw_folds()
    if prediction.order == "any":
        sample.draws = [sample.redraw(draw_folds(), rng) for _ in range(MORE_DRAWS)]
    n_rounds = rounds if config.learns_weights else 0
    ratio = None if used is None or starts_over or not 0 < used.unit < np.inf else used.bandwidth / used.unit
    families = [FAMILIES[name] for name in AUTO_CUTS] if config.cuts == "auto" else []
    best, plain, outcome, error_before = yield from _try_coordinates(first, other, families, ratio, n_rounds)
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
        half_life=float(half_life),
        cuts=next(name for name, family in FAMILIES.items() if family == best.coordinates.family),
        n_important_features=plain.n_important,
        error_of_mean=sample.held_out.find_error_of_mean(),
    )
    return replace(settings, step=step, half_life=float(half_life), revision=revision)


def _try_coordinates(
    first: _Trial,
    other: Coordinates | None,
    families: list[int],
    ratio: float | None,
    n_rounds: int,
) -> Steps[tuple[_Trial, _Trial, str, float]]:
    """Return the best trial, the one that feature weights were first learned by, what became of these, and the error before.

    Parameters
    ----------
    first : _Trial
        Of the coordinates to begin with.
    other : Coordinates or None
        The same with the other kind of scaling, if that may be chosen.
    families : list of int
        Families of cuts that may be chosen.
    ratio : float or None
        The bandwidth in use, relative to the median time of the first cuts.
    n_rounds : int
        Rounds in which feature weights are learned.
    """
    sample, best = first.sample, first
    yield from first.start(ratio)
    yield from first.climb()
    error_before = first.choose().error
    if other is not None:
        best = yield from _try_instead(best, other)
    plain = last = best
    outcome = "kept"
    for _ in range(n_rounds if can_learn(sample.like) else 0):
        weights = last.learn_weights()
        yield 10 * last.matrix.count_work(1)
        outcome = "rejected"
        if weights is None or np.abs(np.log(weights / last.coordinates.weights)).max() < SAME_WEIGHTS:
            break
        trial = yield from _Trial(sample, last.coordinates.weigh(weights)).start(last.ratio)
        if trial.error > last.error:
            between = np.sqrt(weights * last.coordinates.weights)
            half = yield from _Trial(sample, last.coordinates.weigh(between)).start(last.ratio)
            trial = min(trial, half, key=lambda t: t.error)
        best, last = min(best, trial, key=lambda t: t.error), trial
    # Axes may need the weights that pairs can do without, so both are tried.
    learned, others = [] if best is plain else [best], []
    for family in families:
        for start in [trial for trial in (plain, *learned) if trial.coordinates.family != family]:
            others.append((yield from _Trial(start.sample, start.coordinates.cut_by(family)).start(start.ratio)))
    best = plain
    for trial in (*learned, *others):
        best = trial if (yield from trial.beats(best)) else best
    if other is not None and best is not plain:  # the scaling was chosen with other weights
        kind = other if best.coordinates.kind != other.kind else first.coordinates
        best = yield from _try_instead(best, kind.weigh(best.coordinates.weights).cut_by(best.coordinates.family))
    if not np.array_equal(best.coordinates.weights, first.coordinates.weights):
        outcome = "accepted"
    if best is not first:
        yield from best.climb()
    return best, plain, outcome, error_before


def _try_instead(best: _Trial, coordinates: Coordinates) -> Steps[_Trial]:
    """Return a trial of other coordinates if it is clearly better, else the best one so far."""
    trial = yield from _Trial(best.sample, coordinates).start(best.ratio)
    return trial if (yield from trial.beats(best)) else best


def shorten_half_life(n_since: int) -> float:
    """Return the half-life to use when a change has just been noticed, so many rows after it."""
    return max(MIN_HALF_LIFE, 0.5 * n_since)


def count_sampled(n_columns: int) -> int:
    """Return how many rows settings are tried on, at most."""
    return min(SAMPLE_ROWS, max(MIN_SAMPLE_ROWS, SAMPLE_ENTRIES // n_columns))


def count_trees(forest: OnlineForest, n_rows: int) -> int:
    """Return how many trees settings are tried with: more if rows are few."""
    return min(int(np.clip(FEW_PAIRS // n_rows, SAMPLE_TREES, MAX_SAMPLE_TREES)), forest.trees.n_trees)


def find_current(prediction: RidgePrediction, forest: OnlineForest) -> Coordinates:
    """Return the coordinates in use if they still fit the rows stored, else such as do; at first those of the configuration.

    After forgetting, they must fit exactly.
    """
    used, slots = forest.trees.coordinates, forest.rows.held_slots()
    if prediction.settings is None:
        fitting = forest.fit_coordinates(slots)
    else:
        fitting = forest.fit_coordinates(slots, used.kind).like(used)
    fits = used.is_close if prediction.solved.n_seen else used.is_equal
    return used if fits(fitting) else fitting


def count_effective(weights: np.ndarray, groups: np.ndarray | None) -> float:
    """Return the number of equal weights that would be spread as these are; features that share one count once."""
    weights = weights if groups is None else weights[np.unique(groups)]
    return float(weights.sum() ** 2 / (weights**2).sum())
