"""Joint values: all depths of all trees speak, with weights found by ridge regression in the kernel of the forest.

Each row held has a dual, and each node the sum of the duals of its rows. `JointValues` keeps them while rows come and go, and solves for
the duals when the rows held have grown by a tenth. When they have doubled, it revises all that the forest decides for itself: how
features are scaled and what they weigh, bandwidth and ridge, how uncertain predictions are.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..engine.arrays import LABEL_WEIGHT, ForestArrays
from ..engine.config import count_columns
from ..engine.coordinates import Coordinates
from ..engine.ensemble import make_streams
from ..engine.forest import MOST_ASIDE, OnlineForest
from ..engine.interrupts import UNPROTECTED, Interrupts
from ..engine.memory import empty
from ..engine.values import Values
from .kernel_matrix import empty_totals, make_totals
from .node_sums import learn_rows, sum_values
from .planning import LEAST_DECIDING, Plan, Revision, find_current, plan_revision
from .revision import StreamRevision
from .solving import Solution, solve_forest
from .steps import finish
from .targets import find_targets
from .tuning import Choice
from .uncertainty import Calibration, find_quantiles, standardise

# Growth of the rows held, relative to those at the last solve, after which to solve again; and share of a window that is replaced. What
# a row that leaves a window has said is missed until then. (Right in a stream with a window of 200: 0.84 with a tenth, 0.87 with this,
# 0.91 solved for each row.)
GROWTH, GROWTH_IN_WINDOW = 0.1, 0.03

# The same after a chunk: a solve costs no more than inserting that many rows.
GROWTH_BY_CHUNK = 0.03

# Revisions that are listed, the latest ones.
MOST_REVISIONS = 100


FLAGS = ("in_order", "is_solved", "is_rebuilt", "is_settled")
COUNTS = ("learned_since_solve", "held_at_solve", "held_at_tuning", "seen_at_tuning")

NO_SLOTS = np.empty(0, np.int32)


class JointValues(Values):
    """The duals of a forest, and how they are found.

    Parameters
    ----------
    bandwidth, ridge : float or None
        None: chosen by held-out error.
    seed : int
        For the rows that are held out.

    Attributes
    ----------
    choice : Choice or None
        The bandwidth and ridge in use, from the first row on.
    mean : ndarray of shape (columns,)
        The mean label.
    calibration : Calibration
        How scores become probabilities.
    revisions : list of Revision
    is_solved, is_rebuilt : bool
        Whether duals wait to be found for rows that are new, and for trees that are: if that is interrupted, the next rows make up
        for it.
    is_settled : bool
        Whether nothing has changed since the last solve. Predictions are then read from the totals of leaves, in copies and loaded
        forests too, which have to make them again: sums along paths round differently.
    verbose : bool
        Print what was decided, to standard error.
    """

    revises_coordinates = True
    verbose = False

    def __init__(self, bandwidth: float | None, ridge: float | None, seed: int) -> None:
        self.given_bandwidth = bandwidth
        self.given_ridge = ridge
        self.seed = seed
        self.choice: Choice | None = None
        self.mean = np.zeros(0)
        self.calibration = Calibration()
        self.revisions: list[Revision] = []
        self.step = 1.0  # share of its residual that a row which arrives gets as its dual
        self.unit = np.nan  # median time of the roots' cuts when the bandwidth was chosen
        self.in_order = True  # whether the rows held came in order of time
        self.is_solved = True
        self.is_rebuilt = False
        self.is_settled = False
        self.learned_since_solve = 0
        self.held_at_solve = 0
        self.held_at_tuning = 0
        self.seen_at_tuning = 0
        self.is_stale = False
        self._plan: Plan | None = None  # for the trees that are being built
        self._work: StreamRevision | None = None
        self._totals: np.ndarray | None = None
        self._spread: tuple[np.ndarray, np.ndarray] | None = None

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_totals": None, "_spread": None, "_work": None, "_plan": None}

    def export_state(self) -> dict[str, Any]:
        """Return what is kept beside duals, residuals and sums, as JSON can hold it."""
        return {
            **{name: getattr(self, name) for name in ("given_bandwidth", "given_ridge", "seed", "unit", "step")},
            "choice": None if self.choice is None else list(self.choice),
            "mean": self.mean.tolist(),
            "calibration": list(self.calibration),
            "revisions": [list(revision) for revision in self.revisions],
            **{name: getattr(self, name) for name in (*FLAGS, *COUNTS)},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> JointValues:
        """Return joint values with the state that `export_state` gave."""
        values = cls(state["given_bandwidth"], state["given_ridge"], state["seed"])
        values.choice = None if state["choice"] is None else Choice(*state["choice"])
        values.mean = np.array(state["mean"], float)
        values.calibration = Calibration(*state["calibration"])
        values.revisions = [Revision(*entries) for entries in state["revisions"]]
        for name in ("unit", "step", *FLAGS, *COUNTS):
            setattr(values, name, state[name])
        return values

    def _changed(self) -> None:
        """Drop what is computed from rows and trees."""
        self._totals = self._spread = None
        self.is_settled = False

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    @property
    def is_busy(self) -> bool:
        """Whether a revision is going on, which copies and files cannot hold: see `finish_work`."""
        return self._work is not None

    def finish_work(self) -> None:
        """Finish a revision that is going on."""
        work, self._work = self._work, None
        if work is not None:
            work.finish()

    def choose_coordinates(
        self, forest: OnlineForest, slots: np.ndarray, *, n_seen: int, in_order: bool, interrupts: Interrupts
    ) -> Coordinates:
        """Return coordinates for trees that are about to be built, and keep what else was decided for `built`."""
        self._work = self._plan = None
        self.in_order = in_order
        if self.choice is None or self._is_time_to_tune(n_seen):
            self._plan = finish(plan_revision(self, forest, slots, n_seen), interrupts.poll)
            return self._plan.coordinates
        return find_current(self, forest, slots)

    def built(self, forest: OnlineForest, *, in_order: bool, interrupts: Interrupts) -> None:
        """Solve, with what was decided for these trees."""
        self._changed()
        self.in_order = in_order
        self.is_solved, self.is_rebuilt = False, True
        self._solve(forest, interrupts)

    def converted(self, forest: OnlineForest, interrupts: Interrupts, *, was_busy: bool) -> None:
        """Solve with bandwidth, ridge and metric as they are. A revision that was going on begins again with the next row."""
        if was_busy:
            self.held_at_tuning = 0
        self.built(forest, in_order=self.in_order, interrupts=interrupts)

    def inserted(self, forest: OnlineForest, slots: np.ndarray, interrupts: Interrupts) -> None:
        """Give new rows duals; solve for all, if there are many since the last solve; go on with a revision, or begin one."""
        self._changed()
        if self._work is not None:
            self._work.added(slots)
        self.learned_since_solve += len(slots)
        is_time = self._work is None and self._is_time_to_tune(forest.n_seen)
        if is_time and forest.n_held < LEAST_DECIDING:
            self._scale_few(forest)
        growth = min(self._get_growth(forest), GROWTH if len(slots) == 1 else GROWTH_BY_CHUNK)
        due = not self.is_solved or self.learned_since_solve >= growth * self.held_at_solve
        if (not due or len(slots) == 1) and self.choice is not None and not self.is_rebuilt:
            self._learn_rows(forest, slots)
        if due:
            self.is_solved = False
            self._solve(forest, interrupts)
        if is_time and forest.n_held >= LEAST_DECIDING:
            self._begin_revision(forest, interrupts)
        if self._work is not None:
            self._advance(len(slots))

    def _scale_few(self, forest: OnlineForest) -> None:
        """Build the trees afresh if few rows have doubled, and are not scaled as they should be."""
        self.seen_at_tuning, self.held_at_tuning = forest.n_seen, forest.n_held
        coordinates = find_current(self, forest, forest.rows.held_slots())
        if coordinates is not forest.trees.coordinates:
            forest.rebuild(coordinates)
            self.is_solved, self.is_rebuilt = False, True

    def _begin_revision(self, forest: OnlineForest, interrupts: Interrupts) -> None:
        """Begin a revision; do all of it at once in a forest that is too large to be held twice."""
        self.seen_at_tuning, self.held_at_tuning = forest.n_seen, forest.n_held
        if forest.trees.nbytes <= MOST_ASIDE:
            self._work = StreamRevision(self, forest)
            return
        self._plan = finish(plan_revision(self, forest, forest.rows.held_slots(), forest.n_seen), interrupts.poll)
        if self._plan.coordinates is not forest.trees.coordinates:
            forest.rebuild(self._plan.coordinates)
            self.is_rebuilt = True
        self.is_solved = False
        self._solve(forest, interrupts)

    def _advance(self, n_rows: int) -> None:
        """Go on with a revision. Without memory for it, the forest stays as it is until the next one."""
        assert self._work is not None
        try:
            if self._work.advance(n_rows):
                self._work = None
        except BaseException as error:
            self._work = None
            if not isinstance(error, MemoryError):
                raise

    @staticmethod
    def _get_growth(forest: OnlineForest) -> float:
        return GROWTH if forest.config.window is None else GROWTH_IN_WINDOW

    def _learn_rows(self, forest: OnlineForest, slots: np.ndarray) -> None:
        assert self.choice is not None
        targets = np.array(find_targets(forest, slots), np.float64, order="C")
        learn_rows(forest.trees, slots, targets, self.mean, self.choice, self.step)

    def forgotten(self, forest: OnlineForest, slots: np.ndarray, *, exactly: bool) -> None:
        """Wipe the duals of rows that were forgotten. ``exactly``: everything else is to be found afresh."""
        self._changed()
        arrays = forest.trees.arrays
        arrays.duals[slots] = 0.0
        arrays.residuals[slots] = np.nan
        arrays.stds[slots] = np.nan
        if exactly:
            self.is_stale = True
            self._work = None
        elif self._work is not None:
            self._work.removed(slots)

    def refresh(self, forest: OnlineForest, interrupts: Interrupts = UNPROTECTED) -> None:
        """Find everything that labels have a say in afresh, as if the rows forgotten had never been seen."""
        if not self.is_stale:
            return
        self._changed()
        self._work = None
        fresh = JointValues(self.given_bandwidth, self.given_ridge, self.seed)
        fresh.verbose = self.verbose
        fresh.in_order = self.in_order
        slots = forest.rows.held_slots()
        if len(slots):
            plan = finish(plan_revision(fresh, forest, slots, forest.n_seen), interrupts.poll)
            trees = forest.trees
            # Trees, and how often their random streams were asked, may have depended on labels that are forgotten.
            depended = forest.config.metric or forest.config.scaling == "auto"
            if depended or plan.coordinates is not trees.coordinates:
                streams = make_streams([self.seed, forest.n_seen], trees.n_trees) if depended else trees.get_streams()
                trees = forest.build_beside(plan.coordinates, streams, interrupts.poll)
            solution = finish(solve_forest(fresh, forest, trees, plan, warm=False), interrupts.poll)
            forest.replace_trees(trees)
            fresh.adopt(forest, solution, in_place=True)
        self.__dict__.update(fresh.__dict__)

    def insert_classes(self, arrays: ForestArrays, places: np.ndarray, n_after: int) -> ForestArrays:
        """Return arrays with the label columns of more classes, which no row has had so far. No score changes.

        The column of the second of two classes becomes two columns that add up to 0; those of new classes are 0. The next rows
        bring a solve.
        """
        widened = widen_columns(arrays, places, n_after)
        if len(self.mean):
            first = {1: np.ones(1), 2: np.array([1.0 - self.mean[0], self.mean[0]])}.get(len(places), self.mean)
            mean = np.zeros(n_after)
            mean[places] = first
            self.mean = mean[1:] if n_after == 2 else mean
        self._changed()
        self.is_solved = False
        if self._work is not None:  # its columns are those of fewer classes: begin again with the next row
            self._work, self.held_at_tuning = None, 0
        return widened

    # ------------------------------------------------------------------------------------------------------------------
    # Solving

    def _solve(self, forest: OnlineForest, interrupts: Interrupts) -> None:
        """Solve for the rows held, with what was planned for them, if anything. Nothing is changed before all is found."""
        plan, self._plan = self._plan, None
        if not forest.n_held:
            return
        try:
            solution = finish(solve_forest(self, forest, forest.trees, plan), interrupts.poll)
        except BaseException:
            self.is_stale |= self.is_rebuilt and self.choice is not None  # the duals are those of other trees
            raise
        self.adopt(forest, solution, in_place=True)

    def adopt(
        self,
        forest: OnlineForest,
        solution: Solution,
        come: np.ndarray = NO_SLOTS,
        gone: np.ndarray = NO_SLOTS,
        *,
        in_place: bool = False,
    ) -> None:
        """Take over a solution. Since its rows were collected, those in ``gone`` have gone, and those in ``come`` have come.

        ``in_place``: the trees are still those of its matrix, and have not changed.
        """
        arrays, n_slots = forest.trees.arrays, len(solution.duals)
        totals = empty_totals(forest.trees)  # before anything is changed: there may be no memory for it
        changed = np.concatenate([gone, come])
        changed = changed[changed < n_slots]
        arrays.duals[:n_slots] = solution.duals
        arrays.duals[gone] = arrays.duals[come] = 0.0
        if solution.residuals is not None:
            kept = arrays.residuals[changed]
            arrays.residuals[:n_slots] = solution.residuals
            arrays.residuals[changed] = kept
        if solution.stds is not None:
            arrays.stds[:n_slots] = solution.stds
            arrays.stds[changed] = np.nan
        self.mean, self.choice, self.unit, self.step = solution.mean, solution.choice, solution.unit, solution.step
        self.calibration = solution.calibration or self.calibration
        if in_place and solution.matrix.knows_nodes:
            solution.matrix.add_up(totals, set_sums=True)
        else:
            make_totals(forest.trees, forest.n_held, self.choice.bandwidth, totals, set_sums=True)
        self._changed()
        self._totals = totals
        self.held_at_solve = forest.n_held
        self.learned_since_solve = len(come)
        self.is_solved, self.is_rebuilt, self.is_settled = True, False, True
        if solution.residuals is not None and not len(come):
            self.held_at_tuning, self.seen_at_tuning = forest.n_held, forest.n_seen
        if solution.revision is not None:
            self.revisions = [*self.revisions, solution.revision][-MOST_REVISIONS:]
            if self.verbose and sys.stderr is not None:
                print(solution.revision.describe(), file=sys.stderr)
        if len(come):
            self._changed()
            self._learn_rows(forest, come)

    def _is_time_to_tune(self, n_seen: int) -> bool:
        """Return whether as many rows have come as were held then: they have doubled, or those in a window been replaced."""
        return n_seen - self.seen_at_tuning >= self.held_at_tuning

    # ------------------------------------------------------------------------------------------------------------------
    # Predicting

    def predict(self, forest: OnlineForest, X: np.ndarray) -> np.ndarray:
        """Return the prediction of each label column for each row."""
        return self._predict_with_stds(forest, X, with_stds=False)[0]

    def _predict_with_stds(
        self, forest: OnlineForest, X: np.ndarray, *, with_stds: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the prediction of each label column, and, if asked, its standard deviation, from one walk down the trees.

        The standard deviation is that of the neighbours in all trees, averaged. Rows that came since these were found have none.
        Where no neighbour has one, it is that of all rows.
        """
        assert self.choice is not None
        trees = forest.trees
        totals = None
        if self.is_settled or len(X) >= forest.n_held // 2 > 0:
            if self._totals is None:
                self._totals = make_totals(trees, forest.n_held, self.choice.bandwidth, empty_totals(trees))
            totals = self._totals
        out, sums, counts = sum_values(trees, X, self.choice.bandwidth, totals, with_stds=with_stds)
        out /= trees.n_trees
        out += self.mean
        unknown = np.tile(self._find_overall_std(forest), (len(X), 1)) if (counts == 0).any() else sums
        return out, np.divide(sums, counts, out=unknown, where=counts > 0)

    def _find_overall_std(self, forest: OnlineForest) -> np.ndarray:
        """Return the root mean square of honest residuals, or of centred labels if none is known; NaN without weights."""
        slots = forest.rows.held_slots()
        w = forest.trees.arrays.labels[slots, LABEL_WEIGHT]
        gaps = forest.trees.arrays.residuals[slots]
        known = np.isfinite(gaps).all(axis=1) & (w > 0)
        if not known.any():
            gaps, known = find_targets(forest, slots) - self.mean, w > 0
        if not known.any():
            return np.full(len(self.mean), np.nan)
        scale = np.abs(gaps[known]).max() or 1.0
        return np.sqrt(np.average((gaps[known] / scale) ** 2, axis=0, weights=w[known])) * scale

    def predict_labels(
        self, forest: OnlineForest, X: np.ndarray, *, return_std: bool, q: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return predictions of regression, and, if asked, the standard deviation of the label and its quantiles at ``q``.

        A quantile is the prediction plus its standard deviation times that of standardised residuals.
        """
        predicted, stds = self._predict_with_stds(forest, X, with_stds=return_std or q is not None)
        quantiles = None if q is None else predicted[:, :1] + stds[:, :1] * find_quantiles(self._get_spread(forest), q)
        if forest.config.n_outputs == 1:
            predicted, stds = predicted[:, 0], stds[:, :1].ravel()
        return predicted, stds if return_std else None, quantiles

    def _get_spread(self, forest: OnlineForest) -> tuple[np.ndarray, np.ndarray]:
        """Return standardised residuals of the rows held, and weights."""
        spread = self._spread
        if spread is None:
            arrays, slots = forest.trees.arrays, forest.rows.held_slots()
            w = arrays.labels[slots, LABEL_WEIGHT]
            spread = self._spread = standardise(arrays.residuals[slots, 0], arrays.stds[slots, 0], w)
        return spread

    def predict_proba(self, forest: OnlineForest, X: np.ndarray) -> np.ndarray:
        """Return the probability of each class for each row."""
        return self.calibration.apply(self.predict(forest, X), forest.trees.n_classes)


def widen_columns(arrays: ForestArrays, places: np.ndarray, n_after: int) -> ForestArrays:
    """Return arrays with the label columns of more classes: see `JointValues.insert_classes`."""
    names = ("sums", "duals", "residuals")
    changed: dict[str, Any] = {name: insert_columns(getattr(arrays, name), places, n_after) for name in names}
    return arrays._replace(**changed)


def insert_columns(old: np.ndarray, places: np.ndarray, n_after: int) -> np.ndarray:
    """Return label columns, of deviations from the mean label, with columns of new classes, which are 0 or unknown as the others.

    Class k becomes class ``places[k]``. A single class does not deviate from its mean.
    """
    new = empty((*old.shape[:-1], count_columns(n_after, 1)), np.float64)
    new[:] = 0.0
    if len(places) == 1:
        return new
    new[np.isnan(old[..., 0])] = np.nan
    if len(places) == 2:
        new[..., places[0]], new[..., places[1]] = -old[..., 0], old[..., 0]
    else:
        new[..., places] = old
    return new


def make_values(values: str, bandwidth: Any, ridge: Any, seed: int) -> Values:
    """Return what a forest keeps beside its trees, for the parameters of an interface."""
    if values == "mean":
        return Values()
    fixed_bandwidth, fixed_ridge = (None if isinstance(given, str) else float(given) for given in (bandwidth, ridge))
    return JointValues(fixed_bandwidth, fixed_ridge, seed)
