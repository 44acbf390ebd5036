"""Joint values: all depths of all trees speak, with weights found by ridge regression in the kernel of the forest.

Each row held has a dual, and each node the sum of the duals of its rows. `JointValues` keeps them while rows come and go, solves for
the duals when the rows held have grown by a tenth, and chooses bandwidth and ridge by held-out error when they have doubled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.arrays import LABEL, LABEL_WEIGHT, as_rows
from ..engine.config import count_columns
from ..engine.forest import OnlineForest, Values
from ..engine.interrupts import UNPROTECTED, Interrupts
from ..engine.kernels.joint import learn_duals, set_node_sums, sum_paths, sum_totals
from ..engine.memory import empty
from ..engine.parallel import run_parts
from .kernel_matrix import KernelMatrix, solve
from .neighbours import NeighbourLabels
from .tuning import Choice, HeldOut, choose, prepare

# Rows and trees that bandwidth and ridge are chosen with. (30 trees decide wrongly now and then.)
SAMPLE_ROWS = 10_000
SAMPLE_TREES = 50

# Growth of the rows held, relative to those at the last solve, after which to solve again.
GROWTH = 0.1


class JointValues(Values):
    """The duals of a forest, and how they are found.

    Parameters
    ----------
    bandwidth, ridge : float or None
        None: chosen by held-out error.
    seed : int
        For the rows that are held out.
    """

    def __init__(self, bandwidth: float | None, ridge: float | None, seed: int) -> None:
        self.given_bandwidth = bandwidth
        self.given_ridge = ridge
        self.seed = seed
        self.choice: Choice | None = None
        self.mean = np.zeros(0)
        self.learned_since_solve = 0
        self.held_at_solve = 0
        self.held_at_tuning = 0
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
            "learned_since_solve": self.learned_since_solve,
            "held_at_solve": self.held_at_solve,
            "held_at_tuning": self.held_at_tuning,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> JointValues:
        """Return joint values with the state that `export_state` gave."""
        values = cls(state["given_bandwidth"], state["given_ridge"], state["seed"])
        values.choice = None if state["choice"] is None else Choice(*state["choice"])
        values.mean = np.array(state["mean"], float)
        values.learned_since_solve = state["learned_since_solve"]
        values.held_at_solve = state["held_at_solve"]
        values.held_at_tuning = state["held_at_tuning"]
        return values

    def _changed(self) -> None:
        """Drop what is computed from rows and trees."""
        self._totals = self._neighbours = None

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def built(self, forest: OnlineForest, *, in_order: bool, interrupts: Interrupts) -> None:
        """Choose bandwidth and ridge, and solve: the trees were built from the rows held."""
        self._changed()
        self._tune(forest, in_order, interrupts)
        self._solve(forest, interrupts, warm=False)

    def inserted(self, forest: OnlineForest, slots: np.ndarray, interrupts: Interrupts) -> None:
        """Give new rows duals, or solve for all, if there are many since the last solve."""
        self._changed()
        arrays = forest.trees.arrays
        arrays.duals[slots] = 0.0
        arrays.residuals[slots] = 0.0
        self.learned_since_solve += len(slots)
        if forest.n_held >= 2 * self.held_at_tuning:
            self._tune(forest, True, interrupts)
            self._solve(forest, interrupts, warm=True)
        elif self.learned_since_solve >= GROWTH * self.held_at_solve and len(slots) > 1:
            self._solve(forest, interrupts, warm=True)
        else:
            self._learn_rows(forest, slots)
            if self.learned_since_solve >= GROWTH * self.held_at_solve:
                self._solve(forest, interrupts, warm=True)

    def _learn_rows(self, forest: OnlineForest, slots: np.ndarray) -> None:
        assert self.choice is not None
        k = len(self.mean)
        rows = np.empty((1, forest.config.n_features))
        forest.trees.call(
            learn_duals,
            forest.trees.arrays,
            slots,
            self.targets(forest, slots),
            self.mean,
            self.choice.bandwidth,
            self.choice.ridge,
            rows,
            np.empty(k),
            np.empty(k),
        )

    def forgotten(self, forest: OnlineForest, slots: np.ndarray, *, exactly: bool) -> None:
        """Wipe the duals of rows that were forgotten. ``exactly``: those of the others are to be found afresh."""
        self._changed()
        arrays = forest.trees.arrays
        arrays.duals[slots] = 0.0
        arrays.residuals[slots] = 0.0
        self.is_stale |= exactly

    def refresh(self, forest: OnlineForest, interrupts: Interrupts = UNPROTECTED) -> None:
        """Find the duals afresh, as if the rows forgotten had never been seen."""
        if self.is_stale:
            self._solve(forest, interrupts, warm=False)
            self.is_stale = False

    def add_classes(self, forest: OnlineForest, n: int) -> None:
        """Allow n more classes. All scores stay what they are, 0 for the new classes; the next rows bring a solve."""
        before = forest.trees.n_classes
        arrays = forest.trees.arrays
        wider: dict[str, Any] = {
            name: _add_class_columns(getattr(arrays, name), before, before + n, total=0.0)
            for name in ("sums", "duals", "residuals")
        }
        mean = _add_class_columns(self.mean, before, before + n, total=1.0) if len(self.mean) else self.mean
        super().add_classes(forest, n)
        forest.trees.arrays = forest.trees.arrays._replace(**wider)
        self.mean = mean
        self.held_at_solve = 0
        self._changed()

    # ------------------------------------------------------------------------------------------------------------------
    # Solving

    def targets(self, forest: OnlineForest, slots: np.ndarray) -> np.ndarray:
        """Return the label columns of rows."""
        labels = forest.trees.arrays.labels[slots]
        n_classes = forest.trees.n_classes
        if not n_classes:
            return np.delete(labels, LABEL_WEIGHT, axis=1)
        codes = labels[:, LABEL].astype(np.intp)
        if n_classes == 2:
            return (codes == 1).astype(np.float64)[:, None]
        return np.eye(n_classes)[codes]

    def _collect(self, forest: OnlineForest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the slots of the rows held, and label columns and weights by slot; free slots have no weight."""
        slots = forest.rows.held_slots()
        y = np.zeros((forest.rows.n_slots, forest.trees.arrays.duals.shape[1]))
        w = np.zeros(forest.rows.n_slots)
        y[slots] = self.targets(forest, slots)
        w[slots] = forest.trees.arrays.labels[slots, LABEL_WEIGHT]
        return slots, y, w

    def _tune(self, forest: OnlineForest, in_order: bool, interrupts: Interrupts) -> None:
        slots, y, w = self._collect(forest)
        self.held_at_tuning = len(slots)
        if self.given_bandwidth is not None and self.given_ridge is not None:
            self.choice = Choice(self.given_bandwidth, self.given_ridge, np.nan)
            return
        rng = np.random.default_rng([self.seed, forest.n_seen])
        trees, unit = forest.trees, forest.median_root_time()
        if np.count_nonzero(w) < 2 or not np.isfinite(unit) or unit <= 0:
            self.choice = self.choice or Choice(self.given_bandwidth or 1.0, self.given_ridge or 0.3, np.nan)
            return
        if len(slots) > SAMPLE_ROWS:
            sample = slots[-SAMPLE_ROWS:] if in_order else np.sort(rng.choice(slots, SAMPLE_ROWS, replace=False))
            trees = forest.build_aside(sample, min(SAMPLE_TREES, trees.n_trees), rng)
            slots = sample
        matrix = KernelMatrix(trees, len(slots), range(min(SAMPLE_TREES, trees.n_trees)))
        held_out = HeldOut(matrix, slots, y, w, latest=in_order, rng=rng, poll=interrupts.poll)
        self.choice = choose(held_out, unit, bandwidth=self.given_bandwidth, ridge=self.given_ridge, last=self.choice)

    def _solve(self, forest: OnlineForest, interrupts: Interrupts, *, warm: bool) -> None:
        """Find the duals; nothing is changed before they are found."""
        assert self.choice is not None
        slots, y, w = self._collect(forest)
        arrays = forest.trees.arrays
        matrix = KernelMatrix(forest.trees, len(slots))
        matrix.set_bandwidth(self.choice.bandwidth)
        mean, centred, diagonal = prepare(y, w, self.choice.ridge)
        start = arrays.duals[: len(y)] if warm else None
        duals = solve(matrix, centred, diagonal, start=start, poll=interrupts.poll)
        arrays.duals[: len(y)] = duals
        self.mean = mean
        self._totals = self._make_totals(forest, matrix, set_sums=True)
        self.held_at_solve = len(slots)
        self.learned_since_solve = 0

    def _make_totals(self, forest: OnlineForest, matrix: KernelMatrix, *, set_sums: bool) -> np.ndarray:
        """Return what each tree predicts in each leaf; ``set_sums``: also sum the duals over all nodes."""
        arrays = forest.trees.arrays
        totals = np.zeros((*arrays.leaves.shape, arrays.duals.shape[1]))

        def run(first: int, last: int) -> None:
            prefix, delta = np.empty(matrix.n_rows + 1), np.empty(matrix.n_rows + 1)
            for m in range(first, last):
                tree = matrix.trees[m]
                set_node_sums(
                    arrays,
                    m,
                    tree.slots,
                    tree.starts,
                    tree.ends,
                    tree.weights,
                    tree.nodes,
                    totals[m],
                    prefix,
                    delta,
                    set_sums,
                )

        run_parts(run, forest.trees.n_trees, forest.trees.n_threads, matrix.n_rows * forest.trees.n_trees)
        return totals

    # ------------------------------------------------------------------------------------------------------------------
    # Predicting

    def predict(self, forest: OnlineForest, X: np.ndarray) -> np.ndarray:
        """Return the prediction of each label column for each row."""
        assert self.choice is not None
        trees = forest.trees
        out = np.zeros((len(X), len(self.mean)))
        X = as_rows(X)
        totals = self._totals
        if totals is not None or len(X) >= forest.n_held // 2 > 0:
            if totals is None:
                matrix = KernelMatrix(trees, forest.n_held)
                matrix.set_bandwidth(self.choice.bandwidth)
                totals = self._totals = self._make_totals(forest, matrix, set_sums=False)
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


def _add_class_columns(old: np.ndarray, before: int, after: int, *, total: float) -> np.ndarray:
    """Return label columns of ``after`` classes from those of ``before``; ``total`` is the sum over all classes."""
    new = empty((*old.shape[:-1], count_columns(after, 1)), np.float64)
    new[:] = 0.0
    if before == 2:
        with np.errstate(invalid="ignore"):  # unused nodes may hold anything
            new[..., 0] = total - old[..., 0]
        new[..., 1] = old[..., 0]
    elif after > 2:
        new[..., :before] = old
    return new


def to_probabilities(scores: np.ndarray, n_classes: int) -> np.ndarray:
    """Return class probabilities from scores of least squares: clipped and normalised."""
    if n_classes == 2:
        scores = np.concatenate([1.0 - scores, scores], axis=1)
    clipped = np.clip(scores, 0.001, 1.0)
    return clipped / clipped.sum(axis=1, keepdims=True)
