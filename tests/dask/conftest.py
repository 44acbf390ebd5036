from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("distributed")

if "BSPFOREST_CLUSTER" not in os.environ:
    # They start and kill processes, and take a minute on a quiet machine with two cores, and several on a busy one.
    collect_ignore_glob = ["test_*.py"]

from clusters import start_cluster
from distributed import Client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with start_cluster(2) as client:
        yield client


@pytest.fixture(scope="module", params=[1, 2, 3])
def any_client(request) -> Iterator[Client]:
    with start_cluster(request.param) as client:
        yield client
