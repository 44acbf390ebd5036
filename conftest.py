"""Which modules are collected, in which order tests run, and which of them share a worker."""

import signal
from importlib.util import find_spec

import pytest

# Doctests of modules that need an extra are not collected where it is not installed.
collect_ignore = [] if find_spec("river") else ["src/bspforest/river"]

# Tests of a folder that share a cluster or a browser run on one worker, and last: they leave threads behind, whose memory other
# tests would count, and keep several processors busy by themselves.
LAST = ("dask", "browser")

# A shell starts jobs in the background with SIGINT ignored. Processes that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.parent.name in LAST)
    for item in items:
        if item.path.parent.name in LAST:
            item.add_marker(pytest.mark.xdist_group(item.path.parent.name))
