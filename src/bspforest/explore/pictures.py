"""What a panel of the page shows of a forest, as JSON can hold it: a surface or cells, cuts, and numbers at a place."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..forest.budgets import Answers
from .cells import Cells, find_alive, find_cells
from .learner import Learner

# Places of the surface along each side.
GRID = 64

PREDICTION, UNCERTAINTY = "prediction", "uncertainty"


@dataclass(frozen=True)
class View:
    """What the page shows.

    Attributes
    ----------
    models : tuple of str
        The models of the panels, from left to right.
    shows : {"prediction", "uncertainty"}
    tree : int
        The tree whose cuts are drawn.
    is_tree : bool
        Whether to show what this tree says, not the forest.
    has_cuts : bool
        Whether cuts are drawn.
    budget : float
        The place of the slider from 0, no cuts, to 1, all cuts.
    place : tuple of two float or None
        Where numbers are shown.
    """

    models: tuple[str, ...]
    shows: str = PREDICTION
    tree: int = 0
    is_tree: bool = False
    has_cuts: bool = True
    budget: float = 1.0
    place: tuple[float, float] | None = None

    @property
    def one_tree(self) -> int | None:
        """The tree that answers, or None for the forest."""
        return self.tree if self.is_tree else None


def find_time(learners: list[Learner], budget: float) -> float:
    """Return the time that a place of the slider stands for: between the first and the last cuts of all forests, by ratios.

    At 1 it is infinite. Few cuts come very late, of rows that are very close together: the last hundredth does not count.
    """
    cuts = [times for learner in learners for times in learner.cut_times if len(times)]
    if budget >= 1.0 or not cuts:
        return math.inf
    low, high = 0.9 * min(times[0] for times in cuts), max(np.quantile(times, 0.99) for times in cuts)
    return float(low * (high / low) ** budget)


def make_grid(limits: np.ndarray) -> np.ndarray:
    """Return the centres of `GRID` × `GRID` pixels of the plane, row by row from the top."""
    low, high = limits
    shares = (np.arange(GRID) + 0.5) / GRID
    x, y = (low[k] + shares * (high[k] - low[k]) for k in range(2))
    return np.stack(np.meshgrid(x, y[::-1]), axis=2).reshape(-1, 2)


def draw_panel(learner: Learner, view: View, time: float, limits: np.ndarray) -> dict[str, Any]:
    """Return the picture of a forest that holds rows: ``surface`` or ``cells``, and ``cuts``."""
    picture: dict[str, Any] = {}
    if not view.is_tree:
        shown = _choose(learner.answer(make_grid(limits), time, with_stds=view.shows == UNCERTAINTY), view.shows)
        picture["surface"] = {name: _encode(values) for name, values in shown.items()}
    if view.is_tree or view.has_cuts:
        tree = learner.forest.trees_[view.tree]
        cells = find_cells(tree, limits, time)
        digits = _find_digits(limits)
        picture["cuts"] = [_round_cut(cut, digits) for cut in cells.cuts] if view.has_cuts else []
    if view.is_tree:
        answers = _answer_in_cells(learner, view, time, cells, find_alive(tree, time))
        picture["cells"] = {name: values.tolist() for name, values in _choose(answers, view.shows).items()}
        picture["cells"]["polygons"] = [
            [round(part, n) for corner in polygon for part, n in zip(corner, digits, strict=True)]
            for polygon in cells.polygons
        ]
    return picture


def _find_digits(limits: np.ndarray) -> tuple[int, int]:
    """Return the decimals of x and of y that matter: a hundred-thousandth of the plane is less than a pixel."""
    x, y = (5 - math.floor(math.log10(size)) for size in (limits[1] - limits[0]).tolist())
    return x, y


def _round_cut(cut: tuple[float, float, float, float, float], digits: tuple[int, int]) -> list[float]:
    """Return the ends and the time of a cut, which can be very early."""
    return [*(round(part, n) for part, n in zip(cut[:4], 2 * digits, strict=True)), float(f"{cut[4]:.6g}")]


def _answer_in_cells(learner: Learner, view: View, time: float, cells: Cells, alive: np.ndarray) -> Answers:
    """Return what the tree says in each cell: the same everywhere in it, so that a row there can be asked."""
    nodes = alive[learner.forest.trees_.held_leaves(view.tree)]
    found, first = np.unique(nodes, return_index=True)
    rows = first[np.searchsorted(found, cells.nodes)]
    return learner.answer(learner.forest.held_rows().X[rows], time, view.tree)


def _choose(answers: Answers, shows: str) -> dict[str, np.ndarray]:
    """Return the numbers that are drawn as colours; in classification, also the number of the most probable class.

    The uncertainty of a class is the probability of all others.
    """
    values = answers.values
    if values.ndim == 1:
        return {"values": values if shows == PREDICTION else answers.stds}
    best = values.argmax(axis=1)
    top = values[np.arange(len(values)), best]
    return {"values": top if shows == PREDICTION else 1.0 - top, "best": best}


def _encode(values: np.ndarray) -> str:
    """Return numbers as the base64 text of their bytes: floats of 64 bits, and whole numbers of 8.

    Floats of 32 bits would take half of the 44 kB, but end at 3.4e38, and hide differences among labels such as 1.7e9.
    """
    kind = "<f8" if values.dtype.kind == "f" else "<u1"
    return base64.b64encode(values.astype(kind).tobytes()).decode()


def read_place(learner: Learner, view: View, time: float) -> dict[str, Any] | None:
    """Return the numbers at the place of a view: the prediction and its standard deviation, or the probabilities of classes."""
    if view.place is None or not learner.n_held:
        return None
    answers = learner.answer(np.array([view.place]), time, view.one_tree)
    if answers.values.ndim == 2:
        return {"probabilities": answers.values[0].tolist(), "best": int(answers.values[0].argmax())}
    return {"prediction": float(answers.values[0]), "std": float(answers.stds[0])}
