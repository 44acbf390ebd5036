"""Ridge prediction: all depths of all trees contribute, with weights found by ridge regression in the kernel of the forest.

Each row stored has a dual, and each node the sum of the duals of its rows. `RidgePrediction` keeps them while rows come and go, and
solves for the duals when the rows stored have grown by a tenth. When a revision is due, it chooses its `Settings` again, and measures
how uncertain predictions are.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..drift import DriftDetector
from ..trees.coordinates import Coordinates
from .bandwidth import fit_bandwidth
from .calibration import Calibration, calibrate, expand
from .columns import collect_columns, find_columns, find_recency, find_unit, insert_columns, insert_means
from .held_out import Order, center
from .rows import Moment
from .settings import Revision, Settings
from .solver import KernelMatrix, count_work, solve_in_steps
from .steps import Instalments, finish
from .tree_operations import LOCAL_OPERATIONS, TreeOperations
from .tuning import MAX_HALF_LIVES, count_sampled, find_current, search_settings, shorten_half_life
from .uncertainty import (
    KNOWN_SHARE,
    MAX_CALIBRATED,
    TAILS,
    average_stds,
    find_quantiles,
    find_stds,
    follow_scale,
    hold_out,
    standardise,
)

if TYPE_CHECKING:
    from .forest import OnlineForest

# Growth of the rows stored, relative to those at the last solve, after which to solve again: row by row, and after a chunk, where a
# solve costs no more than inserting that many rows.
GROWTH, GROWTH_BY_CHUNK = 0.1, 0.03

# Half-lives after which settings are chosen again.
HALF_LIVES_BETWEEN = 3

# Settings are chosen again whenever the rows since the last change have grown by this much, and soon after a change.
GROWTH_BETWEEN = 0.5
FIRST_AFTER_CHANGE = 64

# How a rise of the loss is found: sooner than where rises are shown to people, as a false alarm costs little. (Friedman's function that
# changes: after 32 rows, with blocks of 32 and 5 standard errors after 120 to 600.)
BLOCK_ROWS, MIN_RISE = 8, 4.0

# Rows do not leave so soon after a change: it may have been a false alarm.
KEPT_AFTER_CHANGE = 256

# A stream has nothing to decide with before it has so many rows. (river's TrumpApproval, mean absolute error: 0.303 with 32 rows,
# 0.274 with 16, 0.283 with 8; ChickWeights 23.5, 23.9, 24.4.)
MIN_DECIDING = 16

# Rows that may be forgotten before settings are chosen again at once, as a share of those left.
MAX_FORGOTTEN = 0.1

# Revisions that are listed, the latest ones.
MAX_REVISIONS = 100

# Products with all rows and trees that a row of a stream pays for while settings are searched. (A solve takes 5 to 30, after a tenth of
# growth.)
PRODUCTS_PER_ROW = 8


# What is given, in the order of the constructor.
GIVEN = ("given_bandwidth", "given_ridge", "seed", "given_half_life")

# What a stream changes that is a number.
COUNTED = ("order", "unit", "scale", "changed", "alarm")

# Multiples of the ridge that are tried once all rows are there.
CORRECTIONS = np.array([0.1, 1 / 3, 1.0, 3.0])


@dataclass(eq=False)
class RidgePrediction:
    """The duals of a forest, and how they are found.

    Parameters
    ----------
    given_bandwidth, given_ridge, given_half_life : float or None
        None: chosen by held-out error. A half-life counts in streams only.
    seed : int
        For the rows that are held out.
    operations : TreeOperations
    verbose : bool
        Print what was decided, to standard error.
    order : {"any", "time", "stream"}
        How the rows came.
    settings : Settings or None
        Those in use, from the first row on.
    mean : ndarray of shape (columns,)
        The mean label.
    unit : float
        The mean weight at the last solve, by which the weights of new rows are divided.
    calibration : Calibration
        How scores become probabilities.
    scale : float
        By which standard deviations are multiplied: that of a stream's rows follows how often intervals hold their labels.
    revisions : list of Revision
    changed : int
        Rows seen before the last change of what labels depend on: the last rise of the loss of rows before they are learned.
    alarm : int
        Rows seen when it was noticed.
    detector : DriftDetector
        Of such rises.
    solved, tuned : Moment
        When duals were last solved for, and settings chosen. With no rows stored then, it is time to do so again.
    search : Instalments or None
        The search for settings that is going on.
    """

    given_bandwidth: float | None
    given_ridge: float | None
    seed: int
    given_half_life: float | None = np.inf
    operations: TreeOperations = LOCAL_OPERATIONS
    verbose: bool = False
    order: Order = "stream"
    settings: Settings | None = None
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    unit: float = 1.0
    calibration: Calibration = field(default_factory=Calibration)
    scale: float = 1.0
    revisions: list[Revision] = field(default_factory=list)
    changed: int = 0
    alarm: int = 0
    detector: DriftDetector = field(default_factory=lambda: DriftDetector(BLOCK_ROWS, MIN_RISE))
    solved: Moment = field(default_factory=Moment)
    tuned: Moment = field(default_factory=Moment)
    search: Instalments[Settings] | None = None
    _caches: dict[str, Any] = field(default_factory=dict, init=False)  # of rows and trees

    is_ridge = remembers_labels = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "search": copy(self.search), "_caches": {}}

    def forget(self, n: int, n_left: int, *, strict: bool) -> RidgePrediction:
        """Return the prediction rule once n rows are forgotten, and so many left. It has seen no label, but keeps its settings.

        They are due to be chosen again. They are dropped if ``strict``, or if they may depend on too many labels that are forgotten.
        """
        given = self.given_bandwidth, self.given_ridge, self.seed, self.given_half_life
        fresh = RidgePrediction(*given, self.operations, self.verbose, self.order)
        n += self.n_forgotten
        if not strict and self.revisions and n <= MAX_FORGOTTEN * n_left:
            fresh.settings, fresh.changed, fresh.alarm = self.settings, self.changed, self.alarm
            fresh.revisions = [self.revisions[-1]._replace(n_forgotten=n)]
            fresh.tuned = self.tuned
        return fresh

    @property
    def n_forgotten(self) -> int:
        """Rows forgotten since settings were chosen."""
        return self.revisions[-1].n_forgotten if self.revisions else 0

    @property
    def half_life(self) -> float:
        """Rows weigh half as much for each so many rows that they are older."""
        return np.inf if self.settings is None else self.settings.half_life

    def find_max_rows(self, n_seen: int) -> int | None:
        """Return how many rows to store at most: older ones weigh next to nothing."""
        if self.half_life == np.inf or n_seen - self.changed < KEPT_AFTER_CHANGE:
            return None
        return math.ceil(MAX_HALF_LIVES * self.half_life)

    @property
    def is_alarmed(self) -> bool:
        """Whether no settings were chosen since the last change was noticed."""
        decided = self.revisions[-1].n_samples_seen if self.revisions else 0
        return decided < self.alarm

    def export_state(self) -> dict[str, Any]:
        """Return what is kept beside duals, residuals, sums and coordinates, as JSON can hold it."""
        search = None
        if self.search is not None:
            self.search.finish()
            if self.search.result is not None:
                search = [self.search.owed, *self.search.result.export_all()]
        return {
            **{name: getattr(self, name) for name in (*GIVEN, *COUNTED)},
            "detector": self.detector.to_json(),
            **{name: list(getattr(self, name)) for name in ("calibration", "solved", "tuned")},
            "settings": None if self.settings is None else self.settings.export(),
            "mean": self.mean.tolist(),
            "revisions": [list(revision) for revision in self.revisions],
            "search": search,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], coordinates: Coordinates) -> RidgePrediction:
        """Return the prediction with the state that `export_state` gave, for trees in these coordinates."""
        own = cls(*(state[name] for name in GIVEN))
        for name in COUNTED:
            setattr(own, name, state[name])
        own.detector = DriftDetector.from_json(state["detector"])
        own.settings = None if state["settings"] is None else Settings(coordinates, *state["settings"])
        own.mean, own.calibration = np.array(state["mean"], float), Calibration(*state["calibration"])
        own.solved, own.tuned = Moment(*state["solved"]), Moment(*state["tuned"])
        own.revisions = [Revision(*entries) for entries in state["revisions"]]
        if state["search"] is not None:
            owed, *settings = state["search"]
            own.search = Instalments(None, Settings.restore(settings), owed)
        return own

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def prepare(self, forest: OnlineForest, *, order: Order) -> tuple[Coordinates, Settings | None]:
        """Return coordinates for trees of the rows stored, and new settings, if it was time to choose. This is how the rows came."""
        self.order = order
        # Right after forgetting, nothing is solved, and the answer does not wait for a search.
        due = self.settings is None or (self.solved.n_seen > 0 and self._is_time_to_tune(forest))
        self._cancel()
        if not due:
            return find_current(self, forest), None
        settings = finish(search_settings(self, forest))
        self.tuned = Moment.of(forest)
        return settings.coordinates, settings

    def solve(self, forest: OnlineForest, decided: Settings | None) -> None:
        """Solve for the rows stored. With new settings, or for the first time, find also how uncertain predictions are."""
        self._caches = {}
        rows = slots, y, w = collect_columns(forest, self.half_life if decided is None else decided.half_life)
        settings = self.settings if decided is None else decided
        assert settings is not None
        if self.given_bandwidth is None:
            settings = fit_bandwidth(settings, forest.trees)
        matrix = self.operations.make_matrix(forest.trees, len(slots), settings.bandwidth)
        unit, before = find_unit(forest.weights[slots]), self.unit
        is_warm = self.solved.n_held > 0 and 0.1 < unit / before < 10.0  # else duals are of another size
        start = forest.duals[: len(y)] if is_warm else None
        self.unit = unit
        if decided is not None or not self.solved.n_seen:
            settings = self._measure(forest, matrix, rows, settings)
        elif self.order == "stream" and forest.config.n_classes:
            self._calibrate(forest, *rows)
        self.mean, centred, diagonal = center(y, w, settings.ridge)
        duals = finish(solve_in_steps(matrix, centred, diagonal, start=start))
        forest.duals[: len(y)] = duals
        totals = self.operations.empty_totals(forest.trees)
        if matrix.knows_nodes:
            matrix.add_up(totals, set_sums=True)
        else:
            self.operations.make_totals(forest.trees, len(slots), settings.bandwidth, totals, set_sums=True)
        if settings.revision is not None:
            kept = [] if self.n_forgotten else self.revisions
            self.revisions = [*kept, settings.revision][-MAX_REVISIONS:]
            if self.verbose and sys.stderr is not None:
                print(settings.revision.describe(), file=sys.stderr)
        self.settings = replace(settings, coordinates=forest.trees.coordinates, revision=None)
        self.solved, self._caches["totals"] = Moment.of(forest), totals

    def _measure(self, forest: OnlineForest, matrix: KernelMatrix, rows: tuple, settings: Settings) -> Settings:
        """Find how uncertain predictions are, from out-of-sample residuals: known ones of the latest rows, or of rows held out.

        Return the settings, with a ridge for all rows if they were chosen on a sample, which needs a larger one.
        """
        slots, y, w = rows
        residuals = np.full(y.shape, np.nan)
        if self.solved.n_seen:  # else they were found with labels that are forgotten
            residuals[slots] = forest.residuals[slots]
        latest = slots[len(slots) // 2 :] if self.order == "stream" else slots
        n_known = np.isfinite(residuals[latest, 0]).sum()
        corrects = settings.revision is not None and self.given_ridge is None and len(slots) > count_sampled(y.shape[1])
        knows = n_known >= KNOWN_SHARE * len(slots) and n_known >= MIN_DECIDING // 2
        if knows:
            residuals[slots[: len(slots) - len(latest)]] = np.nan  # of a forest that knew less
        if (corrects or not knows) and np.count_nonzero(w[slots]) >= 2:
            ridges = np.array([settings.ridge])
            if corrects:
                ridges = settings.ridge * CORRECTIONS
            n_classes, seed = forest.config.n_classes, [self.seed, forest.n_seen]
            steps = hold_out(matrix, rows, ridges, n_classes=n_classes, order=self.order, seed=seed)
            k, error, some, found = finish(steps)
            if corrects:
                assert settings.revision is not None
                ridge = float(ridges[k])
                revision = settings.revision._replace(ridge=ridge, error=error)
                settings = replace(settings, ridge=ridge, error=error, revision=revision)
            if not knows:
                residuals[:] = np.nan
                residuals[some] = found
        forest.residuals[: len(y)] = residuals
        n_classes = forest.config.n_classes
        if n_classes:
            self._calibrate(forest, *rows)
        else:
            forest.stds[: len(y)] = np.nan
            forest.stds[slots] = finish(find_stds(matrix, residuals, w, settings.ridge))[slots]
        return settings

    def _calibrate(self, forest: OnlineForest, slots: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        """Find how scores become probabilities by the latest rows whose out-of-sample residuals are known."""
        known = slots[np.isfinite(forest.residuals[slots, 0])][-MAX_CALIBRATED:]
        scores = y[known] - forest.residuals[known]
        self.calibration = calibrate(scores, y[known], w[known], forest.config.n_classes)

    def learn(self, forest: OnlineForest, slots: np.ndarray, *, n_leaving: int) -> None:
        """Predict new rows and give them duals; notice changes by their losses.

        The trees hold the new rows already, and so many rows still that leave after this.
        """
        self._caches.pop("totals", None)
        self.order = "stream"
        columns = np.array(find_columns(forest, slots), np.float64, order="C")
        solves = len(slots) > 1 and self._is_time_to_solve(forest, len(slots))  # which finds duals
        has_stds = forest.config.n_classes == 0
        if solves or (has_stds and len(slots) > 1):
            X = forest.trees.given[slots]
            predicted, _ = self._predict_with_stds(forest, X, with_stds=False, n_leaving=n_leaving)
        if solves:
            residuals = columns - predicted
        else:
            assert self.settings is not None
            used, weights = self.settings, forest.weights[slots] / self.unit
            known = columns, weights, self.mean, used.bandwidth, used.ridge, used.step
            residuals = self.operations.learn_rows(forest.trees, slots, *known)
        forest.residuals[slots] = residuals
        if has_stds:
            errors = residuals if len(slots) == 1 else columns - predicted  # without any row of the chunk
            standardised, _ = standardise(errors[:, 0], forest.stds[slots, 0], forest.weights[slots])
            if "tails" not in self._caches:
                self._caches["tails"] = find_quantiles(self._get_spread(forest), TAILS)
            self.scale = follow_scale(self.scale, standardised, self._caches["tails"])
        if self.given_half_life != np.inf:
            self._watch(forest, columns, residuals, forest.weights[slots] > 0)

    def _watch(self, forest: OnlineForest, y: np.ndarray, residuals: np.ndarray, weighted: np.ndarray) -> None:
        """Look for a rise of the loss: it is time to choose settings again then, by the rows that came since."""
        n_classes = forest.config.n_classes
        if n_classes:
            right, said = (expand(scores, n_classes).argmax(axis=1) for scores in (y, y - residuals))
            losses = (right != said).astype(np.float64)
        else:
            losses = np.sqrt(np.sum(residuals**2, axis=1))
        for loss in losses[weighted].tolist():
            if self.detector.update(loss):
                assert self.detector.latest is not None
                n_since = self.detector.n_rows - self.detector.latest.row
                self.changed, self.alarm = max(0, forest.n_seen - n_since), forest.n_seen
                self._cancel()
                self.tuned = self.tuned._replace(n_held=0)
                if self.given_half_life is None and self.settings is not None:
                    half_life = min(self.half_life, shorten_half_life(n_since))
                    self.settings, self.solved = (
                        replace(self.settings, half_life=half_life),
                        self.solved._replace(n_held=0),
                    )

    def revise(self, forest: OnlineForest, n: int, *, must_solve: bool) -> tuple[Coordinates, Settings | None] | None:
        """Solve for all duals if many rows have come since the last solve, n of them just now, or if others have left.

        Go on with a search for settings, or begin one. Return what `prepare` does if that changes.
        """
        if self.search is not None and self.search.is_lost:
            self._cancel()
        if self.search is None and self._is_time_to_tune(forest):
            self.tuned = Moment.of(forest)
            if forest.n_held >= MIN_DECIDING:
                self.search = Instalments(search_settings(self, forest))
            elif (current := find_current(self, forest)) is not forest.trees.coordinates:
                return current, None
        if must_solve or self._is_time_to_solve(forest, n):
            self.solve(forest, None)
        if self.search is not None:
            paid = n * PRODUCTS_PER_ROW * count_work(forest.n_held, forest.trees.n_trees, 1)
            settings = self.search.advance(paid)
            if settings is not None:
                self.search = None
                return settings.coordinates, settings
        return None

    def _is_time_to_solve(self, forest: OnlineForest, n: int) -> bool:
        """Return whether many rows have come since the last solve, n of them just now."""
        growth = GROWTH if n == 1 else GROWTH_BY_CHUNK
        return forest.n_seen - self.solved.n_seen >= growth * self.solved.n_held

    def _is_time_to_tune(self, forest: OnlineForest) -> bool:
        """Return whether many rows have come since the last change, all rows stored been replaced, or three half-lives passed.

        Or whether settings may depend on labels that are forgotten.
        """
        if self.n_forgotten:
            return True
        since_change = max(
            GROWTH_BETWEEN * (self.tuned.n_seen - self.changed), FIRST_AFTER_CHANGE if self.changed else 8
        )
        between = min(self.tuned.n_held, since_change, HALF_LIVES_BETWEEN * self.half_life)
        return forest.n_seen - self.tuned.n_seen >= between

    def _cancel(self) -> None:
        """Drop the search that is going on, if any; it begins again with the next row."""
        if self.search is not None:
            self.search, self.tuned = None, self.tuned._replace(n_held=0)

    def recentre(self, forest: OnlineForest) -> None:
        """Do nothing after forgetting: a fresh prediction takes this one's place."""

    def carry(self, forest: OnlineForest, slots: np.ndarray) -> None:
        """Find the standard deviations of rows before they are inserted, from their neighbours; their duals are 0."""
        if forest.stds.shape[1]:
            sums = self.operations.sum_stds(forest.trees, forest.trees.given[slots], forest.stds)
            forest.stds[slots] = average_stds(forest, self, *sums)

    def widen(self, places: np.ndarray, n_after: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that adds columns for more classes to terms or their sums; class k becomes ``places[k]``."""
        return partial(insert_columns, places=places, n_after=n_after)

    def insert_classes(self, places: np.ndarray, n_after: int) -> None:
        """Account for more classes, which no row has had so far; class k becomes class ``places[k]``."""
        if len(self.mean):
            self.mean = insert_means(self.mean, places, n_after)
        self._caches = {}
        self.solved = self.solved._replace(n_held=0)  # the next rows bring a solve
        self._cancel()  # it has columns for fewer classes

    # ------------------------------------------------------------------------------------------------------------------
    # Predicting

    def predict(self, forest: OnlineForest, X: np.ndarray) -> np.ndarray:
        """Return the prediction of each label column for each row."""
        return self._predict_with_stds(forest, X, with_stds=False)[0]

    def _predict_with_stds(
        self, forest: OnlineForest, X: np.ndarray, *, with_stds: bool = True, n_leaving: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the prediction of each label column, and, if asked, its standard deviation, from one walk down the trees.

        The standard deviation is that of the neighbours in all trees, averaged. Rows that came since these were found have none.
        Where no neighbour has one, it is that of all rows.
        """
        assert self.settings is not None
        trees, n_stored = forest.trees, forest.n_held + n_leaving
        totals = None
        # Sums along paths round differently: predictions right after a solve are read from totals, in copies and files, too.
        if self.solved == Moment.of(forest) or len(X) >= n_stored // 2 > 0:
            totals = self._caches.get("totals")
            if totals is None:
                totals = self._caches["totals"] = self.operations.make_totals(
                    trees, n_stored, self.settings.bandwidth, self.operations.empty_totals(trees)
                )
        stds = forest.stds if with_stds else forest.stds[:, :0].copy()
        out, sums, counts = self.operations.sum_values(trees, X, self.settings.bandwidth, totals, stds)
        out /= trees.n_trees
        out += self.mean
        return out, average_stds(forest, self, sums, counts)

    def predict_labels(
        self, forest: OnlineForest, X: np.ndarray, *, return_std: bool, q: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return predictions of regression, and, if asked, the standard deviation of the label and its quantiles at ``q``.

        A quantile is the prediction plus its standard deviation times that of standardised residuals.
        """
        predicted, stds = self._predict_with_stds(forest, X, with_stds=return_std or q is not None)
        stds *= self.scale
        quantiles = None if q is None else predicted[:, :1] + stds[:, :1] * find_quantiles(self._get_spread(forest), q)
        if forest.config.n_outputs == 1:
            predicted, stds = predicted[:, 0], stds[:, :1].ravel()
        return predicted, stds if return_std else None, quantiles

    def _get_spread(self, forest: OnlineForest) -> tuple[np.ndarray, np.ndarray]:
        """Return standardised residuals of the rows that were stored at the last solve, and weights."""
        if "spread" not in self._caches:
            ids, slots = forest.rows.held_ids(), forest.rows.held_slots()
            w = forest.weights[slots] * find_recency(self.solved.n_seen - 1 - ids, self.half_life)
            w[ids >= self.solved.n_seen] = 0.0
            self._caches["spread"] = standardise(forest.residuals[slots, 0], forest.stds[slots, 0], w)
        return self._caches["spread"]

    def predict_proba(self, forest: OnlineForest, X: np.ndarray, *, hard: bool = False) -> np.ndarray:
        """Return the probability of each class for each row. There are no votes, ``hard`` or not."""
        return self.calibration.apply(self.predict(forest, X), forest.config.n_classes)
