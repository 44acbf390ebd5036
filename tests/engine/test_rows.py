"""Compare the table of rows with a plain dict."""

from __future__ import annotations

import numpy as np
import pytest

from bspforest.engine.rows import RowTable


@pytest.mark.parametrize("seed", range(20))
def test_row_table_agrees_with_a_dict(seed):
    rng = np.random.default_rng(seed)
    table, plain, seen = RowTable(), {}, 0
    for _ in range(200):
        if rng.random() < 0.5 or not plain:
            slots = table.take_slots(int(rng.integers(0, 4)))
            assert not set(slots.tolist()) & set(plain.values())
            table.add(slots)
            plain |= {seen + k: int(slot) for k, slot in enumerate(slots)}
            seen += len(slots)
        elif rng.random() < 0.1:
            table.remove(np.array(list(plain)))
            plain.clear()
            table.skip(3)
            seen += 3
        else:
            n = int(rng.integers(1, len(plain) + 1)) if rng.random() < 0.3 else 1
            ids = table.oldest(n) if rng.random() < 0.5 else rng.choice(list(plain), n, replace=False)
            if rng.random() < 0.5:
                assert table.oldest(n).tolist() == sorted(plain)[:n]
            np.testing.assert_array_equal(table.slots_of(ids), [plain[k] for k in ids.tolist()])
            table.remove(ids)
            for k in ids.tolist():
                del plain[k]
        assert (table.n_seen, table.n_held) == (seen, len(plain))
        assert table.held_ids().tolist() == sorted(plain)
        assert table.held_slots().tolist() == [plain[k] for k in sorted(plain)]
        assert table.slots_of(np.array([-1, seen])).tolist() == [-1, -1]
        assert len(table) == (seen - min(plain) if plain else 0)


def test_memory_of_a_window_is_bounded():
    table = RowTable()
    table.add(table.take_slots(100))
    for _ in range(2000):
        table.remove(table.oldest(1))
        table.add(table.take_slots(1))
        base = table._slots.base
        assert len(table._slots if base is None else base) <= 200
    assert table.n_slots == 100
