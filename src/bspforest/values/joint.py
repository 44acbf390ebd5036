"""Joint values: all depths of all trees speak, with weights found by ridge regression in the kernel of the forest.

Each row held has a dual, and each node the sum of the duals of its rows. `JointValues` keeps them while rows come and go, solves for
the duals when the rows held have grown by a tenth, and chooses bandwidth and ridge by held-out error when they have doubled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.arrays import LABEL, LABEL_WEIGHT, PREDICTION_WALKS, ForestArrays, as_rows
from ..engine.config import count_columns
from ..engine.forest import OnlineForest
from ..engine.interrupts import UNPROTECTED, Interrupts
from ..engine.kernels.joint import learn_duals, sum_paths, sum_totals
from ..engine.memory import empty
from ..engine.values import Values
from .kernel_matrix import KernelMatrix, empty_totals, make_totals, solve
from .neighbours import NeighbourLabels
from .sampling import build_aside, find_median_root_time
from .tuning import Choice, HeldOut, choose, choose_neighbour, prepare, project

# Rows and trees that bandwidth and ridge are chosen with. (30 trees decide wrongly now and then.)
SAMPLE_ROWS = 10_000
SAMPLE_TREES = 50

# Trees with which the ridge is corrected once all rows are there.
CORRECTING_TREES = 16

# Growth of the rows held, relative to those at the last solve, after which to solve again; and share of a window that is replaced. What
# a row that leaves a window has said is missed until then. (Right in a stream with a window of 200: 0.84 with a tenth, 0.87 with this,
# 0.91 solved for each row.)
GROWTH, GROWTH_IN_WINDOW = 0.1, 0.03

# Nodes noted of the path of a row that is learned; what is below is walked twice.
NOTED_DEPTH = 63


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
    is_solved, is_rebuilt : bool
        Whether duals wait to be found for rows that are new, and for trees that are: if that is interrupted, the next rows make up
        for it.
    is_settled : bool
        Whether nothing has changed since the last solve. Predictions are then read from the totals of leaves, in copies and loaded
        forests too, which have to make them again: sums along paths round differently.
    """

    def __init__(self, bandwidth: float | None, ridge: float | None, seed: int) -> None:
        self.given_bandwidth = bandwidth
        self.given_ridge = ridge
        self.seed = seed
        self.choice: Choice | None = None
        self.mean = np.zeros(0)
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
        self._totals: np.ndarray | None = None
        self._neighbours: NeighbourLabels | None = None

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_totals": None, "_neighbours": None}

    def export_state(self) -> dict[str, Any]:
        """Return what is kept beside duals, residuals and sums, as JSON can hold it."""
        return {
            "given_bandwidth": self.given_bandwidth,
            "given_ridge": self.given_ridge,
            "seed": self.seed,
            "choice": None if self.choice is None else list(self.choice),
            "mean": self.mean.tolist(),
            "unit": self.unit,
            "in_order": self.in_order,
            "is_solved": self.is_solved,
            "is_rebuilt": self.is_rebuilt,
            "is_settled": self.is_settled,
            "learned_since_solve": self.learned_since_solve,
            "held_at_solve": self.held_at_solve,
            "held_at_tuning": self.held_at_tuning,
            "seen_at_tuning": self.seen_at_tuning,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> JointValues:
        """Return joint values with the state that `export_state` gave."""
        values = cls(state["given_bandwidth"], state["given_ridge"], state["seed"])
        values.choice = None if state["choice"] is None else Choice(*state["choice"])
        values.mean = np.array(state["mean"], float)
        flags = ("in_order", "is_solved", "is_rebuilt", "is_settled")
        counts = ("learned_since_solve", "held_at_solve", "held_at_tuning", "seen_at_tuning")
        for name in ("unit", *flags, *counts):
            setattr(values, name, state[name])
        return values

    def _changed(self) -> None:
        """Drop what is computed from rows and trees."""
        self._totals = self._neighbours = None
        self.is_settled = False

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def built(self, forest: OnlineForest, *, in_order: bool, interrupts: Interrupts) -> None:
        """Choose bandwidth and ridge if the rows have doubled, and solve: the trees were built from the rows held."""
        self._changed()
        self.in_order = in_order
        self.is_solved, self.is_rebuilt = False, True
        try:
            self._revise(forest, interrupts)
        except BaseException:
            self.is_stale = self.choice is not None  # the duals are those of other trees
            raise

    def inserted(self, forest: OnlineForest, slots: np.ndarray, interrupts: Interrupts) -> None:
        """Give new rows duals, or solve for all, if there are many since the last solve."""
        self._changed()
        self.learned_since_solve += len(slots)
        due = (
            not self.is_solved
            or self.learned_since_solve >= self._get_growth(forest) * self.held_at_solve
            or self._is_time_to_tune(forest)
        )
        if (not due or len(slots) == 1) and self.choice is not None:
            self._learn_rows(forest, slots)
        if due:
            self.is_solved = False
            self._revise(forest, interrupts)

    @staticmethod
    def _get_growth(forest: OnlineForest) -> float:
        return GROWTH if forest.config.window is None else GROWTH_IN_WINDOW

    def _learn_rows(self, forest: OnlineForest, slots: np.ndarray) -> None:
        assert self.choice is not None
        k = len(self.mean)
        forest.trees.call(
            learn_duals,
            forest.trees.arrays,
            slots,
            self.targets(forest, slots),
            self.mean,
            self.choice.bandwidth,
            self.choice.ridge,
            np.empty((1, forest.config.n_features)),
            np.empty(k),
            np.empty(k),
            np.empty(2 * PREDICTION_WALKS, np.int64),
            np.empty((forest.trees.n_trees, NOTED_DEPTH + 1), np.int32),
        )

    def forgotten(self, forest: OnlineForest, slots: np.ndarray, *, exactly: bool) -> None:
        """Wipe the duals of rows that were forgotten. ``exactly``: those of the others are to be found afresh."""
        self._changed()
        arrays = forest.trees.arrays
        arrays.duals[slots] = 0.0
        arrays.residuals[slots] = 0.0
        self.is_stale |= exactly

    def refresh(self, forest: OnlineForest, interrupts: Interrupts = UNPROTECTED) -> None:
        """Find everything that labels have a say in afresh, as if the rows forgotten had never been seen."""
        if not self.is_stale:
            return
        self._changed()
        fresh = JointValues(self.given_bandwidth, self.given_ridge, self.seed)
        fresh.in_order = self.in_order
        fresh._revise(forest, interrupts, warm=False)
        forest.trees.arrays.residuals[:] = 0.0  # predicted with labels that are forgotten
        self.__dict__.update(fresh.__dict__)

    def add_classes(self, arrays: ForestArrays, n_before: int, n_after: int) -> ForestArrays:
        """Return arrays with the label columns of more classes, which no row has had so far. No prediction changes.

        The column of the second of two classes becomes two columns that add up to 0; those of new classes are 0. The next rows
        bring a solve.
        """
        self._changed()
        self.is_solved = False
        n_columns = count_columns(n_after, 1)

        def widen(old: np.ndarray) -> np.ndarray:
            new = empty((*old.shape[:-1], n_columns), np.float64)
            new[:] = 0.0
            if n_before == 2 and n_columns > 1:
                new[..., 0], new[..., 1] = -old[..., 0], old[..., 0]
            elif n_before > 2:
                new[..., :n_before] = old
            return new

        if n_columns == len(self.mean) and n_before > 1:
            return arrays
        names = ("sums", "duals", "residuals")
        changed: dict[str, Any] = {name: widen(getattr(arrays, name)) for name in names}
        mean = np.zeros(n_columns)
        if len(self.mean):
            first = {1: [1.0], 2: [1.0 - self.mean[0], self.mean[0]]}.get(n_before, self.mean.tolist())
            mean[: len(first)] = first if n_columns > 1 else 0.0
            self.mean = mean
        return arrays._replace(**changed)

    # ------------------------------------------------------------------------------------------------------------------
    # Solving

    def targets(self, forest: OnlineForest, slots: np.ndarray) -> np.ndarray:
        """Return the label columns of rows."""
        labels = forest.trees.arrays.labels[slots]
        n_classes = forest.trees.n_classes
        if not n_classes:
            return np.delete(labels, LABEL_WEIGHT, axis=1)
        codes = labels[:, LABEL].astype(np.intp)
        if n_classes <= 2:
            return (codes == n_classes - 1).astype(np.float64)[:, None]
        return np.eye(n_classes)[codes]

    def _collect(self, forest: OnlineForest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the slots of the rows held, and label columns and weights by slot; free slots have no weight."""
        slots = forest.rows.held_slots()
        y = np.zeros((forest.rows.n_slots, forest.trees.arrays.duals.shape[1]))
        w = np.zeros(forest.rows.n_slots)
        y[slots] = self.targets(forest, slots)
        w[slots] = forest.trees.arrays.labels[slots, LABEL_WEIGHT]
        return slots, y, w

    def _revise(self, forest: OnlineForest, interrupts: Interrupts, *, warm: bool = True) -> None:
        """Choose bandwidth and ridge, if it is time, and solve. Nothing is changed before all is found."""
        slots, y, w = self._collect(forest)
        if not len(slots):
            return
        unit, choice = self.unit, self.choice
        start = forest.trees.arrays.duals[: len(y)] if warm and self.held_at_solve else None
        is_due = choice is None or self._is_time_to_tune(forest)
        if is_due or self.is_rebuilt:
            unit = find_median_root_time(forest.trees)
        matrix = None
        if choice is None or is_due:
            choice = self._tune(forest, slots, y, w, unit, interrupts)
            matrix = KernelMatrix(forest.trees, len(slots), choice.bandwidth)
            if self.given_ridge is None and len(slots) > SAMPLE_ROWS:
                rng = self._make_rng(forest)
                held_out = HeldOut(slots, project(y, rng), w, latest=self.in_order, rng=rng, poll=interrupts.poll)
                choice = choose_neighbour(held_out, matrix.first(CORRECTING_TREES), choice)
        elif self.is_rebuilt and self.given_bandwidth is None and 0 < unit < np.inf and 0 < self.unit < np.inf:
            choice = choice._replace(bandwidth=choice.bandwidth * unit / self.unit)  # time runs as the scaling says
        if matrix is None:
            matrix = KernelMatrix(forest.trees, len(slots), choice.bandwidth)
        mean, centred, diagonal = prepare(y, w, choice.ridge)
        duals = solve(matrix, centred, diagonal, start=start, poll=interrupts.poll)
        knows_nodes = matrix.knows_nodes
        if knows_nodes:
            totals = empty_totals(forest.trees)  # before anything is changed: there may be no memory for it
        else:
            del matrix
        forest.trees.arrays.duals[: len(y)] = duals
        self.mean, self.choice, self.unit = mean, choice, unit
        if knows_nodes:
            matrix.add_up(totals, set_sums=True)
            self._totals = totals
        else:
            self._totals = make_totals(forest.trees, len(slots), choice.bandwidth, set_sums=True)
        self.held_at_solve = len(slots)
        if is_due:
            self.held_at_tuning, self.seen_at_tuning = len(slots), forest.n_seen
        self.learned_since_solve = 0
        self.is_solved, self.is_rebuilt, self.is_settled = True, False, True

    def _is_time_to_tune(self, forest: OnlineForest) -> bool:
        """Return whether as many rows have come as were held then: they have doubled, or those in a window been replaced."""
        return forest.n_seen - self.seen_at_tuning >= self.held_at_tuning

    def _make_rng(self, forest: OnlineForest) -> np.random.Generator:
        return np.random.default_rng([self.seed, forest.n_seen])

    def _tune(
        self, forest: OnlineForest, slots: np.ndarray, y: np.ndarray, w: np.ndarray, unit: float, interrupts: Interrupts
    ) -> Choice:
        """Choose bandwidth and ridge on a sample of the rows held."""
        if self.given_bandwidth is not None and self.given_ridge is not None:
            return Choice(self.given_bandwidth, self.given_ridge, np.nan)
        if np.count_nonzero(w) < 2 or not 0 < unit < np.inf:
            return self.choice or Choice(self.given_bandwidth or 1.0, self.given_ridge or 0.3, np.nan)
        rng = self._make_rng(forest)
        trees, n_trees = forest.trees, min(SAMPLE_TREES, forest.trees.n_trees)
        if len(slots) > SAMPLE_ROWS:
            slots = slots[-SAMPLE_ROWS:] if self.in_order else np.sort(rng.choice(slots, SAMPLE_ROWS, replace=False))
            trees = build_aside(forest, slots, n_trees, rng)
        held_out = HeldOut(slots, project(y, rng), w, latest=self.in_order, rng=rng, poll=interrupts.poll)
        matrix = KernelMatrix(trees, len(slots), self.given_bandwidth or unit, n_trees)
        return choose(held_out, matrix, unit, bandwidth=self.given_bandwidth, ridge=self.given_ridge, last=self.choice)

    # ------------------------------------------------------------------------------------------------------------------
    # Predicting

    def predict(self, forest: OnlineForest, X: np.ndarray) -> np.ndarray:
        """Return the prediction of each label column for each row."""
        assert self.choice is not None
        trees = forest.trees
        out = np.zeros((len(X), len(self.mean)))
        X = as_rows(X)
        if self.is_settled or len(X) >= forest.n_held // 2 > 0:
            totals = self._totals
            if totals is None:
                totals = self._totals = make_totals(trees, forest.n_held, self.choice.bandwidth)
            trees.read_rows(lambda a, b, *scratch: sum_totals(trees.arrays, X, a, b, totals, out, *scratch), len(X))
        else:
            bandwidth = self.choice.bandwidth
            trees.read_rows(
                lambda a, b, rows, found, walks: sum_paths(trees.arrays, X, a, b, bandwidth, out, rows, found), len(X)
            )
        out /= trees.n_trees
        out += self.mean
        return out

    def predict_labels(self, forest: OnlineForest, X: np.ndarray, *, return_std: bool) -> Any:
        """Return predictions of regression, with the standard deviation of the label if asked."""
        predicted = self.predict(forest, X)
        if forest.config.n_outputs == 1:
            predicted = predicted[:, 0]
        if not return_std:
            return predicted
        stds = self._get_neighbours(forest).stds(forest, X)
        return predicted, stds[:, 0] if forest.config.n_outputs == 1 else stds

    def predict_quantiles(self, forest: OnlineForest, X: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return quantiles of the label around its prediction."""
        return self.predict(forest, X)[:, :1] + self._get_neighbours(forest).centred_quantiles(forest, X, q)

    def _get_neighbours(self, forest: OnlineForest) -> NeighbourLabels:
        """Return the labels near any row, kept until something changes."""
        neighbours = self._neighbours
        if neighbours is None:
            targets = self.targets(forest, forest.rows.held_slots())
            neighbours = self._neighbours = NeighbourLabels(forest, targets)
        return neighbours


def make_values(values: str, bandwidth: Any, ridge: Any, seed: int) -> Values:
    """Return what a forest keeps beside its trees, for the parameters of an interface."""
    if values == "mean":
        return Values()
    fixed_bandwidth, fixed_ridge = (None if isinstance(given, str) else float(given) for given in (bandwidth, ridge))
    return JointValues(fixed_bandwidth, fixed_ridge, seed)


def to_probabilities(scores: np.ndarray, n_classes: int) -> np.ndarray:
    """Return class probabilities from scores of least squares: clipped and normalised."""
    if n_classes == 2:
        scores = np.concatenate([1.0 - scores, scores], axis=1)
    clipped = np.clip(scores, 0.001, 1.0)
    return clipped / clipped.sum(axis=1, keepdims=True)
