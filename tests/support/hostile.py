"""Damage and forge model files in many ways. Run as a program by test_validation.py, so that a crash does not end the tests.

Loading must raise a `ModelFileError` or return the forest that was saved. A file forged with correct checksums may also load
as another valid forest, which is then used until nothing is left of it: an invalid one would crash. Or it may load as a
forest that can only predict: its first change must be refused, and must change nothing.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np

from bspforest import BSPForestClassifier, BSPForestRegressor, ModelFileError, load
from bspforest.engine.arrays import NOTHING
from bspforest.persistence.writer import COMMON, PER_TREE, PREAMBLE, Content, make_content, write_content

KINDS = [
    ("pairs", "exact", 0),
    ("axes", "exact", 3),
    ("isotropic", "exact", 0),
    ("pairs", "redraw", 3),
    ("pairs", "exact", 0, "joint"),
    ("axes", "exact", 3, "joint"),
    ("pairs", "exact", 3, "mean", 2),
]


def make_forest(cuts: str, refinement: str, n_classes: int, values: str = "mean", least: int = 4):
    """Return a forest that has free records, forgotten rows, pending cuts and ties; with ``least=2`` also nodes without a box."""
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
        min_samples_split=least,
        refinement=refinement,
        values=values,
        scaling="minmax",
        metric=None,  # else trees are built afresh after forgetting
        random_state=1,
    )
    forest.fit(X[:80], y[:80])
    for k in range(80, n):
        forest.partial_fit(X[k : k + 1], y[k : k + 1])
    return forest.forget(rng.choice(n, n // 3, replace=False))


def copy_content(forest, compress: bool = False) -> Content:
    """Return a copy of what `save` would write, to be changed."""
    content = forest._read_refreshed(lambda: make_content(forest, {"note": "hello"}, compress=compress))
    return content._replace(blocks=[[array.copy() for array in block] for block in content.blocks])


def array_of(content: Content, name: str, m: int = 0) -> np.ndarray:
    """Return an array of the file's content, if it belongs to a tree that of tree ``m``."""
    if name in COMMON:
        return content.blocks[COMMON.index(name)][0]
    return content.blocks[len(COMMON) + m][list(PER_TREE).index(name)]


def with_header(content: Content, change) -> Content:
    """Return the content with a header that ``change`` was applied to."""
    header = json.loads(content.header)
    change(header)
    data = json.dumps(header).encode()
    return content._replace(header=data + b" " * (-len(data) % 8))


def same(a, b) -> bool:
    """Return whether two forests are the same in everything that a file holds."""
    one, other = (forest._read_refreshed(lambda forest=forest: make_content(forest, None)) for forest in (a, b))
    return json.loads(one.header)["forest"] == json.loads(other.header)["forest"] and all(
        x.tobytes() == y.tobytes()
        for p, q in zip(one.blocks, other.blocks, strict=True)
        for x, y in zip(p, q, strict=True)
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
        self.refused = self.refused_late = self.same = self.used = 0
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
            before = pickle.dumps(forest)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    use_up(forest)
                except ModelFileError as error:  # refused before the first change
                    self.used -= 1
                    self.refused_late += 1
                    if str(self.path) not in str(error) or not same(forest, pickle.loads(before)):
                        self.failures.append(f"{what}: was changed, or has an unhelpful error: {error}")
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

    def judge_content(self, what: str, content: Content, original, **how) -> None:
        """Judge a file with this content and correct checksums."""
        write_content(content, self.path, overwrite=True)
        self.judge(what, original, **how)


def damage(judge: Judge, forest, rng: np.random.Generator) -> None:
    """Flip bits in every region, and truncate the file at every boundary."""
    forest.save(judge.path, compress=judge.compress)
    good = judge.path.read_bytes()
    content = make_content(forest, None, compress=judge.compress)
    table_at, n = PREAMBLE.size + len(content.header), len(content.blocks)
    if judge.compress:
        sizes = np.frombuffer(good, np.uint64, n, table_at + 8 * n).tolist()
    else:
        sizes = [a.nbytes for b in content.blocks for a in b]
    ends = np.cumsum([PREAMBLE.size, len(content.header), 8 * n * (1 + judge.compress), *sizes]).astype(int)
    assert ends[-1] == len(good)
    places = [*range(PREAMBLE.size)]
    for start, end in pairwise(ends.tolist()):
        places += [
            start,
            (start + end) // 2,
            max(end - 1, start),
            *rng.integers(start, max(end, start + 1), 6).tolist(),
        ]
    for at in [p for p in places if p < len(good)]:
        bad = bytearray(good)
        bad[at] ^= 1 << rng.integers(8)
        judge.judge_bytes(f"bit flipped in byte {at}", bytes(bad), forest)
    for at in {0, *(int(e) + k for e in ends for k in (-1, 0, 1)), *rng.integers(0, len(good), 30).tolist()}:
        judge.judge_bytes(f"truncated at {at}", good[: max(at, 0)], forest)
    judge.judge_bytes("one byte more", good + b"\0", forest)
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


def forge_headers(judge: Judge, forest) -> None:
    """Replace, and remove, every entry of the header."""
    content = copy_content(forest, judge.compress)
    header = json.loads(content.header)
    for name, part in (
        ("forest", lambda h: h["forest"]),
        ("parameters", lambda h: h["parameters"]),
        ("joint", lambda h: h["forest"]["joint"] or {}),
    ):
        for key in part(header):
            for value in ABSURD:
                forged = with_header(content, lambda h, p=part, k=key, v=value: p(h).__setitem__(k, v))
                judge.judge_content(f"{name}: {key}={value!r}", forged, forest, may_differ=True)
            forged = with_header(content, lambda h, p=part, k=key: p(h).pop(k))
            judge.judge_content(f"{name} without {key}", forged, forest, may_differ=True)
    for key in header:
        for value in ABSURD:
            judge.judge_content(
                f"{key}={value!r}",
                with_header(content, lambda h, k=key, v=value: h.__setitem__(k, v)),
                forest,
                may_differ=True,
            )
        judge.judge_content(f"without {key}", with_header(content, lambda h, k=key: h.pop(k)), forest, may_differ=True)
    for text in ("[" * 100_000, "{}", "[]", "1", '{"a": NaN}', "9" * 10_000, "\\", '"\\ud800"'):
        judge.judge_content(
            f"header {text[:9]}",
            content._replace(header=text.encode() + b" " * (-len(text) % 8)),
            forest,
            must_fail=True,
        )


def forge_arrays(judge: Judge, forest, rng: np.random.Generator, n: int) -> None:
    """Replace any value in any array by another, with correct checksums."""
    nasty = {
        "i": [0, -1, 1, -2, 5, 2**31 - 1, NOTHING, NOTHING + 1],
        "u": [0],
        "f": [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, 1e-300, 0.5, 2.0],
    }
    for _ in range(n):
        content = copy_content(forest, judge.compress)
        block = content.blocks[rng.integers(len(content.blocks))]
        array = block[rng.integers(len(block))]
        if not array.size:
            continue
        flat = array.reshape(-1)
        at = rng.integers(len(flat))
        field = rng.choice(array.dtype.names) if array.dtype.names else None
        target = flat[field] if field else flat
        if rng.random() < 0.2:  # swap two entries
            to = rng.integers(len(flat))
            target[at], target[to] = target[to].copy(), target[at].copy()
        else:
            with np.errstate(over="ignore"):
                target[at] = rng.choice(nasty[target.dtype.kind])
        judge.judge_content(f"forged {field or array.dtype} {at}: {target[at]}", content, forest, may_differ=True)


def main() -> None:
    os.fsync = lambda fd: None  # only reading is tested here
    rng = np.random.default_rng(int(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(Path(folder), compress="compress" in sys.argv[3:])
        for kind in KINDS:
            forest = make_forest(*kind)
            damage(judge, forest, rng)
            forge_arrays(judge, forest, rng, int(sys.argv[2]))
        for kind in KINDS[4:5] if judge.compress else (KINDS[1], KINDS[4]):
            forge_headers(judge, make_forest(*kind))
    counts = {name: getattr(judge, name) for name in ("refused", "refused_late", "same", "used", "failures")}
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
