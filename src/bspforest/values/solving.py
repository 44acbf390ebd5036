"""Solve for the duals of a forest, and find out how uncertain its predictions are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..engine.ensemble import TreeEnsemble
from ..engine.forest import OnlineForest
from .kernel_matrix import KernelMatrix, make_matrix, solve_in_steps
from .planning import LEAST_DECIDING, SAMPLE_ROWS, Plan, Revision, find_least_ridge, find_median_root_time
from .steps import Steps
from .targets import collect_targets
from .tuning import MOST_COLUMNS, Choice, HeldOut, choose_neighbour, prepare, project
from .uncertainty import KNOWN_SHARE, MOST_CALIBRATED, Calibration, calibrate, find_residuals, find_stds

if TYPE_CHECKING:
    from .joint import JointValues

# Trees with which the ridge is corrected once all rows are there, and rows that are held out for it.
CORRECTING_TREES = 16
CORRECTING_ROWS = 20_000

# The bandwidth, in units of the median time of the first cuts, where nothing can be decided.
FIRST_RATIO = 20.0


class Solution(NamedTuple):
    """What a solve finds, by slot. The last three are None if they were not looked for."""

    matrix: KernelMatrix
    duals: np.ndarray
    mean: np.ndarray
    choice: Choice
    unit: float
    step: float
    revision: Revision | None
    residuals: np.ndarray | None
    stds: np.ndarray | None
    calibration: Calibration | None


def solve_forest(
    values: JointValues, forest: OnlineForest, trees: TreeEnsemble, plan: Plan | None, *, warm: bool = True
) -> Steps[Solution]:
    """Find the duals of the rows held, with these trees for them; if there is a plan, also how uncertain predictions are."""
    slots, y, w = collect_targets(forest)
    # Read now: rows may come and go between two steps. Without a choice, residuals were found with labels that are forgotten.
    residuals = np.full(y.shape, np.nan)
    if values.choice is not None:
        residuals[slots] = forest.trees.arrays.residuals[slots]
    n_seen = forest.n_seen
    choice, unit = _find_choice(values, trees, plan)
    matrix = make_matrix(trees, len(slots), choice.bandwidth)
    yield 4 * matrix.count_work(1)
    start = forest.trees.arrays.duals[: len(y)].copy() if warm and values.held_at_solve else None
    if plan is not None and plan.revision is not None and values.given_ridge is None and len(slots) > SAMPLE_ROWS:
        rng = np.random.default_rng([values.seed, n_seen])
        held_out = HeldOut(slots, project(y, rng), w, latest=values.in_order, rng=rng, most=CORRECTING_ROWS)
        some = matrix.first(CORRECTING_TREES)
        choice, found = yield from choose_neighbour(held_out, some, choice, find_least_ridge(forest))
        start = found if y.shape[1] <= MOST_COLUMNS else start
    mean, centred, diagonal = prepare(y, w, choice.ridge)
    duals = yield from solve_in_steps(matrix, centred, diagonal, start=start)
    if plan is None:
        return Solution(matrix, duals, mean, choice, unit, values.step, None, None, None, None)
    revision = None if plan.revision is None else plan.revision._replace(ridge=choice.ridge)
    yield from _complete_residuals(values, matrix, slots, y, w, choice, residuals, [values.seed, n_seen])
    stds, calibration = np.empty((len(y), 0)), values.calibration
    if forest.trees.n_classes:
        known = slots[np.isfinite(residuals[slots, 0])][-MOST_CALIBRATED:]
        calibration = calibrate(y[known] - residuals[known], y[known], w[known], forest.trees.n_classes)
    else:
        found = yield from find_stds(matrix, residuals, w, choice.ridge)
        stds = np.full(y.shape, np.nan)
        stds[slots] = found[slots]
    return Solution(matrix, duals, mean, choice, unit, plan.step, revision, residuals, stds, calibration)


def _find_choice(values: JointValues, trees: TreeEnsemble, plan: Plan | None) -> tuple[Choice, float]:
    """Return bandwidth and ridge for trees, and their median time of the first cuts, in units of which the bandwidth was chosen."""
    choice = values.choice if plan is None else plan.choice
    assert choice is not None
    undecided = values.given_bandwidth is None and np.isnan(choice.error)
    if plan is not None and not undecided:
        return choice, plan.unit  # found in the coordinates of these trees
    if not (values.is_rebuilt or undecided):
        return choice, values.unit
    unit = find_median_root_time(trees)
    known = 0 < unit < np.inf
    if undecided:
        return choice._replace(bandwidth=FIRST_RATIO * unit if known else 1.0), unit
    if values.given_bandwidth is None and known and 0 < values.unit < np.inf:
        choice = choice._replace(bandwidth=choice.bandwidth * unit / values.unit)  # time runs as the scaling says
    return choice, unit


def _complete_residuals(
    values: JointValues,
    matrix: KernelMatrix,
    slots: np.ndarray,
    y: np.ndarray,
    w: np.ndarray,
    choice: Choice,
    residuals: np.ndarray,
    seed: list[int],
) -> Steps[None]:
    """Keep those honest residuals that are of the latest rows; if too few are known, find others by holding rows out."""
    latest = slots[len(slots) // 2 :] if values.in_order else slots
    n_known = np.isfinite(residuals[latest, 0]).sum()
    if n_known >= KNOWN_SHARE * len(slots) and n_known >= LEAST_DECIDING // 2:
        residuals[slots[: len(slots) - len(latest)]] = np.nan  # of a forest that knew less
    elif np.count_nonzero(w[slots]) >= 2:
        residuals[:] = np.nan
        rows, found = yield from find_residuals(matrix, slots, y, w, choice.ridge, latest=values.in_order, seed=seed)
        residuals[rows] = found
