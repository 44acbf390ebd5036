"""A server of a small session, for each test."""

from __future__ import annotations

import threading

import pytest

from bspforest.explore import ExploreServer, Session, make_stream


@pytest.fixture
def server():
    """Return a running server of a session that holds 12 rows."""
    session = Session(make_stream("bumps", 1), n_trees=5)
    session.learn(12, ("bsp-joint", "mondrian-mean"))
    with ExploreServer(session) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
