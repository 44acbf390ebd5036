"""Clusters of real processes on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, LocalCluster

# Seconds to wait for a nanny to restart its worker. Now and then one gives up: another is started then.
RESTARTING, STARTING = 10, 60


@contextmanager
def start_cluster(n_workers: int, **options: Any) -> Iterator[Client]:
    """Start real worker processes of one thread each."""
    with (
        LocalCluster(
            processes=True, n_workers=n_workers, threads_per_worker=1, dashboard_address=None, **options
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(n_workers, timeout=STARTING)
        yield client


def resize(client: Client, n_workers: int) -> None:
    """Start or stop workers until there are so many."""
    client.cluster.scale(n_workers)
    deadline = time.monotonic() + STARTING
    while len(client.scheduler_info(n_workers=-1)["workers"]) != n_workers:
        assert time.monotonic() < deadline, "the cluster does not change its size"
        time.sleep(0.1)


def ensure_workers(client: Client, n_workers: int) -> None:
    """Wait until workers that were killed are there again."""
    try:
        client.wait_for_workers(n_workers, timeout=RESTARTING)
    except TimeoutError:
        missing = n_workers - len(client.scheduler_info(n_workers=-1)["workers"])
        client.cluster.scale(len(client.cluster.workers) + missing)
        client.wait_for_workers(n_workers, timeout=STARTING)


def kill_worker(client: Client, address: str) -> None:
    """Kill the worker at an address; raise KeyError if it is being replaced."""
    pids = {nanny.worker_address: nanny.pid for nanny in client.cluster.workers.values() if nanny.pid}
    os.kill(pids[address], signal.SIGKILL)
