"""Modules that need an extra are not collected for their doctests where it is not installed; clusters and browsers come last."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("river") else ["src/bspforest/river"]

# They leave threads behind, whose memory other tests would count.
LAST = {"browser", "dask"}


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.parent.name in LAST)
