"""How large features, labels and weights may be: one rule, checked on input by every interface."""

from __future__ import annotations

from typing import Any

import numpy as np

# Ranges of such features, squares of such labels, and their sums over millions of rows with such weights, are finite.
MAX_MAGNITUDE = 1e100

# For so many numbers, the sum of squares mostly tells in a third of the time. (For more than 10,000, BLAS starts threads.)
FEW = 1000


def is_moderate(numbers: np.ndarray) -> bool:
    """Return whether no number is missing, or larger than `MAX_MAGNITUDE` in absolute value. Nothing is copied."""
    if numbers.size <= FEW and np.vdot(numbers, numbers) <= MAX_MAGNITUDE**2:
        return True
    return not numbers.size or bool(numbers.min() >= -MAX_MAGNITUDE and numbers.max() <= MAX_MAGNITUDE)


def describe_excess(name: str, value: Any) -> str:
    """Return the message for a number that is too large."""
    return f"{name} is {value!r}, but numbers of at most {MAX_MAGNITUDE:g} in absolute value are expected: rescale it first"


def check_magnitude(name: str, numbers: np.ndarray) -> None:
    """Raise if any number is too large; missing ones are passed over. Labels may have several columns."""
    if is_moderate(numbers):
        return
    large = np.abs(numbers) > MAX_MAGNITUDE
    if large.any():
        row = int(np.argmax(large.reshape(len(numbers), -1).any(axis=1)))
        raise ValueError(describe_excess(f"{name} in row {row}", float(numbers[large][0])))


def check_column(name: str, numbers: np.ndarray) -> None:
    """Raise if a number of a feature is infinite or too large; missing ones are passed over."""
    if is_moderate(numbers):
        return
    infinite = np.isinf(numbers)
    if infinite.any():
        raise ValueError(
            f"Input X contains infinity in {name}, row {int(np.argmax(infinite))}; finite numbers, or NaN where one is missing, "
            "are expected."
        )
    check_magnitude(name, numbers)
