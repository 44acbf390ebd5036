"""What tests of joint values share."""

import pytest

from bspforest.values import kernel_matrix


@pytest.fixture
def tight(monkeypatch):
    """Let all solves go on until rounding ends them."""
    monkeypatch.setattr(kernel_matrix, "TOLERANCE", 1e-13)
    monkeypatch.setattr(kernel_matrix, "MOST_PRODUCTS", 3000)
