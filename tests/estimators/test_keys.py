"""Test rows that are forgotten by key."""

from __future__ import annotations

import gc
import re
import uuid

import numpy as np
import pandas as pd
import pytest

import bspforest
from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.file_content import TREES as PER_TREE
from bspforest.forest.keys import KeyTable
from bspforest.trees.layout import BY_SLOT

rng = np.random.default_rng(0)
X = rng.random((300, 3))
X[17] = [0.123456789, 2.5, 0.777]  # which alone reaches the end of a range
y = rng.random(300)
y[17] = 0.987654321
KEYS = [f"customer-{k // 3:04d}" for k in range(300)]


def collect(root):
    """Return all bytes that a forest holds: arrays, as far as they are in use, text and numbers."""
    seen, pending, parts = set(), [root], []
    while pending:
        one = pending.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        if isinstance(one, bspforest.trees.layout.ForestArrays):  # what lies behind, the system has left there
            for name in one._fields:
                array = getattr(one, name)
                if name in BY_SLOT:
                    parts.append(array[: root._forest.rows.n_slots].tobytes())
                elif name in PER_TREE and PER_TREE[name] is not None:
                    parts += [tree[:n].tobytes() for tree, n in zip(array, one.state[PER_TREE[name]], strict=True)]
                elif isinstance(array, np.ndarray) and name != "links":
                    parts.append(array.tobytes())
        elif isinstance(one, np.ndarray):
            parts.append(one.tobytes())
            pending.append(one.base)
        elif isinstance(one, str | bytes):
            parts.append(one.encode() if isinstance(one, str) else one)
        elif isinstance(one, float):
            parts.append(np.float64(one).tobytes())
        elif isinstance(one, dict | list | tuple | set) or type(one).__module__.startswith("bspforest"):
            pending += gc.get_referents(one)
    return b"".join(parts)


def count(data, *numbers):
    return [data.count(np.float64(number).tobytes()) for number in numbers]


@pytest.mark.parametrize("values", ["ridge", "mean"])
@pytest.mark.parametrize("scaling", ["minmax", "quantile"])
def test_neither_memory_nor_file_hold_what_is_forgotten(values, scaling, tmp_path):
    """Rows in free slots, statistics of free leaves and entries of the key table are overwritten; seen to fail without."""
    forest = BSPForestRegressor(10, prediction=values, scaling=scaling, random_state=0)
    forest.fit(X, y, keys=KEYS).partial_fit(X[:5], y[:5], keys=KEYS[:5])
    forest.save(tmp_path / "m")
    for data in (collect(forest), (tmp_path / "m").read_bytes()):
        assert min(count(data, *X[17], y[17])) > 0 and b"customer-0005" in data
    forest.forget(keys="customer-0005")
    if scaling == "quantile":
        forest.predict(X[:1])  # ranks are found afresh before the next answer
    forest.save(tmp_path / "m")
    for data in (collect(forest), (tmp_path / "m").read_bytes()):
        assert max(count(data, *X[17], y[17])) == 0
        assert b"customer-0005" not in data and b"customer-0006" in data
    assert forest.n_samples_ == 302


def test_all_rows_of_a_key():
    forest = BSPForestRegressor(5, random_state=0).fit(X, y, keys=KEYS)
    forest.partial_fit(X[:4], y[:4], keys=["customer-0005", None, 7, uuid.UUID(int=5)])
    forest.forget(keys=["customer-0005", 7])
    ids = forest.held_rows().ids
    assert forest.n_samples_ == 299 and not {15, 16, 17, 300, 302} & set(ids.tolist())
    keys = forest.held_keys()
    assert keys[0] == "customer-0000" and keys[-2:] == [None, str(uuid.UUID(int=5))]
    fresh = BSPForestRegressor(5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="no row that is held has the key 'customer-0001'"):
        fresh.forget(keys="customer-0001")
    assert fresh.held_keys() == [None] * 300


def test_unknown_keys_are_named_and_nothing_is_forgotten():
    forest = BSPForestRegressor(5, random_state=0).fit(X, y, keys=KEYS)
    with pytest.raises(ValueError, match=re.escape("no row that is held has the keys 'ann', 8")):
        forest.forget(keys=["customer-0005", "ann", 8])
    with pytest.raises(ValueError, match="either ids or keys"):
        forest.forget()
    with pytest.raises(ValueError, match="either ids or keys"):
        forest.forget([1], keys="customer-0005")
    with pytest.raises(ValueError, match="a mask of the rows to forget has shape"):
        forest.forget(np.ones(7, bool))
    assert forest.n_samples_ == 300


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (KEYS[:9], ValueError, "X has 300 rows, but keys has 9 entries"),
        ([1.5] * 300, TypeError, "a key must be text or a whole number, got 1.5 of type float in row 0"),
        ([""] * 300, ValueError, "is empty or holds the character NUL"),
        (["a\0"] * 300, ValueError, "is empty or holds the character NUL"),
        (["\ud800"] * 300, ValueError, "not valid Unicode"),
        (["a" * 300] * 300, ValueError, "has 300 bytes, at most 256 are possible: hash_keys=True"),
    ],
)
def test_bad_keys(keys, error, message):
    forest = BSPForestRegressor(2, random_state=0).fit(X[:9], y[:9])
    with pytest.raises(error, match=message):
        forest.partial_fit(X, y, keys=keys)
    with pytest.raises(error, match=message):
        BSPForestRegressor(2).fit(X, y, keys=keys)
    assert forest.n_samples_ == 9


def test_a_mask_of_the_rows_held():
    forest = BSPForestRegressor(5, random_state=0).fit(X, y).forget(range(10))
    forest.forget(forest.held_rows().X[:, 0] < 0.5)
    assert (forest.held_rows().X[:, 0] >= 0.5).all() and forest.n_samples_ == (X[10:, 0] >= 0.5).sum()


def test_hashed_keys(tmp_path):
    forest = BSPForestClassifier(5, hash_keys=True, random_state=0).fit(X, y > 0.5, keys=KEYS)
    forest.save(tmp_path / "m")
    assert b"customer" not in (tmp_path / "m").read_bytes() and b"customer" not in collect(forest)
    again = bspforest.load(tmp_path / "m")
    assert again.held_keys() == forest.held_keys() and len(set(forest.held_keys())) == 100
    assert again.forget(keys="customer-0005").n_samples_ == 297
    other = BSPForestClassifier(5, hash_keys=True, random_state=0).fit(X, y > 0.5, keys=KEYS)
    assert not set(other.held_keys()) & set(forest.held_keys())  # another salt


def test_files_keep_keys(tmp_path):
    forest = BSPForestRegressor(5, random_state=0).fit(X, y, keys=pd.Series(KEYS)).forget([0, 4])
    forest.partial_fit(X[:2], y[:2])
    forest.save(tmp_path / "m")
    again = bspforest.load(tmp_path / "m")
    assert again.held_keys() == forest.held_keys() == [*KEYS[1:4], *KEYS[5:], None, None]
    assert again.partial_fit(X[:1], y[:1], keys=["longer than the others, ä"]).held_keys()[-1].endswith("ä")
    assert again.forget(keys=KEYS[299]).n_samples_ == 298


def test_keys_in_a_window():
    forest = BSPForestRegressor(5, window=20, random_state=0)
    for k in range(60):
        forest.partial_fit(X[k : k + 1], y[k : k + 1], keys=KEYS[k : k + 1])
    assert forest.held_keys() == KEYS[40:60] and b"customer-0002" not in collect(forest)
    forest.partial_fit(X[100:150], y[100:150], keys=KEYS[100:150])  # more than fit: some are never held
    assert forest.held_keys() == KEYS[130:150] and b"customer-0035" not in collect(forest)
    assert len(forest._forest.keys.entries) < 60


def test_the_table_of_keys_against_a_dict():
    table, known, first = KeyTable(), {}, 5
    for _ in range(200):
        if rng.random() < 0.6:
            keys = [None if rng.random() < 0.3 else "k" * rng.integers(1, 9) for _ in range(rng.integers(1, 6))]
            table.add(first, len(keys), table.encode(keys))
            known |= {first + k: key for k, key in enumerate(keys)}
            first += len(keys) + int(rng.integers(0, 3))
        elif known:
            gone = rng.choice(list(known), min(len(known), 3), replace=False)
            table.wipe(gone)
            for one in gone.tolist():
                del known[one]
        wanted = sorted(one for one, key in known.items() if key == "kk")
        assert table.find(table.encode(["kk"])).tolist() == wanted
        assert table.get(np.array(list(known), dtype=np.int64)) == list(known.values())
        exported = KeyTable.restore(b"", 3, table.export(3, first))
        assert exported.find(exported.encode(["kk"])).tolist() == wanted
