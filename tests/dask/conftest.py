"""One cluster of processes for all tests: a worker takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("distributed")

from clusters import ensure_workers, resize, start_cluster
from distributed import Client


@pytest.fixture(scope="package")
def shared() -> Iterator[Client]:
    with start_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def client(shared) -> Client:
    resize(shared, 2)
    return shared


@pytest.fixture(
    scope="module", params=[pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long), 3]
)
def any_client(request, shared) -> Client:
    resize(shared, request.param)
    return shared


@pytest.fixture
def three(shared) -> Client:
    """A cluster of three workers, of which one may still be being restarted."""
    if len(shared.cluster.worker_spec) < 3:
        shared.cluster.scale(3)
    ensure_workers(shared, 2)
    return shared
