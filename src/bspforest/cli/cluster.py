"""``--dask``: learn on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .errors import CommandError, UsageError
from .terminal import print_lines

LOCAL = "local:"


@contextmanager
def open_cluster(where: str | None) -> Iterator[Any]:
    """Yield a client of the cluster at an address, or of one of N processes for ``local:N``; None if there is to be none."""
    if where is None:
        yield None
        return
    n_workers = where.removeprefix(LOCAL) if where.startswith(LOCAL) else None
    if n_workers is not None and not (n_workers.isdecimal() and int(n_workers) > 0):
        raise UsageError(f"--dask {where}: local:N needs a number of worker processes")
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise CommandError("--dask needs Dask: pip install 'bspforest[dask]'") from None
    with ExitStack() as stack:
        if n_workers is not None:
            where = stack.enter_context(LocalCluster(n_workers=int(n_workers), threads_per_worker=1, processes=True))
        try:
            client = stack.enter_context(Client(where))
        except (OSError, ValueError) as error:
            raise CommandError(f"--dask {where}: no Dask scheduler answers there ({error})") from None
        print_lines(f"Dask dashboard: {client.dashboard_link}")
        yield client


def move_to_cluster(forest: Any, client: Any) -> Any:
    """Return a forest on a cluster, with the parameters of this one, and all that it has learned."""
    from ..dask import DaskBSPForestClassifier, DaskBSPForestRegressor

    kind = DaskBSPForestClassifier if hasattr(forest, "predict_proba") else DaskBSPForestRegressor
    try:
        return kind.from_local(forest, client)
    except ValueError as error:
        raise UsageError(f"--dask: {error}") from None
