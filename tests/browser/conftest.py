from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsers import start_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with start_browser() as browser:
        yield browser
