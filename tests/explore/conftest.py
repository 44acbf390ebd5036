"""Servers of a small session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bspforest.explore import ExploreServer, Session, make_stream


@contextmanager
def start_server() -> Iterator[ExploreServer]:
    """Yield a running server of a session that holds 12 rows."""
    session = Session(make_stream("bumps", 1), n_trees=5)
    session.learn(12, ("bsp-ridge", "mondrian-mean"))
    with ExploreServer(session) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server():
    """Return a server for requests that change nothing."""
    with start_server() as server:
        yield server
        assert server.session.n_arrived == 12 and len(server.session.rows) == 12


@pytest.fixture
def own_server():
    """Return a server whose session the test may change."""
    with start_server() as server:
        yield server
