"""What tests of joint values share."""

import pytest

from bspforest.forest import solver as kernel_matrix


@pytest.fixture
def tight(monkeypatch):
    """Let all solves go on until rounding ends them."""
    monkeypatch.setattr(kernel_matrix, "TOLERANCE", 1e-13)
    monkeypatch.setattr(kernel_matrix, "MAX_PRODUCTS", 3000)
