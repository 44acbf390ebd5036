"""Compare the table of rows with a plain dict."""

from __future__ import annotations

import numpy as np
import pytest

from bspforest.forest.rows import RowTable


def unpack(table: RowTable) -> tuple[list[int], list[int], list[int]]:
    return table.held_ids().tolist(), table.held_slots().tolist(), table.free[: table.n_free].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_row_table_agrees_with_a_dict(seed):
    rng = np.random.default_rng(seed)
    table, plain, seen = RowTable(), {}, 0
    for _ in range(200):
        before, known = table, unpack(table)
        if not plain and rng.random() < 0.2:
            table, seen = table.add(table.take_slots(0), skipped=2), seen + 2
        elif rng.random() < 0.5 or not plain:
            slots = table.take_slots(int(rng.integers(0, 4)))
            assert not set(slots.tolist()) & set(plain.values())
            if rng.random() < 0.2:
                table.add(slots)  # given up: the record in use does not notice
                continue
            table = table.add(slots)
            plain |= {seen + k: int(slot) for k, slot in enumerate(slots)}
            seen += len(slots)
        elif rng.random() < 0.1:
            slots = table.take_slots(2)
            table = table.add(slots, skipped=3).remove(np.array(list(plain)))
            plain = {seen + 3 + k: int(slot) for k, slot in enumerate(slots)}
            seen += 5
        else:
            n = int(rng.integers(1, len(plain) + 1)) if rng.random() < 0.3 else 1
            ids = table.oldest(n) if rng.random() < 0.5 else rng.choice(list(plain), n, replace=False)
            if rng.random() < 0.5:
                assert table.oldest(n).tolist() == sorted(plain)[:n]
            np.testing.assert_array_equal(table.slots_of(ids), [plain[k] for k in ids.tolist()])
            table = table.remove(ids)
            for k in ids.tolist():
                del plain[k]
        assert unpack(before) == known, "a record never changes"
        assert (table.n_seen, table.n_held) == (seen, len(plain))
        assert table.held_ids().tolist() == sorted(plain)
        assert table.held_slots().tolist() == [plain[k] for k in sorted(plain)]
        assert table.slots_of(np.array([-1, seen])).tolist() == [-1, -1]
        assert table.n_ids == (seen - min(plain) if plain else 0)
        assert table.n_slots == table.n_held + table.n_free


def test_a_row_that_takes_the_place_of_another_gets_another_slot():
    """Trees still have the row that leaves when the rows are replaced."""
    table = RowTable()
    table = table.add(table.take_slots(3))
    slots = table.take_slots(1)
    table = table.add(slots).remove(table.oldest(1))
    assert slots.tolist() == [3] and table.held_slots().tolist() == [1, 2, 3] and table.take_slots(1).tolist() == [0]


def test_memory_of_a_window_is_bounded():
    table = RowTable()
    table = table.add(table.take_slots(100))
    for _ in range(2000):
        slots = table.take_slots(1)
        table = table.add(slots).remove(table.oldest(1))
        base = table.slots.base
        assert len(table.slots if base is None else base) <= 200
    assert table.n_slots == 101
