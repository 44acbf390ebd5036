"""Sums over trees are the same, bit for bit, wherever the trees are."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bspforest.forest.block_sums import fold_share, fold_shares, list_left
from bspforest.forest.kernels.duals import fold

blocks_and_cuts = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(1, n), max_size=5)))


@given(blocks_and_cuts, st.integers(0, 10))
def test_any_division_gives_the_same_sum(division, seed):
    """Failed with blocks added in order where a share is not a whole pair of pairs."""
    n, cuts = division
    blocks = np.random.default_rng(seed).normal(size=(n, 3))
    alone = fold_share(blocks.copy(), 0, n)
    assert len(alone) == 1
    np.testing.assert_allclose(alone[0], blocks.sum(axis=0), rtol=0, atol=1e-12)
    ends = sorted({0, n, *cuts})
    shares = [(a, b, fold_share(blocks[a:b].copy(), a, n)) for a, b in itertools.pairwise(ends)]
    assert fold_shares(shares, n).tobytes() == alone[0].tobytes()
    kernel = blocks[:, None].copy()
    fold(kernel) if not hasattr(fold, "py_func") else fold.py_func(kernel)
    assert kernel[0, 0].tobytes() == alone[0].tobytes()


def test_little_is_left_of_a_share():
    """At most two sums per doubling are left of a share, and one of an aligned one."""
    assert list_left(16, 32, 400) == [16]
    assert all(len(list_left(a, 400, 400)) <= 18 for a in range(400))
