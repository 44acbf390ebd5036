"""Damage and forge model files in many ways. Run as a program by test_validation.py, so that a crash does not end the tests.

Loading must raise a `ModelFileError` or return the forest that was saved. A file forged with correct CRCs may also load
as another valid forest, which is then used until nothing is left of it: an invalid one would crash.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from bspforest import BSPForestClassifier, BSPForestRegressor, ModelFileError, file_content, files, load
from bspforest.trees.layout import NOTHING

KINDS = [
    ("pairs", 0),
    ("axes", 3),
    ("isotropic", 0),
    ("pairs", 0, "ridge"),
    ("axes", 3, "ridge"),
]


def make_forest(cuts: str, n_classes: int, prediction: str = "mean"):
    """Return a forest that has free records, forgotten rows, pending cuts and ties."""
    rng = np.random.default_rng(3)
    n = 120
    X = np.round(rng.random((n, 3)), 2)
    y = rng.integers(0, n_classes or 9, n)
    kind = BSPForestClassifier if n_classes else BSPForestRegressor
    forest = kind(
        3,
        cuts=cuts,
        budget="minimax",
        budget_scale=0.7,
        min_samples_split=4,
        prediction=prediction,
        scaling="minmax",
        feature_weights=None,  # else trees are built afresh after forgetting
        random_state=1,
    )
    forest.fit(X[:80], y[:80])
    for k in range(80, n):
        forest.partial_fit(X[k : k + 1], y[k : k + 1])
    return forest.forget(rng.choice(n, n // 3, replace=False))


class Content:
    """What `save` would write, to be changed: the header, and the arrays by name."""

    def __init__(self, forest) -> None:
        header, arrays = forest._read(lambda: file_content.describe(forest, {"note": "hello"}))
        self.header = {**header, "compressed": False, "bytes": 0}
        self.arrays = {name: array.copy() for name, array in arrays.items()}

    def write(self, path: Path, header: bytes | None = None, compress: bool = False) -> None:
        """Write a file with correct CRCs."""
        data = json.dumps(self.header).encode() if header is None else header
        with open(path, "wb") as file:
            files.write_members(file, data, self.arrays, compress=compress)


def array_of(content: Content, name: str, m: int = 0) -> np.ndarray:
    """Return an array, if it belongs to trees that of tree ``m``; of its records, only those in use."""
    if name not in file_content.TREES:
        return content.arrays[name]
    count = file_content.TREES[name]
    return content.arrays[name][m, : None if count is None else content.arrays["state"][m][count]]


def same(a, b) -> bool:
    """Return whether two forests are the same in everything that a file holds."""
    one, other = Content(a), Content(b)
    return one.header["forest"] == other.header["forest"] and all(
        array.tobytes() == other.arrays[name].tobytes() for name, array in one.arrays.items()
    )


def read_all(forest, X: np.ndarray) -> None:
    """Call everything that reads trees."""
    if forest.n_samples_:
        forest.predict(X)
        forest.apply(X)
        if hasattr(forest, "predict_quantiles"):
            forest.predict(X, return_std=True)
            forest.predict_quantiles(X, [0.1, 0.9])
        list(forest.trees_)


def use_up(forest) -> None:
    """Predict, learn and forget until nothing is left."""
    rng = np.random.default_rng(0)
    d = forest.n_features_in_
    forest.verbose = 0
    y = getattr(forest, "classes_", np.arange(3))
    for n in (1, 40):
        X = rng.random((n, d)) * 1.5
        read_all(forest, X)
        forest.partial_fit(X, y[rng.integers(0, len(y), n)])
    for _ in range(4):
        held = forest._forest.rows.held_ids()
        forest.forget(rng.permutation(held)[: len(held) // 2])
        forest.partial_fit(rng.random((2, d)), y[:2])
    forest.forget(forest._forest.rows.held_ids())


class Judge:
    """Loads files, compressed or not, and counts the outcomes."""

    def __init__(self, folder: Path, compress: bool = False) -> None:
        self.path = folder / "model.bsp"
        self.compress = compress
        self.refused = self.same = self.used = 0
        self.failures: list[str] = []

    def judge(self, what: str, original, must_fail: bool = False, may_differ: bool = False) -> None:
        """Load the file, use what was loaded, and note whatever should not have happened."""
        try:
            forest = load(self.path)
        except ModelFileError as error:
            self.refused += 1
            if str(self.path) not in str(error) or len(str(error)) > 1000:
                self.failures.append(f"{what}: has an unhelpful error: {error}")
            return
        except Exception as error:
            self.failures.append(f"{what}: {type(error).__name__}: {error}")
            return
        if must_fail:
            self.failures.append(f"{what}: was loaded")
        elif may_differ:
            self.used += 1
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    try:
                        use_up(forest)
                    except AssertionError:  # a forged cut is noticed where it is applied, and the trees are built again
                        use_up(forest)
                except Exception as error:
                    self.failures.append(f"{what}: then {type(error).__name__}: {error}")
        elif same(forest, original):
            self.same += 1
        else:
            self.failures.append(f"{what}: loaded as another forest")

    def judge_bytes(self, what: str, data: bytes, original) -> None:
        """Judge a file with these bytes."""
        self.path.write_bytes(data)
        self.judge(what, original)

    def judge_content(self, what: str, content: Content, original, header: bytes | None = None, **how) -> None:
        """Judge a file with this content and correct CRCs."""
        content.write(self.path, header, self.compress)
        self.judge(what, original, **how)


def damage(judge: Judge, forest, rng: np.random.Generator, n: int) -> None:
    """Flip bits anywhere, and truncate the file anywhere."""
    forest.save(judge.path, compress=judge.compress)
    good = judge.path.read_bytes()
    places = [*range(0, 30, 7), *range(len(good) - 22, len(good), 5), *rng.integers(0, len(good), n).tolist()]
    for at in places:
        bad = bytearray(good)
        bad[at] ^= 1 << rng.integers(8)
        judge.judge_bytes(f"bit flipped in byte {at} of {len(good)}", bytes(bad), forest)
    for at in {0, 1, len(good) - 1, *rng.integers(0, len(good), n // 4).tolist()}:
        judge.judge_bytes(f"truncated at {at}", good[:at], forest)
    judge.judge_bytes("zeros", bytes(len(good)), forest)
    judge.judge_bytes("noise", rng.bytes(len(good)), forest)
    a, b = sorted(rng.integers(0, len(good), 2).tolist())
    judge.judge_bytes("zeroed range", good[:a] + bytes(b - a) + good[b:], forest)


ABSURD = (
    -1,
    0,
    1,
    2**31 - 1,
    2**31,
    2**62,
    2**70,
    1e308,
    "x",
    None,
    True,
    [],
    {},
    [1] * 9,
    10**400,
    {"float": "nan"},
    {"float": "inf"},
    {"float": []},
    {"tuple": 5},
    {"array": [], "dtype": "what", "shape": [0]},
    {"array": [2**70], "dtype": "<i8", "shape": [1]},
    {"RandomState": [[1], 2, 3, 4]},
    {"RandomState": 5},
)


def forge_headers(judge: Judge, forest, rng: np.random.Generator, n: int) -> None:
    """Replace, or remove, entries of the header."""
    original = Content(forest).header
    parts = [name for name in ("forest", "parameters", "prediction") if original[name]]
    entries = [(), *((name,) for name in parts)]
    places = [(*path, key) for path in entries for key in (original[path[0]] if path else original)]
    for _ in range(n):
        content = Content(forest)
        *path, key = places[rng.integers(len(places))]
        holder = content.header[path[0]] if path else content.header
        k = int(rng.integers(len(ABSURD) + 1))
        if k == len(ABSURD):
            del holder[key]
        else:
            holder[key] = ABSURD[k]
        what = f"header: {path} {key}=" + (f"{ABSURD[k]!r:.60}" if k < len(ABSURD) else "nothing")
        judge.judge_content(what, content, forest, may_differ=True)
    for text in ("[" * 100_000, "{}", "[]", "1", '{"a": NaN}', "9" * 10_000, "\\", '"\\ud800"'):
        judge.judge_content(f"header {text[:9]}", Content(forest), forest, header=text.encode(), must_fail=True)


def forge_arrays(judge: Judge, forest, rng: np.random.Generator, n: int) -> None:
    """Replace any value in any array by another, or an array by one of another shape or type, with correct CRCs."""
    nasty = {
        "i": [0, -1, 1, -2, 5, 2**31 - 1, NOTHING, NOTHING + 1],
        "u": [0, 1],
        "f": [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, 1e-300, 0.5, 2.0],
    }
    original = Content(forest)
    for _ in range(n):
        content = copy.deepcopy(original)
        name = rng.choice([name for name, array in content.arrays.items() if array.size])
        array = content.arrays[name]
        kind = rng.random()
        if kind < 0.1:  # another shape or type
            changed = (array[:-1], array.ravel(), array[..., np.newaxis], np.zeros(3), np.asfortranarray(array))
            content.arrays[name] = changed[rng.integers(len(changed))]
            judge.judge_content(f"{name} of another shape or type", content, forest, may_differ=True)
            continue
        flat = array.reshape(-1)
        at = rng.integers(len(flat))
        field = rng.choice(array.dtype.names) if array.dtype.names else None
        target = flat[field] if field else flat
        if kind < 0.3:  # swap two entries
            to = rng.integers(len(flat))
            target[at], target[to] = target[to].copy(), target[at].copy()
        else:
            with np.errstate(over="ignore"):
                target[at] = rng.choice(nasty[target.dtype.kind])
        judge.judge_content(f"forged {name} {field or ''} {at}: {target[at]}", content, forest, may_differ=True)


def main() -> None:
    """Judge so many files of each sort and kind of forest: ``hostile.py SEED N [compress]``."""
    os.fsync = lambda fd: None  # only reading is tested here
    rng, n = np.random.default_rng(int(sys.argv[1])), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(Path(folder), compress="compress" in sys.argv[3:])
        for kind in KINDS:
            forest = make_forest(*kind)
            damage(judge, forest, rng, n)
            forge_arrays(judge, forest, rng, n)
            forge_headers(judge, forest, rng, n)
    print(json.dumps({name: getattr(judge, name) for name in ("refused", "same", "used", "failures")}))


if __name__ == "__main__":
    main()
