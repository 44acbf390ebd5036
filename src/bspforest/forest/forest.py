"""The online forest behind every interface. Rows are the truth; trees and answers are caches that can be made again.

A change replaces the record of the rows that are stored, and then brings trees and answers up to date. While it does, the
forest is ``torn``. If anything raises there, it stays so, and `OnlineForest.make_whole` builds trees and answers again from the
rows: nothing is rolled back.

Who owns what. All arrays of rows have one entry per slot, and as many slots as `TreeEnsemble.make_room` makes room for.

==========================================  ==========================  ==============================================
what                                        owner                       replaced, or written to
==========================================  ==========================  ==============================================
which rows are stored: ids, slots           ``rows``, a `RowTable`      replaced by each change
keys                                        ``keys``, a `KeyTable`      written to
labels, weights, residuals, standard        ``labels``, `Labels`        written to; replaced for more room, or classes
deviations
features, as given and as cut               ``trees``                   written to; replaced for more room
terms of rows (duals of ridge regression,   ``trees``                   written to by kernels and by the prediction
terms of leaf means), and their sums
cuts, boxes, leaves, coordinates            ``trees``                   written to by kernels; coordinates replaced
settings, mean label, search going on,      ``prediction``              replaced; the totals of leaves are dropped by
totals of leaves                                                        each change
the budget in use                           the forest
==========================================  ==========================  ==============================================

`OnlineForest` trusts its input (finite float64 rows, class indices from 0), which the interfaces check.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..progress import SILENT, Progress
from ..trees.coordinates import Coordinates
from ..trees.layout import allocate
from ..trees.scaling import coincide_in_float32, reaches_ends
from ..trees.trees import TreeEnsemble, make_streams
from .config import FAMILIES, MAX_ROWS, ForestConfig, count_columns
from .held_out import Order
from .keys import KeyTable
from .leaf_means import count_terms
from .rows import Labels, RowTable

if TYPE_CHECKING:
    from .means import MeanPrediction
    from .ridge import RidgePrediction
    from .settings import Settings

# (row, tree) pairs changed between two chances to be interrupted: about a second.
BLOCK = 1_000_000

# Share of a window that leaves at once. (Right in a stream with a window of 200: 0.84 with a tenth, 0.87 with this, 0.91 row by row.)
LEAVING_SHARE = 0.03

# A chunk of at least so many rows, and at least this fraction of the rows stored, may be learned by building all trees again.
REBUILD_FROM = 512
REBUILD_SHARE = 7


def allocate_trees(config: ForestConfig, streams: np.ndarray) -> TreeEnsemble:
    """Return empty trees, one per random stream, that hold no rows."""
    return TreeEnsemble(
        allocate(
            family=config.first_family,
            min_split=config.min_samples_split,
            n_features=config.n_features,
            streams=streams,
            n_terms=config.n_columns or count_terms(config.n_classes),
            sums_nodes=config.n_columns > 0,
        )
    )


class OnlineForest:
    """A forest that stores rows, learns, forgets and predicts.

    Parameters
    ----------
    config : ForestConfig
    seed : numpy.random.SeedSequence
    prediction : MeanPrediction or RidgePrediction
    make_trees : callable or None
        Returns empty trees for a configuration and random streams; None: `allocate_trees`.

    Attributes
    ----------
    rows : RowTable
        Which rows are stored, and in which slots of the arrays. It is replaced as a whole.
    keys : KeyTable
        What the user calls them.
    labels : Labels
        Their labels and weights, by slot.
    trees : TreeEnsemble
    prediction : MeanPrediction or RidgePrediction
        The prediction rule, and what it keeps beside the trees.
    budget : float
        The budget in use.
    torn : bool
        Whether trees and duals may disagree with the rows: `make_whole` must be called before anything is read.
    stale : bool
        Whether predictions depend on labels that are forgotten: `make_whole` finds them again.
    """

    def __init__(
        self,
        config: ForestConfig,
        seed: np.random.SeedSequence,
        prediction: MeanPrediction | RidgePrediction,
        make_trees: Callable[[ForestConfig, np.ndarray], TreeEnsemble] | None = None,
    ) -> None:
        self.config = config
        self.trees = (make_trees or allocate_trees)(config, make_streams(seed, config.n_trees))
        self.prediction = prediction
        self.rows = RowTable()
        self.keys = KeyTable()
        self.labels = Labels.empty(config.n_classes, config.n_outputs, config.n_columns)
        self.budget = 0.0
        self.held_at_scaling = 0  # rows stored when the scaling was last looked at
        self.learned_since = 0  # rows learned since then
        self.torn = self.stale = False
        self.trees.set_coordinates(config.make_coordinates())

    # ------------------------------------------------------------------------------------------------------------------
    # Rows stored

    @property
    def n_seen(self) -> int:
        return self.rows.n_seen

    @property
    def n_held(self) -> int:
        return self.rows.n_held

    @property
    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """The range of features that is scaled to [0, 1]."""
        return self.trees.coordinates.low, self.trees.coordinates.high

    @property
    def cuts(self) -> str:
        """The family of cuts in use."""
        return next(name for name, family in FAMILIES.items() if family == self.trees.coordinates.family)

    def held_rows(self) -> np.ndarray:
        """Return the rows stored, oldest first, as they were given."""
        return self.trees.given[self.rows.held_slots()]

    def held_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return labels, of shape (rows, outputs), and weights of the rows stored, oldest first."""
        slots = self.rows.held_slots()
        return self.y[slots], self.weights[slots]

    @property
    def y(self) -> np.ndarray:
        """Labels by slot, of shape (slots, outputs); indices of classes."""
        return self.labels.y

    @property
    def weights(self) -> np.ndarray:
        """Sample weights by slot."""
        return self.labels.weights

    @property
    def residuals(self) -> np.ndarray:
        """Out-of-sample residuals by slot, of shape (slots, label columns); NaN if unknown."""
        return self.labels.residuals

    @property
    def stds(self) -> np.ndarray:
        """Standard deviations of labels near each row, by slot, of shape (slots, outputs); NaN if unknown."""
        return self.labels.stds

    @property
    def duals(self) -> np.ndarray:
        """Duals of ridge regression by slot, of shape (slots, label columns): the terms that rows carry."""
        return self.trees.arrays.terms

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    def learn(
        self,
        X: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        progress: Progress = SILENT,
        *,
        keys: np.ndarray | None = None,
        order: Order = "stream",
    ) -> None:
        """Learn rows, which came in this ``order``: all of them, or none if this raises before they are stored.

        Whether they were is told by `n_seen`. Rows that do not fit the window are skipped.
        """
        if not len(X):
            return
        self.make_whole()
        before, window = self.rows, self.config.window
        skipped = max(0, len(X) - window) if window is not None else 0
        if skipped:
            X, y, w = X[skipped:], y[skipped:], w[skipped:]
        n = len(X)
        leaving = self._count_leaving(n)
        budget = self._find_budget(before.n_held, before.n_held - leaving + n)
        slots = before.take_slots(n)
        self._make_room(max(before.n_slots, int(slots[-1]) + 1), spare=before.n_held > 0)
        places = _as_slice(slots)
        self.trees.store(places, X)
        self.labels.store(places, y, w)
        after, gone = before.add(slots, skipped), slots[:0]
        if leaving:
            leavers = before.oldest(leaving)
            gone, after = before.slots_of(leavers), after.remove(leavers)
        self.keys.add(before.n_seen + skipped, n, None if keys is None else keys[skipped:])
        self.torn = True
        self.rows = after
        if leaving:
            self.keys.wipe(leavers)
        self._update(gone, slots, budget, progress, order)
        self.torn = False

    def _count_leaving(self, n: int) -> int:
        """Return how many of the rows stored, the oldest ones, leave when n more come.

        Ridge predictions miss what a row has said until they are solved for again. So rows leave in blocks, just before that.
        """
        limits = self.config.window, self.prediction.find_max_rows(self.n_seen + n)
        most = min((limit for limit in limits if limit is not None), default=MAX_ROWS)
        n_held = self.n_held
        if n_held + n <= most:
            return 0
        kept = most - int(LEAVING_SHARE * most) if self.prediction.is_ridge else most
        return min(n_held, n_held + n - kept)

    def _make_room(self, n_slots: int, *, spare: bool) -> None:
        """Make room for rows in ``n_slots`` slots."""
        self.trees.make_room(n_slots, spare=spare)
        capacity = len(self.trees.arrays.rows)
        if len(self.labels.y) < capacity:
            self.labels = self.labels.resize(capacity)

    def ask_budget(self, n_more: int = 0, n_less: int = 0) -> None:
        """Call the user's budget, if there is one, for the rows stored after a change: it may read the forest meanwhile."""
        window, held = self.config.window, self.n_held
        for n in (held, held + n_more - n_less if window is None else min(held + n_more, window) - n_less):
            if n > 0:
                self.config.budget(n)

    def _find_budget(self, n_before: int, n_after: int) -> float:
        """Return the budget for ``n_after`` rows; raise if it is less than for the ``n_before``, not more, stored now."""
        before = self.config.budget(n_before) if n_before else 0.0
        budget = self.config.budget(n_after)
        if budget < before:
            raise ValueError(
                f"budget must not decrease with the number of rows held, but it is {before!r} for {n_before} rows "
                f"and {budget!r} for {n_after}"
            )
        return budget

    def _update(self, gone: np.ndarray, slots: np.ndarray, budget: float, progress: Progress, order: Order) -> None:
        """Bring trees and predictions up to date, once rows in ``gone`` have left and rows in ``slots`` have come."""
        stayed = self.n_held - len(slots)
        if stayed == 0:
            self._build_all(order, progress)
            return
        if self._builds(len(slots), stayed):
            self._build_all(order, SILENT)
            progress.advance(len(slots))
            return
        # Rows leave once the new ones are predicted. After forgetting, the budget stays where it was until the number of rows has caught up.
        self.budget = max(self.budget, budget)
        for some in self._split(slots):
            self.prediction.carry(self, some)
            self.trees.insert(some, self.budget)
            progress.advance(len(some))
        self.prediction.learn(self, slots, n_leaving=len(gone))
        if len(gone):
            self._remove(gone)
        self.learned_since += len(slots)
        if not self.prediction.is_ridge and self.learned_since >= self.held_at_scaling:
            self._revise_scaling()
        revised = self.prediction.revise(self, len(slots), must_solve=len(gone) > 0)
        if revised is not None:
            self._revise(*revised)

    def _builds(self, n: int, stayed: int) -> bool:
        """Return whether to build all trees again for n more rows rather than insert these.

        Ridge regression must then solve again anyway, and building is faster from a seventh of the rows on. Leaf means keep
        their trees, but for many rows that are closer together than boxes can tell: boxes are float32, and where all candidates
        fall into their rounding, rows are inserted one by one. (49,000 rows took 23 s with 100 trees, against 1 s for building.)
        """
        if n < REBUILD_FROM or REBUILD_SHARE * n < stayed:
            return False
        if self.config.n_columns:
            return True
        shift, scale = self.trees.arrays.scaling
        rows = self.trees.arrays.rows[self.rows.held_slots()[-n:][:: n // REBUILD_FROM]]
        return coincide_in_float32((rows - shift) * scale)

    def _split(self, slots: np.ndarray) -> list[np.ndarray]:
        """Return slots in blocks, between which Python may raise."""
        size = max(256, BLOCK // self.trees.n_trees)
        return [slots] if len(slots) <= size else np.split(slots, range(size, len(slots), size))

    def _remove(self, slots: np.ndarray) -> None:
        """Remove rows that are stored no longer from trees, and their duals."""
        for some in self._split(slots):
            self.trees.remove(some)
        self._wipe_duals(slots)

    # ------------------------------------------------------------------------------------------------------------------
    # Building from the rows stored

    def make_whole(self) -> None:
        """Bring trees and duals into agreement with the rows, if they are not. This can be interrupted, and begin again."""
        if not (self.torn or self.stale):
            return
        must_build, self.torn = self.torn, True
        if must_build:
            self.trees.drop()  # first, so that there is memory to build
            self._follow_classes()
            self.trees.reset_terms(self._n_terms)
            self._wipe_free()
        elif not self.prediction.is_ridge:
            self.prediction.recentre(self)
            self.torn = self.stale = False
            return
        if self.stale:
            if self._trees_depend_on_labels:
                # Trees, and how often their random streams were asked, may have depended on labels that are forgotten.
                self.trees.set_streams(make_streams([self.prediction.seed, self.n_seen], self.trees.n_trees))
                must_build = True
            self.stale = False
        self._build_all(self.prediction.order, SILENT, must_build=must_build)
        self.torn = False

    def _wipe_duals(self, slots: np.ndarray) -> None:
        """Wipe what was found for rows that are stored no longer."""
        self.duals[slots] = 0.0
        self.residuals[slots] = self.stds[slots] = np.nan

    def _wipe_free(self) -> None:
        """Wipe all that is left of rows that are not stored, or were not stored in the end."""
        self.keys.keep(self.rows.held_ids())
        _, free = self.rows.export_slots(min(self.rows.n_slots, len(self.trees.arrays.rows)))
        self._wipe_duals(free)
        self.trees.wipe_rows(free)
        self.labels.wipe(free)

    def _build_all(self, order: Order, progress: Progress, *, must_build: bool = True) -> None:
        """Build all trees from the rows stored, and solve for their duals; without ``must_build`` only if coordinates change."""
        slots = self.rows.held_slots()
        if not len(slots):
            self.trees.clear()
            self.trees.set_coordinates(self.config.make_coordinates())
            return
        self._revise(*self.prediction.prepare(self, order=order), progress, must_build=must_build)

    def _revise(
        self,
        coordinates: Coordinates,
        decided: Settings | None,
        progress: Progress = SILENT,
        *,
        must_build: bool = False,
    ) -> None:
        """Build the trees if they must be built, or coordinates change; then solve for their duals."""
        must_build |= not self.trees.coordinates.is_equal(coordinates)
        if must_build:
            self.build(coordinates, progress)
        self.prediction.solve(self, decided)

    def build(self, coordinates: Coordinates, progress: Progress = SILENT) -> None:
        """Build all trees from the rows stored, in these coordinates."""
        self.budget = self.config.budget(self.n_held)
        self.trees.set_coordinates(coordinates)
        self.trees.build(self.rows.held_slots(), self.budget, progress)
        self.held_at_scaling, self.learned_since = self.n_held, 0

    def fit_coordinates(self, slots: np.ndarray, kind: str | None = None) -> Coordinates:
        """Return coordinates for the rows in some slots: scaled in this way, or as the configuration says, to begin with."""
        first = self.config.make_coordinates()
        if not self.config.is_scaled_by_rows:
            return first
        return Coordinates.fit(kind or self.config.scaling_kind, self.trees.given, slots).like(first)

    def _revise_scaling(self, *, always: bool = False) -> None:
        """If the scaling is off, or ``always`` if it is not that of the rows stored, build the trees again with a new one."""
        used = self.trees.coordinates
        if self.config.is_scaled_by_rows:
            new = self.fit_coordinates(self.rows.held_slots(), used.kind).like(used)
            if always or not used.is_close(new):
                self.build(new)
        self.held_at_scaling, self.learned_since = self.n_held, 0

    # ------------------------------------------------------------------------------------------------------------------
    # Forgetting

    def forget(self, ids: np.ndarray, *, strict: bool = False) -> None:
        """Forget rows, which must be stored, each named once: all of them, or none if this raises before.

        ``strict``: settings that were chosen with them are dropped, not kept until others are found.
        Trees of a forest that is torn are not touched: with little memory, forgetting rows comes before building.
        """
        if not len(ids) and not (strict and self.prediction.n_forgotten):
            return
        left = self.n_held - len(ids)
        if left and (budget := self.config.budget(left)) > self.budget and not self.torn:
            raise ValueError(
                f"budget must not decrease with the number of rows held, but it is {budget!r} for {left} rows "
                f"and {self.budget!r} now"
            )
        slots, after = self.rows.slots_of(ids), self.rows.remove(ids)
        at_end = self._find_ends(slots)
        stale, prediction = self.prediction.remembers_labels, self.prediction.forget(len(ids), left, strict=strict)
        keeps_trees = not self.torn and not (stale and self._trees_depend_on_labels)
        self.torn = True
        self.prediction, self.stale, self.rows = prediction, self.stale or stale, after
        self.keys.wipe(ids)
        if keeps_trees:
            self._remove(slots)
            if not left:
                self.trees.set_coordinates(self.config.make_coordinates())
            elif len(at_end) and not self._reaches_ends(at_end):
                self._revise_scaling(always=True)
        self.trees.wipe_rows(slots)
        self.labels.wipe(slots)
        self.torn = not keeps_trees

    @property
    def _trees_depend_on_labels(self) -> bool:
        """Whether trees are cut in coordinates that were chosen by labels."""
        return self.config.learns_weights or self.config.chooses_scaling or self.config.cuts == "auto"

    def _find_ends(self, slots: np.ndarray) -> np.ndarray:
        """Return the features whose scaling depends on rows at the ends of ranges, or, with ranks, on all rows."""
        used = self.trees.coordinates
        if not self.config.is_scaled_by_rows:
            return np.empty(0, np.intp)
        if used.uses_ranks:
            return np.arange(0 if self.prediction.is_ridge else self.config.n_features)
        X = self.trees.arrays.rows[slots]
        return np.flatnonzero(((used.low == X) | (used.high == X)).any(axis=0))

    def _reaches_ends(self, features: np.ndarray) -> bool:
        """Return whether the rows stored still reach both ends of the range of these features."""
        used = self.trees.coordinates
        if used.uses_ranks:
            return False
        return reaches_ends(self.trees.arrays.rows, self.rows.held_slots(), features, (used.low, used.high))

    # ------------------------------------------------------------------------------------------------------------------
    # Copies and classes

    def snapshot(self) -> OnlineForest:
        """Return a copy that shares no arrays with this forest and holds no trace of rows that are forgotten."""
        other = self.copy_without_trees()
        n_slots = min(self.rows.n_slots, len(self.trees.arrays.rows))
        _, free = self.rows.export_slots(n_slots)
        other.trees = self.trees.snapshot(n_slots, free)
        other.labels = self.labels.copy(n_slots, free)
        return other

    def copy_without_trees(self) -> OnlineForest:
        """Return a copy that still shares its trees with this forest."""
        other = copy(self)
        other.rows, other.keys, other.prediction = self.rows.copy(), self.keys.copy(), copy(self.prediction)
        return other

    def add_classes(self, n: int) -> None:
        """Allow n more classes, which no row has had so far, after those there are."""
        before = self.config.n_classes
        self.insert_classes(np.arange(before), before + n)

    def insert_classes(self, places: np.ndarray, n_after: int) -> None:
        """Allow more classes, which no row has had so far, among those there are; class k becomes class ``places[k]``.

        Predictions are those of a forest with the same trees that had all ``n_after`` classes from the beginning. Nothing has
        changed if memory runs out.
        """
        self.make_whole()
        widen = self.prediction.widen(places, n_after)
        slots, y, old = self.rows.held_slots(), self.y.copy(), self.labels
        y[slots, 0] = places[y[slots, 0].astype(np.intp)]
        labels = Labels(n_after, y, old.weights, widen(old.residuals), old.stds)
        self.torn = True
        self.trees.map_terms(widen)
        self.labels = labels
        self._follow_classes()
        self.prediction.insert_classes(places, n_after)
        self.torn = False

    @property
    def _n_terms(self) -> int:
        """How many terms rows carry."""
        return self.config.n_columns or count_terms(self.config.n_classes)

    def _follow_classes(self) -> None:
        """Let the configuration have as many classes as the labels."""
        n_classes = self.labels.n_classes
        n_columns = count_columns(n_classes, self.config.n_outputs) if self.config.n_columns else 0
        self.config = replace(self.config, n_classes=n_classes, n_columns=n_columns)


def _as_slice(slots: np.ndarray) -> slice | np.ndarray:
    """Return slots as a slice if they follow each other: writing to it takes a tenth of the time."""
    first, n = int(slots[0]), len(slots)
    if n == 1 or (slots[-1] - first == n - 1 and bool((np.diff(slots) == 1).all())):
        return slice(first, first + n)
    return slots
