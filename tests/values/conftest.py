"""What tests of joint values share."""

import pytest

from bspforest.values import joint, kernel_matrix, tuning


@pytest.fixture
def tight(monkeypatch):
    """Let all solves go on until rounding ends them."""
    solve = kernel_matrix.solve

    def solve_tightly(*args, **kwargs):
        return solve(*args, **{**kwargs, "tolerance": 1e-13})

    monkeypatch.setattr(kernel_matrix, "TOLERANCE", 1e-13)
    monkeypatch.setattr(kernel_matrix, "MOST_PRODUCTS", 3000)
    for module in (joint, tuning):
        if hasattr(module, "solve"):
            monkeypatch.setattr(module, "solve", solve_tightly)
