"""Call everything that a forest offers in random order, and compare it with a plain model of its rows.

After every call the rows stored must be those of `row_model.RowModel`. Reads, in random order, must then agree with these rows: leaves,
sums over nodes and predictions are recomputed from the trees and the rows by brute force. Copies (pickle, deepcopy, files) make
the same calls and must stay equal bit for bit; nobody but the original is read, given refused rows, or other parameters. Where trees
depend on labels, a forest that has forgotten rows must equal a new one for the same rows.

It failed with the defect of `apply`, which began to read before trees were made whole (IndexError), and with `BSPForest._read` that makes
nothing whole; with duals left in the slots of forgotten rows; with the first row of each chunk not stored; with the last one left out of
the trees (which crashes); with random streams that go on after `forget`; with a window taken from `set_params`; with columns exchanged
where a new category comes; with classes not moved to their places; with keys not wiped. It found that `budget_` after `forget`
depended on what was read first.
"""

from __future__ import annotations

import copy
import math
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import invariants
import numpy as np
import pytest
from agreement import check_apply, check_trees
from answers import check_answers, make_queries
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from recount import check_sums
from row_model import Row, RowModel
from row_source import RowSource
from sklearn.base import clone

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.estimators.encoding import EncodedRows
from bspforest.forest import solver

MAX_ROWS = 40
LABELS = "bdfhj"
NEW_LABELS = "acegi"

SEEDS = st.integers(0, 10**6)
CHUNKS = st.sampled_from([1, 1, 1, 0, 2, 5, 12])

# What is read first after a change, before everything is checked; "nothing": the next change comes before any read.
LOOKS = st.sampled_from(
    ["nothing", "nothing", "apply", "predict", "trees", "held_leaves", "importances", "pickle", "save"]
)

PARAMETERS = st.fixed_dictionaries(
    {
        "n_estimators": st.integers(2, 4),
        "cuts": st.sampled_from(["pairs", "axes", "isotropic"]),
        "prediction": st.sampled_from(["ridge", "mean"]),
        "budget": st.sampled_from(["auto", "minimax", 2.0]),
        "min_samples_split": st.sampled_from(["auto", 2, 5]),
        "scaling": st.sampled_from(["minmax", None, "auto", "quantile"]),
        "feature_weights": st.sampled_from([None, None, "learned"]),
        "bandwidth": st.sampled_from(["auto", 4.0]),
        "ridge": st.sampled_from(["auto", 0.2]),
        "window": st.sampled_from([None, None, None, 15]),
        "max_categories": st.sampled_from([64, 64, 2]),
        "hash_keys": st.booleans(),
        "random_state": st.integers(0, 9),
    }
)

# Parameters that are set on a fitted forest.
CHANGES = st.sampled_from(
    [
        {"window": 3},
        {"window": 3, "scaling": None},
        {"window": None},
        {"prediction": "mean"},
        {"prediction": "ridge"},
        {"cuts": "axes", "min_samples_split": 9},
        {"cuts": "isotropic", "n_estimators": 2},
        {"max_categories": 1, "scaling": "quantile"},
        {"feature_weights": None, "bandwidth": 1.0, "ridge": 3.0},
        {"random_state": 5, "hash_keys": False},
    ]
)


class ForestMachine(RuleBasedStateMachine):
    """A forest, its copies, and the model of its rows."""

    kind: Callable[..., Any]
    classify: bool

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self) -> None:
        """Remove files."""
        self.folder.cleanup()

    # ------------------------------------------------------------------------------------------------------------------
    # Learning

    @initialize(
        parameters=PARAMETERS,
        n_numbers=st.integers(1, 3),
        has_text=st.booleans(),
        has_gaps=st.booleans(),
        n_outputs=st.integers(1, 2),
        n_classes=st.integers(1, 3),
        at_once=st.booleans(),
        n=st.integers(1, 25),
        seed=SEEDS,
    )
    def begin(self, parameters, n_numbers, has_text, has_gaps, n_outputs, n_classes, at_once, n, seed) -> None:
        """Make a forest, and let it learn its first rows."""
        n_outputs = n_outputs if not self.classify and parameters["prediction"] == "ridge" else 1
        classes = LABELS[:n_classes] if self.classify else ""
        self.source = RowSource(n_numbers, has_text=has_text, has_gaps=has_gaps, n_outputs=n_outputs, classes=classes)
        self.parameters: dict[str, Any] = parameters
        self.changed: dict[str, Any] = {}  # parameters set since `fit`
        self.in_order = self.is_solved = self.is_new = False
        self.model = RowModel(self.source.columns, parameters["window"])
        self.forests = [self.kind(**parameters)]
        rows = self.source.make_first(n, seed)
        if at_once:
            self.fit(rows)
            return
        self.learn(rows, **({"classes": list(self.source.classes)} if self.classify else {}))

    def fit(self, rows: list[Row]) -> None:
        """Let all forests learn rows in one batch."""
        self.model = RowModel(self.source.columns, self.parameters["window"])
        self.model.learn(rows)
        for forest in self.forests:
            assert forest.fit(**self.source.make_arguments(rows)) is forest
        if self.classify:
            self.source.classes = "".join(sorted({row.label for row in rows}))
        self.is_solved, self.is_new, self.in_order = True, False, False

    def learn(self, rows: list[Row], **more: Any) -> None:
        """Let all forests learn further rows."""
        if rows:
            self.in_order |= not self.model.rows
            self.is_solved, self.is_new = not self.model.rows, False
        self.model.learn(rows)
        for forest in self.forests:
            assert forest.partial_fit(**self.source.make_arguments(rows), **more) is forest

    @property
    def is_full(self) -> bool:
        return len(self.model.rows) > MAX_ROWS

    @precondition(lambda self: not self.is_full)
    @rule(n=CHUNKS, seed=SEEDS, look=LOOKS)
    def learn_rows(self, n: int, seed: int, look: str) -> None:
        """Learn no row, one, or a chunk."""
        self.learn(self.source.make_rows(n, seed))
        self.look(look)

    @precondition(lambda self: self.classify and not self.is_full and len(self.source.classes) < 5)
    @rule(label=st.sampled_from(NEW_LABELS), n=CHUNKS, seed=SEEDS, look=LOOKS)
    def learn_new_class(self, label: str, n: int, seed: int, look: str) -> None:
        """Learn rows, some of them of a class that comes among those there are; as `bspforest learn` does."""
        before, self.source.classes = self.source.classes, "".join(sorted({*self.source.classes, label}))
        rows = [row._replace(weight=1.0) for row in self.source.make_rows(n, seed)]
        places = np.array([self.source.classes.index(known) for known in before])
        self.model.learn(rows)
        for forest in self.forests:
            given = self.source.make_arguments(rows)
            forest._add_classes(np.array(list(self.source.classes)), places, given["X"], given["y"], given.get("keys"))
        self.is_solved = self.is_new = False
        self.look(look)

    @rule(n=st.integers(1, 20), seed=SEEDS, look=LOOKS)
    def fit_again(self, n: int, seed: int, look: str) -> None:
        """Forget everything: parameters that were set have an effect now, and what was learned has none."""
        self.parameters |= self.changed
        self.changed = {}
        if self.parameters["hash_keys"]:  # each draws salt of its own
            del self.forests[1:]
        for forest in self.forests:
            forest.set_params(**self.parameters)
        if self.source.n_outputs > 1 and self.parameters["prediction"] == "mean":
            self.source.n_outputs = 1
        rows = self.source.make_first(n, seed)
        fresh = clone(self.forests[0])
        assert not hasattr(fresh, "n_samples_")
        self.fit(rows)
        if not self.parameters["hash_keys"]:
            self.compare(self.forests[0], fresh.fit(**self.source.make_arguments(rows)))
        self.look(look)

    # ------------------------------------------------------------------------------------------------------------------
    # Forgetting

    def forget(self, gone: list[int], **given: Any) -> None:
        """Let all forests forget rows: strictly or not, by their number."""
        strict = len(gone) % 2 == 1
        self.model.forget(gone)
        for forest in self.forests:
            assert forest.forget(**given, strict=strict) is forest
        if gone:
            self.is_solved = bool(self.model.rows)
            self.is_new = strict and self.is_solved

    @rule(share=st.sampled_from([0.0, 0.02, 0.3, 0.9]), masked=st.booleans(), seed=SEEDS, look=LOOKS)
    def forget_ids(self, share: float, masked: bool, seed: int, look: str) -> None:
        """Forget one row or more by their ids or with a mask."""
        rng, ids = np.random.default_rng(seed), np.array(list(self.model.rows), int)
        gone = rng.permutation(ids)[: math.ceil(share * len(ids))]
        self.forget(gone.tolist(), ids=np.isin(ids, gone) if masked else gone)
        self.look(look)

    @precondition(lambda self: any(row.key is not None for row in self.model.rows.values()))
    @rule(seed=SEEDS, look=LOOKS)
    def forget_key(self, seed: int, look: str) -> None:
        """Forget all rows with a key."""
        keys = [row.key for row in self.model.rows.values() if row.key is not None]
        key = keys[seed % len(keys)]
        self.forget(self.model.find_ids(key), keys=key)
        self.look(look)

    @precondition(lambda self: len(self.model.rows) > 12)
    @rule(look=LOOKS)
    def forget_all(self, look: str) -> None:
        """Forget all rows."""
        ids = list(self.model.rows)
        self.forget(ids, ids=ids)
        self.look(look)

    # ------------------------------------------------------------------------------------------------------------------
    # Copies and parameters

    def make_copy(self, how: str) -> Any:
        """Return a copy of the forest."""
        forest = self.forests[0]
        if how == "deepcopy":
            return copy.deepcopy(forest)
        if how == "pickle":
            return pickle.loads(pickle.dumps(forest))
        path = Path(self.folder.name) / "forest.bsp"
        forest.save(path, compress=how == "compressed")
        return bspforest.load(path)

    @rule(how=st.sampled_from(["deepcopy", "pickle", "save", "compressed"]), swap=st.booleans())
    def copy_forest(self, how: str, swap: bool) -> None:
        """Make a copy, which makes the same calls from now on; the original may go on as the copy of its copy."""
        self.forests = [self.forests[0], self.make_copy(how)]
        if swap:
            self.forests.reverse()

    @rule(changed=CHANGES, n=CHUNKS, seed=SEEDS, look=LOOKS)
    def set_parameters(self, changed: dict[str, Any], n: int, seed: int, look: str) -> None:
        """Set parameters, which must have no effect on further rows before the next `fit`: a copy goes on without them."""
        if len(self.forests) == 1:
            self.copy_forest("deepcopy", False)
        self.changed |= changed
        self.forests[0].set_params(**changed)
        if not self.is_full:
            self.learn(self.source.make_rows(n, seed))
        self.look(look)

    # ------------------------------------------------------------------------------------------------------------------
    # Calls that must change nothing

    @rule(what=st.sampled_from(["unknown id", "already forgotten", "more than once", "either", "no row that is held"]))
    def refuse_to_forget(self, what: str) -> None:
        """Make a call of `forget` that must be refused wholly."""
        held, n_seen = list(self.model.rows), self.model.n_seen
        gone = sorted({*range(n_seen)} - {*held})
        calls: dict[str, dict] = {
            "unknown id": {"ids": [*held[:2], n_seen]},
            "already forgotten": {"ids": [*held[:2], *gone[:1]]},
            "more than once": {"ids": held[:1] * 2},
            "either": {"ids": held[:1], "keys": "k1"},
            "no row that is held": {"keys": ["k1", "nobody"]},
        }
        if (gone or what != "already forgotten") and (held or what != "more than once"):
            with pytest.raises(ValueError, match=what):
                self.forests[0].forget(**calls[what])

    @rule(what=st.sampled_from(["features", "infinity", "negative", "entries", "y contains"]))
    def refuse_to_learn(self, what: str) -> None:
        """Make a call of `partial_fit` whose last row is bad: no row is learned, nor a category."""
        given = self.source.make_arguments(self.source.make_rows(3, 1))
        bad = np.array(given["X"], dtype=object)
        bad[2, 0] = np.inf
        labels = np.array(given["y"])
        labels[2] = "?" if self.classify else np.nan
        changes: dict[str, dict] = {
            "features": {"X": np.zeros((3, 9))},
            "infinity": {"X": bad if self.source.is_frame else bad.astype(float)},
            "negative": {"sample_weight": [1.0, 2.0, -1.0]},
            "entries": {"keys": ["a", "b"]},
            "y contains": {"y": labels},
        }
        with pytest.raises(ValueError, match=what):
            self.forests[0].partial_fit(**given | changes[what])

    @rule(look=LOOKS)
    def read(self, look: str) -> None:
        """Read the forest, but not its copies."""
        self.read_first(self.forests[0], look)

    def read_first(self, forest: Any, look: str) -> None:
        """Read a forest once. A forest without rows refuses to predict."""
        X = self.source.make_X(self.source.make_rows(3, 2))
        if look in ("apply", "predict"):
            if self.model.rows:
                assert len(getattr(forest, look)(X)) == 3
            else:
                with pytest.raises(ValueError, match="holds no samples"):
                    getattr(forest, look)(X)
        elif look == "trees":
            assert {int(tree.n_points.max(initial=0)) for tree in forest.trees_} == {len(self.model.rows)}
        elif look == "held_leaves":
            assert len(forest.trees_.held_leaves(1)) == len(self.model.rows)
        elif look == "importances":
            shares = forest.feature_importances_
            assert len(shares) == len(forest.feature_weights_) == len(self.source.columns) == forest.n_features_in_
            assert (shares >= 0).all() and (not shares.any() or shares.sum() == pytest.approx(1.0))
        elif look in ("pickle", "save"):
            self.compare(forest, self.make_copy(look))

    # ------------------------------------------------------------------------------------------------------------------
    # Checks

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        """Check the rows stored, which reads no trees."""
        for forest in getattr(self, "forests", []):
            given = {"hash_keys": self.parameters["hash_keys"], "max_categories": self.parameters["max_categories"]}
            self.model.check(forest, **given)

    def look(self, look: str) -> None:
        """Read the forest, and then check that everything agrees, unless nothing is to be read."""
        if look == "nothing":
            return
        forest, uses_ridge = self.forests[0], self.parameters["prediction"] == "ridge"
        self.read_first(forest, look)
        check_apply(forest)
        check_trees(forest)
        forest._read(lambda: invariants.check(forest._forest))
        assert forest.budget_ >= 0.0 and forest.nbytes_ > 0 and hasattr(forest, "revisions_") == uses_ridge
        if uses_ridge:
            check_sums(forest._forest)
        if self.model.rows:
            check_answers(forest, 6, ridge=uses_ridge, is_solved=self.is_solved)
        for other in self.forests[1:]:
            self.compare(forest, other)
        self.compare_with_new()

    def compare(self, one: Any, other: Any) -> None:
        """Check that two forests are equal, bit for bit."""
        assert str(one.held_rows()) == str(other.held_rows()) and one.held_keys() == other.held_keys()
        assert one.encoded_feature_names_ == other.encoded_feature_names_ and one.budget_ == other.budget_
        if self.classify:
            assert one.classes_.tolist() == other.classes_.tolist() == list(self.source.classes)
        if self.model.rows:
            for found, expected in zip(self.read_all(one), self.read_all(other), strict=True):
                np.testing.assert_array_equal(found, expected)

    def read_all(self, forest: Any) -> list[np.ndarray]:
        """Return everything that can be read of a forest that stores rows."""
        X = EncodedRows(make_queries(forest, 6, 0))
        given = self.source.make_X(self.source.make_rows(4, 3))
        read = [forest.apply(X), forest.apply(given), forest.feature_weights_, forest.feature_importances_]
        for tree in forest.trees_:
            read += [tree.children_left, tree.n_points, tree.time, tree.cut_offset, tree.value]
        if self.parameters["prediction"] == "ridge":
            read += [np.array([forest.bandwidth_, forest.ridge_, forest.validation_error_])]
        if self.classify:
            return [*read, forest.predict_proba(X), forest.predict_proba(given), forest.predict(given)]
        read += [*forest.predict(X, return_std=True), forest.predict(given)]
        return read if self.source.n_outputs > 1 else [*read, forest.predict_quantiles(X)]

    def compare_with_new(self) -> None:
        """Check that a forest which has just forgotten rows equals a new one that learned others in their place and forgot these.

        This holds where trees depend on labels: they are then built again with random streams that depend on nothing else.
        """
        window = None if self.parameters["window"] is None else self.model.n_seen  # it bounds the ridge, too
        parameters = {**self.parameters, "window": window}
        depends = parameters["scaling"] == "auto" or parameters["feature_weights"] == "learned"
        varies = (
            len({str(row.label) for row in self.model.rows.values() if row.weight}) > 1
        )  # else rounding decides on settings
        if not (
            self.is_new
            and depends
            and varies
            and parameters["prediction"] == "ridge"
            and parameters["max_categories"] == 64
        ):
            return
        gone = [id_ for id_ in range(self.model.n_seen) if id_ not in self.model.rows]
        others = {id_: self.source.make_filler(k) for k, id_ in enumerate(gone)}
        rows = [(self.model.rows | others)[id_] for id_ in range(self.model.n_seen)]
        forest = self.kind(**parameters)
        given = self.source.make_arguments(rows)
        if self.in_order:
            forest.partial_fit(**given, **({"classes": list(self.source.classes)} if self.classify else {}))
        else:
            forest.fit(**given)
        if self.classify and forest.classes_.tolist() != list(self.source.classes):
            return
        forest.forget(gone, strict=True)
        for found, expected in zip(self.read_all(self.forests[0]), self.read_all(forest), strict=True):
            if found.dtype.kind == "f":  # sums are added in another order
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


class RegressorMachine(ForestMachine):
    kind, classify = BSPForestRegressor, False


class ClassifierMachine(ForestMachine):
    kind, classify = BSPForestClassifier, True


@pytest.mark.parametrize("n_sequences", [12, pytest.param(35, marks=pytest.mark.long)])
@pytest.mark.parametrize("machine", [RegressorMachine, ClassifierMachine])
def test_any_sequence_of_calls(machine, n_sequences, monkeypatch):
    """A forest is what its rows say."""
    monkeypatch.setattr(solver, "TOLERANCE", 1e-13)  # solves go on until rounding ends them
    monkeypatch.setattr(solver, "MAX_PRODUCTS", 3000)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=n_sequences,
            stateful_step_count=20,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
