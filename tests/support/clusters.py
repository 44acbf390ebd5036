"""Clusters of real processes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster


@contextmanager
def start_cluster(n_workers: int) -> Iterator[Client]:
    """Start real worker processes of one thread each."""
    with (
        LocalCluster(processes=True, n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(n_workers)
        yield client
